//! What is decided about one App: its placements from now on, and what has none.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::app::{Placement, Unplaced};
use tombolo_model::{AppId, InstanceKey};
use tombolo_placement::plan::{AppPlan, InstancePlan, Outcome, Step};

use super::current::{View, World};
use super::materialise::assignment_name;
use super::rule::original_wins;

#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// By component and replica.
    pub placements: Vec<Placement>,
    /// Where instances were that are given up and have no other place. Their Assignments stay: should
    /// the node return, they go on there. They are no placements, because nobody is served from there.
    pub given_up: Vec<Placement>,
    pub unplaced: Vec<Unplaced>,
    /// How the App contradicts itself.
    pub refused: Vec<String>,
    /// Some of those that would move have to wait for others: their turn is yet to come.
    pub waits: bool,
}

impl Verdict {
    /// Whether something that is asked for has no place.
    pub(super) fn lacks(&self) -> bool {
        !self.unplaced.is_empty() || !self.refused.is_empty()
    }

    /// Whether anything of it was ever given a place that it still has, or would go back to.
    pub(super) fn had_a_place(&self) -> bool {
        !self.placements.is_empty() || !self.given_up.is_empty()
    }

    /// Whether something has no place only because the search for it ended too soon to know.
    pub(super) fn gave_up(&self) -> bool {
        self.refused.is_empty() && self.unplaced.iter().any(|one| one.gave_up_after.is_some())
    }

    pub(super) fn of(
        view: &View<'_>,
        index: usize,
        planned: &tombolo_placement::Plan,
        world: &World<'_>,
    ) -> Verdict {
        let plan = planned.apps.iter().find(|plan| plan.index == index);
        let placed = plan.filter(|plan| plan.outcome == Outcome::Placed);
        if let Some(plan) = placed.filter(|plan| !must_wait(view, plan)) {
            let placements = plan.instances.iter().map(|one| given(view, one, world)).collect();
            let waits = plan.instances.iter().any(|one| one.step == Step::Wait);
            return Verdict { placements, waits, ..Verdict::default() };
        }
        let unplaced = plan.filter(|plan| plan.outcome != Outcome::Placed);
        let unplaced = unplaced.map_or(&[][..], |plan| &plan.unplaced);
        let (given_up, placements) = kept(view, planned)
            .into_iter()
            .partition(|at| is_missing(at, unplaced) && is_lost(view, at, world));
        let mut verdict =
            Verdict { placements, given_up, waits: placed.is_some(), ..Verdict::default() };
        if let Some(plan) = plan.filter(|plan| plan.outcome != Outcome::Placed) {
            verdict.unplaced.clone_from(&plan.unplaced);
            let own = planned.troubles.iter().filter(|trouble| trouble.is_about_app(&plan.app));
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

/// An instance that stays keeps the reasons for which it once came.
fn given(view: &View<'_>, instance: &InstancePlan, world: &World<'_>) -> Placement {
    let at = &instance.placement;
    let known = view.current.get(&InstanceKey::placed(at));
    if let Some(known) = known.filter(|known| known.node == at.node && known.engine == at.engine) {
        return named(view, known.clone());
    }
    let mut at = Placement { assignment: None, ready: false, ..at.clone() };
    let Some(known) = known else { return named(view, at) };
    at.instead_of.clone_from(&known.instead_of);
    if let (Step::Start, Some(from)) = (&instance.step, &known.node) {
        if let Some(decision) = &mut at.decision {
            let reason = decision.reason.take().unwrap_or_default();
            decision.reason = Some(format!("{}; {reason}", world.loss(from)));
        }
        let original = view.component(&at.component).is_some_and(|c| original_wins(view.app, c));
        if original && world.has_node(from) {
            at.instead_of = at.instead_of.or_else(|| Some(from.clone()));
        }
    }
    named(view, at)
}

/// What runs and is still wanted, where it is.
fn kept(view: &View<'_>, planned: &tombolo_placement::Plan) -> Vec<Placement> {
    let id = AppId::of(view.app);
    let surplus: BTreeSet<(&str, u32)> = planned
        .surplus
        .iter()
        .filter(|surplus| surplus.running.app.as_ref() == Some(&id))
        .map(|surplus| (surplus.running.component.as_str(), surplus.running.replica))
        .collect();
    let wanted = |at: &&Placement| !surplus.contains(&(at.component.as_str(), at.replica));
    view.current.values().filter(wanted).map(|at| named(view, at.clone())).collect()
}

fn is_missing(at: &Placement, unplaced: &[Unplaced]) -> bool {
    unplaced.iter().any(|one| one.component == at.component && one.replica == at.replica)
}

/// Whether the node is gone, or silent for longer than the rule of the App waits.
fn is_lost(view: &View<'_>, at: &Placement, world: &World<'_>) -> bool {
    let component = view.component(&at.component);
    let node = at.node.as_deref();
    component.zip(node).is_some_and(|(component, node)| world.is_lost(view.app, component, node))
}

fn named(view: &View<'_>, mut at: Placement) -> Placement {
    if at.assignment.is_none() {
        at.assignment = Some(assignment_name(view.app, &at));
    }
    at.ready = view.is_up(&at);
    at
}

/// Whether the plan only moves instances, and takes down more of a component than may be down
/// together with those that are down already.
fn must_wait(view: &View<'_>, plan: &AppPlan) -> bool {
    let mut down: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for instance in &plan.instances {
        let at = &instance.placement;
        let known = view.current.get(&InstanceKey::placed(at));
        let is_up = known.is_some_and(|known| view.is_up(known));
        let (moves, others) = down.entry(&at.component).or_default();
        match instance.step {
            Step::Move { .. } if is_up => *moves += 1,
            Step::Start => return false,
            Step::Move { .. } => *others += 1,
            Step::Stay | Step::Wait => *others += usize::from(!is_up),
        }
    }
    down.into_iter().any(|(name, (moves, others))| {
        let component = view.component(name);
        let budget = component.and_then(|component| component.unavailable_max).unwrap_or(1).max(1);
        moves > 0 && others > 0 && moves + others > budget as usize
    })
}
