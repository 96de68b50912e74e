//! What a reader asks of a single value: to be a text, a number, a list, one of some words. Whatever it
//! is not, the diagnostic says so. See [`crate::fields`], where values come from.

use std::ops::RangeInclusive;

use tombolo_model::suggest;
use tombolo_yaml::{Key, Node, Span, Value};

use crate::fields::{Field, Fields, is_entry_without_blank};
use crate::path::{Path, shown};
use crate::reader::Reader;
use crate::{Diagnostic, NoteKind};

/// Of longer lists a message shows the beginning.
const LISTED_MAX: usize = 12;

impl<'a> Field<'a> {
    /// A whole document.
    pub(crate) fn document(node: &'a Node) -> Field<'a> {
        Field { node, path: Path::root(), key_span: node.span }
    }

    /// What stands at the end of a path of keys, without a word if there is nothing: for looking
    /// into what is carried over as a whole.
    pub(crate) fn look(&self, keys: &[&str]) -> Option<Field<'a>> {
        keys.iter().try_fold(self.clone(), |field, key| {
            let (key, node) = field.node.entry(key)?;
            Some(Field { node, path: field.path.key(&key.text), key_span: key.span })
        })
    }

    /// Counts a copy that is made because of this value; false once it is too much, which is told.
    pub(crate) fn may_copy(&self, bytes: usize, reader: &mut Reader<'_>) -> bool {
        reader.may_copy(bytes, &self.path, self.key_span)
    }

    /// [`Field::may_copy`] for a copy of `node`.
    pub(crate) fn may_copy_node(&self, node: &Node, reader: &mut Reader<'_>) -> bool {
        // To weigh it takes as long as to copy it.
        reader.copies_left() > 0 && self.may_copy(node.weight(), reader)
    }

