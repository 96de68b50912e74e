//! Objects that the server writes of its own accord, checked like those of clients and with their
//! row in the audit record. Called by [`crate::joining`] and [`crate::agents`].

use serde_json::{Value, json};
use tombolo_store::{Change, Expect, Object, Write};

use crate::admit::admit;
use crate::kinds::Kind;
use crate::object::{self, Birth, text};
use crate::registry::Served;
use crate::server::Api;
use crate::status::Failure;
use crate::{encode, time};

/// Events about what has no namespace are where Kubernetes puts such.
pub(crate) const EVENT_NAMESPACE: &str = "default";

/// For whom the server writes, and what they did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author<'a> {
    pub user: &'a str,
    pub verb: &'static str,
}

impl Author<'_> {
    /// By the form of the name, which nobody else can have.
    fn role(&self) -> &'static str {
        match self.user.starts_with("tombolo:agent:") {
            true => "agent",
            false => "system",
        }
    }
}

pub(crate) fn served(
    api: &Api,
    group: &str,
    version: &str,
    plural: &str,
) -> std::sync::Arc<Served> {
    let kinds = api.registry.now();
    let found = kinds.find(group, version, plural);
    found.expect("our own kinds are always served").clone()
}

/// The write that makes a new object. Its status is written with it.
pub(crate) fn create(
    api: &Api,
    kind: &Kind,
    body: Value,
    namespace: Option<&str>,
    author: Author<'_>,
) -> Result<Write, Failure> {
    let uid = uuid::Uuid::new_v4().to_string();
    let now = time::now();
    let birth = Birth { now: &now, uid: &uid, suffix: &uid[uid.len() - 5..] };
    let status = body.get("status").cloned();
    let mut object = object::create(kind, body, namespace, birth)?;
    if let Some(status) = status {
        object["status"] = status;
    }
    let object = admitted(api, kind, None, object)?;
    let key = kind.key(namespace, text(&object, "name"));
    let note = note(author, &key, 0);
    let change = Change::Put(encode::draft(&object));
    Ok(Write { key: key.into(), expect: Expect::Absent, change, note })
}

/// The write that turns `live` into `object`, if it still is as it was read.
pub(crate) fn replace(
    api: &Api,
    kind: &Kind,
    stored: &Object,
    live: &Value,
    object: Value,
    author: Author<'_>,
) -> Result<Write, Failure> {
    let object = admitted(api, kind, Some(live), object)?;
    let expect = Expect::Revision(stored.revision);
    let change = Change::Put(encode::draft(&object));
    let note = note(author, &stored.key, stored.revision);
    Ok(Write { key: stored.key.clone(), expect, change, note })
}

/// The write of an Event about a node.
pub(crate) fn event_of_node(
    api: &Api,
    node: &str,
    (type_, reason): (&str, &str),
    message: &str,
    author: Author<'_>,
) -> Result<Write, Failure> {
    let now = time::now();
    let body = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": format!("{node}.")},
        "involvedObject": {"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node", "name": node},
        "type": type_, "reason": reason, "message": message, "count": 1,
        "source": {"component": "tombolo"}, "firstTimestamp": now, "lastTimestamp": now,
    });
    let events = served(api, "", "v1", "events");
    create(api, &events.kind, body, Some(EVENT_NAMESPACE), author)
}

fn admitted(api: &Api, kind: &Kind, live: Option<&Value>, object: Value) -> Result<Value, Failure> {
    let kinds = api.registry.now();
    let admitted = admit(kind, live, object, Vec::new(), None, kinds.plain(), &time::now())?;
    Ok(admitted.object)
}

fn note(author: Author<'_>, key: &str, from: u64) -> Option<bytes::Bytes> {
    Some(encode::to_bytes(&json!({
        "time": time::now(), "user": author.user, "role": author.role(), "verb": author.verb,
        "object": key, "from": from,
    })))
}
