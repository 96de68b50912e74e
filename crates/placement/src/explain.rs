//! Why here, why not there, why nowhere: sentences for people, each from the same rows that decided.
//! Called by [`crate::plan()`] for every placement, and by `why` through [`pair()`].

mod closed;
mod conflict;
mod crowding;
mod decision;
mod joint;
mod neighbours;
mod pair;
mod unknown;

use std::collections::BTreeSet;

use tombolo_model::AppId;
use tombolo_model::app::Unplaced;
use tombolo_solver::problem::{Choice, ItemId};
use tombolo_solver::select::Limits;

use crate::ask::Ask;
use crate::compile::{self, Compiled, Options, Origin, Scope};
use crate::filter::{self, Look};
use crate::running::{Hold, Running};

pub(crate) use decision::Reasons;
pub use pair::{Pair, pair};

/// Why an instance may not stay where it runs; nothing if it may.
pub(crate) fn eviction(compiled: &Compiled<'_, '_>, item: ItemId, at: u32) -> Vec<String> {
    let Some(ask) = compiled.ask(item) else { return Vec::new() };
    let stays = Ask { staying: Some(at), ..ask.clone() };
    let left = &compiled.free[at as usize];
    let look = Look { continuum: compiled.continuum, left, ask: &stays, node: at };
    let mut reasons: Vec<String> =
        filter::failing(&look).iter().map(|asked| asked.rejection(&look)).collect();
    let barred = &compiled.problem.items[item].barred;
    if compiled.at[at as usize].is_some_and(|node| barred.contains(&node)) {
        reasons.push("it violated a policy there".to_owned());
    }
    reasons
}

/// How the search for a place of an App ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// It is proven that no choice of nodes will do.
    Proven,
    /// The search ended after so many steps, and there may be a place.
    GaveUp { steps: u64 },
    /// It is proven that nothing will do beside what runs. Whether something would if that moves was searched for in so
    /// many steps, and is not known.
    Beside { steps: u64 },
}

/// Whether an App would have no place even if nothing else ran anywhere.
pub(crate) fn is_hopeless(
    compiled: &Compiled<'_, '_>,
    app: usize,
    options: &Options,
    limits: &Limits<'_>,
) -> bool {
    let options = Options { scope: Scope::All, ..options.clone() };
    let apps = [compiled.apps[app]];
    let alone =
        compile::compile_without(compiled.continuum, &apps, &[], &options, &BTreeSet::new());
    joint::is_impossible(&alone, limits)
}

/// What stands in the way of an App that has no place: for each instance that is missing, a minimal
/// set of needs in conflict and the smallest change that would help. Of an App whose search gave up
/// nothing is called impossible: it is told that no place was found, and what stands in the way while
/// the other Apps are where they are.
pub(crate) fn unplaced(
    compiled: &Compiled<'_, '_>,
    chosen: &[Option<Choice>],
    (app, lack): (usize, Lack),
    options: &Options,
    limits: &Limits<'_>,
) -> Vec<Unplaced> {
    let mut found = beside_the_others(compiled, chosen, (app, lack), options, limits);
    for one in found.iter_mut().filter(|one| one.gave_up_after.is_none()) {
        match lack {
            Lack::Proven => (),
            Lack::GaveUp { steps } => {
                one.gave_up_after = Some(steps);
                one.reasons.insert(0, joint::not_found(steps));
            }
            Lack::Beside { steps } => {
                one.gave_up_after = Some(steps);
                one.reasons.push("whether there is a place if others move is not known".to_owned());
            }
        }
    }
    found
}

