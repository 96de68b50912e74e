//! Structural schemas: what a kind's objects look like, in the form that the server works with.
//!
//! A CustomResourceDefinition brings its schema as OpenAPI v3 JSON. [`Schema::compile`] checks that
//! it is structural and makes a typed tree of it, once; the handlers then ask the tree to
//! [`validate`](Schema::validate), [`default`](Schema::fill_defaults), [`prune`](Schema::prune) and
//! to name [`unknown_fields`](Schema::unknown_fields). Server-side apply reads the tree for its
//! list and map types. Everything here is pure: values in, values and findings out.
//!
//! Start at [`Schema`] and [`Rules`]: the first says what is where, the second what it may be.

mod compare;
mod compile;
mod defaults;
mod expressions;
mod field_path;
mod findings;
mod format;
mod keywords;
mod path;
mod prune;
mod read;
mod rules;
mod validate;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

pub use expressions::Expressions;
pub use findings::FINDINGS_MAX;
pub use findings::Findings;
pub use path::Path;

/// One node of a structural schema: the shape of a value, and the [`Rules`] that it keeps.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// None only for a node that is `int_or_string` or that preserves unknown fields: any value.
    pub type_: Option<Type>,
    /// Becomes the text of `kubectl explain`.
    pub description: String,
    pub properties: BTreeMap<String, Schema>,
    /// What the keys that `properties` does not name may hold.
    pub additional: Additional,
    pub items: Option<Box<Schema>>,
    pub list: ListKind,
    pub map_type: MapKind,
    pub nullable: bool,
    pub default: Option<Value>,
    /// `x-kubernetes-preserve-unknown-fields`: what is not specified stays, from here down.
    pub preserve_unknown: bool,
    pub int_or_string: bool,
    /// `x-kubernetes-embedded-resource`: a whole object with `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
    pub rules: Rules,
    /// `x-kubernetes-validations` as they came; [`Expressions`] are made of them.
    pub expressions: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// `additionalProperties`. `false` is not structural, so that absence is the only way to say
/// nothing.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    #[default]
    Nothing,
    /// `additionalProperties: true`.
    Anything,
    Each(Box<Schema>),
}

/// `x-kubernetes-list-type`: how two authors share a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// The whole list has one owner.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, told apart by the values of these fields.
    Map(Vec<String>),
}

/// `x-kubernetes-map-type`: how two authors share an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapKind {
    /// Each field has its own owner.
    #[default]
    Granular,
    /// The whole object has one owner.
    Atomic,
}

/// What a value must keep to, beside its shape. The branches of `allOf`, `anyOf`, `oneOf` and
/// `not` are rules too; only there `type_`, `properties` and `items` are in use.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Only in the two branches that spell out an integer-or-string.
    pub type_: Option<Type>,
    pub required: Vec<String>,
    pub values: Option<Vec<Value>>,
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub multiple_of: Option<Number>,
    /// In characters, not bytes.
    pub length_min: Option<u64>,
    pub length_max: Option<u64>,
    pub pattern: Option<Pattern>,
    pub format: Option<String>,
    pub items_min: Option<u64>,
    pub items_max: Option<u64>,
    pub properties_min: Option<u64>,
    pub properties_max: Option<u64>,
    pub all_of: Vec<Rules>,
    pub any_of: Vec<Rules>,
    pub one_of: Vec<Rules>,
    pub not: Option<Box<Rules>>,
    pub properties: BTreeMap<String, Rules>,
    pub items: Option<Box<Rules>>,
}

#[derive(Clone, Debug)]
pub struct Bound {
    pub value: Number,
    pub exclusive: bool,
}

/// A compiled `pattern`; the source is for messages.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub source: String,
    pub regex: Regex,
}

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Type> {
        const ALL: [Type; 6] =
            [Type::Object, Type::Array, Type::String, Type::Integer, Type::Number, Type::Boolean];
        ALL.into_iter().find(|type_| type_.name() == name)
    }
}

impl Schema {
    /// The schema of what `key` of an object holds, where the schema says anything about it.
    pub fn field(&self, key: &str) -> Option<&Schema> {
        match (self.properties.get(key), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Each(each)) => Some(each),
            (None, Additional::Nothing | Additional::Anything) => None,
        }
    }

    /// Whether there is an `x-kubernetes-validations` rule anywhere in the tree.
    pub fn has_expressions(&self) -> bool {
        let below_additional = match &self.additional {
            Additional::Each(each) => each.has_expressions(),
            Additional::Nothing | Additional::Anything => false,
        };
        !self.expressions.is_empty()
            || below_additional
            || self.properties.values().any(Schema::has_expressions)
            || self.items.as_ref().is_some_and(|items| items.has_expressions())
    }

    /// Whether `key` may stand in an object of this schema.
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.properties.contains_key(key)
            || self.preserve_unknown
            || !matches!(self.additional, Additional::Nothing)
            || (self.embedded_resource && EMBEDDED_FIELDS.contains(&key))
    }
}

/// What every embedded object has, whether its schema says so or not.
pub(crate) const EMBEDDED_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

#[cfg(test)]
mod tests;
