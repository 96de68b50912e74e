//! The bandwidth that running Apps have set aside on the links between their instances. Called by
//! [`super::layout`] for those that stay as they are, and by [`super::unsettled`] for all.

use std::collections::BTreeMap;

use tombolo_model::{App, AppId};

use crate::affinity::{self, Bounds};
use crate::continuum::Continuum;
use crate::paths::WayBook;
use crate::running::{Roster, Running};

/// By link of the network: what the connections of `which` of the Apps take, as far as the App they
/// lead to counts.
pub(super) fn by_link(
    continuum: &Continuum<'_>,
    apps: &[&App],
    ids: &[AppId],
    which: &[usize],
    roster: &Roster<'_>,
    book: &mut WayBook,
    counts: impl Fn(&AppId) -> bool,
) -> BTreeMap<u32, u64> {
    let place =
        |one: &Running| continuum.node_index(&one.node).map(|node| continuum.node(node).zone);
    let mut carried: BTreeMap<u32, u64> = BTreeMap::new();
    for app in which {
        let id = &ids[*app];
        for component in &apps[*app].spec.components {
            for connection in &component.connects {
                let bounds = Bounds::of(connection);
                if bounds.bandwidth_bps == 0 {
                    continue;
                }
                let other = id.beside(connection.app.as_deref());
                if !counts(&other) {
                    continue;
                }
                let callers: Vec<u32> =
                    roster.held(id, &component.name).filter_map(place).collect();
                let callees: Vec<u32> =
                    roster.held(&other, &connection.to).filter_map(place).collect();
                let pairs = affinity::pairs(callers.len(), callees.len());
                let partners = (pairs.len() / callers.len().max(1)).max(1);
                let share = bounds.shared(partners).bandwidth_bps;
                for (a, b) in pairs {
                    let ways = book.from(&continuum.network, callers[a]);
                    let Some(way) = &ways[callees[b] as usize] else { continue };
                    for link in &way.links {
                        let sum = carried.entry(*link).or_insert(0);
                        *sum = sum.saturating_add(share);
                    }
                }
            }
        }
    }
    carried
}
