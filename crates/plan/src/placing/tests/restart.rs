//! What of the memory outlives the process, and what that costs in writes.

use super::fails::{after_failing, node_of};
use super::*;

impl Stage {
    /// Another process, whose clock says something else.
    fn restart(&mut self) {
        self.memory = Memory::default();
        self.now = Monotonic::from_start(Duration::from_secs(3));
    }

    fn remembered(&self) -> Option<tombolo_model::app::Remembered> {
        self.observed.apps[0].status.clone().unwrap().remembered
    }

    /// Looks once a minute; how often the status of the App was written.
    fn writes_in(&mut self, minutes: u64) -> usize {
        let mut writes = 0;
        for _ in 0..minutes {
            self.pass(60);
            let before = self.observed.apps[0].metadata.resource_version.clone();
            self.settle();
            writes += usize::from(self.observed.apps[0].metadata.resource_version != before);
        }
        writes
    }
}

#[test]
fn what_failed_elsewhere_before_a_restart_is_broken_itself() {
    let (mut stage, before) = after_failing(component("web", 1, "1"), "DiskFull", 60);
    let after = node_of(&stage);
    assert_ne!(after, before);
    stage.restart();
    stage.settle();
    let basis = Basis::of(&stage.observed, &stage.memory, stage.now);
    let struck: Vec<&str> = basis.options.strikes.iter().map(|one| one.node.as_str()).collect();
    assert_eq!(struck, [before.as_str()]);
    assert_eq!(Basis::without_memory(&stage.observed).options.strikes.len(), 1);
    stage.broken.insert(after.clone(), "CrashLoop");
    for _ in 0..20 {
        stage.pass(59);
        stage.settle();
        assert_eq!(node_of(&stage), after);
    }
}

#[test]
fn a_failure_is_written_down_a_few_times_and_then_forgotten() {
    let (mut stage, before) = after_failing(component("web", 1, "1"), "DiskFull", 60);
    let failures = stage.remembered().unwrap().failures;
    assert_eq!((failures[0].node.as_str(), failures[0].seconds_ago), (before.as_str(), 0));
    stage.broken.clear();
    let writes = stage.writes_in(70);
    assert!(writes <= 6, "{writes}");
    assert_eq!(stage.remembered(), None);
}

#[test]
fn a_silent_node_is_given_the_rest_of_its_time_after_a_restart() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    stage.apply("shop", app(&[component("web", 1, "1")]));
    stage.settle();
    let before = node_of(&stage);
    stage.set_ready(&before, false);
    stage.settle();
    assert_eq!(stage.remembered(), None, "who only misses a few heartbeats writes nothing");
    let writes = stage.writes_in(4);
    assert!(writes <= 3, "{writes}");
    stage.restart();
    stage.settle();
    assert_eq!(node_of(&stage), before);
    stage.pass(59);
    stage.settle();
    assert_eq!(node_of(&stage), before, "four minutes and 59 s");
    stage.pass(1);
    stage.settle();
    assert_ne!(node_of(&stage), before);
    // It is back, and nothing is remembered of it.
    stage.set_ready(&before, true);
    stage.settle();
    assert_eq!(stage.remembered(), None);
}

#[test]
fn a_long_silence_costs_few_writes() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut data = component("data", 1, "1");
    data["stateful"] = json!(true);
    stage.apply("shop", app(&[data]));
    stage.settle();
    stage.set_ready("a1", false);
    stage.settle();
    let writes = stage.writes_in(24 * 60);
    assert!(writes <= 11, "{writes} in a day");
}
