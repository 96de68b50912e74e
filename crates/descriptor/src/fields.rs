//! How a reader takes a mapping apart: it takes the keys that it knows, one by one, and at the end
//! whatever is left is told. So no key can get lost in silence. Every format's reader works with
//! [`Fields`] and [`Field`]; what a single value can be asked is in `field.rs`, quantities in
//! `quantity.rs`.

use tombolo_yaml::{Key, Node, Span};

use crate::Diagnostic;
use crate::path::Path;
use crate::reader::Reader;

/// The keys of one mapping, of which some are taken already.
#[must_use = "call finish, so that the keys that were not taken are told"]
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    entries: &'a [(Key, Node)],
    taken: Vec<bool>,
    path: Path<'a>,
    span: Span,
}

/// One value, the way to it, and where its key stands.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: Path<'a>,
    /// Of the key; of the value itself in a list.
    pub(crate) key_span: Span,
}

/// What happens to the keys that nobody took.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rest<'r> {
    /// Notes, all with this reason.
    Dropped(&'r str),
    /// For the formats of others. `known`: keys that are taken somewhere, for a "did you mean".
    /// `dropped`: keys that the format knows and an App cannot carry, with the reason. Any other
    /// key is warned about and dropped.
    Foreign { known: &'r [&'r str], dropped: &'r [(&'r str, &'r str)] },
}

impl<'a> Fields<'a> {
    pub(crate) fn new(entries: &'a [(Key, Node)], path: Path<'a>, span: Span) -> Fields<'a> {
        Fields { entries, taken: vec![false; entries.len()], path, span }
    }

    /// The value of a key, if it is there and not null.
    pub(crate) fn take(&mut self, key: &str) -> Option<Field<'a>> {
        self.take_even_null(key).filter(|field| !field.node.is_null())
    }

    /// The value of a key, for the few that mean something without one.
    pub(crate) fn take_even_null(&mut self, key: &str) -> Option<Field<'a>> {
        let index = self.entries.iter().position(|(found, _)| found.text == key)?;
        self.taken[index] = true;
        Some(self.field(index))
    }

    /// The value of a key that goes by several names; the first one that is there. The others are
    /// left for [`Fields::finish`].
    pub(crate) fn take_any(&mut self, keys: &[&str]) -> Option<Field<'a>> {
        keys.iter().find_map(|key| self.take(key))
    }

    /// Like [`Fields::take`], and an error if there is none. `what` says what it would be.
    pub(crate) fn need(
        &mut self,
        key: &str,
        reader: &mut Reader<'_>,
        what: &str,
    ) -> Option<Field<'a>> {
        let found = self.take(key);
        if found.is_none() {
            self.missing(reader, key, what);
        }
        found
    }

    /// The error that a key is missing.
    pub(crate) fn missing<'r>(
        &self,
        reader: &'r mut Reader<'_>,
        key: &str,
        what: &str,
    ) -> &'r mut Diagnostic {
        let message = format!("{key:?} is missing");
        if self.has_entries_as_keys(key) {
            let told = Diagnostic::error("missing-field", self.place(), message);
            return reader.forget(told);
        }
        reader.error("missing-field", &self.path, self.place(), message).expecting(what)
    }

    /// The same as a warning, for keys that published files leave out.
    pub(crate) fn warn_missing(&self, reader: &mut Reader<'_>, key: &str, what: &str) {
        let message = format!("{key:?} is missing");
        reader.warning("missing-field", &self.path, self.place(), message).expecting(what);
    }

    /// Whether `key` is empty because the list below it lost its blanks (`-name: x`) and became
    /// keys beside it, which has been told.
    fn has_entries_as_keys(&self, key: &str) -> bool {
        let place =
            self.entries.iter().position(|(found, node)| found.text == key && node.is_null());
        let next = place.and_then(|place| self.entries.get(place + 1));
        next.is_some_and(|(found, _)| is_entry_without_blank(found))
    }

    /// The value of a key without taking it.
    pub(crate) fn peek(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(found, _)| found.text == key).map(|(_, node)| node)
    }

    /// All keys that nobody took yet, for mappings whose keys are data; null values included.
    pub(crate) fn entries(mut self) -> Vec<(&'a Key, Field<'a>)> {
        self.take_rest()
    }

    /// Like [`Fields::entries`], for a mapping of which some keys are known.
    pub(crate) fn take_rest(&mut self) -> Vec<(&'a Key, Field<'a>)> {
        let entries = self.entries;
        let left = (0..entries.len()).filter(|index| !self.taken[*index]).collect::<Vec<_>>();
        let fields = left.iter().map(|index| (&entries[*index].0, self.field(*index))).collect();
        self.taken.fill(true);
        fields
    }

    /// The values of all keys that begin like this, as far as they are not null.
    pub(crate) fn take_prefixed(&mut self, prefix: &str) -> Vec<Field<'a>> {
        let mut found = Vec::new();
        for (index, (key, node)) in self.entries.iter().enumerate() {
            if !key.text.starts_with(prefix) {
                continue;
            }
            self.taken[index] = true;
            if !node.is_null() {
                found.push(self.field(index));
            }
        }
        found
    }

    pub(crate) fn path(&self) -> &Path<'a> {
        &self.path
    }

    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// Tells about every key that nobody took.
    pub(crate) fn finish(mut self, rest: Rest<'_>, reader: &mut Reader<'_>) {
        for (key, field) in self.take_rest() {
            // Such a key was told when the text was read.
            if is_entry_without_blank(key) {
                continue;
            }
            match rest {
                Rest::Dropped(why) => field.dropped(reader, why),
                Rest::Foreign { known, dropped } => {
                    if let Some((_, why)) = dropped.iter().find(|(name, _)| *name == key.text) {
                        field.dropped(reader, why);
                        continue;
                    }
                    let names = known.iter().copied().chain(dropped.iter().map(|(name, _)| *name));
                    field.unknown(key, names, reader);
                    field.dropped(reader, "the format does not know this key");
                }
            }
        }
    }

    fn field(&self, index: usize) -> Field<'a> {
        let (key, node) = &self.entries[index];
        Field { node, path: self.path.key(&key.text), key_span: key.span }
    }

    /// Where a message about the mapping as a whole points: its first key.
    fn place(&self) -> Span {
        self.entries.first().map_or(self.span, |(key, _)| key.span)
    }
}

pub(crate) fn is_entry_without_blank(key: &Key) -> bool {
    let mut letters = key.text.chars();
    letters.next() == Some('-') && letters.next().is_some_and(char::is_alphabetic)
}
