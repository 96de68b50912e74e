//! Strategic merge patches: merge patches whose lists can merge too, as [`LISTS`] says, and that
//! can carry directives. kubectl sends them for the core kinds only (Namespace, ConfigMap, Secret,
//! Event, Lease); other kinds do not take them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::apply::Json;

use super::{PatchError, check_size, parse_object, type_name};

/// How two versions of a list become one. A list without a row is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    /// Objects with equal values in this field are the same object.
    ByKey(&'static str),
    /// Plain values; each stays once.
    AsSet,
}

impl Merge {
    /// What tells the items of such a list apart; None for one that lacks it.
    fn identity(self, item: &Value) -> Option<Json> {
        match self {
            Merge::AsSet => Some(Json::of(item)),
            Merge::ByKey(key) => item.get(key).map(Json::of),
        }
    }
}

struct List {
    path: &'static [&'static str],
    merge: Merge,
}

const LISTS: &[List] = &[
    List { path: &["metadata", "ownerReferences"], merge: Merge::ByKey("uid") },
    List { path: &["metadata", "finalizers"], merge: Merge::AsSet },
    List { path: &["status", "conditions"], merge: Merge::ByKey("type") },
];

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER_PREFIX: &str = "$setElementOrder/";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";

pub fn strategic_merge_patch(document: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch = parse_object(patch)?;
    let (Value::Object(document), Value::Object(patch)) = (document, &patch) else {
        let found = type_name(document);
        return Err(PatchError::WrongType { expected: "for a JSON object", found });
    };
    let merged = merge_fields(document, patch, &mut Vec::new())?;
    check_size(Value::Object(merged))
}

/// What `$patch` says of the object or the list that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn merge_fields(
    document: &Map<String, Value>,
    patch: &Map<String, Value>,
    path: &mut Vec<String>,
) -> Result<Map<String, Value>, PatchError> {
    match directive(patch, path)? {
        Directive::Merge => (),
        Directive::Delete => return Ok(Map::new()),
        Directive::Replace => {
            let mut replacement = patch.clone();
            replacement.remove(DIRECTIVE);
            return merge_fields(&Map::new(), &replacement, path);
        }
    }
    let mut merged = retained(document, patch, path)?;
    for (name, value) in patch {
        if name.starts_with('$') {
            check_directive(name, path)?;
            continue;
        }
        path.push(name.clone());
        match merge_value(merged.get(name), value, path)? {
            Some(value) => merged.insert(name.clone(), value),
            None => merged.remove(name),
        };
        path.pop();
    }
    merge_list_directives(document, &mut merged, patch, path)?;
    Ok(merged)
}

/// None: the field goes.
fn merge_value(
    document: Option<&Value>,
    patch: &Value,
    path: &mut Vec<String>,
) -> Result<Option<Value>, PatchError> {
    match (document, patch) {
        (_, Value::Null) => Ok(None),
        (Some(Value::Object(document)), Value::Object(patch)) => {
            Ok(Some(Value::Object(merge_fields(document, patch, path)?)))
        }
        // A new object can have directives and nulls too, which must not get into the document.
        (_, Value::Object(patch)) => {
            Ok(Some(Value::Object(merge_fields(&Map::new(), patch, path)?)))
        }
        (document, Value::Array(patch)) => {
            let document =
                document.and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
            Ok(Some(Value::Array(merge_list(document, patch, path)?)))
        }
        (_, Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(Some(patch.clone())),
    }
}

fn merge_list(
    document: &[Value],
    patch: &[Value],
    path: &mut Vec<String>,
) -> Result<Vec<Value>, PatchError> {
    match list_merge(path) {
        None => Ok(patch.to_vec()),
        Some(Merge::AsSet) => {
            let mut seen = document.iter().map(Json::of).collect::<BTreeSet<_>>();
            let mut merged = document.to_vec();
            for value in patch {
                if matches!(value, Value::Array(_) | Value::Object(_)) {
                    return Err(invalid(path, "the items of this list must be plain values"));
                }
                if seen.insert(Json::of(value)) {
                    merged.push(value.clone());
                }
            }
            Ok(merged)
        }
        Some(Merge::ByKey(key)) => merge_keyed(document, patch, key, path),
    }
}

fn merge_keyed(
    document: &[Value],
    patch: &[Value],
    key: &'static str,
    path: &mut Vec<String>,
) -> Result<Vec<Value>, PatchError> {
    let is_replaced = patch.iter().any(|item| {
        item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace") && item.get(key).is_none()
    });
    let document = match is_replaced {
        true => &[],
        false => document,
    };
    // A deleted item leaves a hole, so that the places of the others stay true.
    let mut merged = document.iter().cloned().map(Some).collect::<Vec<_>>();
    let mut places = BTreeMap::new();
    for (place, item) in document.iter().enumerate() {
        if let Some(identity) = Merge::ByKey(key).identity(item) {
            places.entry(identity).or_insert(place);
        }
    }
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(invalid(path, "the items of this list must be objects"));
        };
        let directive = directive(fields, path)?;
        let Some(identity) = Merge::ByKey(key).identity(item) else {
            if directive == Directive::Replace && fields.len() == 1 {
                continue;
            }
            return Err(invalid(path, &format!("each item must have {key}")));
        };
        if directive == Directive::Delete {
            if let Some(place) = places.remove(&identity) {
                merged[place] = None;
            }
            continue;
        }
        let place = *places.entry(identity).or_insert_with(|| {
            merged.push(None);
            merged.len() - 1
        });
        let none = Map::new();
        let old = merged[place].as_ref().and_then(Value::as_object).unwrap_or(&none);
        merged[place] = Some(Value::Object(merge_fields(old, fields, path)?));
    }
    Ok(merged.into_iter().flatten().collect())
}

