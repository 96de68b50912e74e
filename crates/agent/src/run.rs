//! The agent from its start to its end: it joins or comes back, then [`crate::live`] keeps the link to the
//! server while [`crate::work`] does what is assigned. Start reading at [`run`].

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tombolo_driver::Machines;
use tombolo_identity::Remit;
use tombolo_identity::joining::StandsFor;
use tombolo_model::phrase::with_causes;

use crate::clock::Clock;
use crate::connection::{Connection, Wire};
use crate::converge::Drivers;
use crate::credentials::{Folder, Identity};
use crate::engines::DockerAt;
use crate::live::{self, Pulse};
use crate::offer::{Metrics, Offer};
use crate::work::{self, Workplace};
use crate::{Error, JoinFile, engines, heartbeat, machine};

/// How long the good-bye may take.
const GOOD_BYE_TIMEOUT: Duration = Duration::from_secs(3);
#[derive(Clone, Debug)]
pub struct Settings {
    pub folder: PathBuf,
    /// Needed at the first start only, and after the node was removed.
    pub join_file: Option<JoinFile>,
    /// The name to join under; the host's if left out.
    pub node: Option<String>,
    /// Instead of the machine's own id; for several agents on one machine.
    pub machine: Option<String>,
    /// What the operator says about the machine, in place of what the agent finds.
    pub offer: Offer,
    /// Where containers are run.
    pub docker: DockerAt,
}

/// Runs until `shutdown` is ready. Comes back early only if it cannot join, or cannot use its
/// folder. An agent that has joined goes on whatever the server says: what it runs is not to stop
/// because a controller was restored from an old backup.
pub async fn run(settings: Settings, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    run_with(settings, engines::open, shutdown).await
}

/// What an agent works with.
struct Cluster {
    drivers: Drivers,
    /// Nothing where everything runs on one machine.
    machines: Option<Arc<dyn Machines>>,
}

/// Like [`run`], with engines of the caller's. `engines` is called once the agent has joined, with its
/// data folder.
pub async fn run_with(
    settings: Settings,
    engines: impl FnOnce(&Path) -> Result<Drivers, Error>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let cluster = |folder: &Path| Ok(Cluster { drivers: engines(folder)?, machines: None });
    run_for(settings, StandsFor::Node, cluster, shutdown).await
}

/// Runs as the one agent of a whole site, whose join token says so. Whatever is assigned to a node of the
/// site is given to these drivers; `machines` says which nodes there are. There is no driver of many
/// machines in this crate: the caller brings it.
pub async fn run_site(
    settings: Settings,
    engines: impl FnOnce(&Path) -> Result<(Drivers, Arc<dyn Machines>), Error>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let cluster = |folder: &Path| {
        let (drivers, machines) = engines(folder)?;
        Ok(Cluster { drivers, machines: Some(machines) })
    };
    run_for(settings, StandsFor::Site, cluster, shutdown).await
}

async fn run_for(
    settings: Settings,
    stands_for: StandsFor,
    engines: impl FnOnce(&Path) -> Result<Cluster, Error>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut shutdown = std::pin::pin!(shutdown);
    let mut agent = tokio::select! {
        () = &mut shutdown => return Ok(()),
        agent = live::come_in(&settings, stands_for) => agent?,
    };
    let (connection, replacer) = Connection::open(&agent.credentials, &agent.instance)?;
    let identity = &agent.credentials.identity;
    tracing::info!(agent_of = %identity.remit, "the agent is in");
    let (heartbeats, heard) = watch::channel(None);
    let remit = identity.remit.clone();
    engines::set_up(&agent.folder, &settings.docker, &remit, Some(&identity.authority))?;
    let Cluster { drivers, machines } = engines(agent.folder.path())?;
    let workplace = Workplace {
        remit: remit.clone(),
        machines,
        machine: agent.machine.clone(),
        drivers: drivers.clone(),
        folder: Arc::clone(&agent.folder),
        connection: connection.clone(),
        clock: Clock::start(),
        heard,
        offer: agent.offer.clone(),
    };
    let pace = agent.offer.pace();
    let pulse = Pulse { clock: workplace.clock, heartbeats, pace };
    let lived = tokio::select! {
        () = &mut shutdown => Ok(()),
        error = work::run(workplace) => Err(error),
        ended = live::live(&mut agent, &settings, (&connection, &replacer), &pulse) => ended,
    };
    if lived.is_ok() {
        part(&drivers).await;
        let client = connection.client();
        let good_bye = heartbeat::say_good_bye(&client, &remit, pace);
        // If nobody hears it, the Lease runs out by itself.
        let _ = tokio::time::timeout(GOOD_BYE_TIMEOUT, good_bye).await;
    }
    lived
}

/// What is not to outlive the link to the server for long counts from now on: so does the server.
async fn part(drivers: &Drivers) {
    for driver in drivers.values() {
        match tokio::time::timeout(GOOD_BYE_TIMEOUT, driver.part()).await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => tracing::warn!(error = with_causes(&error), "no good-bye"),
            Err(_) => tracing::warn!(engine = %driver.engine(), "no good-bye within time"),
        }
    }
}

/// Joins, if that has not been done yet, and runs nothing. For programs that set a machine up.
pub async fn join_only(settings: Settings) -> Result<Identity, Error> {
    Ok(live::come_in(&settings, StandsFor::Node).await?.credentials.identity)
}

/// An agent in the process of the server itself, which needs no door.
#[derive(Clone, Debug)]
pub struct Beside {
    pub folder: PathBuf,
    pub site: String,
    pub node: String,
    /// Where containers are run.
    pub docker: DockerAt,
    /// How the machine is measured.
    pub metrics: Metrics,
}

/// Works with a client that acts as the agent of a Site and Node that exist, until `shutdown` is
/// ready. What it runs goes on then.
pub async fn run_beside(
    beside: Beside,
    client: kube::Client,
    wire: Wire,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let folder = Arc::new(Folder::open(&beside.folder)?);
    let machine = machine::id(&folder)?;
    let instance = machine::instance(&machine)?;
    let (heartbeats, heard) = watch::channel(None);
    let remit = Remit::Node { site: beside.site, node: beside.node };
    engines::set_up(&folder, &beside.docker, &remit, None)?;
    let drivers = engines::open(folder.path())?;
    let workplace = Workplace {
        remit: remit.clone(),
        machines: None,
        machine,
        drivers: drivers.clone(),
        folder,
        connection: Connection::fixed(client.clone(), wire),
        clock: Clock::start(),
        heard,
        offer: Offer { metrics: beside.metrics, ..Offer::default() },
    };
    let pace = workplace.offer.pace();
    let pulse = Pulse { clock: workplace.clock, heartbeats, pace };
    tokio::select! {
        () = shutdown => (),
        error = work::run(workplace) => return Err(error),
        () = live::beat_on(&client, &remit, &instance, &pulse) => (),
    }
    part(&drivers).await;
    // If nobody hears it, the Lease runs out by itself.
    let good_bye = heartbeat::say_good_bye(&client, &remit, pace);
    let _ = tokio::time::timeout(GOOD_BYE_TIMEOUT, good_bye).await;
    Ok(())
}
