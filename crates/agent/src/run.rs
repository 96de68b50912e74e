//! The agent from its start to its end: join or come back, then keep the certificate young and the
//! Lease alive, while [`crate::work`] does what is assigned. Start reading at [`run`].

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tombolo_driver::Machines;
use tombolo_identity::Remit;
use tombolo_identity::joining::{Sought, StandsFor};
use tombolo_model::phrase::with_causes;

use crate::clock::{Clock, Heard};
use crate::connection::{Connection, Replacer, Wire};
use crate::converge::Drivers;
use crate::credentials::{Credentials, Folder, Identity};
use crate::engines::DockerAt;
use crate::heartbeat::Pace;
use crate::join::{self, Applicant};
use crate::offer::Offer;
use crate::renewal::{self, Doubt, Due, Failure, Next};
use crate::siblings::Siblings;
use crate::work::{self, Workplace};
use crate::{Error, JoinFile, clock, engines, heartbeat, lighthouse, machine};

/// A copy stays quiet, and asks now and then whether it still counts as one.
const QUARANTINE_PAUSE: Duration = Duration::from_secs(5 * 60);
/// An agent whose certificate is refused, and not renewed either, keeps its workloads running and asks
/// the server again after this pause.
const REFUSAL_PAUSE: Duration = Duration::from_secs(60);
/// How long the good-bye may take.
const GOOD_BYE_TIMEOUT: Duration = Duration::from_secs(3);
/// No wait is longer, so that a clock that is set right is noticed.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// After a heartbeat in vain: a link that is back is noticed after this, and not after a whole beat.
const TRY_AGAIN: Duration = Duration::from_secs(3);

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

/// Who this agent is.
struct Agent {
    folder: Arc<Folder>,
    credentials: Credentials,
    machine: String,
    instance: String,
    offer: Offer,
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
        agent = come_in(&settings, stands_for) => agent?,
    };
    let (connection, mut replacer) = Connection::open(&agent.credentials, &agent.instance)?;
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
        ended = live(&mut agent, &settings, &connection, &mut replacer, &pulse) => ended,
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

/// Joins, if that has not been done yet, and runs nothing. For whoever sets a machine up.
pub async fn join_only(settings: Settings) -> Result<Identity, Error> {
    Ok(come_in(&settings, StandsFor::Node).await?.credentials.identity)
}

/// Tells the working half when the server was heard.
struct Pulse {
    clock: Clock,
    heartbeats: watch::Sender<Option<Heard>>,
    pace: Pace,
}

impl Pulse {
    fn heard(&self, asked: Heard) {
        // If nobody listens, the agent is ending.
        let _ = self.heartbeats.send(Some(asked));
    }
}

/// An agent in the process of the server itself, which needs no door.
#[derive(Clone, Debug)]
pub struct Beside {
    pub folder: PathBuf,
    pub site: String,
    pub node: String,
    /// Where containers are run.
    pub docker: DockerAt,
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
        offer: Offer::default(),
    };
    let pace = workplace.offer.pace();
    let pulse = Pulse { clock: workplace.clock, heartbeats, pace };
    tokio::select! {
        () = shutdown => (),
        error = work::run(workplace) => return Err(error),
        () = beat_on(&client, &remit, &instance, &pulse) => (),
    }
    part(&drivers).await;
    // If nobody hears it, the Lease runs out by itself.
    let good_bye = heartbeat::say_good_bye(&client, &remit, pace);
    let _ = tokio::time::timeout(GOOD_BYE_TIMEOUT, good_bye).await;
    Ok(())
}

async fn beat_on(client: &kube::Client, remit: &Remit, instance: &str, pulse: &Pulse) {
    let mut siblings = Siblings::default();
    loop {
        let mut pause = pulse.pace.beat();
        let asked = pulse.clock.asked();
        match heartbeat::beat(client, remit, instance, pulse.pace, &mut siblings).await {
            Ok(again) => {
                pulse.heard(asked);
                pause = if again { heartbeat::SOON } else { pause };
            }
            Err(error) => tracing::warn!(error = with_causes(&error), "no heartbeat; trying again"),
        }
        tokio::time::sleep(pause).await;
    }
}

