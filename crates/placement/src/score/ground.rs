//! The part of the score that depends on the node alone, computed once for all classes of
//! instances. `NAN` stands for "nothing is known".

use crate::continuum::{Amounts, Continuum, NodeRow};

/// By node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ground {
    pub performance: Vec<f32>,
    pub energy: Vec<f32>,
    pub cost: Vec<f32>,
    pub resilience: Vec<f32>,
    pub greenness: Vec<f32>,
    pub stability: Vec<f32>,
    pub security: Vec<f32>,
    pub cores: Vec<f32>,
    pub zone: Vec<u32>,
}

/// Links seen from a location.
#[derive(Clone, Copy, Default)]
struct Links {
    count: f64,
    failures: f64,
    gigabits: f64,
}

impl Ground {
    fn with_room(nodes: usize) -> Ground {
        let column = || Vec::with_capacity(nodes);
        Ground {
            performance: column(),
            energy: column(),
            cost: column(),
            resilience: column(),
            greenness: column(),
            stability: column(),
            security: column(),
            cores: column(),
            zone: Vec::with_capacity(nodes),
        }
    }

    /// `free` is what is left of each node for the instances in question, and `own` what those that
    /// run already take: the load that they make themselves must not drive them away.
    pub(crate) fn of(continuum: &Continuum<'_>, free: &[Amounts<'_>], own: &[f64]) -> Ground {
        let links = links(continuum);
        let mut ground = Ground::with_room(continuum.nodes.len());
        for (index, node) in continuum.nodes.iter().enumerate() {
            let site_zone = continuum.sites[node.site as usize].zone;
            let mut seen = links[node.zone as usize];
            if site_zone != node.zone {
                seen = seen.and(links[site_zone as usize]);
            }
            let watts = watts_per_core(node);
            let carbon = carbon(continuum, node);
            let own = own.get(index).copied().unwrap_or(0.0);
            ground.performance.push(short(performance(node, &free[index], own)));
            ground.energy.push(short(energy(watts, carbon)));
            ground.cost.push(short(cost(continuum, node)));
            ground.resilience.push(short(resilience(node, seen)));
            ground.greenness.push(short(greenness(watts, seen)));
            ground.stability.push(short(stability(node, seen)));
            ground.security.push(short(node.security.map(f64::from)));
            ground.cores.push(short(node.cores().or(Some(0.0))));
            ground.zone.push(node.zone);
        }
        ground
    }
}

impl Links {
    fn and(self, other: Links) -> Links {
        Links {
            count: self.count + other.count,
            failures: self.failures + other.failures,
            gigabits: self.gigabits + other.gigabits,
        }
    }
}

fn short(score: Option<f64>) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "a score needs no more digits")]
    score.filter(|score| score.is_finite()).map_or(f32::NAN, |score| score as f32)
}

fn links(continuum: &Continuum<'_>) -> Vec<Links> {
    /// What a link without a stated bandwidth counts in a sum.
    const GIGABITS_UNSTATED: f64 = 10.0;
    let network = &continuum.network;
    let mut seen = vec![Links::default(); network.zones.len()];
    for link in network.links.iter().filter(|link| !link.down) {
        for zone in [link.a, link.b] {
            let links = &mut seen[zone as usize];
            links.count += 1.0;
            links.failures += f64::from(link.failures);
            if link.one_way && zone == link.b {
                continue; // It brings in and takes nothing out.
            }
            #[expect(clippy::cast_precision_loss, reason = "a sum for a score")]
            let gigabits = link.bandwidth_bps.map_or(GIGABITS_UNSTATED, |bps| bps as f64 / 1e9);
            links.gigabits += gigabits;
        }
    }
    seen
}

