//! What the gate hears of Leases: the heartbeats of nodes, by which two machines with one identity are
//! found out, and the registrations of controllers. One watch brings both; what it brings is kept in
//! memory. Start at [`listen`].

use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use tombolo_identity::Remit;
use tombolo_identity::clones::{Beat, Seats};
use tombolo_model::event::Tone;
use tombolo_model::{Reason, keys};
use tombolo_plan::Monotonic;
use tombolo_plan::lighthouse::{Controller, Memory, Registration, look};

use crate::resources::{agent_of, ours};
use crate::{Failure, Gate, nodes};

#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// By the name of the Lease at which they take turns.
    seats: BTreeMap<String, Seats>,
    /// With the resourceVersion at which each was read.
    controllers: BTreeMap<String, (String, Registration)>,
    /// Which controllers were heard, and when.
    memory: Memory,
    changes: u64,
}

/// Two machines that use one identity, by the Lease that both renew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    lease: String,
    original: String,
    newcomer: String,
}

impl Leases {
    /// Takes in a Lease as it is now.
    fn hear(&mut self, lease: &Lease) -> Option<Pair> {
        let name = lease.name_any();
        if is_heartbeat(&name) {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            return self.beat(&name, holder.unwrap_or_default());
        }
        self.hear_controller(lease);
        None
    }

    pub(crate) fn hear_controller(&mut self, lease: &Lease) {
        let name = lease.name_any();
        let Some(controller) = name.strip_prefix(keys::CONTROLLER_LEASE_PREFIX) else { return };
        let Some(addresses) = lease.annotations().get(keys::ANNOTATION_ADDRESSES) else { return };
        let addresses = addresses.split(',').map(str::to_owned).collect();
        let read_at = lease.resource_version().unwrap_or_default();
        // Read again, it is no sign of life.
        if self.controllers.get(controller).is_some_and(|(known, _)| *known == read_at) {
            return;
        }
        self.changes += 1;
        let registration = Registration { version: self.changes, addresses };
        self.controllers.insert(controller.to_owned(), (read_at, registration));
    }

    /// A heartbeat; an empty instance is a good-bye.
    fn beat(&mut self, lease: &str, instance: &str) -> Option<Pair> {
        let seats = self.seats.entry(lease.to_owned()).or_default();
        if instance.is_empty() {
            seats.release();
            return None;
        }
        match seats.beat(instance) {
            Beat::Kept | Beat::Taken { .. } => None,
            Beat::Cloned { original, newcomer } => {
                Some(Pair { lease: lease.to_owned(), original, newcomer })
            }
        }
    }

    /// An agent that joined anew, or is gone, has no past.
    pub(crate) fn forget_seats(&mut self, lease: &str) {
        self.seats.remove(lease);
    }

    fn forget(&mut self, name: &str) {
        self.forget_seats(name);
        if let Some(controller) = name.strip_prefix(keys::CONTROLLER_LEASE_PREFIX) {
            self.controllers.remove(controller);
        }
    }

    /// The controllers that are there at `now`.
    pub(crate) fn controllers(&mut self, now: Monotonic) -> Vec<Controller> {
        let registered = self.controllers.iter();
        let registered = registered.map(|(name, (_, known))| (name.clone(), known.clone()));
        let (controllers, next) = look(&registered.collect(), &self.memory, now);
        self.memory = next;
        controllers
    }
}

pub(crate) async fn listen(gate: &Gate) {
    let api: Api<Lease> = Api::namespaced(gate.resources().client(), keys::SYSTEM_NAMESPACE);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(lease) | Event::InitApply(lease)) => {
                let pair = gate.leases().hear(&lease);
                if let Some(pair) = pair {
                    separate(gate, &pair).await;
                }
            }
            Ok(Event::Delete(lease)) => gate.leases().forget(&lease.name_any()),
            Ok(Event::Init | Event::InitDone) => (),
            Err(error) => tracing::warn!(%error, "the watch on leases failed; it starts again"),
        }
    }
}

fn is_heartbeat(lease: &str) -> bool {
    lease.starts_with(keys::NODE_LEASE_PREFIX) || lease.starts_with(keys::SITE_LEASE_PREFIX)
}

