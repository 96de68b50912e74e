//! What is wrong with a policy, and where.

use std::fmt;

/// A fault in a policy: the field, and the place in its text where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Below the policy's spec, such as `condition.expr`.
    pub path: String,
    /// Line and column in the text of the field, from 1.
    pub position: Option<(usize, usize)>,
    pub message: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), position: None, message: message.into() }
    }

    /// At a byte of the text that the field has.
    pub fn at(
        path: impl Into<String>,
        text: &str,
        byte: usize,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), position: Some(position(text, byte)), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => {
                write!(f, "{}:{line}:{column}: {}", self.path, self.message)
            }
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

impl std::error::Error for Problem {}

fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..byte.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    (line, before.len() - start + 1)
}
