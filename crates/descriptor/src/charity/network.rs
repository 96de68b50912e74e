//! The connection points of a blueprint and the virtual links between them: ports that others may
//! reach, and connections with what the way must be like. Called by [`super::tosca`] once the
//! components are read.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::component::{Component, Connection, Expose, Protocol};
use tombolo_model::{BitRate, Duration};
use tombolo_yaml::Span;

use super::tosca::{COMPONENT, EXTERNAL, LINK, POINT};
use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;
use crate::tosca::{NODE_DROPPED, NodeTemplate, Template, blocks, filter, requirements};

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("TCP", Protocol::Tcp),
    ("UDP", Protocol::Udp),
    ("HTTP", Protocol::Http),
    ("HTTPS", Protocol::Https),
];
const PROPERTIES: &[&str] = &["name", "port", "protocol", "public"];

/// Every end may call every other, so more would be a great many connections.
const ENDS_MAX: usize = 64;

/// As many as a component may have; one more is enough for the model to tell.
const EXPOSED_MAX: usize = 64;

/// A connection point.
#[derive(Debug)]
struct Point<'a> {
    /// The component it belongs to; none for one that runs elsewhere.
    component: Option<usize>,
    name: Option<String>,
    port: Option<u16>,
    protocol: Protocol,
    public: bool,
    links: BTreeSet<&'a str>,
    field: Field<'a>,
    span: Span,
}

/// What a link must be like.
#[derive(Clone, Copy, Debug, Default)]
struct Network {
    bandwidth: Option<BitRate>,
    latency: Option<Duration>,
    jitter: Option<Duration>,
}

/// Gives the components their ports and connections. `parts` are the node templates that run
/// something, with the number of their component; none for what runs elsewhere.
pub(super) fn connect<'a>(
    template: &Template<'a>,
    parts: &BTreeMap<&'a str, Option<usize>>,
    components: &mut [Component],
    reader: &mut Reader<'_>,
) {
    let mut points = Vec::new();
    for node in template.nodes.iter().filter(|node| node.kind == POINT) {
        points.extend(read_point(node, template, parts, reader));
    }
    let outside: BTreeSet<&str> = points
        .iter()
        .filter(|point| point.component.is_none())
        .flat_map(|point| point.links.iter().copied())
        .collect();
    for point in &points {
        expose(point, &outside, components, reader);
    }
    let mut joined: BTreeMap<&str, Vec<&Point<'_>>> = BTreeMap::new();
    for point in &points {
        for link in &point.links {
            joined.entry(link).or_default().push(point);
        }
    }
    for node in template.nodes.iter().filter(|node| node.kind == LINK) {
        let network = read_link(node, template, reader);
        let ends = joined.get(node.key.text.as_str()).map(Vec::as_slice).unwrap_or_default();
        if ends.len() > ENDS_MAX {
            let message = format!("{} points are on one link, {ENDS_MAX} at most", ends.len());
            reader.error("too-many", &node.field.path, node.key.span, message);
            continue;
        }
        if join(ends, &network, components, reader) == 0 {
            let why = match outside.contains(node.key.text.as_str()) {
                true => {
                    "the link leads to something that runs elsewhere, where nothing is measured"
                }
                false => "the link does not join two components of the App",
            };
            node.field.dropped(reader, why);
        }
    }
}

fn read_point<'a>(
    node: &NodeTemplate<'a>,
    template: &Template<'a>,
    parts: &BTreeMap<&'a str, Option<usize>>,
    reader: &mut Reader<'_>,
) -> Option<Point<'a>> {
    let mut fields = node.fields(reader)?;
    let mut point = Point {
        component: None,
        name: None,
        port: None,
        protocol: Protocol::Tcp,
        public: false,
        links: BTreeSet::new(),
        field: node.field.clone(),
        span: node.key.span,
    };
    if let Some(properties) = fields.take("properties").and_then(|field| field.fields(reader)) {
        read_properties(properties, template, &mut point, reader);
    }
    let mut bound = None;
    for requirement in requirements(fields.take("requirements"), reader) {
        for field in [&requirement.relationship, &requirement.filter].into_iter().flatten() {
            field.dropped(reader, "a connection point is bound and linked as it is");
        }
        let Some(target) = &requirement.node else { continue };
        match requirement.name.text.as_str() {
            "binding" => {
                let part = template.refer(target, &[COMPONENT, EXTERNAL], reader)?;
                bound = parts.get(part.key.text.as_str()).copied();
            }
            "link" => {
                let link = template.refer(target, &[LINK], reader);
                point.links.extend(link.map(|link| link.key.text.as_str()));
            }
            _ => requirement.field.dropped(reader, "a connection point has a binding and links"),
        }
    }
    fields.finish(
        Rest::Foreign { known: &["properties", "requirements"], dropped: NODE_DROPPED },
        reader,
    );
    let Some(bound) = bound else {
        let message = format!("the connection point {:?} belongs to no component", node.key.text);
        reader
            .error("missing-field", &node.field.path, node.key.span, message)
            .expecting("requirements: [{binding: {node: COMPONENT}}]");
        return None;
    };
    point.component = bound;
    Some(point)
}

