//! `tombolo match`: placement over files, without a server.

use std::fs;

use tombolo_placement::{Continuum, Options, Scope, compile, plan};
use tombolo_plan::explaining;

use super::{
    placements::{self, Columns, Names},
    world,
};
use crate::{
    args::MatchArgs,
    failure::{Exit, Failure},
    output::{self, harmless},
    shell::Shell,
};

pub(super) fn run(shell: &mut Shell, args: &MatchArgs) -> Result<Exit, Failure> {
    let topology = world::topology(&args.topology)?;
    let apps = world::apps(&args.app, args.from)?;
    let (continuum, troubles) = Continuum::of(&topology.sites, &topology.nodes, &topology.links);
    for trouble in topology.troubles.iter().chain(&troubles) {
        output::note(&format!("note: {}", harmless(&trouble.to_string())));
    }
    let options = Options { scope: Scope::All, ..Options::default() };
    if let Some(path) = &args.dump_model {
        let model = compile(&continuum, &apps, &[], &options).problem.to_json();
        fs::write(path, model).map_err(|error| Failure::file(path, &error))?;
    }
    let planned =
        world::within(&args.search, |limits| plan(&continuum, &apps, &[], &options, limits));
    let planned = planned.map_err(|error| Failure::failed(error.to_string()))?;
    let planned = explaining::answer(planned, &apps);
    placements::print(shell, &planned, Names::of(apps.len()), Columns::Places, args.output)?;
    match planned.feasible {
        true => Ok(Exit::Ok),
        false => Ok(Exit::NotPlaced),
    }
}
