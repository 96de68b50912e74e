//! App: what a user wants to run. Read by the placement loop, written by people and by every
//! descriptor format. Components are in [`crate::component`].

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::component::{Component, Protocol};
use crate::condition::Condition;
use crate::named::{is_false, named};
use crate::policy::{Check, Mode, Remediation, Severity};
use crate::quantity::Duration;
use crate::scaling::Scaling;
use crate::site::Engine;

/// What shall run: the components of an application, what each of them needs, how they talk to each
/// other and what matters most.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "App",
    namespaced,
    status = "AppStatus",
    derive = "PartialEq",
    category = "tombolo",
    category = "all",
    doc = "An application: its components, what each of them needs, how they talk to each other, \
           and where Tombolo has put them.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "How far the application is"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.ready",
        description = "Instances that are up, of all that should be"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Degraded")].reason"#,
        description = "What is in its way, in a word"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".status.endpoints[0].url",
        description = "The first public address",
        priority = "1"
    ),
    printcolumn(
        name = "Profile",
        type_ = "string",
        json_path = ".spec.profile",
        description = "The named set of weights",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        description = "What is going on, in a sentence",
        priority = "1"
    ),
    selectable = ".status.phase"
)]
pub struct AppSpec {
    /// A few words for people about what this application does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Put all components on the same kind of engine. Leave it out to let each run where it fits
    /// best.
    #[serde(default, skip_serializing_if = "is_false")]
    pub homogeneous: bool,
    /// Take everything down but keep the application and its history. Set it back to start again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopped: bool,
    /// A named set of weights. `weights`, where given, changes single ones of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// How much each criterion counts when several nodes would do. Only the proportions matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// The importance of this application when room is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// How many failures the application takes in its stride: the lower, the more a node's and a
    /// link's failures count against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_tolerance: Option<Grade>,
    /// The share of a node's energy, in percent, that this application should stay below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub energy_limit: Option<f64>,
    /// What to do when a node falls silent. A component may have its own rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disconnect: Option<Disconnect>,
    /// The parts of the application; at least one.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(length(min = 1, max = 512))]
    pub components: Vec<Component>,
    /// What must hold while the application runs, and what to do when it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(length(max = 64))]
    pub policies: Vec<AppPolicy>,
}

named! {
    /// A named set of weights; `pack` is `balanced` on few nodes, filled one after the other.
    pub enum Profile {
        Balanced = "balanced",
        Greenness = "greenness",
        Resilience = "resilience",
        Performance = "performance",
        Pack = "pack",
    }
}

named! {
    /// The importance of an application.
    pub enum Qos {
        Gold = "gold",
        Silver = "silver",
        BestEffort = "best-effort",
    }
}

named! {
    /// Low, medium or high.
    pub enum Grade {
        Low = "low",
        Medium = "medium",
        High = "high",
    }
}

/// How much each criterion counts. Zero or more; only the proportions matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Weights {
    /// Spare room, speed and little load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub performance: Option<f64>,
    /// Little energy for the work, and clean energy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub energy: Option<f64>,
    /// A security score above what is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub security: Option<f64>,
    /// A low price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub cost: Option<f64>,
    /// Few failures of node and links, and many ways to reach the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub resilience: Option<f64>,
    /// Short ways to users and between components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub latency: Option<f64>,
}

/// What happens to instances on a node that has fallen silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disconnect {
    /// `keep` waits for the node without end, `replace` starts another instance elsewhere, `stop`
    /// makes the cut-off node take its instance down.
    pub action: DisconnectAction,
    /// How long to wait before acting. Needed for `replace` and `stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,
    /// Which instance stays when the node returns after a replacement: the `newest` (default) or
    /// the `original`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_return: Option<OnReturn>,
}

named! {
    /// What to do when a node falls silent.
    pub enum DisconnectAction {
        Keep = "keep",
        Replace = "replace",
        Stop = "stop",
    }
}

named! {
    /// Which of two instances stays.
    pub enum OnReturn {
        Newest = "newest",
        Original = "original",
    }
}

