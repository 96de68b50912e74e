//! The Lease by which a node says that it is alive. `plan::leases` listens for its changes, and the
//! apiserver looks at the holder to tell a clone.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tombolo_model::keys::{self, SYSTEM_NAMESPACE};

use crate::{Error, clock};

/// A Lease lasts for four of these: two may be lost, and one late.
pub const EVERY: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u32 = 40;
/// Longer than this, and the next beat is due.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
const FIELD_MANAGER: &str = "tombolo-agent";

/// One heartbeat of `node`, as `instance`.
pub async fn beat(client: &Client, node: &str, instance: &str) -> Result<(), Error> {
    write(client, node, instance).await
}

/// A good-bye: the node is NotReady at once, and whoever comes next is no clone.
pub async fn release(client: &Client, node: &str) -> Result<(), Error> {
    write(client, node, "").await
}

/// Applied, so that it makes the Lease if it is not there, and is the same when it comes twice.
async fn write(client: &Client, node: &str, holder: &str) -> Result<(), Error> {
    let name = keys::node_lease(node);
    let lease = lease(&name, holder);
    let api: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(lease);
    let written = tokio::time::timeout(ANSWER_TIMEOUT, api.patch(&name, &params, &patch));
    match written.await {
        Ok(answer) => answer.map(drop).map_err(Error::of_heartbeat),
        Err(late) => Err(Error::Unreachable { source: Box::new(late) }),
    }
}

fn lease(name: &str, holder: &str) -> Value {
    // Written for people: nobody decides by the clock of another machine.
    let now = clock::time_of_day().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now,
        },
    })
}
