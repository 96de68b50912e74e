//! How many instances a component should have, by what is measured: the part of a Policy that takes the
//! place of a condition and a step. The policy crate reads it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::quantity::Duration;

/// Keeps the number of instances at what metrics ask for. Of several metrics the one that asks for most
/// is heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// Fewest instances; 1 when left out, and with 0 the component sleeps when nothing asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub replicas_min: Option<u32>,
    /// Most instances.
    #[schemars(range(min = 1, max = 10000))]
    pub replicas_max: u32,
    /// What is measured, and what it should be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub metrics: Vec<ScalingMetric>,
    /// Steps for when a metric is above or below something, in place of a target. The first that
    /// holds counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub steps: Vec<ScalingStep>,
    /// How far a metric may be from its target before the number changes, as a share; 0.1 when left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub tolerance: Option<f64>,
    /// How fast it may grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<ScalingRules>,
    /// How fast it may shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<ScalingRules>,
    /// How long nothing must ask for an instance before the last one goes; 5m when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_for: Option<Duration>,
}

/// Something that is measured, and what it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingMetric {
    /// A PromQL expression; its values are added up, or averaged with the kind `average`.
    #[schemars(length(min = 1, max = 16384))]
    pub expr: String,
    /// What the metric should be.
    pub target: f64,
    /// How the metric and the target belong together; per-instance when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
}

named! {
    /// How a metric and its target belong together. `per-instance`: the sum, shared by all instances,
    /// should be the target for each. `average`: the mean of the values should be the target. `total`:
    /// the sum should be the target, and falls as instances are added.
    pub enum TargetKind {
        PerInstance = "per-instance",
        Average = "average",
        Total = "total",
    }
}

/// One step: when a metric is above or below something, so many more or fewer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingStep {
    /// A PromQL expression; its largest value counts with `above`, its smallest with `below`.
    #[schemars(length(min = 1, max = 16384))]
    pub expr: String,
    /// Holds above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
    /// Holds below this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// So many instances more, or fewer when negative.
    #[schemars(range(min = -10000, max = 10000))]
    pub change: i32,
    /// Least time between two uses of this step; 1m when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Duration>,
}

/// How fast the number of instances may change in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// For so long the most cautious number of all looks counts; nothing upwards and 30s downwards
    /// when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Duration>,
    /// Changes that are allowed in a time. Upwards 4 or 100% in 15s, downwards 100% in 15s when left
    /// out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub rates: Vec<Rate>,
    /// Which of several rates counts; the largest when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<RateSelect>,
    /// The tolerance in this direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub tolerance: Option<f64>,
}

/// A change that is allowed in a time: exactly one of a number and a share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// So many instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub replicas: Option<u32>,
    /// Such a share of those that were there at the beginning of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000000))]
    pub percent: Option<u32>,
    /// In any such time.
    pub per: Duration,
}

named! {
    /// Which of several rates counts; `off` allows no change in this direction.
    pub enum RateSelect {
        Max = "max",
        Min = "min",
        Off = "off",
    }
}
