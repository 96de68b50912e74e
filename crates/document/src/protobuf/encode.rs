//! Writes objects, lists, watch events and failures in the protobuf form of Kubernetes. Called by the
//! handlers for clients that accept [`super::MEDIA_TYPE`].
//!
//! What is missing in JSON is left out, and what does not fit the table too: the objects have passed their
//! schemas, and a client reads a field that is not there as zero.

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::MAGIC;
use super::messages::{self, Field, LIST_META, STATUS, Shape};

/// Of the frames of a watch; what is in them is of the type beside it.
pub const STREAM_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Whether objects of the kind can be written.
pub fn knows(api_version: &str, kind: &str) -> bool {
    messages::stored(api_version, kind).is_some()
}

/// An object, or a Status, with the envelope that says what it is; `None` of another kind.
pub fn object(value: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    let fields = match (api_version, kind) {
        ("v1", "Status") => STATUS,
        _ => messages::stored(api_version, kind)?,
    };
    let mut raw = Vec::new();
    message(&mut raw, fields, value.as_object()?);
    let mut bytes = envelope(api_version, kind, raw.len());
    bytes.extend(raw);
    Some(bytes)
}

/// One object of a list, as the list has it; nothing of a kind that is not known.
pub fn item(value: &Value) -> Vec<u8> {
    let (api_version, kind) = (&value["apiVersion"], &value["kind"]);
    let fields = messages::stored(
        api_version.as_str().unwrap_or_default(),
        kind.as_str().unwrap_or_default(),
    );
    let mut bytes = Vec::new();
    if let (Some(fields), Some(object)) = (fields, value.as_object()) {
        inner(&mut bytes, 2, fields, object);
    }
    bytes
}

/// A list up to its first item. The length of all items stands before them.
pub fn list_head(api_version: &str, list_kind: &str, meta: &Value, items_bytes: usize) -> Vec<u8> {
    let mut metadata = Vec::new();
    inner(&mut metadata, 1, LIST_META, meta.as_object().unwrap_or(&Map::new()));
    let mut bytes = envelope(api_version, list_kind, metadata.len() + items_bytes);
    bytes.extend(metadata);
    bytes
}

/// One frame of a watch: its length in four bytes, then a WatchEvent without an envelope around the object
/// with one. Nothing of an object that cannot be written.
pub fn watch_frame(type_: &str, value: &Value) -> Vec<u8> {
    let Some(object) = object(value) else { return Vec::new() };
    let mut extension = Vec::with_capacity(object.len() + 8);
    put_bytes(&mut extension, 1, &object);
    let mut event = Vec::with_capacity(extension.len() + 24);
    put_bytes(&mut event, 1, type_.as_bytes());
    put_bytes(&mut event, 2, &extension);
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &event].concat()
}

/// Up to the object itself, which comes last.
fn envelope(api_version: &str, kind: &str, raw_bytes: usize) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut bytes = Vec::with_capacity(raw_bytes + type_meta.len() + 16);
    bytes.extend(MAGIC);
    put_bytes(&mut bytes, 1, &type_meta);
    put_key(&mut bytes, 2, 2);
    varint(&mut bytes, raw_bytes as u64);
    bytes
}

fn inner(into: &mut Vec<u8>, number: u32, fields: &[Field], object: &Map<String, Value>) {
    let mut bytes = Vec::new();
    message(&mut bytes, fields, object);
    put_bytes(into, number, &bytes);
}

/// As deep as the value, whose depth is bounded where it is read.
fn message(into: &mut Vec<u8>, fields: &[Field], object: &Map<String, Value>) {
    for field in fields {
        match object.get(field.name) {
            None | Some(Value::Null) => (),
            Some(value) => write(into, field, value),
        }
    }
}

