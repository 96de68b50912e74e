//! The secrets and configs at the top of a compose file, and where their content comes from. Called by
//! [`super::mounts`].

use serde_json::json;
use tombolo_model::run::KeyRef;

use crate::beyond::foreign;
use crate::compose::extensions;
use crate::compose::interpolate::Variables;
use crate::fields::Field;
use crate::reader::Reader;

/// A file of an App may have no more.
pub(super) const CONTENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(String),
    Entry(KeyRef),
}

/// The content of a top-level secret or config. A secret becomes a Secret beside the App, so
/// that it is in no App that others may read.
pub(super) fn read(
    kind: &'static str,
    app: &str,
    key: &str,
    field: &Field<'_>,
    variables: &Variables,
    reader: &mut Reader<'_>,
) -> Option<Content> {
    let mut fields = field.fields(reader)?;
    let external = fields.take("external").and_then(|flag| flag.boolean(reader));
    let name = fields.take("name").and_then(|name| name.object_name(reader));
    let file = fields.take("file");
    let content = fields.take("content");
    let variable = fields.take("environment");
    for (key, why) in [
        ("driver", "entries come from the store of the API"),
        ("driver_opts", "entries come from the store of the API"),
        ("labels", "labels are for other tools"),
        ("template_driver", "entries are taken as they are"),
    ] {
        if let Some(field) = fields.take(key) {
            field.dropped(reader, why);
        }
    }
    extensions(&mut fields, reader);
    let known = [
        "content",
        "driver",
        "driver_opts",
        "environment",
        "external",
        "file",
        "labels",
        "name",
        "template_driver",
    ];
    fields.finish(foreign(&known), reader);
    if external == Some(true) {
        let name = name.unwrap_or_else(|| crate::reader::dashed(key));
        let kind = if kind == "secrets" { "Secret" } else { "ConfigMap" };
        let what = format!("it is the entry {key:?} of the {kind} {name:?}, which must be there");
        field.assumed(reader, &what);
        return Some(Content::Entry(KeyRef { name, key: key.to_owned() }));
    }
    let text = match (&file, &content, &variable) {
        (Some(file), _, _) => read_file(file, reader)?,
        (None, Some(content), _) => content.text(reader)?,
        (None, None, Some(variable)) => set_variable(variable, variables, reader)?,
        (None, None, None) => {
            let message = format!("{key:?} does not say where it comes from");
            field
                .error(reader, "missing-field", message)
                .expecting("\"file\", \"content\", \"environment\" or \"external\"");
            return None;
        }
    };
    if kind == "configs" {
        return Some(Content::Text(text));
    }
    let object = crate::reader::dashed(&format!("{app}-{key}"));
    reader.other(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": object},
        "stringData": {key: text},
    }));
    field.changed(reader, &format!("it is the Secret {object:?} beside the App"));
    Some(Content::Entry(KeyRef { name: object, key: key.to_owned() }))
}

/// The value of a variable that must be set.
fn set_variable(
    field: &Field<'_>,
    variables: &Variables,
    reader: &mut Reader<'_>,
) -> Option<String> {
    let name = field.str(reader)?;
    let value = variables.get(name).cloned();
    if value.is_none() {
        field
            .error(reader, "variable-required", format!("the variable {name} is not set"))
            .expecting(format!("a line {name}=… in .env"));
    }
    value
}

fn read_file(file: &Field<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let path = file.str(reader)?;
    match reader.file(path) {
        Some(text) if text.len() > CONTENT_BYTES_MAX => {
            let message = format!("the file {path:?} is {} bytes long", text.len());
            file.error(reader, "too-long", message).expecting("1 MiB at most");
            None
        }
        Some(text) => Some(text),
        None => {
            let message = format!("the file {path:?} cannot be read");
            file.error(reader, "file-missing", message).expecting("the file beside this one");
            None
        }
    }
}
