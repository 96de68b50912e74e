//! The protobuf form of Kubernetes, from and to the JSON that everything else here works with.
//!
//! The typed Go clients, and with them `kubectl auth can-i` and `kubectl create configmap`, send
//! the kinds of Kubernetes in this form and do not fall back to another. The handlers call [`decode`] when
//! the content type is [`MEDIA_TYPE`], and [`encode`] when a client accepts it. Both work from the tables in
//! `messages` and `definitions`; where a table says what a zero means, it means the same to both.

mod definitions;
pub mod encode;
mod messages;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use self::messages::{Field, Shape};

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Schemas are the only messages that hold themselves; a body of three megabytes could have a million levels.
const DEPTH_MAX: usize = 128;

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error(
        "the body is not in the protobuf form of Kubernetes: it does not begin with k8s and a zero byte"
    )]
    NotOurs,
    #[error("the protobuf body is damaged: {problem}")]
    Damaged { problem: &'static str },
    #[error("{api_version} {kind} cannot be read as protobuf; send it as application/json")]
    UnknownKind { api_version: String, kind: String },
    #[error("field {number} of {kind} is not known in protobuf; send it as application/json")]
    UnknownField { kind: String, number: u64 },
}

/// The object in the body, as JSON.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope = body.strip_prefix(MAGIC).ok_or(Error::NotOurs)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for entry in Entries(envelope) {
        match entry? {
            (1, Wire::Bytes(type_meta)) => {
                for entry in Entries(type_meta) {
                    match entry? {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => (),
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            // How the object was encoded before; clients leave it empty.
            _ => (),
        }
    }
    let Some(fields) = messages::of(&api_version, &kind) else {
        return Err(Error::UnknownKind { api_version, kind });
    };
    let mut object = message(raw, fields, &kind, DEPTH_MAX)?;
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    Ok(Value::Object(object))
}

fn message(
    bytes: &[u8],
    fields: &[Field],
    kind: &str,
    depth: usize,
) -> Result<Map<String, Value>, Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::Damaged { problem: "it is too deep" });
    };
    let mut object = Map::new();
    for entry in Entries(bytes) {
        let (number, wire) = entry?;
        let Some(field) = fields.iter().find(|field| u64::from(field.number) == number) else {
            return Err(Error::UnknownField { kind: kind.to_owned(), number });
        };
        insert(&mut object, field, wire, kind, depth)?;
    }
    Ok(object)
}

fn insert(
    object: &mut Map<String, Value>,
    field: &Field,
    wire: Wire<'_>,
    kind: &str,
    depth: usize,
) -> Result<(), Error> {
    let value = match (field.shape, wire) {
        (Shape::Ignored, _) => return Ok(()),
        // Clients write the zero of a field that is not set; a pointer is written only when set.
        (Shape::Text | Shape::Bytes, Wire::Bytes([])) => return Ok(()),
        (Shape::Integer | Shape::Truth, Wire::Number(0)) => return Ok(()),
        (Shape::Time | Shape::MicroTime, Wire::Bytes([])) => return Ok(()),
        (Shape::Text | Shape::PointerToText, Wire::Bytes(bytes)) => Value::String(text(bytes)?),
        // Negative numbers are written as their two's complement in 64 bits.
        (Shape::Integer | Shape::PointerToInteger, Wire::Number(number)) => {
            Value::from(number.cast_signed())
        }
        (Shape::Bytes, Wire::Bytes(bytes)) => Value::String(BASE64_STANDARD.encode(bytes)),
        (Shape::Truth | Shape::PointerToTruth, Wire::Number(number)) => Value::Bool(number != 0),
        (Shape::PointerToDouble, Wire::Double(double)) => number_of(double),
        (Shape::Time, Wire::Bytes(bytes)) => Value::String(format!("{:.0}", time(bytes)?)),
        (Shape::MicroTime, Wire::Bytes(bytes)) => Value::String(format!("{:.6}", time(bytes)?)),
        (Shape::Json, Wire::Bytes(bytes)) => json(bytes)?,
        (Shape::Message(fields), Wire::Bytes(bytes)) => {
            let inner = message(bytes, fields, kind, depth)?;
            if inner.is_empty() {
                return Ok(());
            }
            Value::Object(inner)
        }
        (Shape::PointerToMessage(fields), Wire::Bytes(bytes)) => {
            Value::Object(message(bytes, fields, kind, depth)?)
        }
        (Shape::OneOrMany(fields), Wire::Bytes(bytes)) => one_or_many(bytes, fields, kind, depth)?,
        (Shape::MessageOrTruth(fields), Wire::Bytes(bytes)) => {
            message_or_truth(bytes, fields, kind, depth)?
        }
        (Shape::Jsons, Wire::Bytes(bytes)) => return push(object, field, json(bytes)?),
        (Shape::Texts, Wire::Bytes(bytes)) => {
            return push(object, field, Value::String(text(bytes)?));
        }
        (Shape::Messages(fields), Wire::Bytes(bytes)) => {
            let inner = Value::Object(message(bytes, fields, kind, depth)?);
            return push(object, field, inner);
        }
        (Shape::MapOfTexts, Wire::Bytes(bytes)) => {
            let (key, value) = map_entry(bytes)?;
            return put(object, field, key, Value::String(text(value)?));
        }
        (Shape::MapOfBytes, Wire::Bytes(bytes)) => {
            let (key, value) = map_entry(bytes)?;
            return put(object, field, key, Value::String(BASE64_STANDARD.encode(value)));
        }
        (Shape::MapOfMessages(fields), Wire::Bytes(bytes)) => {
            let (key, value) = map_entry(bytes)?;
            let inner = Value::Object(message(value, fields, kind, depth)?);
            return put(object, field, key, inner);
        }
        (Shape::MapOfTextLists, Wire::Bytes(bytes)) => {
            let (key, value) = map_entry(bytes)?;
            let mut texts = Vec::new();
            for entry in Entries(value) {
                if let (1, Wire::Bytes(bytes)) = entry? {
                    texts.push(Value::String(text(bytes)?));
                }
            }
            return put(object, field, key, Value::Array(texts));
        }
        (_, Wire::Number(_) | Wire::Bytes(_) | Wire::Double(_) | Wire::Fixed) => {
            return Err(Error::Damaged { problem: "a field is not of the type that it should be" });
        }
    };
    object.insert(field.name.to_owned(), value);
    Ok(())
}

