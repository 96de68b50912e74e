//! Readers of topologies that other systems write. The native one needs no reader: it is Site, Node
//! and Link documents. Called by `match --topology` and by the matchmaking facade.

mod icos;

use tombolo_model::{Link, Node, Site, Trouble};

pub use icos::icos;

/// Sites, nodes and links from a file, and what of it could not be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    pub sites: Vec<Site>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub troubles: Vec<Trouble>,
}
