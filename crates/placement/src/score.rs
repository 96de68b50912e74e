//! The soft wishes: how good each admitted node is for an instance, from 0 to 100 by each criterion
//! and weighed together. A criterion is a row of [`CRITERIA`]; the formulas are in
//! `docs/placement.md`. Called by [`crate::compile`] for all nodes and by [`crate::explain`].
//!
//! No formula looks at how other nodes fare, so one more node leaves the score of the rest alone.

mod ground;
mod weights;
pub(crate) mod wishes;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ask::Ask;
use crate::continuum::Continuum;
use crate::paths::Ways;

pub(crate) use ground::Ground;
pub(crate) use weights::{Mix, gravity};

/// What counts where nothing is known: neither a reward for silence nor a punishment.
pub(crate) const NEUTRAL: f64 = 50.0;

/// One thing to wish for.
pub(crate) struct Criterion {
    pub name: &'static str,
    /// From 0 to 100; `None` when nothing is known about the node.
    pub score: fn(&Wish, &Ground, u32) -> Option<f64>,
    /// The same for all nodes, where nothing but the node decides.
    column: for<'g> fn(&Wish, &'g Ground) -> Option<&'g [f32]>,
}

/// The order is that of [`Mix`].
pub(crate) const CRITERIA: [Criterion; 10] = [
    Criterion {
        name: "performance",
        score: |_, ground, node| known(ground.performance[node as usize]),
        column: |_, ground| Some(&ground.performance),
    },
    Criterion {
        name: "energy",
        score: energy,
        column: |wish, ground| wish.energy_limit.is_none().then_some(&ground.energy),
    },
    Criterion { name: "security", score: security, column: |_, _| None },
    Criterion {
        name: "cost",
        score: cost,
        column: |wish, ground| wish.recommended.is_empty().then_some(&ground.cost),
    },
    Criterion {
        name: "resilience",
        score: |_, ground, node| known(ground.resilience[node as usize]),
        column: |_, ground| Some(&ground.resilience),
    },
    Criterion { name: "latency", score: latency, column: |_, _| None },
    Criterion {
        name: "greenness",
        score: |_, ground, node| known(ground.greenness[node as usize]),
        column: |_, ground| Some(&ground.greenness),
    },
    Criterion {
        name: "stability",
        score: |_, ground, node| known(ground.stability[node as usize]),
        column: |_, ground| Some(&ground.stability),
    },
    Criterion { name: "data", score: data, column: |_, _| None },
    Criterion { name: "recommendation", score: recommendation, column: |_, _| None },
];
pub(crate) const PERFORMANCE: usize = 0;
pub(crate) const ENERGY: usize = 1;
pub(crate) const SECURITY: usize = 2;
pub(crate) const COST: usize = 3;
pub(crate) const RESILIENCE: usize = 4;
pub(crate) const LATENCY: usize = 5;
pub(crate) const GREENNESS: usize = 6;
pub(crate) const STABILITY: usize = 7;
pub(crate) const DATA: usize = 8;
pub(crate) const RECOMMENDATION: usize = 9;

/// What one class of instances wishes for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub mix: Mix,
    pub security_floor: f64,
    /// Ways to each site with users.
    pub users: Vec<Arc<Ways>>,
    /// Ways from where its data lies.
    pub data: Option<Arc<Ways>>,
    pub recommended: BTreeMap<u32, Recommended>,
    /// The middle of the recommended costs.
    pub recommended_cost: Option<f64>,
    /// The share of a node's energy it should stay below, and the cores it takes.
    pub energy_limit: Option<(f64, f64)>,
    /// What a node has beside its score, in hundredths, by node.
    bonuses: Option<Arc<[i32]>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recommended {
    pub value: Option<f64>,
    pub cost: Option<f64>,
}

