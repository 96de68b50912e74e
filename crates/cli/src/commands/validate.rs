//! `tombolo validate`: what is wrong with descriptors, for people or for editors.

use std::io;

use serde_json::Value;
use tombolo_descriptor::{Diagnostic, Reading, Source, Span, render, render_notes, report};

use crate::{
    args::ValidateArgs,
    failure::{Exit, Failure},
    files::{self, Named},
    output::{Format, object::json},
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, args: &ValidateArgs) -> Result<Exit, Failure> {
    let found = files::each(files::FILE_BYTES_MAX, &args.files, io::stdin())?;
    let read = |(name, text): Named| match text {
        Ok(text) => {
            let reading = tombolo_descriptor::read(text.source(), args.from, &text);
            (name, text.text, reading)
        }
        Err(failure) => (name, String::new(), unreadable(&failure)),
    };
    let readings: Vec<(String, String, Reading)> = found.into_iter().map(read).collect();
    let each = readings.iter().map(|(name, text, reading)| (Source { name, text }, reading));
    match args.output {
        Format::Json => {
            let reports = each.map(|(source, reading)| report(source, reading)).collect();
            shell.out.text(&json(&Value::Array(reports))?)?;
        }
        Format::Table | Format::Wide => {
            for (source, reading) in each {
                for_people(shell, args, source, reading)?;
            }
        }
        Format::Yaml | Format::Name => {
            return Err(Failure::usage("a report is printed as table or json"));
        }
    }
    let is_wrong = readings.iter().any(|(_, _, reading)| reading.has_errors());
    Ok(if is_wrong { Exit::Failed } else { Exit::Ok })
}

/// A file that cannot be read is wrong like any other, and the others are looked at all the same.
fn unreadable(failure: &Failure) -> Reading {
    let mut diagnostic = Diagnostic::error("unreadable", Span::default(), &failure.message);
    diagnostic.expected.clone_from(&failure.hint);
    Reading { diagnostics: vec![diagnostic], ..Reading::default() }
}

fn for_people(
    shell: &mut Shell,
    args: &ValidateArgs,
    source: Source<'_>,
    reading: &Reading,
) -> Result<(), Failure> {
    let colour = shell.out.colour();
    shell.out.text(&render(source, &reading.diagnostics, colour))?;
    if args.notes {
        shell.out.text(&render_notes(source, &reading.notes, colour))?;
    }
    let name = source.name;
    let format = reading.format.map_or("no format", |format| format.as_str());
    let count = |severity| {
        let of = reading.diagnostics.iter().filter(|found| found.severity == severity);
        of.count()
    };
    let (errors, warnings) =
        (count(tombolo_descriptor::Severity::Error), count(tombolo_descriptor::Severity::Warning));
    let verdict = match (errors, warnings) {
        (0, 0) => "valid".to_owned(),
        (0, warnings) => format!("valid, {}", counted(warnings, "warning")),
        (errors, 0) => counted(errors, "error"),
        (errors, warnings) => {
            format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"))
        }
    };
    let apps = counted(reading.apps.len(), "app");
    let notes = counted(reading.notes.len(), "note");
    shell.out.line(&format!("{name}: {verdict} ({format}, {apps}, {notes})"))
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}
