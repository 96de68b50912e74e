//! What a copy of a node costs. Asked by the tree builder before an alias is unfolded, and by readers
//! before they copy ([`Node::weight`]).

use crate::node::{Node, Value};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    pub(crate) nodes: usize,
    pub(crate) bytes: usize,
    pub(crate) height: usize,
}

/// Recursive, and as deep as the tree is: the depth is bounded before anything is copied.
pub(crate) fn weigh(node: &Node) -> Weight {
    let mut all = Weight { nodes: 1, bytes: node.raw().map_or(0, str::len), height: 0 };
    let mut add = |child: &Node, key_bytes: usize| {
        let weight = weigh(child);
        all.nodes += weight.nodes;
        all.bytes += weight.bytes + key_bytes;
        all.height = all.height.max(weight.height);
    };
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| add(item, 0)),
        Value::Map(entries) => entries.iter().for_each(|(key, item)| add(item, key.text.len())),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
            return all;
        }
    }
    all.height += 1;
    all
}
