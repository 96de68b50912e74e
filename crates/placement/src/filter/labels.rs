//! Which nodes have which value of a label. Somebody may want one instance for each of a hundred
//! values; the nodes are gone through once for each label, not for each value.

use std::collections::BTreeMap;

use super::look;
use crate::bits::Bits;
use crate::continuum::Continuum;

/// By label and value, as far as anyone has asked.
#[derive(Debug, Default)]
pub(super) struct Labels<'a> {
    nodes: BTreeMap<String, BTreeMap<&'a str, Vec<u32>>>,
}

impl<'a> Labels<'a> {
    pub(super) fn met(&mut self, continuum: &Continuum<'a>, (key, value): (&str, &str)) -> Bits {
        if !self.nodes.contains_key(key) {
            self.nodes.insert(key.to_owned(), by_value(continuum, key));
        }
        let mut met = Bits::none(continuum.nodes.len());
        let nodes = self.nodes.get(key).and_then(|values| values.get(value));
        nodes.into_iter().flatten().for_each(|node| met.insert(*node));
        met
    }
}

fn by_value<'a>(continuum: &Continuum<'a>, key: &str) -> BTreeMap<&'a str, Vec<u32>> {
    let objects = continuum.nodes.iter().map(|row| std::ptr::from_ref(row.object).addr());
    // In the order in which they lie in memory, which is several times quicker.
    let mut order: Vec<(usize, u32)> = objects.zip(0u32..).collect();
    order.sort_unstable();
    let mut found: BTreeMap<&'a str, Vec<u32>> = BTreeMap::new();
    for (_, node) in order {
        if let Some(value) = look::label(continuum, node, key) {
            found.entry(value).or_default().push(node);
        }
    }
    found
}