/// A whole number as Kubernetes writes it in JSON, without a point.
fn number_of(double: f64) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if double.fract() == 0.0 && double.abs() <= EXACT_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the bound")]
        return Value::from(double as i64);
    }
    Value::from(double)
}

fn one_or_many(bytes: &[u8], fields: &[Field], kind: &str, depth: usize) -> Result<Value, Error> {
    let mut many = Vec::new();
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Bytes(bytes)) => {
                return Ok(Value::Object(message(bytes, fields, kind, depth)?));
            }
            (2, Wire::Bytes(bytes)) => {
                many.push(Value::Object(message(bytes, fields, kind, depth)?));
            }
            _ => (),
        }
    }
    Ok(Value::Array(many))
}

fn message_or_truth(
    bytes: &[u8],
    fields: &[Field],
    kind: &str,
    depth: usize,
) -> Result<Value, Error> {
    let mut allows = false;
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Number(number)) => allows = number != 0,
            (2, Wire::Bytes(bytes)) => {
                return Ok(Value::Object(message(bytes, fields, kind, depth)?));
            }
            _ => (),
        }
    }
    Ok(Value::Bool(allows))
}

fn push(object: &mut Map<String, Value>, field: &Field, value: Value) -> Result<(), Error> {
    let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut().expect("the table gives each name one shape").push(value);
    Ok(())
}

fn put(
    object: &mut Map<String, Value>,
    field: &Field,
    key: String,
    value: Value,
) -> Result<(), Error> {
    let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
    map.as_object_mut().expect("the table gives each name one shape").insert(key, value);
    Ok(())
}

fn map_entry(bytes: &[u8]) -> Result<(String, &[u8]), Error> {
    let (mut key, mut value) = (String::new(), &[][..]);
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, Wire::Bytes(bytes)) => value = bytes,
            _ => (),
        }
    }
    Ok((key, value))
}

fn text(bytes: &[u8]) -> Result<String, Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::Damaged { problem: "a text is not UTF-8" }),
    }
}

fn time(bytes: &[u8]) -> Result<Timestamp, Error> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Number(number)) => seconds = number.cast_signed(),
            (2, Wire::Number(number)) => nanoseconds = number,
            _ => (),
        }
    }
    i32::try_from(nanoseconds)
        .ok()
        .and_then(|nanoseconds| Timestamp::new(seconds, nanoseconds).ok())
        .ok_or(Error::Damaged { problem: "a time is out of range" })
}

/// A field that is JSON inside: its bytes are those of field 1.
fn json(bytes: &[u8]) -> Result<Value, Error> {
    for entry in Entries(bytes) {
        if let (1, Wire::Bytes(bytes)) = entry? {
            return serde_json::from_slice(bytes)
                .map_err(|_| Error::Damaged { problem: "a field that should be JSON is not" });
        }
    }
    Ok(Value::Null)
}

/// A value before its type is known.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Double(f64),
    /// Of four bytes; no field that we know is written so.
    Fixed,
}

/// The fields of a message, by number, in the order in which they were written.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(u64, Wire<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            // What follows damage means nothing.
            self.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Result<(u64, Wire<'a>), Error> {
        let key = self.number()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.number()?),
            1 => {
                let bytes = self.take(8)?.try_into().expect("eight were taken");
                Wire::Double(f64::from_le_bytes(bytes))
            }
            2 => {
                let length = self.number()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed
            }
            _ => return Err(Error::Damaged { problem: "it has a field of an unknown wire type" }),
        };
        Ok((key >> 3, wire))
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn number(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take(1)? else { break };
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Error::Damaged { problem: "a number has more than 64 bits" })
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let taken = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let Some((taken, rest)) = taken else {
            return Err(Error::Damaged { problem: "it ends too early" });
        };
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
