//! Compose files: every service becomes a component. Called through the table of formats, and by
//! the ICOS reader for components of type docker ([`read_project`]). Start with [`read`].
//!
//! A service runs as a `container`. Where it says something that a container cannot and without
//! which it would not be the same ([`keys::UNSAID`]), it is kept in its own words instead, as
//! a `compose` project of one service, and runs on Docker sites only.

mod contents;
mod deploy;
mod extends;
mod interpolate;
mod keys;
mod mounts;
mod ports;
mod service;
mod words;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tombolo_model::component::Component;
use tombolo_model::run::Run;
use tombolo_model::{App, AppSpec};
use tombolo_yaml::Node;

use crate::beyond::foreign;
use crate::compose::interpolate::Variables;
use crate::compose::mounts::Shared;
use crate::compose::ports::PORTS_MAX;
use crate::compose::service::Service;
use crate::fields::{Field, Fields};
use crate::mentions::{self, Host};
use crate::reader::{Reader, dashed};

/// The name of an App whose text has none and lies in no folder.
const NAMELESS: &str = "compose";
/// As many as an App may have components.
const SERVICES_MAX: usize = 512;
/// Where variables come from.
const ENV_FILE: &str = ".env";

/// Reads the documents of one text.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    if let Some(second) = documents.get(1) {
        let second = Field::document(second);
        second.error(reader, "one-document", "a compose file has one document");
    }
    let Some(document) = documents.first() else { return Vec::new() };
    let root = Field::document(document);
    let name = root.node.get("name").and_then(Node::as_str).map(str::to_owned);
    if name.is_none() {
        let assumed = name_of_file(reader);
        let what = format!("the App is named {assumed:?}; \"name\" at the top would name it");
        root.assumed(reader, &what);
    }
    let name = name.unwrap_or_else(|| name_of_file(reader));
    let path = root.path.key("name");
    let name = reader.label(&name, &path, root.node.span).unwrap_or(name);
    let components = read_project(&root, &name, reader);
    vec![App::new(&name, AppSpec { components, ..AppSpec::default() })]
}

/// A project without a name goes by its file, or by the folder where the file has the usual name.
fn name_of_file(reader: &Reader<'_>) -> String {
    let mut parts = reader.source().rsplit(['/', '\\']);
    let file = parts.next().unwrap_or_default();
    let stem = [".yaml", ".yml", ".json"].iter().find_map(|ending| file.strip_suffix(ending));
    let name = match stem {
        Some("compose" | "docker-compose") => {
            reader.folder().or_else(|| parts.next().map(str::to_owned))
        }
        Some(stem) => Some(stem.to_owned()),
        // Not a file: a stream or a request.
        None => None,
    };
    let name = name.map(|name| dashed(&name)).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| NAMELESS.to_owned())
}

/// The components of a compose project that belongs to the App of this name.
pub(crate) fn read_project(root: &Field<'_>, app: &str, reader: &mut Reader<'_>) -> Vec<Component> {
    let variables = match reader.file(ENV_FILE) {
        Some(text) => interpolate::env_file(&text, &Variables::new(), root, reader),
        None => Variables::new(),
    };
    let filled = interpolate::document(root, &variables, reader);
    let root = Field { node: &filled, path: root.path.clone(), key_span: root.key_span };
    let Some(mut fields) = root.fields(reader) else { return Vec::new() };
    fields.take("name");
    if let Some(version) = fields.take("version") {
        version.dropped(reader, "compose files have no versions any more");
    }
    if let Some(include) = fields.take("include") {
        include
            .error(reader, "other-file", "other files cannot be included here")
            .expecting("one file with everything in it; \"docker compose config\" writes one");
    }
    let mut shared = Shared::read(&mut fields, app, variables, reader);
    let networks = fields.take("networks");
    if let Some(models) = fields.take("models") {
        models.dropped(reader, "a component is a container, not a model");
    }
    let services = fields.need("services", reader, "a mapping with the services");
    extensions(&mut fields, reader);
    let known = [
        "configs", "include", "models", "name", "networks", "secrets", "services", "version",
        "volumes",
    ];
    fields.finish(foreign(&known), reader);
    let Some(services) = services else { return Vec::new() };
    let count = services.node.as_map().map_or(0, <[_]>::len);
    if count > SERVICES_MAX {
        services
            .error(reader, "too-many", format!("there are {count} services"))
            .expecting(format!("{SERVICES_MAX} at most, so many components has an App"));
        return Vec::new();
    }
    let resolved = extends::resolve(&services, reader);
    let mut read = Vec::new();
    for (key, original) in services.node.as_map().into_iter().flatten() {
        let node = resolved.get(&key.text).unwrap_or(original);
        let field = Field { node, path: services.path.key(&key.text), key_span: key.span };
        read.extend(Service::read(&key.text, &field, &mut shared, reader));
    }
    if read.is_empty() && !reader.has_errors() {
        services.error(reader, "nothing-runs", "there is no service that runs");
    }
    if let Some(networks) = networks {
        let how = "components reach each other by their names, whatever network they are in";
        networks.dropped(reader, how);
    }
    shared.tell_unused(reader);
    let project = Project { services: read, networks: root.node.get("networks") };
    project.into_components(&shared, reader)
}

