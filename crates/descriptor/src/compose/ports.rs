//! `ports` and `expose` of a service, short and long.

use tombolo_model::component::{Component, Expose, Protocol};
use tombolo_model::run::Container;

use crate::beyond::foreign;
use crate::compose::{extensions, words};
use crate::fields::{Field, Fields};
use crate::reader::Reader;

/// As many as a component may expose.
pub(super) const PORTS_MAX: usize = 64;

pub(super) fn read(
    fields: &mut Fields<'_>,
    component: &mut Component,
    container: &mut Container,
    reader: &mut Reader<'_>,
) {
    let mut found = Vec::new();
    for port in few(fields.take("ports"), reader) {
        match port.node.as_map() {
            Some(_) => found.extend(long(&port, reader).map(|expose| (port.clone(), expose))),
            None => {
                let several = short(&port, reader);
                found.extend(several.into_iter().map(|expose| (port.clone(), expose)));
            }
        }
    }
    for port in few(fields.take("expose"), reader) {
        let several = inside(&port, reader);
        found.extend(several.into_iter().map(|expose| (port.clone(), expose)));
    }
    for (field, expose) in found {
        if !container.ports.contains(&expose.port) {
            container.ports.push(expose.port);
        }
        let same = |known: &&Expose| known.port == expose.port && known.protocol == expose.protocol;
        match component.expose.iter().find(same) {
            Some(known) if *known == expose || !expose.public => (),
            Some(_) => field.dropped(reader, "the port is exposed already, and can be only once"),
            None => component.expose.push(expose),
        }
    }
}

/// The entries of a list of ports; each port is held against all others.
fn few<'a>(list: Option<Field<'a>>, reader: &mut Reader<'_>) -> Vec<Field<'a>> {
    let Some(list) = list else { return Vec::new() };
    list.at_most(list.list(reader), PORTS_MAX, reader)
}

fn protocol(word: Option<&str>, field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Protocol> {
    match word {
        None | Some("tcp" | "TCP") => Some(Protocol::Tcp),
        Some("udp" | "UDP") => Some(Protocol::Udp),
        Some(other) => {
            let message = format!("{other:?} is not a protocol for a port");
            field.error(reader, "unknown-word", message).expecting("tcp or udp");
            None
        }
    }
}

fn bad_port(field: &Field<'_>, text: &str, reader: &mut Reader<'_>) {
    field.error(reader, "invalid-port", format!("{text:?} is not a port")).expecting(
        "\"8080\", \"80:8080\", \"127.0.0.1:80:8080\" or \"53:53/udp\", ports from 1 to 65535",
    );
}

/// `"127.0.0.1:8000-8003:80-83/udp"`
fn short(field: &Field<'_>, reader: &mut Reader<'_>) -> Vec<Expose> {
    let Some(text) = field.str(reader) else { return Vec::new() };
    let parts = words::port(text);
    let Some(targets) = words::port_range(parts.target) else {
        bad_port(field, text, reader);
        return Vec::new();
    };
    let published = match parts.published.map(words::port_range) {
        None => None,
        Some(Some(published)) => Some(published),
        Some(None) => {
            bad_port(field, text, reader);
            return Vec::new();
        }
    };
    let Some(protocol) = protocol(parts.protocol, field, reader) else { return Vec::new() };
    let public = is_public(parts.address, field, reader);
    let count = targets.len();
    if count > PORTS_MAX
        || published.as_ref().is_some_and(|range| range.len() != count && count != 1)
    {
        let message = format!("the ranges of {text:?} have different lengths");
        field
            .error(reader, "invalid-port", message)
            .expecting("ranges of the same length, 64 at most");
        return Vec::new();
    }
    if published.as_ref().is_some_and(|range| range.len() > count) {
        field.changed(reader, "any free port of the host is used, not one of this range");
    }
    let published: Vec<Option<u16>> = match published {
        Some(range) if range.len() == count => range.map(Some).collect(),
        Some(_) | None => vec![None; count],
    };
    targets
        .zip(published)
        .map(|(port, published)| Expose { port, protocol, name: None, public, published })
        .collect()
}

/// A port that is bound to the loopback address is for the host alone, and for components elsewhere
/// that connect to it.
fn is_public(address: Option<&str>, field: &Field<'_>, reader: &mut Reader<'_>) -> bool {
    match address.map(|address| address.trim_matches(['[', ']'])) {
        None | Some("0.0.0.0" | "::" | "") => true,
        Some("127.0.0.1" | "::1" | "localhost") => false,
        Some(_) => {
            field.changed(reader, "the port is open on all addresses of its node");
            true
        }
    }
}

fn long(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Expose> {
    let mut fields = field.fields(reader)?;
    let port = fields.need("target", reader, "the port of the container")?.port(reader)?;
    let name = fields.take("name").and_then(|name| name.label(reader));
    let published = fields.take("published");
    let word = fields.take("protocol");
    let transport = word.as_ref().and_then(|word| word.str(reader));
    let mut protocol = protocol(transport, word.as_ref().unwrap_or(field), reader)?;
    if let Some(word) = fields.take("app_protocol") {
        match word.str(reader) {
            Some("http") => protocol = Protocol::Http,
            Some("https") => protocol = Protocol::Https,
            Some(_) => word.dropped(reader, "a port is tcp, udp, http or https"),
            None => (),
        }
    }
    if let Some(mode) = fields.take("mode") {
        mode.dropped(reader, "a port is published by the gateway of its site");
    }
    let address = fields.take("host_ip");
    let host = address.as_ref().and_then(|address| address.str(reader));
    let public = is_public(host, address.as_ref().unwrap_or(field), reader);
    extensions(&mut fields, reader);
    let known = ["app_protocol", "host_ip", "mode", "name", "protocol", "published", "target"];
    fields.finish(foreign(&known), reader);
    let published = published.and_then(|published| match published.node.raw() {
        Some(range) if range.contains('-') => {
            published.changed(reader, "any free port of the host is used, not one of this range");
            None
        }
        Some("0") => None,
        Some(_) | None => published.port(reader),
    });
    Some(Expose { port, protocol, name, public, published })
}

/// An entry of `expose`: for other services only.
fn inside(field: &Field<'_>, reader: &mut Reader<'_>) -> Vec<Expose> {
    let Some(text) = field.str(reader) else { return Vec::new() };
    let (range, word) = match text.split_once('/') {
        Some((range, word)) => (range, Some(word)),
        None => (text, None),
    };
    let Some(protocol) = protocol(word, field, reader) else { return Vec::new() };
    match words::port_range(range).filter(|range| range.len() <= PORTS_MAX) {
        Some(range) => range.map(|port| Expose { port, protocol, ..Expose::default() }).collect(),
        None => {
            bad_port(field, text, reader);
            Vec::new()
        }
    }
}
