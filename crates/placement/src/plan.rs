//! The whole of it: what is wanted, what runs and the continuum become a [`Plan`] with a reason for
//! every step. Called by the placement loop, `tombolo plan`, `match` and `what-if`. Start reading at
//! [`plan()`].

mod room;
mod solve;

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::app::{Placement, Unplaced};
use tombolo_model::needs::Resources;
use tombolo_model::{App, AppId, Trouble};
use tombolo_solver::problem::{Choice, Invalid, ItemId};
use tombolo_solver::select::{Limits, Outcome as Found};

use crate::ask;
use crate::compile::{self, Compiled, Options, Origin, Scope};
use crate::continuum::Continuum;
use crate::explain::{self, Lack};
use crate::reschedule;
use crate::running::{Hold, Running};

/// Each takes a look at all nodes and perhaps some searches. The others get a word, and their turn
/// when these are helped.
const EXPLAINED_MAX: usize = 32;

/// What follows from a look at the world. Carrying it out and planning again gives nothing to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Apps that were looked at, by id. One that needs nothing and was not looked at is not here.
    pub apps: Vec<AppPlan>,
    /// Apps (as they were given) for which there was something to decide, in order.
    pub pending: Vec<usize>,
    /// Instances that run and are no longer wanted.
    pub surplus: Vec<Surplus>,
    /// The sum over all planned Apps, in hundredths of a point.
    pub objective: i64,
    /// No choice could have more; where what runs kept its place, none that leaves it there.
    pub bound: i64,
    /// It was proven that nothing is better, in the same sense.
    pub optimal: bool,
    pub work: u64,
    pub troubles: Vec<Trouble>,
    /// What was assumed or cut, a sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AppPlan {
    /// `namespace/name`.
    pub app: AppId,
    /// Index into the Apps that were given.
    pub index: usize,
    pub outcome: Outcome,
    /// By component and replica. When the App is `Kept`, those that run.
    pub instances: Vec<InstancePlan>,
    /// What has no place, and why.
    pub unplaced: Vec<Unplaced>,
}

/// What becomes of an App.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every instance has a place.
    Placed,
    /// What is wanted has no place; what runs stays as it is.
    Kept,
    /// It has no place, and nothing of it runs.
    Unplaced,
    /// It contradicts itself; the troubles say how.
    Refused,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InstancePlan {
    pub step: Step,
    /// Where, by which engine, and why.
    pub placement: Placement,
    /// Which of the component's ways to run it.
    pub run: usize,
    /// What the instance gets of the node.
    pub resources: Resources,
}

/// What is to be done about an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It runs nowhere yet.
    Start,
    /// It is where it should be.
    Stay,
    Move {
        from: String,
        why: Why,
    },
    /// It should leave, and stays until others of its component are up again.
    Wait,
}

/// Why an instance moves.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It may not stay, for these reasons.
    Must(Vec<String>),
    /// The new place is better by so many points, what moving costs taken off.
    Gains(f64),
    /// The place is no better in itself, but others gain by it.
    Yields,
    /// Somebody would have no place otherwise.
    MakesRoom,
}

/// An instance that runs and is no longer wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Surplus {
    pub running: Running,
    pub why: &'static str,
}

/// Plans. `running` is all that was given a place before, also by Apps that are gone.
///
/// The order of the input does not matter. Nothing is made worse: an App that cannot be placed as it
/// is wanted keeps what it has, and no instance moves that would not gain by it or have to.
pub fn plan<A: Borrow<App>>(
    continuum: &Continuum<'_>,
    apps: &[A],
    running: &[Running],
    options: &Options,
    limits: &Limits<'_>,
) -> Result<Plan, Invalid> {
    let apps: Vec<&App> = apps.iter().map(Borrow::borrow).collect();
    let mut aside = BTreeSet::new();
    let mut wave = wave(continuum, &apps, running, options, limits, &aside)?;
    let mut plan = wave.plan;
    // Apps that speak to those that were planned: each wave plans at least one of them.
    while wave.more {
        aside.extend(wave.planned);
        let running = wave.running;
        wave = self::wave(continuum, &apps, &running, options, limits, &aside)?;
        plan.join(wave.plan);
    }
    Ok(plan)
}

/// Apps that do not speak to each other, planned together.
struct Wave {
    plan: Plan,
    planned: Vec<usize>,
    /// What runs when it is carried out, if others wait for it.
    running: Vec<Running>,
    /// Others wait for it.
    more: bool,
}

