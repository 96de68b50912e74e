//! Link: the way between two sites or nodes. Declared by people or found by probes; the placer
//! computes paths over it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{self, Condition, ConditionStatus};
use crate::keys;
use crate::named::{is_false, named};
use crate::quantity::{BitRate, Duration};

/// The two ends of a link, and what it is said to be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[derive(CustomResource)]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "Link",
    status = "LinkStatus",
    derive = "PartialEq",
    category = "tombolo",
    shortname = "ln",
    doc = "The way between two sites or nodes: its delay, how much it carries and how often it \
           fails, as declared and as measured.",
    printcolumn(
        name = "From",
        type_ = "string",
        json_path = ".spec.ends[0].name",
        description = "One end"
    ),
    printcolumn(
        name = "To",
        type_ = "string",
        json_path = ".spec.ends[1].name",
        description = "The other end"
    ),
    printcolumn(
        name = "Latency",
        type_ = "string",
        json_path = ".status.latency",
        description = "Measured delay"
    ),
    printcolumn(
        name = "Bandwidth",
        type_ = "string",
        json_path = ".status.bandwidth",
        description = "Measured bandwidth"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Declared-Latency",
        type_ = "string",
        json_path = ".spec.latency",
        description = "Delay as declared",
        priority = "1"
    ),
    printcolumn(
        name = "Declared-Bandwidth",
        type_ = "string",
        json_path = ".spec.bandwidth",
        description = "Bandwidth as declared",
        priority = "1"
    ),
    printcolumn(
        name = "Loss",
        type_ = "number",
        json_path = ".status.loss",
        description = "Share of packets lost, in percent",
        priority = "1"
    ),
    printcolumn(
        name = "Failures",
        type_ = "integer",
        json_path = ".status.failures",
        description = "Failures within thirty days",
        priority = "1"
    )
)]
pub struct LinkSpec {
    /// The two ends; they must differ.
    #[schemars(length(min = 2, max = 2))]
    pub ends: Vec<End>,
    /// It leads from the first end to the second only; both ways when left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub one_way: bool,
    /// What it is said to be like. It holds until a measurement contradicts it beyond doubt, which is the
    /// condition `AsDeclared`.
    #[serde(flatten)]
    pub declared: Quality,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Whether it is a site or a node.
    pub kind: EndKind,
    /// Name of the site or node.
    #[schemars(extend("format" = "name"))]
    pub name: String,
}

named! {
    /// What a link can end at.
    pub enum EndKind {
        Site = "Site",
        Node = "Node",
    }
}

/// What a link is like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quality {
    /// One-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
    /// How much the delay varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// Share of packets that are lost, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub loss: Option<f64>,
    /// What it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<BitRate>,
    /// Energy for a gigabyte carried over it, in watt-hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub energy: Option<f64>,
    /// Failures within the last thirty days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
}

/// What the link was measured to be like; written by Tombolo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Single facts about the link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What it was measured to be like.
    #[serde(flatten)]
    pub measured: Quality,
    /// When it was last measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub measured_at: Option<Time>,
    /// Where the delay comes from; probes of this very link when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FigureKind>,
    /// 19 of 20 packets take at most this, one way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p95: Option<Duration>,
    /// How far off the delay may be: half of the width in which two thirds of the samples lie, one way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Duration>,
    /// How many samples the figures rest on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u32>,
    /// Failures a day, of which each earlier day weighs less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub failures_mean: Option<f64>,
}

named! {
    /// Where a figure comes from.
    pub enum FigureKind {
        /// Probes of this very link.
        Measured = "measured",
        /// Worked out from probes of other links.
        Estimated = "estimated",
    }
}

/// What the label `tombolo.dev/managed` says of a Link that the controller has made of what probes found, and takes
/// away again.
pub const MADE_BY_PROBES: &str = "probes";
/// An estimate is as likely to be off by twice its spread as a measurement by once its own.
const MARGIN_OF_ESTIMATES: u64 = 2;

impl Link {
    /// What to reckon with. What the operator has declared holds until a measurement contradicts it beyond doubt,
    /// which is a condition of the link; nothing that was measured makes it better. A delay that nobody declared is
    /// the bad end of what was measured, and of what was estimated a worse one.
    pub fn quality(&self) -> Quality {
        let declared = &self.spec.declared;
        let Some(status) = &self.status else { return declared.clone() };
        let measured = &status.measured;
        let is_broken = condition::find(&status.conditions, condition::AS_DECLARED)
            .is_some_and(|told| told.status == ConditionStatus::False);
        let worst = |declared: Option<Duration>, measured: Option<Duration>| match declared {
            Some(declared) if is_broken => Some(measured.map_or(declared, |it| it.max(declared))),
            Some(declared) => Some(declared),
            None => measured,
        };
        let least = |declared: Option<BitRate>, measured: Option<BitRate>| match declared {
            Some(declared) if is_broken => Some(measured.map_or(declared, |it| it.min(declared))),
            Some(declared) => Some(declared),
            None => measured,
        };
        Quality {
            latency: worst(declared.latency, status.latency_at_most()),
            jitter: worst(declared.jitter, measured.jitter),
            loss: measured.loss.or(declared.loss),
            bandwidth: least(declared.bandwidth, measured.bandwidth),
            energy: measured.energy.or(declared.energy),
            failures: measured.failures.or(declared.failures),
        }
    }

    /// Whether the controller has made it of what probes found, and nobody has declared it.
    pub fn is_made_by_probes(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(keys::LABEL_MANAGED))
            .is_some_and(|by| by == MADE_BY_PROBES)
    }

    /// Whether the delay to reckon with was measured or estimated, and is not what somebody declared.
    pub fn is_found(&self) -> bool {
        let Some(status) = &self.status else { return false };
        status.measured.latency.is_some() && self.quality().latency == status.latency_at_most()
    }

    /// Whether it is one that probes of this very link have brought.
    pub fn is_measured(&self) -> bool {
        let Some(status) = &self.status else { return false };
        status.kind != Some(FigureKind::Estimated) && self.is_found()
    }
}

impl LinkStatus {
    /// The largest delay that one has to reckon with.
    pub fn latency_at_most(&self) -> Option<Duration> {
        let spread = self.spread.unwrap_or_default().micros();
        let margin = match self.kind {
            Some(FigureKind::Estimated) => spread.saturating_mul(MARGIN_OF_ESTIMATES),
            Some(FigureKind::Measured) | None => spread,
        };
        let latency = self.measured.latency?.micros();
        Some(Duration::from_micros(latency.saturating_add(margin)))
    }
}
