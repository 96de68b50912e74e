//! What it would cost an instance to be on a node beside all others that were placed. Used by [`super::decision`].

use std::collections::BTreeMap;

use tombolo_solver::problem::{Choice, FULL, ItemId, NodeId, Scope};

use crate::compile::Compiled;

#[derive(Debug)]
pub(super) struct Crowding {
    /// By node of the problem, in thousandths, with what others use.
    load: Vec<u64>,
    /// By item: the groups of items that would rather not share a node with it.
    groups: BTreeMap<ItemId, Vec<usize>>,
    there: BTreeMap<(usize, NodeId), i64>,
}

impl Crowding {
    pub(super) fn of(compiled: &Compiled<'_, '_>, chosen: &[Option<Choice>]) -> Crowding {
        let problem = &compiled.problem;
        let nodes = NodeId::first(problem.nodes.len());
        let mut load: Vec<u64> = nodes.map(|node| problem.load.before(node)).collect();
        for (item, choice) in problem.items.iter().zip(chosen) {
            if let Some(choice) = choice.filter(|_| item.loads) {
                load[choice.node.at()] += problem.load.share(choice.node, &item.demand);
            }
        }
        let (mut groups, mut there) = (BTreeMap::<ItemId, Vec<usize>>::new(), BTreeMap::new());
        let on_nodes = problem.scatter.iter().enumerate().filter(|(_, g)| g.scope == Scope::Node);
        for (number, group) in on_nodes {
            for item in &group.items {
                groups.entry(*item).or_default().push(number);
                if let Some(choice) = chosen[*item] {
                    *there.entry((number, choice.node)).or_insert(0) += 1;
                }
            }
        }
        Crowding { load, groups, there }
    }

    /// What others make of a node's load, `item` left out.
    fn load_without(
        &self,
        compiled: &Compiled<'_, '_>,
        (item, choice): (ItemId, Option<Choice>),
        node: NodeId,
    ) -> u64 {
        let own = &compiled.problem.items[item];
        let is_there = own.loads && choice.is_some_and(|choice| choice.node == node);
        let share = compiled.problem.load.share(node, &own.demand);
        self.load[node.at()] - if is_there { share } else { 0 }
    }

    pub(super) fn cost(
        &self,
        compiled: &Compiled<'_, '_>,
        (item, choice): (ItemId, Option<Choice>),
        node: NodeId,
    ) -> i64 {
        let (problem, own) = (&compiled.problem, &compiled.problem.items[item]);
        let mut cost = 0;
        if own.loads {
            let before = self.load_without(compiled, (item, choice), node);
            let after = before + problem.load.share(node, &own.demand);
            cost = problem.load.cost(after) - problem.load.cost(before);
        }
        cost + self
            .twins(item, choice, node)
            .map(|(group, others)| problem.scatter[group].cost * others)
            .sum::<i64>()
    }

    /// Of each group of an item: how many others of it are on a node.
    fn twins(
        &self,
        item: ItemId,
        choice: Option<Choice>,
        node: NodeId,
    ) -> impl Iterator<Item = (usize, i64)> + '_ {
        let own = i64::from(choice.is_some_and(|choice| choice.node == node));
        self.groups
            .get(&item)
            .into_iter()
            .flatten()
            .map(move |group| (*group, self.there.get(&(*group, node)).copied().unwrap_or(0) - own))
    }

    /// Why it costs an instance more to be `there` than `here`.
    pub(super) fn says(
        &self,
        compiled: &Compiled<'_, '_>,
        (item, choice): (ItemId, Option<Choice>),
        (here, there): (NodeId, NodeId),
    ) -> String {
        let others = |node| self.twins(item, choice, node).map(|(_, others)| others).sum::<i64>();
        let own = &compiled.problem.items[item];
        let percent = |node: NodeId| {
            let share = compiled.problem.load.share(node, &own.demand);
            (self.load_without(compiled, (item, choice), node) + share) * 100 / FULL
        };
        match others(there) > others(here) {
            true => match others(there) {
                1 => "another of its replicas is there".to_owned(),
                many => format!("{many} of its replicas are there"),
            },
            false => format!(
                "with it, {} % of that node would be used, and {} % of this one is",
                percent(there),
                percent(here)
            ),
        }
    }
}
