//! The candidates of a class, sorted so that the best come first: over all zones for blocks whose
//! zone does not matter, zone by zone for the others. Built by [`Frame::new`](super::frame::Frame).

use std::collections::{BTreeMap, BTreeSet};

use super::frame::{Block, Frame, Place};
use super::ids::{BlockId, NodeRank};
use super::order::narrow;
use crate::problem::{Candidate, Item, NodeId};

/// Of a list that is cut, so many of each zone are kept at least.
const KEEP_LEAST: usize = 16;

/// Less than any value.
pub(super) const NOTHING: i64 = i64::MIN;

#[derive(Debug, Default)]
pub(super) struct Index {
    /// Where each zone starts, and the end; two numbers if zones do not matter.
    starts: Vec<u32>,
    places: Vec<Place>,
    /// The best value of each zone that was not kept.
    left_out: Vec<Option<i64>>,
    /// The best value of each zone, [`NOTHING`] if it has none.
    best: Vec<i64>,
    /// What each of its blocks needs at least.
    least: Vec<u64>,
}

impl Index {
    pub(super) fn zone(&self, zone: usize) -> (&[Place], Option<i64>) {
        let (start, end) = (self.starts[zone] as usize, self.starts[zone + 1] as usize);
        (&self.places[start..end], self.left_out[zone])
    }

    /// The best value of each zone, [`NOTHING`] if it has none.
    pub(super) fn best(&self) -> &[i64] {
        &self.best
    }

    pub(super) fn least(&self) -> &[u64] {
        &self.least
    }

    pub(super) fn zones(&self) -> usize {
        self.left_out.len()
    }
}

/// Blocks with equal keys share an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    class: u32,
    zoned: bool,
    /// One of several engines is part of the choice.
    engines: bool,
}

/// Gives every block its index, and its own places where they differ from those of the index.
pub(super) fn add(
    frame: &mut Frame<'_>,
    node_rank: &[u32],
    engine_rank: &[u32],
    listed_max: usize,
) {
    let ranks = Ranks { node: node_rank, engine: engine_rank };
    let mut shared: BTreeMap<Key, Vec<BlockId>> = BTreeMap::new();
    let mut total = 0;
    for (number, block) in BlockId::first(frame.blocks.len()).zip(&frame.blocks) {
        let class = frame.problem.items[block.items[0]].class;
        if block.items.len() == 1 {
            let (zoned, engines) = (block.zoned, !block.engines.is_empty());
            shared.entry(Key { class, zoned, engines }).or_default().push(number);
        } else {
            total += frame.problem.classes[class as usize].candidates.len();
        }
    }
    let classes = &frame.problem.classes;
    total += shared.keys().map(|key| classes[key.class as usize].candidates.len()).sum::<usize>();
    // Of n blocks none needs more than the n best places of a zone, as long as they fit there.
    let keep = match total <= listed_max {
        true => usize::MAX,
        false => frame.blocks.len().max(KEEP_LEAST),
    };

    let mut sorter = Sorter { keep, ..Sorter::default() };
    for (key, blocks) in shared {
        let least = least_demand(frame, &blocks);
        sorter.places.clear();
        ranks.read(frame, key, least.as_deref(), &mut sorter.places);
        let mut index = sorter.sort(frame, key.zoned);
        index.least = least.unwrap_or_default();
        frame.indices.push(index);
        let number = narrow(frame.indices.len() - 1);
        for block in blocks {
            ranks.finish_single(frame, block, number);
        }
    }
    for number in BlockId::first(frame.blocks.len()) {
        if frame.blocks[number].items.len() > 1 {
            sorter.places = ranks.read_joint(frame, &frame.blocks[number]);
            let index = sorter.sort(frame, frame.blocks[number].zoned);
            frame.indices.push(index);
            frame.blocks[number].index = narrow(frame.indices.len() - 1);
        }
        let first = frame.blocks[number].items[0];
        let current = frame.problem.items[first].current.and_then(|node| ranks.rank(node));
        frame.blocks[number].current = current.unwrap_or(NodeRank::NONE);
    }
}

/// What every one of the blocks needs at least; a node with less is of no use to any.
fn least_demand(frame: &Frame<'_>, blocks: &[BlockId]) -> Option<Vec<u64>> {
    let mut demands = blocks.iter().filter_map(|b| frame.blocks[*b].demand.as_ref());
    let mut least = demands.next()?.to_vec();
    for demand in demands {
        for (least, demand) in least.iter_mut().zip(demand) {
            *least = (*least).min(*demand);
        }
    }
    Some(least)
}

struct Ranks<'a> {
    node: &'a [u32],
    engine: &'a [u32],
}

