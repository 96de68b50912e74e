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
use crate::quantity::{Duration, Level};

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
    /// What is watched and when it counts as violated.
    pub condition: Check,
    /// What to do about a violation. Nothing but a report when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Remediation>,
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

/// What is watched: exactly one of an expression, a template, and a security level.
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
    /// Values for the variables of the expression or template: numbers or strings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "scalars")]
    pub variables: BTreeMap<String, Value>,
    /// How often to look, and how long a violation must last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Properties>,
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
}

/// What to do about a violation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remediation {
    /// The step to take.
    pub action: Action,
    /// Least time between two steps; 1m when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Duration>,
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

named! {
    /// A step against a violation.
    pub enum Action {
        None = "none",
        Migrate = "migrate",
        Redeploy = "redeploy",
        Reallocation = "reallocation",
        ScaleUp = "scale-up",
        ScaleDown = "scale-down",
        ScaleOut = "scale-out",
        ScaleIn = "scale-in",
        Patch = "patch",
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
        Delete = "DELETE",
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
}

named! {
    /// Whether a policy holds.
    pub enum PolicyPhase {
        Enforced = "enforced",
        Violated = "violated",
        Inactive = "inactive",
        Unknown = "unknown",
    }
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
