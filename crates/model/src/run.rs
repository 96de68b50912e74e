//! The ways to run a component, one for each kind of engine. Written by people and descriptors,
//! read by the placer (which engines fit) and by the drivers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::named::is_false;
use crate::quantity::Bytes;
use crate::site::Engine;

/// One way to run a component: exactly one of `container`, `process`, `manifests` and `compose`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// A container image; runs on docker and kubernetes sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// A program of the host; runs on host sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// Kubernetes objects, applied as they are; runs on kubernetes sites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[schemars(schema_with = "objects")]
    pub manifests: Vec<Value>,
    /// A compose project; runs on docker sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "object")]
    pub compose: Option<Value>,
}

/// The one way that a [`Run`] names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way<'a> {
    Container(&'a Container),
    Process(&'a Process),
    Manifests(&'a [Value]),
    Compose(&'a Value),
}

impl Run {
    /// The one way that is given; nothing when none is, or more than one.
    pub fn way(&self) -> Option<Way<'_>> {
        let manifests = (!self.manifests.is_empty()).then_some(self.manifests.as_slice());
        match (&self.container, &self.process, manifests, &self.compose) {
            (Some(container), None, None, None) => Some(Way::Container(container)),
            (None, Some(process), None, None) => Some(Way::Process(process)),
            (None, None, Some(manifests), None) => Some(Way::Manifests(manifests)),
            (None, None, None, Some(compose)) => Some(Way::Compose(compose)),
            (_, _, _, _) => None,
        }
    }
}

impl Way<'_> {
    /// The engines that can run it.
    pub fn engines(self) -> &'static [Engine] {
        match self {
            Way::Container(_) => &[Engine::Docker, Engine::Kubernetes],
            Way::Process(_) => &[Engine::Host],
            Way::Manifests(_) => &[Engine::Kubernetes],
            Way::Compose(_) => &[Engine::Docker],
        }
    }
}

/// A container image and how to start it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The image, with tag or digest.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Replaces the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub command: Vec<String>,
    /// Arguments for the entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("format" = "env-map"))]
    pub env: BTreeMap<String, String>,
    /// Environment variables whose values come from Secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("format" = "env-map"))]
    pub secret_env: BTreeMap<String, KeyRef>,
    /// Ports that the program listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 65535)), extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub ports: Vec<u16>,
    /// Storage that outlives the container, or folders of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    #[schemars(length(max = 64))]
    pub volumes: Vec<Volume>,
    /// Files to put in place before the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    #[schemars(length(max = 64))]
    pub files: Vec<File>,
    /// Working directory; the image's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "path"))]
    pub workdir: Option<String>,
    /// User (and group) to run as, by name or number; the image's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Further groups of that user, by name or number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub groups: Vec<String>,
    /// Capabilities of the kernel to have beside those that containers have, such as `NET_ADMIN`. The
    /// site must allow `capabilities`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64), inner(length(min = 1, max = 64)))]
    pub capabilities: Vec<String>,
    /// Give it full access to the host. Only where nothing else will do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub privileged: bool,
}

/// A program of the host and how to start it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// The program and its arguments.
    #[schemars(length(min = 1, max = 256))]
    pub command: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("format" = "env-map"))]
    pub env: BTreeMap<String, String>,
    /// Environment variables whose values come from Secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("format" = "env-map"))]
    pub secret_env: BTreeMap<String, KeyRef>,
    /// Ports that the program listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 65535)), extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub ports: Vec<u16>,
    /// Files to put in place before the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    #[schemars(length(max = 64))]
    pub files: Vec<File>,
    /// Working directory; one of its own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "path"))]
    pub workdir: Option<String>,
    /// User of the host to run as, where the site allows `host-user`; one of the App's own when left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Do not confine it, and let it run as the agent's own user unless `user` is given. Only where the
    /// site allows `privileged`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub privileged: bool,
}

/// Storage mounted into a container: a named volume, or a folder of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Where it appears in the container.
    #[schemars(extend("format" = "path"))]
    pub path: String,
    /// Name of the volume; those of one App with the same name on one node are the same volume. Not
    /// together with `hostPath`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "label"))]
    pub name: Option<String>,
    /// A folder of the host. Not together with `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "path"))]
    pub host_path: Option<String>,
    /// The room it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Do not let the container write to it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
}

/// A file in a workload; exactly one of `content`, `secret` and `config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// Where it appears.
    #[schemars(extend("format" = "path"))]
    pub path: String,
    /// The text of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1048576))]
    pub content: Option<String>,
    /// An entry of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<KeyRef>,
    /// An entry of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<KeyRef>,
}

/// One entry of a Secret or ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the Secret or ConfigMap.
    #[schemars(extend("format" = "name"))]
    pub name: String,
    /// The entry.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": {
            "type": "object",
            "description": "A Kubernetes object with apiVersion, kind and metadata.",
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}
