//! `tombolo create`: what needs no more than a name.

use serde_json::json;

use crate::{
    args::CreateCommand,
    catalogue,
    failure::{Exit, Failure},
    output::note,
    shell::Shell,
};

pub(super) async fn run(shell: &mut Shell, command: &CreateCommand) -> Result<Exit, Failure> {
    let CreateCommand::Namespace { name } = command;
    let connection = shell.connect_anywhere().await?;
    let resource = catalogue::known("Namespace");
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    connection.post(&resource.collection(None), &object).await?;
    shell.out.line(&format!("{} created", resource.label(name)))?;
    note(&format!("work in it with -n {name}"));
    Ok(Exit::Ok)
}
