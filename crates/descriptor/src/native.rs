//! Our own kinds. The model itself says what is wrong with them; here that finds its place in the
//! text. Strict: a field that nobody knows is an error. Called through the table of formats.

use tombolo_model::invalid::{Invalid, Problem};
use tombolo_model::{App, keys, schema, validate};
use tombolo_yaml::{Key, Node, Span, Value};

use crate::Diagnostic;
use crate::fields::Field;
use crate::reader::Reader;
use crate::validated::from_invalid;

/// Reads the documents of one text: Apps, and whatever else stands beside them.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    documents.iter().filter_map(|document| read_one(document, reader)).collect()
}

fn read_one(document: &Node, reader: &mut Reader<'_>) -> Option<App> {
    if document.as_map().is_none() {
        Field::document(document).wrong_kind(reader, "a mapping with apiVersion, kind and spec");
        return None;
    }
    let kind = document.get("kind").and_then(Node::as_str);
    let version = document.get("apiVersion").and_then(Node::as_str);
    let object = document.to_json();
    let is_ours = version.is_none_or(|version| version.starts_with(keys::GROUP));
    if !is_ours && kind.is_some() {
        reader.other(object);
        return None;
    }
    let mut invalids = validate::object(&object);
    if let (Some(kind), None) = (kind, version)
        && schema::kind_names().any(|name| name == kind)
        && !invalids.iter().any(|invalid| invalid.field == "apiVersion")
    {
        let message = format!("is required ({:?})", keys::API_VERSION);
        invalids.insert(0, Invalid::new("apiVersion", Problem::Required, message));
    }
    if !invalids.is_empty() {
        for invalid in invalids {
            reader.diagnose(placed(&invalid, document));
        }
        return None;
    }
    if kind != Some("App") {
        reader.other(object);
        return None;
    }
    match serde_json::from_value(object) {
        Ok(app) => Some(app),
        Err(error) => {
            let span = first_key(document);
            reader.diagnose(Diagnostic::error("invalid-value", span, error.to_string()));
            None
        }
    }
}

/// A finding of the model at its place in the text, with the mend where there is one.
fn placed(invalid: &Invalid, document: &Node) -> Diagnostic {
    let found = find(document, &invalid.field);
    let value_span = found.value.map_or(found.key, |node| match node.is_scalar() {
        true if !node.is_null() => node.span,
        true | false => found.key,
    });
    let span = match invalid.problem {
        Problem::Unknown | Problem::Required | Problem::Forbidden => found.key,
        Problem::Invalid
        | Problem::NotSupported
        | Problem::Duplicate
        | Problem::TypeInvalid
        | Problem::TooLong
        | Problem::TooMany => value_span,
    };
    let mut diagnostic = from_invalid(invalid, span);
    if !found.is_whole {
        // The place is that of what lies above; a replacement there would replace too much.
        diagnostic.mend = None;
    }
    if let Some(mend) = found.value.and_then(|node| mend_of(&invalid.message, node)) {
        diagnostic.mended_by(span, mend);
    }
    if let (Problem::Duplicate, Some(first)) = (invalid.problem, first_twin(document, invalid)) {
        diagnostic.see(first, "first here");
    }
    diagnostic
}

/// What a message of the model tells to write instead.
fn mend_of(message: &str, node: &Node) -> Option<String> {
    let raw = node.raw()?;
    if message.ends_with("in quotes") {
        return Some(format!("{raw:?}"));
    }
    if message.ends_with("without quotes") {
        return Some(raw.to_owned());
    }
    if message.starts_with("expected true or false") {
        return match raw.to_lowercase().as_str() {
            "yes" | "y" | "on" => Some("true".to_owned()),
            "no" | "n" | "off" => Some("false".to_owned()),
            _ => None,
        };
    }
    if message.starts_with(&format!("expected {:?}, found", keys::API_VERSION)) {
        return Some(keys::API_VERSION.to_owned());
    }
    let (before, _) = message.rsplit_once("\" would do")?;
    let (_, name) = before.rsplit_once('"')?;
    Some(name.to_owned())
}

/// Of two list entries with the same key the model names the second; this is the first.
fn first_twin(document: &Node, invalid: &Invalid) -> Option<Span> {
    let second = find(document, &invalid.field).value?;
    let (list_path, last) = invalid.field.rsplit_once('[')?;
    let (_, key) = last.split_once(']')?;
    let items = find(document, list_path).value?.as_list()?;
    let mut twins = items.iter().filter_map(|item| match key.strip_prefix('.') {
        Some(key) => item.get(key),
        None => Some(item),
    });
    twins.find(|node| node.value == second.value && node.span != second.span).map(|node| node.span)
}

/// Where a path of the model leads.
struct Found<'a> {
    /// The last key on the way that is there; in a list, the first key of its entry.
    key: Span,
    value: Option<&'a Node>,
    /// Whether the way could be gone to its end.
    is_whole: bool,
}

fn find<'a>(document: &'a Node, path: &str) -> Found<'a> {
    let mut found = Found { key: first_key(document), value: Some(document), is_whole: true };
    for part in parts(path) {
        let Some(node) = found.value else { break };
        let next = match &node.value {
            Value::List(items) => {
                let item = part.parse().ok().and_then(|index: usize| items.get(index));
                item.map(|item| (first_key(item), item))
            }
            Value::Map(entries) => entry(entries, part).map(|(key, node)| (key.span, node)),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
                None
            }
        };
        let Some((key, value)) = next else {
            return Found { is_whole: false, value: None, ..found };
        };
        found = Found { key, value: Some(value), is_whole: true };
    }
    found
}

/// The model cuts long keys in its paths.
fn entry<'a>(entries: &'a [(Key, Node)], part: &str) -> Option<&'a (Key, Node)> {
    let exact = entries.iter().find(|(key, _)| key.text == part);
    exact.or_else(|| {
        let cut = part.strip_suffix('…')?;
        entries.iter().find(|(key, _)| key.text.starts_with(cut))
    })
}

/// `spec.components[0].env[my.key]` → spec, components, 0, env, my.key
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = after.find(']').unwrap_or(after.len());
            parts.push(&after[..end]);
            rest = after.get(end + 1..).unwrap_or_default();
            continue;
        }
        let plain = rest.strip_prefix('.').unwrap_or(rest);
        let end = plain.find(['.', '[']).unwrap_or(plain.len());
        parts.push(&plain[..end]);
        rest = &plain[end..];
    }
    parts
}

fn first_key(node: &Node) -> Span {
    match node.as_map().and_then(|entries| entries.first()) {
        Some((key, _)) => key.span,
        None => node.span,
    }
}
