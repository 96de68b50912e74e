//! `tombolo logs`: what instances write, merged. Start at [`run`]; a log that is followed is in
//! [`super::logs_follow`].

use std::io;
use std::pin::Pin;

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use tombolo_model::Assignment;

use super::instances::{self, HINT_OF_LOGS, STATUS_NOT_RUNNING, explained, label};
use super::logs_follow;
use crate::{
    args::LogsArgs,
    connection::{Connection, Query},
    failure::{Exit, Failure},
    output::{harmless, note},
    shell::Shell,
};

/// A longer line goes on as the next one; agents cut theirs much shorter.
const LINE_BYTES_MAX: usize = 128 * 1024;

pub(super) async fn run(shell: &mut Shell, args: &LogsArgs) -> Result<Exit, Failure> {
    let wanted = instances::parse(&args.what)?;
    let connection = shell.connect().await?;
    let mut printer = Printer::new(args.timestamps, shell.out.colour);
    if args.follow {
        return logs_follow::run(shell, args, &connection, &wanted, printer).await;
    }
    let found = instances::find(&connection, &wanted).await?;
    let opened = found.iter().map(|one| open(&connection, one, query(args, false)));
    let opened = futures::future::join_all(opened).await;
    for assignment in &found {
        printer.know(&label(assignment));
    }
    let mut sources = Vec::new();
    let mut failed = None;
    for (assignment, opened) in found.iter().zip(opened) {
        match opened {
            Ok(reader) => sources.push(Source { label: label(assignment), reader, head: None }),
            Err(failure) if found.len() == 1 && last_lines(assignment).is_empty() => {
                return Err(explained(failure, assignment, HINT_OF_LOGS));
            }
            Err(failure) => {
                instead(shell, &mut printer, assignment, &failure)?;
                // What does not run is shown as far as it is known, and that is no failure.
                if failure.status != STATUS_NOT_RUNNING {
                    failed.get_or_insert(failure.exit);
                }
            }
        }
    }
    merge(shell, &mut printer, sources, &mut failed).await?;
    Ok(failed.unwrap_or(Exit::Ok))
}

/// The parameters of a request; always with times, by which lines are put in order.
pub(super) fn query(args: &LogsArgs, follow: bool) -> Query {
    let flag = |set: bool| set.then_some("true");
    let since = args.since.map(|since| since.as_secs().max(1).to_string());
    let tail = args.tail.map(|tail| tail.to_string());
    Query::default()
        .with("timestamps", "true")
        .with_some("follow", flag(follow))
        .with_some("previous", flag(args.previous))
        .with_some("sinceSeconds", since.as_deref())
        .with_some("tailLines", tail.as_deref())
        .with_some("container", args.part.as_deref())
}

pub(super) type Reader = Pin<Box<dyn AsyncBufRead>>;

pub(super) async fn open(
    connection: &Connection,
    assignment: &Assignment,
    query: Query,
) -> Result<Reader, Failure> {
    let path = instances::subresource(connection, assignment, "log");
    Ok(Box::pin(connection.download(&query.after(&path)).await?))
}

/// The next line, without its end; nothing at the end of all.
pub(super) async fn next_line(reader: &mut Reader) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    loop {
        let ready = reader.fill_buf().await?;
        if ready.is_empty() {
            return Ok((!bytes.is_empty()).then(|| Line::parse(&bytes)));
        }
        let end = ready.iter().position(|byte| *byte == b'\n');
        let room = LINE_BYTES_MAX - bytes.len();
        let taken = end.unwrap_or(ready.len()).min(room);
        bytes.extend_from_slice(&ready[..taken]);
        let ended = end == Some(taken);
        reader.as_mut().consume(taken + usize::from(ended));
        if ended || bytes.len() == LINE_BYTES_MAX {
            return Ok(Some(Line::parse(&bytes)));
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// As the agent wrote it: of one length, so that texts compare as times do.
    pub(super) at: String,
    pub(super) text: Vec<u8>,
}

impl Line {
    fn parse(bytes: &[u8]) -> Line {
        let blank = bytes.iter().position(|byte| *byte == b' ');
        let at = blank.and_then(|blank| str::from_utf8(&bytes[..blank]).ok());
        match at.filter(|at| at.ends_with('Z') && at.contains('T')) {
            Some(at) => Line { at: at.to_owned(), text: bytes[at.len() + 1..].to_vec() },
            None => Line { at: String::new(), text: bytes.to_vec() },
        }
    }
}

/// An instance whose log is read.
struct Source {
    label: String,
    reader: Reader,
    head: Option<Line>,
}

/// Prints the lines of all by their times; lines of one moment by the order of the instances.
async fn merge(
    shell: &mut Shell,
    printer: &mut Printer,
    mut sources: Vec<Source>,
    failed: &mut Option<Exit>,
) -> Result<(), Failure> {
    loop {
        for source in &mut sources {
            if source.head.is_some() {
                continue;
            }
            source.head = match next_line(&mut source.reader).await {
                Ok(line) => line,
                Err(error) => {
                    let why = harmless(&error.to_string());
                    note(&format!("{}: the rest of the log is missing: {why}", source.label));
                    failed.get_or_insert(Exit::Unreachable);
                    None
                }
            };
        }
        sources.retain(|source| source.head.is_some());
        let first = sources.iter_mut().min_by(|one, other| {
            let at = |source: &Source| source.head.as_ref().map(|line| line.at.clone());
            at(one).cmp(&at(other))
        });
        let Some(first) = first else { return Ok(()) };
        if let Some(line) = first.head.take() {
            shell.out.bytes(&printer.print(&first.label, &line))?;
        }
    }
}

/// The last lines of its last run, as its status has them.
fn last_lines(assignment: &Assignment) -> &[String] {
    let status = assignment.status.as_ref();
    let exit = status.and_then(|status| status.last_exit.as_ref());
    exit.map(|exit| exit.log.as_slice()).unwrap_or_default()
}

/// What there is to show of one whose log cannot be had.
pub(super) fn instead(
    shell: &mut Shell,
    printer: &mut Printer,
    assignment: &Assignment,
    failure: &Failure,
) -> Result<(), Failure> {
    let label = label(assignment);
    let failure = explained(failure.clone(), assignment, HINT_OF_LOGS);
    let lines = last_lines(assignment);
    let also = match lines.is_empty() {
        true => "",
        false => "; these are the last lines of its last run:",
    };
    note(&format!("{label}: {}{also}", harmless(&failure.message)));
    for text in lines {
        let line = Line { at: String::new(), text: text.clone().into_bytes() };
        shell.out.bytes(&printer.print(&label, &line))?;
    }
    shell.out.flush()
}

/// Puts the instance before a line, once there are several.
#[derive(Debug)]
pub(super) struct Printer {
    timestamps: bool,
    colour: bool,
    labels: Vec<String>,
}

/// Of the labels, by their order; red is left to errors.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 96];

impl Printer {
    fn new(timestamps: bool, colour: bool) -> Printer {
        Printer { timestamps, colour, labels: Vec::new() }
    }

    pub(super) fn know(&mut self, label: &str) {
        if !self.labels.iter().any(|known| known == label) {
            self.labels.push(label.to_owned());
        }
    }

    pub(super) fn print(&self, label: &str, line: &Line) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(line.text.len() + 32);
        if self.labels.len() > 1 {
            let width = self.labels.iter().map(String::len).max().unwrap_or_default();
            let index = self.labels.iter().position(|known| known == label).unwrap_or_default();
            let prefix = match self.colour {
                true => {
                    format!("\x1b[{}m{label:<width$} |\x1b[0m ", COLOURS[index % COLOURS.len()])
                }
                false => format!("{label:<width$} | "),
            };
            bytes.extend_from_slice(prefix.as_bytes());
        }
        if self.timestamps && !line.at.is_empty() {
            bytes.extend_from_slice(line.at.as_bytes());
            bytes.push(b' ');
        }
        match self.colour {
            true => bytes.extend_from_slice(&tamed(&line.text)),
            false => bytes.extend_from_slice(&line.text),
        }
        bytes.push(b'\n');
        bytes
    }
}

