//! `/tombolo/controllers`: where controllers are. A registration is a Lease in the system's
//! namespace, so that there is one truth; who of them is alive is decided in
//! [`tombolo_plan::lighthouse`].
//!
//! `tombolo up` calls [`keep`]: it registers this server with itself, renews that, and looks often
//! enough that nobody who is silent is shown for longer than they should be.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tombolo_identity::{Permit, Subject};
use tombolo_model::{keys, names};
use tombolo_plan::Monotonic;
use tombolo_plan::lighthouse::{Controller, REGISTRATION_LIFE, RENEW_EVERY, Registration, look};
use tombolo_store::{At, Error, Write};

use crate::answer::Answer;
use crate::own_writes::{self, Author};
use crate::server::{Api, read_body_within};
use crate::status::Failure;
use crate::write::store_failure;
use crate::{encode, time};

const BODY_BYTES_MAX: usize = 16 * 1024;
const ADDRESSES_MAX: usize = 16;
const ADDRESS_BYTES_MAX: usize = 256;
/// More controllers than this are not looked at.
const CONTROLLERS_MAX: usize = 1000;
/// How often this server looks who is there when nobody asks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const ATTEMPTS_MAX: usize = 4;

/// A controller that registers.
#[derive(Clone, Debug, Deserialize)]
struct Registering {
    name: String,
    addresses: Vec<String>,
}

/// The controllers that are there.
pub(crate) fn list(api: &Api) -> Result<Response, Failure> {
    let shown = |controller: &Controller| {
        json!({
            "name": controller.name, "addresses": controller.addresses,
            "expiresInSeconds": controller.lasts.as_secs(),
        })
    };
    let controllers: Vec<Value> = active(api)?.iter().map(shown).collect();
    Ok(Answer::value(&json!({"controllers": controllers})).into_response())
}

/// Registers, or renews, which is the same.
pub(crate) async fn register(api: &Api, permit: &Permit, body: Body) -> Result<Response, Failure> {
    let bytes = read_body_within(body, BODY_BYTES_MAX).await?;
    let wanted: Registering = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::bad_request(format!("the body is not as expected: {error}")))?;
    check(&wanted)?;
    write(api, &permit.subject().name, &wanted).await?;
    active(api)?;
    let life = REGISTRATION_LIFE.as_secs();
    Ok(Answer::value(&json!({"name": wanted.name, "expiresInSeconds": life})).into_response())
}

/// Keeps this server registered with itself; never ends.
pub async fn keep(api: Api, name: String, addresses: Vec<String>) {
    let wanted = Registering { name, addresses };
    let user = Subject::system("lighthouse").name;
    let mut renewed = None;
    loop {
        let now = api.door.elapsed();
        if renewed.is_none_or(|at| now.saturating_sub(at) >= RENEW_EVERY) {
            match write(&api, &user, &wanted).await {
                Ok(()) => renewed = Some(now),
                Err(failure) => tracing::warn!(why = failure.message, "cannot register"),
            }
        }
        if let Err(failure) = active(&api) {
            tracing::warn!(why = failure.message, "cannot look for controllers");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn check(wanted: &Registering) -> Result<(), Failure> {
    names::subdomain(&wanted.name)
        .map_err(|problem| Failure::bad_request(format!("name: {problem}")))?;
    let counted = (1..=ADDRESSES_MAX).contains(&wanted.addresses.len());
    let usable = |address: &String| {
        address.len() <= ADDRESS_BYTES_MAX
            && address.starts_with("https://")
            && !address.contains(',')
            && address.parse::<http::Uri>().is_ok()
    };
    match counted && wanted.addresses.iter().all(usable) {
        true => Ok(()),
        false => Err(Failure::bad_request(format!(
            "addresses: expected 1 to {ADDRESSES_MAX} such as https://10.0.0.1:7070"
        ))),
    }
}

/// Who is there now; for facades too.
pub fn active(api: &Api) -> Result<Vec<Controller>, Failure> {
    let leases = own_writes::served(api, "coordination.k8s.io", "v1", "leases");
    let place = leases.kind.namespace_prefix(keys::SYSTEM_NAMESPACE);
    let prefix = format!("{place}{}", keys::CONTROLLER_LEASE_PREFIX);
    let page = api
        .store
        .list(&prefix, At::Latest, None, CONTROLLERS_MAX)
        .map_err(|error| store_failure(&leases.kind, "", &error))?;
    let registered: BTreeMap<String, Registration> = page
        .objects
        .iter()
        .filter_map(|stored| {
            let name = stored.key.strip_prefix(prefix.as_str())?.to_owned();
            let lease = encode::parse(stored);
            let addresses =
                lease["metadata"]["annotations"][keys::ANNOTATION_ADDRESSES].as_str()?;
            let addresses = addresses.split(',').map(str::to_owned).collect();
            Some((name, Registration { version: stored.revision, addresses }))
        })
        .collect();
    let now = Monotonic::from_start(api.door.elapsed());
    let mut memory = api.door.lighthouse();
    let (controllers, next) = look(&registered, &memory, now);
    *memory = next;
    Ok(controllers)
}

async fn write(api: &Api, user: &str, wanted: &Registering) -> Result<(), Failure> {
    let kind = &own_writes::served(api, "coordination.k8s.io", "v1", "leases").kind;
    let name = format!("{}{}", keys::CONTROLLER_LEASE_PREFIX, wanted.name);
    for _ in 0..ATTEMPTS_MAX {
        let raced = match api.store.commit(vec![renewal(api, user, &name, wanted)?]).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match raced {
            Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. } => (),
            error => return Err(store_failure(kind, &name, &error)),
        }
    }
    Err(Failure::stale(kind, &name))
}

fn renewal(api: &Api, user: &str, name: &str, wanted: &Registering) -> Result<Write, Failure> {
    let kind = &own_writes::served(api, "coordination.k8s.io", "v1", "leases").kind;
    let author = Author { user, verb: "register" };
    let now = time::timestamp().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({
        "holderIdentity": wanted.name, "renewTime": now,
        "leaseDurationSeconds": REGISTRATION_LIFE.as_secs(),
    });
    let addresses = json!({keys::ANNOTATION_ADDRESSES: wanted.addresses.join(",")});
    let key = kind.key(Some(keys::SYSTEM_NAMESPACE), name);
    let Some(stored) = api.store.get(&key) else {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
            "metadata": {"name": name, "annotations": addresses},
        });
        return own_writes::create(api, kind, lease, Some(keys::SYSTEM_NAMESPACE), author);
    };
    let live = encode::parse(&stored);
    let mut lease = live.clone();
    lease["spec"] = spec;
    lease["metadata"]["annotations"] = addresses;
    let mut write = own_writes::replace(api, kind, &stored, &live, lease, author)?;
    // A renewal is a heartbeat, and would drown everything else in the audit record.
    write.note = None;
    Ok(write)
}
