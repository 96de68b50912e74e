//! What is decided about one App: its placements from now on, and what has none.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::app::{Placement, Unplaced};
use tombolo_placement::ask::app_id;
use tombolo_placement::plan::{AppPlan, InstancePlan, Outcome, Step};

use super::current::View;
use super::materialise::assignment_name;

#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// By component and replica.
    pub placements: Vec<Placement>,
    pub unplaced: Vec<Unplaced>,
    /// How the App contradicts itself.
    pub refused: Vec<String>,
}

impl Verdict {
    pub(super) fn of(view: &View<'_>, index: usize, planned: &tombolo_placement::Plan) -> Verdict {
        let plan = planned.apps.iter().find(|plan| plan.index == index);
        let placed = plan.filter(|plan| plan.outcome == Outcome::Placed);
        if let Some(plan) = placed.filter(|plan| !must_wait(view, plan)) {
            let placements = plan.instances.iter().map(|one| given(view, one)).collect();
            return Verdict { placements, ..Verdict::default() };
        }
        let mut verdict = Verdict { placements: kept(view, planned), ..Verdict::default() };
        if let Some(plan) = plan.filter(|plan| plan.outcome != Outcome::Placed) {
            verdict.unplaced.clone_from(&plan.unplaced);
            let about = format!("app {}", plan.app);
            let own = planned.troubles.iter().filter(|trouble| trouble.about == about);
            if plan.outcome == Outcome::Refused {
                verdict.refused = own.map(|trouble| trouble.says.clone()).collect();
            }
            if verdict.unplaced.is_empty() && verdict.refused.is_empty() {
                let why = "no choice of nodes was found for all components together";
                verdict.refused.push(why.to_owned());
            }
        }
        verdict
    }
}

/// Whoever stays keeps the reasons for which it came.
fn given(view: &View<'_>, instance: &InstancePlan) -> Placement {
    let at = &instance.placement;
    let known = view.current.get(&(at.component.clone(), at.replica));
    if let Some(known) = known.filter(|known| known.node == at.node && known.engine == at.engine) {
        return named(view, known.clone());
    }
    let mut at = Placement { assignment: None, ready: false, ..at.clone() };
    let from = known.and_then(|known| known.node.as_deref());
    if let (Step::Start, Some(from), Some(decision)) = (&instance.step, from, &mut at.decision) {
        let reason = decision.reason.take().unwrap_or_default();
        decision.reason = Some(format!("{from} is gone or silent for too long; {reason}"));
    }
    named(view, at)
}

/// What runs and is still wanted, where it is.
fn kept(view: &View<'_>, planned: &tombolo_placement::Plan) -> Vec<Placement> {
    let id = app_id(view.app);
    let surplus: BTreeSet<(&str, u32)> = planned
        .surplus
        .iter()
        .filter(|surplus| surplus.running.app == id)
        .map(|surplus| (surplus.running.component.as_str(), surplus.running.replica))
        .collect();
    let wanted = |at: &&Placement| !surplus.contains(&(at.component.as_str(), at.replica));
    view.current.values().filter(wanted).map(|at| named(view, at.clone())).collect()
}

fn named(view: &View<'_>, mut at: Placement) -> Placement {
    if at.assignment.is_none() {
        at.assignment = Some(assignment_name(view.app, &at));
    }
    at.ready = view.is_up(&at);
    at
}

/// Whether the plan only moves instances, of a component of which so many are not up already that
/// its budget is spent.
fn must_wait(view: &View<'_>, plan: &AppPlan) -> bool {
    let mut moves: BTreeMap<&str, usize> = BTreeMap::new();
    for instance in &plan.instances {
        match instance.step {
            Step::Move { .. } => *moves.entry(&instance.placement.component).or_default() += 1,
            Step::Start => return false,
            Step::Stay | Step::Wait => (),
        }
    }
    moves.into_iter().any(|(name, moves)| {
        let of_component = view.current.values().filter(|at| at.component == name);
        let down = of_component.filter(|at| !view.is_up(at)).count();
        let component = view.component(name);
        let budget = component.and_then(|component| component.unavailable_max).unwrap_or(1).max(1);
        down > 0 && down + moves > budget as usize
    })
}
