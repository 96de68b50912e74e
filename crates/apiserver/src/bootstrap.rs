//! What a server brings along: its first namespaces and the definitions of its own kinds, written
//! in one commit when they are missing or of another release.

use serde_json::{Value, json};
use tombolo_model::Reason;
use tombolo_store::{Change, Expect, Write};

use crate::kinds::Kind;
use crate::object::{self, Birth, text};
use crate::restore::Access;
use crate::server::Api;
use crate::status::Failure;
use crate::write::store_failure;
use crate::{crd, encode, own_kinds, time};

/// `tombolo-system` holds what the server itself keeps: leases and access tokens.
pub(crate) const NAMESPACES: &[&str] = &["default", SYSTEM];
const SYSTEM: &str = tombolo_model::keys::SYSTEM_NAMESPACE;

pub(crate) async fn run(api: &Api) -> Result<(), Failure> {
    let kinds = api.registry.now();
    let find = |group: &str, plural: &str| {
        let found = kinds.find(group, "v1", plural);
        found.map(|served| &served.kind).expect("a core kind is always served")
    };
    let namespace = find("", "namespaces");
    let definition = find("apiextensions.k8s.io", "customresourcedefinitions");
    let mut writes = Vec::new();
    for name in NAMESPACES {
        let wanted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        writes.extend(write(api, namespace, wanted)?);
    }
    for wanted in own_kinds::definitions() {
        writes.extend(write(api, definition, wanted)?);
    }
    if writes.is_empty() {
        return Ok(());
    }
    api.store.commit(writes).await.map_err(|error| store_failure(definition, "", &error))?;
    api.registry.reload(&api.store);
    Ok(())
}

/// The write that makes an object what this release wants it to be; `None` if it is so already.
fn write(api: &Api, kind: &Kind, wanted: Value) -> Result<Option<Write>, Failure> {
    let key = kind.key(None, text(&wanted, "name"));
    let stored = api.store.get(&key);
    let live = stored.as_deref().map(encode::parse);
    let (expect, object) = match (&stored, &live) {
        (Some(stored), Some(live))
            if live["spec"] != wanted["spec"] && !wanted["spec"].is_null() =>
        {
            let mut object = live.clone();
            object["spec"] = wanted["spec"].clone();
            (Expect::Revision(stored.revision), object::settle(kind, Some(live), object)?)
        }
        (Some(_), _) => return Ok(None),
        (None, _) => {
            let uid = uuid::Uuid::new_v4().to_string();
            let birth = Birth { now: &time::now(), uid: &uid, suffix: "" };
            let object = object::create(kind, wanted, None, birth)?;
            (Expect::Absent, object::settle(kind, None, object)?)
        }
    };
    let mut object = object;
    if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        object["status"] = crd::established_status(&object, &[], &time::now());
    }
    let change = Change::Put(encode::draft(kind, &object));
    let note = encode::to_bytes(&json!({
        "time": time::now(), "user": "system", "role": "system", "verb": "bootstrap",
        "object": key, "from": stored.map_or(0, |stored| stored.revision),
    }));
    Ok(Some(Write { key: key.into(), expect, change, note: Some(note) }))
}

/// Leaves a trace of a backup where people look: everything, with its Secrets, has left the server.
pub(crate) async fn note_backup(api: &Api, user: &str) -> Result<(), Failure> {
    let message = Reason::BackedUp.says(&[("user", user.to_owned())]);
    let note = json!({"user": user, "role": "admin", "verb": "backup", "object": "/", "from": 0});
    leave_trace(api, "backup", ("Normal", Reason::BackedUp), &message, note).await
}

/// Leaves a trace of a restore where people look.
pub(crate) async fn note_restore(
    api: &Api,
    user: &str,
    revision: u64,
    access: Access,
) -> Result<(), Failure> {
    let said = [("user", user.to_owned()), ("access", access.sentence().to_owned())];
    let message = Reason::Restored.says(&said);
    let note = json!({
        "user": user, "role": "admin", "verb": "restore", "object": "/", "from": 0,
        "restored": revision, "what": access.sentence(),
    });
    leave_trace(api, "restore", ("Warning", Reason::Restored), &message, note).await
}

/// An event, and `note` as its row in the audit record.
async fn leave_trace(
    api: &Api,
    name: &str,
    (type_, reason): (&str, Reason),
    message: &str,
    mut note: Value,
) -> Result<(), Failure> {
    let kinds = api.registry.now();
    let event = &kinds.find("", "v1", "events").expect("a core kind is always served").kind;
    let uid = uuid::Uuid::new_v4().to_string();
    let now = time::now();
    let body = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}-{uid}")},
        "involvedObject": {"apiVersion": "v1", "kind": "Namespace", "name": SYSTEM},
        "type": type_, "reason": reason.word(), "count": 1, "message": message,
        "firstTimestamp": now, "lastTimestamp": now,
    });
    let object =
        object::create(event, body, Some(SYSTEM), Birth { now: &now, uid: &uid, suffix: "" })?;
    let key = event.key(Some(SYSTEM), text(&object, "name"));
    note["time"] = json!(now);
    let change = Change::Put(encode::draft(event, &object));
    let note = Some(encode::to_bytes(&note));
    let write = Write { key: key.into(), expect: Expect::Absent, change, note };
    let stored = api.store.commit(vec![write]).await;
    stored.map(drop).map_err(|error| store_failure(event, "", &error))
}