/// A line for a terminal: its colours stay, and whatever else would control the terminal is shown.
fn tamed(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut coloured = false;
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        match byte {
            0x1b => {
                let length = colour_length(rest);
                coloured |= length > 0;
                match length {
                    0 => out.extend_from_slice(b"\\x1b"),
                    _ => out.extend_from_slice(&rest[..length]),
                }
                rest = &rest[length.max(1)..];
                continue;
            }
            b'\t' => out.push(b'\t'),
            // A carriage return at the end is only another way to end a line.
            b'\r' if after.is_empty() => (),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            _ => out.push(*byte),
        }
        rest = after;
    }
    if coloured {
        out.extend_from_slice(b"\x1b[0m");
    }
    out
}

/// How long the escape sequence is, if it sets a colour; otherwise 0.
fn colour_length(text: &[u8]) -> usize {
    let Some(inner) = text.strip_prefix(b"\x1b[") else { return 0 };
    let digits = inner.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    match inner.get(digits) {
        Some(b'm') => digits + 3,
        Some(_) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;

    use super::*;

    fn printer(labels: &[&str], colour: bool) -> Printer {
        let mut printer = Printer::new(false, colour);
        labels.iter().for_each(|label| printer.know(label));
        printer
    }

    fn line(text: &str) -> Line {
        Line { at: "2026-06-01T12:00:00.000000000Z".to_owned(), text: text.as_bytes().to_vec() }
    }

    #[test]
    fn the_instance_stands_before_a_line_once_there_are_several() {
        let printed = |labels: &[&str]| {
            String::from_utf8(printer(labels, false).print("web-0", &line("hello"))).unwrap()
        };
        assert_eq!(printed(&["web-0"]), "hello\n");
        assert_eq!(printed(&["store-10", "web-0"]), "web-0    | hello\n");
        let mut stamped = printer(&["web-0"], false);
        stamped.timestamps = true;
        let text = String::from_utf8(stamped.print("web-0", &line("a"))).unwrap();
        assert_eq!(text, "2026-06-01T12:00:00.000000000Z a\n");
    }

    #[test]
    fn a_terminal_gets_colours_and_no_other_control() {
        let tame = |text: &str| String::from_utf8(tamed(text.as_bytes())).unwrap();
        assert_eq!(tame("plain\täöü"), "plain\täöü");
        assert_eq!(tame("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m\x1b[0m");
        assert_eq!(tame("a\x1b[2Jb\x07\r"), "a\\x1b[2Jb\\x07");
        assert_eq!(tame("\x1b"), "\\x1b");
        assert_eq!(tame("\x1b[31"), "\\x1b[31");
    }

    #[tokio::test]
    async fn lines_are_told_from_their_times_and_long_ones_are_cut() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let text = format!("2026-06-01T12:00:00.5Z hi there\nno time\n\n{long}\nend");
        let mut reader: Reader = Box::pin(Cursor::new(text.into_bytes()));
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader).await.unwrap() {
            lines.push((line.at, line.text.len()));
        }
        let lengths: Vec<usize> = lines.iter().map(|(_, length)| *length).collect();
        assert_eq!(lengths, [8, 7, 0, LINE_BYTES_MAX, 1, 3]);
        assert_eq!(lines[0].0, "2026-06-01T12:00:00.5Z");
        assert_eq!(lines[1].0, "");
    }
}
