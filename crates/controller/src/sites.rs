//! The loop that says of each Site what its Nodes are and have. What it decides is in
//! [`tombolo_plan::sites`]; here it looks and acts. Run by [`crate::harness`].

use std::time::Duration;

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use tombolo_model::Site;
use tombolo_plan::Monotonic;
use tombolo_plan::sites::{Action, plan};
use tombolo_plan::supervision::{Pace, Report};

use crate::harness::{Context, Loop};
use crate::mirror::Source;
use crate::patch;
use crate::report::{Bounds, carry_out};
use crate::world::World;

/// Who we are in managedFields.
const FIELD_MANAGER: &str = "tombolo-sites";
const BOUNDS: Bounds = Bounds { actions_max: 64, at_once: 8 };

pub(crate) struct Sites(Context);

impl Loop for Sites {
    const NAME: &'static str = "sites";
    /// Nobody waits for a count, and a thousand nodes that join are a thousand changes.
    const PACE: Pace = Pace {
        gap_min: Duration::from_millis(500),
        gap_factor: 19,
        look_every: Duration::from_secs(60),
        retry_after: Duration::from_secs(2),
    };

    fn reads(world: &World) -> Vec<&dyn Source> {
        vec![&world.sites, &world.nodes]
    }

    fn start(context: Context) -> Sites {
        Sites(context)
    }

    async fn look(&mut self, _now: Monotonic) -> Result<Report, kube::Error> {
        let Context { client, world, .. } = &self.0;
        let actions = plan(&world.sites.all(), &world.nodes.all());
        Ok(carry_out(actions, BOUNDS, |action| apply(client.clone(), action)).await)
    }
}

async fn apply(client: Client, action: Action) -> Result<(), kube::Error> {
    let api: Api<Site> = Api::all(client);
    let patch = patch::guarded(action.resource_version, "/status", json!(action.status))?;
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_status(&action.site, &params, &Patch::Json::<()>(patch)).await.map(drop)
}
