//! `tombolo schema` and `tombolo crds`: the compiled-in schemas, for editors and for clusters.

use crate::{
    args::SchemaArgs,
    failure::{Exit, Failure},
    output::object::{json, yaml},
    schemas,
    shell::Shell,
};

pub(super) fn print_schema(shell: &mut Shell, args: &SchemaArgs) -> Result<Exit, Failure> {
    let resource = schemas::own_kind(&args.kind)?;
    let schema = tombolo_model::json_schema(&resource.kind)
        .ok_or_else(|| Failure::failed(format!("{} has no schema", resource.kind)))?;
    shell.out.text(&json(&schema)?)?;
    Ok(Exit::Ok)
}

pub(super) fn print_definitions(shell: &mut Shell) -> Result<Exit, Failure> {
    // The loops of a server watch these kinds of other projects too, and cannot do without.
    let foreign = tombolo_descriptor::foreign::definitions();
    for definition in schemas::definitions()?.into_iter().chain(foreign) {
        shell.out.line("---")?;
        shell.out.text(&yaml(&definition)?)?;
    }
    Ok(Exit::Ok)
}
