//! Whether running instances are well. Each instance with a check has a task of its own here, which
//! asks when `tombolo_plan::agent::health` says; what came of it is read by [`crate::converge`] at its
//! next look. Start at [`Checks::follow`].

mod probe;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tombolo_driver::{Driver, InstanceId, Running};
use tombolo_model::component::Health as Check;
use tombolo_plan::agent::health::{Rule, Tally};
use tombolo_plan::instances::Health;

/// More at once would make the agent itself the load of a small machine.
const AT_ONCE_MAX: usize = 16;

/// One instance to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) id: InstanceId,
    /// Which run of it: for a new run the check begins anew.
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

/// What was found, and of which run: what was found of an earlier run must not count for the next.
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
