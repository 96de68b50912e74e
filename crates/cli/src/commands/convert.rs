//! `tombolo convert`: a descriptor of one format into another, and what was lost on the way.

use std::io;

use tombolo_descriptor::write::{self, Target};
use tombolo_descriptor::{Reading, Source, render, render_notes};
use tombolo_model::App;

use crate::{
    args::ConvertArgs,
    failure::{Exit, Failure},
    files, output,
    output::object::yaml,
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, args: &ConvertArgs) -> Result<Exit, Failure> {
    let asked = args.read.asked(&args.files);
    let units = files::wanted(&asked, io::stdin())?;
    let readings: Vec<_> = units.iter().flat_map(|unit| unit.read(&asked.options)).collect();
    if tell_problems(&readings) {
        return Err(Failure::failed("nothing was converted").hint("mend the errors above"));
    }
    for (source, reading) in readings.iter().filter(|_| !args.quiet) {
        let notes = render_notes(*source, &reading.notes, output::stderr_colour());
        output::note_text(&notes);
    }
    let apps: Vec<&App> = readings.iter().flat_map(|(_, reading)| &reading.apps).collect();
    let apps = chosen(&apps, args)?;
    let mut documents = Vec::new();
    // Only formats of objects have a place for a Secret beside the App.
    if matches!(args.to, Target::Native | Target::Kubernetes) {
        for other in readings.iter().flat_map(|(_, reading)| &reading.others) {
            documents.push(yaml(other)?);
        }
    }
    for app in apps {
        documents.push(written(app, args)?);
    }
    if documents.is_empty() {
        return Err(Failure::failed(format!("there is no app in {}", args.files.join(", "))));
    }
    shell.out.text(&documents.join("---\n"))?;
    Ok(Exit::Ok)
}

/// Shows every problem of every file; whether one of them is an error.
pub(super) fn tell_problems(readings: &[(Source<'_>, Reading)]) -> bool {
    for (source, reading) in readings {
        output::note_text(&render(*source, &reading.diagnostics, output::stderr_colour()));
    }
    readings.iter().any(|(_, reading)| reading.has_errors())
}

/// The Apps that are to be written: all, or the one of a name.
fn chosen<'a>(apps: &[&'a App], args: &ConvertArgs) -> Result<Vec<&'a App>, Failure> {
    let name = |app: &&&App| app.metadata.name.clone().unwrap_or_default();
    let names = || apps.iter().map(|app| name(&app)).collect::<Vec<String>>().join(", ");
    let chosen: Vec<&App> = match &args.app {
        Some(wanted) => apps.iter().filter(|app| name(app) == *wanted).copied().collect(),
        None => apps.to_vec(),
    };
    if let (Some(wanted), true) = (&args.app, chosen.is_empty()) {
        return Err(Failure::new(Exit::NotFound, format!("there is no app {wanted:?}"))
            .hint(format!("there is {}", names())));
    }
    // Their readers, ours and those of others, take a text for one application.
    if matches!(args.to, Target::Compose | Target::Icos) && chosen.len() > 1 {
        let message = format!("{} has one app in a text, and here are {}", args.to, chosen.len());
        return Err(Failure::usage(message)
            .hint(format!("write each into a file of its own with --app: {}", names())));
    }
    Ok(chosen)
}

fn written(app: &App, args: &ConvertArgs) -> Result<String, Failure> {
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
    Ok(written.text)
}