/// The same with every other App where it is planned to be.
fn beside_the_others(
    compiled: &Compiled<'_, '_>,
    chosen: &[Option<Choice>],
    (app, lack): (usize, Lack),
    options: &Options,
    limits: &Limits<'_>,
) -> Vec<Unplaced> {
    let running = as_planned(compiled, chosen);
    let others: BTreeSet<usize> = (0..compiled.apps.len()).filter(|other| *other != app).collect();
    let options = Options { scope: Scope::All, ..options.clone() };
    let alone =
        compile::compile_without(compiled.continuum, &compiled.apps, &running, &options, &others);
    let mut found: Vec<Unplaced> = Vec::new();
    let mut siblings: Vec<Unplaced> = Vec::new();
    let mut missing = false;
    for item in ItemId::first(alone.origins.len()) {
        let Origin::Wanted { app, component, replica, .. } = alone.origins[item.at()] else {
            continue;
        };
        // One that may stay where it is has a place.
        let may_stay = alone
            .runs_on(app, component, replica)
            .is_some_and(|at| eviction(&alone, item, at).is_empty());
        if may_stay {
            continue;
        }
        missing = true;
        let component = alone.apps[app].spec.components[component].name.clone();
        let Some(conflict) = conflict::of(&alone, item) else {
            siblings.push(Unplaced { component, replica, ..Unplaced::default() });
            continue;
        };
        found.push(Unplaced {
            component,
            replica,
            reasons: conflict.reasons,
            suggestion: conflict.suggestion,
            gave_up_after: None,
        });
    }
    // Each may stay, and still they break a promise or a rule between them.
    let stands = || {
        let stay = crate::reschedule::as_it_stands(&alone);
        stay.is_some_and(|stay| alone.problem.check(&stay).is_ok())
    };
    if found.is_empty() && (missing || !stands()) {
        return joint::of(&alone, lack, limits);
    }
    // An App is placed whole or not at all: those that would have a place wait for those that have none.
    if let Some(first) = found.first() {
        let waits = format!("it has a place once {}/{} has one", first.component, first.replica);
        let waiting =
            siblings.into_iter().map(|one| Unplaced { reasons: vec![waits.clone()], ..one });
        let waiting: Vec<Unplaced> = waiting.collect();
        found.extend(waiting);
    }
    found
}

/// The same without a look: there were too many others to explain.
pub(crate) fn briefly(compiled: &Compiled<'_, '_>, (app, lack): (usize, Lack)) -> Vec<Unplaced> {
    let gave_up_after = match lack {
        Lack::Proven => None,
        Lack::GaveUp { steps } | Lack::Beside { steps } => Some(steps),
    };
    let components = compiled.apps[app].spec.components.iter().enumerate();
    let missing = components.flat_map(|(index, component)| {
        let replicas = 0..compile::index(crate::ask::instances(component));
        let missing =
            replicas.filter(move |replica| compiled.runs_on(app, index, *replica).is_none());
        missing.map(|replica| Unplaced {
            component: component.name.clone(),
            replica,
            reasons: vec!["no place; others were explained first, ask why for this one".to_owned()],
            suggestion: None,
            gave_up_after,
        })
    });
    missing.collect()
}

pub(crate) fn engine_of(choice: Choice) -> Option<tombolo_model::Engine> {
    tombolo_model::Engine::ALL.get(usize::from(choice.engine)).copied()
}

/// What will run once the plan is carried out: what stands, and what was chosen.
pub(crate) fn as_planned(compiled: &Compiled<'_, '_>, chosen: &[Option<Choice>]) -> Vec<Running> {
    let planned: BTreeSet<Option<&AppId>> =
        compiled.scoped.planned.iter().map(|app| Some(&compiled.ids[*app])).collect();
    let standing =
        compiled.roster.iter().filter(|running| !planned.contains(&running.app.as_ref()));
    let mut running: Vec<Running> = standing.cloned().collect();
    for (item, choice) in ItemId::first(chosen.len()).zip(chosen) {
        let Origin::Wanted { app, component, replica, .. } = compiled.origins[item.at()] else {
            continue;
        };
        let Some(choice) = choice else { continue };
        let row = compiled.continuum.node(compiled.nodes[choice.node.at()]);
        running.push(Running {
            app: Some(compiled.ids[app].clone()),
            component: compiled.apps[app].spec.components[component].name.clone(),
            replica,
            node: row.name.to_owned(),
            engine: engine_of(*choice).unwrap_or(row.engine),
            resources: None,
            ports: None,
            hold: Hold::Held,
        });
    }
    running
}

#[cfg(test)]
mod tests;
