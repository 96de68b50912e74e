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
mod kept;
mod keys;
mod mounts;
mod once;
mod ports;
mod service;
mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
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
    let Some(document) = laid_over(documents, reader) else { return Vec::new() };
    let root = Field::document(&document);
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

/// The files of a project laid over each other, each with its one document.
fn laid_over<'n>(documents: &'n [Node], reader: &mut Reader<'_>) -> Option<Cow<'n, Node>> {
    let (first, rest) = documents.split_first()?;
    let mut whole = Cow::Borrowed(first);
    let mut before = reader.text_at(first.span);
    for document in rest {
        let text = reader.text_at(document.span);
        match text == before {
            true => {
                let second = Field::document(document);
                second.error(reader, "one-document", "a compose file has one document");
            }
            false => whole = Cow::Owned(extends::merge_files(&whole, document)),
        }
        before = text;
    }
    Some(whole)
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
        version.dropped(reader, "compose files no longer have a version");
    }
    if let Some(include) = fields.take("include") {
        include
            .error(reader, "other-file", "other files cannot be included here")
            .expecting("one file with everything in it; \"docker compose config\" writes one");
    }
    let profiles = profiles(&variables, reader);
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
            .expecting(format!("{SERVICES_MAX} at most: an App has no more components"));
        return Vec::new();
    }
    let resolved = extends::resolve(&services, reader);
    let mut read = Vec::new();
    for (key, original) in services.node.as_map().into_iter().flatten() {
        let node = resolved.get(&key.text).unwrap_or(original);
        let field = Field { node, path: services.path.key(&key.text), key_span: key.span };
        if is_asked_for(&key.text, &field, &profiles, reader) {
            read.extend(Service::read(&key.text, &field, &mut shared, reader));
        }
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

/// The profiles that are asked for.
fn profiles(variables: &Variables, reader: &Reader<'_>) -> BTreeSet<String> {
    let variable = variables.get("COMPOSE_PROFILES").map_or("", String::as_str);
    let named = variable.split(',').map(str::trim).filter(|name| !name.is_empty());
    named.map(str::to_owned).chain(reader.profiles.iter().cloned()).collect()
}

/// Whether a service runs: always without profiles, else with one of them.
fn is_asked_for(
    key: &str,
    service: &Field<'_>,
    asked: &BTreeSet<String>,
    reader: &mut Reader<'_>,
) -> bool {
    let Some(field) = service.look(&["profiles"]) else { return true };
    let own = field.node.as_list().unwrap_or_default();
    let own: Vec<&str> = own.iter().filter_map(Node::as_str).collect();
    let is_asked = |name: &&str| asked.contains(*name) || asked.contains("*");
    if own.iter().any(is_asked) || field.node.as_list().is_some_and(<[_]>::is_empty) {
        return true;
    }
    let why = match own.first() {
        Some(first) => format!("the service {key:?} runs only when asked for: --profile {first}"),
        None => format!("the service {key:?} runs only when one of its profiles is asked for"),
    };
    service.dropped(reader, &why);
    false
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

impl<'a> Project<'a> {
    fn into_components(self, shared: &Shared<'_>, reader: &mut Reader<'_>) -> Vec<Component> {
        let hosts = self.hosts();
        let once = once::places(&self.services);
        let names: BTreeMap<String, String> = self
            .services
            .iter()
            .enumerate()
            .map(|(index, service)| {
                let place = &self.services[once::place(&once, index)];
                (service.key.clone(), place.component.name.clone())
            })
            .collect();
        let mut components = Vec::new();
        for (index, service) in self.services.iter().enumerate() {
            if once.contains_key(&index) {
                let beside = &self.services[once::place(&once, index)];
                let how = format!(
                    "runs only on Docker sites: it runs to its end before {:?} starts, as a part of it",
                    beside.key
                );
                service.field.changed(reader, &how);
                continue;
            }
            reader.origin(format!("spec.components[{}]", components.len()), service.field.key_span);
            let first: Vec<&Service<'a>> = once::before(&once, index)
                .into_iter()
                .map(|before| &self.services[before])
                .collect();
            let mut component = service.component.clone();
            for one in first.iter().copied().chain([service]) {
                connect(one, &mut component, &names, &hosts, reader);
            }
            component.run = vec![match service.is_kept || !first.is_empty() {
                true => {
                    let together: Vec<&Service<'a>> = first.into_iter().chain([service]).collect();
                    let project = kept::project(&together, self.networks, shared, reader);
                    Run { compose: Some(project), ..Run::default() }
                }
                false => Run { container: Some(service.container.clone()), ..Run::default() },
            }];
            components.push(component);
        }
        self.share_volumes(&once, &mut components, reader);
        components
    }

    /// A volume of one name is one folder of a node, so those that share one belong together.
    fn share_volumes(
        &self,
        once: &BTreeMap<usize, usize>,
        components: &mut [Component],
        reader: &mut Reader<'_>,
    ) {
        let mut first_with: BTreeMap<&str, (&str, String)> = BTreeMap::new();
        for (index, service) in self.services.iter().enumerate() {
            let place = &self.services[once::place(once, index)].component.name;
            for volume in &service.container.volumes {
                let Some(name) = volume.name.as_deref() else { continue };
                let (key, first) = first_with.entry(name).or_insert((&service.key, place.clone()));
                if first == place {
                    continue;
                }
                let what = format!(
                    "shares the volume {name:?} with {key:?}: they run at one site, and a site of \
                     several nodes has the volume once on each"
                );
                service.field.assumed(reader, &what);
                let own = components.iter_mut().find(|component| component.name == *place);
                let Some(own) = own else { continue };
                let with = &mut own.affinity.get_or_insert_default().with;
                if !with.contains(first) {
                    with.push(first.clone());
                }
            }
        }
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

/// Whom a service waits for, is linked to, or names in its environment.
fn connect(
    service: &Service<'_>,
    component: &mut Component,
    names: &BTreeMap<String, String>,
    hosts: &BTreeMap<String, Host>,
    reader: &mut Reader<'_>,
) {
    for call in &service.calls {
        match names.get(&call.key) {
            // It waits for what is a part of the same component.
            Some(name) if *name == component.name && call.key != service.key => (),
            Some(name) => mentions::add(&mut component.connects, connection(name.clone())),
            None => call.tell_missing(names.keys().map(String::as_str), reader),
        }
    }
    let said = mentions::said_by(&service.container);
    for found in mentions::connections(said, hosts, &component.name) {
        let what = format!("it calls {:?}, whose name is in its environment", found.to);
        service.field.assumed(reader, &what);
        mentions::add(&mut component.connects, found);
    }
}

fn connection(to: String) -> tombolo_model::component::Connection {
    tombolo_model::component::Connection { to, ..Default::default() }
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
