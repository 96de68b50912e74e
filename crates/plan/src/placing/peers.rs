//! Whom an instance calls and where they are now: what its agent hands to it. Addresses follow their
//! instances, so that one that comes up, moves or gets another port is in the next Assignment.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::Assignment;
use tombolo_model::app::Placement;
use tombolo_model::assignment::Peer;
use tombolo_model::component::{Component, Connection, OnMove};

use super::current::{View, World};
use super::doubt::was_up;
use crate::reach;

/// Addresses that an instance is told of one other component.
const ADDRESSES_MAX: usize = 1024;

/// How good an address is for a caller; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Its node is silent. It may well serve, so it stays on the list, as the last resort.
    silent: bool,
    other_site: bool,
    other_node: bool,
}

/// The components that the instance at `at` calls, and where they can be reached.
pub(super) fn peers(
    view: &View<'_>,
    component: &Component,
    at: &Placement,
    world: &World<'_>,
) -> Vec<Peer> {
    let known = at.assignment.as_deref().and_then(|name| view.own.get(name));
    let mut peers: BTreeMap<&str, (Peer, BTreeMap<String, Rank>, bool)> = BTreeMap::new();
    for connection in &component.connects {
        let made = || Peer { component: connection.to.clone(), ..Peer::default() };
        let (peer, reached, restart) =
            peers.entry(&connection.to).or_insert_with(|| (made(), BTreeMap::new(), false));
        *restart |= connection.on_move == Some(OnMove::Restart);
        peer.first |=
            connection.app.is_none() && !calls_back(view, &connection.to, &component.name);
        peer.app = peer.app.take().or_else(|| connection.app.clone());
        let Some(callee) = callee(view, connection, world) else { continue };
        let first = || Some(callee.component(&connection.to)?.expose.first()?.port);
        let Some(port) = connection.port.or_else(first) else { continue };
        peer.port = peer.port.or(Some(port));
        let there = callee.own.values().filter(|own| own.spec.component == connection.to);
        for own in there.filter(|own| serves(own)) {
            let rank = rank(own, at, world);
            let Some(status) = &own.status else { continue };
            for (host, port) in reach::from_elsewhere(status, port, connection.protocol) {
                let best = reached.entry(format!("{host}:{port}")).or_insert(rank);
                *best = rank.min(*best);
            }
        }
    }
    let finish = |(mut peer, reached, restart): (Peer, BTreeMap<String, Rank>, bool)| {
        peer.addresses = in_order(reached, at.replica);
        let before = known.and_then(|known| {
            let before = known.spec.peers.iter().find(|one| one.component == peer.component);
            before?.bound.clone()
        });
        bind(&mut peer, before.filter(|_| restart), restart);
        peer
    };
    peers.into_values().map(finish).collect()
}

fn callee<'w>(
    view: &'w View<'w>,
    connection: &Connection,
    world: &'w World<'w>,
) -> Option<&'w View<'w>> {
    match connection.app.as_deref() {
        None => Some(view),
        Some(name) => world.view(view.app.metadata.namespace.as_deref(), name),
    }
}

fn serves(assignment: &Assignment) -> bool {
    assignment.metadata.deletion_timestamp.is_none() && was_up(assignment)
}

fn rank(callee: &Assignment, at: &Placement, world: &World<'_>) -> Rank {
    Rank {
        silent: world.is_silent(callee.spec.node.as_deref().unwrap_or_default()),
        other_site: callee.spec.site != at.site,
        other_node: callee.spec.node != at.node,
    }
}

/// The best first. Among equals each replica of the caller begins with another one, so that not all
/// of them call the same.
fn in_order(reached: BTreeMap<String, Rank>, replica: u32) -> Vec<String> {
    let mut reached: Vec<(Rank, String)> =
        reached.into_iter().map(|(address, rank)| (rank, address)).collect();
    reached.sort();
    let best = reached.first().map(|(rank, _)| *rank);
    let equals = reached.iter().take_while(|(rank, _)| Some(*rank) == best).count();
    if let Some(first) = (replica as usize).checked_rem(equals) {
        reached[..equals].rotate_left(first);
    }
    reached.truncate(ADDRESSES_MAX);
    reached.into_iter().map(|(_, address)| address).collect()
}

/// A caller that is restarted when its peer moves keeps its address for as long as it is good, and
/// while there is no other.
fn bind(peer: &mut Peer, before: Option<String>, restart: bool) {
    if !restart {
        return;
    }
    let good = |address: &String| peer.addresses.is_empty() || peer.addresses.contains(address);
    let bound = before.filter(good).or_else(|| peer.addresses.first().cloned());
    if let Some(at) = peer.addresses.iter().position(|address| Some(address) == bound.as_ref()) {
        // The first is the one that it is given at its start.
        peer.addresses[..=at].rotate_right(1);
    }
    peer.bound = bound;
}

/// Whether `from` leads back to `to`: two that call each other cannot both be first.
fn calls_back(view: &View<'_>, from: &str, to: &str) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        let Some(component) = view.component(name).filter(|_| seen.len() <= 512) else { continue };
        if seen.insert(&component.name) {
            let own = component.connects.iter().filter(|one| one.app.is_none());
            open.extend(own.map(|one| one.to.as_str()));
        }
    }
    false
}