impl Ranks<'_> {
    /// `None` for a node that is not there.
    fn rank(&self, node: NodeId) -> Option<NodeRank> {
        self.node.get(node.at()).copied().map(NodeRank)
    }

    /// The candidates of a class that have room for the least demand, one for a node unless the
    /// engine is part of the choice.
    fn read(&self, frame: &Frame<'_>, key: Key, least: Option<&[u64]>, places: &mut Vec<Place>) {
        let Some(least) = least else { return };
        let candidates = &frame.problem.classes[key.class as usize].candidates;
        let ascending = candidates.is_sorted_by_key(|c| self.node[c.node.at()]);
        for candidate in candidates {
            let place = self.place(candidate);
            let room = frame.capacity(place.node).iter().zip(least).all(|(has, need)| has >= need);
            if !room {
                continue;
            }
            match places.last_mut() {
                Some(last) if ascending && !key.engines && last.node == place.node => {
                    last.value = last.value.max(place.value);
                }
                _ => places.push(place),
            }
        }
        if !key.engines {
            if !ascending {
                places.sort_unstable_by_key(|p| (p.node, std::cmp::Reverse(p.value)));
                places.dedup_by_key(|place| place.node);
            }
            places.iter_mut().for_each(|place| place.tag = 0);
        }
    }

    fn place(&self, candidate: &Candidate) -> Place {
        Place {
            value: i64::from(candidate.value),
            node: NodeRank(self.node[candidate.node.at()]),
            tag: self.engine[usize::from(candidate.engine)],
        }
    }

    /// The places of one item, with what concerns it alone; at most one for a node and tag.
    fn read_item(&self, frame: &Frame<'_>, item: &Item, engines: bool) -> Vec<Place> {
        let mut places = Vec::new();
        let key = Key { class: item.class, zoned: false, engines };
        let nothing = vec![0; frame.dims];
        self.read(frame, key, Some(&nothing), &mut places);
        let (mut skip, adjusted) = self.own(item);
        skip.extend(&adjusted);
        skip.sort_unstable();
        places.retain(|place| skip.binary_search(&place.node).is_err());
        for node in adjusted {
            places.extend(self.adjusted(frame, item, node, engines));
        }
        places
    }

    /// Barred nodes, sorted, and those that are not and where the item has values of its own.
    fn own(&self, item: &Item) -> (Vec<NodeRank>, BTreeSet<NodeRank>) {
        let known = |node: &NodeId| self.rank(*node);
        let mut barred: Vec<NodeRank> = item.barred.iter().filter_map(known).collect();
        barred.sort_unstable();
        let adjusted = item.adjust.iter().filter_map(|adjust| known(&adjust.node));
        let adjusted = adjusted.filter(|node| barred.binary_search(node).is_err()).collect();
        (barred, adjusted)
    }

    /// The places of one item on a node, the best first; only that one where engines do not matter.
    fn adjusted(
        &self,
        frame: &Frame<'_>,
        item: &Item,
        node: NodeRank,
        engines: bool,
    ) -> Vec<Place> {
        let candidates = frame.on_node(item.class, frame.given_node(node));
        let mut here: Vec<Place> =
            candidates.map(|c| Place { value: item.value_of(c), ..self.place(c) }).collect();
        here.sort_unstable_by_key(|p| (std::cmp::Reverse(p.value), p.tag));
        if !engines {
            here.truncate(1);
            here.iter_mut().for_each(|place| place.tag = 0);
        }
        here
    }

    fn finish_single(&self, frame: &mut Frame<'_>, number: BlockId, index: u32) {
        let block = &frame.blocks[number];
        let item = &frame.problem.items[block.items[0]];
        let engines = !block.engines.is_empty();
        let (mut skip, adjusted) = self.own(item);
        let mut extra: Vec<Place> = Vec::new();
        if !adjusted.is_empty() {
            for node in &adjusted {
                extra.extend(self.adjusted(frame, item, *node, engines));
            }
            skip.extend(&adjusted);
            skip.sort_unstable();
        }
        extra.sort_unstable_by_key(sort_key);
        let block = &mut frame.blocks[number];
        block.index = index;
        block.skip = skip;
        block.extra = extra;
    }

    /// Nodes that admit all the items of a block, with the sum of their values, for every
    /// combination of engines that matters.
    fn read_joint(&self, frame: &Frame<'_>, block: &Block) -> Vec<Place> {
        let mut joint: BTreeMap<NodeRank, BTreeMap<u32, i64>> = BTreeMap::new();
        let mut set_by_now = 0u32;
        for (nth, item) in block.items.iter().enumerate() {
            let group = frame.engine_group_of(*item);
            let byte = group.and_then(|g| block.engines.iter().position(|other| *other == g));
            let places = self.read_item(frame, &frame.problem.items[*item], byte.is_some());
            let mut next: BTreeMap<NodeRank, BTreeMap<u32, i64>> = BTreeMap::new();
            let mask = byte.map_or(0, |byte| 0xff << (8 * byte));
            for place in places {
                let tag = byte.map_or(0, |byte| place.tag << (8 * byte));
                let start = BTreeMap::from([(0, 0)]);
                let before = match nth {
                    0 => Some(&start),
                    _ => joint.get(&place.node),
                };
                for (other, sum) in before.into_iter().flatten() {
                    if other & mask & set_by_now == tag & set_by_now {
                        next.entry(place.node).or_default().insert(other | tag, sum + place.value);
                    }
                }
            }
            set_by_now |= mask;
            joint = next;
        }
        let of_node = |(node, tags): (NodeRank, BTreeMap<u32, i64>)| {
            tags.into_iter().map(move |(tag, value)| Place { value, node, tag })
        };
        joint.into_iter().flat_map(of_node).collect()
    }
}

