//! Everything that is printed goes through here: results to stdout, words about them to stderr.
//!
//! Colour and progress appear only on a terminal, and never with `NO_COLOR`.

pub(crate) mod object;
pub(crate) mod table;

use std::{
    fmt,
    io::{self, BufWriter, IsTerminal as _, Write},
};

use tombolo_descriptor::Colour;
use tracing::level_filters::LevelFilter;

use crate::failure::Failure;

/// `-o`, on every read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// The objects, for programs.
    Json,
    /// The objects, for files.
    Yaml,
    /// KIND/NAME, one a line.
    Name,
}

/// Where results go.
pub(crate) struct Out {
    writer: Box<dyn Write>,
    pub(crate) colour: bool,
}

impl fmt::Debug for Out {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Out").field("colour", &self.colour).finish_non_exhaustive()
    }
}

impl Out {
    pub(crate) fn stdout() -> Out {
        let stdout = io::stdout();
        let colour = wants_colour(stdout.is_terminal());
        Out { writer: Box::new(BufWriter::new(stdout)), colour }
    }

    /// The text as it is; it ends its lines itself.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.writer.write_all(text.as_bytes())?)
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.text(line)?;
        self.text("\n")
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.writer.write_all(bytes)?)
    }

    pub(crate) fn colour(&self) -> Colour {
        as_colour(self.colour)
    }

    /// After each event of a watch, and at the end.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.writer.flush()?)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    Red,
    Green,
    Yellow,
    Cyan,
}

/// The text in colour, if colour is wanted.
pub(crate) fn painted(paint: Paint, text: &str, colour: bool) -> String {
    let code = match paint {
        Paint::Red => "31",
        Paint::Green => "32",
        Paint::Yellow => "33",
        Paint::Cyan => "36",
    };
    match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

fn wants_colour(terminal: bool) -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    terminal && !no_colour && !dumb
}

/// Text from outside must not move the cursor or ring the bell.
pub(crate) fn harmless(text: &str) -> String {
    match text.chars().any(char::is_control) {
        false => text.to_owned(),
        true => text.chars().flat_map(shown).collect(),
    }
}

fn shown(character: char) -> Vec<char> {
    match character.is_control() {
        true => character.escape_default().collect(),
        false => vec![character],
    }
}

/// The last words of a command that failed.
pub(crate) fn tell(failure: &Failure) {
    if failure.message.is_empty() {
        return;
    }
    let colour = wants_colour(io::stderr().is_terminal());
    note(&format!("{} {}", painted(Paint::Red, "error:", colour), lines(&failure.message)));
    if let Some(hint) = &failure.hint {
        note(&format!("{} {}", painted(Paint::Cyan, "hint:", colour), lines(hint)));
    }
}

/// Several lines are fine, anything else that controls a terminal is not.
fn lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

/// A word to whoever sits there; not part of the result.
pub(crate) fn note(line: &str) {
    // Nobody is left to be told if stderr is closed.
    let _ = writeln!(io::stderr(), "{line}");
}

pub(crate) fn notes(lines: &[String]) {
    for line in lines {
        note(line);
    }
}

/// Like [`note`], for a text that ends its lines itself.
pub(crate) fn note_text(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

pub(crate) fn stderr_colour() -> Colour {
    as_colour(wants_colour(io::stderr().is_terminal()))
}

fn as_colour(wanted: bool) -> Colour {
    if wanted { Colour::Always } else { Colour::Never }
}

/// One line on a terminal that is written over and over while something lasts.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { shown: wants_colour(io::stderr().is_terminal()) }
    }

    pub(crate) fn say(&self, text: &str) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K{}", harmless(text));
        }
    }
}

impl Drop for Progress {
    /// Leaves no trace: the result follows on a clean line.
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Whether a question can be put to somebody.
pub(crate) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks; anything but `y` or `yes` means no.
pub(crate) fn confirmed(question: &str) -> bool {
    let _ = write!(io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    match io::stdin().read_line(&mut answer) {
        Ok(_) => matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"),
        Err(_) => false,
    }
}

/// `-v` shows what the client does, `-vv` everything; without it, `usual` is told and no more.
pub(crate) fn log_to_stderr(verbose: u8, usual: LevelFilter) {
    let level = match verbose {
        0 => usual,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let colour = wants_colour(io::stderr().is_terminal());
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    log.with_ansi(colour).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_instead_of_obeyed() {
        assert_eq!(harmless("plain äöü"), "plain äöü");
        assert_eq!(harmless("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }
}
