//! What a copy of a node costs, and what a node takes in memory. Asked by the tree builder for each node and before
//! an alias is unfolded, and by readers before they copy ([`Node::weight`]).

use crate::node::{Key, Node, Value};

/// What an allocation takes at least, its rounding included.
const ALLOCATION: usize = 32;
/// A value of JSON where it lies: in a list, or in a leaf of a mapping.
const JSON: usize = 32;
/// A leaf of a mapping of JSON: it has room for eleven entries, and for half of them when it was split.
const JSON_LEAF: usize = 656;
const JSON_LEAF_ENTRIES: usize = 6;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    pub(crate) nodes: usize,
    pub(crate) bytes: usize,
    pub(crate) memory: usize,
    pub(crate) height: usize,
}

/// Recursive, and as deep as the tree is: the depth is bounded before anything is copied.
pub(crate) fn weigh(node: &Node) -> Weight {
    let bytes = node.raw().map_or(0, str::len);
    let mut all = Weight { nodes: 1, bytes, memory: memory_of(node), height: 0 };
    let mut add = |child: &Node, key: Option<&Key>| {
        let weight = weigh(child);
        all.nodes += weight.nodes;
        all.bytes += weight.bytes + key.map_or(0, |key| key.text.len());
        all.memory += weight.memory + key.map_or(0, memory_of_key);
        all.height = all.height.max(weight.height);
    };
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| add(item, None)),
        Value::Map(entries) => entries.iter().for_each(|(key, item)| add(item, Some(key))),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
            return all;
        }
    }
    all.height += 1;
    all
}

/// What a node takes without those within it, as it is and once more as JSON. An estimate: the allocator has
/// the last word, and the tests measure.
pub(crate) fn memory_of(node: &Node) -> usize {
    let own = size_of::<Node>() + JSON;
    own + match &node.value {
        Value::String(text) => 2 * (ALLOCATION + text.len()),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => ALLOCATION,
        Value::List(_) => 2 * ALLOCATION,
        Value::Map(entries) => {
            ALLOCATION + JSON_LEAF * entries.len().div_ceil(JSON_LEAF_ENTRIES).max(1)
        }
    }
}

pub(crate) fn memory_of_key(key: &Key) -> usize {
    size_of::<Key>() + 2 * (ALLOCATION + key.text.len())
}