/// The directives that stand beside a list: what to take out, then what order to keep.
fn merge_list_directives(
    document: &Map<String, Value>,
    merged: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    path: &mut Vec<String>,
) -> Result<(), PatchError> {
    for (directive, values) in patch {
        let Some(name) = directive.strip_prefix(DELETE_PREFIX) else { continue };
        let values = list_of(directive, values, path)?.iter().map(Json::of);
        let values = values.collect::<BTreeSet<_>>();
        if let Some(Value::Array(items)) = merged.get_mut(name) {
            items.retain(|item| !values.contains(&Json::of(item)));
        }
    }
    for (directive, order) in patch {
        let Some(name) = directive.strip_prefix(ORDER_PREFIX) else { continue };
        let order = list_of(directive, order, path)?;
        path.push(name.to_owned());
        let merge = list_merge(path);
        path.pop();
        if let (Some(Value::Array(items)), Some(merge)) = (merged.get_mut(name), merge) {
            let before = document.get(name).and_then(Value::as_array);
            let before = before.map_or(&[] as &[Value], Vec::as_slice);
            *items = ordered(std::mem::take(items), order, before, merge);
        }
    }
    Ok(())
}

/// The items that `order` names come in that order. The others keep their places before the items
/// that they stood before in the document; what is new comes as early as it can.
fn ordered(items: Vec<Value>, order: &[Value], document: &[Value], merge: Merge) -> Vec<Value> {
    let index = |items: &[Value]| {
        let identities = items.iter().enumerate();
        identities
            .filter_map(|(place, item)| Some((merge.identity(item)?, place)))
            .collect::<BTreeMap<_, _>>()
    };
    let (order, before) = (index(order), index(document));
    let place_in = |index: &BTreeMap<Json, usize>, item: &Value| {
        merge.identity(item).and_then(|identity| index.get(&identity).copied())
    };
    let (mut named, others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| place_in(&order, item).is_some());
    named.sort_by_key(|item| place_in(&order, item));

    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        if let Some(place) = place_in(&before, &item) {
            let is_before = |other: &Value| place_in(&before, other).is_some_and(|p| p < place);
            while let Some(other) = others.next_if(is_before) {
                ordered.push(other);
            }
        }
        ordered.push(item);
    }
    ordered.extend(others);
    ordered
}

/// The document without the keys that `$retainKeys` does not list.
fn retained(
    document: &Map<String, Value>,
    patch: &Map<String, Value>,
    path: &[String],
) -> Result<Map<String, Value>, PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(document.clone()) };
    let keys = list_of(RETAIN_KEYS, keys, path)?;
    let is_listed = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let stray = patch
        .iter()
        .find(|(name, value)| !name.starts_with('$') && !value.is_null() && !is_listed(name));
    if let Some((name, _)) = stray {
        return Err(invalid(path, &format!("{name} is patched, but {RETAIN_KEYS} lacks it")));
    }
    let kept = document.iter().filter(|(name, _)| is_listed(name));
    Ok(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn directive(patch: &Map<String, Value>, path: &[String]) -> Result<Directive, PatchError> {
    match patch.get(DIRECTIVE) {
        None => Ok(Directive::Merge),
        Some(value) => match value.as_str() {
            Some("merge") => Ok(Directive::Merge),
            Some("replace") => Ok(Directive::Replace),
            Some("delete") => Ok(Directive::Delete),
            Some(_) | None => Err(invalid(
                path,
                &format!("{DIRECTIVE} must be merge, replace or delete, not {value}"),
            )),
        },
    }
}

/// A field whose name begins with `$` is a directive, or a mistake.
fn check_directive(name: &str, path: &[String]) -> Result<(), PatchError> {
    let is_known = name == DIRECTIVE
        || name == RETAIN_KEYS
        || name.starts_with(ORDER_PREFIX)
        || name.starts_with(DELETE_PREFIX);
    match is_known {
        true => Ok(()),
        false => Err(invalid(path, &format!("{name} is no directive"))),
    }
}

fn list_of<'a>(
    directive: &str,
    value: &'a Value,
    path: &[String],
) -> Result<&'a [Value], PatchError> {
    match value {
        Value::Array(values) => Ok(values),
        other => {
            Err(invalid(path, &format!("{directive} must be a list, not {}", type_name(other))))
        }
    }
}

fn list_merge(path: &[String]) -> Option<Merge> {
    LISTS.iter().find(|list| list.path.iter().eq(path.iter())).map(|list| list.merge)
}

fn invalid(path: &[String], problem: &str) -> PatchError {
    let path = match path.is_empty() {
        true => "patch".to_owned(),
        false => path.join("."),
    };
    PatchError::InvalidDirective { path, problem: problem.to_owned() }
}
