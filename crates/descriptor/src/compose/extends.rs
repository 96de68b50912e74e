//! What is laid over something else: a service over the one that it extends, a file over the one before
//! it. Mappings are merged, lists are joined, anything else is replaced, as compose does it.

use std::collections::BTreeMap;

use tombolo_yaml::{Key, Node, Value};

use crate::fields::Field;
use crate::reader::Reader;

/// What an entry of a list is about.
type About = fn(&Node) -> Option<&str>;

/// In these lists a later entry about the same replaces the earlier one.
const ABOUT: &[(&str, About)] = &[
    ("configs", mounted_as),
    ("devices", mounted_at),
    ("environment", assigned),
    ("secrets", mounted_as),
    ("volumes", mounted_at),
];
/// Keys whose lists replace what was there instead of adding to it.
const REPLACED: &[&str] = &["command", "entrypoint", "test"];
/// Beyond this, finding the entries that two lists share would take too long.
const COMPARED_MAX: usize = 100_000;
/// Longer chains are circles.
const CHAIN_MAX: usize = 16;

/// Every service with what it extends merged in.
pub(super) fn resolve(services: &Field<'_>, reader: &mut Reader<'_>) -> BTreeMap<String, Node> {
    let mut resolved = BTreeMap::new();
    for (key, service) in services.node.as_map().into_iter().flatten() {
        let path = services.path.key(&key.text);
        let field = Field { node: service, path, key_span: key.span };
        resolved.insert(key.text.clone(), one(&field, services.node, 0, reader));
    }
    resolved
}

fn one(service: &Field<'_>, all: &Node, depth: usize, reader: &mut Reader<'_>) -> Node {
    let Some((key, extends)) = service.node.entry("extends") else { return service.node.clone() };
    let field = Field { node: extends, path: service.path.key("extends"), key_span: key.span };
    if extends.get("file").is_some() {
        field
            .error(reader, "other-file", "a service of another file cannot be extended here")
            .expecting("one file with everything in it; \"docker compose config\" writes one");
        return service.node.clone();
    }
    let name = extends.as_str().or_else(|| extends.get("service").and_then(Node::as_str));
    let Some(name) = name else {
        field.wrong_kind(reader, "the name of a service, or a mapping with \"service\"");
        return service.node.clone();
    };
    if depth >= CHAIN_MAX {
        field.error(
            reader,
            "circle",
            format!("the services extend each other in a circle ({name})"),
        );
        return service.node.clone();
    }
    let Some(base) = all.get(name) else {
        let known = all.as_map().into_iter().flatten().map(|(key, _)| key.text.as_str());
        let span = extends.get("service").map_or(extends.span, |service| service.span);
        let diagnostic =
            field.error(reader, "service-unknown", format!("there is no service named {name:?}"));
        diagnostic.mended_by_nearest(span, name, known);
        return service.node.clone();
    };
    let base_field = Field { node: base, path: service.path.clone(), key_span: service.key_span };
    if !field.may_copy_node(base, reader) {
        return service.node.clone();
    }
    let base = one(&base_field, all, depth + 1, reader);
    merge(&base, service.node, "")
}

/// The path in the container of `SOURCE:TARGET[:MODE]` or `{target}`.
fn mounted_at(entry: &Node) -> Option<&str> {
    match entry.as_str() {
        Some(text) => {
            let mut parts = text.split(':');
            let first = parts.next();
            parts.next().or(first)
        }
        None => entry.get("target").and_then(Node::as_str),
    }
}

fn mounted_as(entry: &Node) -> Option<&str> {
    let said = |key: &str| entry.get(key).and_then(Node::as_str);
    entry.as_str().or_else(|| said("target")).or_else(|| said("source"))
}

fn assigned(entry: &Node) -> Option<&str> {
    entry.as_str().map(|text| text.split('=').next().unwrap_or(text))
}

/// A file laid over the one before it.
pub(super) fn merge_files(base: &Node, over: &Node) -> Node {
    merge(base, over, "")
}

/// `over` laid over `base`.
fn merge(base: &Node, over: &Node, key: &str) -> Node {
    match (&base.value, &over.value) {
        // A key without a value says nothing.
        (Value::List(_) | Value::Map(_), Value::Null) => base.clone(),
        (Value::Map(lower), Value::Map(upper)) => {
            let mut entries: Vec<(Key, Node)> = Vec::new();
            for (name, value) in lower {
                // What the base itself extends or waits for is settled already.
                if matches!(name.text.as_str(), "extends") {
                    continue;
                }
                let merged = match over.get(&name.text) {
                    Some(upper) => merge(value, upper, &name.text),
                    None => value.clone(),
                };
                entries.push((name.clone(), merged));
            }
            let new = upper
                .iter()
                .filter(|(name, _)| base.get(&name.text).is_none() || name.text == "extends");
            entries.extend(new.cloned());
            Node::new(Value::Map(entries), over.span)
        }
        (Value::List(lower), Value::List(upper)) if !REPLACED.contains(&key) => {
            let mut items = lower.clone();
            let compares = lower.len().saturating_mul(upper.len()) <= COMPARED_MAX;
            let about = ABOUT.iter().find(|(list, _)| *list == key).map(|(_, about)| about);
            if let (Some(about), true) = (about, compares) {
                let replaced = |item: &Node| {
                    let subject = about(item);
                    subject.is_some() && upper.iter().any(|later| about(later) == subject)
                };
                items.retain(|item| !replaced(item));
            }
            items.extend(upper.iter().filter(|item| !compares || !lower.contains(item)).cloned());
            Node::new(Value::List(items), over.span)
        }
        // One says it as a list and the other as a mapping.
        (Value::Map(lower), Value::List(upper)) => {
            let mut items: Vec<Node> = lower.iter().map(assignment).collect();
            items.extend(upper.iter().cloned());
            Node::new(Value::List(items), over.span)
        }
        (Value::List(lower), Value::Map(upper)) => {
            let mut items = lower.clone();
            items.extend(upper.iter().map(assignment));
            Node::new(Value::List(items), over.span)
        }
        (_, _) => over.clone(),
    }
}

/// `NAME: value` as `NAME=value`, or as the bare name where there is no value.
fn assignment((key, value): &(Key, Node)) -> Node {
    let text = match value.raw() {
        Some(raw) if !value.is_null() => format!("{}={raw}", key.text),
        Some(_) | None => key.text.clone(),
    };
    Node::new(Value::String(text), value.span)
}
