//! Policy: what must hold, and what to do when it does not. Compiled to rules by the policy crate;
//! [`crate::app::AppPolicy`] shares its condition and remediation.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::Condition;
use crate::named::{is_false, named};
use crate::quantity::{BitRate, Bytes, Duration, Level};
use crate::scaling::Scaling;

/// Whom a policy is about, what must hold, and what to do when it does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[derive(CustomResource)]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "Policy",
    namespaced,
    status = "PolicyStatus",
    derive = "PartialEq",
    category = "tombolo",
    shortname = "pol",
    doc = "Something that must hold for applications or machines, checked against telemetry, and \
           what to do when it does not.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether it holds"
    ),
    printcolumn(
        name = "App",
        type_ = "string",
        json_path = ".spec.subject.app",
        description = "The application it is about"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".spec.subject.node",
        description = "The machine it is about"
    ),
    printcolumn(
        name = "Action",
        type_ = "string",
        json_path = ".spec.remediation.action",
        description = "What happens on a violation"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Template",
        type_ = "string",
        json_path = ".spec.condition.template",
        description = "The template it is made from",
        priority = "1"
    ),
    printcolumn(
        name = "Expression",
        type_ = "string",
        json_path = ".spec.condition.expr",
        description = "What is measured",
        priority = "1"
    ),
    printcolumn(
        name = "Violated-If",
        type_ = "string",
        json_path = ".spec.condition.violatedIf",
        description = "When it counts as violated",
        priority = "1"
    )
)]
pub struct PolicySpec {
    /// Whom it is about. `*` stands for any, and `/…/` for a regular expression.
    pub subject: Subject,
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

/// Whom a policy is about: an application, a machine, or any series with certain labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// An App of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub app: Option<String>,
    /// A component of the App; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub component: Option<String>,
    /// One instance, by the name of its Assignment; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub instance: Option<String>,
    /// A site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub site: Option<String>,
    /// A node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// Labels of the series that are looked at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

named! {
    /// How much a policy matters, the least first.
    pub enum Severity {
        Info = "info",
        Warning = "warning",
        Critical = "critical",
    }
}

named! {
    /// What comes of a violation.
    pub enum Mode {
        Watch = "watch",
        Suggest = "suggest",
        Enforce = "enforce",
    }
}

/// What is watched: exactly one of an expression, a template, and the things that are built in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// A PromQL expression. `{{subject_label_selector}}`, `{{subject_label_list}}` and the
    /// variables are filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16384))]
    pub expr: Option<String>,
    /// When a value of the expression is a violation, such as `> 0.8`. Without it and without
    /// thresholds, any result is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub violated_if: Option<String>,
    /// Values from which on it is a warning, and critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// Name of a template to use in place of an expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "name"))]
    pub template: Option<String>,
    /// The least security score of the node that an instance runs on: low, medium, high, or a
    /// number from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Level>,
    /// How quick and how wide the way to another component must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkCheck>,
    /// The needs by which an instance was placed must go on to hold where it runs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub placement: bool,
    /// A device that must stay there, by its path, such as `/dev/video0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub device: Option<String>,
    /// How long an instance may be silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry_lost: Option<Duration>,
    /// How busy the node of an instance may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_usage: Option<NodeUsage>,
    /// Speak up before it is violated: when the trend leads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Values for the variables of the expression or template: numbers or strings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "scalars")]
    pub variables: BTreeMap<String, Value>,
    /// How often to look, and how long a violation must last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Properties>,
}

impl Check {
    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        *self == Check::default()
    }
}

/// How quick and how wide the way from one component to another must be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkCheck {
    /// The component at the other end.
    #[schemars(length(min = 1, max = 253))]
    pub to: String,
    /// Most time that a packet may take there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_max: Option<Duration>,
    /// Least that must fit through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_min: Option<BitRate>,
}

/// How busy a node may be; any one that is passed is a violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsage {
    /// Most of its processors in use, from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_percent_max: Option<f64>,
    /// Most of its memory in use, from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub memory_percent_max: Option<f64>,
    /// Least memory that must be left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_free_min: Option<Bytes>,
    /// Do not count what the application itself uses.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_app_resources: bool,
}

/// When a trend is taken for a violation to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// How far to look ahead.
    pub within: Duration,
    /// How much of the past makes the trend; as much as `within`, and 10m at least, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Duration>,
    /// The step to take before it comes. Nothing but a report when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

/// Values from which on something is a warning, and critical.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thresholds {
    /// From here on a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<f64>,
    /// From here on critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<f64>,
}

