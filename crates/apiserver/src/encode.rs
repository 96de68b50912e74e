//! Objects as bytes: how the store keeps them and how lists and watches are put together from
//! them without parsing.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;
use tombolo_store::{Draft, Object};

use crate::kinds::Kind;
use crate::object;

/// The object as it is stored: its bytes with a gap for the revision, which only the store knows.
pub fn draft(kind: &Kind, object: &Value) -> Draft {
    draft_stored(&kind.as_stored(object))
}

/// Of an object in the form that is stored. The revision comes first in `metadata`, where its place is known
/// without a search.
pub(crate) fn draft_stored(object: &Value) -> Draft {
    let mut bytes = Vec::with_capacity(1024);
    let mut revision_at = 0;
    let mut separator = b'{';
    for (key, value) in object.as_object().into_iter().flatten() {
        bytes.push(separator);
        separator = b',';
        write_json(&mut bytes, key);
        bytes.push(b':');
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                bytes.extend_from_slice(br#"{"resourceVersion":""#);
                revision_at = bytes.len();
                bytes.push(b'"');
                for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
                    bytes.push(b',');
                    write_json(&mut bytes, key);
                    bytes.push(b':');
                    write_json(&mut bytes, value);
                }
                bytes.push(b'}');
            }
            _ => write_json(&mut bytes, value),
        }
    }
    bytes.push(b'}');
    Draft { bytes, revision_at }
}

/// The object of stored bytes. They were written by [`draft`], so that they parse.
pub fn parse(object: &Object) -> Value {
    serde_json::from_slice(&object.bytes).expect("the store holds what draft wrote")
}

/// Whether the stored object is being deleted. Asked of its namespace and its definition for every object
/// that is created, and a definition may be large: it is parsed only if it has the word at all.
pub fn is_deleting(object: &Object) -> bool {
    let word = br#""deletionTimestamp":"#;
    memchr::memmem::find(&object.bytes, word).is_some() && object::is_deleting(&parse(object))
}

/// The stored object as a value, in the version that was asked for.
pub fn parse_in_version(kind: &Kind, object: &Object) -> Value {
    let mut value = parse(object);
    if let Some(view) = kind.view {
        view.show(&mut value);
    } else if !is_settled(kind, object) {
        kind.storage_schema.prune(&mut value);
        kind.storage_schema.fill_defaults(&mut value);
    }
    value["apiVersion"] = Value::String(kind.api_version());
    value
}

/// Whether the object was written under the schema that it is read with: that of the version that is
/// stored. Nearly all are, and are given out as they lie there.
fn is_settled(kind: &Kind, object: &Object) -> bool {
    let stored = start_of(&kind.group, &kind.storage_version);
    kind.view.is_none()
        && object.revision >= kind.defined_at
        && object.bytes.starts_with(stored.as_bytes())
}

/// The stored object in the version that was asked for. Versions of a kind differ in their name
/// alone (conversion strategy None).
pub fn in_version(kind: &Kind, object: &Object) -> Bytes {
    let wanted = start_of(&kind.group, &kind.version);
    if object.bytes.starts_with(wanted.as_bytes()) && is_settled(kind, object) {
        return object.bytes.clone();
    }
    to_bytes(&parse_in_version(kind, object))
}

/// Stored bytes begin like this, because keys are sorted and the version comes first.
fn start_of(group: &str, version: &str) -> String {
    match group {
        "" => format!(r#"{{"apiVersion":"{version}","#),
        group => format!(r#"{{"apiVersion":"{group}/{version}","#),
    }
}

pub fn to_bytes(value: &Value) -> Bytes {
    let mut bytes = Vec::with_capacity(1024);
    write_json(&mut bytes, value);
    Bytes::from(bytes)
}

/// What a list says about itself.
#[derive(Clone, Debug, Default)]
pub struct ListMeta {
    pub revision: u64,
    pub continue_: Option<String>,
    pub remaining: Option<usize>,
}

impl ListMeta {
    pub fn to_json(&self) -> Value {
        let mut metadata = serde_json::json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.continue_ {
            metadata["continue"] = Value::String(token.clone());
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = Value::from(remaining);
        }
        metadata
    }
}

/// A list up to its first item.
pub(crate) fn list_head(kind: &Kind, meta: &ListMeta) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(1024);
    bytes.put_slice(br#"{"kind":"#);
    bytes.put_slice(&to_bytes(&Value::String(kind.list_kind.clone())));
    bytes.put_slice(br#","apiVersion":"#);
    bytes.put_slice(&to_bytes(&Value::String(kind.api_version())));
    bytes.put_slice(br#","metadata":"#);
    bytes.put_slice(&to_bytes(&meta.to_json()));
    bytes.put_slice(br#","items":["#);
    bytes
}

pub fn list(kind: &Kind, meta: &ListMeta, items: &[Bytes]) -> Bytes {
    let mut bytes = list_head(kind, meta);
    bytes.reserve(items.iter().map(|item| item.len() + 1).sum());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            bytes.put_u8(b',');
        }
        bytes.put_slice(item);
    }
    bytes.put_slice(b"]}\n");
    bytes.freeze()
}

/// One line of a watch.
pub fn watch_line(into: &mut BytesMut, type_: &str, object: &[u8]) {
    into.reserve(object.len() + 40);
    into.put_slice(br#"{"type":""#);
    into.put_slice(type_.as_bytes());
    into.put_slice(br#"","object":"#);
    into.put_slice(object);
    into.put_slice(b"}\n");
}

fn write_json(into: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(into, value).expect("plain JSON can be written to memory");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stamped(object: &Value, revision: u64) -> Value {
        let Draft { mut bytes, revision_at } = draft_stored(object);
        bytes.splice(revision_at..revision_at, revision.to_string().bytes());
        serde_json::from_slice(&bytes).expect("still JSON")
    }

    #[test]
    fn the_revision_goes_into_the_gap() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "\"b\""},
            "metadata": {"name": "x", "resourceVersion": "3"}});
        let mut expected = object.clone();
        expected["metadata"]["resourceVersion"] = json!("12");
        assert_eq!(stamped(&object, 12), expected);
        assert!(draft_stored(&object).bytes.starts_with(br#"{"apiVersion":"v1","#));
    }

    #[test]
    fn an_object_with_bare_metadata_gets_a_revision_too() {
        let stamped = stamped(&json!({"metadata": {}}), 5);
        assert_eq!(stamped, json!({"metadata": {"resourceVersion": "5"}}));
    }
}
