//! What reaches an instance: which of its ports are open to whom, and under which addresses, ports and
//! names others come to it. The placing loop asks for Assignments, peers and endpoints, the agent for
//! what runs on its node. Start at [`open`] and [`from_elsewhere`].

use tombolo_model::AssignmentStatus;
use tombolo_model::assignment::{PortReach, PublishedPort};
use tombolo_model::component::{Component, Connection, OnMove, Protocol, Reach};
use tombolo_model::run::Way;

/// Where a program of this machine is reached by others on it.
const LOOPBACK: &str = "127.0.0.1";

/// The ports that are open beyond their own node, and how far. Decided from what is wanted alone, not
/// from where things are: a caller that moves restarts nobody.
pub fn open<'c>(
    component: &Component,
    callers: impl IntoIterator<Item = (&'c Component, &'c Connection)>,
) -> Vec<PortReach> {
    let first = component.expose.first().map(|expose| expose.port);
    let mut called: Vec<u16> = Vec::new();
    for (caller, connection) in callers {
        if !stay_together(caller, component, connection) {
            called.extend(connection.port.or(first));
        }
    }
    let exposed = component.expose.iter().map(|expose| PortReach {
        port: expose.port,
        protocol: expose.protocol,
        from: match (expose.public, called.contains(&expose.port)) {
            (true, _) => Reach::Public,
            (false, true) => Reach::Node,
            (false, false) => Reach::Loopback,
        },
    });
    exposed.filter(|port| port.from > Reach::Loopback).collect()
}

/// Closing a port takes a restart. A caller of another App that has gone is no reason for one: the port
/// is closed with the next change of its own App.
pub fn widest(known: &[PortReach], wanted: &[PortReach]) -> Vec<PortReach> {
    let from = |list: &[PortReach], one: &PortReach| {
        let same = |other: &&PortReach| other.port == one.port && other.protocol == one.protocol;
        list.iter().find(same).map(|other| other.from)
    };
    let kept = known.iter().filter(|one| from(wanted, one).is_none()).cloned();
    let open = wanted.iter().map(|one| PortReach {
        from: from(known, one).map_or(one.from, |k| k.max(one.from)),
        ..*one
    });
    let mut all: Vec<PortReach> = open.chain(kept).collect();
    all.sort_by_key(|one| (one.port, one.protocol));
    all
}

/// Whether caller and callee are surely on one node and in one kind of network, where they reach each
/// other without a port of the node. A caller that is bound to an address needs one that stays.
fn stay_together(caller: &Component, callee: &Component, connection: &Connection) -> bool {
    let place = |component: &Component| match component.needs.as_ref()?.nodes.as_slice() {
        [node] => Some(node.clone()),
        _ => None,
    };
    let confined = |component: &Component| {
        let ways = component.run.iter().map(|run| match run.way() {
            Some(Way::Container(_) | Way::Compose(_)) => Some(true),
            Some(Way::Process(_)) => Some(false),
            Some(Way::Manifests(_)) | None => None,
        });
        let mut ways: Vec<Option<bool>> = ways.collect();
        ways.dedup();
        if let [Some(inside)] = ways[..] { Some(inside) } else { None }
    };
    connection.on_move != Some(OnMove::Restart)
        && place(caller).is_some()
        && place(caller) == place(callee)
        && confined(caller).is_some()
        && confined(caller) == confined(callee)
}

/// Hosts and ports under which a port of an instance is reached from other nodes; none if it is open to
/// its own node alone.
pub fn from_elsewhere(
    status: &AssignmentStatus,
    port: u16,
    protocol: Protocol,
) -> Vec<(String, u16)> {
    let listed = status.ports.iter().find(|one| one.port == port && one.protocol == protocol);
    match listed.or_else(|| status.ports.iter().find(|one| one.port == port)) {
        Some(listed) => published(status, listed),
        // Its agent does not know which ports it has: it shares those of its node.
        None => status.addresses.iter().map(|host| (bracketed(host), port)).collect(),
    }
}

/// What [`from_elsewhere`] says of all ports of an instance together, as `host:port`.
pub fn told_elsewhere(status: &AssignmentStatus) -> impl Iterator<Item = String> {
    let all = status.ports.iter().flat_map(|port| published(status, port));
    all.map(|(host, port)| format!("{host}:{port}"))
}

fn published(status: &AssignmentStatus, port: &PublishedPort) -> Vec<(String, u16)> {
    let Some(published) = port.published else { return Vec::new() };
    match (of(port), &port.on) {
        (Reach::Loopback, _) => Vec::new(),
        (Reach::Node, Some(on)) => vec![(bracketed(on), published)],
        (Reach::Node, None) | (Reach::Public, _) => {
            status.addresses.iter().map(|host| (bracketed(host), published)).collect()
        }
    }
}

/// Where others on the same node reach a port: `own` is the instance's own address, `node` the one
/// under which its node is reached; an engine of many nodes says it of each instance.
pub fn from_here(port: &PublishedPort, own: Option<&str>, node: Option<&str>) -> Option<String> {
    let (host, port) = match (port.published, of(port), own) {
        (Some(published), Reach::Public, _) => (node.or(own)?, published),
        (Some(published), Reach::Node, _) => (port.on.as_deref().or(node).or(own)?, published),
        (Some(_), Reach::Loopback, Some(own)) | (None, _, Some(own)) => (own, port.port),
        (Some(published), Reach::Loopback, None) => (LOOPBACK, published),
        (None, _, None) => return None,
    };
    Some(format!("{}:{port}", bracketed(host)))
}

/// From where a port is reached.
pub fn of(port: &PublishedPort) -> Reach {
    match port.published {
        None => Reach::Loopback,
        Some(_) => port.reach.unwrap_or(Reach::Public),
    }
}

/// Where the node opens a port, `*` being all of its addresses; nothing if it does not.
pub fn opens_at(port: &PublishedPort) -> Option<String> {
    let published = port.published?;
    let on = port.on.as_deref().map(bracketed).unwrap_or_else(|| "*".to_owned());
    Some(format!("{on}:{published}"))
}

/// The variables in which an instance finds a component that it calls: the first address and all.
pub fn variables(component: &str, addresses: &[String]) -> Vec<(String, String)> {
    let Some(first) = addresses.first() else { return Vec::new() };
    let letter = |character: char| match character.is_ascii_alphanumeric() {
        true => character.to_ascii_uppercase(),
        false => '_',
    };
    let name: String = component.chars().map(letter).collect();
    vec![
        (format!("TOMBOLO_PEER_{name}"), first.clone()),
        (format!("TOMBOLO_PEERS_{name}"), addresses.join(",")),
    ]
}

/// An IPv6 address stands in brackets before a port.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests;
