//! What is told about a text: notes on what was read, diagnostics on what is wrong. Made by the
//! readers, shown by [`crate::render`].

use tombolo_model::suggest;
use tombolo_yaml::{Mend, Problem, Severity, Span};

/// Something that was read all right, and did not become part of the App as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place in the words of the text: `components[0].requirements.cpu`.
    pub path: String,
    pub span: Span,
    pub kind: NoteKind,
    pub message: String,
}

/// What happened to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// An App cannot carry it.
    Dropped,
    /// It was not said, or can be read in more than one way.
    Assumed,
    /// It is in the App in another form.
    Changed,
}

impl NoteKind {
    pub fn as_str(self) -> &'static str {
        match self {
            NoteKind::Dropped => "dropped",
            NoteKind::Assumed => "assumed",
            NoteKind::Changed => "changed",
        }
    }
}

/// Something that is wrong with a text, where, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable, in kebab case: `unknown-field`.
    pub code: &'static str,
    /// The place in the words of the text; empty where the text as such is meant.
    pub path: String,
    pub span: Span,
    pub message: String,
    pub expected: Option<String>,
    pub mend: Option<Mend>,
    /// Other places that have to do with it.
    pub related: Vec<(Span, String)>,
}

impl Diagnostic {
    /// The code of one that is made but not told.
    pub(crate) const UNTOLD: &'static str = "";

    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Problem::error(code, span, message).into()
    }

    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Problem::warning(code, span, message).into()
    }

    pub fn expecting(&mut self, expected: impl Into<String>) -> &mut Diagnostic {
        self.expected = Some(expected.into());
        self
    }

    pub fn mended_by(&mut self, span: Span, replacement: impl Into<String>) -> &mut Diagnostic {
        self.mend = Some(Mend { span, replacement: replacement.into() });
        self
    }

    /// The name that `wrong` was most likely meant to be, if one is near. What nobody will see is not
    /// looked for: it would take most of the time that a text of mistakes takes.
    pub(crate) fn nearest<'n>(
        &self,
        wrong: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Option<&'n str> {
        (self.code != Diagnostic::UNTOLD).then(|| suggest::nearest(wrong, names)).flatten()
    }

    /// Offers the nearest of some names, if one is near.
    pub(crate) fn mended_by_nearest<'n>(
        &mut self,
        span: Span,
        wrong: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> &mut Diagnostic {
        match self.nearest(wrong, names) {
            Some(meant) => self.mended_by(span, meant),
            None => self,
        }
    }

    pub fn see(&mut self, span: Span, what: impl Into<String>) -> &mut Diagnostic {
        self.related.push((span, what.into()));
        self
    }
}

impl From<Problem> for Diagnostic {
    fn from(problem: Problem) -> Diagnostic {
        let Problem { severity, code, span, message, expected, mend, related } = problem;
        Diagnostic { severity, code, path: String::new(), span, message, expected, mend, related }
    }
}
