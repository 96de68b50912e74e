//! What a reader of a format has with it: where its notes and diagnostics go, the files that the
//! text names, and the origins of what it puts into an App. Handed to every reader as `&mut`.

use std::collections::BTreeMap;

use tombolo_model::App;
use tombolo_yaml::{Severity, Span};

use crate::path::{Path, shown};
use crate::{Diagnostic, Files, Folder, Format, Note, NoteKind, Reading};

/// Errors, and as many warnings: more would help nobody, and a text can be made of mistakes only.
const DIAGNOSTICS_MAX: usize = 100;
/// Notes must be complete for any text that people write; this bounds those that nobody does.
const NOTES_MAX: usize = 10_000;
/// What a text says once and uses often: all that is copied of it together. A text itself is at most a
/// quarter of this, so that only the second and third use of something large can be too much.
const COPIED_BYTES_MAX: usize = 32 << 20;

pub(crate) struct Reader<'a> {
    files: &'a dyn Files,
    /// The name of the text: of a file, as it was given.
    source: &'a str,
    /// Where each text begins, if there are several.
    texts: Vec<u32>,
    /// Profiles of compose files that are asked for.
    pub(crate) profiles: Vec<String>,
    notes: Vec<Note>,
    notes_left_out: usize,
    diagnostics: Vec<Diagnostic>,
    errors: Count,
    warnings: Count,
    /// Where diagnostics go that are not told.
    scratch: Diagnostic,
    others: Vec<serde_json::Value>,
    /// Place in an App (its number and the path within) → place in the text.
    origins: BTreeMap<(usize, String), Span>,
    app: usize,
    /// How much may still be copied; nothing once too much was asked for.
    copies_left: Option<usize>,
}

