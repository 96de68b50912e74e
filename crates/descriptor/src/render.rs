//! Diagnostics as people read them: the place, the line with the mistake underlined, what was
//! expected and how to mend it. Called by the CLI and by the API for its messages.

use std::fmt::Write as _;

use tombolo_yaml::{Lines, Mend, Severity, Span};

use crate::screen::{self, Shown};
use crate::{Diagnostic, Note, NoteKind, Source};

/// Whether to colour for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Never,
    Always,
}

/// A mend of more lines is told, not shown.
const MEND_CHARS_MAX: usize = 200;

/// All diagnostics of one text, each with its line.
pub fn render(source: Source<'_>, diagnostics: &[Diagnostic], colour: Colour) -> String {
    let page = Page { source, lines: Lines::new(source.text), paint: Paint(colour) };
    let rendered: Vec<String> =
        diagnostics.iter().map(|diagnostic| page.diagnostic(diagnostic)).collect();
    rendered.join("\n")
}

/// All notes on one text, one a line.
pub fn render_notes(source: Source<'_>, notes: &[Note], colour: Colour) -> String {
    let page = Page { source, lines: Lines::new(source.text), paint: Paint(colour) };
    let mut out = String::new();
    for Note { path, span, kind, message } in notes {
        let kind = match kind {
            NoteKind::Dropped => page.paint.yellow(kind.as_str()),
            NoteKind::Assumed | NoteKind::Changed => page.paint.blue(kind.as_str()),
        };
        let place = page.place(*span);
        let path = match path.is_empty() {
            // It is about the whole text.
            true => String::new(),
            false => format!(" {}", screen::visible(path)),
        };
        let _ = writeln!(out, "{place}: {kind}{path}: {}", screen::visible(message));
    }
    out
}

struct Page<'a> {
    source: Source<'a>,
    lines: Lines<'a>,
    paint: Paint,
}

impl Page<'_> {
    fn diagnostic(&self, diagnostic: &Diagnostic) -> String {
        let Diagnostic { severity, code, path, span, message, expected, mend, related } =
            diagnostic;
        let word = match severity {
            Severity::Error => self.paint.red(&format!("error[{code}]")),
            Severity::Warning => self.paint.yellow(&format!("warning[{code}]")),
        };
        let place = self.paint.bold(&self.place(*span));
        let mut out = format!("{place}: {word}: {}\n", screen::visible(message));
        let margin = self.margin(*span, related);
        out += &self.snippet(*span, "", margin);
        for (span, what) in related {
            out += &self.snippet(*span, what, margin);
        }
        let indent = " ".repeat(margin);
        let bar = self.paint.blue("=");
        if !path.is_empty() {
            let _ = writeln!(out, "{indent} {bar} at {}", screen::visible(path));
        }
        if let Some(expected) = expected {
            let _ = writeln!(out, "{indent} {bar} expected {}", screen::visible(expected));
        }
        if let Some(mend) = mend {
            out += &self.mend(mend, &format!("{indent} {bar}"));
        }
        out
    }

    fn place(&self, span: Span) -> String {
        let at = self.lines.position(span.start);
        format!("{}:{}:{}", self.source.name, at.line, at.column)
    }

    /// Digits of the largest line number that will be shown.
    fn margin(&self, span: Span, related: &[(Span, String)]) -> usize {
        let spans = related.iter().map(|(span, _)| *span).chain([span]);
        let largest = spans.map(|span| self.lines.position(span.start).line).max().unwrap_or(1);
        largest.to_string().len()
    }

    fn snippet(&self, span: Span, label: &str, margin: usize) -> String {
        let number = self.lines.position(span.start).line;
        let (Some(line), Some(start)) = (self.lines.line(number), self.lines.start(number)) else {
            return String::new();
        };
        let on_line = self.lines.on_first_line(span);
        let marked = (on_line.start - start) as usize..(on_line.end - start) as usize;
        let Shown { line, before, width } = screen::show(line, marked);
        let bar = self.paint.blue("|");
        let number = self.paint.blue(&format!("{number:>margin$}"));
        let underline = match label {
            "" => self.paint.red(&"^".repeat(width)),
            _ => self.paint.blue(&"-".repeat(width)),
        };
        let gap = " ".repeat(before);
        let tail = format!("{gap}{underline} {}", screen::visible(label));
        format!("{number} {bar} {line}\n{:margin$} {bar} {}\n", "", tail.trim_end())
    }

    /// The line as it would be right.
    fn mend(&self, Mend { span, replacement }: &Mend, lead: &str) -> String {
        let text = self.source.text;
        let number = self.lines.position(span.start).line;
        let (Some(line), Some(start)) = (self.lines.line(number), self.lines.start(number)) else {
            return String::new();
        };
        let (from, to) = ((span.start - start) as usize, (span.end - start) as usize);
        let is_short = replacement.len() <= MEND_CHARS_MAX && !replacement.contains('\n');
        if to > line.len() || !is_short || text.get(span.range()).is_none() {
            let first = replacement.lines().next().unwrap_or_default();
            return format!("{lead} mend: write {}\n", screen::visible(first));
        }
        let mended = format!("{}{replacement}{}", &line[..from], &line[to..]);
        let Shown { line, .. } = screen::show(&mended, from..from + replacement.len());
        let is_indentation = mended[..from + replacement.len()].trim().is_empty();
        let line = match is_indentation {
            true => line.as_str(),
            false => line.trim_start(),
        };
        format!("{lead} mend: {}\n", self.paint.green(line))
    }
}

struct Paint(Colour);

impl Paint {
    fn red(&self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn yellow(&self, text: &str) -> String {
        self.with("1;33", text)
    }

    fn green(&self, text: &str) -> String {
        self.with("32", text)
    }

    fn blue(&self, text: &str) -> String {
        self.with("34", text)
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(&self, code: &str, text: &str) -> String {
        match self.0 {
            Colour::Never => text.to_owned(),
            Colour::Always => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}
