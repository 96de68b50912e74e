//! `tombolo plan`: where apps would be placed on the server as it is now. Writes nothing.

use std::collections::BTreeSet;

use tombolo_model::AppId;
use tombolo_placement::plan::{Outcome, Step};
use tombolo_placement::{Continuum, Options, Plan, Scope, plan};
use tombolo_plan::placing::Basis;

use super::{
    placements::{self, Columns},
    world::{self, Server},
};
use crate::{
    args::PlanArgs,
    failure::{Exit, Failure},
    output::{self, harmless},
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, args: &PlanArgs) -> Result<Exit, Failure> {
    let files = match args.files.is_empty() {
        true => Vec::new(),
        false => world::apps(&args.files, args.from)?,
    };
    let connection = shell.connect().await?;
    let mut server = Server::look(&connection).await?;
    let namespace = shell.globals.namespace.as_deref();
    let mut shown: BTreeSet<AppId> = BTreeSet::new();
    for mut app in files {
        let own = app.metadata.namespace.take();
        let own = namespace.map(str::to_owned).or(own).unwrap_or(connection.namespace.clone());
        app.metadata.namespace = Some(own);
        shown.insert(AppId::of(&app));
        server.observed.put(app);
    }
    for name in &args.apps {
        let id = AppId::new(&connection.namespace, name);
        server.app(&id)?;
        shown.insert(id);
    }
    // A file is placed as the loop would do it; an app by its name as if it could be chosen anew.
    let scope = if args.files.is_empty() { Scope::All } else { Scope::Pending };
    let observed = &server.observed;
    let Basis { running, options } = Basis::without_memory(observed);
    let options = Options { scope, ..options };
    let (continuum, troubles) = Continuum::of(&observed.sites, &observed.nodes, &observed.links);
    for trouble in &troubles {
        output::note(&format!("note: {}", harmless(&trouble.to_string())));
    }
    let planned = world::within(&args.search, |limits| {
        plan(&continuum, &observed.apps, &running, &options, limits)
    });
    let planned = planned.map_err(|error| Failure::failed(error.to_string()))?;
    let settled = settled(&shown, &planned);
    let planned = only(planned, &shown);
    placements::print(shell, &planned, &observed.apps, Columns::Steps, args.output)?;
    for id in settled {
        output::note(&format!("{}: nothing to do, it stays as it is", harmless(id.as_str())));
    }
    let lacks = |app: &tombolo_placement::plan::AppPlan| {
        shown.contains(&app.app) && app.outcome != Outcome::Placed
    };
    Ok(if planned.apps.iter().any(lacks) { Exit::NotPlaced } else { Exit::Ok })
}

/// Those that the plan does not even speak of.
fn settled<'a>(shown: &'a BTreeSet<AppId>, planned: &Plan) -> Vec<&'a AppId> {
    shown.iter().filter(|id| !planned.apps.iter().any(|app| app.app == **id)).collect()
}

/// All of the apps that were asked about, and of the others what would change.
fn only(mut planned: Plan, shown: &BTreeSet<AppId>) -> Plan {
    for app in planned.apps.iter_mut().filter(|app| !shown.contains(&app.app)) {
        app.instances.retain(|instance| !matches!(instance.step, Step::Stay));
    }
    planned.apps.retain(|app| shown.contains(&app.app) || !app.instances.is_empty());
    planned
}
