//! Services that a container cannot say, in their own words: a compose project for a Docker engine. What
//! was looked up while they were read (variables, files beside the text) is in it as it was found, since
//! a node has only the project. Called by [`super`].

use serde_json::{Map, Value, json};
use tombolo_model::run::{Container, KeyRef};
use tombolo_yaml::Node;

use crate::compose::escaped;
use crate::compose::mounts::Shared;
use crate::compose::service::Service;
use crate::reader::Reader;

/// What Tombolo does itself, or has done.
const DONE: &[&str] =
    &["build", "configs", "env_file", "extends", "links", "profiles", "scale", "secrets"];

/// A project of these services, the first before the others.
pub(super) fn project(
    services: &[&Service<'_>],
    networks: Option<&Node>,
    shared: &Shared<'_>,
    reader: &mut Reader<'_>,
) -> Value {
    let mut project = Map::new();
    let mut top = Top::default();
    let mut all = Map::new();
    for service in services {
        let others: Vec<&str> = services.iter().map(|other| other.key.as_str()).collect();
        all.insert(service.key.clone(), one(service, &others, &mut top).into());
        // Only what it names: with everything, many services would become very large.
        for key in named_in(service.field.node.get("networks")) {
            if let Some(network) = networks.and_then(|networks| networks.get(&key))
                && service.field.may_copy_node(network, reader)
            {
                top.networks.insert(key, network.to_json());
            }
        }
        for key in named_in(service.field.node.get("volumes")) {
            if let Some(volume) = shared.volume(&key)
                && service.field.may_copy_node(volume, reader)
            {
                top.volumes.insert(key, volume.to_json());
            }
        }
    }
    project.insert("services".into(), all.into());
    let Top { networks, volumes, configs, secrets } = top;
    for (key, map) in
        [("networks", networks), ("volumes", volumes), ("configs", configs), ("secrets", secrets)]
    {
        if !map.is_empty() {
            project.insert(key.into(), map.into());
        }
    }
    escaped(project.into())
}

/// What stands at the top of a project, beside its services.
#[derive(Default)]
struct Top {
    networks: Map<String, Value>,
    volumes: Map<String, Value>,
    configs: Map<String, Value>,
    secrets: Map<String, Value>,
}

fn one(service: &Service<'_>, others: &[&str], top: &mut Top) -> Map<String, Value> {
    let node = service.field.node.to_json();
    let mut own = node.as_object().cloned().unwrap_or_default();
    for key in DONE {
        own.remove(*key);
    }
    let waits = own.remove("depends_on").and_then(|waits| within(waits, others));
    if let Some(waits) = waits {
        own.insert("depends_on".into(), waits);
    }
    if let Some(deploy) = own.get_mut("deploy").and_then(Value::as_object_mut) {
        deploy.remove("replicas");
    }
    let container = &service.container;
    if !container.image.is_empty() {
        own.insert("image".into(), container.image.clone().into());
    }
    if !container.env.is_empty() {
        own.insert("environment".into(), json!(container.env));
    }
    if let Some(Value::Array(mounts)) = own.remove("volumes") {
        let mounts: Vec<Value> =
            mounts.into_iter().filter_map(|mount| on_a_node(mount, container)).collect();
        if !mounts.is_empty() {
            own.insert("volumes".into(), mounts.into());
        }
    }
    let (configs, secrets) = files(container, top);
    for (key, list) in [("configs", configs), ("secrets", secrets)] {
        if !list.is_empty() {
            own.insert(key.into(), list.into());
        }
    }
    own
}

/// The services of the same project that it waits for.
fn within(waits: Value, others: &[&str]) -> Option<Value> {
    match waits {
        Value::Array(mut names) => {
            names.retain(|name| name.as_str().is_some_and(|name| others.contains(&name)));
            (!names.is_empty()).then_some(Value::Array(names))
        }
        Value::Object(mut names) => {
            names.retain(|name, _| others.contains(&name.as_str()));
            (!names.is_empty()).then_some(Value::Object(names))
        }
        _ => None,
    }
}

/// A mount as a node can have it: nothing where what lies beside the text became files of the App.
fn on_a_node(mount: Value, container: &Container) -> Option<Value> {
    let mut parts = mount.as_str().unwrap_or_default().split(':');
    let (source, target) = match mount.as_object() {
        Some(long) => (text(long.get("source")), text(long.get("target"))),
        None => (parts.next(), parts.next()),
    };
    let is_beside = source.is_some_and(|source| source.starts_with(['.', '~']));
    let Some(target) = target.filter(|_| is_beside) else { return Some(mount) };
    let folder = format!("{}/", target.trim_end_matches('/'));
    let is_carried = |path: &str| path == target || path.starts_with(&folder);
    let carried = container.files.iter().any(|file| is_carried(&file.path));
    (!carried).then(|| json!({"type": "volume", "target": target}))
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}

/// Its files, with their contents at the top.
fn files(container: &Container, top: &mut Top) -> (Vec<Value>, Vec<Value>) {
    let (mut configs, mut secrets) = (Vec::new(), Vec::new());
    for file in &container.files {
        if let Some(content) = &file.content {
            let key = format!("file-{}", top.configs.len());
            top.configs.insert(key.clone(), json!({"content": content}));
            configs.push(json!({"source": key, "target": file.path}));
        } else if let Some(entry) = &file.secret {
            outside(&mut top.secrets, entry);
            secrets.push(json!({"source": entry.key, "target": file.path}));
        } else if let Some(entry) = &file.config {
            outside(&mut top.configs, entry);
            configs.push(json!({"source": entry.key, "target": file.path}));
        }
    }
    (configs, secrets)
}

fn outside(map: &mut Map<String, Value>, entry: &KeyRef) {
    let said = || json!({"external": true, "name": entry.name});
    map.entry(entry.key.clone()).or_insert_with(said);
}

/// The names in `networks` or `volumes` of a service, short or long.
fn named_in(list: Option<&Node>) -> Vec<String> {
    let Some(list) = list else { return Vec::new() };
    let keys = list.as_map().into_iter().flatten().map(|(key, _)| key.text.as_str());
    let items = list.as_list().into_iter().flatten().filter_map(|item| {
        let text = item.as_str().or_else(|| item.get("source").and_then(Node::as_str))?;
        text.split(':').next()
    });
    keys.chain(items).map(str::to_owned).collect()
}
