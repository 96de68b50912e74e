//! Who talks to whom and who wants to be near whom: connections become edges, `with`, `apart` and
//! `spread` become groups. Called by [`crate::compile`].

use tombolo_model::AppSpec;
use tombolo_model::component::{Component, Connection, ServiceClass, Spread};
use tombolo_solver::problem::Scope;

use crate::paths::{UNMEASURED_US, Way};
use crate::score::Mix;

/// Above this, every instance gets at least one partner instead of all of them.
const PAIRS_MAX: usize = 4096;

/// What a connection asks of the way between two instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub latency_us_max: Option<u64>,
    pub jitter_us_max: Option<u64>,
    /// For all the instances that are called together.
    pub bandwidth_bps: u64,
}

impl Bounds {
    /// What must hold; nothing for best effort.
    pub(crate) fn of(connection: &Connection) -> Bounds {
        match connection.class {
            Some(ServiceClass::BestEffort) => Bounds::default(),
            Some(ServiceClass::Assured) | None => Bounds {
                latency_us_max: connection.latency.map(|latency| latency.micros()),
                jitter_us_max: connection.jitter.map(|jitter| jitter.micros()),
                bandwidth_bps: bandwidth(connection),
            },
        }
    }

    pub(crate) fn promised(&self) -> bool {
        self.latency_us_max.is_some() || self.jitter_us_max.is_some() || self.bandwidth_bps > 0
    }

    /// The bound on latency as the search sees it: a way that nobody has measured keeps no promise.
    pub(crate) fn latency(&self) -> Option<u64> {
        match (self.promised(), self.latency_us_max) {
            (true, max) => Some(max.unwrap_or(u64::MAX).min(UNMEASURED_US - 1)),
            (false, _) => None,
        }
    }

    pub(crate) fn kept_by(&self, way: &Way) -> bool {
        (!self.promised() || !way.assumed)
            && self.latency_us_max.is_none_or(|max| way.latency_us <= max)
            && self.jitter_us_max.is_none_or(|max| way.jitter_us <= max)
    }

    pub(crate) fn shared(self, callees: usize) -> Bounds {
        let parts = u64::try_from(callees.max(1)).unwrap_or(u64::MAX);
        Bounds { bandwidth_bps: self.bandwidth_bps.div_ceil(parts), ..self }
    }
}

/// What the connection carries: stated, or a message of a size at an interval.
pub(crate) fn bandwidth(connection: &Connection) -> u64 {
    if let Some(bandwidth) = connection.bandwidth {
        return bandwidth.bps();
    }
    match (connection.frame_size, connection.send_interval) {
        (Some(size), Some(interval)) if interval.micros() > 0 => {
            let bits = u128::from(size.get()) * 8 * 1_000_000;
            u64::try_from(bits.div_ceil(u128::from(interval.micros()))).unwrap_or(u64::MAX)
        }
        (_, _) => 0,
    }
}

/// How much the length of the way counts, in units of which a full score has 100.
pub(crate) fn traffic(connection: &Connection, mix: &Mix, callees: usize) -> i64 {
    const BPS_HALF: f64 = 10e6;
    #[expect(clippy::cast_precision_loss, reason = "rates and counts for a weight")]
    let (rate, callees) = (bandwidth(connection) as f64, callees.max(1) as f64);
    let busy = rate / (rate + BPS_HALF);
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
    let traffic = (100.0 * mix.traffic * (0.25 + 0.75 * busy) / callees).round() as i64;
    // Never nothing: of two equal places the nearer one wins.
    traffic.clamp(1, 100)
}

/// Which instances of the caller talk to which of the callee: all to all, as far as that stays a
/// reasonable number.
pub(crate) fn pairs(callers: usize, callees: usize) -> Vec<(usize, usize)> {
    if callers == 0 || callees == 0 {
        return Vec::new();
    }
    if callers.saturating_mul(callees) <= PAIRS_MAX {
        return (0..callers).flat_map(|a| (0..callees).map(move |b| (a, b))).collect();
    }
    (0..callers.max(callees)).map(|k| (k % callers, k % callees)).collect()
}

/// Groups of component names that share a site, joined as far as they touch.
pub(crate) fn together(spec: &AppSpec) -> Vec<Vec<&str>> {
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for component in &spec.components {
        let with = component.affinity.as_ref().map_or(&[][..], |affinity| &affinity.with);
        if with.is_empty() {
            continue;
        }
        let mut group: Vec<&str> = with.iter().map(String::as_str).collect();
        group.push(&component.name);
        let (touching, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|known| known.iter().any(|name| group.contains(name)));
        groups = others;
        group.extend(touching.into_iter().flatten());
        group.sort_unstable();
        group.dedup();
        groups.push(group);
    }
    groups.sort_unstable();
    groups
}

/// Pairs of components that share no node; a component with itself keeps its instances apart.
pub(crate) fn apart(spec: &AppSpec) -> Vec<(&str, &str)> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for component in &spec.components {
        for other in component.affinity.iter().flat_map(|affinity| &affinity.apart) {
            let (a, b) = (component.name.as_str(), other.as_str());
            pairs.push((a.min(b), a.max(b)));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Where a component must have no two instances.
pub(crate) fn spread(component: &Component) -> Option<Scope> {
    let affinity = component.affinity.as_ref().filter(|affinity| affinity.skew.is_none())?;
    affinity.spread.map(scope)
}

/// Over what its instances are spread evenly, and by how many two nodes or sites may differ.
pub(crate) fn even(component: &Component) -> Option<(Scope, usize)> {
    let affinity = component.affinity.as_ref()?;
    let skew = usize::try_from(affinity.skew?).unwrap_or(usize::MAX);
    Some((scope(affinity.spread?), skew.max(1)))
}

fn scope(spread: Spread) -> Scope {
    match spread {
        Spread::Node => Scope::Node,
        Spread::Site => Scope::Zone,
    }
}

#[cfg(test)]
mod tests;
