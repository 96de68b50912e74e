//! Values while an expression is evaluated. What comes from JSON stays there until somebody asks for it, so
//! that a rule about one field of a large object costs one field.

use core::net::IpAddr;
use std::cmp::Ordering;
use std::ops::Deref;
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;

use crate::budget::Budget;
use crate::error::EvalError;
use crate::functions::{Cidr, Format, Quantity, Semver, Url, parse_duration, parse_timestamp};
use crate::types::{Object, Type};

pub(crate) type Evaluated<'a> = Result<Value<'a>, EvalError>;

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    Timestamp(Timestamp),
    Duration(SignedDuration),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    /// The name of a type.
    Type(&'static str),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Format(&'static Format),
    Semver(Rc<Semver>),
}

#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Of(&'a str),
    Made(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Of(text) => text,
            Text::Made(text) => text,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Of(&'a [Json], &'a Type),
    Made(Rc<[Value<'a>]>),
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    /// With named fields.
    Object(&'a serde_json::Map<String, Json>, &'a Object),
    Of(&'a serde_json::Map<String, Json>, &'a Type),
    Made(Rc<[(Value<'a>, Value<'a>)]>),
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<Rc<str>>) -> Value<'a> {
        Value::String(Text::Made(text.into()))
    }

    pub(crate) fn list(values: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Made(values.into()))
    }

    pub(crate) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Rc::new(value)))
    }

    /// What stands in JSON, as a value of its declared type.
    pub(crate) fn of(json: &'a Json, type_: &'a Type) -> Evaluated<'a> {
        Ok(match (json, type_) {
            (Json::Null, _) => Value::Null,
            (Json::Bool(truth), _) => Value::Bool(*truth),
            (Json::Number(number), Type::Double) => {
                Value::Double(number.as_f64().unwrap_or(f64::NAN))
            }
            (Json::Number(number), _) => match number.as_i64() {
                Some(whole) => Value::Int(whole),
                None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            (Json::String(text), Type::Bytes) => {
                let bytes = BASE64_STANDARD.decode(text);
                let bytes = bytes.map_err(|_| EvalError::failed("byte format is not base64"))?;
                Value::Bytes(bytes.into())
            }
            (Json::String(text), Type::Timestamp) => Value::Timestamp(parse_timestamp(text)?),
            (Json::String(text), Type::Duration) => Value::Duration(parse_duration(text)?),
            (Json::String(text), _) => Value::String(Text::Of(text)),
            (Json::Array(items), Type::List(of)) => Value::List(List::Of(items, of)),
            (Json::Array(items), _) => Value::List(List::Of(items, &Type::Dyn)),
            (Json::Object(entries), Type::Object(object)) => {
                Value::Map(Map::Object(entries, object))
            }
            (Json::Object(entries), Type::Map(_, value)) => Value::Map(Map::Of(entries, value)),
            (Json::Object(entries), _) => Value::Map(Map::Of(entries, &Type::Dyn)),
        })
    }

    /// As `type(x)` says it, and as messages do.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::List(_) => "list",
            Value::Map(Map::Object(..)) => "object",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Url(_) => "kubernetes.URL",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Semver(_) => "kubernetes.Semver",
        }
    }

    /// Whether it can be given to what asks for the type. Only the outermost shape is looked at.
    pub(crate) fn fits(&self, type_: &Type) -> bool {
        match (type_, self) {
            (Type::Dyn | Type::Param(_), _)
            | (Type::Null, Value::Null)
            | (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(_))
            | (Type::Uint, Value::Uint(_))
            | (Type::Double, Value::Double(_))
            | (Type::String, Value::String(_))
            | (Type::Bytes, Value::Bytes(_))
            | (Type::Timestamp, Value::Timestamp(_))
            | (Type::Duration, Value::Duration(_))
            | (Type::Map(..), Value::Map(_))
            | (Type::Optional(_), Value::Optional(_))
            | (Type::Type, Value::Type(_))
            | (Type::Quantity, Value::Quantity(_))
            | (Type::Url, Value::Url(_))
            | (Type::Ip, Value::Ip(_))
            | (Type::Cidr, Value::Cidr(_))
            | (Type::Format, Value::Format(_))
            | (Type::Semver, Value::Semver(_)) => true,
            (Type::List(of), Value::List(list)) => list.first_fits(of),
            (_, _) => false,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            List::Of(items, _) => items.len(),
            List::Made(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Evaluated<'a>> {
        match self {
            List::Of(items, type_) => Some(Value::of(items.get(index)?, type_)),
            List::Made(items) => Some(Ok(items.get(index)?.clone())),
        }
    }

    /// Each element costs a step.
    pub(crate) fn values(&self, budget: &mut Budget) -> Result<Vec<Value<'a>>, EvalError> {
        budget.spend(self.len())?;
        (0..self.len()).filter_map(|index| self.get(index)).collect()
    }

    fn first_fits(&self, type_: &Type) -> bool {
        self.get(0).is_none_or(|first| first.is_ok_and(|first| first.fits(type_)))
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Map::Object(entries, _) | Map::Of(entries, _) => entries.len(),
            Map::Made(entries) => entries.len(),
        }
    }

    pub(crate) fn get(
        &self,
        key: &Value<'a>,
        budget: &mut Budget,
    ) -> Result<Option<Value<'a>>, EvalError> {
        match (self, key) {
            (Map::Object(..) | Map::Of(..), Value::String(name)) => self.field(name),
            (Map::Object(..) | Map::Of(..), _) => Ok(None),
            (Map::Made(entries), key) => {
                for (known, value) in entries.iter() {
                    if equal(known, key, budget)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
        }
    }

    /// What a field holds, by the name that expressions have for it.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        let found = match self {
            Map::Object(entries, object) => {
                let field = object.fields.get(name);
                field.and_then(|field| Some((entries.get(&field.name)?, &field.type_)))
            }
            Map::Of(entries, type_) => entries.get(name).map(|value| (value, *type_)),
            Map::Made(entries) => {
                let mut found = entries
                    .iter()
                    .filter(|(key, _)| matches!(key, Value::String(key) if **key == *name));
                return Ok(found.next().map(|(_, value)| value.clone()));
            }
        };
        found.map(|(json, type_)| Value::of(json, type_)).transpose()
    }

    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Object(entries, object) => {
                let known =
                    object.fields.iter().filter(|(_, field)| entries.contains_key(&field.name));
                known.map(|(name, _)| Value::String(Text::Of(name))).collect()
            }
            Map::Of(entries, _) => entries.keys().map(|key| Value::String(Text::Of(key))).collect(),
            Map::Made(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
        }
    }
}

