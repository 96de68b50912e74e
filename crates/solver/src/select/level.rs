//! Among equally good answers, the one in which equal nodes share: the search takes the first of several
//! nodes that are worth the same, and would heap a batch on it as far as load costs nothing. Nothing here lowers the
//! objective, so that bounds and proofs stay what they are. Called by [`select`](super::select()) when all else is done.

use std::collections::{BTreeMap, BTreeSet};

use super::frame::{Frame, Place};
use super::ids::{BlockId, NodeRank, ZoneRank};
use super::meter::Meter;
use super::state::State;

/// Of many equal nodes, so many are compared for one kind of block. The best of a few dozen is nearly as empty
/// as the best of all (the power of several choices), and a batch of thousands stays quick.
const COMPARED_MAX: usize = 64;

/// Blocks that may take each other's place: replicas of one component, put where a node is worth the same.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'f> {
    part: usize,
    index: u32,
    demand: &'f [u64],
    apart: &'f [u32],
    value: i64,
    tag: u32,
    /// For a block whose zone matters: it stays there, so that its traffic costs what it did.
    zone: ZoneRank,
}

/// How little a node is wanted for the next block of a kind. Fields are compared from the top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fill {
    /// Replicas of the same component: a node that fails should take few of them.
    twins: u32,
    /// What would be used of the scarcest resource, in thousandths.
    load: u64,
    /// Blocks of any kind, for those that ask for nothing.
    blocks: usize,
}

pub(super) fn level(state: &mut State<'_>, placed: &[BlockId], meter: &mut Meter<'_>) {
    let frame = state.frame;
    let part_of = part_of(frame);
    let mut kinds: BTreeMap<Kind<'_>, Vec<BlockId>> = BTreeMap::new();
    for number in placed {
        let (part, block) = (part_of[number.at()], &frame.blocks[*number]);
        let packs = frame.problem.parts[frame.parts[part].index].packs;
        // What runs stays where it runs, and what has places of its own is not like the others.
        let own =
            block.current != NodeRank::NONE || !block.skip.is_empty() || !block.extra.is_empty();
        let (Some(place), Some(demand)) = (state.at(*number), &block.demand) else { continue };
        if packs || own || !block.engines.is_empty() {
            continue;
        }
        let zone = if block.zoned { frame.zone_of[place.node] } else { ZoneRank::ANYWHERE };
        let (value, tag) = (place.value, place.tag);
        let (index, apart) = (block.index, block.apart.as_slice());
        let kind = Kind { part, index, demand, apart, value, tag, zone };
        kinds.entry(kind).or_default().push(*number);
    }
    // Kinds begin at different nodes, so that those which are compared differ.
    let mut begin = 0;
    for (kind, blocks) in kinds {
        if meter.stopped() {
            return;
        }
        let equal = equal_places(frame, &kind);
        if equal.len() > 1 {
            let compared = equal.len().min(COMPARED_MAX.max(blocks.len()));
            let places: Vec<Place> =
                equal.iter().cycle().skip(begin % equal.len()).take(compared).copied().collect();
            begin += compared;
            meter.spend(compared as u64);
            share(state, &kind, &blocks, &places);
        }
    }
}

fn part_of(frame: &Frame<'_>) -> Vec<usize> {
    let mut part_of = vec![0; frame.blocks.len()];
    for (number, part) in frame.parts.iter().enumerate() {
        part.blocks.iter().for_each(|block| part_of[block.at()] = number);
    }
    part_of
}

/// The places that are worth as much as the one that a kind has.
fn equal_places<'f>(frame: &'f Frame<'f>, kind: &Kind<'_>) -> Vec<Place> {
    let zone = if kind.zone == ZoneRank::ANYWHERE { 0 } else { kind.zone.at() };
    let (places, _) = frame.indices[kind.index as usize].zone(zone);
    let from = places.partition_point(|place| place.value > kind.value);
    let equal = places[from..].iter().take_while(|place| place.value == kind.value);
    equal.filter(|place| place.tag == kind.tag).copied().collect()
}

/// Takes the blocks out and deals them to the places, the emptiest first. If that fails or costs anything, all is as
/// before.
fn share(state: &mut State<'_>, kind: &Kind<'_>, blocks: &[BlockId], places: &[Place]) {
    let objective = state.objective;
    let before: Vec<Place> = blocks.iter().map(|block| state.take(*block)).collect();
    let mut table = Table::new(state, kind, places);
    let done = blocks.iter().take_while(|block| table.deal(state, kind, **block)).count();
    if done == blocks.len() && state.objective >= objective {
        return;
    }
    blocks[..done].iter().for_each(|block| _ = state.take(*block));
    for (block, place) in blocks.iter().zip(&before) {
        let back = state.place(*block, *place);
        assert!(back, "what was placed can be placed again");
    }
}

