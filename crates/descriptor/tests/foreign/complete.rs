//! Notes are complete: each key that a format knows is either in what was made of the text, or in
//! the notes. A key is in it when taking the key away changes it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tombolo_descriptor::Reading;

use crate::reading;

/// Every key of the file `complete/NAME` counts, and there may be no errors in it. `implied` are the
/// keys that say what would hold without them.
#[track_caller]
fn check(name: &str, implied: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/complete");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let (documents, problems) = tombolo_yaml::documents(&text, &tombolo_yaml::Limits::default());
    assert!(problems.is_empty(), "{problems:?}");
    let document = documents[0].to_json();
    let whole = reading(&document.to_string());
    assert_eq!(whole.diagnostics, [], "in {name}");
    let mut silent = Vec::new();
    let mut keys = 0;
    for (path, pointer) in leaves(&document) {
        keys += 1;
        let mut without = document.clone();
        remove(&mut without, &pointer);
        let less = reading(&without.to_string());
        if !is_told(&whole, &path) && less.apps == whole.apps && less.others == whole.others {
            silent.push(path);
        }
    }
    assert!(keys > 10, "only {keys} keys in {name}");
    assert_eq!(silent, implied, "what nobody tells of in {name}");
}

/// Whether a note speaks of a place or of what holds it.
fn is_told(reading: &Reading, path: &str) -> bool {
    reading.notes.iter().any(|note| {
        let rest = path.strip_prefix(note.path.as_str());
        !note.path.is_empty()
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// The way to every scalar, as notes write it and as its keys.
fn leaves(document: &Value) -> Vec<(String, Vec<Value>)> {
    let mut found = Vec::new();
    walk(document, String::new(), &mut Vec::new(), &mut found);
    found
}

fn walk(value: &Value, path: String, way: &mut Vec<Value>, found: &mut Vec<(String, Vec<Value>)>) {
    let mut below = |key: Value, path: String, value: &Value| {
        way.push(key);
        walk(value, path, way, found);
        way.pop();
    };
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let path = match (path.as_str(), key.chars().all(plain)) {
                    ("", _) => key.clone(),
                    (path, true) => format!("{path}.{key}"),
                    (path, false) => format!("{path}[{key}]"),
                };
                below(Value::from(key.as_str()), path, value);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                below(Value::from(index), format!("{path}[{index}]"), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.push((path, way.clone()));
        }
    }
}

/// Takes the last key of the way out.
fn remove(document: &mut Value, way: &[Value]) {
    let (last, way) = way.split_last().unwrap();
    let mut at = document;
    for key in way {
        at = match key.as_u64() {
            Some(index) => &mut at[usize::try_from(index).unwrap()],
            None => &mut at[key.as_str().unwrap()],
        };
    }
    match (at, last) {
        (Value::Object(entries), Value::String(key)) => drop(entries.remove(key)),
        (Value::Array(items), index) => {
            drop(items.remove(usize::try_from(index.as_u64().unwrap()).unwrap()));
        }
        (other, _) => panic!("{other} holds nothing"),
    }
}

#[test]
fn every_key_of_a_codecoapp_is_carried_or_told() {
    let own = "spec.codecoapp-msspec[0].serviceChannels[1].otherService.appName";
    check("codeco.yaml", &["apiVersion", "kind", own]);
    check("codeco-older.yaml", &["apiVersion", "kind"]);
}

#[test]
fn every_key_of_an_orchestration_is_carried_or_told() {
    let peered = "spec.apps[0].components[0].expose[0].is-peered";
    check("charity-orchestration.yaml", &["apiVersion", "kind", peered]);
}

#[test]
fn every_key_of_a_blueprint_is_carried_or_told() {
    let os = "renderer-node.node_filter.capabilities[1].os.properties.type[0].equal";
    let os = format!("topology_template.node_templates.{os}");
    check("charity-blueprint.yaml", &[&os, "tosca_definitions_version"]);
}

#[test]
fn every_key_of_a_ceaml_model_is_carried_or_told() {
    let implied = [
        "Board.properties.application",
        "Board.properties.daemon_set",
        "Board.properties.deployment_unit",
        "Edge.capabilities.os.properties.type",
        "Machine.properties.deployment_unit",
        "Store.properties.deployment_unit",
        "Store.properties.external_ip",
        "Store.properties.registry.type",
        "Store.properties.storage_type",
    ];
    let mut implied =
        implied.map(|path| format!("topology_template.node_templates.{path}")).to_vec();
    implied.push("tosca_definitions_version".to_owned());
    check("ceaml.yaml", &implied.iter().map(String::as_str).collect::<Vec<_>>());
}
