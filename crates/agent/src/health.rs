//! Whether running instances are well. Each instance with a check has a task of its own here, which
//! asks on its schedule; what came of it is read by [`crate::converge`] at its next look. Start at
//! [`Checks::follow`]; [`Tally`] is what counts, without a clock.

mod probe;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tombolo_driver::{Driver, InstanceId, Running};
use tombolo_model::component::Health as Check;
use tombolo_plan::instances::Health;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(10);
/// Nobody is asked more often, whatever is written.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const FAILURES_DEFAULT: u32 = 3;
/// Until the first good answer it is asked this often, so that whoever waits for it need not wait
/// for a whole interval.
const EAGER: Duration = Duration::from_millis(250);
/// More at once would make the agent itself the load of a small machine.
const AT_ONCE_MAX: usize = 16;

/// One instance to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) id: InstanceId,
    /// Which run of it: a new one begins anew.
    pub(crate) run: String,
    pub(crate) check: Check,
    pub(crate) driver: Arc<dyn Driver>,
}

/// Tells one run of an instance from the next.
pub(crate) fn run(running: &Running) -> String {
    format!("{} {:?}", running.name, running.since)
}

/// The checks of all instances.
#[derive(Debug)]
pub(crate) struct Checks {
    tasks: BTreeMap<InstanceId, Task>,
    found: Arc<Mutex<Found>>,
    at_once: Arc<Semaphore>,
    changed: Arc<Notify>,
}

/// What was found, and of which run: the word on an earlier one must not count for the next.
type Found = BTreeMap<InstanceId, (String, Health)>;

#[derive(Debug)]
struct Task {
    run: String,
    check: Check,
    handle: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl Checks {
    pub(crate) fn new() -> Checks {
        Checks {
            tasks: BTreeMap::new(),
            found: Arc::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE_MAX)),
            changed: Arc::default(),
        }
    }

    /// Comes when some instance is found to be better or worse than before.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    pub(crate) fn of(&self, id: &InstanceId, run: &str) -> Option<Health> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(id).filter(|(of, _)| of == run).map(|(_, health)| health.clone())
    }

    /// Asks these from now on, and no others.
    pub(crate) fn follow(&mut self, targets: Vec<Target>) {
        let mut before = std::mem::take(&mut self.tasks);
        for target in targets {
            let same = before.remove(&target.id).filter(|task| {
                task.run == target.run && task.check == target.check && !task.handle.is_finished()
            });
            let id = target.id.clone();
            let task = same.unwrap_or_else(|| {
                self.forget(&id);
                self.begin(target)
            });
            self.tasks.insert(id, task);
        }
        for id in before.keys() {
            self.forget(id);
        }
    }

    fn forget(&self, id: &InstanceId) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn begin(&self, target: Target) -> Task {
        let (run, check) = (target.run.clone(), target.check.clone());
        let asking = ask_on(
            target,
            Arc::clone(&self.found),
            Arc::clone(&self.at_once),
            Arc::clone(&self.changed),
        );
        Task { run, check, handle: tokio::spawn(asking) }
    }
}

/// Asks one instance until it is told to stop.
async fn ask_on(
    target: Target,
    found: Arc<Mutex<Found>>,
    at_once: Arc<Semaphore>,
    changed: Arc<Notify>,
) {
    let rule = Rule::of(&target.check);
    let mut tally = Tally::default();
    let began = tokio::time::Instant::now();
    loop {
        let turn = at_once.acquire().await;
        let answer = probe::ask(&target.driver, &target.id, &target.check, rule.timeout).await;
        drop(turn);
        let health = tally.after(answer, &rule, began.elapsed());
        let before = found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(target.id.clone(), (target.run.clone(), health.clone()));
        if before.is_none_or(|(_, before)| before != health) {
            changed.notify_one();
        }
        tokio::time::sleep(tally.pause(&rule)).await;
    }
}

/// When to ask and what counts, with the defaults filled in.
#[derive(Clone, Copy, Debug)]
struct Rule {
    interval: Duration,
    timeout: Duration,
    failures: u32,
    startup: Duration,
}

impl Rule {
    fn of(check: &Check) -> Rule {
        let or = |given: Option<tombolo_model::Duration>, default: Duration| {
            given.map_or(default, |given| given.to_std())
        };
        Rule {
            interval: or(check.interval, INTERVAL_DEFAULT).max(INTERVAL_MIN),
            timeout: or(check.timeout, TIMEOUT_DEFAULT),
            failures: check.failures.unwrap_or(FAILURES_DEFAULT).max(1),
            startup: or(check.startup, Duration::ZERO),
        }
    }
}

/// How the answers add up.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    answered: bool,
    failures: u32,
    /// When a failure was counted last: in between, eager questions count nothing.
    counted_at: Option<Duration>,
}

impl Tally {
    /// `running` is for how long it has been asked.
    fn after(&mut self, answer: Result<(), String>, rule: &Rule, running: Duration) -> Health {
        let Err(problem) = answer else {
            *self = Tally { answered: true, failures: 0, counted_at: None };
            return Health::Well;
        };
        let starting = !self.answered && running < rule.startup;
        let early = self
            .counted_at
            .is_some_and(|then| !self.answered && running.saturating_sub(then) < rule.interval);
        if !starting && !early {
            self.failures = self.failures.saturating_add(1);
            self.counted_at = Some(running);
        }
        if self.failures >= rule.failures {
            return Health::Unwell(problem);
        }
        // Before the first good answer nobody can say that it has become worse.
        if self.answered { Health::Failing(problem) } else { Health::Unknown }
    }

    fn pause(&self, rule: &Rule) -> Duration {
        if self.answered { rule.interval } else { rule.interval.min(EAGER) }
    }
}

#[cfg(test)]
mod tests;
