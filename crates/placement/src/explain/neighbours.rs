//! What the places of others rule out for one instance: whom it must be apart from or together with,
//! and by which engine the others run. Asked for the next best nodes of a choice and for a pair.

use std::collections::BTreeMap;

use tombolo_solver::problem::{Choice, ItemId, Problem, Scope};

use crate::ask;
use crate::compile::Compiled;

/// Where everyone is. Places are nodes or sites of the continuum, as the group has it.
#[derive(Debug)]
pub(super) struct Neighbours<'n> {
    problem: &'n Problem,
    /// By item: the groups that it is in.
    groups: BTreeMap<ItemId, Vec<Kinship>>,
    /// By group and place: the first two who are there.
    there: BTreeMap<(Kinship, u32), [Option<ItemId>; 2]>,
    /// By group: all places in use.
    places: BTreeMap<Kinship, Vec<u32>>,
}

/// A group of the problem, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kinship {
    Apart(usize),
    Together(usize),
    /// The places are engines.
    OneEngine(usize),
}

impl<'n> Neighbours<'n> {
    pub(super) fn of(compiled: &'n Compiled<'_, '_>, chosen: &[Option<Choice>]) -> Neighbours<'n> {
        let problem = &compiled.problem;
        let mut neighbours = Neighbours {
            problem,
            groups: BTreeMap::new(),
            there: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        for (number, group) in problem.apart.iter().enumerate() {
            neighbours.add(compiled, chosen, Kinship::Apart(number), &group.items);
        }
        for (number, group) in problem.together.iter().enumerate() {
            neighbours.add(compiled, chosen, Kinship::Together(number), &group.items);
        }
        for (number, items) in problem.same_engine.iter().enumerate() {
            neighbours.add(compiled, chosen, Kinship::OneEngine(number), items);
        }
        neighbours
    }

    fn add(
        &mut self,
        compiled: &Compiled<'_, '_>,
        chosen: &[Option<Choice>],
        group: Kinship,
        items: &[ItemId],
    ) {
        for item in items {
            self.groups.entry(*item).or_default().push(group);
            let Some(choice) = chosen[*item] else { continue };
            let node = compiled.nodes[choice.node.at()];
            let place = match self.scope(group) {
                None => u32::from(choice.engine),
                Some(scope) => place(compiled, scope, node),
            };
            match self.there.entry((group, place)).or_default() {
                [first @ None, _] => *first = Some(*item),
                [_, second @ None] => *second = Some(*item),
                [Some(_), Some(_)] => (),
            }
            let places = self.places.entry(group).or_default();
            if places.len() < 2 && !places.contains(&place) {
                places.push(place);
            }
        }
    }

    fn scope(&self, group: Kinship) -> Option<Scope> {
        match group {
            Kinship::Apart(number) => Some(self.problem.apart[number].scope),
            Kinship::Together(number) => Some(self.problem.together[number].scope),
            Kinship::OneEngine(_) => None,
        }
    }

    /// Everything that speaks against an instance on a node of the continuum, by one of `engines`.
    pub(super) fn against(
        &self,
        compiled: &Compiled<'_, '_>,
        item: ItemId,
        node: u32,
        engines: &[u8],
    ) -> Vec<String> {
        let groups = self.groups.get(&item).into_iter().flatten();
        groups.filter_map(|group| self.objection(compiled, item, node, engines, *group)).collect()
    }

    fn objection(
        &self,
        compiled: &Compiled<'_, '_>,
        item: ItemId,
        node: u32,
        engines: &[u8],
        group: Kinship,
    ) -> Option<String> {
        let other_at = |place: u32| {
            let there = self.there.get(&(group, place)).into_iter().flatten().flatten();
            there.copied().find(|other| *other != item)
        };
        let elsewhere = |is_here: &dyn Fn(u32) -> bool| {
            let places = self.places.get(&group).into_iter().flatten();
            places
                .copied()
                .filter(|place| !is_here(*place))
                .find_map(|at| Some((at, other_at(at)?)))
        };
        let name = |other: ItemId| self.problem.items[other].id.as_str();
        match (group, self.scope(group)) {
            (Kinship::Apart(_), Some(scope)) => {
                let other = name(other_at(place(compiled, scope, node))?);
                let what = word(scope);
                let Kinship::Apart(number) = group else { return None };
                match compiled.evenly.iter().any(|even| even.groups.contains(&number)) {
                    true => Some(format!("needs a {what} with fewer instances, {other} is there")),
                    false => Some(format!("needs a {what} without {other}, which is there")),
                }
            }
            (Kinship::Together(_), Some(scope)) => {
                let here = place(compiled, scope, node);
                let (_, other) = elsewhere(&|place| place == here)?;
                let (other, what) = (name(other), word(scope));
                Some(format!("needs the {what} of {other}, is at another"))
            }
            (Kinship::OneEngine(_), _) => {
                let is_here = |engine: u32| engines.iter().any(|one| u32::from(*one) == engine);
                let (engine, other) = elsewhere(&is_here)?;
                let engine = self.problem.engines.get(engine as usize)?;
                Some(format!("needs {engine}, by which {} runs, has another engine", name(other)))
            }
            (Kinship::Apart(_) | Kinship::Together(_), None) => None,
        }
    }
}

/// The engines of a node that could run an item.
pub(super) fn engines(compiled: &Compiled<'_, '_>, item: ItemId, node: u32) -> Vec<u8> {
    let row = compiled.continuum.node(node);
    let runs = compiled.ask(item).map(ask::Ask::runs).unwrap_or_default();
    let all = [Some(row.engine), row.also].into_iter().flatten();
    all.filter(|engine| runs.can(*engine)).map(ask::engine_number).collect()
}

fn place(compiled: &Compiled<'_, '_>, scope: Scope, node: u32) -> u32 {
    match scope {
        Scope::Node => node,
        Scope::Zone => compiled.continuum.node(node).site,
    }
}

fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Node => "node",
        Scope::Zone => "site",
    }
}
