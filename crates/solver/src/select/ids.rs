//! Numbers that the search uses for itself. A [`NodeRank`] is not a
//! [`NodeId`](crate::problem::NodeId): the search numbers nodes and zones in the order of their
//! names, whatever order they arrived in, and goes back only to write down its answer.

use super::frame::{Block, Edge};
use crate::problem::ids::{ids, pointing};

ids! {
    /// A node in the order of names.
    pub(super) NodeRank
    /// A zone in the order of names.
    pub(super) ZoneRank
    /// Items that share a node: index into [`Frame::blocks`](super::frame::Frame).
    pub(super) BlockId
    /// Index into [`Frame::edges`](super::frame::Frame).
    pub(super) EdgeId
}

pointing! {
    BlockId: Vec<Block> => Block;
    EdgeId: Vec<Edge> => Edge;
    NodeRank: Vec<ZoneRank> => ZoneRank;
}

impl NodeRank {
    /// No node: the place of a block that has none.
    pub(super) const NONE: NodeRank = NodeRank(u32::MAX);
}

impl BlockId {
    /// No block: the end of a list.
    pub(super) const NOBODY: BlockId = BlockId(u32::MAX);
}

impl ZoneRank {
    /// Any zone, for blocks whose zone does not matter.
    pub(super) const ANYWHERE: ZoneRank = ZoneRank(u32::MAX);
    /// All zones that were looked into but not kept.
    pub(super) const ELSEWHERE: ZoneRank = ZoneRank(u32::MAX - 1);
}
