//! Who calls whom: `incoming` names a service that a component depends on, `outgoing` one that it
//! provides; `dependencies` of the header say the same for components. All become `connects`.

use std::collections::BTreeMap;

use tombolo_model::component::{Component, Connection};
use tombolo_model::suggest;
use tombolo_yaml::{Node, Value};

use super::component::{Read, is_service};
use super::manifests::Engine;
use super::{COMPONENTS_MAX, ENTRIES_MAX};
use crate::fields::{Field, Rest};
use crate::path::shown;
use crate::reader::Reader;

/// Pairs that the header names; more than any App could carry in a sensible way.
const DEPENDENCIES_MAX: usize = 4096;

/// Who provides a service, and on which port.
#[derive(Clone, Debug)]
struct Provider {
    component: String,
    port: Option<u16>,
}

/// Services by name; of two components with a service of one name the first counts.
type Provided<'a> = BTreeMap<&'a str, Provider>;

pub(super) fn connect(
    components: &mut [Read<'_>],
    dependencies: Option<&Field<'_>>,
    reader: &mut Reader<'_>,
) {
    let mut provided = Provided::new();
    for (service, provider) in components.iter().flat_map(services_of) {
        provided.entry(service).or_insert(provider);
    }
    let mut wanted: Vec<(usize, Field<'_>)> = Vec::new();
    for (index, read) in components.iter().enumerate() {
        let Some(communication) = &read.communication else { continue };
        let entries = communication.list_or_mapping(reader);
        for entry in communication.at_most(entries, ENTRIES_MAX, reader) {
            let Some(mut fields) = entry.fields(reader) else { continue };
            let incoming = fields.take("incoming");
            for field in incoming.map(|field| few(&field, reader)).unwrap_or_default() {
                wanted.push((index, field));
            }
            let outgoing = fields.take("outgoing");
            for field in outgoing.map(|field| few(&field, reader)).unwrap_or_default() {
                provide(&field, read, &mut provided, reader);
            }
            let known = &["incoming", "outgoing"];
            fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
        }
    }
    for (index, field) in wanted {
        let Some(connection) = resolve(&field, components, &provided, reader) else { continue };
        add(&mut components[index].component, connection);
    }
    if let Some(field) = dependencies {
        depend(field, components, reader);
    }
}

fn few<'a>(field: &Field<'a>, reader: &mut Reader<'_>) -> Vec<Field<'a>> {
    field.at_most(field.list_or_one(reader), ENTRIES_MAX, reader)
}

/// The Services and compose services of a component.
fn services_of<'a>(read: &Read<'a>) -> Vec<(&'a str, Provider)> {
    let mut provided = Vec::new();
    let provider = |port| Provider { component: read.component.name.clone(), port };
    for manifest in &read.manifests {
        let node = manifest.content.node;
        match manifest.engine {
            Engine::Kubernetes if is_service(node) => {
                let ports = node.at(&["spec", "ports"]).and_then(Node::as_list);
                let port = ports.and_then(|ports| ports.first()?.get("port")?.raw()?.parse().ok());
                // In the list it may go by another name than its own.
                for name in [Some(manifest.name), manifest.object_name].into_iter().flatten() {
                    provided.push((name, provider(port)));
                }
            }
            Engine::Kubernetes => (),
            Engine::Docker => {
                let services = node.get("services").and_then(Node::as_map).unwrap_or_default();
                provided
                    .extend(services.iter().map(|(key, _)| (key.text.as_str(), provider(None))));
            }
        }
    }
    provided
}

fn provide<'a>(
    field: &Field<'a>,
    read: &Read<'a>,
    provided: &mut Provided<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(service) = field.str(reader) else { return };
    let component = &read.component.name;
    if provided.get(service).is_some_and(|provider| provider.component == *component) {
        field.changed(reader, "said by the Service itself, whose ports the component exposes");
        return;
    }
    field.assumed(reader, "no Service of this name is among the manifests; its port is not known");
    // Who says so itself comes before who merely has a service of that name.
    provided.insert(service, Provider { component: component.clone(), port: None });
}

