//! What is wrong with a text before anybody asks what it means.

use crate::node::Span;

/// One thing that is wrong, where, and how to mend it if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// Stable, in kebab case: `duplicate-key`.
    pub code: &'static str,
    pub span: Span,
    pub message: String,
    pub expected: Option<String>,
    pub mend: Option<Mend>,
    /// Other places that have to do with it.
    pub related: Vec<(Span, String)>,
}

/// Whether the text can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

/// A change of the text that puts it right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    pub span: Span,
    pub replacement: String,
}

impl Problem {
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Error,
            code,
            span,
            message: message.into(),
            expected: None,
            mend: None,
            related: Vec::new(),
        }
    }

    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(code, span, message) }
    }

    pub fn expecting(mut self, expected: impl Into<String>) -> Problem {
        self.expected = Some(expected.into());
        self
    }

    pub fn mended_by(mut self, span: Span, replacement: impl Into<String>) -> Problem {
        self.mend = Some(Mend { span, replacement: replacement.into() });
        self
    }

    pub fn see(mut self, span: Span, what: impl Into<String>) -> Problem {
        self.related.push((span, what.into()));
        self
    }
}
