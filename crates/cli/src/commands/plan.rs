//! `tombolo plan`: where apps would be placed on the server as it is now. Writes nothing.

use tombolo_model::App;
use tombolo_model::explanation::{AppName, PLAN_PATH, PlanAnswer, PlanRequest, PlannedOutcome};
use tombolo_plan::explaining;

use super::{
    placements::{self, Columns, Names},
    world,
};
use crate::{
    args::PlanArgs,
    failure::{Exit, Failure},
    output::{self, harmless},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &PlanArgs) -> Result<Exit, Failure> {
    let mut files = match args.files.is_empty() {
        true => Vec::new(),
        false => world::apps(&args.files, args.from)?,
    };
    let connection = shell.connect().await?;
    let namespace = shell.globals.namespace.as_deref();
    for app in &mut files {
        put_into(app, namespace, &connection.namespace);
    }
    let name =
        |name: &String| AppName { namespace: connection.namespace.clone(), name: name.clone() };
    let apps: Vec<AppName> = args.apps.iter().map(name).collect();
    let request = PlanRequest { files, apps, search: world::search(&args.search) };
    let asked = world::ask::<PlanAnswer>(&connection, PLAN_PATH, &request, &args.search).await?;
    let planned = match asked {
        Some(answer) => answer,
        None => {
            let seen = world::look(&connection).await?;
            let planned = world::within(&args.search, |limits| {
                explaining::plan(seen, request, &|_| true, limits)
            });
            planned.map_err(|trouble| world::as_failure(&trouble))?
        }
    };
    for unusable in &planned.unusable {
        output::note(&format!("note: {}", harmless(unusable)));
    }
    placements::print(shell, &planned, Names::Shown, Columns::Steps, args.output)?;
    for app in &planned.settled {
        output::note(&format!("{}: nothing to do, it stays as it is", harmless(&app.app)));
    }
    world::tell_hidden(planned.hidden, "apps would change");
    let lacks = planned.apps.iter().any(|app| app.asked && app.outcome != PlannedOutcome::Placed);
    Ok(if lacks { Exit::NotPlaced } else { Exit::Ok })
}

/// The namespace that was typed, else that of the file, else the usual one.
fn put_into(app: &mut App, typed: Option<&str>, usual: &str) {
    let own = app.metadata.namespace.take();
    let namespace = typed.map(str::to_owned).or(own).unwrap_or_else(|| usual.to_owned());
    app.metadata.namespace = Some(namespace);
}
