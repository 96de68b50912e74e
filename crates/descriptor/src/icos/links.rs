//! Who calls whom: `incoming` names a service that a component depends on, `outgoing` one that it
//! provides; `dependencies` of the header say the same for components. All become `connects`.

use tombolo_model::component::{Component, Connection};
use tombolo_yaml::{Node, Value};

use super::component::{Read, is_service};
use super::manifests::Engine;
use crate::fields::{Field, Rest};
use crate::path::shown;
use crate::reader::Reader;

/// A service and the component that provides it.
struct Provided {
    service: String,
    component: String,
    port: Option<u16>,
}

pub(super) fn connect(
    components: &mut [Read<'_>],
    dependencies: Option<&Field<'_>>,
    reader: &mut Reader<'_>,
) {
    let mut provided: Vec<Provided> = components.iter().flat_map(services_of).collect();
    let mut wanted: Vec<(usize, Field<'_>)> = Vec::new();
    for (index, read) in components.iter().enumerate() {
        let Some(communication) = &read.communication else { continue };
        for entry in communication.list_or_mapping(reader) {
            let Some(mut fields) = entry.fields(reader) else { continue };
            let incoming = fields.take("incoming");
            for field in incoming.map(|field| field.list_or_one(reader)).unwrap_or_default() {
                wanted.push((index, field));
            }
            let outgoing = fields.take("outgoing");
            for field in outgoing.map(|field| field.list_or_one(reader)).unwrap_or_default() {
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

/// The Services and compose services of a component.
fn services_of(read: &Read<'_>) -> Vec<Provided> {
    let mut provided = Vec::new();
    let component = &read.component.name;
    for manifest in &read.manifests {
        let node = manifest.content.node;
        match manifest.engine {
            Engine::Kubernetes if is_service(node) => {
                let port = node
                    .at(&["spec", "ports"])
                    .and_then(Node::as_list)
                    .and_then(|ports| ports.first()?.get("port")?.raw()?.parse().ok());
                // In the list it may go by another name than its own.
                let other = manifest.object_name.filter(|name| *name != manifest.name);
                for name in [Some(manifest.name), other].into_iter().flatten() {
                    let service = name.to_owned();
                    provided.push(Provided { service, component: component.clone(), port });
                }
            }
            Engine::Kubernetes => (),
            Engine::Docker => {
                let services = node.get("services").and_then(Node::as_map).unwrap_or_default();
                for (key, _) in services {
                    let service = key.text.clone();
                    provided.push(Provided { service, component: component.clone(), port: None });
                }
            }
        }
    }
    provided
}

fn provide(
    field: &Field<'_>,
    read: &Read<'_>,
    provided: &mut Vec<Provided>,
    reader: &mut Reader<'_>,
) {
    let Some(service) = field.str(reader) else { return };
    let is_here =
        |known: &&Provided| known.service == service && known.component == read.component.name;
    if provided.iter().find(is_here).is_some() {
        field.changed(reader, "said by the Service itself, whose ports the component exposes");
        return;
    }
    field.assumed(reader, "no Service of this name is among the manifests; its port is not known");
    let (service, component) = (service.to_owned(), read.component.name.clone());
    // Who says so itself comes before who merely has a service of that name.
    provided.insert(0, Provided { service, component, port: None });
}

fn resolve(
    field: &Field<'_>,
    components: &[Read<'_>],
    provided: &[Provided],
    reader: &mut Reader<'_>,
) -> Option<Connection> {
    let name = field.str(reader)?;
    let by_service = provided.iter().find(|known| known.service == name);
    if let Some(Provided { component, port, .. }) = by_service {
        return Some(Connection { to: component.clone(), port: *port, ..Connection::default() });
    }
    if let Some(read) = components.iter().find(|read| read.written == name) {
        return Some(Connection { to: read.component.name.clone(), ..Connection::default() });
    }
    let services = provided.iter().map(|known| known.service.as_str());
    let names = services.chain(components.iter().map(|read| read.written));
    let message = format!("no component provides the service {}", shown(name));
    let diagnostic = field.warning(reader, "unknown-service", message);
    diagnostic.expecting(tombolo_model::suggest::one_of(names.clone().take(16)));
    if let Some(meant) = tombolo_model::suggest::nearest(name, names) {
        diagnostic.mended_by(field.node.span, meant);
    }
    field.dropped(reader, "no component of this application provides the service");
    None
}

fn add(component: &mut Component, connection: Connection) {
    let twin = |other: &Connection| other.to == connection.to && other.port == connection.port;
    if !component.connects.iter().any(twin) {
        component.connects.push(connection);
    }
}

/// `{consumer: [producer, …]}`, or a list of `{consumer, producer}`.
fn depend(field: &Field<'_>, components: &mut [Read<'_>], reader: &mut Reader<'_>) {
    match &field.node.value {
        Value::Map(_) => {
            let Some(fields) = field.fields(reader) else { return };
            for (key, producers) in fields.entries() {
                let consumer = index_of(components, &key.text);
                for producer in producers.list_or_one(reader) {
                    link(consumer, &producer, components, reader);
                }
            }
        }
        Value::List(_) => {
            for entry in field.list(reader) {
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