/// Whose heartbeats these are; nothing if whom they speak of is gone.
async fn holder(gate: &Gate, lease: &str) -> Result<Option<Remit>, Failure> {
    if let Some(site) = lease.strip_prefix(keys::SITE_LEASE_PREFIX) {
        return Ok(Some(Remit::Site { site: site.to_owned() }));
    }
    let Some(node) = lease.strip_prefix(keys::NODE_LEASE_PREFIX) else { return Ok(None) };
    let live = gate.resources().get(&ours("nodes", node)).await?;
    let remit = |live: serde_json::Value| Remit::Node {
        site: live["spec"]["site"].as_str().unwrap_or_default().to_owned(),
        node: node.to_owned(),
    };
    Ok(live.map(remit))
}

/// Flags the node or site, so that people see it, and the newcomer, so that it is let in no more. What
/// fails here is tried again with the next heartbeat of the newcomer.
async fn separate(gate: &Gate, pair: &Pair) {
    let Pair { lease, original, newcomer } = pair;
    tracing::warn!(lease, original, newcomer, "two machines use one identity");
    let done = async {
        let Some(remit) = holder(gate, lease).await? else { return Ok(()) };
        let what = match &remit {
            Remit::Node { .. } => "node",
            Remit::Site { .. } => "site",
        };
        let message = format!(
            "{original} and {newcomer} are both alive with the identity of this {what}, so that one \
             has a copy of the other's data folder; {newcomer} came later and is let in no more"
        );
        let record = agent_of(remit.clone(), "quarantine");
        nodes::quarantine(gate, &remit, newcomer, &record).await?;
        let cloned = ("True", Reason::TwoInstances);
        nodes::set_cloned(gate, &remit, cloned, &message, &record).await?;
        gate.resources().event_of(&remit, (Tone::Warning, Reason::Cloned), &message, &record).await;
        Ok::<(), Failure>(())
    };
    if let Err(failure) = done.await {
        tracing::warn!(lease, why = failure.message, "a copy could not be put under quarantine");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn lease(name: &str, version: u64, holder: &str) -> Lease {
        let lease = json!({
            "metadata": {"name": name, "resourceVersion": version.to_string(),
                "annotations": {keys::ANNOTATION_ADDRESSES: "https://a,https://b"}},
            "spec": {"holderIdentity": holder},
        });
        serde_json::from_value(lease).unwrap()
    }

    #[test]
    fn two_who_take_turns_at_one_lease_are_found_out() {
        let mut leases = Leases::default();
        assert_eq!(leases.hear(&lease("node-crane", 1, "a")), None);
        assert_eq!(leases.hear(&lease("node-crane", 2, "b")), None, "a restart looks like this");
        assert_eq!(leases.hear(&lease("node-lift", 3, "a")), None, "another node");
        let pair = leases.hear(&lease("node-crane", 4, "a")).expect("both are alive");
        assert_eq!((pair.original.as_str(), pair.newcomer.as_str()), ("a", "b"));
        leases.forget("node-crane");
        assert_eq!(leases.hear(&lease("node-crane", 5, "b")), None, "it has no past");
        for (version, holder) in [(6, "a"), (7, "b")] {
            assert_eq!(leases.hear(&lease("site-crane", version, holder)), None);
        }
        let pair = leases.hear(&lease("site-crane", 8, "a")).expect("so it is with a site's agent");
        assert_eq!(pair.lease, "site-crane");
    }

    #[test]
    fn whoever_said_good_bye_is_not_taken_for_the_original() {
        let mut leases = Leases::default();
        for (version, holder) in [(1, "a"), (2, ""), (3, "b"), (4, "a")] {
            assert_eq!(leases.hear(&lease("node-crane", version, holder)), None, "{version}");
        }
    }

    #[test]
    fn a_registration_that_is_read_again_does_not_live_longer() {
        let mut leases = Leases::default();
        let at = |second| Monotonic::from_start(Duration::from_secs(second));
        leases.hear(&lease("controller-harbour", 7, "harbour"));
        assert_eq!(leases.controllers(at(0))[0].addresses, ["https://a", "https://b"]);
        leases.hear(&lease("controller-harbour", 7, "harbour"));
        assert_eq!(leases.controllers(at(50))[0].lasts, Duration::from_secs(10));
        leases.hear(&lease("controller-harbour", 8, "harbour"));
        assert_eq!(leases.controllers(at(50))[0].lasts, Duration::from_secs(60));
        leases.forget("controller-harbour");
        assert!(leases.controllers(at(50)).is_empty());
    }
}
