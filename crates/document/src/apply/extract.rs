//! Which places an object has, and which differ between two objects. [`managed`](super::managed)
//! makes owners of the answers.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::schema::Schema;

use super::element::{PathElement, same};
use super::fields::{FieldSet, Owned};
use super::shape::{Items, Named, Parts, Shape};

/// The places that an author of `object` speaks for: its leaves, the items of its sets and keyed
/// lists, and the keys that only the object names. What the server itself fills in is left out.
pub fn fields(object: &Value, schema: &Schema) -> FieldSet {
    below(object, Shape::root(schema), Inner::Skipped).difference(&NOBODYS)
}

/// What has to happen to one object to make another of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub added: FieldSet,
    /// Leaves that are in both, with different values.
    pub modified: FieldSet,
    pub removed: FieldSet,
}

/// Compares, and leaves out what the server itself fills in. A whole part that is new or gone is
/// named with everything in it, the branches too.
pub fn compare(old: &Value, new: &Value, schema: &Schema) -> Comparison {
    let delta = differ(old, new, Shape::root(schema));
    Comparison {
        added: delta.below.added.difference(&NOBODYS),
        modified: delta.below.modified.difference(&NOBODYS),
        removed: delta.below.removed.difference(&NOBODYS),
    }
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// What nobody owns, since it is the object's identity or the server's own bookkeeping.
static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::from([
        &["apiVersion"] as &[&str],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "generateName"],
        &["metadata", "namespace"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "resourceVersion"],
        &["metadata", "generation"],
        &["metadata", "creationTimestamp"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "managedFields"],
    ])
});

/// Whether a branch that the schema names is a place of its own. To own what is in `spec` is not
/// to own `spec`; but when `spec` appears or goes, it is part of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inner {
    Skipped,
    Counted,
}

/// The places inside `value`.
fn below(value: &Value, shape: Shape<'_>, inner: Inner) -> FieldSet {
    let mut set = FieldSet::default();
    match shape.parts(value) {
        Parts::Whole => (),
        Parts::Fields(fields) => {
            for (name, value) in fields {
                let (shape, named) = shape.field(name);
                let whole = matches!(shape.parts(value), Parts::Whole);
                let owned = match whole || named == Named::ByObject || inner == Inner::Counted {
                    true => Owned::Itself,
                    false => Owned::OnlyBelow,
                };
                set.graft(PathElement::field(name), owned, below(value, shape, inner));
            }
        }
        Parts::Items(values, items) => {
            for (element, values) in items.index(values).1 {
                // Items that cannot be told apart are one place.
                let below = match values.as_slice() {
                    [value] => below(value, items.shape, inner),
                    _ => FieldSet::default(),
                };
                set.graft(element, Owned::Itself, below);
            }
        }
    }
    set
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Removed,
}

/// What happened to a place, and inside it.
#[derive(Debug, Default)]
struct Delta {
    itself: Option<Change>,
    below: Comparison,
}

fn differ(old: &Value, new: &Value, shape: Shape<'_>) -> Delta {
    match (shape.parts(old), shape.parts(new)) {
        (Parts::Whole, Parts::Whole) => {
            Delta { itself: (!same(old, new)).then_some(Change::Modified), ..Delta::default() }
        }
        (Parts::Fields(old), Parts::Fields(new)) => {
            Delta { itself: None, below: differ_fields(old, new, shape) }
        }
        (Parts::Items(old, items), Parts::Items(new, _)) => {
            Delta { itself: None, below: differ_items(old, new, items) }
        }
        (Parts::Whole | Parts::Fields(_) | Parts::Items(..), _) => {
            // From empty to full, or back, is about what is inside. Otherwise one thing took the
            // place of another.
            let itself = (!is_nothing(old) && !is_nothing(new)).then_some(Change::Modified);
            let added = below(new, shape, Inner::Counted);
            let removed = below(old, shape, Inner::Counted);
            Delta { itself, below: Comparison { added, removed, ..Comparison::default() } }
        }
    }
}

fn appears(new: &Value, shape: Shape<'_>) -> Delta {
    let added = below(new, shape, Inner::Counted);
    Delta { itself: Some(Change::Added), below: Comparison { added, ..Comparison::default() } }
}

fn goes(old: &Value, shape: Shape<'_>) -> Delta {
    let removed = below(old, shape, Inner::Counted);
    Delta { itself: Some(Change::Removed), below: Comparison { removed, ..Comparison::default() } }
}

fn differ_fields(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    shape: Shape<'_>,
) -> Comparison {
    let mut comparison = Comparison::default();
    for (name, new) in new {
        let delta = match old.get(name) {
            Some(old) => differ(old, new, shape.field(name).0),
            None => appears(new, shape.field(name).0),
        };
        comparison.graft(PathElement::field(name), delta);
    }
    for (name, old) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        comparison.graft(PathElement::field(name), goes(old, shape.field(name).0));
    }
    comparison
}

fn differ_items(old: &[Value], new: &[Value], items: Items<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    let (_, old) = items.index(old);
    let (_, new) = items.index(new);
    let elements = old.keys().chain(new.keys()).collect::<BTreeSet<_>>();
    for element in elements {
        let old = old.get(element).map_or(&[] as &[&Value], Vec::as_slice);
        let new = new.get(element).map_or(&[] as &[&Value], Vec::as_slice);
        let delta = match (old, new) {
            ([old], [new]) => differ(old, new, items.shape),
            ([], [new]) => appears(new, items.shape),
            ([old], []) => goes(old, items.shape),
            (old, new) => differ_repeated(old, new, items.shape),
        };
        comparison.graft(element.clone(), delta);
    }
    comparison
}

/// Items that cannot be told apart, on one side at least: they are one place.
fn differ_repeated(old: &[&Value], new: &[&Value], shape: Shape<'_>) -> Delta {
    let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
    let itself = match (old, new) {
        _ if equal => None,
        ([], _) => Some(Change::Added),
        (_, []) => Some(Change::Removed),
        (_, _) => Some(Change::Modified),
    };
    let mut delta = Delta { itself, ..Delta::default() };
    if let [old] = old {
        delta.below.removed = below(old, shape, Inner::Counted);
    }
    if let [new] = new {
        delta.below.added = below(new, shape, Inner::Counted);
    }
    delta
}

impl Comparison {
    fn graft(&mut self, element: PathElement, delta: Delta) {
        let owned = |change| match delta.itself == Some(change) {
            true => Owned::Itself,
            false => Owned::OnlyBelow,
        };
        let Comparison { added, modified, removed } = delta.below;
        self.added.graft(element.clone(), owned(Change::Added), added);
        self.modified.graft(element.clone(), owned(Change::Modified), modified);
        self.removed.graft(element, owned(Change::Removed), removed);
    }
}

/// Null, or an object or a list without content.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests;
