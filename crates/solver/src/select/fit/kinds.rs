//! Blocks as kinds: those that need the same and may go to the same nodes are interchangeable, which
//! makes the searches of [`fit`](super) much smaller.

use std::collections::BTreeMap;

use super::super::frame::Place;
use super::super::ids::{BlockId, NodeRank};
use super::super::index::sort_key;
use super::super::meter::Meter;
use super::super::state::State;
use super::Fit;
use super::decreasing::Packed;
use crate::problem::Scope;

/// Pairs of a block and a node. More would take longer to read than to search.
const PAIRS_MAX: usize = 1_000_000;
/// Blocks of one search; they are counted in 16 bits.
const BLOCKS_MAX: usize = 20_000;

/// Blocks and nodes with amounts in units of their greatest common divisor.
pub(super) struct Kinds {
    pub dims: usize,
    pub kinds: Vec<Kind>,
    nodes: Vec<NodeRank>,
    /// `[node * dims + dimension]`
    pub left: Vec<u64>,
    /// `[node * kinds + kind]`: may it go there at all, and is the node large enough for it?
    admits: Vec<bool>,
    /// All places are known, so that what is not found here does not exist.
    whole: bool,
}

pub(super) struct Kind {
    members: Vec<Member>,
    pub demand: Vec<u64>,
    /// Kinds that it must not share a node with; itself too if no two of it may.
    pub apart: Vec<usize>,
    /// The nodes that admit it.
    pub nodes: Vec<usize>,
    /// The greatest share of a node of average size, in thousandths: how hard it is to place.
    pub size: u64,
}

struct Member {
    block: BlockId,
    /// Where it was, or runs; [`NodeRank::NONE`] if nowhere.
    home: NodeRank,
}

/// By what blocks are told apart.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    demand: Vec<u64>,
    apart: Vec<u32>,
    places: Vec<NodeRank>,
}

impl Kinds {
    /// `homes` are where the blocks were before. `None` if there are too many to look at.
    pub(super) fn of(
        state: &State<'_>,
        blocks: &[BlockId],
        homes: Vec<NodeRank>,
        meter: &mut Meter<'_>,
    ) -> Option<Kinds> {
        let frame = state.frame;
        let mut grouped: BTreeMap<Key, Vec<Member>> = BTreeMap::new();
        let (mut whole, mut pairs) = (true, 0);
        if blocks.len() > BLOCKS_MAX {
            return None;
        }
        for (number, home) in blocks.iter().zip(homes) {
            let block = &frame.blocks[*number];
            let (listed, left_out) = frame.indices[block.index as usize].zone(0);
            whole &= left_out.is_none();
            pairs += listed.len();
            if pairs > PAIRS_MAX {
                return None;
            }
            meter.spend(listed.len() as u64 / 2);
            let allowed = |place: &&Place| block.skip.binary_search(&place.node).is_err();
            let places = listed.iter().filter(allowed).chain(&block.extra);
            let places = places.filter(|place| state.admits(block, place)).map(|place| place.node);
            let mut places: Vec<NodeRank> = places.collect();
            places.sort_unstable();
            places.dedup();
            let apart = block.apart.iter().copied();
            let apart = apart.filter(|group| frame.apart[*group as usize].scope == Scope::Node);
            // A block whose demand is beyond all numbers has no places either.
            let demand = block.demand.as_deref().unwrap_or_default().to_vec();
            let key = Key { demand, apart: apart.collect(), places };
            grouped.entry(key).or_default().push(Member { block: *number, home });
        }
        let mut kinds = Kinds::with_nodes(state, &grouped);
        kinds.whole = whole;
        kinds.add_kinds(grouped);
        Some(kinds)
    }

