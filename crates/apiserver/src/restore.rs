//! Who may come in after a restore. A backup is older than what has been revoked since it was made, so
//! that taking it as it is would give back what was taken away. Called by [`crate::own_paths`] and, with the
//! server stopped, by the shell; start at [`amend`].
//!
//! A store remembers who may come in: access tokens and join tokens as they are now, and with each Node or Site the
//! key that acts for it. The rest comes from the backup. A store that is another than the one that was
//! backed up, or empty, has no such memory; then whoever restores has to say what shall hold.

use serde_json::{Value, json};
use tombolo_identity::token::{ACCESS_TOKEN_TYPE, SYSTEM_NAMESPACE};
use tombolo_model::keys;
use tombolo_store::{Amend, Amendment, Object, Objects};

use crate::encode;

/// What of a Node, or of a Site with one agent, says who acts for it.
const MARKS: [&str; 5] = [
    keys::ANNOTATION_KEY,
    keys::ANNOTATION_MACHINE,
    keys::ANNOTATION_REVOKED,
    keys::ANNOTATION_QUARANTINED,
    keys::ANNOTATION_CERTIFICATE_EXPIRES,
];

/// Who may come in after a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Those who may now.
    #[default]
    Kept,
    /// Those who might when the backup was made.
    Backup,
    /// Only the holder of `admin.token`: tokens are made and machines join anew.
    Nobody,
}

impl Access {
    pub const CHOICES: &[(&str, Access)] =
        &[("kept", Access::Kept), ("backup", Access::Backup), ("nobody", Access::Nobody)];

    /// The sentence for those who look later.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Access::Kept => "who may come in stayed as it was",
            Access::Backup => {
                "tokens and nodes that were revoked since it was made are valid again"
            }
            Access::Nobody => "its tokens and nodes are worth nothing until they are made anew",
        }
    }
}

/// `now` marks the Nodes that are revoked by this.
pub fn amend(access: Access, now: String) -> Amend {
    Amend::new(move |live, backup| decide(access, live, backup, &now))
}

fn decide(
    access: Access,
    live: &Objects,
    backup: &[Object],
    now: &str,
) -> Result<Amendment, String> {
    let nobody = Objects::new();
    let live = match access {
        Access::Backup => return Ok(Amendment::default()),
        Access::Nobody => &nobody,
        Access::Kept if is_same_store(live, backup) => live,
        Access::Kept => {
            return Err("this store is not the one that was backed up, and does not know what was \
                        revoked since; say who may come in: access=backup (every token and node of the \
                        backup, also those revoked since) or access=nobody (tokens are made anew, \
                        and machines join again)"
                .to_owned());
        }
    };
    let mut amendment = Amendment::default();
    for object in backup {
        if is_token(object) {
            amendment.left_out.insert(object.key.clone());
        }
        if has_agent(object) {
            let marked = marked(value(object), live.get(&object.key).map(|live| value(live)), now);
            amendment.put.insert(object.key.clone(), encode::draft_stored(&marked));
        }
    }
    let tokens = live.values().filter(|object| is_token(object));
    amendment.put.extend(tokens.map(|object| (object.key.clone(), object.draft())));
    Ok(amendment)
}

/// A store makes its own namespace when it begins, and keeps it for ever.
fn is_same_store(live: &Objects, backup: &[Object]) -> bool {
    let key = format!("/namespaces//{SYSTEM_NAMESPACE}");
    let uid = |object: &Object| value(object)["metadata"]["uid"].as_str().map(str::to_owned);
    let now = live.get(key.as_str()).and_then(|object| uid(object));
    let then = backup.iter().find(|object| *object.key == *key).and_then(uid);
    now.is_some() && now == then
}

fn is_token(object: &Object) -> bool {
    let is_secret = object.key.starts_with(&format!("/secrets/{SYSTEM_NAMESPACE}/"));
    is_secret && value(object)["type"] == ACCESS_TOKEN_TYPE
        || object.key.starts_with(&format!("{}/jointokens//", keys::GROUP))
}

/// Nodes, and Sites whose one agent stands for all their nodes.
fn has_agent(object: &Object) -> bool {
    ["nodes", "sites"]
        .iter()
        .any(|kind| object.key.starts_with(&format!("{}/{kind}//", keys::GROUP)))
}

/// The Node or Site of the backup with what is known now of who acts for it. One that is not there now was
/// removed: its agent must not come back without a new token.
fn marked(mut node: Value, live: Option<Value>, now: &str) -> Value {
    let known = match live {
        Some(live) => live["metadata"]["annotations"].clone(),
        // Without a key nobody has ever joined as it, and there is no certificate to come back with.
        None if node["metadata"]["annotations"][keys::ANNOTATION_KEY].is_null() => return node,
        None => json!({keys::ANNOTATION_REVOKED: now}),
    };
    if node["metadata"]["annotations"].is_null() {
        node["metadata"]["annotations"] = json!({});
    }
    let Some(annotations) = node["metadata"]["annotations"].as_object_mut() else { return node };
    for mark in MARKS {
        match &known[mark] {
            Value::Null => annotations.remove(mark),
            found => annotations.insert(mark.to_owned(), found.clone()),
        };
    }
    if annotations.is_empty()
        && let Some(metadata) = node["metadata"].as_object_mut()
    {
        metadata.remove("annotations");
    }
    node
}

/// A backup may hold anything; what is no JSON is nobody's token.
fn value(object: &Object) -> Value {
    serde_json::from_slice(&object.bytes).unwrap_or_default()
}
