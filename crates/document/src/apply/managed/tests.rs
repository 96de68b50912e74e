//! Who owns what after updates and applies.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::apply::testing::{SCHEMA, object, show, story};
use crate::apply::{Conflict, Manager, OnConflict, apply, message, update};

use super::ApplyError;

/// See [`story`] for the words.
#[track_caller]
fn check(steps: &[&str], expect: Expect) {
    let (live, errors) = story(steps);
    let errors = errors.iter().map(|error| format!("{error}\n")).collect::<String>();
    expect.assert_eq(&(errors + &live.as_ref().map(show).unwrap_or_default()));
}

#[test]
fn lets_two_appliers_own_a_field_that_they_agree_on() {
    check(
        &[r#"alice applies {"replicas": 1}"#, r#"bob applies {"replicas": 1, "image": "a"}"#],
        expect![[r#"
            spec {"image":"a","replicas":1}
            alice Apply at 01: .spec.replicas
            bob Apply at 02: .spec.image .spec.replicas
        "#]],
    );
}

#[test]
fn keeps_what_one_applier_gives_up_and_another_still_owns() {
    check(
        &[
            r#"alice applies {"replicas": 1, "image": "a"}"#,
            r#"bob applies {"replicas": 1}"#,
            r#"alice applies {"image": "a"}"#,
        ],
        expect![[r#"
            spec {"image":"a","replicas":1}
            alice Apply at 03: .spec.image
            bob Apply at 02: .spec.replicas
        "#]],
    );
}

#[test]
fn removes_what_its_last_owner_gives_up() {
    check(
        &[
            r#"alice applies {"replicas": 1, "image": "a"}"#,
            r#"bob applies {"replicas": 1}"#,
            r#"alice applies {"image": "a"}"#,
            r#"bob applies {}"#,
        ],
        expect![[r#"
            spec {"image":"a"}
            alice Apply at 03: .spec.image
            bob Apply at 04: .spec
        "#]],
    );
}

#[test]
fn removes_a_branch_with_what_the_server_filled_in() {
    check(
        &[
            r#"alice applies {"image": "a", "probe": {"path": "/"}, "settings": {"a": "b"}}"#,
            r#"alice applies {"image": "a"}"#,
        ],
        expect![[r#"
            spec {"image":"a"}
            alice Apply at 02: .spec.image
        "#]],
    );
    let applied = object(r#"{"image": "a", "probe": {"path": "/"}}"#);
    let manager = Manager { name: "alice", subresource: "", api_version: "tombolo.dev/v1alpha1" };
    let mut live =
        apply(None, &applied, &SCHEMA, &manager, OnConflict::Fail, "2026-01-01T00:00:01Z").unwrap();
    live["spec"]["probe"]["period"] = json!(10);
    let applied = object(r#"{"image": "a"}"#);
    let live =
        apply(Some(&live), &applied, &SCHEMA, &manager, OnConflict::Fail, "2026-01-01T00:00:02Z");
    expect![[r#"
        spec {"image":"a"}
        alice Apply at 02: .spec.image
    "#]]
    .assert_eq(&show(&live.unwrap()));
}

#[test]
fn keeps_the_part_of_a_branch_that_somebody_else_wrote() {
    check(
        &[
            r#"alice applies {"probe": {"path": "/"}}"#,
            r#"bob updates {"probe": {"period": 10}}"#,
            r#"alice applies {}"#,
        ],
        expect![[r#"
            spec {"probe":{"period":10}}
            alice Apply at 03: .spec
            bob Update at 02: .spec.probe.period
        "#]],
    );
}

#[test]
fn refuses_to_change_what_another_applier_owns() {
    check(
        &[r#"alice applies {"replicas": 1}"#, r#"bob applies {"replicas": 2, "image": "a"}"#],
        expect![[r#"
            Apply failed with 1 conflict: conflict with "alice": .spec.replicas
            spec {"replicas":1}
            alice Apply at 01: .spec.replicas
        "#]],
    );
}

#[test]
fn takes_the_field_away_from_the_others_when_forced() {
    check(
        &[
            r#"alice applies {"replicas": 1, "image": "a"}"#,
            r#"carol applies {"replicas": 1}"#,
            r#"bob forces {"replicas": 2}"#,
        ],
        expect![[r#"
            spec {"image":"a","replicas":2}
            alice Apply at 01: .spec.image
            bob Apply at 03: .spec.replicas
        "#]],
    );
}

#[test]
fn conflicts_with_an_update_that_took_the_field() {
    check(
        &[
            r#"alice applies {"replicas": 1, "image": "a"}"#,
            r#"scaler updates {"replicas": 5}"#,
            r#"alice applies {"replicas": 1, "image": "a"}"#,
        ],
        expect![[r#"
            Apply failed with 1 conflict: conflict with "scaler" using tombolo.dev/v1alpha1: .spec.replicas
            spec {"image":"a","replicas":5}
            alice Apply at 01: .spec.image
            scaler Update at 02: .spec.replicas
        "#]],
    );
}

#[test]
fn leaves_a_field_to_the_updater_once_the_applier_no_longer_names_it() {
    check(
        &[
            r#"alice applies {"replicas": 1, "image": "a"}"#,
            r#"scaler updates {"replicas": 5}"#,
            r#"alice applies {"image": "b"}"#,
        ],
        expect![[r#"
            spec {"image":"b","replicas":5}
            alice Apply at 03: .spec.image
            scaler Update at 02: .spec.replicas
        "#]],
    );
}

#[test]
fn shares_a_keyed_list_item_by_item_and_field_by_field() {
    check(
        &[
            r#"alice applies {"components": [{"name": "web", "image": "a"}]}"#,
            r#"bob applies {"components": [{"name": "db", "image": "d"}]}"#,
            r#"scaler applies {"components": [{"name": "web", "replicas": 3}]}"#,
        ],
        expect![[r#"
            spec {"components":[{"image":"a","name":"web","replicas":3},{"image":"d","name":"db"}]}
            alice Apply at 01: .spec.components[name="web"] .spec.components[name="web"].image .spec.components[name="web"].name
            bob Apply at 02: .spec.components[name="db"] .spec.components[name="db"].image .spec.components[name="db"].name
            scaler Apply at 03: .spec.components[name="web"] .spec.components[name="web"].name .spec.components[name="web"].replicas
        "#]],
    );
    check(
        &[
            r#"alice applies {"components": [{"name": "web", "image": "a"}]}"#,
            r#"scaler applies {"components": [{"name": "web", "replicas": 3}]}"#,
            r#"alice applies {}"#,
        ],
        expect![[r#"
            spec {"components":[{"name":"web","replicas":3}]}
            alice Apply at 03: .spec
            scaler Apply at 02: .spec.components[name="web"] .spec.components[name="web"].name .spec.components[name="web"].replicas
        "#]],
    );
}

#[test]
fn removes_an_item_whose_owner_gives_it_up_even_if_somebody_wrote_into_it() {
    check(
        &[
            r#"alice applies {"components": [{"name": "web", "image": "a"}, {"name": "db"}]}"#,
            r#"scaler updates {"components": [{"name": "web", "image": "a", "replicas": 9}, {"name": "db"}]}"#,
            r#"alice applies {"components": [{"name": "db"}]}"#,
        ],
        expect![[r#"
            spec {"components":[{"name":"db"}]}
            alice Apply at 03: .spec.components[name="db"] .spec.components[name="db"].name
        "#]],
    );
}

#[test]
fn shares_keyed_lists_inside_keyed_lists() {
    check(
        &[
            r#"alice applies {"components": [{"name": "web", "ports": [{"port": 80}]}]}"#,
            r#"bob applies {"components": [{"name": "web", "ports": [{"port": 443, "hint": "tls"}]}]}"#,
            r#"alice applies {"components": [{"name": "web", "ports": [{"port": 80, "protocol": "UDP"}]}]}"#,
        ],
        expect![[r#"
            spec {"components":[{"name":"web","ports":[{"hint":"tls","port":443},{"port":80,"protocol":"UDP"}]}]}
            alice Apply at 03: .spec.components[name="web"] .spec.components[name="web"].name .spec.components[name="web"].ports[port=80,protocol="UDP"] .spec.components[name="web"].ports[port=80,protocol="UDP"].port .spec.components[name="web"].ports[port=80,protocol="UDP"].protocol
            bob Apply at 02: .spec.components[name="web"] .spec.components[name="web"].name .spec.components[name="web"].ports[port=443,protocol="TCP"] .spec.components[name="web"].ports[port=443,protocol="TCP"].hint .spec.components[name="web"].ports[port=443,protocol="TCP"].port
        "#]],
    );
}

#[test]
fn shares_a_set_value_by_value() {
    check(
        &[
            r#"alice applies {"tags": ["a", "b"]}"#,
            r#"bob applies {"tags": ["b", "c"]}"#,
            r#"alice applies {"tags": ["a"]}"#,
            r#"bob applies {"tags": []}"#,
        ],
        expect![[r#"
            spec {"tags":["a"]}
            alice Apply at 03: .spec.tags[="a"]
            bob Apply at 04: .spec.tags
        "#]],
    );
}

#[test]
fn treats_an_atomic_list_or_map_as_one_field() {
    check(
        &[
            r#"alice applies {"command": ["a"], "origin": {"host": "h"}}"#,
            r#"bob applies {"command": ["a", "b"], "origin": {"host": "h", "port": 1}}"#,
        ],
        expect![[r#"
            Apply failed with 2 conflicts: conflicts with "alice":
            - .spec.command
            - .spec.origin
            spec {"command":["a"],"origin":{"host":"h"}}
            alice Apply at 01: .spec.command .spec.origin
        "#]],
    );
    check(
        &[
            r#"alice applies {"command": ["a", "b"], "origin": {"host": "h"}}"#,
            r#"alice applies {"command": ["c"], "origin": {"port": 1}}"#,
        ],
        expect![[r#"
            spec {"command":["c"],"origin":{"port":1}}
            alice Apply at 02: .spec.command .spec.origin
        "#]],
    );
}

#[test]
fn keeps_the_applied_order_and_the_others_where_they_were() {
    let names = |live: Option<Value>| {
        let live = live.expect("an object");
        live["spec"]["tags"].as_array().unwrap().iter().map(Value::to_string).collect::<String>()
    };
    let order = |first: &str, second: &str| {
        let tags = |names: &str| json!({"tags": names.split(' ').collect::<Vec<_>>()});
        let live = format!("alice applies {}", tags(first));
        let applied = format!("bob applies {}", tags(second));
        names(story(&[&live, &applied]).0).replace('"', "")
    };
    assert_eq!(order("a b c", "c a"), "bca");
    assert_eq!(order("a b c", "d"), "abcd");
    assert_eq!(order("a b c", "b d"), "abcd");
    assert_eq!(order("a b c", "d b"), "adbc");
    assert_eq!(order("a b c", "d a"), "dabc");
    assert_eq!(order("a b x", "b a n"), "bxan");
    assert_eq!(order("a b c d e", "e c a n"), "bdecan");
}

#[test]
fn takes_null_for_silence_where_the_schema_does_not_allow_it() {
    check(
        &[
            r#"alice applies {"replicas": 1, "mode": "fast"}"#,
            r#"alice applies {"replicas": null, "mode": null}"#,
        ],
        expect![[r#"
            spec {"mode":null}
            alice Apply at 02: .spec.mode
        "#]],
    );
    check(
        &[
            r#"alice applies @{"metadata": {"labels": {"a": "b"}, "annotations": null}, "status": null}"#,
        ],
        expect![[r#"
            metadata {"labels":{"a":"b"}}
            alice Apply at 01: .metadata.labels.a
        "#]],
    );
}

#[test]
fn does_not_empty_what_is_shared() {
    check(
        &[
            r#"alice applies {"settings": {"a": "1"}, "components": [{"name": "web"}]}"#,
            r#"bob applies {"settings": {}, "components": []}"#,
        ],
        expect![[r#"
            spec {"components":[{"name":"web"}],"settings":{"a":"1"}}
            alice Apply at 01: .spec.components[name="web"] .spec.components[name="web"].name .spec.settings.a
            bob Apply at 02: .spec.components .spec.settings
        "#]],
    );
}

#[test]
fn replaces_what_has_another_type() {
    check(
        &[
            r#"alice applies {"free": {"x": {"y": 1}}}"#,
            r#"alice applies {"free": {"x": "text"}}"#,
            r#"bob applies {"free": {"x": ["text"]}}"#,
        ],
        expect![[r#"
            Apply failed with 1 conflict: conflict with "alice": .spec.free.x
            spec {"free":{"x":"text"}}
            alice Apply at 02: .spec.free.x
        "#]],
    );
}

#[test]
fn keeps_labels_and_annotations_apart_and_counts_owner_references_by_uid() {
    check(
        &[
            r#"alice applies @{"metadata": {"labels": {"a": "1"}, "ownerReferences": [{"uid": "1", "name": "n"}]}}"#,
            r#"bob updates @{"metadata": {"labels": {"b": "2"}, "finalizers": ["f/f"]}}"#,
            r#"alice applies @{"metadata": {"ownerReferences": [{"uid": "2", "name": "m"}]}}"#,
        ],
        expect![[r#"
            metadata {"finalizers":["f/f"],"labels":{"b":"2"},"ownerReferences":[{"name":"m","uid":"2"}]}
            alice Apply at 03: .metadata.ownerReferences[uid="2"]
            bob Update at 02: .metadata.finalizers .metadata.finalizers[="f/f"] .metadata.labels.b
        "#]],
    );
}

#[test]
fn gives_an_updater_what_it_adds_and_changes_and_everybody_loses_what_it_removes() {
    check(
        &[
            r#"alice updates {"replicas": 1, "image": "a", "settings": {"x": "1"}}"#,
            r#"bob updates {"replicas": 2, "settings": {"y": "2"}}"#,
            r#"carol updates {"image": null, "settings": {"y": null}}"#,
        ],
        expect![[r#"
            spec {"replicas":2,"settings":{"x":"1"}}
            alice Update at 01: .spec .spec.settings .spec.settings.x
            bob Update at 02: .spec.replicas
        "#]],
    );
}

#[test]
fn tells_doors_and_versions_of_one_manager_apart() {
    check(
        &[
            r#"alice updates {"replicas": 1}"#,
            r#"alice/status updates @{"status": {"ready": 1}}"#,
            r#"alice@tombolo.dev/v1 updates {"image": "a"}"#,
            r#"alice applies {"mode": "x"}"#,
            r#"alice@tombolo.dev/v1 applies {"mode": "x", "probe": {"period": 1}}"#,
        ],
        expect![[r#"
            spec {"image":"a","mode":"x","probe":{"period":1},"replicas":1}
            status {"ready":1}
            alice@tombolo.dev/v1 Apply at 05: .spec.mode .spec.probe.period
            alice@tombolo.dev/v1 Update at 03: .spec.image
            alice Update at 01: .spec .spec.replicas
            alice/status Update at 02: .status .status.ready
        "#]],
    );
}

#[test]
fn keeps_the_time_of_an_entry_whose_manager_changes_nothing() {
    check(
        &[
            r#"alice applies {"replicas": 1}"#,
            r#"bob updates {"image": "a"}"#,
            r#"bob updates {"image": "a"}"#,
            r#"alice applies {"replicas": 1}"#,
        ],
        expect![[r#"
            spec {"image":"a","replicas":1}
            alice Apply at 01: .spec.replicas
            bob Update at 02: .spec.image
        "#]],
    );
}

#[test]
fn asks_before_it_overwrites_what_was_there_before_anybody_kept_track() {
    let mut live = object(r#"{"replicas": 1, "image": "a"}"#);
    let manager = Manager { name: "alice", subresource: "", api_version: "tombolo.dev/v1alpha1" };
    let applied = object(r#"{"replicas": 2}"#);
    let error = apply(Some(&live), &applied, &SCHEMA, &manager, OnConflict::Fail, "now");
    expect![[r#"Apply failed with 1 conflict: conflict with "before-first-apply" using tombolo.dev/v1alpha1: .spec.replicas"#]].assert_eq(&error.unwrap_err().to_string());

    // What is written in between stays untracked: half an account would hide the rest.
    let mut new = object(r#"{"replicas": 3, "image": "a"}"#);
    update(Some(&live), &mut new, &SCHEMA, &manager, "now");
    assert_eq!(new, object(r#"{"replicas": 3, "image": "a"}"#));
    live = new;

    let time = "2026-01-01T00:00:09Z";
    let live = apply(Some(&live), &applied, &SCHEMA, &manager, OnConflict::TakeOver, time).unwrap();
    expect![[r#"
        spec {"image":"a","replicas":2}
        alice Apply at 09: .spec.replicas
        before-first-apply Update at 09: .spec .spec.image
    "#]]
    .assert_eq(&show(&live));
}

#[test]
fn tracks_an_object_that_had_nothing_to_own() {
    check(
        &[r#"alice updates @{}"#, r#"bob updates @{"spec": {"replicas": 1}}"#],
        expect![[r#"
            spec {"replicas":1}
            bob Update at 02: .spec .spec.replicas
        "#]],
    );
}

#[test]
fn clears_the_entries_for_a_client_that_asks_but_not_for_one_that_drops_them() {
    let steps = [
        r#"alice updates {"replicas": 1}"#,
        r#"bob updates @{"metadata": {"managedFields": [{}]}}"#,
    ];
    check(
        &steps,
        expect![[r#"
            spec {"replicas":1}
        "#]],
    );
    let steps =
        [r#"alice updates {"replicas": 1}"#, r#"bob updates @{"metadata": {"managedFields": []}}"#];
    check(
        &steps,
        expect![[r#"
            spec {"replicas":1}
            alice Update at 01: .spec .spec.replicas
        "#]],
    );
    let steps = [
        r#"alice updates {"replicas": 1}"#,
        r#"bob updates @{"metadata": {"managedFields": null}}"#,
    ];
    check(
        &steps,
        expect![[r#"
            spec {"replicas":1}
            alice Update at 01: .spec .spec.replicas
        "#]],
    );
    // Nor for one that cannot write them, or does not know how.
    let steps = [
        r#"alice updates {"replicas": 1}"#,
        r#"bob/status updates @{"metadata": {"managedFields": [{}]}}"#,
    ];
    check(
        &steps,
        expect![[r#"
            spec {"replicas":1}
            alice Update at 01: .spec .spec.replicas
        "#]],
    );
    let steps = [
        r#"alice updates {"replicas": 1}"#,
        r#"bob updates @{"metadata": {"managedFields": [3]}}"#,
    ];
    check(
        &steps,
        expect![[r#"
            spec {"replicas":1}
            alice Update at 01: .spec .spec.replicas
        "#]],
    );
}

#[test]
fn lets_a_client_rewrite_the_entries() {
    check(
        &[
            r#"alice updates {"replicas": 1}"#,
            r#"bob updates @{"metadata": {"managedFields": [{"manager": "eve", "operation": "Apply",
                "apiVersion": "tombolo.dev/v1alpha1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:07Z",
                "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}}"#,
        ],
        expect![[r#"
            spec {"replicas":1}
            eve Apply at 07: .spec.replicas
        "#]],
    );
}

#[test]
fn makes_one_owner_of_the_owners_of_parts_when_a_list_becomes_one_piece() {
    // `command` and `origin` are atomic now, and were shared item by item when eve applied.
    let eve = r#"bob updates @{"metadata": {"managedFields": [{"manager": "eve", "operation": "Apply",
        "apiVersion": "tombolo.dev/v1alpha1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:07Z",
        "fieldsV1": {"f:spec": {"f:command": {"v:\"a\"": {}}, "f:origin": {"f:host": {}}}}}]}}"#;
    let create = r#"alice updates {"command": ["a"], "origin": {"host": "h"}}"#;
    check(
        &[create, eve],
        expect![[r#"
        spec {"command":["a"],"origin":{"host":"h"}}
        eve Apply at 07: .spec.command .spec.origin
    "#]],
    );
    check(
        &[create, eve, r#"alice applies {"command": ["b"]}"#],
        expect![[r#"
        Apply failed with 1 conflict: conflict with "eve": .spec.command
        spec {"command":["a"],"origin":{"host":"h"}}
        eve Apply at 07: .spec.command .spec.origin
    "#]],
    );
}

#[test]
fn puts_the_oldest_updates_together_when_there_are_too_many() {
    let steps = (0..13)
        .map(|place| format!(r#"writer{place:02} updates {{"settings": {{"k{place:02}": "v"}}}}"#))
        .collect::<Vec<_>>();
    check(
        &steps.iter().map(String::as_str).collect::<Vec<_>>(),
        expect![[r#"
            spec {"settings":{"k00":"v","k01":"v","k02":"v","k03":"v","k04":"v","k05":"v","k06":"v","k07":"v","k08":"v","k09":"v","k10":"v","k11":"v","k12":"v"}}
            ancient-changes Update at 04: .spec .spec.settings .spec.settings.k00 .spec.settings.k01 .spec.settings.k02 .spec.settings.k03
            writer04 Update at 05: .spec.settings.k04
            writer05 Update at 06: .spec.settings.k05
            writer06 Update at 07: .spec.settings.k06
            writer07 Update at 08: .spec.settings.k07
            writer08 Update at 09: .spec.settings.k08
            writer09 Update at 10: .spec.settings.k09
            writer10 Update at 11: .spec.settings.k10
            writer11 Update at 12: .spec.settings.k11
            writer12 Update at 13: .spec.settings.k12
        "#]],
    );
}

#[test]
fn lets_kubectl_take_over_what_it_applied_on_the_clients_side() {
    let create = |manager: &str| {
        format!(
            r#"{manager} updates @{{"metadata": {{"annotations": {{
                "kubectl.kubernetes.io/last-applied-configuration":
                "{{\"spec\":{{\"replicas\":1,\"image\":\"a\"}}}}"}}}},
                "spec": {{"replicas": 1, "image": "a"}}}}"#
        )
    };
    let create = create("kubectl-client-side-apply");
    check(
        &[&create, r#"kubectl applies {"replicas": 2, "image": "a"}"#],
        expect![[r#"
            metadata {"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"replicas\":1,\"image\":\"a\"}}"}}
            spec {"image":"a","replicas":2}
            kubectl Apply at 02: .spec.image .spec.replicas
            kubectl-client-side-apply Update at 01: .metadata.annotations .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration .spec .spec.image
        "#]],
    );
    // What somebody else changed since is not its own.
    check(
        &[
            &create,
            r#"scaler updates {"replicas": 7}"#,
            r#"kubectl applies {"replicas": 2, "image": "b"}"#,
        ],
        expect![[r#"
            Apply failed with 1 conflict: conflict with "scaler" using tombolo.dev/v1alpha1: .spec.replicas
            metadata {"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"replicas\":1,\"image\":\"a\"}}"}}
            spec {"image":"a","replicas":7}
            kubectl-client-side-apply Update at 01: .metadata.annotations .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration .spec .spec.image
            scaler Update at 02: .spec.replicas
        "#]],
    );
    check(
        &[&create, r#"other applies {"replicas": 2, "image": "a"}"#],
        expect![[r#"
            Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using tombolo.dev/v1alpha1: .spec.replicas
            metadata {"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"replicas\":1,\"image\":\"a\"}}"}}
            spec {"image":"a","replicas":1}
            kubectl-client-side-apply Update at 01: .metadata.annotations .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration .spec .spec.image .spec.replicas
        "#]],
    );
}

#[test]
fn refuses_items_that_cannot_be_merged() {
    check(
        &[r#"alice applies {"components": [{"image": "a"}]}"#],
        expect![[r#"
            the applied object cannot be merged: spec.components[0]: must have name, which tells the items of this list apart
        "#]],
    );
    check(
        &[r#"alice applies {"components": [{"name": "a"}, {"name": "a"}, 3]}"#],
        expect![[r#"
            the applied object cannot be merged: spec.components[1]: [name="a"] is in this list more than once, and 1 more
        "#]],
    );
    check(
        &[r#"alice applies {"tags": ["a", "a"]}"#],
        expect![[r#"
            the applied object cannot be merged: spec.tags[1]: [="a"] is in this list more than once
        "#]],
    );
}

#[test]
fn refuses_managed_fields_in_an_applied_object() {
    let manager = Manager { name: "alice", subresource: "", api_version: "tombolo.dev/v1alpha1" };
    let try_apply = |applied: &Value| {
        apply(None, applied, &SCHEMA, &manager, OnConflict::Fail, "now").unwrap_err()
    };
    let applied = object(r#"@{"metadata": {"managedFields": []}}"#);
    assert_eq!(try_apply(&applied), ApplyError::HasManagedFields);
    assert_eq!(try_apply(&json!([])), ApplyError::NotAnObject);
}

#[test]
fn lists_conflicts_by_owner() {
    let (_, errors) = story(&[
        r#"alice applies {"replicas": 1, "components": [{"name": "web", "image": "a"}]}"#,
        r#"bob/scale updates {"image": "a"}"#,
        r#"carol applies {"replicas": 2, "image": "b", "components": [{"name": "web", "image": "b"}]}"#,
    ]);
    let [ApplyError::Conflicts { conflicts }] = errors.as_slice() else { panic!("{errors:?}") };
    expect![[r#"
        Apply failed with 3 conflicts: conflicts with "alice":
        - .spec.components[name="web"].image
        - .spec.replicas
        conflicts with "bob" with subresource "scale" using tombolo.dev/v1alpha1:
        - .spec.image"#]]
    .assert_eq(&message(conflicts));
    let causes = conflicts
        .iter()
        .map(|conflict| format!("{} {}: {}\n", Conflict::REASON, conflict.field, conflict.cause()));
    expect![[r#"
        FieldManagerConflict .spec.components[name="web"].image: conflict with "alice"
        FieldManagerConflict .spec.replicas: conflict with "alice"
        FieldManagerConflict .spec.image: conflict with "bob" with subresource "scale" using tombolo.dev/v1alpha1
    "#]].assert_eq(&causes.collect::<String>());
}

#[test]
fn writes_entries_in_the_form_of_kubernetes() {
    let (live, _) = story(&[
        r#"alice applies {"components": [{"name": "web", "image": "a"}], "tags": ["a"]}"#,
        r#"bob/status updates @{"status": {"ready": 1}}"#,
    ]);
    let managed_fields = &live.unwrap()["metadata"]["managedFields"];
    expect![[r#"
        [
          {
            "apiVersion": "tombolo.dev/v1alpha1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
              "f:spec": {
                "f:components": {
                  "k:{\"name\":\"web\"}": {
                    ".": {},
                    "f:image": {},
                    "f:name": {}
                  }
                },
                "f:tags": {
                  "v:\"a\"": {}
                }
              }
            },
            "manager": "alice",
            "operation": "Apply",
            "time": "2026-01-01T00:00:01Z"
          },
          {
            "apiVersion": "tombolo.dev/v1alpha1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
              "f:status": {
                ".": {},
                "f:ready": {}
              }
            },
            "manager": "bob",
            "operation": "Update",
            "subresource": "status",
            "time": "2026-01-01T00:00:02Z"
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(managed_fields).unwrap());
}
