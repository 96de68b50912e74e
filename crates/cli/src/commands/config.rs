//! `tombolo config`: which server the shell talks to, and which of several.

use std::{fs, path::Path};

use serde_json::Value;

use super::signing_in;
use crate::{
    args::ConfigCommand,
    connection::kubeconfig_path,
    failure::{Exit, Failure},
    kubeconfig,
    output::{
        Format, harmless,
        object::{json, yaml},
        table::Grid,
    },
    shell::Shell,
};

/// A kubeconfig with hundreds of clusters is far smaller.
const BYTES_MAX: u64 = 4 << 20;
/// Keys of a kubeconfig whose values nobody should see over a shoulder.
const SECRETS: &[&str] =
    &["token", "password", "client-key-data", "id-token", "refresh-token", "client-secret"];

pub(super) fn run(shell: &mut Shell, command: &ConfigCommand) -> Result<Exit, Failure> {
    let path = kubeconfig_path(&shell.globals)?;
    match command {
        ConfigCommand::Path => shell.out.line(&path.display().to_string())?,
        ConfigCommand::Env => shell.out.line(&export_line(&path))?,
        ConfigCommand::Contexts => {
            let text = contexts(&read(&path)?);
            shell.out.text(&text)?;
        }
        ConfigCommand::Use { name } => {
            let mut value = read(&path)?;
            if !kubeconfig::contexts(&value).iter().any(|one| one.name == *name) {
                return Err(no_such_context(name, &path));
            }
            value["current-context"] = name.as_str().into();
            signing_in::write(&path, &value)?;
            shell.out.line(&format!("{name} is now the current context"))?;
        }
        ConfigCommand::View { output } => {
            let value = redacted(read(&path)?);
            shell.out.text(&match output {
                Format::Json => json(&value)?,
                Format::Yaml | Format::Table | Format::Wide | Format::Name => yaml(&value)?,
            })?;
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn no_such_context(name: &str, path: &Path) -> Failure {
    Failure::new(Exit::NotFound, format!("{} has no context {name:?}", path.display()))
        .hint("`tombolo config contexts` lists them")
}

fn contexts(config: &Value) -> String {
    let mut grid = Grid::new(&["CURRENT", "NAME", "SERVER", "USER", "NAMESPACE"]);
    for one in kubeconfig::contexts(config) {
        let current = if one.current { "*" } else { "" };
        let cells = [current, &one.name, &one.server, &one.user, &one.namespace];
        grid.rows.push(cells.into_iter().map(harmless).collect());
    }
    grid.to_text()
}

pub(super) fn read(path: &Path) -> Result<Value, Failure> {
    let failed =
        |error| Failure::file(path, &error).hint("`tombolo up` writes one on its first start");
    let size = fs::metadata(path).map_err(failed)?.len();
    if size > BYTES_MAX {
        return Err(Failure::failed(format!("{}: too large for a kubeconfig", path.display())));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    if kubeconfig::is_token(&text) {
        let path = path.display();
        return Err(Failure::usage(format!("{path} is a token, not a kubeconfig")));
    }
    serde_saphyr::from_str(&text).map_err(|error| {
        Failure::failed(format!("{}: {}", path.display(), error.without_snippet()))
    })
}

fn redacted(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| match SECRETS.contains(&key.as_str()) {
                true => (key, "REDACTED".into()),
                false => (key, redacted(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(redacted).collect(),
        scalar => scalar,
    }
}

/// For `eval`: single quotes keep everything but themselves.
fn export_line(path: &Path) -> String {
    format!("export KUBECONFIG='{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_redacted_wherever_they_stand() {
        let config = json!({"users": [{"name": "admin", "user": {
            "token": "s3cret", "client-key-data": "s3cret", "client-certificate-data": "public",
            "auth-provider": {"config": {"id-token": "s3cret"}}}}]});
        let text = redacted(config).to_string();
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains("public"), "{text}");
    }

    #[test]
    fn the_export_line_survives_any_path() {
        assert_eq!(
            export_line(Path::new("/home/o'neil/k b")),
            r"export KUBECONFIG='/home/o'\''neil/k b'"
        );
    }
}
