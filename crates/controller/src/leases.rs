//! The loop that tells who is alive. What it decides is in [`tombolo_plan::leases`]; here it looks and
//! acts. Run by [`crate::harness`].

mod act;
mod look;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};

use tombolo_model::Shared;
use tombolo_model::keys::SYSTEM_NAMESPACE;
use tombolo_plan::Monotonic;
use tombolo_plan::leases::{LOOK_EVERY, Memory, plan};
use tombolo_plan::supervision::{Pace, Report};

use crate::harness::{Context, Loop};
use crate::mirror::{Seeing, Source};
use crate::report::{Bounds, carry_out};
use crate::world::World;

/// More would hold up the next look, and with it machines that come back in the meantime.
const BOUNDS: Bounds = Bounds { actions_max: 256, at_once: 32 };

pub(crate) struct Leases {
    context: Context,
    memory: Memory,
}

impl Loop for Leases {
    const NAME: &'static str = "leases";
    /// A thousand renewals a second must not become a thousand looks, and the loop never takes more
    /// than a fifth of a core. A look that takes long mostly waits for the disk; longer pauses would
    /// keep a thousand machines that join at once waiting for minutes.
    const PACE: Pace = Pace {
        gap_min: Duration::from_millis(200),
        gap_factor: 4,
        look_every: LOOK_EVERY,
        retry_after: Duration::from_secs(2),
    };

    fn reads(world: &World) -> Vec<&dyn Source> {
        vec![&world.sites, &world.nodes, &world.leases]
    }

    fn start(context: Context) -> Leases {
        Leases { context, memory: Memory::default() }
    }

    async fn look(&mut self, now: Monotonic) -> Result<Report, kube::Error> {
        let Context { client, world, teller, .. } = &self.context;
        let look = look::look(&world.sites.all(), &world.nodes.all(), &self.leases().await?);
        let plan = plan(&look.observed, &self.memory, now);
        self.memory = plan.memory;
        let apply = |action| act::apply(client, teller, &look.origins, action);
        let report = carry_out(plan.actions, BOUNDS, apply);
        let report = report.await;
        let asked = carry_out(plan.asks, BOUNDS, |ask| act::ask(client, ask)).await;
        Ok(Report {
            done: report.done + asked.done,
            failed: report.failed.into_iter().chain(asked.failed).collect(),
            deferred: report.deferred + asked.deferred,
            wake_at: Some(plan.wake_at),
        })
    }
}

impl Leases {
    /// Old Sites and Nodes do no harm, because every write names the state it was decided on. An old
    /// Lease would make a living machine look silent, so it is read afresh.
    async fn leases(&self) -> Result<Vec<Shared<Lease>>, kube::Error> {
        let leases = &self.context.world.leases;
        match leases.seeing() {
            Seeing::NotYet | Seeing::Current => Ok(leases.all()),
            Seeing::Stale => {
                let client = self.context.client.clone();
                let api: Api<Lease> = Api::namespaced(client, SYSTEM_NAMESPACE);
                let listed = api.list(&ListParams::default()).await?;
                Ok(listed.items.into_iter().map(Shared::from).collect())
            }
        }
    }
}