    fn with_nodes(state: &State<'_>, grouped: &BTreeMap<Key, Vec<Member>>) -> Kinds {
        let mut nodes: Vec<NodeRank> =
            grouped.keys().flat_map(|key| key.places.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let dims = state.frame.dims;
        let left = nodes.iter().flat_map(|node| state.left(*node)).copied().collect();
        let mut kinds =
            Kinds { dims, kinds: Vec::new(), nodes, left, admits: Vec::new(), whole: true };
        // Whatever is packed uses multiples of the divisor: what is left beyond is of no use.
        for dim in 0..dims {
            let demands = grouped.keys().filter_map(|key| key.demand.get(dim)).copied();
            let divisor = demands.fold(0, common_divisor).max(1);
            kinds.left.iter_mut().skip(dim).step_by(dims).for_each(|left| *left /= divisor);
        }
        kinds
    }

    fn add_kinds(&mut self, grouped: BTreeMap<Key, Vec<Member>>) {
        let mut divisors = vec![0; self.dims];
        for key in grouped.keys() {
            for (divisor, demand) in divisors.iter_mut().zip(&key.demand) {
                *divisor = common_divisor(*divisor, *demand);
            }
        }
        let keys: Vec<&Key> = grouped.keys().collect();
        let apart_of = |own: usize| -> Vec<usize> {
            let shares =
                |other: &Key| other.apart.iter().any(|group| keys[own].apart.contains(group));
            let others = keys.iter().enumerate().filter(|(_, other)| shares(other));
            others.map(|(other, _)| other).collect()
        };
        let apart: Vec<Vec<usize>> = (0..keys.len()).map(apart_of).collect();
        let count = grouped.len();
        self.admits = vec![false; self.nodes.len() * count];
        let room: Vec<u64> = (0..self.dims).map(|dim| self.total_left(dim).max(1)).collect();
        let bins = self.nodes.len() as u64;
        for ((number, (key, members)), apart) in grouped.into_iter().enumerate().zip(apart) {
            let rank = |node: &NodeRank| self.nodes.binary_search(node).ok();
            let nodes: Vec<usize> = key.places.iter().filter_map(rank).collect();
            for node in &nodes {
                self.admits[node * count + number] = true;
            }
            let demand: Vec<u64> =
                key.demand.iter().zip(&divisors).map(|(d, g)| d / (*g).max(1)).collect();
            let share = |(demand, room): (&u64, &u64)| {
                u128::from(*demand) * 1000 * u128::from(bins) / u128::from(*room)
            };
            let size = demand.iter().zip(&room).map(share).max().unwrap_or(0);
            let size = u64::try_from(size).unwrap_or(u64::MAX);
            self.kinds.push(Kind { members, demand, apart, nodes, size });
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn admits(&self, node: usize, kind: usize) -> bool {
        self.admits[node * self.kinds.len() + kind]
    }

    pub(super) fn count(&self, kind: usize) -> usize {
        self.kinds[kind].members.len()
    }

    /// Whether somebody has no node at all, or all together need more of something than is left.
    pub(super) fn short(&self) -> bool {
        let needed = |dim: usize| -> u128 {
            let each = self.kinds.iter().filter_map(|kind| {
                Some(u128::from(*kind.demand.get(dim)?) * kind.members.len() as u128)
            });
            each.sum()
        };
        self.kinds.iter().any(|kind| kind.nodes.is_empty())
            || (0..self.dims).any(|dim| {
                let left = self.left.iter().skip(dim).step_by(self.dims);
                needed(dim) > left.map(|left| u128::from(*left)).sum()
            })
    }

    fn total_left(&self, dim: usize) -> u64 {
        self.left.iter().skip(dim).step_by(self.dims).fold(0, |sum, left| sum.saturating_add(*left))
    }

    /// What is proven of the nodes that were looked at is proven if those are all.
    pub(super) fn verdict(&self, proven: Fit) -> Fit {
        if self.whole { proven } else { Fit::Unknown }
    }

    /// Everybody who has a home is there.
    pub(super) fn as_it_was(&self) -> Packed {
        let mut packed = Packed::new(self);
        for (number, kind) in self.kinds.iter().enumerate() {
            let homes = kind.members.iter().filter_map(|m| self.nodes.binary_search(&m.home).ok());
            for node in homes.filter(|node| self.admits(*node, number)) {
                if packed.fits(self, node, number) {
                    packed.put(self, node, number);
                }
            }
        }
        packed
    }

    /// Puts the members of each kind on the nodes `at[kind]`; who can stay at home does.
    pub(super) fn put(&self, state: &mut State<'_>, at: &[Vec<usize>]) -> Fit {
        let mut done = Vec::new();
        for (kind, nodes) in self.kinds.iter().zip(at) {
            let mut nodes: Vec<NodeRank> = nodes.iter().map(|node| self.nodes[*node]).collect();
            let mut moved = Vec::new();
            let mut pairs = Vec::with_capacity(nodes.len());
            for member in &kind.members {
                match nodes.iter().position(|node| *node == member.home) {
                    Some(found) => pairs.push((member.block, nodes.swap_remove(found))),
                    None => moved.push(member.block),
                }
            }
            pairs.extend(moved.into_iter().zip(nodes));
            for (block, node) in pairs {
                let place = place_on(state, block, node);
                if !place.is_some_and(|place| state.place(block, place)) {
                    for block in done {
                        state.take(block);
                    }
                    return Fit::Unknown;
                }
                done.push(block);
            }
        }
        Fit::Found
    }
}

/// The best place of a block on a node.
fn place_on(state: &State<'_>, number: BlockId, node: NodeRank) -> Option<Place> {
    let block = &state.frame.blocks[number];
    let own = block.extra.iter().filter(|place| place.node == node).min_by_key(|p| sort_key(p));
    if own.is_some() || block.skip.binary_search(&node).is_ok() {
        return own.copied();
    }
    let (listed, _) = state.frame.indices[block.index as usize].zone(0);
    listed.iter().find(|place| place.node == node).copied()
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
