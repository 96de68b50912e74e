//! `tombolo explain`: what a kind and its fields mean, from its schema.
//!
//! [`explanation`] is pure; around it, the schema is fetched from the server, or taken from this
//! binary if there is none.

use serde_json::{Map, Value};

use crate::{
    args::ExplainArgs,
    catalogue::{self, Resource},
    connection::Connection,
    failure::{Exit, Failure},
    output::{harmless, note},
    schemas,
    shell::Shell,
};

const WIDTH: usize = 80;
/// References may go in circles.
const DEPTH_MAX: usize = 24;

pub(super) async fn run(shell: &mut Shell, args: &ExplainArgs) -> Result<Exit, Failure> {
    let (word, path) = split(&args.what);
    let question = Question { word, path: &path, recursive: args.recursive };
    let text = match from_server(shell, question).await {
        Ok(text) => text,
        Err(failure) if failure.exit == Exit::Unreachable => {
            let resource = schemas::own_kind(word).map_err(|_| failure)?;
            let schema = schemas::compiled_in(&resource)
                .ok_or_else(|| Failure::failed(format!("{} has no schema", resource.kind)))?;
            note("no server: this is what the kinds of this version say");
            explanation(&resource, &Document { root: &schema, all: &Value::Null }, question)?
        }
        Err(failure) => return Err(failure),
    };
    shell.out.text(&text)?;
    Ok(Exit::Ok)
}

#[derive(Clone, Copy, Debug)]
struct Question<'a> {
    word: &'a str,
    path: &'a [String],
    recursive: bool,
}

/// A schema, and the schemas that it may refer to.
#[derive(Clone, Copy, Debug)]
struct Document<'a> {
    root: &'a Value,
    all: &'a Value,
}

/// `app.spec.components` is a kind and a path; `apps.tombolo.dev` is a kind with its group and
/// cannot be told from that, so that a kind with a group is taken only as a whole word.
fn split(what: &str) -> (&str, Vec<String>) {
    if catalogue::by_word(&catalogue::built_in(), what).is_some() {
        return (what, Vec::new());
    }
    match what.split_once('.') {
        None => (what, Vec::new()),
        Some((word, path)) => (word, path.split('.').map(str::to_owned).collect()),
    }
}

async fn from_server(shell: &Shell, question: Question<'_>) -> Result<String, Failure> {
    let connection = shell.connect().await?;
    let resource = connection.resource(question.word).await?;
    let document = openapi_of(&connection, &resource).await?;
    let all = &document["components"]["schemas"];
    let root = schema_of(all, &resource).ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("the server has no schema for {}", resource.kind))
    })?;
    explanation(&resource, &Document { root, all }, question)
}

async fn openapi_of(connection: &Connection, resource: &Resource) -> Result<Value, Failure> {
    let index = connection.get("/openapi/v3").await?;
    let group = match resource.group.as_str() {
        "" => format!("api/{}", resource.version),
        group => format!("apis/{group}/{}", resource.version),
    };
    match index["paths"][&group]["serverRelativeURL"].as_str() {
        Some(url) => connection.get(url).await,
        None => connection.get(&format!("/openapi/v3/{group}")).await,
    }
}

/// The schema that says it is this kind.
fn schema_of<'a>(all: &'a Value, resource: &Resource) -> Option<&'a Value> {
    all.as_object()?.values().find(|schema| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|one| {
            one["kind"] == resource.kind.as_str()
                && one["version"] == resource.version.as_str()
                && one["group"].as_str().unwrap_or_default() == resource.group
        })
    })
}

fn explanation(
    resource: &Resource,
    document: &Document<'_>,
    question: Question<'_>,
) -> Result<String, Failure> {
    let mut text = format!("KIND:     {}\nVERSION:  {}\n", resource.kind, resource.api_version());
    let mut schema = document.resolve(document.root);
    for (index, name) in question.path.iter().enumerate() {
        let parent = document.inner(&schema);
        schema = match parent["properties"].get(name) {
            Some(child) => document.resolve(child),
            None => return Err(no_such_field(question, index, &parent)),
        };
    }
    if let Some(name) = question.path.last() {
        text.push_str(&format!("\nFIELD:    {} <{}>\n", harmless(name), document.type_of(&schema)));
    }
    text.push_str("\nDESCRIPTION:\n");
    text.push_str(&wrapped(description(&schema), 4));
    text.push_str(&allowed(&schema, 4));
    let inner = document.inner(&schema);
    if inner["properties"].as_object().is_some_and(|fields| !fields.is_empty()) {
        text.push_str("\nFIELDS:\n");
        text.push_str(&document.fields(&inner, question.recursive, 1));
    }
    Ok(text)
}