pub(super) fn sort_key(place: &Place) -> (std::cmp::Reverse<i64>, NodeRank, u32) {
    (std::cmp::Reverse(place.value), place.node, place.tag)
}

/// A place as one number that compares as [`sort_key`] does: sorting is most of the work of reading
/// a large problem, and numbers sort in half the time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packed(u128);

impl From<&Place> for Packed {
    fn from(place: &Place) -> Packed {
        let worst_last = !(place.value.cast_unsigned() ^ (1 << 63));
        let high = u128::from(worst_last) << 64;
        Packed(high | u128::from(place.node.0) << 32 | u128::from(place.tag))
    }
}

impl From<Packed> for Place {
    #[expect(clippy::cast_possible_truncation, reason = "each part is cut out of the number")]
    fn from(Packed(number): Packed) -> Place {
        let value = (!((number >> 64) as u64) ^ (1 << 63)).cast_signed();
        Place { value, node: NodeRank((number >> 32) as u32), tag: number as u32 }
    }
}

#[derive(Default)]
struct Sorter {
    keep: usize,
    places: Vec<Place>,
    bucketed: Vec<Packed>,
}

impl Sorter {
    fn sort(&mut self, frame: &Frame<'_>, zoned: bool) -> Index {
        let zones = if zoned { frame.zones } else { 1 };
        let zone_of = |place: &Place| match zoned {
            true => frame.zone_of[place.node].at(),
            false => 0,
        };
        let mut next = vec![0usize; zones + 1];
        for place in &self.places {
            next[zone_of(place) + 1] += 1;
        }
        for zone in 0..zones {
            next[zone + 1] += next[zone];
        }
        let starts = next.clone();
        self.bucketed.clear();
        self.bucketed.resize(self.places.len(), Packed(0));
        for place in &self.places {
            let zone = zone_of(place);
            self.bucketed[next[zone]] = Packed::from(place);
            next[zone] += 1;
        }
        let mut index = Index { starts: vec![0], ..Index::default() };
        let kept = starts.windows(2).map(|zone| (zone[1] - zone[0]).min(self.keep));
        index.places.reserve_exact(kept.sum());
        for zone in starts.windows(2) {
            keep_best(&mut self.bucketed[zone[0]..zone[1]], self.keep, &mut index);
        }
        index
    }
}

fn keep_best(places: &mut [Packed], keep: usize, index: &mut Index) {
    let mut left_out = None;
    let mut kept = &mut places[..];
    if kept.len() > keep {
        let (best, first, _) = kept.select_nth_unstable(keep);
        left_out = Some(Place::from(*first).value);
        kept = best;
    }
    kept.sort_unstable();
    index.best.push(kept.first().map_or(NOTHING, |place| Place::from(*place).value));
    index.places.extend(kept.iter().map(|place| Place::from(*place)));
    index.starts.push(narrow(index.places.len()));
    index.left_out.push(left_out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_place_compares_and_unpacks_as_the_place() {
        let values = [i64::MIN, -7, -1, 0, 1, 9, i64::MAX];
        let numbers = [0, 1, u32::MAX];
        let mut places = Vec::new();
        for value in values {
            for node in numbers.map(NodeRank) {
                places.extend(numbers.map(|tag| Place { value, node, tag }));
            }
        }
        for a in &places {
            assert_eq!(Place::from(Packed::from(a)), *a);
            for b in &places {
                assert_eq!(Packed::from(a).cmp(&Packed::from(b)), sort_key(a).cmp(&sort_key(b)));
            }
        }
    }
}
