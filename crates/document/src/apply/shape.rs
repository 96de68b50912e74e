//! How owners share a value: what is one piece, what has parts, and how a part is named. The
//! walkers ([`extract`](super::extract), [`merge`](super::merge)) all ask here, so that they agree.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::schema::{Additional, ListKind, MapKind, Schema, Type};

use super::element::{Json, PathElement};
use super::fields::DEPTH_MAX;

/// What is known of a place. Copied along as a walker goes down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    kind: ShapeKind<'a>,
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
enum ShapeKind<'a> {
    /// The whole object: its metadata is the same for every kind, whatever the schema says.
    Root(&'a Schema),
    Inner(&'a Schema),
    /// Nothing is known: objects have parts, lists do not.
    Free,
}

/// A value as owners see it.
pub(super) enum Parts<'v, 'a> {
    /// One piece: a scalar, null, an atomic list or object, and anything empty.
    Whole,
    /// Never empty.
    Fields(&'v Map<String, Value>),
    /// A set, or a list whose items have keys. Never empty.
    Items(&'v [Value], Items<'a>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Items<'a> {
    list: &'a ListKind,
    pub(super) shape: Shape<'a>,
}

/// Whether the schema names a field, or a map happens to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    BySchema,
    ByObject,
}

impl<'a> Shape<'a> {
    pub(super) fn root(schema: &'a Schema) -> Shape<'a> {
        Shape { kind: ShapeKind::Root(schema), depth: 0 }
    }

    pub(super) fn parts<'v>(self, value: &'v Value) -> Parts<'v, 'a> {
        if self.depth >= DEPTH_MAX {
            return Parts::Whole;
        }
        match value {
            Value::Object(fields) if fields.is_empty() || self.is_atomic() => Parts::Whole,
            Value::Object(fields) => Parts::Fields(fields),
            Value::Array(items) if items.is_empty() => Parts::Whole,
            Value::Array(items) => match self.items() {
                Some(kind) => Parts::Items(items, kind),
                None => Parts::Whole,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Parts::Whole,
        }
    }

    pub(super) fn field(self, name: &str) -> (Shape<'a>, Named) {
        let free = (ShapeKind::Free, Named::ByObject);
        let (kind, named) = match self.kind {
            ShapeKind::Root(_) if name == "metadata" => {
                (ShapeKind::Inner(&METADATA), Named::BySchema)
            }
            ShapeKind::Root(_) if name == "apiVersion" || name == "kind" => {
                (ShapeKind::Free, Named::BySchema)
            }
            ShapeKind::Root(schema) | ShapeKind::Inner(schema) => {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => (ShapeKind::Inner(property), Named::BySchema),
                    (None, Additional::Each(each)) => (ShapeKind::Inner(each), Named::ByObject),
                    (None, Additional::Nothing | Additional::Anything) => free,
                }
            }
            ShapeKind::Free => free,
        };
        (Shape { kind, depth: self.depth + 1 }, named)
    }

    /// Whether null is a value here, and not a way to say nothing.
    pub(super) fn takes_null(self) -> bool {
        match self.kind {
            ShapeKind::Root(schema) | ShapeKind::Inner(schema) => schema.nullable,
            ShapeKind::Free => true,
        }
    }

    /// How the items of the list here are told apart; None for a list of one piece.
    pub(super) fn items(self) -> Option<Items<'a>> {
        let schema = match self.kind {
            ShapeKind::Root(schema) | ShapeKind::Inner(schema) => schema,
            ShapeKind::Free => return None,
        };
        let kind = match &schema.items {
            Some(items) => ShapeKind::Inner(items),
            None => ShapeKind::Free,
        };
        match &schema.list {
            ListKind::Atomic => None,
            list @ (ListKind::Set | ListKind::Map(_)) => {
                Some(Items { list, shape: Shape { kind, depth: self.depth + 1 } })
            }
        }
    }

    /// Whether an object here is one piece.
    pub(super) fn is_atomic(self) -> bool {
        match self.kind {
            ShapeKind::Root(_) | ShapeKind::Free => false,
            ShapeKind::Inner(schema) => schema.map_type == MapKind::Atomic,
        }
    }
}

impl Items<'_> {
    /// The step that leads to an item, or what the item lacks for it. A key field that is absent
    /// counts with its default.
    pub(super) fn element(&self, item: &Value) -> Result<PathElement, String> {
        let keys = match self.list {
            ListKind::Atomic | ListKind::Set => return Ok(PathElement::Value(Json::of(item))),
            ListKind::Map(keys) => keys,
        };
        let Value::Object(fields) = item else {
            return Err(format!("must be an object with {}", keys.join(", ")));
        };
        let mut element = BTreeMap::new();
        for key in keys {
            let value = match fields.get(key) {
                Some(Value::Null) | None => self.default_of(key),
                Some(value) => Some(value),
            };
            let Some(value) = value else {
                return Err(format!("must have {key}, which tells the items of this list apart"));
            };
            element.insert(key.clone(), Json::of(value));
        }
        Ok(PathElement::Key(element))
    }

    /// All items under their steps. An item that lacks its key, in an object that was stored
    /// before its schema asked for one, goes by its place.
    pub(super) fn index<'v>(
        &self,
        items: &'v [Value],
    ) -> (Vec<PathElement>, BTreeMap<PathElement, Vec<&'v Value>>) {
        let mut order = Vec::with_capacity(items.len());
        let mut index = BTreeMap::<PathElement, Vec<&Value>>::new();
        for (place, item) in items.iter().enumerate() {
            let element = match self.element(item) {
                Ok(element) => element,
                Err(_) => PathElement::Index(i64::try_from(place).unwrap_or(i64::MAX)),
            };
            order.push(element.clone());
            index.entry(element).or_default().push(item);
        }
        (order, index)
    }

    fn default_of(&self, key: &str) -> Option<&Value> {
        match self.shape.kind {
            ShapeKind::Root(schema) | ShapeKind::Inner(schema) => {
                schema.properties.get(key)?.default.as_ref()
            }
            ShapeKind::Free => None,
        }
    }
}

/// Metadata as every kind has it.
static METADATA: LazyLock<Schema> = LazyLock::new(|| {
    const SCALARS: [&str; 10] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    let text = || Schema { type_: Some(Type::String), ..Schema::default() };
    let map = || Schema {
        type_: Some(Type::Object),
        additional: Additional::Each(Box::new(text())),
        ..Schema::default()
    };
    let list = |list, items| Schema {
        type_: Some(Type::Array),
        list,
        items: Some(Box::new(items)),
        ..Schema::default()
    };
    let whole =
        || Schema { type_: Some(Type::Object), map_type: MapKind::Atomic, ..Schema::default() };

    let mut properties = SCALARS.map(|name| (name.to_owned(), text())).into_iter().collect();
    let rest: [(&str, Schema); 5] = [
        ("labels", map()),
        ("annotations", map()),
        ("finalizers", list(ListKind::Set, text())),
        ("ownerReferences", list(ListKind::Map(vec!["uid".to_owned()]), whole())),
        ("managedFields", list(ListKind::Atomic, whole())),
    ];
    BTreeMap::extend(&mut properties, rest.map(|(name, schema)| (name.to_owned(), schema)));
    Schema { type_: Some(Type::Object), properties, ..Schema::default() }
});