/// How many diagnostics of one severity there are.
#[derive(Debug, Default)]
struct Count {
    told: usize,
    left_out: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: &'a str, files: &'a dyn Files) -> Reader<'a> {
        Reader {
            files,
            source,
            texts: Vec::new(),
            profiles: Vec::new(),
            notes: Vec::new(),
            notes_left_out: 0,
            diagnostics: Vec::new(),
            errors: Count::default(),
            warnings: Count::default(),
            scratch: Diagnostic::error(Diagnostic::UNTOLD, Span::default(), ""),
            others: Vec::new(),
            origins: BTreeMap::new(),
            app: 0,
            copies_left: Some(COPIED_BYTES_MAX),
        }
    }

    /// How many bytes may still be copied.
    pub(crate) fn copies_left(&self) -> usize {
        self.copies_left.unwrap_or(0)
    }

    /// Counts a copy, and answers whether it may be made: a text of a few kilobytes must not become
    /// an App of gigabytes. Where it becomes too much is told, once. Called through
    /// [`Field::may_copy`].
    ///
    /// [`Field::may_copy`]: crate::fields::Field::may_copy
    pub(crate) fn may_copy(&mut self, bytes: usize, path: &Path<'_>, span: Span) -> bool {
        let Some(left) = self.copies_left else { return false };
        self.copies_left = left.checked_sub(bytes);
        if self.copies_left.is_none() {
            let message = "the text uses what it says once so often that it becomes too large";
            let most = COPIED_BYTES_MAX >> 20;
            self.error("too-large", path, span, message)
                .expecting(format!("less than {most} MiB with all that is copied"));
        }
        self.copies_left.is_some()
    }

    /// The contents of a file that the text names, if the caller has it.
    pub(crate) fn file(&self, path: &str) -> Option<String> {
        self.files.read(path)
    }

    /// The name of the text.
    pub(crate) fn source(&self) -> &'a str {
        self.source
    }

    /// A text of several begins.
    pub(crate) fn begin_text(&mut self, start: u32) {
        self.texts.push(start);
    }

    /// The number of the text in which a place is.
    pub(crate) fn text_at(&self, span: Span) -> usize {
        self.texts.partition_point(|start| *start <= span.start).saturating_sub(1)
    }

    /// Whether there are several texts, which say one thing together.
    pub(crate) fn has_several_texts(&self) -> bool {
        self.texts.len() > 1
    }

    /// The contents of a folder that the text names, if the caller has it: paths within it and texts.
    pub(crate) fn folder_at(&self, path: &str) -> Option<Folder> {
        self.files.folder_at(path)
    }

    /// The name of the folder where the text lies, if the caller knows it.
    pub(crate) fn folder(&self) -> Option<String> {
        self.files.folder()
    }

    /// Keeps an object that is no App for whoever applies the Apps.
    pub(crate) fn other(&mut self, object: serde_json::Value) {
        self.others.push(object);
    }

    pub(crate) fn others_count(&self) -> usize {
        self.others.len()
    }

    /// Forgets the objects past the first `count`: they are there already.
    pub(crate) fn keep_others(&mut self, count: usize) {
        self.others.truncate(count);
    }

    pub(crate) fn note(
        &mut self,
        kind: NoteKind,
        path: &Path<'_>,
        span: Span,
        message: impl Into<String>,
    ) {
        if self.notes.len() >= NOTES_MAX {
            self.notes_left_out += 1;
            return;
        }
        self.notes.push(Note { path: path.to_string(), span, kind, message: message.into() });
    }

    /// Adds a diagnostic, to be refined by whoever called.
    pub(crate) fn diagnose(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        // Counted apart: a text may have any number of warnings and still be good, and no number of
        // them may keep an error from being told.
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if count.told >= DIAGNOSTICS_MAX {
            count.left_out += 1;
            return self.forget(diagnostic);
        }
        count.told += 1;
        self.diagnostics.push(diagnostic);
        self.diagnostics.last_mut().unwrap_or(&mut self.scratch)
    }

    /// Takes a diagnostic that follows from another one, and forgets it.
    pub(crate) fn forget(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        self.scratch = Diagnostic { code: Diagnostic::UNTOLD, ..diagnostic };
        &mut self.scratch
    }

    pub(crate) fn error(
        &mut self,
        code: &'static str,
        path: &Path<'_>,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let mut diagnostic = Diagnostic::error(code, span, message);
        diagnostic.path = path.to_string();
        self.diagnose(diagnostic)
    }

    pub(crate) fn warning(
        &mut self,
        code: &'static str,
        path: &Path<'_>,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let mut diagnostic = Diagnostic::warning(code, span, message);
        diagnostic.path = path.to_string();
        self.diagnose(diagnostic)
    }

    /// Whether something of this code was told.
    pub(crate) fn has_told(&self, code: &str) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.code == code)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors.told > 0
    }

    /// Whether one more error would only be counted.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.told >= DIAGNOSTICS_MAX
    }

    /// The next origins belong to the App with this number, counted from 0. A reader of several
    /// Apps says so before each.
    pub(crate) fn begin_app(&mut self, number: usize) {
        self.app = number;
    }

    /// Says where a part of the App comes from: `spec.components[0].name`. What validation finds
    /// there, or below, is shown at this place.
    pub(crate) fn origin(&mut self, app_path: impl Into<String>, span: Span) {
        self.origins.insert((self.app, app_path.into()), span);
    }

    /// The place of the nearest part above `app_path` whose origin is known.
    pub(crate) fn origin_of(&self, app: usize, app_path: &str) -> Option<Span> {
        let mut path = app_path.to_owned();
        loop {
            if let Some(span) = self.origins.get(&(app, path.clone())) {
                return Some(*span);
            }
            match path.rfind(['.', '[']) {
                Some(end) => path.truncate(end),
                None => return None,
            }
        }
    }

    pub(crate) fn finish(mut self, format: Option<Format>, apps: Vec<App>) -> Reading {
        self.notes.sort_by_key(|note| note.span.start);
        // A note without a place speaks of the text as such.
        if self.notes_left_out > 0 {
            let message = format!("{} more notes are not listed", self.notes_left_out);
            let kind = NoteKind::Dropped;
            self.notes.push(Note { path: String::new(), span: Span::default(), kind, message });
        }
        let span = self.diagnostics.last().map(|last| last.span).unwrap_or_default();
        if self.errors.left_out > 0 {
            let message = format!("{} more problems are not listed", self.errors.left_out);
            self.diagnostics.push(Diagnostic::error("too-many-problems", span, message));
        }
        if self.warnings.left_out > 0 {
            let message = format!("{} more warnings are not listed", self.warnings.left_out);
            self.diagnostics.push(Diagnostic::warning("too-many-warnings", span, message));
        }
        // In the order of the text; of two at one place the first that was found comes first.
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        Reading {
            format,
            apps,
            others: self.others,
            notes: self.notes,
            diagnostics: self.diagnostics,
        }
    }

    /// `text` as the name of a component or a policy: a DNS label. Says so if it had to change.
    pub(crate) fn label(&mut self, text: &str, path: &Path<'_>, span: Span) -> Option<String> {
        match tombolo_model::names::label(text) {
            Ok(()) => Some(text.to_owned()),
            Err(_) => self.dashed(text, path, span),
        }
    }

    /// `text` as the name of an object: DNS labels with dots. Says so if it had to change.
    pub(crate) fn object_name(
        &mut self,
        text: &str,
        path: &Path<'_>,
        span: Span,
    ) -> Option<String> {
        match tombolo_model::names::subdomain(text) {
            Ok(()) => Some(text.to_owned()),
            Err(_) => self.dashed(text, path, span),
        }
    }

    fn dashed(&mut self, text: &str, path: &Path<'_>, span: Span) -> Option<String> {
        let name = dashed(text);
        if name.is_empty() {
            let message = format!("no name can be made of {}", shown(text));
            self.error("invalid-name", path, span, message)
                .expecting("lower-case letters, digits and '-'");
            return None;
        }
        let message = format!(
            "{} is named {name:?} here: names are lower-case letters, digits and '-'",
            shown(text)
        );
        self.note(NoteKind::Changed, path, span, message);
        Some(name)
    }
}

/// The nearest DNS label to a text; empty when nothing of it can stay. Two texts that become the
/// same name are found by validation.
pub(crate) fn dashed(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_lowercase() || letter.is_ascii_digit() => name.push(letter),
            _ if name.ends_with('-') => (),
            _ => name.push('-'),
        }
    }
    let name = name.trim_matches('-');
    name.get(..63).unwrap_or(name).trim_end_matches('-').to_owned()
}
