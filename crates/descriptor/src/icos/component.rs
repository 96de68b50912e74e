//! One component of an ICOS descriptor: its manifests become the ways to run it, its requirements
//! what a node must offer, its Services the ports that others reach.

use serde_json::{Map, Value};
use tombolo_model::component::{Component, Expose, Protocol};
use tombolo_model::run::Run;
use tombolo_yaml::Node;

use super::manifests::{Engine, Manifest, Manifests, wrong_engine};
use super::{ENTRIES_MAX, requirements};
use crate::fields::{Field, Rest};
use crate::path::shown;
use crate::reader::Reader;

const KNOWN: &[&str] = &["name", "type", "manifests", "requirements", "policies", "communication"];

/// A component as far as it can be read by itself; policies and links need all of them.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub(super) component: Component,
    /// The name as it stands in the text, which others refer to.
    pub(super) written: &'a str,
    pub(super) manifests: Vec<Manifest<'a>>,
    pub(super) policies: Option<Field<'a>>,
    pub(super) communication: Option<Field<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Kubernetes,
    Docker,
    Multiple,
    /// Whatever the manifests are.
    Manifest,
}

pub(super) fn read<'a>(
    entry: &Field<'a>,
    number: usize,
    whole: Option<&Field<'a>>,
    all: &mut Manifests<'a>,
    reader: &mut Reader<'_>,
) -> Option<Read<'a>> {
    let at = format!("spec.components[{number}]");
    let mut fields = entry.fields(reader)?;
    let name = fields.need("name", reader, "the name of the component");
    let kind = fields.take("type").and_then(|field| read_type(&field, reader));
    let mut component = Component::default();
    let mut written = "";
    if let Some(field) = name {
        component.name = field.label(reader)?;
        written = field.str(reader)?;
        field.origin(reader, format!("{at}.name"));
        field.origin(reader, at.clone());
    }
    let listed = fields.take("manifests");
    let manifests: Vec<Manifest<'a>> = match &listed {
        Some(field) => {
            field.origin(reader, format!("{at}.run"));
            let entries = field.at_most(field.list(reader), ENTRIES_MAX, reader);
            entries.iter().filter_map(|entry| find(entry, all, reader)).collect()
        }
        None => {
            fields.missing(reader, "manifests", "the manifests of the component, by name");
            Vec::new()
        }
    };
    check_engines(kind, &manifests, &listed, reader);
    component.run = ways(&manifests, &at, reader);
    component.expose = exposed(&manifests, reader);

    let own = fields.take("requirements");
    requirements::read(&mut component, own.as_ref(), whole, &at, reader);
    requirements::add_up(&mut component, &manifests, &at, reader);
    let policies = fields.take("policies");
    let communication = fields.take("communication");
    fields.finish(Rest::Foreign { known: KNOWN, dropped: &[] }, reader);
    Some(Read { component, written, manifests, policies, communication })
}

fn read_type(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Type> {
    let words = [
        ("kubernetes", Type::Kubernetes),
        ("docker", Type::Docker),
        ("multiple", Type::Multiple),
        ("manifest", Type::Manifest),
    ];
    let read = field.one_of(reader, &words)?;
    field.changed(reader, "the manifests themselves say which engines can run them");
    Some(read)
}

/// An entry names a manifest, or is one.
fn find<'a>(
    entry: &Field<'a>,
    all: &mut Manifests<'a>,
    reader: &mut Reader<'_>,
) -> Option<Manifest<'a>> {
    let is_reference = match entry.node.as_map() {
        Some([(key, _)]) => key.text == "name",
        Some(_) => false,
        None => true,
    };
    if !is_reference {
        let index = all.add(entry, reader)?;
        return all.at(index).cloned();
    }
    let name_field = match entry.node.as_map() {
        Some(_) => entry.look(&["name"])?,
        None => entry.clone(),
    };
    let name = name_field.str(reader)?;
    if let Some(manifest) = all.find(name) {
        let manifest = manifest.clone();
        return name_field.may_copy_node(manifest.content.node, reader).then_some(manifest);
    }
    if all.is_partial() {
        return None;
    }
    all.tell_unknown(&name_field, reader);
    None
}

