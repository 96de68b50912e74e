//! How fast the number of instances may change: rates, as Kubernetes' HorizontalPodAutoscaler documents them.

use serde::{Deserialize, Serialize};
use tombolo_model::scaling::{RateSelect, ScalingRules};

use crate::compile::millis;

/// What is allowed in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    pub window_ms: i64,
    pub rates: Vec<Rate>,
    pub select: RateSelect,
    /// The tolerance in this direction, where it has one of its own.
    pub tolerance: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub amount: Amount,
    pub per_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Replicas(u32),
    Percent(u32),
}

/// A change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    pub at_ms: i64,
    /// So many more, or fewer when negative.
    pub by: i64,
}

impl Rules {
    /// 4 or 100% in 15 s.
    pub fn usual_up(window_ms: i64) -> Self {
        let four = Rate { amount: Amount::Replicas(4), per_ms: 15_000 };
        let double = Rate { amount: Amount::Percent(100), per_ms: 15_000 };
        Self { window_ms, rates: vec![four, double], select: RateSelect::Max, tolerance: None }
    }

    /// All at once.
    pub fn usual_down(window_ms: i64) -> Self {
        let all = Rate { amount: Amount::Percent(100), per_ms: 15_000 };
        Self { window_ms, rates: vec![all], select: RateSelect::Max, tolerance: None }
    }

    /// What a policy says over what is usual.
    pub fn said(self, said: Option<&ScalingRules>) -> Self {
        let Some(said) = said else { return self };
        let rate = |rate: &tombolo_model::scaling::Rate| {
            let amount = match (rate.replicas, rate.percent) {
                (Some(replicas), _) => Amount::Replicas(replicas),
                (None, percent) => Amount::Percent(percent.unwrap_or(100)),
            };
            Rate { amount, per_ms: millis(rate.per).max(1000) }
        };
        let rates: Vec<Rate> = said.rates.iter().map(rate).collect();
        Self {
            window_ms: said.window.map_or(self.window_ms, millis),
            rates: if rates.is_empty() { self.rates } else { rates },
            select: said.select.unwrap_or(self.select),
            tolerance: said.tolerance,
        }
    }

    /// Most instances that there may be now.
    pub fn up_limit(&self, current: u32, changes: &[Changed], now: i64) -> u32 {
        self.limit(current, changes, now, Direction::Up)
    }

    /// Fewest instances that there may be now.
    pub fn down_limit(&self, current: u32, changes: &[Changed], now: i64) -> u32 {
        self.limit(current, changes, now, Direction::Down)
    }

    fn limit(&self, current: u32, changes: &[Changed], now: i64, way: Direction) -> u32 {
        let allowed = self.rates.iter().map(|rate| {
            let recent = changes.iter().filter(|change| change.at_ms > now - rate.per_ms);
            let start = i64::from(current) - recent.map(|change| change.by).sum::<i64>();
            match (rate.amount, way) {
                (Amount::Replicas(count), Direction::Up) => start + i64::from(count),
                (Amount::Replicas(count), Direction::Down) => start - i64::from(count),
                // Rounded so that a share of a few still moves something.
                (Amount::Percent(share), Direction::Up) => {
                    (start * (100 + i64::from(share)) + 99).div_euclid(100)
                }
                (Amount::Percent(share), Direction::Down) => {
                    (start * (100 - i64::from(share))).div_euclid(100)
                }
            }
        });
        let limit = match (self.select, way) {
            (RateSelect::Off, _) => None,
            (RateSelect::Max, Direction::Up) | (RateSelect::Min, Direction::Down) => allowed.max(),
            (RateSelect::Min, Direction::Up) | (RateSelect::Max, Direction::Down) => allowed.min(),
        };
        let limit = limit.unwrap_or(i64::from(current));
        // Changes of before may allow less than there is; that is not taken back.
        let limit = match way {
            Direction::Up => limit.max(i64::from(current)),
            Direction::Down => limit.min(i64::from(current)).max(0),
        };
        u32::try_from(limit).unwrap_or(u32::MAX)
    }

    /// The longest time that any rate looks back.
    pub fn longest_ms(&self) -> i64 {
        self.rates.iter().map(|rate| rate.per_ms).max().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}
