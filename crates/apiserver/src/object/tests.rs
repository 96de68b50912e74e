//! What clients may and may not do to objects, as values.

use serde_json::{Value, json};

use super::*;
use crate::kinds::Kind;
use crate::sample;

const BIRTH: Birth<'_> = Birth { now: "2030-01-01T00:00:00Z", uid: "u-1", suffix: "abcde" };

fn kind(group: &str, kind: &str, scope: Scope) -> Kind {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object"});
    let made = sample::kind(group, "v1", kind, &plural, scope, schema);
    Kind { status_subresource: !group.is_empty(), ..made }
}

fn thing() -> Kind {
    kind("g.io", "Thing", Scope::Namespaced)
}

fn body(metadata: &Value) -> Value {
    json!({"apiVersion": "g.io/v1", "kind": "Thing", "metadata": metadata, "spec": {"a": 1}})
}

fn live() -> Value {
    let mut live = create(&thing(), body(&json!({"name": "x"})), Some("ns"), BIRTH).expect("valid");
    live["metadata"]["resourceVersion"] = json!("7");
    live["status"] = json!({"ready": true});
    live
}

#[test]
fn a_new_object_carries_what_the_server_knows_and_nothing_that_the_client_claims() {
    let claims = json!({"name": "x", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z",
        "generation": 9, "deletionTimestamp": "1999-01-01T00:00:00Z"});
    let mut asked = body(&claims);
    asked["status"] = json!({"ready": true});
    let made = create(&thing(), asked, Some("ns"), BIRTH).expect("valid");
    assert_eq!(
        made,
        json!({"apiVersion": "g.io/v1", "kind": "Thing", "spec": {"a": 1}, "metadata": {
            "name": "x", "namespace": "ns", "uid": "u-1", "generation": 1,
            "creationTimestamp": "2030-01-01T00:00:00Z"}})
    );
}

#[test]
fn a_body_of_a_core_kind_that_does_not_say_what_it_is_is_what_its_address_says() {
    let map = kind("", "ConfigMap", Scope::Namespaced);
    let made = create(&map, json!({"metadata": {"name": "x"}}), Some("ns"), BIRTH);
    let made = made.expect("valid");
    assert_eq!(made["kind"], json!("ConfigMap"));
    let untyped = json!({"apiVersion": "g.io/v1", "metadata": {"name": "x"}});
    let refused = create(&thing(), untyped, Some("ns"), BIRTH).expect_err("it is a user's");
    assert!(refused.message.starts_with("Object 'Kind' is missing in '{"), "{}", refused.message);
}

#[test]
fn a_generated_name_is_the_prefix_with_the_suffix() {
    let made = create(&thing(), body(&json!({"generateName": "web-"})), Some("ns"), BIRTH);
    assert_eq!(text(&made.expect("valid"), "name"), "web-abcde");
}

#[track_caller]
fn refuses(body: Value, namespace: Option<&str>, code: u16, message: &str) {
    let failure = create(&thing(), body, namespace, BIRTH).expect_err("refused");
    assert_eq!((failure.code, failure.message.as_str()), (code, message));
}

#[test]
fn a_body_that_is_not_such_an_object_is_refused_with_a_sentence() {
    refuses(json!([1]), Some("ns"), 400, "the body is not an object; expected a Thing of g.io/v1");
    refuses(
        json!({"apiVersion": "g.io/v1", "kind": "Thong"}),
        Some("ns"),
        400,
        r#"kind: found "Thong", expected "Thing" at this address"#,
    );
    refuses(
        json!({"apiVersion": "g.io/v1", "kind": 5}),
        Some("ns"),
        400,
        r#"kind: found 5, expected "Thing" at this address"#,
    );
    refuses(body(&json!("x")), Some("ns"), 400, "metadata: expected an object");
    refuses(body(&json!({"name": 5})), Some("ns"), 400, "metadata.name: found 5, expected text");
    refuses(
        body(&json!({"name": "x"})),
        None,
        400,
        "a Thing lives in a namespace; use /namespaces/NAME/things",
    );
    refuses(
        body(&json!({"name": "x", "namespace": "other"})),
        Some("ns"),
        400,
        "the namespace of the object (other) does not match the namespace on the URL (ns)",
    );
    refuses(
        body(&json!({})),
        Some("ns"),
        422,
        r#"Thing "" is invalid: metadata.name: Required value: name or generateName is required"#,
    );
    refuses(
        body(&json!({"name": "Web_1"})),
        Some("ns"),
        422,
        "Thing \"Web_1\" is invalid: metadata.name: Invalid value: \"Web_1\" is not a name: lower-case letters, \
         digits, '-' and '.', a letter or digit at both ends; \"web-1\" would do",
    );
}

