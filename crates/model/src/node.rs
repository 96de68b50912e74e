//! Node: a machine of a site. The spec is what people say about it; what the agent has found out
//! is in the status, most of it in [`crate::characteristics`].

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::characteristics::Characteristics;
use crate::condition::Condition;
use crate::named::is_false;
use crate::needs::{Resources, Taint};
use crate::site::Location;

/// What people say about a machine: which site it belongs to and whether it takes work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[derive(CustomResource)]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "Node",
    status = "NodeStatus",
    derive = "PartialEq",
    category = "tombolo",
    shortname = "tno",
    doc = "A machine of a site: what it is, what it has, how safe it is and what it costs in energy \
           and money.",
    printcolumn(
        name = "Site",
        type_ = "string",
        json_path = ".spec.site",
        description = "The site it belongs to"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether it can take work"
    ),
    printcolumn(
        name = "Cordoned",
        type_ = "boolean",
        json_path = ".spec.unschedulable",
        description = "Takes no new work"
    ),
    printcolumn(
        name = "Drained",
        type_ = "string",
        json_path = r#".spec.taints[?(@.key=="tombolo.dev/drain")].value"#,
        description = "What ran there is moved away"
    ),
    printcolumn(
        name = "CPU",
        type_ = "string",
        json_path = ".status.allocatable.cpu",
        description = "Processor time for workloads"
    ),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.allocatable.memory",
        description = "Memory for workloads"
    ),
    printcolumn(
        name = "Arch",
        type_ = "string",
        json_path = ".status.characteristics.cpu.architecture",
        description = "Processor architecture"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Security",
        type_ = "integer",
        json_path = ".status.securityScore",
        description = "Security score, 100 is best",
        priority = "1"
    ),
    printcolumn(
        name = "OS",
        type_ = "string",
        json_path = ".status.characteristics.os.name",
        description = "Operating system",
        priority = "1"
    ),
    printcolumn(
        name = "Kernel",
        type_ = "string",
        json_path = ".status.characteristics.os.kernel",
        description = "Version of the kernel",
        priority = "1"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "Why it is ready or not",
        priority = "1"
    ),
    selectable = ".spec.site"
)]
pub struct NodeSpec {
    /// The site it belongs to.
    #[schemars(extend("format" = "name"))]
    pub site: String,
    /// Take no new work (cordoned).
    #[serde(default, skip_serializing_if = "is_false")]
    pub unschedulable: bool,
    /// Marks that keep away what does not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["key", "effect"]
    ))]
    #[schemars(length(max = 32))]
    pub taints: Vec<Taint>,
    /// Where it is, when that is not where its site is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// What is kept back for the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Resources>,
    /// Price of the machine for an hour, in any unit that the nodes share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e12))]
    pub cost_hourly: Option<f64>,
}

/// What the agent has found out about the machine; written by Tombolo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Single facts about the machine, such as Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Resources>,
    /// What of it may be given to workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<Resources>,
    /// What kind of machine it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characteristics: Option<Characteristics>,
    /// How safe its set-up is, from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub security_score: Option<u8>,
    /// How well it complies with the rules that its owner checks, from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub compliance_score: Option<u8>,
    /// Known weaknesses of its software, by gravity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vulnerabilities: Option<Vulnerabilities>,
    /// What it takes in electricity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// How often it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// Addresses at which it is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub addresses: Vec<String>,
    /// How many ports of its workloads are open beyond the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_ports: Option<u32>,
    /// How busy it is, told when that has changed by a good deal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// When the characteristics were last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub characterised_at: Option<Time>,
}

/// A machine as an engine of many describes it, for its Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Names of Nodes are good everywhere, not only at one site.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub capacity: Option<Resources>,
    pub allocatable: Option<Resources>,
    pub characteristics: Option<Characteristics>,
    pub addresses: Vec<String>,
    /// Why it is down, if it is.
    pub down: Option<String>,
}

/// How busy a machine is, as shares of what it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Share of its processors that works, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub cpu: f64,
    /// Share of its memory that is in use, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub memory: Option<f64>,
    /// Share of its processors that is expected to work soon, from 0 to 1, by whoever forecasts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub cpu_forecast: Option<f64>,
}

/// Numbers of known weaknesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vulnerabilities {
    /// Critical ones.
    #[serde(default)]
    pub critical: u32,
    /// High ones.
    #[serde(default)]
    pub high: u32,
    /// Medium ones.
    #[serde(default)]
    pub medium: u32,
    /// Low ones.
    #[serde(default)]
    pub low: u32,
    /// Ones that nobody has judged yet.
    #[serde(default)]
    pub untriaged: u32,
}

/// What a machine takes in electricity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Energy {
    /// Watts when it does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub idle_watts: Option<f64>,
    /// Watts when it is fully busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub busy_watts: Option<f64>,
    /// Grams of CO₂ for a kilowatt-hour, when that differs from its site's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 5000.0))]
    pub carbon_intensity: Option<f64>,
    /// Where the figures come from: measured, or estimated from the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub source: Option<String>,
}

/// How often a machine has failed within the last thirty days.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// The machine itself.
    #[serde(default)]
    pub node: u32,
    /// Its network.
    #[serde(default)]
    pub network: u32,
}
