//! The two steps that make the new object out of the live and the applied one: put in what is
//! applied, then take out what its applier gave up. Called by [`managed::apply`](super::apply).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::schema::{FINDINGS_MAX, Schema};
use tombolo_model::{Invalid, Problem};

use super::element::{PathElement, same};
use super::extract::is_nothing;
use super::fields::FieldSet;
use super::shape::{Items, Named, Parts, Shape};

/// Everything that keeps an applied object from being merged: items of a keyed list without their
/// key, and items that are there twice.
pub(super) fn check(applied: &Value, schema: &Schema) -> Vec<Invalid> {
    let mut problems = Vec::new();
    check_at(applied, Shape::root(schema), "", &mut problems);
    problems
}

/// Drops the nulls that the schema does not take as values. They say the same as absence, and the
/// server would drop them from the result anyway; kept, each apply would look like a change.
pub(super) fn without_nulls(applied: &Value, schema: &Schema) -> Value {
    let mut applied = applied.clone();
    drop_nulls(&mut applied, Shape::root(schema));
    applied
}

/// `live` with everything in it that `applied` says.
pub(super) fn merge(live: &Value, applied: &Value, schema: &Schema) -> Value {
    merge_at(live, applied, Shape::root(schema))
}

/// `object` without the places that are in `given_up` and not in `kept`. A branch that the schema
/// names goes when all that was known to be in it goes.
pub(super) fn prune(
    object: &Value,
    given_up: &FieldSet,
    kept: &FieldSet,
    schema: &Schema,
) -> Value {
    let root = Shape::root(schema);
    let mut pruned = prune_at(object, given_up, kept, root);
    // Elsewhere a branch goes with what the server filled in below it. The metadata is the
    // server's own: whoever gives up the last label gives up that and no more.
    if let (Some(metadata), Some(pruned)) = (object.get("metadata"), pruned.as_object_mut()) {
        let element = PathElement::field("metadata");
        let (given_up, kept) = (given_up.below(&element), kept.below(&element));
        let metadata = prune_at(metadata, given_up, kept, root.field("metadata").0);
        pruned.insert("metadata".to_owned(), metadata);
    }
    pruned
}

fn check_at(value: &Value, shape: Shape<'_>, path: &str, problems: &mut Vec<Invalid>) {
    if problems.len() >= FINDINGS_MAX {
        return;
    }
    match shape.parts(value) {
        Parts::Whole => (),
        Parts::Fields(fields) => {
            for (name, value) in fields {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                check_at(value, shape.field(name).0, &path, problems);
            }
        }
        Parts::Items(values, items) => {
            let mut seen = BTreeSet::new();
            for (place, value) in values.iter().enumerate() {
                let field = format!("{path}[{place}]");
                match items.element(value) {
                    Err(message) => {
                        problems.push(Invalid { field, problem: Problem::Required, message });
                    }
                    Ok(element) => {
                        check_at(value, items.shape, &field, problems);
                        if let Some(element) = seen.replace(element) {
                            let message = format!("{element} is in this list more than once");
                            problems.push(Invalid { field, problem: Problem::Duplicate, message });
                        }
                    }
                }
            }
        }
    }
}

fn drop_nulls(value: &mut Value, shape: Shape<'_>) {
    let items = match shape.parts(value) {
        Parts::Whole => return,
        Parts::Fields(_) => None,
        Parts::Items(_, items) => Some(items),
    };
    match (value, items) {
        (Value::Object(fields), _) => {
            fields.retain(|name, value| {
                let (shape, named) = shape.field(name);
                let says_nothing =
                    value.is_null() && named == Named::BySchema && !shape.takes_null();
                drop_nulls(value, shape);
                !says_nothing
            });
        }
        (Value::Array(values), Some(items)) => {
            values.iter_mut().for_each(|value| drop_nulls(value, items.shape));
        }
        (_, _) => (),
    }
}

