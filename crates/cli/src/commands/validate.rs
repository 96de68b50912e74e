//! `tombolo validate`: what is wrong with descriptors, for people or for editors.

use std::io;

use serde_json::Value;
use tombolo_descriptor::{Diagnostic, Reading, Source, Span, render, render_notes, report};

use crate::{
    args::ValidateArgs,
    failure::{Exit, Failure},
    files,
    output::{Format, object::json},
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, args: &ValidateArgs) -> Result<Exit, Failure> {
    let asked = args.read.asked(&args.files);
    let mut texts = Vec::new();
    let mut missing = Vec::new();
    let mut order = Vec::new();
    for (name, text) in files::each(files::FILE_BYTES_MAX, &asked, io::stdin())? {
        order.push(name.clone());
        match text {
            Ok(text) => texts.push(text),
            Err(failure) => missing.push((name, unreadable(&failure))),
        }
    }
    let units = files::units(texts, &asked.options);
    let read = units.iter().flat_map(|unit| files::reported(unit, &asked.options));
    let missing = missing.iter().map(|(name, told)| (Source { name, text: "" }, told.clone()));
    let mut readings: Vec<(Source<'_>, Reading)> = read.chain(missing).collect();
    // As they were named, whichever of them belong together.
    readings.sort_by_key(|(source, _)| order.iter().position(|name| name == source.name));
    let each = readings.iter().map(|(source, reading)| (*source, reading));
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
    let is_wrong = readings.iter().any(|(_, reading)| reading.has_errors());
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
    let found = match (reading.apps.len(), reading.others.len()) {
        (0, 1..) if errors == 0 => counted(reading.others.len(), "object"),
        (apps, _) => counted(apps, "app"),
    };
    let notes = counted(reading.notes.len(), "note");
    shell.out.line(&format!("{name}: {verdict} ({format}, {found}, {notes})"))
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}
