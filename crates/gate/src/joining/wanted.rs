//! What a machine says when it joins, and an agent when it renews; and what they may not say.

use std::collections::BTreeMap;

use serde::Deserialize;
use tombolo_identity::joining::Sought;
use tombolo_model::jointoken::StandsFor;
use tombolo_model::site::Engine;
use tombolo_model::{keys, names};

use crate::failure::Failure;

const MACHINE_BYTES_MAX: usize = 64;
const VERSION_BYTES_MAX: usize = 64;
/// The Lease is called `node-` and the name.
const NODE_BYTES_MAX: usize = 253 - keys::NODE_LEASE_PREFIX.len();
/// Labels that come with a joining; a person may write more on the Node.
const LABELS_MAX: usize = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Join {
    pub(super) token: String,
    /// The signing request, as PEM.
    pub(super) request: String,
    #[serde(default)]
    pub(super) stands_for: StandsFor,
    /// Nothing from the agent of a whole site.
    #[serde(default)]
    node: String,
    pub(super) machine: String,
    #[serde(default)]
    pub(super) agent_version: String,
    /// Of the site, if this is its first node.
    #[serde(default)]
    pub(super) engine: Option<Engine>,
    /// For the Node, as the operator of the machine wants them.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Renew {
    /// The certificate so far, as PEM; it may have expired.
    pub(super) certificate: String,
    /// A signing request with the same key, whose common name is a nonce of ours.
    pub(super) request: String,
    #[serde(default)]
    pub(super) instance: Option<String>,
    /// For the Node, as the operator of the machine wants them now.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// Labels that were wanted before and are not any more.
    #[serde(default)]
    pub(super) labels_dropped: Vec<String>,
}

impl Join {
    /// What it wants to stand for. [`check_words`] has seen the name.
    pub(super) fn sought(&self) -> Sought<'_> {
        match self.stands_for {
            StandsFor::Node => Sought::Node(&self.node),
            StandsFor::Site => Sought::Site,
        }
    }
}

pub(super) fn check_words(wanted: &Join) -> Result<(), Failure> {
    let wrong =
        |field: &str, problem: String| Err(Failure::bad_request(format!("{field}: {problem}")));
    match wanted.sought() {
        Sought::Site if !wanted.node.is_empty() => {
            return wrong("node", "the agent of a whole site has none".to_owned());
        }
        Sought::Site => (),
        Sought::Node(node) => {
            if let Err(problem) = names::subdomain(node) {
                return wrong("node", problem);
            }
            if node.len() > NODE_BYTES_MAX {
                return wrong("node", format!("at most {NODE_BYTES_MAX} bytes are allowed"));
            }
        }
    }
    let machine = &wanted.machine;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if machine.is_empty() || machine.len() > MACHINE_BYTES_MAX || !machine.bytes().all(allowed) {
        return wrong("machine", "expected 1 to 64 letters, digits and dashes".to_owned());
    }
    let version = &wanted.agent_version;
    let plain = version.bytes().all(|byte| byte.is_ascii_graphic());
    if version.len() > VERSION_BYTES_MAX || !plain {
        return wrong("agentVersion", "expected at most 64 plain characters".to_owned());
    }
    check_labels(&wanted.labels)
}

pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Failure> {
    let wrong =
        |field: &str, problem: String| Err(Failure::bad_request(format!("{field}: {problem}")));
    if labels.len() > LABELS_MAX {
        return wrong("labels", format!("at most {LABELS_MAX} are allowed"));
    }
    for (key, value) in labels {
        let valid = names::qualified(key).and_then(|()| names::label_value(value));
        if let Err(problem) = valid {
            return wrong("labels", problem);
        }
        if keys::is_own(key) {
            return wrong("labels", format!("{key} is set by the server alone"));
        }
    }
    Ok(())
}