/// `aside` were planned before.
fn wave(
    continuum: &Continuum<'_>,
    apps: &[&App],
    running: &[Running],
    options: &Options,
    limits: &Limits<'_>,
    aside: &BTreeSet<usize>,
) -> Result<Wave, Invalid> {
    let mut first = Settled::of(continuum, apps, running, options, limits, aside)?;
    let alone = first.lacking.is_empty() || first.compiled.scoped.standing.is_empty();
    if options.scope == Scope::All || alone {
        return Ok(first.wave(options, limits));
    }
    let beside = Options { also_planned: first.room.apps.clone(), ..options.clone() };
    if beside.also_planned.is_empty() {
        first.doubt(options, limits, 0);
        return Ok(first.wave(options, limits));
    }
    let second = Settled::of(continuum, apps, running, &beside, limits, aside)?;
    if second.lacks() < first.lacks() {
        return Ok(second.wave(&beside, limits));
    }
    // Of those that were asked and kept their place after all, none may have been given up on too soon.
    let is_sure = second.frozen.values().all(|lack| *lack == Lack::Proven);
    match first.room.all && aside.is_empty() && is_sure {
        true => first.believe(&second),
        false => first.doubt(options, limits, second.solved.work),
    }
    Ok(first.wave(options, limits))
}

impl Plan {
    /// With what was planned after it.
    fn join(&mut self, next: Plan) {
        let Plan { apps, pending, surplus: _, objective, bound, optimal, work, troubles, notes } =
            next;
        // Those that contradict themselves, and what runs for nobody, are told each time.
        let fresh = apps.into_iter().filter(|app| app.outcome != Outcome::Refused);
        self.apps.extend(fresh);
        self.apps.sort_by(|a, b| a.app.cmp(&b.app).then(a.index.cmp(&b.index)));
        self.pending.extend(pending);
        self.pending.sort_unstable();
        self.pending.dedup();
        self.objective = self.objective.saturating_add(objective);
        self.bound = self.bound.saturating_add(bound);
        self.optimal &= optimal;
        self.work = self.work.saturating_add(work);
        let known = self.troubles.clone();
        self.troubles.extend(troubles.into_iter().filter(|trouble| !known.contains(trouble)));
        let known = self.notes.clone();
        self.notes.extend(notes.into_iter().filter(|note| !known.contains(note)));
    }
}

/// What was found for the Apps that have something to do, beside those that stand.
struct Settled<'c, 'a> {
    compiled: Compiled<'c, 'a>,
    solved: solve::Solved,
    /// Apps that run and cannot be placed as they are wanted.
    frozen: BTreeMap<usize, Lack>,
    /// All Apps that have no place as they are wanted.
    lacking: BTreeMap<usize, Lack>,
    /// Who could make room for them.
    room: room::Room,
}