fn merge_at(live: &Value, applied: &Value, shape: Shape<'_>) -> Value {
    match (shape.parts(live), shape.parts(applied)) {
        (Parts::Fields(live), Parts::Fields(applied)) => {
            let mut merged = live.clone();
            for (name, applied) in applied {
                let value = match live.get(name) {
                    Some(live) => merge_at(live, applied, shape.field(name).0),
                    None => applied.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Parts::Items(live, items), Parts::Items(applied, _)) => {
            Value::Array(merge_items(live, applied, items))
        }
        // To apply nothing to something shared is no order to empty it: others have a part in it.
        (Parts::Fields(_), Parts::Whole) if applied.is_null() || applied.is_object() => {
            empty_or(live, applied)
        }
        (Parts::Items(..), Parts::Whole) if applied.is_null() || applied.is_array() => {
            empty_or(live, applied)
        }
        // `1.0` for `1` is no change.
        (Parts::Whole, Parts::Whole) if same(live, applied) => live.clone(),
        (Parts::Whole | Parts::Fields(_) | Parts::Items(..), _) => applied.clone(),
    }
}

fn empty_or(live: &Value, applied: &Value) -> Value {
    match is_nothing(applied) {
        true => live.clone(),
        false => applied.clone(),
    }
}

/// The applied items come in the applied order. The others stay where they were between them,
/// before anything new at the same place.
fn merge_items(live: &[Value], applied: &[Value], items: Items<'_>) -> Vec<Value> {
    let (live_order, live_index) = items.index(live);
    let (applied_order, applied_index) = items.index(applied);
    let mut shared =
        applied_order.iter().filter(|element| live_index.contains_key(*element)).peekable();
    let mut rest = live_order.iter().zip(live).peekable();
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    for (element, item) in applied_order.iter().zip(applied) {
        while let Some((passed, item)) = rest.next_if(|(next, _)| shared.peek() != Some(next)) {
            // One that is applied too comes at its applied place.
            if !applied_index.contains_key(passed) {
                merged.push(item.clone());
            }
        }
        let live = live_index.get(element).map_or(&[] as &[&Value], Vec::as_slice);
        if !live.is_empty() {
            shared.next();
        }
        merged.push(match live {
            [live] => merge_at(live, item, items.shape),
            // Of several that cannot be told apart, none is the one to merge with.
            _ => item.clone(),
        });
    }
    merged.extend(
        rest.filter(|(element, _)| !applied_index.contains_key(*element))
            .map(|(_, item)| item.clone()),
    );
    merged
}

fn prune_at(value: &Value, given_up: &FieldSet, kept: &FieldSet, shape: Shape<'_>) -> Value {
    if given_up.is_empty() {
        return value.clone();
    }
    match shape.parts(value) {
        Parts::Whole => value.clone(),
        Parts::Fields(fields) => {
            let mut pruned = Map::new();
            for (name, value) in fields {
                let (shape, named) = shape.field(name);
                let element = PathElement::field(name);
                let has = |set: &FieldSet| match named {
                    Named::BySchema => set.reaches(&element),
                    Named::ByObject => set.owns(&element),
                };
                if has(given_up) && !has(kept) {
                    continue;
                }
                let value = prune_at(value, given_up.below(&element), kept.below(&element), shape);
                pruned.insert(name.clone(), value);
            }
            Value::Object(pruned)
        }
        Parts::Items(values, items) => {
            let (order, _) = items.index(values);
            let mut pruned = Vec::with_capacity(values.len());
            for (element, value) in order.iter().zip(values) {
                // Whoever owns the item itself decides whether it stays; to own a field of it
                // is not enough.
                if given_up.owns(element) && !kept.owns(element) {
                    continue;
                }
                pruned.push(prune_at(
                    value,
                    given_up.below(element),
                    kept.below(element),
                    items.shape,
                ));
            }
            Value::Array(pruned)
        }
    }
}
