//! [`FieldSet`]: which places of an object somebody owns, and its JSON form FieldsV1.
//! Everything else in [`apply`](super) works with these sets; nothing here knows schemas.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::element::{ElementError, PathElement};
use crate::patch::type_name;

/// No set goes deeper. What lies below is owned as one with its ancestor at this depth, because
/// the set is stored inside the object, some levels down, and an object of more than 128 levels
/// cannot be read back.
pub const DEPTH_MAX: usize = 64;

/// A set of places in an object, as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

/// A place that is in the set, or that has something below it which is. Never neither: the two
/// ways to write the same set would not be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    owned: bool,
    below: FieldSet,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    #[error("fieldsV1 at {path:?}: expected an object, found {found}")]
    NotAnObject { path: String, found: &'static str },
    #[error("fieldsV1 at {path:?}")]
    Element { path: String, source: ElementError },
    #[error("fieldsV1 is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

impl FieldSet {
    /// Reads the FieldsV1 form. `{}` below a step says that the place itself is in the set, as
    /// does `".": {}` beside others.
    pub fn from_fields_v1(fields: &Value) -> Result<FieldSet, FieldsError> {
        let node = read(fields, &mut Vec::new())?;
        Ok(node.below)
    }

    pub fn to_fields_v1(&self) -> Value {
        let fields = self.nodes.iter().map(|(element, node)| {
            let mut below = node.below.to_fields_v1();
            if let (true, false, Value::Object(below)) =
                (node.owned, node.below.is_empty(), &mut below)
            {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.to_fields_v1(), below)
        });
        Value::Object(fields.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the place at the end of `path`. The empty path is the object itself, which nobody
    /// owns: it adds nothing.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, ancestors)) = path.split_last() else { return };
        let mut set = self;
        for element in ancestors {
            set = &mut set.nodes.entry(element.clone()).or_default().below;
        }
        set.nodes.entry(last.clone()).or_default().owned = true;
    }

    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, ancestors)) = path.split_last() else { return false };
        let mut set = self;
        for element in ancestors {
            let Some(node) = set.nodes.get(element) else { return false };
            set = &node.below;
        }
        set.owns(last)
    }

    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = self.nodes.clone();
        for (element, theirs) in &other.nodes {
            let ours = nodes.entry(element.clone()).or_default();
            ours.owned |= theirs.owned;
            ours.below = match ours.below.is_empty() {
                true => theirs.below.clone(),
                false => ours.below.union(&theirs.below),
            };
        }
        FieldSet { nodes }
    }

    /// What is in `self` and not in `other`, place by place: to take away a place leaves what is
    /// below it.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |ours, theirs| match theirs {
            None => ours.clone(),
            Some(theirs) => Node {
                owned: ours.owned && !theirs.owned,
                below: ours.below.difference(&theirs.below),
            },
        })
    }

    /// What is in `self` and neither in `other` nor below anything in `other`.
    pub fn difference_with_below(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |ours, theirs| match theirs {
            None => ours.clone(),
            Some(theirs) if theirs.owned => Node::default(),
            Some(theirs) => {
                Node { owned: ours.owned, below: ours.below.difference_with_below(&theirs.below) }
            }
        })
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |ours, theirs| match theirs {
            None => Node::default(),
            Some(theirs) => Node {
                owned: ours.owned && theirs.owned,
                below: ours.below.intersection(&theirs.below),
            },
        })
    }

    /// Every place in the set, as a person reads it: `.spec.components[name="web"].replicas`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    /// Whether the set has this place itself.
    pub(super) fn owns(&self, element: &PathElement) -> bool {
        self.nodes.get(element).is_some_and(|node| node.owned)
    }

    /// Whether the set has this place or anything below it.
    pub(super) fn reaches(&self, element: &PathElement) -> bool {
        self.nodes.contains_key(element)
    }

    /// What the set has below this place.
    pub(super) fn below(&self, element: &PathElement) -> &FieldSet {
        static EMPTY: FieldSet = FieldSet { nodes: BTreeMap::new() };
        self.nodes.get(element).map_or(&EMPTY, |node| &node.below)
    }

    /// The places at the top: each step, whether the set has the place itself, and what is below.
    pub(super) fn top(&self) -> impl Iterator<Item = (&PathElement, Owned, &FieldSet)> {
        self.nodes.iter().map(|(element, node)| {
            let owned = match node.owned {
                true => Owned::Itself,
                false => Owned::OnlyBelow,
            };
            (element, owned, &node.below)
        })
    }

    /// Adds a place together with what is below it. Nothing to add leaves no trace.
    pub(super) fn graft(&mut self, element: PathElement, owned: Owned, below: FieldSet) {
        let owned = owned == Owned::Itself;
        if owned || !below.is_empty() {
            self.nodes.insert(element, Node { owned, below });
        }
    }

    fn combine(&self, other: &FieldSet, decide: impl Fn(&Node, Option<&Node>) -> Node) -> FieldSet {
        let nodes = self.nodes.iter().filter_map(|(element, ours)| {
            let node = decide(ours, other.nodes.get(element));
            (node.owned || !node.below.is_empty()).then(|| (element.clone(), node))
        });
        FieldSet { nodes: nodes.collect() }
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        for (element, node) in &self.nodes {
            let path = format!("{prefix}{element}");
            if node.owned {
                paths.push(path.clone());
            }
            node.below.collect_paths(&path, paths);
        }
    }
}

/// Whether a place that is grafted is in the set, or only what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    Itself,
    OnlyBelow,
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.paths().iter().try_for_each(|path| writeln!(f, "{path}"))
    }
}

impl<const PATHS: usize> From<[&[&str]; PATHS]> for FieldSet {
    fn from(paths: [&[&str]; PATHS]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(*name)).collect::<Vec<_>>());
        }
        set
    }
}

fn read(fields: &Value, path: &mut Vec<String>) -> Result<Node, FieldsError> {
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Node { owned: true, below: FieldSet::default() }),
        other => {
            return Err(FieldsError::NotAnObject { path: path.join("/"), found: type_name(other) });
        }
    };
    if path.len() > DEPTH_MAX {
        return Err(FieldsError::TooDeep);
    }
    let mut node = Node::default();
    for (key, value) in fields {
        if key == "." {
            node.owned = true;
            continue;
        }
        let element = PathElement::parse(key)
            .map_err(|source| FieldsError::Element { path: path.join("/"), source })?;
        let Some(element) = element else { continue };
        path.push(key.clone());
        let child = read(value, path)?;
        path.pop();
        // Two spellings of one place ("v:1" and "v:1.0") are both meant.
        let place = node.below.nodes.entry(element).or_default();
        place.owned |= child.owned;
        place.below = place.below.union(&child.below);
    }
    node.owned |= node.below.is_empty();
    Ok(node)
}

#[cfg(test)]
mod tests;
