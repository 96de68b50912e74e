//! The loop that says of each Site what its Nodes are and have. What it decides is in
//! [`tombolo_plan::sites`]; here it looks, acts and sleeps. Called by `tombolo up` and `tombolo
//! controller`; start at [`run`].

use std::future::Future;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, Patch, PatchParams};
use serde_json::json;

use tombolo_model::{Node, Site};
use tombolo_plan::Monotonic;
use tombolo_plan::sites::{Action, plan};

use crate::clock::Clock;
use crate::cycle::{self, Cycle, Pace};
use crate::mirror::{Change, Mirrors};
use crate::patch;
use crate::typed::Typed;

/// Who we are in managedFields.
const FIELD_MANAGER: &str = "tombolo-sites";
/// More would hold up the next look.
const ACTIONS_PER_ACTIVATION_MAX: usize = 64;
/// What nobody told of is found by looking now and then.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// What a failed action left is looked at again after this.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Nobody waits for a count, and a thousand nodes that join are a thousand changes.
const PACE: Pace =
    Pace { gap_min: Duration::from_millis(500), gap_factor: 19, first_within: LOOK_EVERY };

struct Sites {
    client: Client,
    mirrors: Mirrors,
    sites: Typed<Site>,
    nodes: Typed<Node>,
}

/// Runs until `shutdown` is ready.
pub async fn run(client: Client, clock: Clock, shutdown: impl Future<Output = ()>) {
    let watched = [ApiResource::erase::<Site>(&()), ApiResource::erase::<Node>(&())];
    let (mirrors, changes) = Mirrors::watch(&client, &watched);
    let sites = Sites { client, mirrors, sites: Typed::default(), nodes: Typed::default() };
    cycle::run(sites, changes, PACE, clock, shutdown).await;
}

impl Cycle for Sites {
    type Change = Change;

    fn note(&mut self, change: Change) -> bool {
        self.mirrors.note(change)
    }

    async fn activate(&mut self, now: Monotonic) -> Monotonic {
        if !self.mirrors.all_listed() {
            return now + LOOK_EVERY;
        }
        self.mirrors.refresh(0, &mut self.sites);
        self.mirrors.refresh(1, &mut self.nodes);
        let actions = plan(self.sites.items(), self.nodes.items());
        let mut all_done = actions.len() <= ACTIONS_PER_ACTIVATION_MAX;
        for action in actions.iter().take(ACTIONS_PER_ACTIVATION_MAX) {
            tracing::debug!(%action, "applying");
            if let Err(error) = apply(&self.client, action).await {
                all_done = false;
                tracing::debug!(%action, %error, "failed; the next look decides again");
            }
        }
        now + if all_done { LOOK_EVERY } else { RETRY_AFTER }
    }
}

async fn apply(client: &Client, action: &Action) -> Result<(), kube::Error> {
    let api: Api<Site> = Api::all(client.clone());
    let version = action.resource_version.clone();
    let patch = patch::guarded(version, "/status", json!(action.status))?;
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_status(&action.site, &params, &Patch::Json::<()>(patch)).await.map(drop)
}
