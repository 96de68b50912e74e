//! Answers to questions about decisions: the loop's own reckoning over what it sees and remembers.
//! Called by `tombolo_controller::Explainer`, and by the shell where no server explains. Start reading at
//! [`plan`].

use std::borrow::Borrow;
use std::collections::BTreeSet;

use tombolo_model::app::Unplaced;
use tombolo_model::explanation::{
    Difference, Instead, PlanAnswer, PlanRequest, PlannedApp, PlannedInstance, PlannedOutcome,
    PlannedStep, SettledApp, TargetKind, WhatIfAnswer, WhatIfRequest, WhyAnswer, WhyComponent,
    WhyRequest,
};
use tombolo_model::{About, App, AppId, Shared, Trouble};
use tombolo_placement::explain::pair;
use tombolo_placement::plan::{AppPlan, InstancePlan, Outcome, Plan, Step};
use tombolo_placement::select::Limits;
use tombolo_placement::what_if::{Supposition, World, what_if as suppose};
use tombolo_placement::{Continuum, Options, Scope, Strike, Verdict};

use crate::Monotonic;
use crate::placing::{Basis, Memory, Observed};

/// What an explanation is made from.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub observed: Observed,
    /// What the placing loop remembered after its last look; nothing where no loop is near.
    pub memory: Memory,
    /// By the clock of the loop.
    pub now: Monotonic,
}

/// Whether the caller may read the Apps of a namespace.
pub type MayRead<'r> = &'r dyn Fn(&str) -> bool;

/// Where the Apps would be placed. Those of files as the loop would do it, those that are named as if they
/// could be chosen anew.
pub fn plan(
    mut seen: Seen,
    request: PlanRequest,
    may_read: MayRead<'_>,
    limits: &Limits<'_>,
) -> Result<PlanAnswer, Trouble> {
    let scope = if request.files.is_empty() { Scope::All } else { Scope::Pending };
    let mut asked: BTreeSet<AppId> = BTreeSet::new();
    for app in request.files {
        asked.insert(AppId::of(&app));
        seen.observed.put(app);
    }
    for name in &request.apps {
        let id = name.id();
        app(&seen.observed, &id)?;
        asked.insert(id);
    }
    let observed = &seen.observed;
    let Basis { running, options } = Basis::of(observed, &seen.memory, seen.now);
    let options = Options { scope, ..options };
    let (continuum, unusable) = Continuum::of(&observed.sites, &observed.nodes, &observed.links);
    let planned = tombolo_placement::plan(&continuum, &observed.apps, &running, &options, limits);
    let planned = planned.map_err(|why| Trouble::new(About::Problem, why.to_string()))?;
    let mut answer = PlanAnswer {
        unusable: unusable.iter().map(ToString::to_string).collect(),
        ..answer(planned, &observed.apps)
    };
    narrow(&mut answer, observed, &asked, may_read);
    Ok(answer)
}

/// A plan, as it is told: all of it.
pub fn answer<A: Borrow<App>>(planned: Plan, apps: &[A]) -> PlanAnswer {
    let told = |app: &AppPlan| PlannedApp {
        app: app.app.as_str().to_owned(),
        asked: true,
        outcome: outcome(app.outcome),
        instances: app.instances.iter().map(instance).collect(),
        unplaced: missing(&planned, app, apps.get(app.index).map(Borrow::borrow)),
    };
    PlanAnswer {
        feasible: is_feasible(&planned),
        objective: planned.objective,
        bound: planned.bound,
        optimal: planned.optimal,
        apps: planned.apps.iter().map(told).collect(),
        notes: planned
            .troubles
            .iter()
            .map(ToString::to_string)
            .chain(planned.notes.clone())
            .collect(),
        ..PlanAnswer::default()
    }
}

