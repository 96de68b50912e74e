//! From OpenAPI v3 JSON to a [`Schema`], with the rules that make it structural.
//!
//! This file reads the shape of each node; `rules.rs` reads what its values must keep to, and
//! `read.rs` has what both read single keywords with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tombolo_model::suggest::did_you_mean;

use tombolo_model::{Invalid, Problem};

use super::findings::{Findings, describe, quote};
use super::keywords::{self, Place};
use super::read::At;
use super::{Additional, ListKind, MapKind, Path, Schema, Type};

/// Deeper objects than this are not for people; the tree is walked by recursion.
const DEPTH_MAX: usize = 64;

/// The largest known definitions have some ten thousand nodes.
const NODES_MAX: usize = 50_000;

impl Schema {
    pub fn compile(value: &Value) -> Result<Schema, Vec<Invalid>> {
        Schema::compile_at(value, &Path::ROOT)
    }

    /// As [`Schema::compile`]; findings are told from `path` on.
    pub fn compile_at(value: &Value, path: &Path<'_>) -> Result<Schema, Vec<Invalid>> {
        let mut compiler = Compiler { findings: Findings::default(), nodes: 0 };
        let schema = compiler.node(value, path, 0);
        match compiler.findings.is_empty() {
            true => Ok(schema),
            false => Err(compiler.findings.into_vec()),
        }
    }
}

pub(super) struct Compiler {
    pub(super) findings: Findings,
    nodes: usize,
}