    /// The entries of a list, none if it is no list; without a word, see [`Field::look`].
    pub(crate) fn look_through(&self) -> Vec<Field<'a>> {
        self.items(self.node.as_list().unwrap_or_default())
    }

    /// A text; a number or a truth value counts as what was written.
    pub(crate) fn text(&self, reader: &mut Reader<'_>) -> Option<String> {
        self.str(reader).map(str::to_owned)
    }

    /// [`Field::text`] without a copy.
    pub(crate) fn str(&self, reader: &mut Reader<'_>) -> Option<&'a str> {
        match self.node.raw() {
            Some(text) if !self.node.is_null() => Some(text),
            Some(_) | None => {
                self.wrong_kind(reader, "a text");
                None
            }
        }
    }

    pub(crate) fn number(&self, reader: &mut Reader<'_>) -> Option<f64> {
        let found = match &self.node.value {
            Value::Int(_) | Value::Float(_) | Value::String(_) => {
                self.node.raw().and_then(|text| text.replace('_', "").trim().parse::<f64>().ok())
            }
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => None,
        };
        let found = found.filter(|number| number.is_finite());
        if found.is_none() {
            self.wrong_kind(reader, "a number");
        }
        found
    }

    pub(crate) fn integer(
        &self,
        reader: &mut Reader<'_>,
        range: RangeInclusive<i64>,
    ) -> Option<i64> {
        let found = match &self.node.value {
            Value::Int(value) => Some(*value),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => None,
        };
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        match found {
            Some(value) if range.contains(&value) => Some(value),
            Some(value) => {
                let message = format!("{value} is out of range");
                self.error(reader, "out-of-range", message).expecting(expected);
                None
            }
            None => {
                self.wrong_kind(reader, &expected);
                None
            }
        }
    }

    /// A TCP or UDP port.
    pub(crate) fn port(&self, reader: &mut Reader<'_>) -> Option<u16> {
        self.integer(reader, 1..=65535).and_then(|port| u16::try_from(port).ok())
    }

    /// A count such as a number of replicas.
    pub(crate) fn count(&self, reader: &mut Reader<'_>, most: u32) -> Option<u32> {
        self.integer(reader, 0..=i64::from(most)).and_then(|count| u32::try_from(count).ok())
    }

    pub(crate) fn boolean(&self, reader: &mut Reader<'_>) -> Option<bool> {
        if let Value::Bool(value) = self.node.value {
            return Some(value);
        }
        let word = self.node.as_str().unwrap_or_default().to_lowercase();
        match word.as_str() {
            "true" => return Some(true),
            "false" => return Some(false),
            _ => (),
        }
        let meant = match word.as_str() {
            "yes" | "y" | "on" => Some("true"),
            "no" | "n" | "off" => Some("false"),
            _ => None,
        };
        let span = self.node.span;
        let diagnostic = self.wrong_kind(reader, "true or false");
        if let Some(meant) = meant {
            diagnostic.mended_by(span, meant);
        }
        None
    }

    /// The entries of a list; none, and an error, if it is no list.
    pub(crate) fn list(&self, reader: &mut Reader<'_>) -> Vec<Field<'a>> {
        match &self.node.value {
            Value::List(items) => self.items(items),
            Value::Null => Vec::new(),
            // The missing blank was told when the text was read.
            Value::Map(entries) if entries.iter().any(|(key, _)| is_entry_without_blank(key)) => {
                Vec::new()
            }
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) | Value::Map(_) => {
                self.wrong_kind(reader, "a list, each entry with \"- \" before it");
                Vec::new()
            }
        }
    }

    /// The first `most` entries, and an error if there are more: for lists whose entries are held
    /// against each other.
    pub(crate) fn at_most(
        &self,
        mut entries: Vec<Field<'a>>,
        most: usize,
        reader: &mut Reader<'_>,
    ) -> Vec<Field<'a>> {
        if let Some(first) = entries.get(most) {
            let message = format!("{} entries are too many", entries.len());
            reader
                .error("too-many", &first.path, first.key_span, message)
                .expecting(format!("{most} at most; from here on they are not read"));
            entries.truncate(most);
        }
        entries
    }

    /// The entries of a list, or the one value that stands in its place.
    pub(crate) fn list_or_one(&self, reader: &mut Reader<'_>) -> Vec<Field<'a>> {
        match self.node.is_scalar() && !self.node.is_null() {
            true => vec![self.clone()],
            false => self.list(reader),
        }
    }

    /// The entries of a list, or the one mapping that stands in its place.
    pub(crate) fn list_or_mapping(&self, reader: &mut Reader<'_>) -> Vec<Field<'a>> {
        match &self.node.value {
            Value::Map(entries) if !entries.iter().any(|(key, _)| is_entry_without_blank(key)) => {
                vec![self.clone()]
            }
            _ => self.list(reader),
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&self, reader: &mut Reader<'_>) -> Vec<String> {
        let items = self.list(reader);
        items.iter().filter_map(|item| item.text(reader)).collect()
    }

    /// A mapping to take apart; nothing, and an error, if it is none.
    pub(crate) fn fields(&self, reader: &mut Reader<'_>) -> Option<Fields<'a>> {
        let Value::Map(entries) = &self.node.value else {
            self.wrong_kind(reader, "a mapping (\"key: value\")");
            return None;
        };
        Some(Fields::new(entries, self.path.clone(), self.node.span))
    }

    /// One of several words; upper and lower case do not count.
    pub(crate) fn one_of<T: Clone>(
        &self,
        reader: &mut Reader<'_>,
        words: &[(&str, T)],
    ) -> Option<T> {
        let found = self.str(reader)?;
        let word = words
            .iter()
            .find(|(word, _)| *word == found)
            .or_else(|| words.iter().find(|(word, _)| word.eq_ignore_ascii_case(found)));
        if let Some((_, value)) = word {
            return Some(value.clone());
        }
        let names = || words.iter().map(|(word, _)| *word);
        let span = self.node.span;
        let diagnostic =
            self.error(reader, "unknown-word", format!("{} is not known here", shown(found)));
        diagnostic.expecting(suggest::one_of(names()));
        diagnostic.mended_by_nearest(span, found, names());
        None
    }

    /// Notes that an App cannot carry it.
    pub(crate) fn dropped(&self, reader: &mut Reader<'_>, why: &str) {
        reader.note(NoteKind::Dropped, &self.path, self.place(), why);
    }

    /// Notes that something was assumed about it.
    pub(crate) fn assumed(&self, reader: &mut Reader<'_>, what: &str) {
        reader.note(NoteKind::Assumed, &self.path, self.place(), what);
    }

    /// Notes that it is in the App in another form.
    pub(crate) fn changed(&self, reader: &mut Reader<'_>, how: &str) {
        reader.note(NoteKind::Changed, &self.path, self.place(), how);
    }

    /// An error about the value.
    pub(crate) fn error<'r>(
        &self,
        reader: &'r mut Reader<'_>,
        code: &'static str,
        message: impl Into<String>,
    ) -> &'r mut Diagnostic {
        reader.error(code, &self.path, self.node.span, message)
    }

    /// A warning about the value.
    pub(crate) fn warning<'r>(
        &self,
        reader: &'r mut Reader<'_>,
        code: &'static str,
        message: impl Into<String>,
    ) -> &'r mut Diagnostic {
        reader.warning(code, &self.path, self.node.span, message)
    }

    /// Says what part of the App comes from here.
    pub(crate) fn origin(&self, reader: &mut Reader<'_>, app_path: impl Into<String>) {
        reader.origin(app_path, self.node.span);
    }

    /// The text as the name of a component or policy, see [`Reader::label`].
    pub(crate) fn label(&self, reader: &mut Reader<'_>) -> Option<String> {
        let text = self.str(reader)?;
        reader.label(text, &self.path, self.node.span)
    }

    /// The text as the name of an object, see [`Reader::object_name`].
    pub(crate) fn object_name(&self, reader: &mut Reader<'_>) -> Option<String> {
        let text = self.str(reader)?;
        reader.object_name(text, &self.path, self.node.span)
    }

    /// The error that the value is of the wrong kind.
    pub(crate) fn wrong_kind<'r>(
        &self,
        reader: &'r mut Reader<'_>,
        expected: &str,
    ) -> &'r mut Diagnostic {
        let found = match self.node.raw() {
            Some(raw) if !self.node.is_null() => format!("{} {}", self.node.kind(), shown(raw)),
            Some(_) | None => self.node.kind().to_owned(),
        };
        let span = match self.node.is_null() {
            true => self.key_span,
            false => self.node.span,
        };
        let message = format!("found {found}");
        reader.error("wrong-kind", &self.path, span, message).expecting(expected)
    }

    fn items(&self, items: &'a [Node]) -> Vec<Field<'a>> {
        let entries = items.iter().enumerate();
        entries
            .map(|(index, node)| Field { node, path: self.path.index(index), key_span: node.span })
            .collect()
    }

    /// The warning that the format does not know a key.
    pub(crate) fn unknown<'r, 'n>(
        &self,
        key: &Key,
        known: impl Iterator<Item = &'n str> + Clone,
        reader: &'r mut Reader<'_>,
    ) -> &'r mut Diagnostic {
        let message = format!("unknown field {}", shown(&key.text));
        let diagnostic = reader.warning("unknown-field", &self.path, key.span, message);
        let count = known.clone().count();
        diagnostic.mended_by_nearest(key.span, &key.text, known.clone());
        match (count > LISTED_MAX, diagnostic.mend.is_some()) {
            (false, _) => {
                diagnostic.expecting(suggest::one_of(known));
            }
            // The mend says all that the author needs.
            (true, true) => (),
            (true, false) => {
                let first: Vec<String> =
                    known.take(LISTED_MAX).map(|name| format!("{name:?}")).collect();
                let more = count - LISTED_MAX;
                diagnostic.expecting(format!("{} or one of {more} more", first.join(", ")));
            }
        }
        diagnostic
    }

    /// Where a note points: the key, and the value if it is short.
    fn place(&self) -> Span {
        match self.node.is_scalar() {
            true => self.key_span.to(self.node.span),
            false => self.key_span,
        }
    }
}