/// With what an earlier start left, or with the join file.
async fn come_in(settings: &Settings, stands_for: StandsFor) -> Result<Agent, Error> {
    let folder = Arc::new(Folder::open(&settings.folder)?);
    let machine = match &settings.machine {
        Some(machine) => machine.clone(),
        None => machine::id(&folder)?,
    };
    let instance = machine::instance(&machine)?;
    let offer = Offer::settled(&settings.offer, &folder)?;
    let credentials = match folder.credentials()? {
        Some(credentials) => {
            let remit = &credentials.identity.remit;
            if stands_for_of(remit) != stands_for {
                let (folder, remit) = (folder.path().into(), remit.to_string());
                return Err(Error::StandsForOther { folder, remit });
            }
            credentials
        }
        None => {
            let key_pem = folder.key()?;
            let about = (machine.as_str(), &offer);
            let credentials = join_until_in(settings, stands_for, about, key_pem, &folder).await?;
            folder.keep(&credentials.identity)?;
            credentials
        }
    };
    Ok(Agent { folder, credentials, machine, instance, offer })
}

fn stands_for_of(remit: &Remit) -> StandsFor {
    match remit {
        Remit::Node { .. } => StandsFor::Node,
        Remit::Site { .. } => StandsFor::Site,
    }
}

