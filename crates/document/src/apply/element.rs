//! One step of a path into an object: how it is written in FieldsV1, and how people read it.
//! [`FieldSet`](super::FieldSet) is a tree of these.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Number, Value};

/// A step from a value to something inside it. Two steps are equal when they lead to the same
/// place, so that they can be keys of a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// `f:name`, a field of an object.
    Field(String),
    /// `k:{"name":"web"}`, the item of a list that has these fields.
    Key(BTreeMap<String, Json>),
    /// `v:"a"`, the item of a set that is this value.
    Value(Json),
    /// `i:3`, an item by its place, where nothing better tells it apart.
    Index(i64),
}

/// A JSON value as text, written so that equal values have equal texts: keys in order, no spaces,
/// `1.0` as `1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Json(String);

/// Why a key of a FieldsV1 object is not a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    #[error("{element:?} does not begin with f:, k:, v: or i:")]
    NoPrefix { element: String },
    #[error("{element:?}: after k: there must be a JSON object")]
    Key { element: String },
    #[error("{element:?}: after v: there must be a JSON value")]
    Value { element: String },
    #[error("{element:?}: after i: there must be a whole number")]
    Index { element: String },
}

impl PathElement {
    pub fn field(name: impl Into<String>) -> PathElement {
        PathElement::Field(name.into())
    }

    /// Reads the form of FieldsV1. A kind of step that we do not know gives None, so that a newer
    /// client can name one without harm.
    pub fn parse(element: &str) -> Result<Option<PathElement>, ElementError> {
        let Some((prefix, rest)) =
            element.split_once(':').filter(|(prefix, _)| prefix.chars().count() == 1)
        else {
            return Err(ElementError::NoPrefix { element: element.to_owned() });
        };
        match prefix {
            "f" => Ok(Some(PathElement::field(rest))),
            "k" => match serde_json::from_str(rest) {
                Ok(Value::Object(fields)) => {
                    let fields = fields.iter().map(|(name, value)| (name.clone(), Json::of(value)));
                    Ok(Some(PathElement::Key(fields.collect())))
                }
                Ok(_) | Err(_) => Err(ElementError::Key { element: element.to_owned() }),
            },
            "v" => match serde_json::from_str(rest) {
                Ok(value) => Ok(Some(PathElement::Value(Json::of(&value)))),
                Err(_) => Err(ElementError::Value { element: element.to_owned() }),
            },
            "i" => match rest.parse() {
                Ok(index) => Ok(Some(PathElement::Index(index))),
                Err(_) => Err(ElementError::Index { element: element.to_owned() }),
            },
            _ => Ok(None),
        }
    }

    /// The form of FieldsV1.
    pub fn to_fields_v1(&self) -> String {
        match self {
            PathElement::Field(name) => format!("f:{name}"),
            PathElement::Key(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect::<Vec<_>>();
                format!("k:{{{}}}", fields.join(","))
            }
            PathElement::Value(value) => format!("v:{value}"),
            PathElement::Index(index) => format!("i:{index}"),
        }
    }
}

/// As it stands in a message: `.spec`, `[name="web",port=80]`, `[="a"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (place, (name, value)) in fields.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={value}]"),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Json {
    pub fn of(value: &Value) -> Json {
        match value {
            Value::Number(number) => Json(canonical_number(number)),
            Value::Array(items) => {
                let items = items.iter().map(|item| Json::of(item).0).collect::<Vec<_>>();
                Json(format!("[{}]", items.join(",")))
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| (name, Json::of(value)))
                    .collect::<BTreeMap<_, _>>();
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect::<Vec<_>>();
                Json(format!("{{{}}}", fields.join(",")))
            }
            Value::Null | Value::Bool(_) | Value::String(_) => Json(value.to_string()),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Equal as numbers is equal: JSON has no integers, and a client may send `1` as `1.0`.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || canonical_number(left) == canonical_number(right)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| same(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, l)| right.get(name).is_some_and(|r| same(l, r)))
        }
        (left, right) => left == right,
    }
}

fn canonical_number(number: &Number) -> String {
    let whole = match number.as_f64() {
        // From here on a float no longer tells neighbouring integers apart.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9.0e15 => {
            // Through text, as a cast would hide what does not fit. "-0" reads as 0.
            format!("{float:.0}").parse::<i64>().ok()
        }
        Some(_) | None => None,
    };
    match whole {
        Some(whole) => whole.to_string(),
        None => number.to_string(),
    }
}
