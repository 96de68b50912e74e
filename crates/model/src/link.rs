//! Link: the way between two sites or nodes. Declared by people or found by probes; the placer
//! computes paths over it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
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
    /// What it is said to be like; measurements, when there are any, count more.
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
}

impl Link {
    /// What to reckon with: each figure as measured, or else as declared.
    pub fn quality(&self) -> Quality {
        let declared = &self.spec.declared;
        let Some(LinkStatus { measured, .. }) = &self.status else {
            return declared.clone();
        };
        Quality {
            latency: measured.latency.or(declared.latency),
            jitter: measured.jitter.or(declared.jitter),
            loss: measured.loss.or(declared.loss),
            bandwidth: measured.bandwidth.or(declared.bandwidth),
            energy: measured.energy.or(declared.energy),
            failures: measured.failures.or(declared.failures),
        }
    }
}