/// A policy written inside an App; it applies to this App only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppPolicy {
    /// Name of the policy, unique within the App.
    #[schemars(extend("format" = "label"))]
    pub name: String,
    /// Components it applies to; all of them when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 512))]
    pub components: Vec<String>,
    /// What is watched and when it counts as violated. Left out only where `scaling` says what is
    /// watched.
    #[serde(default, skip_serializing_if = "Check::is_empty")]
    pub condition: Check,
    /// What to do about a violation. Nothing but a report when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Remediation>,
    /// Keeps the number of instances at what metrics ask for, instead of a condition and a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// How much it matters. Of policies that want opposite things the more severe one is heard;
    /// warning when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// Only watch, suggest a step that a person accepts, or take it; enforce when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Keep the policy but do not watch it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspended: bool,
}

/// Where the application is and how it fares; written by Tombolo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How far the application is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AppPhase>,
    /// What is going on, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Instances that are up, of all that should be, such as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Where every instance runs, and why there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["component", "replica"]
    ))]
    pub placements: Vec<Placement>,
    /// Instances that found no place, and what stands in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["component", "replica"]
    ))]
    pub unplaced: Vec<Unplaced>,
    /// Addresses at which components can be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// Single facts about the application, each true, false or unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What Tombolo remembers of nodes when it chooses places for this application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remembered: Option<Remembered>,
}

/// What counts when places are chosen, and only time has shown. Kept in the status so that a restart of the
/// server does not forget it. All lengths are as of the last write and rounded down; the time in which
/// no server ran does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Remembered {
    /// Nodes with instances of the application from which nothing is heard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<Silence>,
    /// Nodes on which components failed, by all appearances through the fault of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// A node from which nothing is heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    /// The node.
    pub node: String,
    /// For at least how long it has been silent.
    pub seconds: u32,
}

/// A component that failed on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The component.
    pub component: String,
    /// The node.
    pub node: String,
    /// How long ago it was last seen to fail there; 0 while it does.
    pub seconds_ago: u32,
}

named! {
    /// How far an application is.
    pub enum AppPhase {
        /// Nobody has looked at it yet.
        Pending = "Pending",
        /// Places are being chosen.
        Placing = "Placing",
        /// Places are chosen and instances are starting, or being updated.
        Deploying = "Deploying",
        /// All instances are up, and what the App says.
        Running = "Running",
        /// Some instances are not up or went back to what they were before an update, or a policy is
        /// violated.
        Degraded = "Degraded",
        /// No choice of nodes satisfies the needs.
        Unplaceable = "Unplaceable",
        /// Taken down on request.
        Stopped = "Stopped",
    }
}

/// One instance and the node it was given.
// Atomic: the loop writes a placement whole, and the owners of its single fields would take more room in
// every App than the placement itself. The same goes for a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Placement {
    /// The component.
    pub component: String,
    /// Number of the instance, counted from 0.
    pub replica: u32,
    /// The site.
    pub site: String,
    /// The node; left out when the site's engine chooses the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The engine that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Name of the Assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<String>,
    /// Whether the instance is up.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ready: bool,
    /// The silent node in whose place this one was chosen; the instance goes back there when the
    /// node returns. Only with `onReturn: original`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// Why this node was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// Why a node was chosen over the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Decision {
    /// The reason in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Weighted sum of the terms; 100 is the best possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What each criterion contributed, from 0 to 100 before weighing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, f64>,
    /// The next best nodes and how far behind they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub alternatives: Vec<Alternative>,
}

/// A node that would have done as well, or nearly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    /// The site.
    pub site: String,
    /// The node, when one was considered by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How many points of score it was behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<f64>,
    /// What speaks against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An instance without a place. One that is among the placements too runs there for now, and has no
/// place as it is wanted: its node is drained, or it is to be larger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unplaced {
    /// The component.
    pub component: String,
    /// Number of the instance, counted from 0.
    pub replica: u32,
    /// The needs that no node satisfies together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The smallest change that would make it fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// The search for a place ended after this many steps without one, and without a proof that there
    /// is none. Left out where it is proven that no choice of nodes will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_up_after: Option<u64>,
}

/// An address at which a component can be reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The component.
    pub component: String,
    /// The port that the component listens on.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The protocol of the port.
    #[serde(default)]
    pub protocol: Protocol,
    /// The address to use.
    pub url: String,
    /// Whether it can be reached from outside.
    #[serde(default, skip_serializing_if = "is_false")]
    pub public: bool,
}