/// Half room, a quarter speed, a quarter idleness.
fn performance(node: &NodeRow<'_>, free: &Amounts<'_>, own: f64) -> Option<f64> {
    const CORES_HALF: f64 = 4.0;
    const MHZ_HALF: f64 = 2000.0;
    let room = node.cores().map(|cores| {
        #[expect(clippy::cast_precision_loss, reason = "shares for a score")]
        let share = |left: u64, all: u64| if all > 0 { left as f64 / all as f64 } else { 1.0 };
        let least = share(free.cpu_millis, node.total.cpu_millis)
            .min(share(free.memory_bytes, node.total.memory_bytes));
        let left = cores * share(free.cpu_millis, node.total.cpu_millis);
        50.0 * least + 50.0 * left / (left + CORES_HALF)
    });
    let speed = node.facts.mhz.map(|mhz| 100.0 * mhz / (mhz + MHZ_HALF));
    let idle = node.facts.busy.map(|busy| {
        let others = busy - own / node.cores().unwrap_or(1.0).max(0.001);
        100.0 * (1.0 - others.clamp(0.0, 1.0))
    });
    if room.is_none() && speed.is_none() && idle.is_none() {
        return None;
    }
    let or = |part: Option<f64>| part.unwrap_or(super::NEUTRAL);
    Some(0.5 * or(room) + 0.25 * or(speed) + 0.25 * or(idle))
}

/// What the machine takes when fully busy, for each of its cores.
fn watts_per_core(node: &NodeRow<'_>) -> Option<f64> {
    let watts = node.facts.watts?;
    (watts.is_finite() && watts >= 0.0).then(|| watts / node.cores().unwrap_or(1.0).max(0.001))
}

fn carbon(continuum: &Continuum<'_>, node: &NodeRow<'_>) -> Option<f64> {
    let site = continuum.sites[node.site as usize].object.spec.carbon_intensity;
    node.facts.carbon.or(site).filter(|grams| grams.is_finite() && *grams >= 0.0)
}

fn energy(watts: Option<f64>, carbon: Option<f64>) -> Option<f64> {
    const WATTS_HALF: f64 = 8.0;
    const GRAMS_USUAL: f64 = 300.0;
    match (watts, carbon) {
        (Some(watts), carbon) => {
            let burden = watts * carbon.map_or(1.0, |grams| grams / GRAMS_USUAL);
            Some(100.0 * WATTS_HALF / (WATTS_HALF + burden))
        }
        (None, Some(grams)) => Some(100.0 * GRAMS_USUAL / (GRAMS_USUAL + grams)),
        (None, None) => None,
    }
}

fn cost(continuum: &Continuum<'_>, node: &NodeRow<'_>) -> Option<f64> {
    let cost = node.cost_per_core()?;
    match continuum.cost_reference {
        Some(reference) => Some(100.0 * reference / (reference + cost)),
        // All that state a price are free.
        None => Some(100.0),
    }
}

fn resilience(node: &NodeRow<'_>, links: Links) -> Option<f64> {
    const FAILURES_HALF: f64 = 5.0;
    let failures = node.facts.failures;
    if failures.is_none() && links.count == 0.0 {
        return None;
    }
    let own = failures.map_or(0.0, |(node, network)| 2.0 * f64::from(node) + f64::from(network));
    let degree = links.count.max(1.0);
    // Each link of several carries its failures alone; a single one takes the node with it.
    let burden = own + links.failures / degree + 2.0 / degree;
    Some(100.0 * FAILURES_HALF / (FAILURES_HALF + burden))
}

/// CODECO's greenness: ((1 − e) / e) · egress bandwidth, with e from 0 to 1 and gigabits a second.
fn greenness(watts: Option<f64>, links: Links) -> Option<f64> {
    const WATTS_HALF: f64 = 8.0;
    let watts = watts.filter(|_| links.count > 0.0)?;
    let e = (watts / (watts + WATTS_HALF)).max(0.001);
    let greenness = (1.0 - e) / e * links.gigabits;
    Some(100.0 * greenness / (1.0 + greenness))
}

/// CODECO's resilience factor: network failures · 1/degree · link failures, each counted from one so
/// that a single zero does not hide the others; less is better.
fn stability(node: &NodeRow<'_>, links: Links) -> Option<f64> {
    let failures = node.facts.failures;
    if failures.is_none() && links.count == 0.0 {
        return None;
    }
    let network = failures.map_or(0.0, |(_, network)| f64::from(network));
    let factor = (1.0 + network) * (1.0 + links.failures) / links.count.max(1.0);
    Some(100.0 / (1.0 + factor))
}
