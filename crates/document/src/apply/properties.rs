//! What holds for every object, every set of fields and every order of writes.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::testing::SCHEMA;
use super::{FieldSet, Manager, OnConflict, apply, decode, extract, update};

/// Any JSON, with names that the schema of the tests knows among its keys, so that it gets past
/// the first level.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Eighths: floats of many digits are not read back to the last bit.
        any::<i16>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        "[ab/~.:]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        let key = prop_oneof![
            prop::sample::select(vec![
                "metadata",
                "spec",
                "tags",
                "components",
                "name",
                "ports",
                "port",
                "protocol",
                "free",
                "settings",
                "labels",
                "finalizers",
                "ownerReferences",
                "uid",
                "managedFields",
                "annotations",
                "f:a",
                "k:{\"a\":1}",
                "v:1",
                ".",
                "$patch",
            ])
            .prop_map(str::to_owned),
            "[a-c]",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A spec that can be applied: no nulls, no repeated items.
fn any_spec() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let port = (1..4, prop::sample::select(vec!["TCP", "UDP"]), any::<bool>());
    let ports = prop::collection::btree_map((1..4, name()), port, 0..3).prop_map(|ports| {
        let ports =
            ports.into_iter().enumerate().map(|(place, (_, (_, protocol, hinted)))| match hinted {
                true => json!({"port": place, "hint": "h"}),
                false => json!({"port": place, "protocol": protocol}),
            });
        Value::Array(ports.collect())
    });
    let component = (prop::option::of(0..3), prop::option::of(ports)).prop_map(|(count, ports)| {
        let mut component = Map::new();
        component.extend(count.map(|count| ("replicas".to_owned(), json!(count))));
        component.extend(ports.map(|ports| ("ports".to_owned(), ports)));
        component
    });
    let components = prop::collection::btree_map(name(), component, 0..4).prop_map(|components| {
        let components = components.into_iter().map(|(name, mut component)| {
            component.insert("name".to_owned(), json!(name));
            Value::Object(component)
        });
        Value::Array(components.collect())
    });
    let tags = prop::collection::hash_set(name(), 0..4)
        .prop_map(|tags| Value::from(tags.into_iter().collect::<Vec<_>>()));
    let settings = prop::collection::btree_map(name(), name(), 0..3).prop_map(|map| json!(map));
    let free = prop::collection::btree_map(name(), any::<u8>(), 0..3)
        .prop_map(|map| json!({"x": map, "list": [1, 2]}));
    let options = (
        prop::option::of(0..3),
        prop::option::of(prop::collection::vec(name(), 0..3)),
        prop::option::of(components),
        prop::option::of(tags),
        prop::option::of(settings),
        prop::option::of(free),
    );
    options.prop_map(|(replicas, command, components, tags, settings, free)| {
        let mut spec = Map::new();
        spec.extend(replicas.map(|value| ("replicas".to_owned(), json!(value))));
        spec.extend(command.map(|value| ("command".to_owned(), json!(value))));
        spec.extend(components.map(|value| ("components".to_owned(), value)));
        spec.extend(tags.map(|value| ("tags".to_owned(), value)));
        spec.extend(settings.map(|value| ("settings".to_owned(), value)));
        spec.extend(free.map(|value| ("free".to_owned(), value)));
        Value::Object(spec)
    })
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Thing",
        "metadata": {"name": "thing"}, "spec": spec,
    })
}

fn manager(name: &str) -> Manager<'_> {
    Manager { name, subresource: "", api_version: "tombolo.dev/v1alpha1" }
}

fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    object
}

