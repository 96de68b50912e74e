//! JoinToken: a short-lived right to join, used once. Made by `tombolo token create`; only a hash
//! of the secret is kept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;

/// Who may join, with what secret and until when.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "JoinToken",
    status = "JoinTokenStatus",
    derive = "PartialEq",
    category = "tombolo",
    shortname = "jt",
    doc = "A right to join the continuum as a machine of one site: used once, valid for a short \
           time, and kept only as a hash.",
    printcolumn(
        name = "Site",
        type_ = "string",
        json_path = ".spec.site",
        description = "The site it lets join"
    ),
    printcolumn(
        name = "Expires",
        // A date in the future has no age.
        type_ = "string",
        json_path = ".spec.expires",
        description = "Until when it is valid"
    ),
    printcolumn(
        name = "Used-By",
        type_ = "string",
        json_path = ".status.usedBy",
        description = "Who has used it"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct JoinTokenSpec {
    /// The site that the holder may join.
    #[schemars(extend("format" = "name"))]
    pub site: String,
    /// What the holder will stand for: one node, or every node of the site.
    #[serde(default, skip_serializing_if = "StandsFor::is_node")]
    pub stands_for: StandsFor,
    /// SHA-256 of the secret, as 64 hexadecimal digits. The secret itself is kept nowhere.
    #[schemars(extend("format" = "sha256"))]
    pub hash: String,
    /// Until when it is valid.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub expires: Time,
    /// A few words for people about whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
}

named! {
    /// What an agent stands for.
    #[derive(Default)]
    pub enum StandsFor {
        #[default]
        Node = "node",
        Site = "site",
    }
}

impl StandsFor {
    fn is_node(&self) -> bool {
        *self == StandsFor::Node
    }
}

/// What has become of the token; written by Tombolo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinTokenStatus {
    /// When it was used. A used token is worth nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub used_at: Option<Time>,
    /// The node that used it, or the site if it is for the agent of a whole site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
    /// While the joining is under way: SHA-256 of the public key of the machine that uses it. This
    /// machine alone may go on if its joining broke off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_key: Option<String>,
}
