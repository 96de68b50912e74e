//! What people are told when a status changes.

use expect_test::{Expect, expect};
use tombolo_plan::instances::Problem;

use super::*;

fn status_of(phase: &Phase, before: &AssignmentStatus, restarts: u32) -> AssignmentStatus {
    let assignment = serde_json::json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment", "metadata": {"name": "web"},
        "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north",
            "engine": "host", "run": {"process": {"command": ["web"]}}},
    });
    let mut assignment: Assignment = serde_json::from_value(assignment).unwrap();
    assignment.status = Some(before.clone());
    let sight = Sight { phase, instance: None, address: Some("192.0.2.1") };
    let now = Time(jiff::Timestamp::from_second(1).unwrap());
    AssignmentStatus { restarts, ..status(&assignment, &sight, &now) }
}

/// The Events on the way through the phases, each with its number of restarts.
#[track_caller]
fn check(phases: &[(Phase, u32)], expect: Expect) {
    let mut now = AssignmentStatus::default();
    let mut out = String::new();
    for (phase, restarts) in phases {
        let next = status_of(phase, &now, *restarts);
        for told in news(&now, &next) {
            out.push_str(&format!("{:?} {}: {}\n", told.tone, told.reason, told.message));
        }
        assert_eq!(news(&next, &status_of(phase, &next, *restarts)), [], "once is enough");
        now = next;
    }
    expect.assert_eq(&out);
}

fn problem() -> Problem {
    Problem::new(Reason::Error, "it ended with code 1")
}

#[test]
fn people_hear_of_starts_restarts_and_of_what_goes_wrong() {
    let starting = Phase::Starting { doing: "starting".to_owned() };
    let wait = std::time::Duration::from_secs(2);
    let backing_off = Phase::BackingOff { problem: problem(), failures: 3, wait };
    let rolled_back = Phase::RolledBack { problem: problem(), now: Box::new(Phase::Running) };
    check(
        &[
            (starting, 0),
            (Phase::Running, 0),
            (Phase::Running, 1),
            (backing_off, 1),
            (Phase::Restarting, 2),
            (Phase::Running, 2),
            (Phase::Failing("no answer".to_owned()), 2),
            (Phase::Running, 2),
            (Phase::Updating { new: Box::new(Phase::Checking) }, 2),
            (rolled_back, 2),
            (Phase::Updating { new: Box::new(Phase::Hindered(problem())) }, 2),
            (Phase::Stopped, 2),
        ],
        expect![[r#"
            Normal Started: it is up
            Warning Restarted: restart 1: it had ended
            Warning CrashLoop: it ended with code 1; it failed 3 times in a row and waits 2 s before the next start. `tombolo logs` shows what it wrote.
            Warning Restarted: restart 2: it had ended
            Normal Started: it is up
            Warning CheckFails: no answer
            Normal Updating: the old one serves until the new one is well: it runs and has not answered its check yet
            Warning RolledBack: went back to the last good revision: it ended with code 1. `tombolo logs` shows what it wrote.
            Warning Error: the update fails, the old one serves: it ended with code 1; it is tried again every second. `tombolo logs` shows what it wrote.
            Normal Stopped: stopped on request
        "#]],
    );
}

#[test]
fn what_ran_on_while_its_node_was_silent_was_not_started() {
    let before = status_of(&Phase::Running, &AssignmentStatus::default(), 0);
    let mut doubted = before.clone();
    let available = doubted.conditions.iter_mut().find(|known| known.kind == condition::AVAILABLE);
    let available = available.unwrap();
    available.status = tombolo_model::ConditionStatus::Unknown;
    available.reason = Reason::NodeSilent.word().to_owned();
    assert_eq!(news(&doubted, &before), []);
    let other = AssignmentStatus { instance: Some("4711".to_owned()), ..before };
    assert_eq!(news(&doubted, &other)[0].reason, "Started");
}
