//! Assignments as jobs: which type, which state.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// `generation` of the spec, whether it is being deleted, the generation that was reported on, and
/// conditions as `Applied+`, `Progressing-`, with the generation behind an `@` where it matters.
#[track_caller]
fn check(generation: i64, deleting: bool, seen: Option<i64>, conditions: &[&str], expect: Expect) {
    let condition = |text: &&str| {
        let (text, at) = text.split_once('@').unwrap_or((text, "1"));
        let (kind, sign) = text.split_at(text.len() - 1);
        json!({"type": kind, "status": if sign == "+" { "True" } else { "False" },
            "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": at.parse::<i64>().unwrap()})
    };
    let deleted = deleting.then_some("2026-01-01T00:00:00Z");
    let assignment: Assignment = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u-1",
            "generation": generation, "deletionTimestamp": deleted},
        "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north",
            "engine": "kubernetes", "run": {"container": {"image": "web:1"}}},
        "status": {"observedGeneration": seen,
            "conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
    }))
    .unwrap();
    let text = format!("{:?} {:?}", Type::of(&assignment), State::of(&assignment));
    expect.assert_eq(&text);
}

#[test]
fn a_new_job_goes_from_created_to_finished() {
    check(1, false, None, &[], expect!["Create Created"]);
    check(1, false, None, &["Progressing+"], expect!["Create Progressing"]);
    check(1, false, Some(1), &["Applied+", "Progressing-"], expect!["Create Finished"]);
    check(1, false, Some(1), &["Applied+", "Available+"], expect!["Create Finished"]);
    check(1, false, Some(1), &["Applied+", "Degraded+"], expect!["Create Degraded"]);
}

#[test]
fn what_was_changed_since_it_was_reported_on_is_an_update() {
    let well = &["Applied+", "Progressing-", "Available+"];
    check(2, false, Some(1), well, expect!["Update Created"]);
    check(2, false, Some(1), &["Progressing+@1"], expect!["Update Created"]);
    check(2, false, Some(1), &["Progressing+@2"], expect!["Update Progressing"]);
    check(2, false, Some(2), well, expect!["Create Finished"]);
}

#[test]
fn what_is_being_deleted_is_a_job_to_undeploy() {
    check(2, true, Some(1), &["Available+", "Progressing+@1"], expect!["Delete Created"]);
    check(2, true, Some(1), &["Available+", "Progressing+@2"], expect!["Delete Progressing"]);
}

#[test]
fn a_state_is_read_from_a_number_or_a_word() {
    assert_eq!(State::read(&json!(3)), Some(State::Finished));
    assert_eq!(State::read(&json!("Finished")), Some(State::Finished));
    assert_eq!(State::read(&json!("JobDegraded")), Some(State::Degraded));
    assert_eq!(State::read(&json!(9)), None);
    assert_eq!(State::read(&json!({})), None);
}

#[test]
fn a_uuid_is_known_by_its_form() {
    assert!(is_uuid("1ea125ca-6887-4097-9124-593abb5188f9"));
    assert!(!is_uuid("1ea125ca-6887-4097-9124-593abb5188f"));
    assert!(!is_uuid("1ea125ca/6887-4097-9124-593abb5188f9"));
    assert!(!is_uuid(""));
}
