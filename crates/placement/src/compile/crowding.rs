//! What it costs that a batch heaps up: the load of nodes, and replicas of one component on one node. Called by
//! [`super::compile`] and [`super::layout`]; the figures are explained in `docs/placement.md`.

use tombolo_model::component::Spread;
use tombolo_solver::problem::{FULL, Load, NodeLoad, Scatter, Scope, Step};

use super::{Compiled, Options, edges::Instances};
use crate::affinity;
use crate::continuum::Amounts;

/// In hundredths of a point for each thousandth of a node above. A tenth of a node is free, so that what is small goes
/// where it is best; from half to full costs about as much as a fresh move, and the last fifth twice that.
const STEPS: [Step; 4] = [
    Step { above: 100, cost: 1 },
    Step { above: 300, cost: 1 },
    Step { above: 500, cost: 1 },
    Step { above: 800, cost: 2 },
];
/// In hundredths of a point for every two replicas of a component on one node.
const TWINS: i64 = 50;

/// Instances of a component that are spread over sites pair by pair.
const PREFERRED_MAX: usize = 200;

/// The load that counts: processor time and memory.
pub(super) fn load() -> Load {
    Load { steps: STEPS.to_vec(), nodes: Vec::new() }
}

pub(super) fn of_node(total: &Amounts<'_>, free: &Amounts<'_>, resources: &[String]) -> NodeLoad {
    let whole = |resource: &String| match resource.as_str() {
        "cpu_millis" => total.cpu_millis,
        "memory_bytes" => total.memory_bytes,
        _ => 0,
    };
    let used = |total: u64, free: u64| {
        let used = u128::from(total.saturating_sub(free)) * u128::from(FULL);
        used.checked_div(u128::from(total)).unwrap_or(0)
    };
    let before =
        used(total.cpu_millis, free.cpu_millis).max(used(total.memory_bytes, free.memory_bytes));
    NodeLoad {
        whole: resources.iter().map(whole).collect(),
        before: u64::try_from(before).unwrap_or(FULL),
    }
}

/// Wishes of components to be near to others, away from them, or spread.
pub(super) fn prefer(compiled: &mut Compiled<'_, '_>, instances: &Instances) {
    for ((app, component), items) in instances {
        let spec = &compiled.apps[*app].spec;
        let named = |name: &String| {
            let other = spec.components.iter().position(|component| component.name == *name);
            other.and_then(|other| instances.get(&(*app, other))).map_or(&[][..], Vec::as_slice)
        };
        let mut groups: Vec<Scatter> = Vec::new();
        for wish in &spec.components[*component].prefers {
            let cost = 100 * i64::from(wish.weight.min(100));
            let scope = match wish.spread {
                Some(Spread::Node) => Some(Scope::Node),
                Some(Spread::Site) => Some(Scope::Zone),
                None => None,
            };
            // Beyond that the search would see more pairs than instances; a rule is for so many.
            let few = items.len() <= PREFERRED_MAX;
            groups.extend(
                scope.filter(|scope| few || *scope == Scope::Node).map(|scope| Scatter {
                    items: items.clone(),
                    scope,
                    cost,
                }),
            );
            for (names, scope, cost) in
                [(&wish.with, Scope::Zone, -cost), (&wish.apart, Scope::Node, cost)]
            {
                for others in names.iter().map(named).filter(|others| *others != items) {
                    let pairs = affinity::pairs(items.len(), others.len()).into_iter();
                    let group = |(a, b): (usize, usize)| Scatter {
                        items: vec![items[a], others[b]],
                        scope,
                        cost,
                    };
                    groups.extend(pairs.map(group));
                }
                if scope == Scope::Node && names.contains(&spec.components[*component].name) {
                    groups.push(Scatter { items: items.clone(), scope, cost });
                }
            }
        }
        groups.retain(|group| group.items.len() > 1);
        compiled.problem.scatter.extend(groups);
    }
}

/// Replicas would rather not share a node, unless they are to be packed or must not anyway.
pub(super) fn scatter(compiled: &mut Compiled<'_, '_>, instances: &Instances, options: &Options) {
    for ((app, component), items) in instances {
        let spec = &compiled.apps[*app].spec;
        let part = &spec.components[*component];
        let apart = part.affinity.as_ref().is_some_and(|wish| wish.apart.contains(&part.name));
        let must_not = apart || affinity::spread(part).is_some();
        if items.len() > 1 && !must_not && !super::packs(spec, options) {
            let items = items.clone();
            compiled.problem.scatter.push(Scatter { items, scope: Scope::Node, cost: TWINS });
        }
    }
}