/// Keys that begin with `x-` are for other tools.
fn extensions(fields: &mut Fields<'_>, reader: &mut Reader<'_>) {
    for field in fields.take_prefixed("x-") {
        field.dropped(reader, "extension fields are for other tools");
    }
}

struct Project<'a> {
    services: Vec<Service<'a>>,
    networks: Option<&'a Node>,
}

impl Project<'_> {
    fn into_components(self, shared: &Shared<'_>, reader: &mut Reader<'_>) -> Vec<Component> {
        let hosts = self.hosts();
        let names: BTreeMap<String, String> = self
            .services
            .iter()
            .map(|service| (service.key.clone(), service.component.name.clone()))
            .collect();
        let mut components = Vec::new();
        for (index, service) in self.services.into_iter().enumerate() {
            reader.origin(format!("spec.components[{index}]"), service.field.key_span);
            let kept = service.is_kept.then(|| kept(&service, self.networks, shared, reader));
            let Service { field, mut component, container, calls, .. } = service;
            for call in calls {
                match names.get(&call.key) {
                    Some(name) => {
                        let to = name.clone();
                        mentions::add(&mut component.connects, connection(to));
                    }
                    None => call.tell_missing(names.keys().map(String::as_str), reader),
                }
            }
            let said = mentions::said_by(&container);
            for found in mentions::connections(said, &hosts, &component.name) {
                let what = format!("it calls {:?}, whose name is in its environment", found.to);
                field.assumed(reader, &what);
                mentions::add(&mut component.connects, found);
            }
            component.run = vec![match kept {
                Some(project) => Run { compose: Some(project), ..Run::default() },
                None => Run { container: Some(container), ..Run::default() },
            }];
            components.push(component);
        }
        components
    }

    /// Every name under which a service can be called.
    fn hosts(&self) -> BTreeMap<String, Host> {
        let mut hosts = BTreeMap::new();
        for service in &self.services {
            // With more it is no valid component, and it may have any number of names.
            let ports = service.component.expose.iter().take(PORTS_MAX);
            let ports = ports.map(|one| (one.port, one.port)).collect();
            let host = Host { component: service.component.name.clone(), ports };
            for name in service.aliases.iter().chain([&service.key]) {
                hosts.insert(name.clone(), host.clone());
            }
        }
        hosts
    }
}

fn connection(to: String) -> tombolo_model::component::Connection {
    tombolo_model::component::Connection { to, ..Default::default() }
}

/// A project of one service in its own words. What Tombolo does itself is left out of it.
fn kept(
    service: &Service<'_>,
    networks: Option<&Node>,
    shared: &Shared<'_>,
    reader: &mut Reader<'_>,
) -> Value {
    let mut own = service.field.node.to_json();
    if let Some(own) = own.as_object_mut() {
        for key in ["depends_on", "extends", "links", "profiles", "scale"] {
            own.remove(key);
        }
        if let Some(deploy) = own.get_mut("deploy").and_then(Value::as_object_mut) {
            deploy.remove("replicas");
        }
    }
    let mut project = Map::new();
    project.insert("services".into(), json!({service.key.clone(): own}));
    // Only what it names: with everything, many services would become very large.
    let mut declared = Map::new();
    for key in named_in(service.field.node.get("networks")) {
        if let Some(network) = networks.and_then(|networks| networks.get(&key))
            && service.field.may_copy_node(network, reader)
        {
            declared.insert(key, network.to_json());
        }
    }
    if !declared.is_empty() {
        project.insert("networks".into(), declared.into());
    }
    let mut declared = Map::new();
    for key in named_in(service.field.node.get("volumes")) {
        if let Some(volume) = shared.volume(&key)
            && service.field.may_copy_node(volume, reader)
        {
            declared.insert(key, volume.to_json());
        }
    }
    if !declared.is_empty() {
        project.insert("volumes".into(), declared.into());
    }
    escaped(project.into())
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

/// Texts whose variables are filled in, so that they stay as they are when read again.
pub(crate) fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace('$', "$$")),
        Value::Array(items) => Value::Array(items.into_iter().map(escaped).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, escaped(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}