fn read_properties<'a>(
    mut fields: Fields<'a>,
    template: &Template<'a>,
    point: &mut Point<'a>,
    reader: &mut Reader<'_>,
) {
    let inputs = &template.inputs;
    let name = fields.take("name").and_then(|name| inputs.value(&name, reader));
    if let Some(port) = fields.take("port") {
        let port = inputs.value(&port, reader);
        point.port = port.and_then(|port| port.port(reader));
    }
    if let Some(name) = name {
        match point.port {
            Some(_) => point.name = name.label(reader),
            None => name.dropped(reader, "only ports have names, and it has no port"),
        }
    }
    if let Some(protocol) = fields.take("protocol") {
        let value = inputs.value(&protocol, reader);
        let found = value.and_then(|protocol| protocol.one_of(reader, PROTOCOLS));
        point.protocol = found.unwrap_or_default();
        if point.port.is_none() && found.is_some() {
            protocol.dropped(reader, "it calls others, by the protocol of their ports");
        }
    }
    if let Some(public) = fields.take("public") {
        let value = inputs.value(&public, reader);
        point.public = value.and_then(|public| public.boolean(reader)).unwrap_or_default();
        if point.port.is_none() {
            public.dropped(reader, "it has no port that could be public");
        }
    }
    fields.finish(Rest::Foreign { known: PROPERTIES, dropped: &[] }, reader);
}

/// A point with a port is a service: public if it says so, or if its link leads outside.
fn expose(
    point: &Point<'_>,
    outside: &BTreeSet<&str>,
    components: &mut [Component],
    reader: &mut Reader<'_>,
) {
    let (Some(index), Some(port)) = (point.component, point.port) else { return };
    let Some(component) = components.get_mut(index) else { return };
    if component.expose.len() > EXPOSED_MAX {
        return;
    }
    let leads_outside = point.links.iter().any(|link| outside.contains(link));
    if leads_outside && !point.public {
        point.field.assumed(
            reader,
            "it is public because its link leads to something that runs elsewhere",
        );
    }
    reader
        .origin(format!("spec.components[{index}].expose[{}]", component.expose.len()), point.span);
    let public = point.public || leads_outside;
    let containers = component.run.iter_mut().filter_map(|run| run.container.as_mut());
    for container in containers {
        if !container.ports.contains(&port) {
            container.ports.push(port);
        }
    }
    let same = |expose: &&mut Expose| expose.port == port && expose.protocol == point.protocol;
    match component.expose.iter_mut().find(same) {
        Some(expose) => expose.public |= public,
        None => component.expose.push(Expose {
            port,
            protocol: point.protocol,
            name: point.name.clone(),
            public,
            published: None,
        }),
    }
}

