//! What it costs to get from one PID to another, by metric, as numbers and as ranks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::names::Pid;

/// What a cost is a cost of. The names are those of RFC 7285 and RFC 9439.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Any unit; less is better.
    RoutingCost,
    Hops,
    /// Microseconds there and back.
    DelayRt,
    /// Bits a second; more is better.
    BandwidthAvailable,
    /// Percent.
    Loss,
}

impl Metric {
    pub const ALL: [Metric; 5] = [
        Metric::RoutingCost,
        Metric::Hops,
        Metric::DelayRt,
        Metric::BandwidthAvailable,
        Metric::Loss,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Metric::RoutingCost => "routingcost",
            Metric::Hops => "hopcount",
            Metric::DelayRt => "delay-rt",
            Metric::BandwidthAvailable => "bw-available",
            Metric::Loss => "lossrate",
        }
    }

    /// What the names of cost types and of resources have.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Metric::RoutingCost => "routing",
            Metric::Hops => "hop",
            Metric::DelayRt => "delay-rt",
            Metric::BandwidthAvailable => "bw-available",
            Metric::Loss => "lossrate",
        }
    }
}

/// Whether costs are to be reckoned with or only to be ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Numerical,
    Ordinal,
}

impl Mode {
    pub const ALL: [Mode; 2] = [Mode::Numerical, Mode::Ordinal];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Numerical => "numerical",
            Mode::Ordinal => "ordinal",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CostType {
    pub metric: Metric,
    pub mode: Mode,
}

impl CostType {
    pub fn all() -> impl Iterator<Item = CostType> {
        let modes = |metric| Mode::ALL.map(|mode| CostType { metric, mode });
        Metric::ALL.into_iter().flat_map(modes)
    }

    /// As `num-routing`.
    pub fn short_name(self) -> String {
        let mode = match self.mode {
            Mode::Numerical => "num",
            Mode::Ordinal => "ord",
        };
        format!("{mode}-{}", self.metric.short())
    }

    pub(crate) fn document(self) -> Value {
        json!({ "cost-mode": self.mode.name(), "cost-metric": self.metric.name() })
    }
}

/// Costs between PIDs, as far as anybody knows them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    numbers: BTreeMap<Metric, BTreeMap<(Pid, Pid), f64>>,
    ranks: BTreeMap<Metric, BTreeMap<(Pid, Pid), u32>>,
}

impl Costs {
    /// Numbers that are none, and costs below zero, are left out.
    pub fn new(costs: impl IntoIterator<Item = (Metric, Pid, Pid, f64)>) -> Costs {
        let mut numbers: BTreeMap<Metric, BTreeMap<(Pid, Pid), f64>> = BTreeMap::new();
        for (metric, from, to, cost) in costs {
            if cost.is_finite() && cost >= 0.0 {
                numbers.entry(metric).or_default().insert((from, to), cost);
            }
        }
        let ranks = numbers.iter().map(|(metric, costs)| (*metric, ranks(*metric, costs)));
        Costs { ranks: ranks.collect(), numbers }
    }

    pub fn metrics(&self) -> impl Iterator<Item = Metric> {
        self.numbers.keys().copied()
    }

    /// A cost in its mode.
    pub fn get(&self, cost_type: CostType, from: &Pid, to: &Pid) -> Option<f64> {
        let pair = (from.clone(), to.clone());
        match cost_type.mode {
            Mode::Numerical => self.numbers.get(&cost_type.metric)?.get(&pair).copied(),
            Mode::Ordinal => self.ranks.get(&cost_type.metric)?.get(&pair).copied().map(f64::from),
        }
    }
}

/// From 1, the best first, equals alike.
fn ranks(metric: Metric, costs: &BTreeMap<(Pid, Pid), f64>) -> BTreeMap<(Pid, Pid), u32> {
    let mut values: Vec<f64> = costs.values().copied().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    let rank = |cost: f64| {
        let lower = values.partition_point(|value| *value < cost);
        let better = match metric {
            Metric::BandwidthAvailable => values.len() - 1 - lower,
            Metric::RoutingCost | Metric::Hops | Metric::DelayRt | Metric::Loss => lower,
        };
        u32::try_from(better + 1).unwrap_or(u32::MAX)
    };
    costs.iter().map(|(pair, cost)| (pair.clone(), rank(*cost))).collect()
}

/// A whole number without a point: clients show what they get.
pub(crate) fn number(cost: f64) -> Value {
    /// Up to here every whole number is one of a float.
    const WHOLE_MOST: f64 = 9_007_199_254_740_992.0;
    if cost.fract() == 0.0 && cost.abs() < WHOLE_MOST {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and small enough")]
        return json!(cost as i64);
    }
    json!(cost)
}
