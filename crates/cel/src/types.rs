//! The types of expressions: what the checker knows of a value before there is one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Anything; what it is shows when it is evaluated.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<Object>),
    Optional(Arc<Type>),
    /// `int`, `string` and so on as values.
    Type,
    Quantity,
    Url,
    Ip,
    Cidr,
    Format,
    Semver,
    /// In what functions declare: the same type wherever it has the same number.
    Param(u8),
}

/// A JSON object with named fields, under the names by which expressions know them.
#[derive(Debug, Default)]
pub struct Object {
    pub fields: BTreeMap<String, Field>,
}

#[derive(Debug)]
pub struct Field {
    /// In the JSON object.
    pub name: String,
    pub type_: Type,
}

/// Two objects are of one type if they come from one declaration.
impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Type {
    pub fn list(of: Type) -> Type {
        Type::List(Arc::new(of))
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(of: Type) -> Type {
        Type::Optional(Arc::new(of))
    }

    /// Where null may stand as well.
    fn takes_null(&self) -> bool {
        match self {
            Type::Object(_)
            | Type::Duration
            | Type::Timestamp
            | Type::Optional(_)
            | Type::Quantity
            | Type::Url
            | Type::Ip
            | Type::Cidr
            | Type::Format
            | Type::Semver
            | Type::Null => true,
            Type::Dyn
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::List(_)
            | Type::Map(..)
            | Type::Type
            | Type::Param(_) => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn | Type::Param(_) => f.write_str("dyn"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::List(of) => write!(f, "list({of})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Object(_) => f.write_str("object"),
            Type::Optional(of) => write!(f, "optional_type({of})"),
            Type::Type => f.write_str("type"),
            Type::Quantity => f.write_str("kubernetes.Quantity"),
            Type::Url => f.write_str("kubernetes.URL"),
            Type::Ip => f.write_str("net.IP"),
            Type::Cidr => f.write_str("net.CIDR"),
            Type::Format => f.write_str("kubernetes.NamedFormat"),
            Type::Semver => f.write_str("kubernetes.Semver"),
        }
    }
}

/// What the parameters of a declaration stand for in one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings(Vec<(u8, Type)>);

impl Bindings {
    /// Whether a value of type `found` can be where `declared` is asked for.
    pub(crate) fn takes(&mut self, declared: &Type, found: &Type) -> bool {
        match (declared, found) {
            (Type::Param(number), found) => {
                let Some(place) = self.0.iter().position(|(known, _)| known == number) else {
                    self.0.push((*number, found.clone()));
                    return true;
                };
                let bound = self.0[place].1.clone();
                match join(&bound, found) {
                    Some(joined) => {
                        self.0[place].1 = joined;
                        true
                    }
                    None => false,
                }
            }
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::List(one), Type::List(other)) => self.takes(one, other),
            (Type::Optional(one), Type::Optional(other)) => self.takes(one, other),
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.takes(key, other_key) && self.takes(value, other_value)
            }
            (one, other) => one == other,
        }
    }

    pub(crate) fn fill(&self, type_: &Type) -> Type {
        match type_ {
            Type::Param(number) => {
                let found = self.0.iter().find(|(known, _)| known == number);
                found.map_or(Type::Dyn, |(_, bound)| bound.clone())
            }
            Type::List(of) => Type::list(self.fill(of)),
            Type::Optional(of) => Type::optional(self.fill(of)),
            Type::Map(key, value) => Type::map(self.fill(key), self.fill(value)),
            other => other.clone(),
        }
    }
}

/// The type of what is one or the other: dyn where either is, the more general of the two; none if they have
/// nothing in common.
pub(crate) fn join(one: &Type, other: &Type) -> Option<Type> {
    match (one, other) {
        (one, other) if one == other => Some(one.clone()),
        (Type::Dyn, _) | (_, Type::Dyn) => Some(Type::Dyn),
        (Type::Null, other) | (other, Type::Null) => other.takes_null().then(|| other.clone()),
        (Type::List(one), Type::List(other)) => Some(Type::list(join(one, other)?)),
        (Type::Optional(one), Type::Optional(other)) => Some(Type::optional(join(one, other)?)),
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            Some(Type::map(join(key, other_key)?, join(value, other_value)?))
        }
        (_, _) => None,
    }
}
