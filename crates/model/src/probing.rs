//! Probing: what the agent of a node is to probe, and what it has found. The controller writes the spec and the
//! agent the status, one object a node, under its name; Links are made of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::quantity::Duration;

/// A node probes no more peers than this at a time, and tells of no more.
pub const PEERS_MAX: usize = 64;

/// Whom the node of this name probes, and whether it answers the probes of others.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "Probing",
    status = "ProbingStatus",
    derive = "PartialEq",
    category = "tombolo",
    shortname = "pb",
    doc = "Whom the node of this name probes, whether it answers the probes of others, and what it has \
           found. Written by Tombolo, for sites that allow it.",
    printcolumn(
        name = "Answers-At",
        type_ = "string",
        json_path = ".status.address",
        description = "Where the node answers probes"
    ),
    printcolumn(
        name = "Measured",
        type_ = "date",
        json_path = ".status.measuredAt",
        description = "When it last told what it found"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Problem",
        type_ = "string",
        json_path = ".status.problem",
        description = "Why it answers no probes",
        priority = "1"
    )
)]
pub struct ProbingSpec {
    /// The UDP port on which the node answers probes, at the address at which its machine is reached; 0 is any
    /// that is free. It answers none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whom it probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"]))]
    #[schemars(length(max = 64))]
    pub peers: Vec<ProbePeer>,
}

/// A node that is to be probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbePeer {
    /// Its name.
    #[schemars(extend("format" = "name"))]
    pub node: String,
    /// Where it answers probes, as `address:port`.
    #[schemars(length(max = 300))]
    pub address: String,
    /// Its site: all probes of one node to one site share a budget.
    #[schemars(extend("format" = "name"))]
    pub site: String,
    /// Why it matters; it is probed for the map of the network alone when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matter: Option<Matter>,
}

named! {
    /// Why a pair of nodes matters. The first is the most urgent.
    pub enum Matter {
        /// A bound of an App seems to be violated.
        Violated = "Violated",
        /// An App may be placed by it.
        Candidate = "Candidate",
        /// Components talk over it.
        Connected = "Connected",
    }
}

/// What the agent of the node has found; written by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbingStatus {
    /// Where it answers probes, as `address:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub address: Option<String>,
    /// Why it answers none although it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub problem: Option<String>,
    /// When this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub measured_at: Option<Time>,
    /// What was found of each peer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"]))]
    #[schemars(length(max = 64))]
    pub found: Vec<Found>,
}

/// What probes say of one peer. Delays are there and back, without what the peer took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The peer.
    #[schemars(extend("format" = "name"))]
    pub node: String,
    /// Half of the probes were answered within.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<Duration>,
    /// 19 of 20 were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Duration>,
    /// The mean step from one delay to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// Half of the width in which two thirds of the delays lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Duration>,
    /// Probes whose fate is known.
    pub probes: u32,
    /// How many of them were answered.
    pub answered: u32,
    /// How many of the latest in a row were lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_in_a_row: u32,
    /// How long before `measuredAt` the latest answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Duration>,
    /// Its machine says that nobody answers probes there.
    #[serde(default, skip_serializing_if = "crate::named::is_false")]
    pub refused: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