impl<'c, 'a> Settled<'c, 'a> {
    fn of(
        continuum: &'c Continuum<'a>,
        apps: &[&'c App],
        running: &'c [Running],
        options: &Options,
        limits: &Limits<'_>,
        aside: &BTreeSet<usize>,
    ) -> Result<Settled<'c, 'a>, Invalid> {
        let mut frozen: BTreeMap<usize, Lack> = BTreeMap::new();
        let mut room: Option<room::Room> = None;
        loop {
            let left_out: BTreeSet<usize> = frozen.keys().chain(aside).copied().collect();
            let mut compiled =
                compile::compile_without(continuum, apps, running, options, &left_out);
            let solved = solve::solve(&mut compiled, options, limits)?;
            let parts = compiled.part_of.iter();
            let lacks =
                |(app, part): (&usize, &usize)| Some((*app, lack(solved.parts[*part], &solved)?));
            let lacking: BTreeMap<usize, Lack> = parts.filter_map(lacks).collect();
            let may_ask = options.scope == Scope::Pending && options.also_planned.is_empty();
            if room.is_none() && !lacking.is_empty() && may_ask {
                let lacking: Vec<usize> = lacking.keys().copied().collect();
                room = Some(room::beside(&compiled, &lacking));
            }
            let torn = lacking.iter().filter(|(app, _)| runs(&compiled, **app));
            let torn: Vec<(usize, Lack)> = torn.map(|(app, lack)| (*app, *lack)).collect();
            // What runs and cannot be placed anew stays, and takes its room: the others look again. Each
            // round freezes one App more, so this ends.
            if torn.is_empty() {
                let lacking = lacking.into_iter().chain(frozen.clone()).collect();
                let room = room.unwrap_or_default();
                return Ok(Settled { compiled, solved, frozen, lacking, room });
            }
            frozen.extend(torn);
        }
    }

    /// How many have no place as they are wanted, the most important first: with fewer it is the better plan.
    fn lacks(&self) -> BTreeMap<Reverse<i32>, usize> {
        let scoped = &self.compiled.scoped;
        let all = scoped.planned.iter().chain(&scoped.standing);
        let mut counts = BTreeMap::new();
        for app in all {
            let priority = Reverse(compile::priority(self.compiled.apps[*app].spec.qos));
            *counts.entry(priority).or_default() += usize::from(self.lacking.contains_key(app));
        }
        counts
    }

    /// What has no place even if all that run may move has none; of all else it is not known.
    fn believe(&mut self, freest: &Settled<'_, '_>) {
        for (app, lack) in &mut self.lacking {
            if *lack == Lack::Proven {
                *lack = freest.lacking.get(app).copied().unwrap_or(*lack);
            }
        }
    }

    /// Only some of those that run were asked to move. So what has no place on an empty continuum has none; of
    /// all else it is not known.
    fn doubt(&mut self, options: &Options, limits: &Limits<'_>, work: u64) {
        let steps = self.solved.work + work;
        let compiled = &self.compiled;
        let proven = self.lacking.iter_mut().filter(|(_, lack)| **lack == Lack::Proven);
        for (looked_at, (app, lack)) in proven.enumerate() {
            let is_known = looked_at < EXPLAINED_MAX;
            if !is_known || !explain::is_hopeless(compiled, *app, options, limits) {
                *lack = Lack::Beside { steps };
            }
        }
    }

    fn wave(&self, options: &Options, limits: &Limits<'_>) -> Wave {
        let scoped = &self.compiled.scoped;
        let more = !scoped.deferred.is_empty();
        let running = match more {
            true => explain::as_planned(&self.compiled, &self.solved.chosen),
            false => Vec::new(),
        };
        let planned = scoped.planned.iter().chain(self.frozen.keys()).copied().collect();
        Wave { plan: assemble(self, options, limits), planned, running, more }
    }
}

/// What an App lacks, by what the search said of it; `None` if nothing.
fn lack(found: Found, solved: &solve::Solved) -> Option<Lack> {
    match found {
        Found::Placed => None,
        Found::Infeasible => Some(Lack::Proven),
        Found::NotFound => Some(Lack::GaveUp { steps: solved.work }),
    }
}

fn runs(compiled: &Compiled<'_, '_>, app: usize) -> bool {
    compiled.roster.of_app(&compiled.ids[app]).any(|running| running.hold == Hold::Held)
}

fn assemble(settled: &Settled<'_, '_>, options: &Options, limits: &Limits<'_>) -> Plan {
    let Settled { compiled, solved, frozen, lacking: lacks, .. } = settled;
    let mut plan = Plan {
        objective: solved.objective,
        bound: solved.bound,
        optimal: solved.optimal,
        work: solved.work,
        troubles: compiled.troubles.clone(),
        notes: compiled.notes.clone(),
        pending: compiled.scoped.planned.iter().chain(frozen.keys()).copied().collect(),
        surplus: surplus(compiled),
        ..Plan::default()
    };
    plan.pending.sort_unstable();
    let mut reasons = explain::Reasons::new(compiled, &solved.chosen);
    let mut explained = 0;
    let mut explain = |app: usize, lack: Lack| {
        explained += 1;
        match explained <= EXPLAINED_MAX {
            true => explain::unplaced(compiled, &solved.chosen, (app, lack), options, limits),
            false => explain::briefly(compiled, (app, lack)),
        }
    };
    for app in &compiled.scoped.planned {
        plan.apps.push(match lacks.get(app).copied() {
            None => AppPlan {
                app: compiled.ids[*app].clone(),
                index: *app,
                outcome: Outcome::Placed,
                instances: instances(compiled, *app, solved, &mut reasons),
                unplaced: Vec::new(),
            },
            Some(lack) => lacking(compiled, *app, Outcome::Unplaced, explain(*app, lack)),
        });
    }
    for app in frozen.keys() {
        let unplaced = explain(*app, lacks[app]);
        // All of it runs: it only had to make no room for others.
        if !unplaced.is_empty() {
            plan.apps.push(lacking(compiled, *app, Outcome::Kept, unplaced));
        }
    }
    for app in &compiled.scoped.refused {
        plan.apps.push(lacking(compiled, *app, Outcome::Refused, Vec::new()));
    }
    plan.apps.sort_by(|a, b| a.app.cmp(&b.app).then(a.index.cmp(&b.index)));
    plan
}

fn lacking(
    compiled: &Compiled<'_, '_>,
    app: usize,
    outcome: Outcome,
    unplaced: Vec<Unplaced>,
) -> AppPlan {
    let held =
        compiled.roster.of_app(&compiled.ids[app]).filter(|running| running.hold == Hold::Held);
    let instances = held.filter_map(|running| {
        let component =
            compiled.apps[app].spec.components.iter().find(|c| c.name == running.component)?;
        let node = compiled.continuum.node_index(&running.node)?;
        let ask = ask::Ask::new(component, ask::Slot::Alike);
        Some(InstancePlan {
            step: Step::Stay,
            placement: Placement {
                component: running.component.clone(),
                replica: running.replica,
                site: compiled.continuum.site_of(node).name.to_owned(),
                node: Some(running.node.clone()),
                engine: Some(running.engine),
                ..Placement::default()
            },
            run: ask.run_on(running.engine).unwrap_or(0),
            resources: running.resources.clone().unwrap_or_else(|| ask::resources(ask.needs)),
        })
    });
    AppPlan {
        app: compiled.ids[app].clone(),
        index: app,
        outcome,
        instances: instances.collect(),
        unplaced,
    }
}

fn instances(
    compiled: &Compiled<'_, '_>,
    which: usize,
    solved: &solve::Solved,
    reasons: &mut explain::Reasons<'_, '_, '_>,
) -> Vec<InstancePlan> {
    let mut instances = Vec::new();
    for item in &compiled.problem.parts[compiled.part_of[&which]].items {
        let Origin::Wanted { app, component, replica, ask } = compiled.origins[item.at()] else {
            continue;
        };
        let Some(choice) = solved.chosen[*item].filter(|_| app == which) else { continue };
        let node = compiled.nodes[choice.node.at()];
        let row = compiled.continuum.node(node);
        let ask = &compiled.asks[ask];
        let engine = explain::engine_of(choice).unwrap_or(row.engine);
        let step = step(compiled, *item, choice, solved, (app, component, replica));
        instances.push(InstancePlan {
            placement: Placement {
                component: ask.component.name.clone(),
                replica,
                site: compiled.continuum.site_of(node).name.to_owned(),
                node: Some(row.name.to_owned()),
                engine: Some(engine),
                decision: Some(reasons.decision(*item, choice, &step)),
                ..Placement::default()
            },
            step,
            run: ask.run_on(engine).unwrap_or(0),
            resources: ask::resources(ask.needs),
        });
    }
    instances
}

fn step(
    compiled: &Compiled<'_, '_>,
    item: ItemId,
    choice: Choice,
    solved: &solve::Solved,
    (app, component, replica): (usize, usize, u32),
) -> Step {
    let Some(at) = compiled.runs_on(app, component, replica) else { return Step::Start };
    if solved.waiting.contains(&item) {
        return Step::Wait;
    }
    let here = compiled.nodes[choice.node.at()] == at;
    if here && reschedule::keeps_engine(compiled, item, choice) {
        return Step::Stay;
    }
    let why = match explain::eviction(compiled, item, at) {
        must if !must.is_empty() => Why::Must(must),
        _ if solved.make_room.contains(&item) => Why::MakesRoom,
        _ => {
            let gain = reschedule::gain(compiled, item, choice);
            #[expect(clippy::cast_precision_loss, reason = "points for people")]
            let points = gain as f64 / 100.0;
            match gain > 0 {
                true => Why::Gains(points),
                false => Why::Yields,
            }
        }
    };
    Step::Move { from: compiled.continuum.node(at).name.to_owned(), why }
}

fn surplus(compiled: &Compiled<'_, '_>) -> Vec<Surplus> {
    let apps: BTreeMap<&AppId, &App> =
        compiled.ids.iter().zip(compiled.apps.iter().copied()).collect();
    let judge = |running: &Running| -> Option<&'static str> {
        let Some(id) = &running.app else { return Some("it is on its way out") };
        let Some(app) = apps.get(id) else { return Some("its App is gone") };
        if app.metadata.deletion_timestamp.is_some() {
            return Some("its App is being deleted");
        }
        if app.spec.stopped {
            return Some("its App is stopped");
        }
        let component = app.spec.components.iter().find(|c| c.name == running.component);
        let Some(component) = component else { return Some("its component is gone") };
        let wanted = ask::instances(component);
        (running.replica as usize >= wanted).then_some("fewer instances are wanted")
    };
    let surplus =
        |running: &Running| Some(Surplus { why: judge(running)?, running: running.clone() });
    compiled.roster.iter().filter_map(surplus).collect()
}

#[cfg(test)]
mod tests;
