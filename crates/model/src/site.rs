//! Site: a place with one engine. Made by an agent that joins or by a person; the first loop keeps
//! its Ready condition.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::named::{is_false, named};
use crate::needs::{Resources, Taint};
use crate::privilege::Privilege;
use crate::quantity::Level;

/// A place with one engine: where it is, whose it is and how far it is trusted.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "Site",
    status = "SiteStatus",
    derive = "PartialEq",
    category = "tombolo",
    doc = "A place with one engine (a bare host, a Docker host or a Kubernetes cluster): where it \
           is, whose it is and how far it is trusted.",
    printcolumn(
        name = "Engine",
        type_ = "string",
        json_path = ".spec.engine",
        description = "What runs workloads there"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether it can take work"
    ),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.ready",
        description = "Nodes that are ready, of all"
    ),
    printcolumn(
        name = "City",
        type_ = "string",
        json_path = ".spec.location.city",
        description = "Where it is"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Layer",
        type_ = "string",
        json_path = ".spec.layer",
        description = "Cloud or edge",
        priority = "1"
    ),
    printcolumn(
        name = "Country",
        type_ = "string",
        json_path = ".spec.location.country",
        description = "The country it is in",
        priority = "1"
    ),
    printcolumn(
        name = "Owner",
        type_ = "string",
        json_path = ".spec.owner",
        description = "Whose it is",
        priority = "1"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "Why it is ready or not",
        priority = "1"
    )
)]
pub struct SiteSpec {
    /// What runs workloads there.
    pub engine: Engine,
    /// A few words for people about this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// The layer of the continuum that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The person or organisation that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub owner: Option<String>,
    /// How far it is trusted: low (0), medium (34), high (67), or a number from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Level>,
    /// Take no new work.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unschedulable: bool,
    /// Marks that keep away what does not tolerate them; they count for all its nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["key", "effect"]
    ))]
    #[schemars(length(max = 32))]
    pub taints: Vec<Taint>,
    /// Grams of CO₂ for a kilowatt-hour of its electricity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 5000.0))]
    pub carbon_intensity: Option<f64>,
    /// What its workloads may do beyond their own walls. Confined programs of the host (`process`) when
    /// left out; with an empty list, plain containers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 32))]
    pub allow: Option<Vec<Privilege>>,
    /// Its nodes measure the network: they probe others, and answer probes on this UDP port of the address at
    /// which each is reached; 0 is any port that is free. They do neither when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_port: Option<u16>,
    /// The address at which other sites reach its gateway, as `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub address: Option<String>,
}

named! {
    /// What runs workloads at a site.
    pub enum Engine {
        /// Plain processes of a Linux host.
        Host = "host",
        /// A Docker engine.
        Docker = "docker",
        /// A Kubernetes cluster.
        Kubernetes = "kubernetes",
    }
}

named! {
    /// A layer of the continuum.
    pub enum Layer {
        Cloud = "cloud",
        NearEdge = "near-edge",
        FarEdge = "far-edge",
    }
}

/// A place on the map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// Continent, such as EU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub continent: Option<String>,
    /// Country, such as DE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub country: Option<String>,
    /// Region of the country, or of a provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub region: Option<String>,
    /// City.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub city: Option<String>,
    /// Degrees north; south is negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -90.0, max = 90.0))]
    pub latitude: Option<f64>,
    /// Degrees east; west is negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -180.0, max = 180.0))]
    pub longitude: Option<f64>,
}

/// How the site fares; written by Tombolo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Single facts about the site, such as Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Nodes that are ready, of all, such as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// What its nodes have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Resources>,
    /// What its nodes have left for work together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<Resources>,
    /// Version of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<String>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
}
