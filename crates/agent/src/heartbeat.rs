//! The Lease by which a node says that it is alive. `plan::leases` listens for its changes, and the
//! apiserver looks at the holder to tell a clone. What it asks about siblings is in the answer.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tombolo_model::keys::{self, SYSTEM_NAMESPACE};

use crate::siblings::Siblings;
use crate::{Error, clock};

/// The next one, when there is something to tell.
pub const SOON: Duration = Duration::from_secs(1);
const EVERY_DEFAULT: Duration = Duration::from_secs(10);
/// More often is a load and tells no more; less often, and nobody learns of a loss within the hour.
pub const EVERY_MIN: Duration = Duration::from_secs(1);
pub const EVERY_MAX: Duration = Duration::from_secs(15 * 60);
/// A Lease lasts for so many beats: two may be lost, and one late.
const BEATS_A_LEASE: u32 = 4;
const FIELD_MANAGER: &str = "tombolo-agent";

/// How often the heart beats, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    every: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { every: EVERY_DEFAULT }
    }
}

impl Pace {
    /// Within what is sensible.
    pub fn every(every: Duration) -> Pace {
        Pace { every: every.clamp(EVERY_MIN, EVERY_MAX) }
    }

    pub fn beat(self) -> Duration {
        self.every
    }

    /// So many beats in vain are no accident.
    pub fn silent_after(self) -> Duration {
        self.every * 3
    }

    fn lease_seconds(self) -> u64 {
        (self.every * BEATS_A_LEASE).as_secs()
    }

    /// Longer than this, and the next beat is due.
    fn answer_timeout(self) -> Duration {
        self.every * 4 / 5
    }
}

/// One heartbeat of `node`, as `instance`. Whether another should follow soon, because there is
/// something to tell about siblings.
pub async fn beat(
    client: &Client,
    node: &str,
    instance: &str,
    pace: Pace,
    siblings: &mut Siblings,
) -> Result<bool, Error> {
    let written = write(client, node, instance, pace, siblings.answer()).await?;
    let question = written.metadata.annotations.unwrap_or_default().remove(keys::ANNOTATION_PROBE);
    Ok(siblings.look(question.as_deref().unwrap_or_default()).await)
}

/// A good-bye: the node is NotReady at once, and whoever comes next is no clone.
pub async fn release(client: &Client, node: &str, pace: Pace) -> Result<(), Error> {
    write(client, node, "", pace, None).await.map(drop)
}

/// Applied, so that it makes the Lease if it is not there, and is the same when it comes twice.
async fn write(
    client: &Client,
    node: &str,
    holder: &str,
    pace: Pace,
    reached: Option<String>,
) -> Result<Lease, Error> {
    let name = keys::node_lease(node);
    let lease = lease(&name, holder, pace, reached);
    let api: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(lease);
    let written = tokio::time::timeout(pace.answer_timeout(), api.patch(&name, &params, &patch));
    match written.await {
        Ok(answer) => answer.map_err(Error::of_heartbeat),
        Err(late) => Err(Error::Unreachable { source: Box::new(late) }),
    }
}

fn lease(name: &str, holder: &str, pace: Pace, reached: Option<String>) -> Value {
    // Written for people: nobody decides by the clock of another machine.
    let now = clock::time_of_day().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": pace.lease_seconds(),
            "renewTime": now,
        },
    });
    if let Some(reached) = reached {
        // What is no longer applied goes by itself.
        lease["metadata"]["annotations"] = json!({keys::ANNOTATION_REACHED: reached});
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_outlasts_the_beats_that_may_be_lost() {
        for seconds in [0, 1, 2, 10, 3600] {
            let pace = Pace::every(Duration::from_secs(seconds));
            let lease = Duration::from_secs(pace.lease_seconds());
            assert!(lease > pace.silent_after(), "{seconds}");
            assert!(pace.answer_timeout() < pace.beat(), "{seconds}");
            assert!((EVERY_MIN..=EVERY_MAX).contains(&pace.beat()), "{seconds}");
        }
        assert_eq!(Pace::default().lease_seconds(), 40);
    }
}