fn no_such_field(question: Question<'_>, index: usize, parent: &Value) -> Failure {
    let name = &question.path[index];
    let mut place = vec![question.word];
    place.extend(question.path[..index].iter().map(String::as_str));
    let fields: Vec<&str> = parent["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    let failure =
        Failure::new(Exit::NotFound, format!("{} has no field `{name}`", place.join(".")));
    match tombolo_model::suggest::nearest(name, fields.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None if fields.is_empty() => failure.hint("it has no fields at all"),
        None => failure.hint(format!("it has {}", fields.join(", "))),
    }
}

impl Document<'_> {
    /// Follows references. What stands beside one (its own description) wins.
    fn resolve(&self, schema: &Value) -> Value {
        let mut resolved = schema.clone();
        for _ in 0..DEPTH_MAX {
            let Some(map) = resolved.as_object_mut() else {
                return resolved;
            };
            let target = match (map.remove("$ref"), map.remove("allOf")) {
                (Some(Value::String(reference)), _) => {
                    let name = reference.rsplit('/').next().unwrap_or_default();
                    self.all[name].clone()
                }
                (_, Some(Value::Array(mut parts))) if parts.len() == 1 => parts.remove(0),
                (_, _) => return resolved,
            };
            let Value::Object(mut merged) = target else {
                return resolved;
            };
            merged.extend(std::mem::take(map));
            resolved = Value::Object(merged);
        }
        resolved
    }

    /// What has the fields: of a list its items, of a map its values.
    fn inner(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        for _ in 0..DEPTH_MAX {
            let next = match (&schema["items"], &schema["additionalProperties"]) {
                (items @ Value::Object(_), _) => self.resolve(items),
                (_, values @ Value::Object(_)) => self.resolve(values),
                (_, _) => return schema,
            };
            schema = next;
        }
        schema
    }

    fn type_of(&self, schema: &Value) -> String {
        if schema["x-kubernetes-int-or-string"] == true {
            return "integer or string".to_owned();
        }
        match schema["type"].as_str() {
            Some("array") => format!("[]{}", self.type_of(&self.resolve(&schema["items"]))),
            Some("object") => match &schema["additionalProperties"] {
                values @ Value::Object(_) => {
                    format!("map[string]{}", self.type_of(&self.resolve(values)))
                }
                _ => "Object".to_owned(),
            },
            Some(name) => harmless(name),
            None if schema["properties"].is_object() => "Object".to_owned(),
            None => "any".to_owned(),
        }
    }

    fn fields(&self, schema: &Value, recursive: bool, depth: usize) -> String {
        let nothing = Map::new();
        let required = schema["required"].as_array();
        let mut text = String::new();
        for (name, field) in schema["properties"].as_object().unwrap_or(&nothing) {
            let field = self.resolve(field);
            let is_required = required.into_iter().flatten().any(|one| one == name);
            let mark = if is_required { " required" } else { "" };
            let indent = depth * 2;
            let kind = self.type_of(&field);
            text.push_str(&format!("{:indent$}{} <{kind}>{mark}\n", "", harmless(name)));
            if !recursive {
                text.push_str(&wrapped(description(&field), indent + 4));
                text.push_str(&allowed(&field, indent + 4));
                text.push('\n');
            } else if depth < DEPTH_MAX {
                text.push_str(&self.fields(&self.inner(&field), recursive, depth + 1));
            }
        }
        match depth {
            1 => format!("{}\n", text.trim_end_matches('\n')),
            _ => text,
        }
    }
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or("<no description>")
}

