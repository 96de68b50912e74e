//! The end of a mapping: merge keys are taken in, duplicate keys are told, and so is a list entry
//! that became a key because the blank after its dash is missing. Called by the tree builder.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::{Key, Node, Span, Value};
use crate::problem::{Problem, Problems};

/// Up to so many keys are compared each with each, which is quicker than sorting them.
const FEW_KEYS: usize = 16;

/// The entries of a map without duplicates, with merge keys unfolded.
pub(crate) fn finish(entries: Vec<(Key, Node)>, problems: &mut Problems) -> Vec<(Key, Node)> {
    let is_odd = |(key, _): &(Key, Node)| is_merge(key) || is_entry_written_as_key(key);
    if !entries.iter().any(is_odd) && !has_twins(&entries) {
        return entries;
    }
    finish_odd(entries, problems)
}

/// Whether a key is there twice. Nearly every map goes through here.
fn has_twins(entries: &[(Key, Node)]) -> bool {
    if entries.len() <= FEW_KEYS {
        let mut before = entries.iter().enumerate();
        return before.any(|(index, (key, _))| {
            entries[..index].iter().any(|(twin, _)| twin.text == key.text)
        });
    }
    let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

fn is_merge(key: &Key) -> bool {
    key.text == "<<" && !key.is_quoted()
}

fn is_entry_written_as_key(key: &Key) -> bool {
    is_entry_without_blank(&key.text) && !key.is_quoted()
}

fn finish_odd(entries: Vec<(Key, Node)>, problems: &mut Problems) -> Vec<(Key, Node)> {
    let mut merges = Vec::new();
    let mut kept: Vec<(Key, Node)> = Vec::with_capacity(entries.len());
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    // Where list entries became keys, the rest of each entry is there again and again; that is told
    // by the missing blank.
    let was_a_list = entries.iter().any(|(key, _)| is_entry_written_as_key(key));
    for (key, node) in entries {
        if is_merge(&key) {
            merges.push((key, node));
            continue;
        }
        if is_entry_written_as_key(&key) {
            problems.push(missing_blank(&key));
            // Kept, so that a reader sees why it finds a mapping where a list should be.
            kept.push((key, node));
            continue;
        }
        match seen.get(&key.text) {
            Some(_) if was_a_list => (),
            Some(first) => problems.push(duplicate(&key, *first)),
            None => {
                seen.insert(key.text.clone(), key.span);
                kept.push((key, node));
            }
        }
    }
    merge(merges, &mut kept, problems);
    kept
}

/// `-name`: what becomes of `- name:` without the blank.
pub(crate) fn is_entry_without_blank(key: &str) -> bool {
    let mut letters = key.chars();
    letters.next() == Some('-') && letters.next().is_some_and(char::is_alphabetic)
}

pub(crate) fn missing_blank(key: &Key) -> Problem {
    let after_dash = Span::new(key.span.start + 1, key.span.start + 1);
    let message =
        format!("{:?} is read as a key, because a blank is missing after \"-\"", key.text);
    Problem::error("missing-blank", key.span, message)
        .expecting("a list entry, which begins with \"- \"")
        .mended_by(after_dash, " ")
}

fn duplicate(key: &Key, first: Span) -> Problem {
    Problem::error("duplicate-key", key.span, format!("the key {:?} is there twice", key.text))
        .expecting("each key once; remove or rename one of the two")
        .see(first, "first here")
}

/// Takes in the entries of every `<<` that the map does not have itself; of several maps the first
/// wins.
fn merge(merges: Vec<(Key, Node)>, kept: &mut Vec<(Key, Node)>, problems: &mut Problems) {
    if merges.is_empty() {
        return;
    }
    let mut present: BTreeSet<String> = kept.iter().map(|(key, _)| key.text.clone()).collect();
    for (at, source) in merges.into_iter().flat_map(sources) {
        let kind = source.kind();
        let Value::Map(entries) = source.value else {
            let message = format!("\"<<\" takes in mappings, found {kind}");
            let problem = Problem::error("merge-of-no-mapping", at, message);
            problems.push(problem.expecting("an alias of a mapping, such as *defaults"));
            continue;
        };
        for (key, node) in entries {
            if present.insert(key.text.clone()) {
                kept.push((key, node));
            }
        }
    }
}

/// What a `<<` takes in: one map, or a list of them.
fn sources((key, node): (Key, Node)) -> impl Iterator<Item = (Span, Node)> {
    let nodes = match node.value {
        Value::List(items) => items,
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Map(_) => vec![node],
    };
    nodes.into_iter().map(move |node| (key.span, node))
}