/// Leaves all of the Apps that were asked about, and of others what would change and may be read.
fn narrow(
    answer: &mut PlanAnswer,
    observed: &Observed,
    asked: &BTreeSet<AppId>,
    may_read: MayRead<'_>,
) {
    let is_asked = |app: &PlannedApp| asked.iter().any(|id| id.as_str() == app.app);
    for app in &mut answer.apps {
        app.asked = is_asked(app);
        if !app.asked {
            app.instances.retain(|instance| instance.step != PlannedStep::Stay);
        }
    }
    answer.apps.retain(|app| app.asked || !app.instances.is_empty());
    let before = answer.apps.len();
    let namespace =
        |app: &str| app.split_once('/').map_or("", |(namespace, _)| namespace).to_owned();
    answer.apps.retain(|app| app.asked || may_read(&namespace(&app.app)));
    answer.hidden = before - answer.apps.len();
    // A note may speak of any App.
    if !observed.apps.iter().all(|app| may_read(AppId::of(app).namespace())) {
        answer.notes.clear();
    }
    answer.feasible = answer.apps.iter().all(|app| app.outcome == PlannedOutcome::Placed);
    let is_planned = |id: &&AppId| answer.apps.iter().any(|app| app.app == id.as_str());
    let settled = asked.iter().filter(|id| !is_planned(id));
    answer.settled = settled.map(|id| settled_app(observed, id)).collect();
}

fn settled_app(observed: &Observed, id: &AppId) -> SettledApp {
    let status = app(observed, id).ok().and_then(|app| app.status.as_ref());
    let placements = status.map(|status| status.placements.clone()).unwrap_or_default();
    SettledApp { app: id.as_str().to_owned(), placements }
}

fn is_feasible(plan: &Plan) -> bool {
    plan.apps.iter().all(|app| app.outcome == Outcome::Placed)
}

fn outcome(outcome: Outcome) -> PlannedOutcome {
    match outcome {
        Outcome::Placed => PlannedOutcome::Placed,
        Outcome::Kept => PlannedOutcome::Kept,
        Outcome::Unplaced => PlannedOutcome::Unplaced,
        Outcome::Refused => PlannedOutcome::Refused,
    }
}

fn instance(instance: &InstancePlan) -> PlannedInstance {
    let (step, from) = match &instance.step {
        Step::Start => (PlannedStep::Start, None),
        Step::Stay => (PlannedStep::Stay, None),
        Step::Move { from, .. } => (PlannedStep::Move, Some(from.clone())),
        Step::Wait => (PlannedStep::Wait, None),
    };
    PlannedInstance { step, from, placement: instance.placement.clone() }
}

/// What has no place. An App that contradicts itself has none for any component.
fn missing(plan: &Plan, app: &AppPlan, wanted: Option<&App>) -> Vec<Unplaced> {
    if app.outcome == Outcome::Placed || !app.unplaced.is_empty() {
        return app.unplaced.clone();
    }
    let own = plan.troubles.iter().filter(|trouble| trouble.is_about_app(&app.app));
    let mut reasons: Vec<String> = own.map(|trouble| trouble.says.clone()).collect();
    if reasons.is_empty() {
        reasons.push("no choice of nodes was found for all components together".to_owned());
    }
    let components = wanted.map_or(&[][..], |app| &app.spec.components);
    let unplaced = components.iter().map(|component| Unplaced {
        component: component.name.clone(),
        reasons: reasons.clone(),
        ..Unplaced::default()
    });
    unplaced.collect()
}

/// What keeps components off a node now.
pub fn why(seen: &Seen, request: &WhyRequest) -> Result<WhyAnswer, Trouble> {
    let observed = &seen.observed;
    let id = request.app.id();
    let app = app(observed, &id)?;
    let components: Vec<&str> = match &request.component {
        Some(component) => vec![component],
        None => app.spec.components.iter().map(|own| own.name.as_str()).collect(),
    };
    let (continuum, _) = Continuum::of(&observed.sites, &observed.nodes, &observed.links);
    let Basis { running, options } = Basis::of(observed, &seen.memory, seen.now);
    let node = request.node.as_str();
    let each = components.into_iter().map(|component| {
        let about = (&id, component, node);
        let found = pair(&continuum, &observed.apps, &running, &options, about)?;
        let instead = found.instead.into_iter().map(|(node, score)| Instead { node, score });
        Ok(WhyComponent {
            component: component.to_owned(),
            node: node.to_owned(),
            failing: found.failing,
            struck: struck(&options, &id, component, node),
            score: found.score,
            terms: found.terms,
            instead: instead.collect(),
        })
    });
    Ok(WhyAnswer { components: each.collect::<Result<_, Trouble>>()? })
}