/// Applies by force, and writes, in turn.
fn written(specs: &[(&'static str, Value)]) -> Value {
    let mut live = None;
    for (place, (name, spec)) in specs.iter().enumerate() {
        let now = format!("2026-01-01T00:00:{place:02}Z");
        let mut new = object(spec);
        live = match name.strip_prefix("updater") {
            Some(_) => {
                update(live.as_ref(), &mut new, &SCHEMA, &manager(name), &now);
                Some(new)
            }
            None => Some(
                apply(live.as_ref(), &new, &SCHEMA, &manager(name), OnConflict::TakeOver, &now)
                    .expect("a spec that can be applied"),
            ),
        };
    }
    live.expect("something was written")
}

fn any_writes() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let name = prop::sample::select(vec!["alice", "bob", "updater1", "updater2"]);
    prop::collection::vec((name, any_spec()), 1..6)
}

proptest! {
    #[test]
    fn applying_to_nothing_gives_what_is_applied(spec in any_spec()) {
        let applied = object(&spec);
        let live =
            apply(None, &applied, &SCHEMA, &manager("alice"), OnConflict::Fail, "now").unwrap();
        prop_assert_eq!(without_managed_fields(&live), applied);
    }

    #[test]
    fn applying_twice_changes_nothing_the_second_time(writes in any_writes(), spec in any_spec()) {
        let live = written(&writes);
        let apply = |live: &Value, on_conflict, now| {
            apply(Some(live), &object(&spec), &SCHEMA, &manager("alice"), on_conflict, now)
        };
        let first = apply(&live, OnConflict::TakeOver, "2026-01-01T00:01:00Z").unwrap();
        let second = apply(&first, OnConflict::Fail, "2026-01-01T00:02:00Z").unwrap();
        prop_assert_eq!(&second, &first);
        // Nor does a write of what is there.
        let mut new = first.clone();
        update(Some(&first), &mut new, &SCHEMA, &manager("bob"), "2026-01-01T00:03:00Z");
        prop_assert_eq!(&new, &first);
    }

    #[test]
    fn what_is_applied_is_in_the_object_and_owned(writes in any_writes(), spec in any_spec()) {
        let live = written(&writes);
        let applied = object(&spec);
        let now = "2026-01-01T00:01:00Z";
        let new = apply(
            Some(&live), &applied, &SCHEMA, &manager("alice"), OnConflict::TakeOver, now,
        ).unwrap();
        let comparison = extract::compare(&new, &applied, &SCHEMA);
        prop_assert!(comparison.modified.is_empty() && comparison.added.is_empty());
        let fields = extract::fields(&applied, &SCHEMA);
        let entries = decode(&new["metadata"]["managedFields"]).unwrap();
        let own = entries.iter().find(|entry| entry.manager == "alice" && entry.operation.name() == "Apply");
        prop_assert_eq!(own.map(|entry| entry.fields.clone()).unwrap_or_default(), fields);
    }

    #[test]
    fn nobody_owns_what_is_not_there(writes in any_writes()) {
        let live = written(&writes);
        let empty = object(&json!({}));
        let all = extract::compare(&empty, &live, &SCHEMA).added
            .union(&extract::fields(&live, &SCHEMA))
            .union(&FieldSet::from([&["spec"] as &[&str]]));
        for entry in decode(&live["metadata"]["managedFields"]).unwrap() {
            let stray = entry.fields.difference(&all);
            prop_assert!(stray.is_empty(), "{} owns {stray}", entry.manager);
        }
    }

    #[test]
    fn last_applier_takes_everything_of_its_own_along(spec in any_spec()) {
        let live = written(&[("updater1", json!({"image": "a"})), ("alice", spec)]);
        let now = "2026-01-01T00:01:00Z";
        let applied = object(&json!({}));
        let new = apply(
            Some(&live), &applied, &SCHEMA, &manager("alice"), OnConflict::Fail, now,
        ).unwrap();
        prop_assert_eq!(&new["spec"], &json!({"image": "a"}));
    }

    #[test]
    fn fields_survive_being_written_and_read(value in any_json()) {
        let set = extract::fields(&json!({"spec": value}), &SCHEMA);
        prop_assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), set);
    }

    #[test]
    fn any_fields_that_can_be_read_are_written_as_they_mean(value in any_json()) {
        if let Ok(set) = FieldSet::from_fields_v1(&value) {
            let written = set.to_fields_v1();
            prop_assert_eq!(FieldSet::from_fields_v1(&written).unwrap(), set);
        }
    }

    #[test]
    fn sets_are_sets(left in any_json(), right in any_json()) {
        let left = extract::fields(&left, &SCHEMA);
        let right = extract::fields(&right, &SCHEMA);
        let both = left.intersection(&right);
        prop_assert_eq!(left.difference(&right).union(&both), left.clone());
        prop_assert_eq!(left.union(&right), right.union(&left));
        prop_assert_eq!(left.union(&right).difference(&right), left.difference(&right));
        prop_assert!(left.difference(&right).intersection(&right).is_empty());
    }

    #[test]
    fn takes_any_json_without_panic(live in any_json(), applied in any_json(), fields in any_json()) {
        let mut live = live;
        if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
            let entry = json!({
                "manager": "alice", "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            });
            metadata.insert("managedFields".to_owned(), json!([entry]));
        }
        for on_conflict in [OnConflict::Fail, OnConflict::TakeOver] {
            let _ = apply(Some(&live), &applied, &SCHEMA, &manager("alice"), on_conflict, "now");
        }
        let mut new = applied.clone();
        update(Some(&live), &mut new, &SCHEMA, &manager("bob"), "now");
        let mut new = applied;
        update(None, &mut new, &SCHEMA, &manager("bob"), "now");
    }
}
