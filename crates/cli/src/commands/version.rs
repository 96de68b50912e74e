//! `tombolo version`: ours, and the server's if it answers at once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    args::VersionArgs,
    failure::{Exit, Failure},
    output::{
        Format, harmless,
        object::{json as to_json, yaml},
    },
    shell::Shell,
};

/// Nobody waits for a version.
const SERVER_WAIT: Duration = Duration::from_secs(1);

pub(super) async fn run(shell: &mut Shell, args: &VersionArgs) -> Result<Exit, Failure> {
    let server = server_version(shell).await.ok();
    let text = match args.output {
        Format::Table | Format::Wide | Format::Name => lines(server.as_ref()),
        Format::Json => to_json(&versions(server))?,
        Format::Yaml => yaml(&versions(server))?,
    };
    shell.out.text(&text)?;
    Ok(Exit::Ok)
}

async fn server_version(shell: &Shell) -> Result<Value, Failure> {
    let connection = shell.connect_within(SERVER_WAIT).await?;
    connection.get("/version").await
}

fn versions(server: Option<Value>) -> Value {
    let mut versions = json!({"client": {"version": env!("CARGO_PKG_VERSION")}});
    if let Some(server) = server {
        versions["server"] = server;
    }
    versions
}

fn lines(server: Option<&Value>) -> String {
    let server = match server {
        None => "not reachable".to_owned(),
        Some(server) => harmless(server["gitVersion"].as_str().unwrap_or("unknown")),
    };
    format!("client: {}\nserver: {server}\n", env!("CARGO_PKG_VERSION"))
}