fn check_engines(
    kind: Option<Type>,
    manifests: &[Manifest<'_>],
    listed: &Option<Field<'_>>,
    reader: &mut Reader<'_>,
) {
    let only = match kind {
        Some(Type::Kubernetes) => Engine::Kubernetes,
        Some(Type::Docker) => Engine::Docker,
        Some(Type::Multiple | Type::Manifest) | None => return,
    };
    let Some(listed) = listed else { return };
    for (index, manifest) in manifests.iter().enumerate() {
        if manifest.engine != only {
            let entries = listed.look_through();
            let at = entries.get(index).unwrap_or(listed);
            wrong_engine(at, manifest.engine, reader);
        }
    }
}

/// One way for each engine, in the order in which the component names them.
fn ways(manifests: &[Manifest<'_>], at: &str, reader: &mut Reader<'_>) -> Vec<Run> {
    let mut runs: Vec<(Engine, Run)> = Vec::new();
    for manifest in manifests {
        let index = match runs.iter().position(|(engine, _)| *engine == manifest.engine) {
            Some(index) => index,
            None => {
                runs.push((manifest.engine, Run::default()));
                runs.len() - 1
            }
        };
        let run = &mut runs[index].1;
        match manifest.engine {
            Engine::Kubernetes => {
                let place = format!("{at}.run[{index}].manifests[{}]", run.manifests.len());
                manifest.content.origin(reader, place);
                run.manifests.push(manifest.content.node.to_json());
            }
            Engine::Docker => {
                manifest.content.origin(reader, format!("{at}.run[{index}].compose"));
                add_project(run, manifest, reader);
            }
        }
    }
    runs.into_iter().map(|(_, run)| run).collect()
}

/// A second compose project of one component goes into the first.
fn add_project(run: &mut Run, manifest: &Manifest<'_>, reader: &mut Reader<'_>) {
    let added = manifest.content.node.to_json();
    let Some(Value::Object(project)) = &mut run.compose else {
        run.compose = Some(added);
        return;
    };
    let Value::Object(added) = added else { return };
    manifest.content.changed(reader, "joined with the first compose project of the component");
    for (section, value) in added {
        match (project.get_mut(&section), value) {
            (None, value) => {
                project.insert(section, value);
            }
            (Some(Value::Object(present)), Value::Object(more)) => {
                join(present, more, &section, manifest, reader);
            }
            (Some(present), value) if *present == value => (),
            (Some(_), _) => {
                let message = format!("both compose projects of the component say {section:?}");
                let at = manifest.content.look(&[&section]).unwrap_or(manifest.content.clone());
                at.error(reader, "duplicate", message);
            }
        }
    }
}

fn join(
    present: &mut Map<String, Value>,
    more: Map<String, Value>,
    section: &str,
    manifest: &Manifest<'_>,
    reader: &mut Reader<'_>,
) {
    for (name, value) in more {
        if present.get(&name).is_some_and(|other| *other != value) {
            let message =
                format!("two compose projects of one component both have {}", shown(&name));
            // To find each among all others takes long, and is for nobody past the last one told.
            let at =
                (!reader.is_full()).then(|| manifest.content.look(&[section, &name])).flatten();
            at.unwrap_or(manifest.content.clone()).error(reader, "duplicate", message);
            continue;
        }
        present.insert(name, value);
    }
}

/// The ports of the Services among the manifests.
fn exposed(manifests: &[Manifest<'_>], reader: &mut Reader<'_>) -> Vec<Expose> {
    let mut expose: Vec<Expose> = Vec::new();
    let services = manifests.iter().filter(|manifest| is_service(manifest.content.node));
    for service in services {
        let kind = service.content.node.at(&["spec", "type"]).and_then(Node::as_str);
        let public = matches!(kind, Some("NodePort" | "LoadBalancer"));
        let ports = service.content.look(&["spec", "ports"]);
        for port in ports.iter().flat_map(Field::look_through) {
            let Some(exposed) = read_port(&port, public, reader) else { continue };
            let twin =
                |other: &Expose| other.port == exposed.port && other.protocol == exposed.protocol;
            if expose.len() < ENTRIES_MAX && !expose.iter().any(twin) {
                expose.push(exposed);
            }
        }
    }
    expose
}

pub(super) fn is_service(node: &Node) -> bool {
    node.get("kind").and_then(Node::as_str) == Some("Service")
}

fn read_port(port: &Field<'_>, public: bool, reader: &mut Reader<'_>) -> Option<Expose> {
    // A target by name is a matter of the Pod; the Service's own number is known.
    let target = port.look(&["targetPort"]).filter(|target| target.node.as_str().is_none());
    let listened = target.or_else(|| port.look(&["port"]))?;
    let published = match port.look(&["nodePort"]) {
        Some(field) => field.port(reader),
        None => None,
    };
    let protocol = match port.node.get("protocol").and_then(Node::as_str) {
        Some("UDP") => Protocol::Udp,
        Some(_) | None => Protocol::Tcp,
    };
    let name = port.node.get("name").and_then(Node::as_str);
    let name = name.filter(|name| tombolo_model::names::label(name).is_ok());
    Some(Expose {
        port: listened.port(reader)?,
        protocol,
        name: name.map(str::to_owned),
        public,
        published: published.filter(|_| public),
    })
}
