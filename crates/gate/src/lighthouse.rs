//! `/tombolo/controllers`: where controllers are. A registration is a Lease in the system's
//! namespace, so that there is one truth; [`crate::leases`] hears of them all, and who of them is
//! alive is decided in [`tombolo_plan::lighthouse`].
//!
//! `tombolo up` calls [`keep`]: it registers this server with itself, renews that, and looks often
//! enough that nobody who is silent is shown for longer than they should be.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tombolo_identity::Subject;
use tombolo_model::{keys, names};
use tombolo_plan::Monotonic;
use tombolo_plan::lighthouse::{Controller, REGISTRATION_LIFE, RENEW_EVERY};

use crate::caller::Caller;
use crate::failure::{Failure, answer};
use crate::record::Record;
use crate::resources::{Unwritten, lease, timestamp};
use crate::{Gate, body};

const BODY_BYTES_MAX: usize = 16 * 1024;
const ADDRESSES_MAX: usize = 16;
const ADDRESS_BYTES_MAX: usize = 256;
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
pub(crate) fn list(gate: &Gate) -> Response {
    let shown = |controller: &Controller| {
        json!({
            "name": controller.name, "addresses": controller.addresses,
            "expiresInSeconds": controller.lasts.as_secs(),
        })
    };
    let controllers: Vec<Value> = active(gate).iter().map(shown).collect();
    answer(StatusCode::OK, &json!({"controllers": controllers}))
}

/// Registers, or renews, which is the same.
pub(crate) async fn register(
    gate: &Gate,
    caller: &Caller,
    body: Body,
) -> Result<Response, Failure> {
    let wanted: Registering = body::parse(body, BODY_BYTES_MAX).await?;
    check(&wanted)?;
    write(gate, caller.subject(), &wanted).await?;
    active(gate);
    let life = REGISTRATION_LIFE.as_secs();
    Ok(answer(StatusCode::OK, &json!({"name": wanted.name, "expiresInSeconds": life})))
}

/// Keeps this server registered with itself; never ends.
pub(crate) async fn keep(gate: &Gate, name: String, addresses: Vec<String>) {
    let wanted = Registering { name, addresses };
    let subject = Subject::system("lighthouse");
    let mut renewed = None;
    loop {
        let now = gate.elapsed();
        if renewed.is_none_or(|at| now.saturating_sub(at) >= RENEW_EVERY) {
            match write(gate, &subject, &wanted).await {
                Ok(()) => renewed = Some(now),
                Err(failure) => tracing::warn!(why = failure.message, "cannot register"),
            }
        }
        active(gate);
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

fn active(gate: &Gate) -> Vec<Controller> {
    let now = Monotonic::from_start(gate.elapsed());
    gate.leases().controllers(now)
}

async fn write(gate: &Gate, subject: &Subject, wanted: &Registering) -> Result<(), Failure> {
    let name = format!("{}{}", keys::CONTROLLER_LEASE_PREFIX, wanted.name);
    let record = Record::new(subject, "register");
    for _ in 0..ATTEMPTS_MAX {
        let mut wish = registration(wanted);
        // Most of the time it is there.
        let written = match gate.resources().patch(&lease(&name), &wish, &record).await {
            Err(Unwritten::Raced) => {
                wish["apiVersion"] = json!("coordination.k8s.io/v1");
                wish["kind"] = json!("Lease");
                wish["metadata"]["name"] = json!(name);
                gate.resources().create(&lease(""), &wish, &record).await
            }
            written => written,
        };
        match written {
            Ok(written) => {
                // So that a controller that has registered is listed at once.
                if let Ok(lease) = serde_json::from_value(written) {
                    gate.leases().hear_controller(&lease);
                }
                return Ok(());
            }
            Err(Unwritten::Raced) => (),
            Err(Unwritten::Refused(failure)) => return Err(failure),
        }
    }
    Err(Failure::new(409, "Conflict", "too many register under this name at once; try again"))
}

fn registration(wanted: &Registering) -> Value {
    let now = timestamp().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    json!({
        "metadata": {"annotations": {keys::ANNOTATION_ADDRESSES: wanted.addresses.join(",")}},
        "spec": {
            "holderIdentity": wanted.name, "renewTime": now,
            "leaseDurationSeconds": REGISTRATION_LIFE.as_secs(),
        },
    })
}