/// What is held against a node, as the loop weighs it.
fn struck(options: &Options, app: &AppId, component: &str, node: &str) -> Option<String> {
    let is_it = |strike: &&Strike| {
        strike.app == *app && strike.component == component && strike.node == node
    };
    let strike = options.strikes.iter().find(is_it)?;
    let ago = match options.now.saturating_sub(strike.at) / 60 {
        0 => "within the last minute".to_owned(),
        1 => "a minute ago".to_owned(),
        minutes => format!("{minutes} minutes ago"),
    };
    let what = match strike.verdict {
        Verdict::Exclude => "a policy was violated there",
        Verdict::Penalise => "it failed there",
    };
    Some(format!("{what} {ago}: other nodes are preferred, less and less, for an hour"))
}

/// What would follow from a supposition.
pub fn what_if(
    seen: Seen,
    request: WhatIfRequest,
    may_read: MayRead<'_>,
    limits: &Limits<'_>,
) -> Result<WhatIfAnswer, Trouble> {
    let changes = changes(request)?;
    let Basis { running, options } = Basis::of(&seen.observed, &seen.memory, seen.now);
    let Observed { apps, sites, nodes, links, assignments: _, struck: _ } = seen.observed;
    let world = World { sites, nodes, links, apps, running };
    let found = suppose(&world, &changes, &options, limits)?;
    let all = found.differences.len();
    let readable = found.differences.into_iter().filter(|one| may_read(one.app.namespace()));
    let differences: Vec<Difference> = readable
        .map(|one| Difference {
            app: one.app.as_str().to_owned(),
            component: one.component,
            replica: one.replica,
            from: one.from,
            to: one.to,
            why: one.why,
        })
        .collect();
    Ok(WhatIfAnswer {
        feasible: is_feasible(&found.plan),
        objective: found.plan.objective,
        bound: found.plan.bound,
        hidden: all - differences.len(),
        differences,
    })
}

fn changes(request: WhatIfRequest) -> Result<Vec<Supposition>, Trouble> {
    let mut changes = Vec::new();
    changes.extend(request.fail.into_iter().map(|target| match target.kind {
        TargetKind::Site => Supposition::FailSite(target.name),
        TargetKind::Node => Supposition::FailNode(target.name),
        TargetKind::Link => Supposition::LinkDown(target.name),
    }));
    for target in request.drain {
        changes.push(match target.kind {
            TargetKind::Site => Supposition::DrainSite(target.name),
            TargetKind::Node => Supposition::DrainNode(target.name),
            TargetKind::Link => {
                return Err(Trouble::new(About::Link(target.name), "it cannot be drained"));
            }
        });
    }
    let delays = request.delay.into_iter();
    changes.extend(delays.map(|delay| Supposition::LinkDelay(delay.link, delay.latency)));
    changes
        .extend(request.add_sites.into_iter().map(|site| Supposition::AddSite(Shared::from(site))));
    changes
        .extend(request.add_nodes.into_iter().map(|node| Supposition::AddNode(Shared::from(node))));
    changes
        .extend(request.add_links.into_iter().map(|link| Supposition::AddLink(Shared::from(link))));
    changes.extend(request.weights.map(Supposition::Weights));
    Ok(changes)
}

fn app<'o>(observed: &'o Observed, id: &AppId) -> Result<&'o App, Trouble> {
    let known = observed.apps.iter().find(|app| AppId::of(app) == *id);
    known.map(AsRef::as_ref).ok_or_else(|| Trouble::not_found(About::App(id.clone())))
}

#[cfg(test)]
mod tests;
