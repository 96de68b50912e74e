//! The fake behaves as the trait says an engine does.

use expect_test::{Expect, expect};

use super::*;
use crate::{Origin, Process};

fn spec(id: &str) -> Spec {
    Spec {
        id: id.parse().unwrap(),
        origin: Origin::default(),
        node: None,
        workload: Workload::Process(Process::default()),
        env: BTreeMap::new(),
        files: Vec::new(),
        ports: Vec::new(),
        fixed_ports: Default::default(),
        address: None,
        resources: tombolo_model::needs::Resources::default(),
        stop_grace: Duration::ZERO,
        asks: Default::default(),
        allow: Default::default(),
        shown: Vec::new(),
        deadline: None,
    }
}

/// Each word is done to `a.1` and answered in a line; the last line is what there is then.
#[track_caller]
fn check(words: &[&str], expected: Expect) {
    let fake = Fake::new(Engine::Host);
    fake.set_time(SystemTime::UNIX_EPOCH);
    let driver: Arc<dyn Driver> = Arc::new(fake.clone());
    let id: InstanceId = "a.1".parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut lines = String::new();
    for word in words {
        let result = match *word {
            "start" => runtime.block_on(driver.start(&spec("a.1"))),
            "stop" => runtime.block_on(driver.stop(&id, Duration::from_secs(1))),
            "kill" => runtime.block_on(driver.stop(&id, Duration::ZERO)),
            "remove" => runtime.block_on(driver.remove(&id)),
            told => {
                tell(&fake, &id, told);
                Ok(())
            }
        };
        if let Err(error) = result {
            lines += &format!("{word}: {error}\n");
        }
    }
    let state = |state: &State| match state {
        State::Starting { doing } => format!("starting, {doing}"),
        State::Running(running) => format!("running as {}", running.name),
        State::Stopping(running) => format!("stopping as {}", running.name),
        State::Exited(exit) => format!("exited {} {:?} {:?}", exit.reason, exit.code, exit.signal),
        State::Failed(error) => format!("failed: {error}"),
    };
    for instance in runtime.block_on(driver.list()).unwrap() {
        lines += &format!("{} {}", instance.id, state(&instance.state));
        lines += &format!(", restarts {}\n", instance.restarts);
    }
    lines += &fake.done().join(", ");
    expected.assert_eq(&lines);
}

/// Something happens to the engine or to the instance.
fn tell(fake: &Fake, id: &InstanceId, word: &str) {
    match word {
        "crash" => fake.exits(id, 3),
        "stubborn" => fake.stubborn("a"),
        "fail" => fake.fails("a", Error::DiskFull { doing: "start".to_owned() }),
        "gone" => fake.unreachable(),
        "back" => fake.reachable(),
        "reboot" => fake.reboots(),
        other => panic!("no such word: {other}"),
    }
}

#[test]
fn a_second_start_changes_nothing() {
    check(
        &["start", "start"],
        expect![[r#"
        a.1 running as 1, restarts 0
        start a.1"#]],
    );
}

#[test]
fn what_has_ended_is_started_again_and_counted() {
    check(
        &["start", "crash", "start"],
        expect![[r#"
        a.1 running as 2, restarts 1
        start a.1, start a.1"#]],
    );
    check(
        &["start", "reboot", "start"],
        expect![[r#"
        a.1 running as 2, restarts 1
        start a.1, start a.1"#]],
    );
}

#[test]
fn what_has_ended_cannot_be_stopped() {
    check(
        &["stop", "start", "crash", "stop"],
        expect![[r#"
        a.1 exited Error Some(3) None, restarts 0
        start a.1"#]],
    );
}

#[test]
fn the_stubborn_end_with_their_grace() {
    check(
        &["stubborn", "start", "stop", "start"],
        expect![[r#"
        a.1 stopping as 1, restarts 0
        start a.1, stop a.1"#]],
    );
    check(
        &["stubborn", "start", "stop", "kill"],
        expect![[r#"
        a.1 exited Stopped None Some(9), restarts 0
        start a.1, stop a.1, kill a.1"#]],
    );
}

#[test]
fn failures_are_told_once() {
    check(
        &["fail", "start", "start"],
        expect![[r#"
        start: disk is full: cannot start
        a.1 running as 1, restarts 0
        start a.1"#]],
    );
}

#[test]
fn what_runs_goes_on_while_the_engine_is_out_of_reach() {
    check(
        &["start", "gone", "start", "remove", "back"],
        expect![[r#"
        start: cannot reach the host engine at memory
        remove: cannot reach the host engine at memory
        a.1 running as 1, restarts 0
        start a.1"#]],
    );
}

#[test]
fn removing_twice_is_removing() {
    check(&["start", "remove", "remove"], expect!["start a.1, remove a.1"]);
}

#[test]
fn a_change_wakes_whoever_waits() {
    let fake = Fake::new(Engine::Host);
    let mut events = fake.events();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        fake.start(&spec("a.1")).await.unwrap();
        assert_eq!(events.next().await, Some(()));
    });
}