async fn join_until_in(
    settings: &Settings,
    stands_for: StandsFor,
    (machine, offer): (&str, &Offer),
    key_pem: String,
    folder: &Folder,
) -> Result<Credentials, Error> {
    let file = settings.join_file.as_ref();
    let file = file.ok_or_else(|| Error::NothingToJoinWith { folder: folder.path().into() })?;
    let node = settings.node.clone().unwrap_or_else(machine::host_name);
    let mut failures = 0;
    loop {
        let sought = match stands_for {
            StandsFor::Node => Sought::Node(&node),
            StandsFor::Site => Sought::Site,
        };
        let applicant = Applicant { sought, machine, key_pem: &key_pem, labels: &offer.labels };
        match join::join(file, applicant).await {
            Ok(identity) => return Ok(Credentials { identity, key_pem }),
            Err(error) if error.retryable() => {
                let wait = renewal::retry(failures);
                tracing::warn!(error = with_causes(&error), ?wait, "cannot join yet; trying again");
                tokio::time::sleep(wait).await;
                failures += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Beats and renews. Whatever fails is tried again.
async fn live(
    agent: &mut Agent,
    settings: &Settings,
    connection: &Connection,
    replacer: &mut Replacer,
    pulse: &Pulse,
) -> Result<(), Error> {
    let mut doubt = Doubt::default();
    let mut siblings = Siblings::default();
    loop {
        let done = match renew_if_due(agent, replacer, &mut doubt).await {
            Ok(wait) => {
                let remit = &agent.credentials.identity.remit;
                let client = connection.client();
                let instance = &agent.instance;
                let asked = pulse.clock.asked();
                let beat = heartbeat::beat(&client, remit, instance, pulse.pace, &mut siblings);
                beat.await.map(|again| (asked, if again { heartbeat::SOON } else { wait }))
            }
            Err(error) => Err(error),
        };
        let pause = match done {
            Ok((asked, wait)) => {
                doubt = Doubt::default();
                pulse.heard(asked);
                pulse.pace.beat().min(wait)
            }
            Err(error) => match doubt.failed(failure(&error)) {
                Next::RenewAtOnce => {
                    tracing::warn!(
                        error = with_causes(&error),
                        "refused; renewing the certificate"
                    );
                    Duration::ZERO
                }
                Next::RenewSoon => TRY_AGAIN,
                Next::Rest => after(error, agent, settings, replacer).await?,
            },
        };
        tokio::time::sleep(pause).await;
    }
}

/// Renews a certificate whose time has come, or with which new labels go to the Node, and says when to
/// look again. While an expired one cannot be renewed there is no use in a heartbeat.
async fn renew_if_due(
    agent: &mut Agent,
    replacer: &Replacer,
    doubt: &mut Doubt,
) -> Result<Duration, Error> {
    let now = clock::time_of_day();
    let lifetime = agent.credentials.lifetime()?;
    let name = agent.credentials.identity.remit.name();
    let relabelled = agent.credentials.identity.labels != agent.offer.labels;
    let (wait, for_labels_only) = match renewal::due(&lifetime, name, now) {
        Due::In(wait) if !doubt.renews() && !relabelled => return Ok(wait.min(LOOK_AGAIN)),
        Due::In(_) => (renewal::retry(doubt.failures()), !doubt.renews()),
        Due::Now => (renewal::retry(doubt.failures()), false),
    };
    let renewed = join::renew(&agent.credentials, &agent.instance, &agent.offer.labels).await;
    if renewed.as_ref().map_or_else(|error| !error.retryable(), |_| true) {
        doubt.renewal_was_answered();
    }
    match renewed {
        Ok(identity) => {
            // The next start can renew the old one, also after it has expired.
            if let Err(error) = agent.folder.keep(&identity) {
                tracing::warn!(error = with_causes(&error), "the new certificate is not kept");
            }
            agent.credentials.identity = identity;
            replacer.replace(&agent.credentials)?;
            tracing::info!("the certificate is renewed");
            Ok(wait)
        }
        // The old one still holds: the heart goes on beating meanwhile.
        Err(error) if error.retryable() && !agent.credentials.is_expired(now) => {
            tracing::warn!(error = with_causes(&error), "cannot renew the certificate yet");
            Ok(wait)
        }
        // The certificate is good all the while.
        Err(error @ Error::Refused { .. }) if for_labels_only => {
            tracing::error!(
                error = with_causes(&error),
                "the new labels are refused until the next start"
            );
            agent.offer.labels.clone_from(&agent.credentials.identity.labels);
            Ok(wait)
        }
        Err(error) => Err(error),
    }
}

/// What to do about a failure: how long to wait, or the end.
async fn after(
    error: Error,
    agent: &mut Agent,
    settings: &Settings,
    replacer: &mut Replacer,
) -> Result<Duration, Error> {
    match error {
        Error::Quarantined { .. } => {
            tracing::error!(error = with_causes(&error), "nothing is done until this is mended");
            Ok(QUARANTINE_PAUSE)
        }
        Error::Refused { .. } => {
            tracing::error!(error = with_causes(&error), "refused; what runs here goes on");
            if settings.join_file.is_none() {
                return Ok(REFUSAL_PAUSE);
            }
            // A new key, since the old one may be why. It is kept only if it opens the door.
            let key_pem = tombolo_identity::request::new_key()?;
            let about = (agent.machine.as_str(), &agent.offer);
            let stands_for = stands_for_of(&agent.credentials.identity.remit);
            match join_until_in(settings, stands_for, about, key_pem, &agent.folder).await {
                Ok(credentials) => {
                    agent.folder.keep_anew(&credentials)?;
                    agent.credentials = credentials;
                    replacer.replace(&agent.credentials)?;
                    Ok(Duration::ZERO)
                }
                Err(error) => {
                    tracing::error!(error = with_causes(&error), "the join file does not help");
                    Ok(REFUSAL_PAUSE)
                }
            }
        }
        error if error.retryable() => {
            tracing::warn!(error = with_causes(&error), "no heartbeat; trying again");
            let pause = agent.offer.pace().beat().min(TRY_AGAIN);
            let others = agent.credentials.identity.addresses.len() > 1;
            if matches!(error, Error::Answer { .. }) && !others {
                // It is there and has its reasons: what is under way on the connection goes on, and
                // a server with too much to do is not asked for everything anew.
                return Ok(pause);
            }
            if replacer.has_tried_all(&agent.credentials) && learn(agent).await {
                replacer.begin_anew(&agent.credentials)?;
                return Ok(Duration::ZERO);
            }
            replacer.next_address(&agent.credentials)?;
            Ok(pause)
        }
        error => Err(error),
    }
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Refused { code: 401, .. } => Failure::Refused,
        Error::File { .. }
        | Error::Malformed { .. }
        | Error::InUse { .. }
        | Error::FolderGone { .. }
        | Error::NothingToJoinWith { .. }
        | Error::StandsForOther { .. }
        | Error::Refused { .. }
        | Error::Quarantined { .. }
        | Error::Unreachable { .. }
        | Error::Answer { .. }
        | Error::Engine(_)
        | Error::Identity(_) => Failure::Other,
    }
}

/// Asks the lighthouses for addresses; whether there are new ones.
async fn learn(agent: &mut Agent) -> bool {
    let identity = &mut agent.credentials.identity;
    let Some(addresses) = lighthouse::ask(&identity.lighthouses, &identity.addresses).await else {
        return false;
    };
    tracing::info!(?addresses, "the lighthouses know more addresses");
    identity.addresses = addresses;
    if let Err(error) = agent.folder.keep(identity) {
        tracing::warn!(
            error = with_causes(&error),
            "the addresses are forgotten with this process"
        );
    }
    true
}
