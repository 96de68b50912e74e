//! The loop that turns what agents measure into the statuses of Links, and tells agents whom to probe. What it
//! decides is in [`tombolo_plan::links`]; here it looks and acts. Run by [`crate::harness`].

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::json;

use tombolo_model::event::News;
use tombolo_model::keys::LABEL_MANAGED;
use tombolo_model::link::MADE_BY_PROBES;
use tombolo_model::{Link, LinkSpec, Node, Probing, ProbingSpec};
use tombolo_plan::Monotonic;
use tombolo_plan::links::{Action, Memory, Observed, Told, plan};
use tombolo_plan::supervision::{Pace, Report};

use crate::clock;
use crate::event::Teller;
use crate::harness::{Context, Loop};
use crate::mirror::Source;
use crate::patch;
use crate::report::{Bounds, carry_out};
use crate::world::World;

/// Who we are in managedFields and Events.
const FIELD_MANAGER: &str = "tombolo-links";
/// A thousand machines that join are a thousand orders: several looks.
const BOUNDS: Bounds = Bounds { actions_max: 256, at_once: 16 };

pub(crate) struct Links {
    context: Context,
    memory: Memory,
}

impl Loop for Links {
    const NAME: &'static str = "links";
    /// A link that gets worse is to be written within ten seconds, of which this takes one. A look at many links
    /// never takes more than a twentieth of a core.
    const PACE: Pace = Pace {
        gap_min: Duration::from_millis(500),
        gap_factor: 19,
        look_every: Duration::from_secs(60),
        retry_after: Duration::from_secs(2),
    };

    fn reads(world: &World) -> Vec<&dyn Source> {
        vec![
            &world.sites,
            &world.nodes,
            &world.links,
            &world.probings,
            &world.apps,
            &world.assignments,
        ]
    }

    fn start(context: Context) -> Links {
        Links { context, memory: Memory::default() }
    }

    async fn look(&mut self, now: Monotonic) -> Result<Report, kube::Error> {
        let Context { client, world, teller, .. } = &self.context;
        let observed = Observed {
            sites: world.sites.all(),
            nodes: world.nodes.all(),
            links: world.links.all(),
            probings: world.probings.all(),
            apps: world.apps.all(),
            assignments: world.assignments.all(),
        };
        let memory = std::mem::take(&mut self.memory);
        let plan = plan(&observed, memory, now, &Time(clock::time_of_day()));
        self.memory = plan.memory;
        let about = About::of(&observed);
        let apply = |action| apply(client, teller, &about, action);
        let report = carry_out(plan.actions, BOUNDS, apply).await;
        Ok(Report { wake_at: plan.wake_at, ..report })
    }
}

/// What Events refer to.
struct About {
    links: BTreeMap<String, ObjectReference>,
    nodes: BTreeMap<String, ObjectReference>,
}

impl About {
    fn of(observed: &Observed) -> About {
        let named = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
        let link = |link: &Link| (named(&link.metadata), link.object_ref(&()));
        let node = |node: &Node| (named(&node.metadata), node.object_ref(&()));
        About {
            links: observed.links.iter().map(|one| link(one)).collect(),
            nodes: observed.nodes.iter().map(|one| node(one)).collect(),
        }
    }
}

async fn apply(
    client: &Client,
    teller: &Teller,
    about: &About,
    action: Action,
) -> Result<(), kube::Error> {
    let client = client.clone();
    let ours =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match action {
        Action::Order { node, version: None, spec } => order(client, &node, *spec).await,
        Action::Order { node, version, spec } => {
            let patch = Patch::Json::<()>(patch::guarded(version, "/spec", json!(spec))?);
            Api::<Probing>::all(client).patch(&node, &ours, &patch).await.map(drop)
        }
        Action::Withdraw { node } => remove(&Api::<Probing>::all(client), &node).await,
        Action::Make { link, spec } => make(client, &link, *spec).await,
        Action::Remove { link } => remove(&Api::<Link>::all(client), &link).await,
        Action::Write { link, version, status, news } => {
            let patch = Patch::Json::<()>(patch::guarded(version, "/status", json!(status))?);
            Api::<Link>::all(client.clone()).patch_status(&link, &ours, &patch).await?;
            for told in news {
                tell(&client, teller, about.links.get(&link), &told).await;
            }
            Ok(())
        }
        Action::Judge { node, version, conditions, told } => {
            let patch = patch::guarded(version, "/status/conditions", json!(conditions))?;
            let patch = Patch::Json::<()>(patch);
            Api::<Node>::all(client.clone()).patch_status(&node, &ours, &patch).await?;
            tell(&client, teller, about.nodes.get(&node), &told).await;
            Ok(())
        }
    }
}

async fn order(client: Client, node: &str, spec: ProbingSpec) -> Result<(), kube::Error> {
    let probing = Probing::new(node, spec);
    Api::<Probing>::all(client).create(&as_ourselves(), &probing).await.map(drop)
}

async fn make(client: Client, name: &str, spec: LinkSpec) -> Result<(), kube::Error> {
    let mut link = Link::new(name, spec);
    let label = (LABEL_MANAGED.to_owned(), MADE_BY_PROBES.to_owned());
    link.metadata.labels = Some(BTreeMap::from([label]));
    Api::<Link>::all(client).create(&as_ourselves(), &link).await.map(drop)
}

async fn remove<K>(api: &Api<K>, name: &str) -> Result<(), kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer.map(drop),
    }
}

fn as_ourselves() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false }
}

/// The status says the same as the Event, and nothing would write the Event a second time.
async fn tell(client: &Client, teller: &Teller, about: Option<&ObjectReference>, told: &Told) {
    let Some(about) = about else { return };
    let news = News {
        component: FIELD_MANAGER,
        about: about.clone(),
        tone: told.tone,
        reason: told.reason,
        message: &told.message,
    };
    if let Err(error) = teller.tell(client, &news).await {
        tracing::warn!(%error, reason = %told.reason, "an event could not be written");
    }
}
