//! Assignment: one instance of a component on one target. Written by the placement loop, carried
//! out by the agent of the site, which reports in the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::{Decision, Disconnect};
use crate::component::{Expose, Health, Protocol, Reach};
use crate::condition::Condition;
use crate::named::is_false;
use crate::needs::Resources;
use crate::privilege::Privilege;
use crate::quantity::Duration;
use crate::run::Run;
use crate::site::Engine;

/// One instance of a component, where it is to run and how.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "Assignment",
    namespaced,
    status = "AssignmentStatus",
    derive = "PartialEq",
    category = "tombolo",
    category = "all",
    shortname = "asg",
    doc = "One instance of a component on one target: what to run there, and how far it is. \
           Deleting it takes the instance down.",
    printcolumn(
        name = "App",
        type_ = "string",
        json_path = ".spec.app",
        description = "The application"
    ),
    printcolumn(
        name = "Component",
        type_ = "string",
        json_path = ".spec.component",
        description = "The component"
    ),
    printcolumn(
        name = "Site",
        type_ = "string",
        json_path = ".spec.site",
        description = "The site it runs at"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".spec.node",
        description = "The node it runs on"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#,
        description = "Whether it is up"
    ),
    printcolumn(
        name = "Restarts",
        type_ = "integer",
        json_path = ".status.restarts",
        description = "How often it was restarted"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Engine",
        type_ = "string",
        json_path = ".spec.engine",
        description = "What runs it",
        priority = "1"
    ),
    printcolumn(
        name = "Agent",
        type_ = "string",
        json_path = ".status.agent",
        description = "The agent that has taken it",
        priority = "1"
    ),
    printcolumn(
        name = "Why",
        type_ = "string",
        json_path = ".spec.decision.reason",
        description = "Why it is here",
        priority = "1"
    ),
    selectable = ".spec.site",
    selectable = ".spec.node",
    selectable = ".spec.app",
    selectable = ".spec.component"
)]
pub struct AssignmentSpec {
    /// The App it belongs to, in the same namespace.
    #[schemars(extend("format" = "name"))]
    pub app: String,
    /// The component of the App.
    #[schemars(extend("format" = "label"))]
    pub component: String,
    /// Number of the instance, counted from 0.
    pub replica: u32,
    /// The site that runs it.
    #[schemars(extend("format" = "name"))]
    pub site: String,
    /// The node that runs it; left out when the site's engine chooses the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub node: Option<String>,
    /// The engine that runs it.
    pub engine: Engine,
    /// The way to run it that was chosen.
    pub run: Run,
    /// What the instance gets of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Components it calls, and where their instances are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["component"]
    ))]
    #[schemars(length(max = 64))]
    pub peers: Vec<Peer>,
    /// Ports that others may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["port", "protocol"]
    ))]
    #[schemars(length(max = 64))]
    pub expose: Vec<Expose>,
    /// From where its exposed ports are reached; from the node itself alone where one is not named. Left
    /// out by a controller that does not know of it, which wants all of them reached from everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["port", "protocol"]
    ))]
    #[schemars(length(max = 64))]
    pub reach: Option<Vec<PortReach>>,
    /// How to tell whether the instance is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The instance is started anew when this changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub restarted_at: Option<Time>,
    /// How long the instance may take to stop before it is killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace: Option<Duration>,
    /// What to do when the node is cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disconnect: Option<Disconnect>,
    /// What the site allows of what it asks for beyond its own walls; what every site allows when left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 32))]
    pub allow: Option<Vec<Privilege>>,
    /// Keep the instance stopped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopped: bool,
    /// Grows with every new holder of a stateful component; an instance with an older number must
    /// not write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// The generation of the App that this was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_generation: Option<i64>,
    /// Why this node was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// From where a port is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortReach {
    /// The port that the component listens on.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The protocol of the port.
    #[serde(default)]
    pub protocol: Protocol,
    /// From where.
    pub from: Reach,
}

/// A component that is called, and where its instances are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// The component.
    #[schemars(extend("format" = "label"))]
    pub component: String,
    /// The App it belongs to, when it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub app: Option<String>,
    /// The port that is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// Addresses of its instances, as `host:port`; the nearest come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 1024))]
    pub addresses: Vec<String>,
    /// The address that the instance is bound to: when it changes, the instance is restarted. Left
    /// out for an instance that follows its peers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub bound: Option<String>,
    /// Start only after this component is up.
    #[serde(default, skip_serializing_if = "is_false")]
    pub first: bool,
}

/// How far the instance is; written by the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Applied, Progressing, Available and Degraded, each true, false or unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The agent that has taken the Assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Until when the agent holds it without a renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub held_until: Option<Time>,
    /// Addresses of the instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub addresses: Vec<String>,
    /// Ports of the instance and where they are published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["port", "protocol"]
    ))]
    pub ports: Vec<PublishedPort>,
    /// How often the instance was restarted.
    #[serde(default)]
    pub restarts: u32,
    /// When the running instance was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: Option<Time>,
    /// The engine's own name for the instance: a process number or a container's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// How the last instance ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<Exit>,
}

/// A port and where it is published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedPort {
    /// The port that the component listens on.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The protocol of the port.
    #[serde(default)]
    pub protocol: Protocol,
    /// The port of the node under which it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub published: Option<u16>,
    /// From where it is reached; from everywhere when left out, as agents did that do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
    /// The address of the node on which it is open, when that is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub on: Option<String>,
}

/// How an instance ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    /// Exit code; left out when a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why, in a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Option<Time>,
    /// The last lines that it wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub log: Vec<String>,
}
