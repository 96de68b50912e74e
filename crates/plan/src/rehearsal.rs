//! Tries out what a policy wants before anybody decides it: would everything still have a place? By the placing loop's own
//! reckoning, so that what is found here is what the loop will do. Called by the loop `policies`; start reading at
//! [`Rehearsal`].

use tombolo_model::app::{Placement, Unplaced};
use tombolo_model::{App, AppId};
use tombolo_placement::plan::{AppPlan, Outcome};
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Options, explain};

use crate::Monotonic;
use crate::placing::{Basis, Memory, Observed, Struck};

/// Reasons of one refusal. More are read by nobody.
const REASONS_MAX: usize = 3;

/// The world as it would be after what was tried so far and found good.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    observed: Observed,
    memory: Memory,
    now: Monotonic,
}

impl Rehearsal {
    pub fn of(observed: Observed, memory: Memory, now: Monotonic) -> Self {
        Self { observed, memory, now }
    }

    /// A component leaves a node: where it goes, or why it cannot.
    pub fn leave(
        &mut self,
        (app, component, node): (&AppId, &str, &str),
        limits: &Limits<'_>,
    ) -> Result<String, String> {
        let struck = Struck {
            app: app.clone(),
            component: component.to_owned(),
            node: node.to_owned(),
            seconds_ago: 0,
        };
        self.observed.struck.push(struck);
        let planned = self.planned(app, limits);
        let kept = planned.and_then(|planned| {
            let Some(planned) = planned else {
                return Err(format!("{component} stays on {node} whatever is decided"));
            };
            let own = planned.instances.iter().map(|one| &one.placement);
            let of_component: Vec<_> = own.filter(|at| at.component == component).collect();
            if planned.outcome != Outcome::Placed {
                return Err(lacking(&planned, component));
            }
            let is_elsewhere = |at: &&&Placement| at.node.as_deref() != Some(node);
            match of_component.iter().find(is_elsewhere) {
                None => Err(format!("no other node would take {component}")),
                Some(at) => Ok(chosen(at, node)),
            }
        });
        if kept.is_err() {
            self.observed.struck.pop();
        }
        kept
    }

    /// An App becomes another: nothing if all of it has a place then, or why not.
    pub fn change(&mut self, app: App, limits: &Limits<'_>) -> Result<String, String> {
        let id = AppId::of(&app);
        let before = self.observed.apps.clone();
        self.observed.put(app);
        let planned = self.planned(&id, limits);
        let kept = planned.and_then(|planned| match planned {
            Some(planned) if planned.outcome != Outcome::Placed => Err(lacking(&planned, "it")),
            Some(_) | None => Ok(String::new()),
        });
        if kept.is_err() {
            self.observed.apps = before;
        }
        kept
    }

    /// Whether the needs of a component hold on a node; nothing where that cannot be said.
    pub fn holds(&self, (app, component, node): (&AppId, &str, &str)) -> Option<bool> {
        let (continuum, _) = self.continuum();
        let Basis { running, options } = self.basis();
        // What a policy holds against the node is no need.
        let options = Options { strikes: Vec::new(), ..options };
        let about = (app, component, node);
        let pair = explain::pair(&continuum, &self.observed.apps, &running, &options, about);
        pair.ok().map(|pair| pair.failing.is_empty())
    }

    fn basis(&self) -> Basis {
        Basis::of(&self.observed, &self.memory, self.now)
    }

    fn continuum(&self) -> (Continuum<'_>, Vec<tombolo_model::Trouble>) {
        let observed = &self.observed;
        Continuum::of(&observed.sites, &observed.nodes, &observed.links)
    }

    /// What becomes of an App; nothing if nothing of it is looked at.
    fn planned(&self, app: &AppId, limits: &Limits<'_>) -> Result<Option<AppPlan>, String> {
        let (continuum, _) = self.continuum();
        let Basis { running, options } = self.basis();
        let planned =
            tombolo_placement::plan(&continuum, &self.observed.apps, &running, &options, limits);
        let planned = planned.map_err(|invalid| format!("it cannot be planned: {invalid}"))?;
        Ok(planned.apps.into_iter().find(|one| one.app == *app))
    }
}

/// Where it goes, and who was not chosen.
fn chosen(at: &Placement, from: &str) -> String {
    let node = at.node.as_deref().unwrap_or(&at.site);
    let others = at.decision.iter().flat_map(|decision| &decision.alternatives);
    let others = others.take(REASONS_MAX).map(|other| {
        let name = other.node.as_deref().unwrap_or(&other.site);
        let reason = other.reason.as_deref().unwrap_or("another is better");
        format!("; not {name}: {reason}")
    });
    format!("{node} takes it in place of {from}{}", others.collect::<String>())
}

fn lacking(planned: &AppPlan, component: &str) -> String {
    let first = planned.unplaced.first().map(|one: &Unplaced| {
        let reasons = one.reasons.iter().take(REASONS_MAX).chain(&one.suggestion);
        reasons.cloned().collect::<Vec<_>>().join("; ")
    });
    first.unwrap_or_else(|| format!("no other choice of nodes was found for {component}"))
}