impl Wish {
    pub(crate) fn new(
        continuum: &Continuum<'_>,
        ask: &Ask<'_>,
        mix: Mix,
        energy_limit: Option<f64>,
    ) -> Wish {
        let component = ask.component;
        let mut recommended = BTreeMap::new();
        for given in &component.recommendations {
            if let Some(node) = continuum.node_index(&given.node) {
                let finite = |n: f64| n.is_finite().then_some(n);
                let value = given.value.and_then(finite).map(|value| value.clamp(0.0, 1.0));
                let cost = given.cost.and_then(finite).map(|cost| cost.max(0.0));
                recommended.insert(node, Recommended { value, cost });
            }
        }
        let mut costs: Vec<f64> = recommended.values().filter_map(|r| r.cost).collect();
        costs.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "cores for a share")]
        let cores = ask.demand.cpu_millis as f64 / 1000.0;
        Wish {
            mix,
            security_floor: f64::from(ask.needs.security.map_or(0, |level| level.score())),
            users: Vec::new(),
            data: None,
            recommended,
            recommended_cost: costs.get(costs.len() / 2).copied(),
            energy_limit: energy_limit.map(|limit| (limit, cores)),
            bonuses: wishes::bonuses(continuum, &component.prefers, ask.needs).map(Arc::from),
        }
    }

    /// From 0 to 100, all criteria weighed.
    pub(crate) fn score(&self, ground: &Ground, node: u32) -> f64 {
        // All that counts is traffic, and that is not a matter of one node.
        if self.mix.iter().next().is_none() {
            return NEUTRAL;
        }
        let weighed = self.mix.iter().map(|(criterion, weight)| {
            let score = (CRITERIA[criterion].score)(self, ground, node);
            weight * score.unwrap_or(NEUTRAL)
        });
        weighed.sum()
    }

    /// The score in hundredths, as the search adds them up.
    pub(crate) fn value(&self, ground: &Ground, node: u32) -> i32 {
        hundredths(self.score(ground, node)) + self.bonus(node)
    }

    /// What a node has beside its score, in hundredths.
    pub(crate) fn bonus(&self, node: u32) -> i32 {
        self.bonuses.as_ref().map_or(0, |bonuses| bonuses[node as usize])
    }

    /// The value of every node, as [`Wish::value`] has it: criterion after criterion, which is many
    /// times quicker than node after node.
    pub(crate) fn values(&self, ground: &Ground) -> Vec<i32> {
        let nodes = ground.zone.len();
        if self.mix.iter().next().is_none() {
            return self.with_bonuses(vec![hundredths(NEUTRAL); nodes]);
        }
        let mut sums = vec![0.0; nodes];
        for (criterion, weight) in self.mix.iter() {
            let row = &CRITERIA[criterion];
            match (row.column)(self, ground) {
                Some(column) => {
                    for (sum, score) in sums.iter_mut().zip(column) {
                        *sum += weight * if score.is_nan() { NEUTRAL } else { f64::from(*score) };
                    }
                }
                None => {
                    for (node, sum) in (0u32..).zip(&mut sums) {
                        *sum += weight * (row.score)(self, ground, node).unwrap_or(NEUTRAL);
                    }
                }
            }
        }
        self.with_bonuses(sums.into_iter().map(hundredths).collect())
    }

    fn with_bonuses(&self, mut values: Vec<i32>) -> Vec<i32> {
        let bonuses = self.bonuses.iter().flat_map(|bonuses| bonuses.iter());
        values.iter_mut().zip(bonuses).for_each(|(value, bonus)| *value += bonus);
        values
    }

    /// Each criterion that counts: its name, its weight, and the score if anything is known.
    pub(crate) fn terms<'w>(
        &'w self,
        ground: &'w Ground,
        node: u32,
    ) -> impl Iterator<Item = (&'static str, f64, Option<f64>)> + 'w {
        self.mix.iter().map(move |(criterion, weight)| {
            let row = &CRITERIA[criterion];
            (row.name, weight, (row.score)(self, ground, node))
        })
    }
}

fn hundredths(score: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 0..=10000")]
    let value = (score * 100.0).round().clamp(0.0, 10_000.0) as i32;
    value
}

/// The price of one unit of traffic, 0 to 100: 0 at home, half of it at 20 ms or 50 Wh for a
/// gigabyte.
pub(crate) fn traffic_cost(latency_us: u64, energy_wh: f64, home: bool) -> i64 {
    const LATENCY_US_HALF: f64 = 20_000.0;
    const ENERGY_WH_HALF: f64 = 50.0;
    if home {
        return 0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a delay for a score")]
    let length = latency_us as f64 / LATENCY_US_HALF + energy_wh / ENERGY_WH_HALF;
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
    let cost = (100.0 * length / (1.0 + length)).round() as i64;
    cost.clamp(1, 100)
}

fn known(score: f32) -> Option<f64> {
    (!score.is_nan()).then_some(f64::from(score))
}

fn energy(wish: &Wish, ground: &Ground, node: u32) -> Option<f64> {
    if let Some((limit, cores)) = wish.energy_limit {
        let of_node = f64::from(ground.cores[node as usize]);
        if of_node > 0.0 && 100.0 * cores / of_node > limit {
            return Some(0.0);
        }
    }
    known(ground.energy[node as usize])
}

fn security(wish: &Wish, ground: &Ground, node: u32) -> Option<f64> {
    let score = known(ground.security[node as usize])?;
    let floor = wish.security_floor;
    Some(match floor < 100.0 {
        true => (100.0 * (score - floor) / (100.0 - floor)).clamp(0.0, 100.0),
        false => 100.0,
    })
}

fn cost(wish: &Wish, ground: &Ground, node: u32) -> Option<f64> {
    let told = wish.recommended.get(&node).and_then(|recommended| recommended.cost);
    match (told, wish.recommended_cost) {
        (Some(cost), Some(middle)) if middle > 0.0 => Some(100.0 * middle / (middle + cost)),
        (Some(cost), Some(_)) => Some(if cost > 0.0 { 0.0 } else { 100.0 }),
        (_, _) => known(ground.cost[node as usize]),
    }
}

fn latency(wish: &Wish, ground: &Ground, node: u32) -> Option<f64> {
    const LATENCY_US_HALF: f64 = 20_000.0;
    let zone = ground.zone[node as usize] as usize;
    if wish.users.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    for ways in &wish.users {
        let Some(way) = ways.get(zone).and_then(Option::as_ref) else { return Some(0.0) };
        #[expect(clippy::cast_precision_loss, reason = "a delay for a score")]
        let latency = way.latency_us as f64;
        sum += latency;
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 64 sites")]
    let mean = sum / wish.users.len() as f64;
    Some(100.0 * LATENCY_US_HALF / (LATENCY_US_HALF + mean))
}

fn data(wish: &Wish, ground: &Ground, node: u32) -> Option<f64> {
    let ways = wish.data.as_ref()?;
    let zone = ground.zone[node as usize] as usize;
    let Some(way) = ways.get(zone).and_then(Option::as_ref) else { return Some(0.0) };
    let home = way.links.is_empty() && !way.assumed;
    #[expect(clippy::cast_precision_loss, reason = "between 0 and 100")]
    let cost = traffic_cost(way.latency_us, 0.0, home) as f64;
    Some(100.0 - cost)
}

fn recommendation(wish: &Wish, _: &Ground, node: u32) -> Option<f64> {
    let value = wish.recommended.get(&node).and_then(|recommended| recommended.value);
    Some(100.0 * value.unwrap_or(0.0))
}

#[cfg(test)]
mod tests;
