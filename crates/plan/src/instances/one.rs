//! What to do about one Assignment: which revision should run, and what to do about the instances
//! that there are. Called by [`super::plan`] for each; start at [`One::decide`].

use std::collections::BTreeSet;

use tombolo_model::Reason;

use crate::Monotonic;

use super::{
    Action, Course, Desired, FAILURES_MAX, Health, Id, Observed, Phase, Plan, Problem, Retry, Seen,
    Verb, WAIT_MAX, Wanted, Wellness, Why, backoff, is_well, of_assignment, unknown_end,
};

/// The decision about one Assignment.
pub(super) struct One<'a> {
    pub(super) uid: &'a str,
    pub(super) wanted: &'a Wanted,
    pub(super) observed: &'a Observed,
    pub(super) now: Monotonic,
    pub(super) plan: &'a mut Plan,
}

impl One<'_> {
    pub(super) fn decide(&mut self, desired: &Desired, up: &BTreeSet<(&str, &str)>) -> Phase {
        if self.wanted.stopped {
            self.end_all(&Why::StopAsked);
            return Phase::Stopped;
        }
        if let Some(phase) = self.cut_off(desired) {
            return phase;
        }
        self.know_what_is_well();
        self.give_up_what_failed();
        let id = self.target();
        let refused = self.course().refused.clone().filter(|_| id.revision != self.wanted.revision);
        let phase = match self.observed.get(&id) {
            None => self.begin(&id, up, refused.as_ref()),
            Some(seen) => self.carry_on(&id, seen, up, refused.as_ref()),
        };
        match refused {
            Some((_, problem)) => Phase::RolledBack { problem, now: Box::new(phase) },
            None if self.is_served_by_another(&id) => Phase::Updating { new: Box::new(phase) },
            None => phase,
        }
    }

    /// Another revision runs, is well as far as is known, and is left to run.
    fn is_served_by_another(&self, id: &Id) -> bool {
        let stays = |other: &Id| {
            let ends =
                |action: &Action| action.id == *other && matches!(action.verb, Verb::Stop { .. });
            !self.plan.actions.iter().any(ends)
        };
        let serves = |seen: &Seen| match seen {
            Seen::Running(Health::Well | Health::Unknown | Health::Failing(_)) => true,
            Seen::Running(Health::Unwell(_)) | Seen::Starting { .. } | Seen::Stopping => false,
            Seen::Exited { .. } | Seen::Failed { .. } => false,
        };
        self.others(id).iter().any(|(other, seen)| serves(seen) && stays(other))
    }

    fn cut_off(&mut self, desired: &Desired) -> Option<Phase> {
        let limit = self.wanted.stop_when_cut_off?;
        let alive = of_assignment(self.observed, self.uid).any(|(_, seen)| seen.alive());
        if desired.unheard && !alive {
            return Some(Phase::Blocked(Problem::new(
                Reason::CutOff,
                "not started: since the agent started or was cut off, the controller has not said that \
                 it is still to run here, and it may run elsewhere by now",
            )));
        }
        let since = desired.cut_off_since?;
        let silent = self.now.since(since);
        if silent < limit {
            self.plan.wake(since + limit);
            return None;
        }
        self.end_all(&Why::CutOff(silent));
        Some(Phase::CutOff)
    }

    /// What an early update overtook can prove itself beside it, and is then what to go back to.
    fn know_what_is_well(&mut self) {
        if self.course().good.is_some() {
            return;
        }
        for (id, seen) in self.others(&self.id(self.wanted.revision)) {
            let past = self.plan.memory.instances.get(&id);
            match is_well(&seen, past, self.wanted.checked, self.now) {
                Wellness::Well => self.course_mut().good = Some(id.revision),
                Wellness::Undecided(Some(at)) => self.plan.wake(at),
                Wellness::Undecided(None) | Wellness::Not => (),
            }
        }
    }

    /// An update that fails again and again ends: the revision that was well comes back.
    fn give_up_what_failed(&mut self) {
        let course = self.course();
        let revision = self.wanted.revision;
        let Some(good) = course.good.filter(|good| *good != revision) else { return };
        if course.refused.is_some() {
            return;
        }
        let id = self.id(revision);
        let past = self.plan.memory.instances.get(&id).cloned().unwrap_or_default();
        let hopeless =
            matches!(self.observed.get(&id), Some(Seen::Failed { retry: Retry::Never, .. }));
        if !self.can_serve(good) || !(hopeless || past.failures >= FAILURES_MAX) {
            return;
        }
        let problem = past.last.unwrap_or_else(unknown_end);
        self.course_mut().refused = Some((revision, problem));
    }

    /// There is no instance of the revision that should run.
    fn begin(
        &mut self,
        id: &Id,
        up: &BTreeSet<(&str, &str)>,
        refused: Option<&(u64, Problem)>,
    ) -> Phase {
        if let Some(problem) = self.wanted.blocked.clone() {
            return Phase::Blocked(problem);
        }
        if let Some(phase) = self.make_room(id) {
            return phase;
        }
        if let Some(phase) = self.wait_for_others(up) {
            return phase;
        }
        let why = match (refused, self.others(id).is_empty()) {
            (Some((_, problem)), _) => Why::RolledBack(problem.clone()),
            (None, true) => Why::Missing,
            (None, false) => Why::Outdated,
        };
        self.plan.actions.push(Action { id: id.clone(), verb: Verb::Start, why });
        Phase::Starting { doing: "starting".to_owned() }
    }

    /// Where only one can be, the others end before it starts.
    fn make_room(&mut self, id: &Id) -> Option<Phase> {
        let others = self.others(id);
        if !self.wanted.exclusive || !others.iter().any(|(_, seen)| seen.alive()) {
            return None;
        }
        for (other, seen) in others.iter().filter(|(_, seen)| seen.alive()) {
            self.plan.end(other, seen, self.wanted.grace, Why::Outdated);
        }
        Some(Phase::Starting { doing: "the old one ends before the new one starts".to_owned() })
    }

    fn carry_on(
        &mut self,
        id: &Id,
        seen: &Seen,
        up: &BTreeSet<(&str, &str)>,
        refused: Option<&(u64, Problem)>,
    ) -> Phase {
        match seen {
            Seen::Starting { doing } => match self.hindered(id) {
                Some(phase) => phase,
                None => Phase::Starting { doing: doing.clone() },
            },
            Seen::Stopping => Phase::Restarting,
            Seen::Running(Health::Unwell(message)) => self.condemn(id, seen, message),
            Seen::Running(health) => self.let_run(id, seen, health),
            Seen::Exited { .. } | Seen::Failed { retry: Retry::Later | Retry::Soon, .. } => {
                self.start_again(id, up, refused)
            }
            Seen::Failed { retry: Retry::Never, problem, .. } => Phase::Blocked(problem.clone()),
        }
    }

    /// It is said in the same words while it is tried again and again: a status is written once.
    fn hindered(&self, id: &Id) -> Option<Phase> {
        let past = self.plan.memory.instances.get(id).filter(|past| past.hindered)?;
        Some(Phase::Hindered(past.last.clone().unwrap_or_else(unknown_end)))
    }

    fn condemn(&mut self, id: &Id, seen: &Seen, message: &str) -> Phase {
        let problem = Problem::new(Reason::Unhealthy, message);
        self.plan.end(id, seen, self.wanted.grace, Why::Unwell(message.to_owned()));
        if let Some(past) = self.plan.memory.instances.get_mut(id) {
            past.condemned = Some(problem.clone());
        }
        Phase::Unwell(problem)
    }

    /// It runs. Once it is well, whatever it replaces can go.
    fn let_run(&mut self, id: &Id, seen: &Seen, health: &Health) -> Phase {
        let past = self.plan.memory.instances.get(id);
        let crashes = past.is_some_and(|past| past.failures >= FAILURES_MAX);
        let proved = past.is_some_and(|past| past.proved);
        match is_well(seen, past, self.wanted.checked, self.now) {
            Wellness::Well => {
                self.course_mut().good = Some(id.revision);
                self.course_mut().waiting_since = None;
                if let Some(past) = self.plan.memory.instances.get_mut(id) {
                    past.proved = true;
                }
                for (other, seen) in self.others(id) {
                    self.plan.end(&other, &seen, self.wanted.grace, Why::Replaced);
                }
                Phase::Running
            }
            Wellness::Undecided(Some(at)) => {
                self.plan.wake(at);
                // Of one that crashes again and again it takes more than a start to believe it.
                if crashes { Phase::Restarting } else { Phase::Running }
            }
            Wellness::Undecided(None) | Wellness::Not => match health {
                Health::Failing(message) => Phase::Failing(message.clone()),
                Health::Unknown if proved => Phase::Running,
                Health::Unknown | Health::Well | Health::Unwell(_) => Phase::Checking,
            },
        }
    }

    fn start_again(
        &mut self,
        id: &Id,
        up: &BTreeSet<(&str, &str)>,
        refused: Option<&(u64, Problem)>,
    ) -> Phase {
        let past = self.plan.memory.instances.get(id).cloned().unwrap_or_default();
        if let Some(at) = past.retry_at.filter(|at| *at > self.now) {
            self.plan.wake(at);
            if let Some(phase) = self.hindered(id) {
                return phase;
            }
            let problem = past.last.unwrap_or_else(unknown_end);
            // The whole pause and not what is left of it, so that a status is written once.
            let wait = backoff(past.failures);
            return Phase::BackingOff { problem, failures: past.failures, wait };
        }
        if let Some(problem) = self.wanted.blocked.clone() {
            return Phase::Blocked(problem);
        }
        if let Some(phase) = self.make_room(id) {
            return phase;
        }
        if let Some(phase) = self.wait_for_others(up) {
            return phase;
        }
        let why = match (refused, &past.last) {
            (Some((_, problem)), _) => Why::RolledBack(problem.clone()),
            (None, Some(problem)) if past.failures > 0 => Why::Ended(problem.clone()),
            (None, Some(_) | None) => Why::Missing,
        };
        self.plan.actions.push(Action { id: id.clone(), verb: Verb::Start, why });
        match (self.hindered(id), past.failures) {
            (Some(phase), _) => phase,
            (None, 0) => Phase::Starting { doing: "starting".to_owned() },
            (None, _) => Phase::Restarting,
        }
    }

    /// The components that should come first and are not up, for as long as it is worth waiting.
    fn wait_for_others(&mut self, up: &BTreeSet<(&str, &str)>) -> Option<Phase> {
        let app = self.wanted.app.as_str();
        let missing = self.wanted.after.iter().filter(|before| {
            !before.up_elsewhere && !up.contains(&(app, before.component.as_str()))
        });
        let missing: Vec<String> = missing.map(|before| before.component.clone()).collect();
        if missing.is_empty() {
            return None;
        }
        let now = self.now;
        let since = *self.course_mut().waiting_since.get_or_insert(now);
        if now.since(since) >= WAIT_MAX {
            return None;
        }
        self.plan.wake(since + WAIT_MAX);
        Some(Phase::Waiting { missing })
    }

    fn target(&self) -> Id {
        let course = self.course();
        match (&course.refused, course.good) {
            (Some(_), Some(good)) if self.can_serve(good) => self.id(good),
            (Some(_) | None, _) => self.id(self.wanted.revision),
        }
    }

    /// It runs, or the agent still knows how to start it.
    fn can_serve(&self, revision: u64) -> bool {
        let runs = self.observed.get(&self.id(revision)).is_some_and(Seen::alive);
        runs || self.wanted.fallback == Some(revision)
    }

    fn end_all(&mut self, why: &Why) {
        for (id, seen) in of_assignment(self.observed, self.uid) {
            self.plan.end(id, seen, self.wanted.grace, why.clone());
        }
    }

    fn others(&self, id: &Id) -> Vec<(Id, Seen)> {
        of_assignment(self.observed, self.uid)
            .filter(|(other, _)| *other != id)
            .map(|(other, seen)| (other.clone(), seen.clone()))
            .collect()
    }

    fn id(&self, revision: u64) -> Id {
        Id { assignment: self.uid.to_owned(), revision }
    }

    fn course(&self) -> &Course {
        &self.plan.memory.assignments[self.uid]
    }

    fn course_mut(&mut self) -> &mut Course {
        self.plan.memory.assignments.entry(self.uid.to_owned()).or_default()
    }
}
