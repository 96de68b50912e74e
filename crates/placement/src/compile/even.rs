//! Instances that are spread evenly: no node or site gets many more of them than another. Called by
//! [`super::compile`]; start reading at [`spread`].
//!
//! The problem knows items that must not share a place, and that is enough. With `d` places, the instances are dealt
//! into rounds of `d` that share none, so that each place gets one of every full round, and the rest into as many
//! groups as places may differ by. Instances are alike, so where they may differ by one, this allows
//! exactly what the rule does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tombolo_solver::problem::{Group, ItemId, Scope};

use super::edges::Instances;
use super::{Compiled, Origin};
use crate::affinity;
use crate::bits::Bits;

/// The rule of one component, as it is in the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evenly {
    /// Which of [`Problem::apart`](tombolo_solver::Problem::apart) stand for it.
    pub groups: Range<usize>,
    pub scope: Scope,
    pub skew: usize,
    /// Some choices that the rule allows are none in the problem.
    pub is_narrower: bool,
}

pub(super) fn spread(compiled: &mut Compiled<'_, '_>, instances: &Instances) {
    for ((app, component), items) in instances {
        let Some((scope, skew)) = affinity::even(&compiled.apps[*app].spec.components[*component])
        else {
            continue;
        };
        let groups = Dealt::of(compiled, items, scope, skew).groups;
        let first = compiled.problem.apart.len();
        let groups = groups.into_iter().filter(|items| items.len() > 1);
        compiled.problem.apart.extend(groups.map(|items| Group { items, scope }));
        compiled.evenly.push(Evenly {
            groups: first..compiled.problem.apart.len(),
            scope,
            skew,
            is_narrower: skew > 1,
        });
    }
}

/// Items in groups of which no two share a place.
struct Dealt {
    groups: Vec<Vec<ItemId>>,
    /// So many of them are rounds, with one for every place.
    rounds: usize,
    places: usize,
}

impl Dealt {
    fn of(compiled: &Compiled<'_, '_>, items: &[ItemId], scope: Scope, skew: usize) -> Dealt {
        let place = |node: u32| match scope {
            Scope::Node => node,
            Scope::Zone => compiled.continuum.node(node).site,
        };
        let mut fits = Bits::none(compiled.continuum.nodes.len());
        for item in items {
            let class = compiled.problem.items[*item].class as usize;
            fits.or(&compiled.kinds[class].admitted);
        }
        // A place without room for any of them makes none of the others wait.
        let demand = items.first().and_then(|item| compiled.ask(*item)).map(|ask| &ask.demand);
        let has_room =
            |node: u32| demand.is_none_or(|demand| !demand.exceed(&compiled.free[node as usize]));
        let places: BTreeSet<u32> = fits.iter().filter(|node| has_room(*node)).map(place).collect();
        let each = items.len() / places.len().max(1);
        // Where places may differ by more than one, the middle of what is allowed is as even as can be.
        let rounds = each.saturating_sub(skew / 2);
        let groups = vec![Vec::new(); rounds + skew.min(items.len())];
        let mut dealt = Dealt { groups, rounds, places: places.len() };

        let stays = |item: &ItemId| {
            let Origin::Wanted { app, component, replica, .. } = compiled.origins[item.at()] else {
                return None;
            };
            let node = compiled.runs_on(app, component, replica)?;
            let class = compiled.problem.items[*item].class as usize;
            compiled.kinds[class].admitted.contains(node).then(|| place(node))
        };
        // Those that run well keep their places: the first at each is of the first round, and so on. How uneven they
        // are already is no reason to move.
        let mut there: BTreeMap<u32, usize> = BTreeMap::new();
        let mut fresh = Vec::new();
        for item in items {
            match stays(item) {
                Some(place) => {
                    let before = there.entry(place).or_default();
                    if let Some(group) = dealt.groups.get_mut(*before) {
                        group.push(*item);
                    }
                    *before += 1;
                }
                None => fresh.push(*item),
            }
        }
        fresh.into_iter().for_each(|item| dealt.add(item));
        dealt
    }

    /// Into the first round that is not full, then into the emptiest of the others.
    fn add(&mut self, item: ItemId) {
        let (rounds, rest) = self.groups.split_at_mut(self.rounds);
        let open = rounds.iter_mut().find(|round| round.len() < self.places);
        if let Some(group) = open.or_else(|| rest.iter_mut().min_by_key(|group| group.len())) {
            group.push(item);
        }
    }
}