fn read_link<'a>(
    node: &NodeTemplate<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Network {
    let mut network = Network::default();
    let Some(mut fields) = node.fields(reader) else { return network };
    if let Some(mut properties) = fields.take("properties").and_then(|field| field.fields(reader)) {
        if let Some(name) = properties.take("name") {
            name.dropped(reader, "a connection has no name of its own");
        }
        if let Some(direct) = properties.take("network").and_then(|field| field.fields(reader)) {
            read_network(direct, template, &mut network, reader);
        }
        properties.finish(Rest::Foreign { known: &["name", "network"], dropped: &[] }, reader);
    }
    let mut capabilities: Vec<Field<'a>> = fields.take("capabilities").into_iter().collect();
    if let Some(mut filter) = fields.take("node_filter").and_then(|field| field.fields(reader)) {
        capabilities.extend(filter.take("capabilities"));
        filter.finish(Rest::Foreign { known: &["capabilities"], dropped: &[] }, reader);
    }
    for field in capabilities {
        for mut block in blocks(&field, reader) {
            if let Some(capability) = block.take("network") {
                for properties in filter::properties(&capability, reader) {
                    read_network(properties, template, &mut network, reader);
                }
            }
            block.finish(Rest::Foreign { known: &["network"], dropped: &[] }, reader);
        }
    }
    let known = &["properties", "capabilities", "node_filter"];
    fields.finish(Rest::Foreign { known, dropped: NODE_DROPPED }, reader);
    network
}

fn read_network<'a>(
    mut fields: Fields<'a>,
    template: &Template<'a>,
    network: &mut Network,
    reader: &mut Reader<'_>,
) {
    let inputs = &template.inputs;
    let bandwidth = fields.take("bandwidth").or_else(|| {
        // CHARITY's own samples have it so, hence no error: such a file is meant to be good.
        let field = fields.take("bandwith")?;
        reader
            .warning("misspelt-field", &field.path, field.key_span, "\"bandwith\" lacks a \"d\"")
            .expecting("bandwidth")
            .mended_by(field.key_span, "bandwidth");
        Some(field)
    });
    if let Some(field) = bandwidth {
        network.bandwidth = filter::amount(&field, inputs, BitRate::ZERO, reader);
    }
    if let Some(field) = fields.take("latency") {
        let most = filter::most(&field, inputs, reader);
        network.latency = most.and_then(|most| most.duration(reader));
    }
    if let Some(field) = fields.take("jitter") {
        let most = filter::most(&field, inputs, reader);
        network.jitter = most.and_then(|most| most.duration(reader));
    }
    fields
        .finish(Rest::Foreign { known: &["bandwidth", "latency", "jitter"], dropped: &[] }, reader);
}

/// Connects the points of one link; how many connections that made. Who has a port is called by all
/// the others; where nobody has one, the first point calls them.
fn join(
    points: &[&Point<'_>],
    network: &Network,
    components: &mut [Component],
    reader: &mut Reader<'_>,
) -> usize {
    let has_ports = points.iter().any(|point| point.component.is_some() && point.port.is_some());
    let mut made = 0;
    let mut both = BTreeMap::new();
    for (place, caller) in points.iter().enumerate() {
        for (other_place, called) in points.iter().enumerate() {
            let (Some(from), Some(to)) = (caller.component, called.component) else { continue };
            let calls = match has_ports {
                true => called.port.is_some(),
                false => place == 0 && other_place > 0,
            };
            if from == to || !calls {
                continue;
            }
            made += 1;
            both.insert((from, to), caller);
            if both.contains_key(&(to, from)) {
                let what = "both ends have a port, so each calls the other";
                caller.field.assumed(reader, what);
            }
            let connection = Connection {
                to: components.get(to).map(|one| one.name.clone()).unwrap_or_default(),
                port: called.port,
                protocol: if has_ports { called.protocol } else { Protocol::Tcp },
                latency: network.latency,
                jitter: network.jitter,
                bandwidth: network.bandwidth,
                ..Connection::default()
            };
            let Some(component) = components.get_mut(from) else { continue };
            let path = format!("spec.components[{from}].connects[{}]", component.connects.len());
            reader.origin(path, caller.span);
            add(connection, component);
        }
    }
    made
}

/// Two links between the same ports are one connection, as strict as the stricter of the two.
fn add(connection: Connection, component: &mut Component) {
    let same = |known: &&mut Connection| {
        known.to == connection.to
            && known.port == connection.port
            && known.protocol == connection.protocol
    };
    match component.connects.iter_mut().find(same) {
        Some(known) => {
            known.latency = [known.latency, connection.latency].into_iter().flatten().min();
            known.jitter = [known.jitter, connection.jitter].into_iter().flatten().min();
            known.bandwidth = known.bandwidth.max(connection.bandwidth);
        }
        None => component.connects.push(connection),
    }
}