impl Compiler {
    fn node(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Schema {
        let Some(at) = self.enter(value, path, depth) else { return Schema::default() };
        self.check_keywords(at, |_| true);
        let mut schema = Schema {
            type_: self.type_keyword(at),
            description: self.text(at, "description").unwrap_or_default().to_owned(),
            properties: self.properties(at),
            additional: self.additional(at),
            items: self.items(at),
            nullable: self.flag(at, "nullable"),
            default: at.get("default").cloned(),
            preserve_unknown: self.flag(at, "x-kubernetes-preserve-unknown-fields"),
            int_or_string: self.flag(at, "x-kubernetes-int-or-string"),
            embedded_resource: self.flag(at, "x-kubernetes-embedded-resource"),
            expressions: self.list(at, "x-kubernetes-validations").to_vec(),
            ..Schema::default()
        };
        self.check_shape(at, &schema);
        schema.list = self.list_kind(at, &schema);
        schema.map_type = self.map_kind(at, &schema);
        schema.rules = self.rules(at, &schema);
        self.check_default(at, &schema);
        schema
    }

    /// Counts the node and looks whether it is an object of keywords at all.
    pub(super) fn enter<'a>(
        &mut self,
        value: &'a Value,
        path: &'a Path<'a>,
        depth: usize,
    ) -> Option<At<'a>> {
        self.nodes += 1;
        if depth > DEPTH_MAX {
            let message = format!("the schema is nested deeper than {DEPTH_MAX} levels");
            self.findings.push(path, Problem::TooMany, message);
            return None;
        }
        if self.nodes == NODES_MAX {
            let message = format!("the schema has more than {NODES_MAX} nodes");
            self.findings.push(path, Problem::TooMany, message);
        }
        if self.nodes >= NODES_MAX {
            return None;
        }
        let Value::Object(keywords) = value else {
            let message = format!("a schema is an object, found {}", describe(value));
            self.findings.push(path, Problem::TypeInvalid, message);
            return None;
        };
        Some(At { keywords, path, depth })
    }

    pub(super) fn check_keywords(&mut self, at: At<'_>, fits: impl Fn(Place) -> bool) {
        for keyword in at.keywords.keys().filter(|keyword| at.get(keyword).is_some()) {
            let path = at.path.field(keyword);
            match keywords::place(keyword) {
                Some(Place::Nowhere(instead)) => {
                    self.findings.push(&path, Problem::Forbidden, format!("not allowed: {instead}"))
                }
                Some(place) if !fits(place) => {
                    let message = "not allowed inside allOf, anyOf, oneOf and not: these restrict \
                                   a value, its shape is said outside of them";
                    self.findings.push(&path, Problem::Forbidden, message);
                }
                Some(Place::Anywhere | Place::ShapeOnly) => (),
                // Extensions of others are theirs to read.
                None if keyword.starts_with("x-") => (),
                None => {
                    let hint = did_you_mean(keyword, keywords::allowed());
                    self.findings.push(&path, Problem::Unknown, format!("unknown keyword{hint}"));
                }
            }
        }
    }

    fn properties(&mut self, at: At<'_>) -> BTreeMap<String, Schema> {
        let Some(properties) = self.object(at, "properties") else { return BTreeMap::new() };
        let path = at.path.field("properties");
        properties
            .iter()
            .map(|(name, value)| (name.clone(), self.node(value, &path.key(name), at.depth + 1)))
            .collect()
    }

    fn additional(&mut self, at: At<'_>) -> Additional {
        let path = at.path.field("additionalProperties");
        match at.get("additionalProperties") {
            None => Additional::Nothing,
            Some(Value::Bool(true)) => Additional::Anything,
            Some(Value::Bool(false)) => {
                let message = "false is not allowed: leave the keyword out, fields that the \
                               schema does not name are unknown anyway";
                self.findings.push(&path, Problem::Forbidden, message);
                Additional::Nothing
            }
            Some(each) => Additional::Each(Box::new(self.node(each, &path, at.depth + 1))),
        }
    }

    fn items(&mut self, at: At<'_>) -> Option<Box<Schema>> {
        let path = at.path.field("items");
        let items = at.get("items")?;
        if items.is_array() {
            let message = "one schema for all items is expected, found a list of schemas";
            self.findings.push(&path, Problem::Forbidden, message);
            return None;
        }
        Some(Box::new(self.node(items, &path, at.depth + 1)))
    }

    pub(super) fn type_keyword(&mut self, at: At<'_>) -> Option<Type> {
        let name = self.text(at, "type")?;
        let type_ = Type::from_name(name);
        if type_.is_none() {
            let message = format!(
                "{} is not a type: use object, array, string, integer, number or boolean",
                quote(name)
            );
            self.findings.push(&at.path.field("type"), Problem::NotSupported, message);
        }
        type_
    }

    /// What the shape keywords say about each other.
    fn check_shape(&mut self, at: At<'_>, schema: &Schema) {
        let type_ = schema.type_;
        let says = |name| at.get(name).is_some();
        let any_value = schema.preserve_unknown || schema.int_or_string;
        let rows: [(bool, &str, Problem, &str); 8] = [
            (
                !says("type") && !any_value,
                "type",
                Problem::Required,
                "a type is required: object, array, string, integer, number or boolean",
            ),
            (
                says("type") && schema.int_or_string,
                "type",
                Problem::Forbidden,
                "an x-kubernetes-int-or-string has no other type",
            ),
            (
                type_ == Some(Type::Array) && !says("items"),
                "items",
                Problem::Required,
                "a schema for the items is required, because the type is array",
            ),
            (
                says("items") && type_.is_some_and(|type_| type_ != Type::Array),
                "items",
                Problem::Forbidden,
                "only the type array has items",
            ),
            (
                says("properties") && type_.is_some_and(|type_| type_ != Type::Object),
                "properties",
                Problem::Forbidden,
                "only the type object has properties",
            ),
            (
                says("additionalProperties") && type_.is_some_and(|type_| type_ != Type::Object),
                "additionalProperties",
                Problem::Forbidden,
                "only the type object has properties",
            ),
            (
                says("additionalProperties") && !schema.properties.is_empty(),
                "additionalProperties",
                Problem::Forbidden,
                "an object has either named properties or additional ones, not both",
            ),
            (
                schema.embedded_resource && type_ != Some(Type::Object),
                "type",
                Problem::Invalid,
                "an x-kubernetes-embedded-resource is of type object",
            ),
        ];
        for (wrong, keyword, problem, message) in rows {
            if wrong {
                self.findings.push(&at.path.field(keyword), problem, message);
            }
        }
        if schema.embedded_resource && !schema.preserve_unknown && schema.properties.is_empty() {
            let message = "properties, or x-kubernetes-preserve-unknown-fields: true, are required \
                           for an embedded resource";
            self.findings.push(&at.path.field("properties"), Problem::Required, message);
        }
    }

    fn map_kind(&mut self, at: At<'_>, schema: &Schema) -> MapKind {
        let path = at.path.field("x-kubernetes-map-type");
        let Some(name) = self.text(at, "x-kubernetes-map-type") else { return MapKind::Granular };
        if schema.type_ != Some(Type::Object) {
            self.findings.push(&path, Problem::Forbidden, "only the type object has a map type");
        }
        match name {
            "granular" => MapKind::Granular,
            "atomic" => MapKind::Atomic,
            _ => {
                let message = format!("{} is not a map type: use granular or atomic", quote(name));
                self.findings.push(&path, Problem::NotSupported, message);
                MapKind::Granular
            }
        }
    }

    fn list_kind(&mut self, at: At<'_>, schema: &Schema) -> ListKind {
        let path = at.path.field("x-kubernetes-list-type");
        let name = self.text(at, "x-kubernetes-list-type");
        let keys = self.names(at, "x-kubernetes-list-map-keys");
        if name.is_some() && schema.type_ != Some(Type::Array) {
            self.findings.push(&path, Problem::Forbidden, "only the type array has a list type");
        }
        if name != Some("map") && !keys.is_empty() {
            let path = at.path.field("x-kubernetes-list-map-keys");
            self.findings.push(&path, Problem::Forbidden, "only the list type map has keys");
        }
        match name {
            None | Some("atomic") => ListKind::Atomic,
            Some("set") => {
                self.check_set(at, schema);
                ListKind::Set
            }
            Some("map") => {
                self.check_map_keys(at, schema, &keys);
                ListKind::Map(keys)
            }
            Some(other) => {
                let message =
                    format!("{} is not a list type: use atomic, set or map", quote(other));
                self.findings.push(&path, Problem::NotSupported, message);
                ListKind::Atomic
            }
        }
    }

    /// A set compares its items as a whole, so none of them may be shared among authors.
    fn check_set(&mut self, at: At<'_>, schema: &Schema) {
        let Some(items) = &schema.items else { return };
        let whole = match items.type_ {
            Some(Type::Object) => items.map_type == MapKind::Atomic,
            Some(Type::Array) => items.list == ListKind::Atomic,
            Some(Type::String | Type::Integer | Type::Number | Type::Boolean) => true,
            None => items.int_or_string,
        };
        if !whole {
            let message = "the items of a set are scalars, or atomic objects or lists";
            self.findings.push(&at.path.field("items"), Problem::Invalid, message);
        }
    }

    fn check_map_keys(&mut self, at: At<'_>, schema: &Schema, keys: &[String]) {
        let path = at.path.field("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let message = "the list type map needs at least one key that tells its items apart";
            self.findings.push(&path, Problem::Required, message);
        }
        let Some(items) = &schema.items else { return };
        if items.type_ != Some(Type::Object) {
            let message = "the items of a list of type map are of type object";
            self.findings.push(&at.path.field("items").field("type"), Problem::Invalid, message);
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, key) in keys.iter().enumerate() {
            let path = path.index(index);
            if !seen.insert(key) {
                let message = format!("{} is there twice", quote(key));
                self.findings.push(&path, Problem::Duplicate, message);
            }
            let Some(property) = items.properties.get(key) else {
                let hint = did_you_mean(key, items.properties.keys().map(String::as_str));
                let message = format!("{} is not a property of the items{hint}", quote(key));
                self.findings.push(&path, Problem::Invalid, message);
                continue;
            };
            if matches!(property.type_, Some(Type::Object | Type::Array)) {
                let message = format!("{} cannot be a key: a key is a scalar", quote(key));
                self.findings.push(&path, Problem::Invalid, message);
            }
            if property.default.is_none() && !items.rules.required.contains(key) {
                let message = format!("{} must be required or have a default", quote(key));
                self.findings.push(&path, Problem::Invalid, message);
            }
        }
    }

    /// A default goes into objects unchecked later, so that it has to be right now.
    fn check_default(&mut self, at: At<'_>, schema: &Schema) {
        let Some(default) = &schema.default else { return };
        let path = at.path.field("default");
        let mut filled = default.clone();
        schema.fill_defaults(&mut filled);
        self.findings.extend(schema.validate(&filled, &path));
        self.findings.extend(schema.unknown_fields_at(default, &path));
    }
}