/// The values that a field takes, and the one it has if nobody says.
fn allowed(schema: &Value, indent: usize) -> String {
    let mut text = String::new();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(plain).collect();
        text.push_str(&wrapped(&format!("One of: {}.", values.join(", ")), indent));
    }
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        text.push_str(&wrapped(&format!("Default: {}.", plain(default)), indent));
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Words in lines of [`WIDTH`], indented; paragraphs stay paragraphs.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace().map(harmless) {
            let width = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && width + indent > WIDTH {
                lines.push_str(&format!("{:indent$}{line}\n", ""));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        lines.push_str(format!("{:indent$}{line}", "").trim_end());
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({
            "dev.example.Widget": {
                "description": "A widget.", "type": "object", "required": ["spec"],
                "x-kubernetes-group-version-kind":
                    [{"group": "tombolo.dev", "version": "v1alpha1", "kind": "App"}],
                "properties": {"spec": {
                    "description": "What is wanted.",
                    "allOf": [{"$ref": "#/components/schemas/dev.example.Spec"}]}}},
            "dev.example.Spec": {
                "type": "object", "description": "Overridden.", "required": ["parts"],
                "properties": {
                    "parts": {"type": "array", "description": "The parts of which it is made, told \
                        in a sentence that is too long for a single line of eighty characters.",
                        "items": {"$ref": "#/components/schemas/dev.example.Part"}},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "dev.example.Part": {"type": "object", "properties": {
                "size": {"x-kubernetes-int-or-string": true, "description": "How big."},
                "mode": {"type": "string", "enum": ["on", "off"], "default": "on",
                    "description": "Whether it goes."},
                "inner": {"$ref": "#/components/schemas/dev.example.Part"}}},
        })
    }

    #[track_caller]
    fn check(what: &str, recursive: bool, expect: Expect) {
        let all = document();
        let resource = catalogue::known("App");
        let root = schema_of(&all, &resource).expect("it is there");
        let (word, path) = split(what);
        let question = Question { word, path: &path, recursive };
        let text = match explanation(&resource, &Document { root, all: &all }, question) {
            Ok(text) => text,
            Err(failure) => format!("{}; {}", failure.message, failure.hint.unwrap_or_default()),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn a_kind_is_explained_with_its_fields() {
        check(
            "app",
            false,
            expect![[r#"
            KIND:     App
            VERSION:  tombolo.dev/v1alpha1

            DESCRIPTION:
                A widget.

            FIELDS:
              spec <Object> required
                  What is wanted.
        "#]],
        );
        check(
            "app.spec",
            false,
            expect![[r#"
            KIND:     App
            VERSION:  tombolo.dev/v1alpha1

            FIELD:    spec <Object>

            DESCRIPTION:
                What is wanted.

            FIELDS:
              labels <map[string]string>
                  <no description>

              parts <[]Object> required
                  The parts of which it is made, told in a sentence that is too long for a
                  single line of eighty characters.
        "#]],
        );
    }

    #[test]
    fn a_path_goes_through_lists_and_references() {
        check(
            "app.spec.parts.mode",
            false,
            expect![[r#"
            KIND:     App
            VERSION:  tombolo.dev/v1alpha1

            FIELD:    mode <string>

            DESCRIPTION:
                Whether it goes.
                One of: on, off.
                Default: on.
        "#]],
        );
        check(
            "app.spec.parts",
            false,
            expect![[r#"
            KIND:     App
            VERSION:  tombolo.dev/v1alpha1

            FIELD:    parts <[]Object>

            DESCRIPTION:
                The parts of which it is made, told in a sentence that is too long for a
                single line of eighty characters.

            FIELDS:
              inner <Object>
                  <no description>

              mode <string>
                  Whether it goes.
                  One of: on, off.
                  Default: on.

              size <integer or string>
                  How big.
        "#]],
        );
    }

    #[test]
    fn a_wrong_field_gets_a_suggestion() {
        check(
            "app.spec.part",
            false,
            expect!["app.spec has no field `part`; did you mean `parts`?"],
        );
        check(
            "app.spec.labels.x.y",
            false,
            expect!["app.spec.labels has no field `x`; it has no fields at all"],
        );
    }

    #[test]
    fn circles_of_references_come_to_an_end() {
        let all = document();
        let resource = catalogue::known("App");
        let root = schema_of(&all, &resource).expect("it is there");
        let question = Question { word: "app", path: &[], recursive: true };
        let text = explanation(&resource, &Document { root, all: &all }, question);
        let text = text.expect("it ends");
        assert!(text.lines().count() < 200, "{text}");
    }

    #[test]
    fn every_own_kind_can_be_explained_without_a_server() {
        for kind in tombolo_model::kind_names() {
            let resource = catalogue::known(kind);
            let schema = schemas::compiled_in(&resource).expect("it is ours");
            let document = Document { root: &schema, all: &Value::Null };
            let path = ["spec".to_owned()];
            let question = Question { word: kind, path: &path, recursive: false };
            let text = explanation(&resource, &document, question).expect("it has a spec");
            assert!(text.contains("FIELDS:") && !text.contains("<no description>"), "{text}");
        }
    }
}
