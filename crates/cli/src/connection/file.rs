//! Which kubeconfig is meant, and what is in it, with words for what can be wrong with it. Part of [`super`].

use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use serde_json::Value;

use crate::{
    args::Globals,
    failure::{Exit, Failure},
    kubeconfig, places,
};

/// `--kubeconfig` or `TOMBOLO_KUBECONFIG` (clap knows both), else that of `tombolo login`, else the default
/// data folder's, else the demo's.
pub(crate) fn kubeconfig_path(globals: &Globals) -> Result<PathBuf, Failure> {
    if let Some(path) = &globals.kubeconfig {
        return Ok(path.clone());
    }
    if let Some(login) = places::login_file().filter(|path| path.exists()) {
        return Ok(login);
    }
    let data = places::default_data_folder().ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_DATA_HOME is set, so there is no default kubeconfig")
            .hint("name one with --kubeconfig or TOMBOLO_KUBECONFIG")
    })?;
    let usual = places::kubeconfig_in(&data);
    let demo = places::demo_folder().map(|demo| places::kubeconfig_in(&demo));
    Ok(demo.filter(|demo| !usual.exists() && demo.exists()).unwrap_or(usual))
}

/// The text is never repeated in a message: there is a secret in it.
pub(super) fn read_kubeconfig(path: &Path) -> Result<Kubeconfig, Failure> {
    if !path.exists() {
        return Err(Failure::new(
            Exit::Unreachable,
            format!("there is no kubeconfig at {}", path.display()),
        )
        .hint(
            "start a server with `tombolo up`, sign in with `tombolo login`, or name a kubeconfig with \
             --kubeconfig",
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    if kubeconfig::is_token(&text) {
        let path = path.display();
        return Err(Failure::failed(format!("{path} is a token, not a kubeconfig")).hint(format!(
            "`tombolo login --server https://HOST:PORT --token-file {path}` signs you in with it"
        )));
    }
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| {
        Failure::failed(format!(
            "{} is not a kubeconfig: {}",
            path.display(),
            error.without_snippet()
        ))
    })?;
    // The reader of the library knows paths beside the file, which the text alone does not.
    if !value.is_object() {
        return Err(Failure::failed(format!("{} is not a kubeconfig", path.display())));
    }
    Kubeconfig::read_from(path)
        .map_err(|_| Failure::failed(format!("{} is not a kubeconfig", path.display())))
}

/// The library would name neither the file nor the contexts that there are.
pub(super) fn known_context(
    config: &Kubeconfig,
    globals: &Globals,
    path: &Path,
) -> Result<(), Failure> {
    let current = config.current_context.as_deref().filter(|name| !name.is_empty());
    let names: Vec<&str> = config.contexts.iter().map(|context| context.name.as_str()).collect();
    let path = path.display();
    match globals.context.as_deref().or(current) {
        Some(name) if names.contains(&name) => Ok(()),
        Some(name) => Err(Failure::usage(format!("{path} has no context {name:?}"))
            .hint(format!("it has {}", names.join(", ")))),
        None => Err(Failure::usage(format!("{path} has no current context"))
            .hint("choose one with --context or `tombolo config use NAME`")),
    }
}
