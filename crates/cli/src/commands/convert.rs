//! `tombolo convert`: a descriptor of one format into another, and what was lost on the way.

use std::io;

use tombolo_descriptor::write::{self, Target};
use tombolo_descriptor::{Reading, render, render_notes};

use crate::{
    args::ConvertArgs,
    failure::{Exit, Failure},
    files::{self, Text},
    output,
    output::object::yaml,
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, args: &ConvertArgs) -> Result<Exit, Failure> {
    let texts = files::texts(&args.files, io::stdin())?;
    let readings: Vec<Reading> =
        texts.iter().map(|text| tombolo_descriptor::read(text.source(), args.from, text)).collect();
    if tell_problems(&texts, &readings) {
        return Err(Failure::failed("nothing was converted").hint("mend the errors above"));
    }
    let mut documents = Vec::new();
    for (text, reading) in texts.iter().zip(&readings) {
        if !args.quiet {
            let notes = render_notes(text.source(), &reading.notes, output::stderr_colour());
            output::note_text(&notes);
        }
        documents.extend(converted(reading, args)?);
    }
    if documents.is_empty() {
        return Err(Failure::failed(format!("there is no app in {}", args.files.join(", "))));
    }
    shell.out.text(&documents.join("---\n"))?;
    Ok(Exit::Ok)
}

/// Shows every problem of every file; whether one of them is an error.
pub(super) fn tell_problems(texts: &[Text], readings: &[Reading]) -> bool {
    for (text, reading) in texts.iter().zip(readings) {
        output::note_text(&render(text.source(), &reading.diagnostics, output::stderr_colour()));
    }
    readings.iter().any(Reading::has_errors)
}

fn converted(reading: &Reading, args: &ConvertArgs) -> Result<Vec<String>, Failure> {
    let mut documents = Vec::new();
    // Only formats of objects have a place for a Secret beside the App.
    if matches!(args.to, Target::Native | Target::Kubernetes) {
        for other in &reading.others {
            documents.push(yaml(other)?);
        }
    }
    for app in &reading.apps {
        if !app.spec.components.iter().any(|component| args.to.runs(component)) {
            let name = app.metadata.name.as_deref().unwrap_or_default();
            let message = format!("the app {name:?} cannot be written as {}", args.to);
            return Err(Failure::failed(message).hint(
                "none of its components runs in a way that the format knows; give one a container",
            ));
        }
        let written = write::write(app, args.to);
        for unsaid in written.notes.iter().filter(|_| !args.quiet) {
            output::note(&format!("{}: dropped {}: {}", args.to, unsaid.path, unsaid.message));
        }
        documents.push(written.text);
    }
    Ok(documents)
}
