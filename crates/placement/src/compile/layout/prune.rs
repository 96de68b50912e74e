//! More locations with traffic between them than routes can be kept for: which of them stay. Called
//! by [`lay_out`](super::lay_out).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::talking;
use crate::bits::Bits;
use crate::compile::Compiled;

/// Of all locations, what a class would like best.
struct Liking {
    /// The best first.
    zones: Vec<u32>,
    /// In how many locations it has a place at all.
    scarce: usize,
}

/// Keeps what runs where it is; then, class by class in turn, the best location of each, so that
/// none loses the few places that have what it needs; and with the second half of the room those
/// where many classes have a place, so that they can be near each other.
pub(super) fn keep_best_zones(compiled: &mut Compiled<'_, '_>, wired: &[u32], most: usize) {
    let talking = talking(compiled);
    let zones = compiled.continuum.network.zones.len();
    let mut joint = vec![(0u32, 0i64); zones];
    let mut likings = Vec::new();
    for (class, _) in talking.iter().enumerate().filter(|(_, talks)| **talks) {
        likings.push(liking(compiled, class, most, &mut joint));
    }
    likings.sort_by_key(|liking| liking.scarce);

    let mut kept = Kept { zones: BTreeSet::new(), most };
    for (item, node) in compiled.currents() {
        if talking[compiled.problem.items[item].class as usize] {
            kept.add(compiled.continuum.node(node).zone);
        }
    }
    let longest = likings.iter().map(|liking| liking.zones.len()).max().unwrap_or(0);
    for round in 0..longest {
        if round > 0 && kept.zones.len() >= most / 2 {
            break;
        }
        likings
            .iter()
            .filter_map(|liking| liking.zones.get(round))
            .for_each(|zone| kept.add(*zone));
    }
    let mut ranked = wired.to_vec();
    ranked.sort_by_key(|zone| (Reverse(joint[*zone as usize]), *zone));
    ranked.into_iter().for_each(|zone| kept.add(zone));

    compiled.ceiling = Some(ceiling(compiled));
    let mut nodes = Bits::full(compiled.continuum.nodes.len());
    nodes.retain(|node| kept.zones.contains(&compiled.continuum.node(node).zone));
    for (kind, _) in compiled.kinds.iter_mut().zip(&talking).filter(|(_, talks)| **talks) {
        kind.admitted.and(&nodes);
    }
    compiled.notes.push(format!(
        "{} locations could hold components that talk to each other; the {most} best were considered",
        wired.len()
    ));
}

struct Kept {
    zones: BTreeSet<u32>,
    most: usize,
}

impl Kept {
    fn add(&mut self, zone: u32) {
        if self.zones.len() < self.most {
            self.zones.insert(zone);
        }
    }
}

/// Adds to `joint` that the class has a place in a location, and how good it is.
fn liking(
    compiled: &Compiled<'_, '_>,
    class: usize,
    most: usize,
    joint: &mut [(u32, i64)],
) -> Liking {
    let kind = &compiled.kinds[class];
    let mut best: Vec<Option<i32>> = vec![None; joint.len()];
    for node in kind.admitted.iter() {
        let value = kind.value(&compiled.ground, node);
        let zone = compiled.continuum.node(node).zone as usize;
        best[zone] = best[zone].max(Some(value));
    }
    let mut offers: Vec<(Reverse<i32>, u32)> = Vec::new();
    for (zone, value) in (0u32..).zip(best) {
        let Some(value) = value else { continue };
        offers.push((Reverse(value), zone));
        let (count, sum) = &mut joint[zone as usize];
        *count += 1;
        *sum += i64::from(value);
    }
    let scarce = offers.len();
    if offers.len() > most {
        offers.select_nth_unstable(most);
        offers.truncate(most);
    }
    offers.sort_unstable();
    Liking { zones: offers.into_iter().map(|(_, zone)| zone).collect(), scarce }
}

/// What all items would be worth at the best node of all, wherever the others are.
fn ceiling(compiled: &Compiled<'_, '_>) -> i64 {
    let best: Vec<i64> = compiled
        .kinds
        .iter()
        .map(|kind| {
            let values = kind.admitted.iter().map(|node| kind.value(&compiled.ground, node));
            values.max().map_or(0, i64::from)
        })
        .collect();
    compiled.problem.items.iter().map(|item| best[item.class as usize]).sum()
}
