//! From what the engines say to what the plan takes: jobs, what is observed, who is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tombolo_driver::{Instance, State};
use tombolo_plan::instances::{Id, Observed, Seen, Verb};

use crate::desired::{self, Job, Surroundings, problem};
use crate::health::{self, Target};
use crate::observe::{self, Look};

use super::{Converge, Now};

/// Where components are reached, by namespace, App and component.
pub(super) type Local = BTreeMap<(String, String, String), Vec<String>>;

impl Converge {
    /// What is to run here.
    pub(super) fn jobs(&self, look: &Look, now: &Now) -> BTreeMap<String, Job> {
        let local = local_addresses(look, &now.address);
        let ours = self.held.assignments.iter();
        let ours = ours.filter(|(_, found)| desired::is_ours(found, &self.place));
        ours.map(|(uid, assignment)| {
            let revision = desired::revision(assignment, &self.held.entries);
            let around = Surroundings {
                place: &self.place,
                entries: &self.held.entries,
                engines: &self.engines,
                held_ports: &held_ports(look, uid, revision),
                local: &local,
                fallback: self.held.good.get(uid).map(|good| good.revision),
            };
            let mut job = desired::job(assignment, &around);
            if let Some(error) = look.silent.get(&assignment.spec.engine) {
                job.wanted.blocked = Some(problem(error));
            }
            (uid.clone(), job)
        })
        .collect()
    }

    /// What is there, what is under way and what could not be started.
    pub(super) fn observed(&self, look: &Look) -> Observed {
        let mut observed = Observed::new();
        for (id, (_, instance)) in &look.instances {
            let starts = self.attempts.get(id).map_or(0, |attempt| attempt.count);
            let health = match &instance.state {
                State::Running(running) => self.checks.of(&instance.id, &health::run(running)),
                State::Starting { .. } | State::Stopping(_) => None,
                State::Exited(_) | State::Failed(_) => None,
            };
            observed.insert(id.clone(), observe::seen(instance, health.as_ref(), starts));
        }
        for (id, attempt) in &self.attempts {
            let Some(error) = &attempt.error else { continue };
            match observed.get(id) {
                None | Some(Seen::Exited { .. } | Seen::Failed { .. }) => {
                    observed.insert(id.clone(), observe::failed(error, attempt.count));
                }
                Some(Seen::Starting { .. } | Seen::Running(_) | Seen::Stopping) => (),
            }
        }
        for (id, verb) in &self.busy {
            let seen = match (verb, observed.get(id)) {
                (Verb::Start, Some(Seen::Running(_))) => continue,
                (Verb::Start, _) => Seen::Starting { doing: "starting".to_owned() },
                (Verb::Stop { .. } | Verb::Remove, _) => Seen::Stopping,
            };
            observed.insert(id.clone(), seen);
        }
        observed
    }

    /// Lets those that run be asked how they are.
    pub(super) fn check_on(&mut self, look: &Look) {
        let targets = look.instances.iter().filter_map(|(id, (engine, instance))| {
            let State::Running(running) = &instance.state else { return None };
            let good = self.held.good.get(&id.assignment);
            let now = self.held.assignments.get(&id.assignment)?;
            let wanted = desired::revision(now, &self.held.entries) == id.revision;
            let before = good.filter(|good| good.revision == id.revision && !wanted);
            let assignment = before.map_or(now, |good| &good.assignment);
            Some(Target {
                id: instance.id.clone(),
                run: health::run(running),
                check: assignment.spec.health.clone()?,
                driver: Arc::clone(self.drivers.get(engine)?),
            })
        });
        let targets = targets.collect();
        self.checks.follow(targets);
    }
}

/// Ports of the machine that other revisions hold.
fn held_ports(look: &Look, uid: &str, revision: u64) -> BTreeSet<u16> {
    let others = look.instances.iter();
    let others = others.filter(|(id, _)| id.assignment == uid && id.revision != revision);
    let ports = others.filter_map(|(_, (_, instance))| match &instance.state {
        State::Running(running) | State::Stopping(running) => Some(&running.ports),
        State::Starting { .. } | State::Exited(_) | State::Failed(_) => None,
    });
    ports.flatten().filter_map(|port| port.published).collect()
}

/// Where the components that run here are reached.
pub(super) fn local_addresses(look: &Look, address: &str) -> Local {
    let mut local = Local::new();
    for (_, instance) in look.instances.values() {
        let State::Running(running) = &instance.state else { continue };
        let Some(port) = running.ports.first() else { continue };
        let reached = match (port.published, running.addresses.first()) {
            (Some(published), _) => format!("{address}:{published}"),
            (None, Some(own)) => format!("{own}:{}", port.port),
            (None, None) => continue,
        };
        let origin = &instance.origin;
        let key = (origin.namespace.clone(), origin.app.clone(), origin.component.clone());
        local.entry(key).or_default().push(reached);
    }
    local
}

/// The instance that a status speaks of: the one that is wanted if it runs, or another that does.
pub(super) fn serving<'a>(look: &'a Look, target: &Id) -> Option<&'a Instance> {
    let all = look.instances.iter().filter(|(id, _)| id.assignment == target.assignment);
    let mut all: Vec<(&Id, &Instance)> = all.map(|(id, (_, instance))| (id, instance)).collect();
    all.sort_by_key(|(id, instance)| (!matches!(instance.state, State::Running(_)), *id != target));
    all.first().map(|(_, instance)| *instance)
}
