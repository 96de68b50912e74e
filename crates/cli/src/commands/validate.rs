//! `tombolo validate`: what is wrong with descriptors, for people or for editors.

use std::io;

use serde_json::Value;
use tombolo_descriptor::{Reading, render, render_notes, report};

use crate::{
    args::ValidateArgs,
    failure::{Exit, Failure},
    files::{self, Text},
    output::{Format, object::json},
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, args: &ValidateArgs) -> Result<Exit, Failure> {
    let texts = files::texts(&args.files, io::stdin())?;
    let readings: Vec<Reading> =
        texts.iter().map(|text| tombolo_descriptor::read(text.source(), args.from, text)).collect();
    match args.output {
        Format::Json => {
            let reports = texts.iter().zip(&readings);
            let reports = reports.map(|(text, reading)| report(text.source(), reading)).collect();
            shell.out.text(&json(&Value::Array(reports))?)?;
        }
        Format::Table | Format::Wide => {
            for (text, reading) in texts.iter().zip(&readings) {
                for_people(shell, args, text, reading)?;
            }
        }
        Format::Yaml | Format::Name => {
            return Err(Failure::usage("a report is printed as table or json"));
        }
    }
    Ok(if readings.iter().any(Reading::has_errors) { Exit::Failed } else { Exit::Ok })
}

fn for_people(
    shell: &mut Shell,
    args: &ValidateArgs,
    text: &Text,
    reading: &Reading,
) -> Result<(), Failure> {
    let colour = shell.out.colour();
    shell.out.text(&render(text.source(), &reading.diagnostics, colour))?;
    if args.notes {
        shell.out.text(&render_notes(text.source(), &reading.notes, colour))?;
    }
    let name = &text.name;
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
