//! The inverted index: for every value of every label, the series that have it, as sorted numbers.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::labels::Labels;
use crate::matcher::Matcher;

type Values = BTreeMap<Arc<str>, Vec<u32>>;

#[derive(Debug, Default)]
pub(crate) struct Postings {
    labels: BTreeMap<Arc<str>, Values>,
    all: Vec<u32>,
}

impl Postings {
    /// Numbers come in increasing order.
    pub(crate) fn add(&mut self, number: u32, labels: &Labels) {
        for (name, value) in labels.pairs() {
            let values = self.labels.entry(Arc::clone(name)).or_default();
            values.entry(Arc::clone(value)).or_default().push(number);
        }
        self.all.push(number);
    }

    pub(crate) fn retain(&mut self, lives: impl Fn(u32) -> bool) {
        self.all.retain(|number| lives(*number));
        self.labels.retain(|_, values| {
            values.retain(|_, numbers| {
                numbers.retain(|number| lives(*number));
                !numbers.is_empty()
            });
            !values.is_empty()
        });
    }

    /// The series that all matchers accept.
    pub(crate) fn select(&self, matchers: &[Matcher]) -> Vec<u32> {
        let mut wanted: Vec<Vec<u32>> = Vec::new();
        let mut unwanted: Vec<Vec<u32>> = Vec::new();
        for matcher in matchers {
            if matcher.matches("") {
                // Accepts series without the label: those go that have it and are not accepted.
                unwanted.push(self.with_value(matcher, |value| !matcher.matches(value)));
            } else if let Some(words) = matcher.words() {
                wanted.push(self.with_words(&matcher.name, &words));
            } else {
                wanted.push(self.with_value(matcher, |value| matcher.matches(value)));
            }
        }
        // The shortest list bounds all that follows.
        wanted.sort_by_key(Vec::len);
        let mut wanted = wanted.into_iter();
        let mut chosen = wanted.next().unwrap_or_else(|| self.all.clone());
        for list in wanted {
            chosen.retain(|number| list.binary_search(number).is_ok());
        }
        for list in unwanted {
            chosen.retain(|number| list.binary_search(number).is_err());
        }
        chosen
    }

    fn with_words(&self, name: &str, words: &[&str]) -> Vec<u32> {
        let Some(values) = self.labels.get(name) else { return Vec::new() };
        merge(words.iter().filter_map(|word| values.get(*word)))
    }

    fn with_value(&self, matcher: &Matcher, accepts: impl Fn(&str) -> bool) -> Vec<u32> {
        let Some(values) = self.labels.get(&matcher.name) else { return Vec::new() };
        let prefix = matcher.prefix();
        let range = values.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let near = range.take_while(|(value, _)| value.starts_with(prefix));
        merge(near.filter(|(value, _)| accepts(value)).map(|(_, numbers)| numbers))
    }

    /// Values of each name, and how many series have them.
    pub(crate) fn counts(&self) -> BTreeMap<&str, Vec<(&str, usize)>> {
        let counted = |values| Values::iter(values).map(|(value, all)| (&**value, all.len()));
        self.labels.iter().map(|(name, values)| (&**name, counted(values).collect())).collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.labels.keys()
    }

    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &Arc<str>> {
        self.labels.get(name).into_iter().flat_map(BTreeMap::keys)
    }
}

fn merge<'a>(lists: impl Iterator<Item = &'a Vec<u32>>) -> Vec<u32> {
    let mut merged: Vec<u32> = Vec::new();
    let mut count = 0;
    for list in lists {
        merged.extend_from_slice(list);
        count += 1;
    }
    if count > 1 {
        // A series has one value of a label, so that no number comes twice.
        merged.sort_unstable();
    }
    merged
}
