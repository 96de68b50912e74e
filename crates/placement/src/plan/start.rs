//! A place to start from for an App that the search found none for: all of it in one zone. With many
//! bounds between many components that is often the one thing that surely works, and the search
//! betters it from there.

use std::collections::BTreeMap;

use crate::problem::{Candidate, Choice, Problem, Scope};

/// Zones that are tried, those with most candidates first.
const ZONES_MAX: usize = 32;

/// The choices for the items of a part, if they all fit into one zone beside what is chosen.
pub(super) fn in_one_zone(
    problem: &Problem,
    part: usize,
    chosen: &[Option<Choice>],
) -> Option<Vec<Option<Choice>>> {
    let items = &problem.parts[part].items;
    let mut classes: Vec<u32> =
        items.iter().map(|item| problem.items[*item as usize].class).collect();
    classes.sort_unstable();
    classes.dedup();
    // By zone and class, best first.
    let mut by_zone: BTreeMap<(u32, u32), Vec<Candidate>> = BTreeMap::new();
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for class in classes {
        for candidate in &problem.classes[class as usize].candidates {
            let zone = problem.nodes[candidate.node as usize].zone;
            by_zone.entry((zone, class)).or_default().push(*candidate);
            *counts.entry(zone).or_default() += 1;
        }
    }
    for candidates in by_zone.values_mut() {
        candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.value), candidate.node));
    }
    let mut zones: Vec<(usize, u32)> =
        counts.into_iter().map(|(zone, count)| (count, zone)).collect();
    zones.sort_by_key(|(count, zone)| (std::cmp::Reverse(*count), *zone));
    let tried = zones.into_iter().take(ZONES_MAX);
    tried.into_iter().find_map(|(_, zone)| {
        let start = fill(problem, items, chosen, |class| {
            by_zone.get(&(zone, class)).map_or(&[][..], Vec::as_slice)
        })?;
        problem.check(&start).is_ok().then_some(start)
    })
}

/// First fit, the best candidates first.
fn fill<'p>(
    problem: &Problem,
    items: &[u32],
    chosen: &[Option<Choice>],
    candidates: impl Fn(u32) -> &'p [Candidate],
) -> Option<Vec<Option<Choice>>> {
    let mut left: BTreeMap<u32, Box<[u64]>> = BTreeMap::new();
    let take = |left: &mut BTreeMap<u32, Box<[u64]>>, node: u32, demand: &[u64]| {
        let capacity = || problem.nodes[node as usize].capacity.clone();
        let left = left.entry(node).or_insert_with(capacity);
        let fits = demand.iter().zip(left.iter()).all(|(need, has)| need <= has);
        if fits {
            left.iter_mut().zip(demand).for_each(|(has, need)| *has -= need);
        }
        fits
    };
    for (item, choice) in problem.items.iter().zip(chosen) {
        if let Some(choice) = choice {
            take(&mut left, choice.node, &item.demand);
        }
    }
    let mut apart: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (group, members) in problem.apart.iter().enumerate() {
        for item in members.items.iter().filter(|_| members.scope == Scope::Node) {
            apart.entry(*item).or_default().push(group);
        }
    }
    let mut taken: std::collections::BTreeSet<(usize, u32)> = std::collections::BTreeSet::new();
    let mut start = chosen.to_vec();
    for number in items {
        let item = &problem.items[*number as usize];
        let groups = apart.get(number).map_or(&[][..], Vec::as_slice);
        let found = candidates(item.class).iter().find(|candidate| {
            !item.barred.contains(&candidate.node)
                && !groups.iter().any(|group| taken.contains(&(*group, candidate.node)))
                && take(&mut left, candidate.node, &item.demand)
        })?;
        taken.extend(groups.iter().map(|group| (*group, found.node)));
        start[*number as usize] = Some(Choice { node: found.node, engine: found.engine });
    }
    Some(start)
}
