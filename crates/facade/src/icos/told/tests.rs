//! Bodies of deployment managers, and the statuses that they make.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn assignment(status: Value) -> Assignment {
    serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "web-0", "namespace": "default", "generation": 2,
            "uid": "1ea125ca-6887-4097-9124-593abb5188f9"},
        "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north",
            "engine": "kubernetes", "run": {"container": {"image": "web:1"}}},
        "status": status,
    }))
    .unwrap()
}

/// What a body makes of an Assignment that was promoted at generation 1.
#[track_caller]
fn check(body: &Value, expect: Expect) {
    let promoted = json!({"agent": "dm-1", "heldUntil": "2026-01-01T00:05:00Z", "conditions": [
        {"type": "Progressing", "status": "True", "reason": "Deploying", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
    ]});
    let text = match Told::read(body.to_string().as_bytes()) {
        Err(refusal) => format!("{refusal:?}\n"),
        Ok(told) => {
            let now = "2026-01-01T00:01:00Z".parse().unwrap();
            let status = told.apply(&assignment(promoted), now);
            let mut text = format!("{:?} {:?}\n", told.job, status.instance);
            for condition in &status.conditions {
                text.push_str(&format!(
                    "{}={} {} since {}\n",
                    condition.kind,
                    condition.status.as_str(),
                    condition.reason,
                    condition.last_transition_time.0
                ));
            }
            text.push_str(&format!("of generation {:?}\n", status.observed_generation));
            text
        }
    };
    expect.assert_eq(&text);
}

#[test]
fn a_finished_job_has_been_applied_as_it_was_when_it_was_promoted() {
    check(
        &json!({"ID": "1ea125ca-6887-4097-9124-593abb5188f9", "state": 3, "type": 5,
            "resource": {"resource_uuid": "cb05f5df-590c-4f23-87ea-57ef964c4fa5"}}),
        expect![[r#"
            Some("1ea125ca-6887-4097-9124-593abb5188f9") Some("cb05f5df-590c-4f23-87ea-57ef964c4fa5")
            Progressing=False Deployed since 2026-01-01T00:01:00Z
            Applied=True Deployed since 2026-01-01T00:01:00Z
            Degraded=False Deployed since 2026-01-01T00:01:00Z
            of generation Some(1)
        "#]],
    );
}

#[test]
fn conditions_of_a_resource_are_taken_as_they_are_told() {
    check(
        &json!({"job_id": "1ea125ca-6887-4097-9124-593abb5188f9", "conditions": [
            {"type": "Available", "status": "True", "reason": "ResourcesAvailable",
                "message": "all are", "lastTransitionTime": "2026-01-01T00:00:30.5Z"},
        ]}),
        expect![[r#"
            Some("1ea125ca-6887-4097-9124-593abb5188f9") None
            Progressing=True Deploying since 2026-01-01T00:00:00Z
            Available=True ResourcesAvailable since 2026-01-01T00:00:30Z
            of generation Some(1)
        "#]],
    );
}

#[test]
fn a_body_that_makes_no_sense_is_refused_with_what_would() {
    let of = |kind: &str, status: &str| json!({"job_id": "x", "conditions": [{"type": kind, "status": status}]});
    check(
        &of("Sleeping", "True"),
        expect![[r#"
            Refusal { code: 400, message: "a condition's type is one of Applied, Progressing, Available, Degraded, Deleted", details: None }
        "#]],
    );
    check(
        &of("Available", "yes"),
        expect![[r#"
            Refusal { code: 400, message: "a condition's status is True, False or Unknown", details: None }
        "#]],
    );
    check(
        &json!({"id": "x", "state": 17}),
        expect![[r#"
            Refusal { code: 400, message: "state is none of 1 (Created), 2 (Progressing), 3 (Finished), 4 (Degraded)", details: None }
        "#]],
    );
    check(
        &json!([1]),
        expect![[r#"
            Refusal { code: 400, message: "the body is neither a job nor a resource", details: None }
        "#]],
    );
}

#[test]
fn it_is_gone_when_the_job_is_finished_or_the_resource_deleted() {
    let read = |body: Value| Told::read(body.to_string().as_bytes()).unwrap();
    assert!(read(json!({"id": "x", "state": "Finished"})).is_gone());
    let deleted = json!({"type": "Deleted", "status": "True", "reason": "Deleted"});
    assert!(read(json!({"job_id": "x", "conditions": [deleted]})).is_gone());
    assert!(!read(json!({"id": "x", "state": 2})).is_gone());
}