fn write(into: &mut Vec<u8>, field: &Field, value: &Value) {
    let number = field.number;
    match (field.shape, value) {
        (Shape::Text | Shape::PointerToText, Value::String(text)) => {
            put_bytes(into, number, text.as_bytes());
        }
        (Shape::Bytes, Value::String(text)) => put_bytes(into, number, &decoded(text)),
        (Shape::Integer | Shape::PointerToInteger, value) => {
            if let Some(whole) = value.as_i64() {
                put_key(into, number, 0);
                // Negative numbers as their two's complement.
                varint(into, whole.cast_unsigned());
            }
        }
        (Shape::Truth | Shape::PointerToTruth, Value::Bool(truth)) => {
            put_key(into, number, 0);
            into.push(u8::from(*truth));
        }
        (Shape::PointerToDouble, value) => {
            if let Some(double) = value.as_f64() {
                put_key(into, number, 1);
                into.extend(double.to_le_bytes());
            }
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) => time(into, number, text),
        (Shape::Json, value) => json(into, number, value),
        (Shape::Jsons, Value::Array(values)) => {
            values.iter().for_each(|value| json(into, number, value));
        }
        (Shape::Message(fields) | Shape::PointerToMessage(fields), Value::Object(object)) => {
            inner(into, number, fields, object);
        }
        (Shape::Texts, Value::Array(values)) => {
            let texts = values.iter().filter_map(Value::as_str);
            texts.for_each(|text| put_bytes(into, number, text.as_bytes()));
        }
        (Shape::Messages(fields), Value::Array(values)) => {
            let objects = values.iter().filter_map(Value::as_object);
            objects.for_each(|object| inner(into, number, fields, object));
        }
        (Shape::OneOrMany(fields), value) => one_or_many(into, number, fields, value),
        (Shape::MessageOrTruth(fields), value) => message_or_truth(into, number, fields, value),
        (
            Shape::MapOfTexts | Shape::MapOfBytes | Shape::MapOfTextLists | Shape::MapOfMessages(_),
            Value::Object(entries),
        ) => entries.iter().for_each(|(key, value)| map_entry(into, field, key, value)),
        (_, _) => (),
    }
}

fn map_entry(into: &mut Vec<u8>, field: &Field, key: &str, value: &Value) {
    let mut entry = Vec::new();
    put_bytes(&mut entry, 1, key.as_bytes());
    match (field.shape, value) {
        (Shape::MapOfTexts, Value::String(text)) => put_bytes(&mut entry, 2, text.as_bytes()),
        (Shape::MapOfBytes, Value::String(text)) => put_bytes(&mut entry, 2, &decoded(text)),
        (Shape::MapOfMessages(fields), Value::Object(object)) => {
            inner(&mut entry, 2, fields, object)
        }
        (Shape::MapOfTextLists, Value::Array(values)) => {
            let mut list = Vec::new();
            let texts = values.iter().filter_map(Value::as_str);
            texts.for_each(|text| put_bytes(&mut list, 1, text.as_bytes()));
            put_bytes(&mut entry, 2, &list);
        }
        (_, _) => (),
    }
    put_bytes(into, field.number, &entry);
}

fn one_or_many(into: &mut Vec<u8>, number: u32, fields: &[Field], value: &Value) {
    let mut bytes = Vec::new();
    match value {
        Value::Object(one) => inner(&mut bytes, 1, fields, one),
        Value::Array(many) => {
            let objects = many.iter().filter_map(Value::as_object);
            objects.for_each(|object| inner(&mut bytes, 2, fields, object));
        }
        _ => return,
    }
    put_bytes(into, number, &bytes);
}

fn message_or_truth(into: &mut Vec<u8>, number: u32, fields: &[Field], value: &Value) {
    let mut bytes = Vec::new();
    // A schema allows what it says: clients that look at the truth alone must not take it for a no.
    put_key(&mut bytes, 1, 0);
    bytes.push(u8::from(*value != Value::Bool(false)));
    if let Value::Object(schema) = value {
        inner(&mut bytes, 2, fields, schema);
    }
    put_bytes(into, number, &bytes);
}

fn json(into: &mut Vec<u8>, number: u32, value: &Value) {
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, 1, value.to_string().as_bytes());
    put_bytes(into, number, &bytes);
}

fn time(into: &mut Vec<u8>, number: u32, text: &str) {
    let Ok(time) = text.parse::<Timestamp>() else { return };
    let mut bytes = Vec::new();
    put_key(&mut bytes, 1, 0);
    varint(&mut bytes, time.as_second().cast_unsigned());
    put_key(&mut bytes, 2, 0);
    varint(&mut bytes, i64::from(time.subsec_nanosecond()).cast_unsigned());
    put_bytes(into, number, &bytes);
}

fn decoded(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

fn put_bytes(into: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_key(into, number, 2);
    varint(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

fn put_key(into: &mut Vec<u8>, number: u32, wire: u64) {
    varint(into, u64::from(number) << 3 | wire);
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    into.push(value.to_le_bytes()[0]);
}
