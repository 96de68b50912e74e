//! Reading what we wrote gives the same App: all of it in our own format, and in every other what
//! that format can say (`restrict.rs`). Whatever cannot be said is told.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod generate;
mod restrict;

use proptest::prelude::*;
use tombolo_descriptor::write::{Target, Written, write};
use tombolo_descriptor::{Format, NoFiles, Reading, Severity, Source, read};
use tombolo_model::App;

use crate::restrict::restrict;

fn format(target: Target) -> Format {
    match target {
        Target::Native => Format::Native,
        Target::Icos => Format::Icos,
        Target::Codeco => Format::Codeco,
        Target::Compose => Format::Compose,
        Target::Kubernetes => Format::Kubernetes,
    }
}

fn errors(reading: &Reading) -> Vec<String> {
    let errors = reading.diagnostics.iter().filter(|one| one.severity == Severity::Error);
    errors.map(|one| format!("{}: {} ({})", one.path, one.message, one.code)).collect()
}

/// What comes back of what the target can say is the same, and the writer has nothing to add.
fn comes_back(app: &App, target: Target) -> Result<(), TestCaseError> {
    let said = restrict(app, target);
    let Written { text, notes } = write(&said, target);
    let reading = read(Source { name: "written.yaml", text: &text }, None, &NoFiles);
    prop_assert_eq!(errors(&reading), Vec::<String>::new(), "in\n{}", text);
    prop_assert_eq!(reading.format, Some(format(target)), "in\n{}", text);
    let app = |app: &App| serde_json::to_value(app).unwrap();
    let back: Vec<_> = reading.apps.iter().map(app).collect();
    prop_assert_eq!(back, vec![app(&said)], "in\n{}", text);
    prop_assert_eq!(notes, vec![], "in\n{}", text);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_native_file_says_everything(app in generate::app()) {
        comes_back(&app, Target::Native)?;
    }

    #[test]
    fn an_icos_descriptor_comes_back_with_what_it_can_say(app in generate::app()) {
        comes_back(&app, Target::Icos)?;
    }

    #[test]
    fn a_codecoapp_comes_back_with_what_it_can_say(app in generate::app()) {
        comes_back(&app, Target::Codeco)?;
    }

    #[test]
    fn a_compose_file_comes_back_with_what_it_can_say(app in generate::app()) {
        comes_back(&app, Target::Compose)?;
    }

    #[test]
    fn manifests_come_back_with_what_they_can_say(app in generate::app()) {
        comes_back(&app, Target::Kubernetes)?;
    }

    /// Whatever an App says, each format takes it without an error, or tells what it left out; and
    /// the same App is always the same text.
    #[test]
    fn what_is_not_said_is_told(app in generate::app(), which in 0..Target::ALL.len()) {
        let target = Target::ALL[which];
        let written = write(&app, target);
        prop_assert_eq!(&written, &write(&app, target));
        if restrict(&app, target) != app {
            prop_assert!(!written.notes.is_empty() , "nothing is told about\n{:#?}\n{}", app, written.text);
        }
    }
}
