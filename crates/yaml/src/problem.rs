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

/// The problems of a text: as many errors and as many warnings as are told, and the number of the others.
#[derive(Debug)]
pub(crate) struct Problems {
    told: Vec<Problem>,
    most: usize,
    left_out: usize,
    /// Whether an error is among those that are left out.
    hides_error: bool,
}

impl Problems {
    pub(crate) fn new(most: usize) -> Problems {
        Problems { told: Vec::new(), most, left_out: 0, hides_error: false }
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        // Errors and warnings are counted apart: many of the one must not hide the other.
        let is_alike = |other: &&Problem| other.severity == problem.severity;
        match self.told.iter().filter(is_alike).count() < self.most {
            true => self.told.push(problem),
            false => {
                self.left_out += 1;
                self.hides_error |= problem.severity == Severity::Error;
            }
        }
    }

    /// Whether an error was left out.
    pub(crate) fn is_full(&self) -> bool {
        self.hides_error
    }

    pub(crate) fn finish(mut self) -> Vec<Problem> {
        if self.left_out > 0 {
            let last = self.told.last().map(|problem| problem.span).unwrap_or_default();
            let message = format!("{} more problems are not listed", self.left_out);
            self.told.push(match self.hides_error {
                true => Problem::error("too-many-problems", last, message),
                false => Problem::warning("too-many-problems", last, message),
            });
        }
        self.told
    }
}