/// Numbers are equal across their types; other values of different types are not equal, and no error.
pub(crate) fn equal(
    one: &Value<'_>,
    other: &Value<'_>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    budget.spend(1)?;
    Ok(match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::String(one), Value::String(other)) => {
            budget.spend_on_bytes(one.len().min(other.len()))?;
            **one == **other
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            budget.spend_on_bytes(one.len().min(other.len()))?;
            one == other
        }
        (Value::List(one), Value::List(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (one, other) in one.values(budget)?.iter().zip(&other.values(budget)?) {
                if !equal(one, other, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(one), Value::Map(other)) => equal_maps(one, other, budget)?,
        (Value::Optional(one), Value::Optional(other)) => match (one, other) {
            (Some(one), Some(other)) => equal(one, other, budget)?,
            (one, other) => one.is_none() == other.is_none(),
        },
        (Value::Type(one), Value::Type(other)) => one == other,
        (Value::Url(one), Value::Url(other)) => one == other,
        (Value::Ip(one), Value::Ip(other)) => one == other,
        (Value::Cidr(one), Value::Cidr(other)) => one == other,
        (Value::Format(one), Value::Format(other)) => one.name == other.name,
        (one, other) => compare(one, other) == Some(Ordering::Equal),
    })
}

fn equal_maps(one: &Map<'_>, other: &Map<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
    let (keys, other_keys) = (one.keys(), other.keys());
    budget.spend(keys.len())?;
    if keys.len() != other_keys.len() {
        return Ok(false);
    }
    for key in &keys {
        match (one.get(key, budget)?, other.get(key, budget)?) {
            (Some(one), Some(other)) if equal(&one, &other, budget)? => (),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The order of two values that have one.
pub(crate) fn compare(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
        (Value::Uint(one), Value::Uint(other)) => Some(one.cmp(other)),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Int(one), Value::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Uint(one), Value::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Int(one), Value::Double(other)) => with_double(i128::from(*one), *other),
        (Value::Uint(one), Value::Double(other)) => with_double(i128::from(*one), *other),
        (Value::Double(one), Value::Int(other)) => {
            with_double(i128::from(*other), *one).map(Ordering::reverse)
        }
        (Value::Double(one), Value::Uint(other)) => {
            with_double(i128::from(*other), *one).map(Ordering::reverse)
        }
        (Value::String(one), Value::String(other)) => Some((**one).cmp(&**other)),
        (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
        (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.cmp(other)),
        (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
        (Value::Quantity(one), Value::Quantity(other)) => Some(one.cmp(other)),
        (Value::Semver(one), Value::Semver(other)) => Some(one.cmp(other)),
        (_, _) => None,
    }
}

/// Beyond the range of whole numbers the sign says it all; within it the whole part, then the rest.
#[expect(clippy::cast_possible_truncation, reason = "the range is looked at first")]
fn with_double(whole: i128, double: f64) -> Option<Ordering> {
    const RANGE: f64 = 1e30;
    if double.is_nan() {
        return None;
    }
    if double.abs() > RANGE {
        return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = double.floor();
    let order = whole.cmp(&(floor as i128));
    let has_rest = double > floor;
    Some(if order == Ordering::Equal && has_rest { Ordering::Less } else { order })
}
