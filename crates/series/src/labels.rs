//! What tells one series from another: its labels, sorted by name. Start at [`Labels`].

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::hash::xxh64;

/// The label that holds the name of the metric.
pub const NAME: &str = "__name__";

/// A name and a value. Strings are shared between series, see [`Symbols`].
pub type Pair = (Arc<str>, Arc<str>);

/// The identity of a series. No name occurs twice, and no value is empty: an empty label is one that is
/// not there.
#[derive(Clone)]
pub struct Labels {
    /// Of the contents, so that a lookup does not read the strings.
    hash: u64,
    pairs: Arc<[Pair]>,
}

impl Labels {
    pub fn empty() -> Self {
        Self::from_sorted(Vec::new())
    }

    /// Of a name that occurs twice, the last one counts.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self::from_pairs(
            pairs
                .into_iter()
                .map(|(n, v)| (Arc::from(n.as_ref()), Arc::from(v.as_ref())))
                .collect(),
        )
    }

    pub fn from_pairs(mut pairs: Vec<Pair>) -> Self {
        // Stable, so that the last one of equal names stays the last.
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let mut kept: Vec<Pair> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match kept.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                Some(_) | None => kept.push(pair),
            }
        }
        kept.retain(|(_, value)| !value.is_empty());
        Self::from_sorted(kept)
    }

    fn from_sorted(pairs: Vec<Pair>) -> Self {
        Self { hash: hash_of(&pairs), pairs: pairs.into() }
    }

    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (&**name, &**value))
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Empty when there is no such label.
    pub fn get(&self, name: &str) -> &str {
        // A dozen labels are searched faster from the front than by halves.
        self.pairs.iter().find(|(n, _)| **n == *name).map_or("", |(_, value)| value)
    }

    /// XXH64 over the labels as Prometheus lays them out in memory: `limit_ratio` chooses by it, and
    /// two engines that are asked the same then choose the same.
    pub fn hash64(&self) -> u64 {
        self.hash
    }

    /// These labels without those that `drop` names.
    pub fn without(&self, drop: impl Fn(&str) -> bool) -> Self {
        if !self.pairs.iter().any(|(name, _)| drop(name)) {
            return self.clone();
        }
        Self::from_sorted(self.pairs.iter().filter(|(name, _)| !drop(name)).cloned().collect())
    }

    /// What a calculation makes of the labels: it is no longer the metric that it was, nor of its
    /// type or unit.
    pub fn without_name(&self) -> Self {
        self.without(|name| matches!(name, NAME | "__type__" | "__unit__"))
    }

    /// With one label set, or removed when the value is empty.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut pairs = self.pairs.to_vec();
        match pairs.binary_search_by(|pair| (*pair.0).cmp(name)) {
            Ok(at) if value.is_empty() => {
                pairs.remove(at);
            }
            Ok(at) => pairs[at].1 = Arc::from(value),
            Err(_) if value.is_empty() => return self.clone(),
            Err(at) => pairs.insert(at, (Arc::from(name), Arc::from(value))),
        }
        Self::from_sorted(pairs)
    }
}

fn hash_of(pairs: &[Pair]) -> u64 {
    let mut bytes = Vec::with_capacity(pairs.iter().map(|(n, v)| n.len() + v.len() + 2).sum());
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        match u8::try_from(text.len()) {
            Ok(length) if length < 255 => bytes.push(length),
            Ok(_) | Err(_) => {
                let length = text.len().to_le_bytes();
                bytes.extend_from_slice(&[255, length[0], length[1], length[2]]);
            }
        }
        bytes.extend_from_slice(text.as_bytes());
    }
    xxh64(&bytes)
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && (Arc::ptr_eq(&self.pairs, &other.pairs) || self.pairs == other.pairs)
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// By name, then value, label by label: the order in which PromQL lists series.
impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        self.pairs.cmp(&other.pairs)
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As messages of PromQL write it: `{__name__="up", job="a"}`.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (number, (name, value)) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            if is_plain_name(name) {
                write!(f, "{comma}{name}={value:?}")?;
            } else {
                write!(f, "{comma}{name:?}={value:?}")?;
            }
        }
        f.write_str("}")
    }
}

/// Whether a label needs no quotes in PromQL.
pub fn is_plain_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Every string once: a thousand series of one job share the word `job` and its value.
#[derive(Debug, Default)]
pub struct Symbols(HashSet<Arc<str>>);

impl Symbols {
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let symbol: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&symbol));
        symbol
    }

    pub fn intern_all(&mut self, labels: &Labels) -> Labels {
        let pairs = labels.iter().map(|(n, v)| (self.intern(n), self.intern(v))).collect();
        Labels { hash: labels.hash, pairs }
    }

    /// Forgets strings that nobody holds any more.
    pub fn sweep(&mut self) {
        self.0.retain(|symbol| Arc::strong_count(symbol) > 1);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_empty_ones_are_not_there() {
        let labels = Labels::new([("b", "2"), ("a", "1"), ("c", ""), ("a", "3")]);
        assert_eq!(labels.to_string(), r#"{a="3", b="2"}"#);
        assert_eq!(labels.get("c"), "");
        assert_eq!(labels.with("b", "").with("c", "x").to_string(), r#"{a="3", c="x"}"#);
    }

    #[test]
    fn interned_labels_are_the_same_labels() {
        let mut symbols = Symbols::default();
        let labels = Labels::new([("a", "1"), ("b", "1")]);
        let interned = symbols.intern_all(&labels);
        assert_eq!(interned, labels);
        assert_eq!(symbols.len(), 3);
        drop(interned);
        symbols.sweep();
        assert!(symbols.is_empty());
    }
}