/// How a policy is watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Properties {
    /// Act once, then stop watching.
    #[serde(default, skip_serializing_if = "is_false")]
    pub one_off: bool,
    /// Time between two looks; 15s when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// How long a violation must last before it counts; at once when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_interval: Option<Duration>,
    /// How long a violation stays one after it was last seen; not at all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_firing_for: Option<Duration>,
}

/// What to do about a violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remediation {
    /// The step to take.
    pub action: Action,
    /// Least time between two steps; 1m when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Duration>,
    /// Most steps that may be taken in a time; no more than the cooldown allows when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Most instances that scaling may lead to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub replicas_max: Option<u32>,
    /// Fewest instances that scaling may lead to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub replicas_min: Option<u32>,
    /// For `patch`: the change, merged into the App's component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "object")]
    pub patch: Option<Value>,
    /// For `webhook`: whom to call. With any other action it is called as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

/// How many steps may be taken in a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Most steps.
    #[schemars(range(min = 1, max = 1000))]
    pub acts: u32,
    /// In any such time.
    pub per: Duration,
}

named! {
    /// A step against a violation. `scale-up` and `scale-down` change the number of instances by one;
    /// `scale-out` and `scale-in` change the processor time and memory of each: ICOS's words.
    #[derive(Default)]
    pub enum Action {
        #[default]
        None = "none",
        Migrate = "migrate",
        Redeploy = "redeploy",
        Reallocation = "reallocation",
        ScaleUp = "scale-up",
        ScaleDown = "scale-down",
        ScaleOut = "scale-out",
        ScaleIn = "scale-in",
        Patch = "patch",
        Restart = "restart",
        Quarantine = "quarantine",
        Notify = "notify",
        Webhook = "webhook",
    }
}

/// An address to call on a violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// The address, http or https.
    #[schemars(extend("format" = "url"))]
    #[schemars(length(max = 2048))]
    pub url: String,
    /// The method of the request; POST when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Parameters to add to the request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_params: BTreeMap<String, String>,
    /// Send a token along, so that the receiver knows who calls.
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_access_token: bool,
}

named! {
    /// The method of a request.
    pub enum Method {
        Get = "GET",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
        Head = "HEAD",
        Options = "OPTIONS",
        Connect = "CONNECT",
        Trace = "TRACE",
    }
}

/// Whether the policy holds; written by Tombolo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PolicyPhase>,
    /// Single facts about the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The expression after filling in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<String>,
    /// Violations that last right now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub violations: Vec<Violation>,
    /// When a step was last taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub remediated_at: Option<Time>,
    /// What was decided lately, the newest last, and how far it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub steps: Vec<PolicyStep>,
    /// Steps that wait for a person to accept them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub suggestions: Vec<PolicySuggestion>,
    /// What the watch must not forget over a restart. Written and read by Tombolo only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "object")]
    pub memory: Option<Value>,
}

named! {
    /// Whether a policy holds.
    pub enum PolicyPhase {
        Enforced = "enforced",
        Pending = "pending",
        Predicted = "predicted",
        Violated = "violated",
        Inactive = "inactive",
        Unknown = "unknown",
    }
}

named! {
    /// How far a step is.
    pub enum StepState {
        /// It is written down, and not carried out yet.
        Decided = "decided",
        /// It was carried out.
        Taken = "taken",
        /// It was not taken, and the message says why.
        Refused = "refused",
        /// Something else came first: what it was decided on is no longer there.
        Dropped = "dropped",
    }
}

/// A step against a violation. What it leads to is written here in full before it is taken, so that whoever
/// carries it out a second time changes nothing more.
// Atomic: the loop writes a step whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PolicyStep {
    /// Tells the step from all others of the policy.
    pub id: String,
    /// When it was decided.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Time,
    /// What is done.
    pub action: Action,
    /// How far it is.
    pub state: StepState,
    /// Whom the violation is about, such as `app/shop/web`.
    pub subject: String,
    /// The value that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The value that it should have kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The App that is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The component that is changed or moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The node that is left or put into quarantine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The generation of the App that it was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// What the component is to be, merged into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "object")]
    pub set: Option<Value>,
    /// Why it was decided, and what was not chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What came of it: whether the violation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// A step that waits for a person. `tombolo accept` and `tombolo dismiss` answer it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PolicySuggestion {
    /// What it is accepted or dismissed by.
    pub id: String,
    /// What would be done.
    pub action: Action,
    /// Whom it is about.
    pub subject: String,
    /// The value that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The value that it should have kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// From then on it is void.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub expires: Time,
}

/// One violation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// Whom it is about, such as `app/shop/web/0` or `node/edge-7`.
    pub subject: String,
    /// The value that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The value that it should have kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Option<Time>,
    /// What it means, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

fn scalars(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true, "format": "scalar"},
    })
}

fn object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