/// The places by zone, the emptiest node first; and the zones, the one with fewest twins first.
struct Table {
    nodes: BTreeMap<ZoneRank, BTreeSet<(Fill, NodeRank)>>,
    zones: BTreeSet<(Fill, u32, ZoneRank)>,
    /// By zone: how many of the kind are there.
    twins: BTreeMap<ZoneRank, u32>,
}

impl Table {
    fn new(state: &State<'_>, kind: &Kind<'_>, places: &[Place]) -> Table {
        let mut table =
            Table { nodes: BTreeMap::new(), zones: BTreeSet::new(), twins: BTreeMap::new() };
        for place in places {
            let zone = state.frame.zone_of[place.node];
            let fill = fill(state, kind, place.node);
            *table.twins.entry(zone).or_default() += fill.twins;
            table.nodes.entry(zone).or_default().insert((fill, place.node));
        }
        let zones: Vec<ZoneRank> = table.nodes.keys().copied().collect();
        zones.into_iter().for_each(|zone| table.rank(zone));
        table
    }

    fn rank(&mut self, zone: ZoneRank) {
        if let Some((fill, _)) = self.nodes.get(&zone).and_then(BTreeSet::first) {
            // Twins of the node come before those of the zone: no node takes two while another has none.
            self.zones.insert((Fill { load: 0, blocks: 0, ..*fill }, self.twins[&zone], zone));
        }
    }

    fn deal(&mut self, state: &mut State<'_>, kind: &Kind<'_>, block: BlockId) -> bool {
        while let Some((_, _, zone)) = self.zones.pop_first() {
            let nodes = self.nodes.entry(zone).or_default();
            let Some((_, node)) = nodes.pop_first() else { continue };
            let place = Place { value: kind.value, node, tag: kind.tag };
            let done = state.place(block, place);
            if done {
                nodes.insert((fill(state, kind, node), node));
                *self.twins.entry(zone).or_default() += 1;
            }
            self.rank(zone);
            if done {
                return true;
            }
        }
        false
    }
}

fn fill(state: &State<'_>, kind: &Kind<'_>, node: NodeRank) -> Fill {
    let frame = state.frame;
    let alike = |block: &BlockId| {
        let block = &frame.blocks[*block];
        block.index == kind.index && block.demand.as_deref() == Some(kind.demand)
    };
    let capacity = &frame.capacity[node.at() * frame.dims..][..frame.dims];
    let used = state.left(node).iter().zip(capacity).zip(kind.demand);
    let shares =
        used.filter(|((_, capacity), _)| **capacity > 0).map(|((left, capacity), need)| {
            let used = u128::from(capacity - left) + u128::from(*need);
            u64::try_from(used * 1000 / u128::from(*capacity)).unwrap_or(u64::MAX)
        });
    let twins = u32::try_from(state.on(node).filter(alike).count()).unwrap_or(u32::MAX);
    Fill { twins, load: shares.max().unwrap_or(0), blocks: state.on(node).count() }
}

#[cfg(test)]
mod tests {
    use crate::problem::{ItemId, Problem};
    use crate::sample::{Short, Tight, tight};
    use crate::select::{Limits, Selection, select};

    /// Items of one core each in one part, on nodes of eight cores that are all worth the same.
    fn equal(nodes: usize, items: usize, packs: bool) -> Problem {
        let mut problem = tight(&Tight { nodes, slack_percent: 0, short: Short::Cpu, seed: 1 });
        for node in &mut problem.nodes {
            node.capacity[0] = 8_000;
        }
        problem.classes[0].candidates.iter_mut().for_each(|candidate| candidate.value = 700);
        let like = problem.items[0].clone();
        problem.items = (0..items)
            .map(|item| {
                let demand = Box::new([1_000, 1_024]);
                crate::problem::Item { id: format!("i{item:03}"), demand, ..like.clone() }
            })
            .collect();
        problem.parts[0].items = ItemId::first(items).collect();
        problem.parts[0].packs = packs;
        problem
    }

    fn counts(problem: &Problem, found: &Selection) -> Vec<usize> {
        assert_eq!(problem.check(&found.chosen), Ok(found.objective));
        let mut counts = vec![0; problem.nodes.len()];
        found.chosen.iter().flatten().for_each(|choice| counts[choice.node.at()] += 1);
        counts
    }

    #[test]
    fn equal_nodes_share_a_batch() {
        for (nodes, items) in [(20, 60), (20, 7), (200, 60), (100, 250)] {
            let problem = equal(nodes, items, false);
            let found = select(&problem, &Limits::default()).unwrap();
            let counts = counts(&problem, &found);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{nodes} nodes, {items} items: {counts:?}");
            assert_eq!(found.bound, found.objective, "levelling costs nothing");
        }
    }

    #[test]
    fn who_packs_fills_few_nodes() {
        let problem = equal(20, 24, true);
        let found = select(&problem, &Limits::default()).unwrap();
        let used = counts(&problem, &found).into_iter().filter(|count| *count > 0).count();
        assert_eq!(used, 3);
    }
}