fn resolve(
    field: &Field<'_>,
    components: &[Read<'_>],
    provided: &Provided<'_>,
    reader: &mut Reader<'_>,
) -> Option<Connection> {
    let name = field.str(reader)?;
    if let Some(Provider { component, port }) = provided.get(name) {
        return Some(Connection { to: component.clone(), port: *port, ..Connection::default() });
    }
    if let Some(read) = components.iter().find(|read| read.written == name) {
        return Some(Connection { to: read.component.name.clone(), ..Connection::default() });
    }
    let names = provided.keys().copied().chain(components.iter().map(|read| read.written));
    let message = format!("no component provides the service {}", shown(name));
    let diagnostic = field.warning(reader, "unknown-service", message);
    diagnostic.expecting(suggest::one_of(names.clone().take(16)));
    diagnostic.mended_by_nearest(field.node.span, name, names);
    field.dropped(reader, "no component of this application provides the service");
    None
}

fn add(component: &mut Component, connection: Connection) {
    let twin = |other: &Connection| other.to == connection.to && other.port == connection.port;
    if component.connects.len() < ENTRIES_MAX && !component.connects.iter().any(twin) {
        component.connects.push(connection);
    }
}

/// `{consumer: [producer, …]}`, or a list of `{consumer, producer}`.
fn depend(field: &Field<'_>, components: &mut [Read<'_>], reader: &mut Reader<'_>) {
    match &field.node.value {
        Value::Map(_) => {
            let Some(fields) = field.fields(reader) else { return };
            for (key, producers) in fields.entries().into_iter().take(COMPONENTS_MAX) {
                let consumer = index_of(components, &key.text);
                for producer in few(&producers, reader) {
                    link(consumer, &producer, components, reader);
                }
            }
        }
        Value::List(_) => {
            for entry in field.at_most(field.list(reader), DEPENDENCIES_MAX, reader) {
                let Some(mut fields) = entry.fields(reader) else { continue };
                let consumer = fields.take_any(&["consumer", "component", "from"]);
                let producer = fields.take_any(&["producer", "dependsOn", "to"]);
                let known = &["consumer", "producer"];
                fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
                let (Some(consumer), Some(producer)) = (consumer, producer) else {
                    entry.dropped(reader, "it does not name a consumer and a producer");
                    continue;
                };
                let name = consumer.str(reader).unwrap_or_default();
                let index = index_of(components, name);
                if index.is_none() {
                    unknown_component(&consumer, components, reader);
                    continue;
                }
                link(index, &producer, components, reader);
            }
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
            field.wrong_kind(reader, "a list of {consumer, producer}");
        }
    }
}

fn link(
    consumer: Option<usize>,
    producer: &Field<'_>,
    components: &mut [Read<'_>],
    reader: &mut Reader<'_>,
) {
    let Some(consumer) = consumer else {
        producer.dropped(reader, "no component has the name of the consumer");
        return;
    };
    let Some(name) = producer.str(reader) else { return };
    match index_of(components, name) {
        Some(index) => {
            let to = components[index].component.name.clone();
            let known = components[consumer].component.connects.iter().any(|link| link.to == to);
            if known {
                producer.changed(reader, "said by the communication of the component already");
                return;
            }
            add(&mut components[consumer].component, Connection { to, ..Connection::default() });
        }
        None => unknown_component(producer, components, reader),
    }
}

fn index_of(components: &[Read<'_>], name: &str) -> Option<usize> {
    components.iter().position(|read| read.written == name)
}

fn unknown_component(field: &Field<'_>, components: &[Read<'_>], reader: &mut Reader<'_>) {
    let names = components.iter().map(|read| read.written);
    super::unknown_name(field, reader, "unknown-component", "component", names);
}