#[test]
fn an_update_keeps_the_status_and_what_the_server_knows() {
    let mut asked = body(&json!({"name": "x", "uid": "u-1", "labels": {"l": "1"}}));
    asked["status"] = json!({"ready": false});
    let updated = update(&thing(), &live(), asked, Part::Main).expect("valid");
    let settled = settle(&thing(), Some(&live()), updated).expect("valid");
    assert_eq!(settled["status"], json!({"ready": true}));
    assert_eq!(settled["metadata"]["creationTimestamp"], "2030-01-01T00:00:00Z");
    assert_eq!(settled["metadata"]["generation"], 1, "labels are not what is wanted");
}

#[test]
fn the_generation_counts_changes_of_what_is_wanted() {
    let mut asked = body(&json!({"name": "x"}));
    asked["spec"]["a"] = json!(2);
    let updated = update(&thing(), &live(), asked, Part::Main).expect("valid");
    let settled = settle(&thing(), Some(&live()), updated).expect("valid");
    assert_eq!(settled["metadata"]["generation"], 2);
}

#[test]
fn a_status_update_changes_the_status_alone() {
    let mut asked = body(&json!({"name": "x", "labels": {"l": "1"}}));
    asked["spec"]["a"] = json!(2);
    asked["status"] = json!({"ready": false});
    let updated = update(&thing(), &live(), asked, Part::Status).expect("valid");
    let mut expected = live();
    expected["status"] = json!({"ready": false});
    assert_eq!(updated, expected);
}

#[test]
fn an_older_state_or_another_object_is_a_conflict() {
    let stale = body(&json!({"name": "x", "resourceVersion": "6"}));
    assert_eq!(update(&thing(), &live(), stale, Part::Main).expect_err("stale").code, 409);
    let other = body(&json!({"name": "x", "uid": "u-2"}));
    assert_eq!(update(&thing(), &live(), other, Part::Main).expect_err("other").code, 409);
    let renamed = body(&json!({"name": "y"}));
    assert_eq!(update(&thing(), &live(), renamed, Part::Main).expect_err("name").code, 400);
}

#[test]
fn an_object_without_finalizers_goes_at_once() {
    assert_eq!(delete(&thing(), &live(), None, BIRTH.now), Deletion::Remove);
}

#[test]
fn a_finalizer_holds_a_deleted_object_until_it_is_taken_away() {
    let mut held = live();
    held["metadata"]["finalizers"] = json!(["g.io/hold"]);
    let Deletion::Mark(marked) = delete(&thing(), &held, None, BIRTH.now) else {
        panic!("a held object is marked")
    };
    assert!(is_deleting(&marked) && !is_released(&marked));
    assert_eq!(delete(&thing(), &marked, None, BIRTH.now), Deletion::Pending);

    let free = update(&thing(), &marked, body(&json!({"name": "x"})), Part::Main).expect("valid");
    assert!(is_released(&free));
    let more = body(&json!({"name": "x", "finalizers": ["g.io/hold", "g.io/more"]}));
    let more = update(&thing(), &marked, more, Part::Main).expect("shape");
    assert_eq!(settle(&thing(), Some(&marked), more).expect_err("new finalizer").code, 422);
}

#[test]
fn foreground_and_orphan_deletes_hold_the_object_until_its_dependents_are_seen_to() {
    for (propagation, finalizer) in
        [(Propagation::Foreground, FOREGROUND), (Propagation::Orphan, ORPHAN)]
    {
        let Deletion::Mark(marked) = delete(&thing(), &live(), Some(propagation), BIRTH.now) else {
            panic!("marked")
        };
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        let second = delete(&thing(), &marked, Some(Propagation::Background), BIRTH.now);
        assert_eq!(second, Deletion::Remove, "the last word counts");
    }
}

#[test]
fn a_namespace_is_held_until_it_is_empty() {
    let namespace = kind("", "Namespace", Scope::Cluster);
    let asked = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let made = create(&namespace, asked, None, BIRTH).expect("valid");
    let made = settle(&namespace, None, made).expect("valid");
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    let Deletion::Mark(marked) = delete(&namespace, &made, None, BIRTH.now) else {
        panic!("marked")
    };
    assert_eq!(marked["status"]["phase"], "Terminating");
}

#[test]
fn a_secret_takes_plain_text_and_keeps_its_type() {
    let secret = kind("", "Secret", Scope::Namespaced);
    let asked = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"k": "v"}});
    let made = create(&secret, asked.clone(), Some("ns"), BIRTH).expect("valid");
    let made = settle(&secret, None, made).expect("valid");
    assert_eq!(made["data"], json!({"k": "dg=="}));
    assert_eq!(made["type"], "Opaque");
    let mut other = asked;
    other["type"] = json!("other");
    let other = update(&secret, &made, other, Part::Main).expect("shape");
    assert_eq!(settle(&secret, Some(&made), other).expect_err("type").code, 422);
}
