//! The half of the agent that keeps the link to the server: it joins, keeps the certificate young and the
//! Lease alive. What follows from a failure is decided by `tombolo_plan::agent::link`. Called by
//! [`crate::run()`]; start at [`come_in`] and [`live`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tombolo_identity::Remit;
use tombolo_identity::joining::{Sought, StandsFor};
use tombolo_model::phrase::with_causes;
use tombolo_plan::agent::link::{
    self, Addresses, Asked, Certificate, Labels, Link, Means, Next, Renewal, Renewed,
};
use tombolo_plan::agent::pace::Pace;

use crate::clock::{Clock, Heard};
use crate::connection::{Connection, Replacer};
use crate::credentials::{Credentials, Folder};
use crate::join::{self, Applicant};
use crate::offer::Offer;
use crate::run::Settings;
use crate::siblings::Siblings;
use crate::{Error, clock, heartbeat, lighthouse, machine};

/// Who this agent is.
pub(crate) struct Agent {
    pub(crate) folder: Arc<Folder>,
    pub(crate) credentials: Credentials,
    pub(crate) machine: String,
    pub(crate) instance: String,
    pub(crate) offer: Offer,
}

/// Tells the working half when the server was heard.
pub(crate) struct Pulse {
    pub(crate) clock: Clock,
    pub(crate) heartbeats: watch::Sender<Option<Heard>>,
    pub(crate) pace: Pace,
}

impl Pulse {
    fn heard(&self, asked: Heard) {
        // If nobody listens, the agent is ending.
        let _ = self.heartbeats.send(Some(asked));
    }
}

/// With what an earlier start left, or with the join file.
pub(crate) async fn come_in(settings: &Settings, stands_for: StandsFor) -> Result<Agent, Error> {
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
                let wait = link::retry(failures);
                tracing::warn!(error = with_causes(&error), ?wait, "cannot join yet; trying again");
                tokio::time::sleep(wait).await;
                failures += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Beats for an agent in the process of the server itself, which needs no certificate.
pub(crate) async fn beat_on(client: &kube::Client, remit: &Remit, instance: &str, pulse: &Pulse) {
    let mut siblings = Siblings::default();
    let beat = pulse.pace.beat();
    loop {
        let asked = pulse.clock.asked();
        let pause = match heartbeat::beat(client, remit, instance, pulse.pace, &mut siblings).await
        {
            Ok(news) => {
                pulse.heard(asked);
                link::next_beat(beat, beat, news)
            }
            Err(error) => {
                tracing::warn!(error = with_causes(&error), "no heartbeat; trying again");
                beat
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Beats and renews, for ever. Comes back only with what the server cannot mend.
pub(crate) async fn live(
    agent: &mut Agent,
    settings: &Settings,
    (connection, replacer): (&Connection, &Replacer),
    pulse: &Pulse,
) -> Result<(), Error> {
    let mut link = Link::default();
    let mut siblings = Siblings::default();
    let beat = pulse.pace.beat();
    loop {
        let beaten = match renew_if_due(agent, replacer, &mut link).await {
            Ok(look_again) => {
                let remit = &agent.credentials.identity.remit;
                let client = connection.client();
                let asked = pulse.clock.asked();
                let (instance, pace) = (&agent.instance, pulse.pace);
                let beaten = heartbeat::beat(&client, remit, instance, pace, &mut siblings).await;
                beaten.map(|news| (asked, link::next_beat(beat, look_again, news)))
            }
            Err(error) => Err(error),
        };
        let pause = match beaten {
            Ok((asked, pause)) => {
                link.beaten();
                pulse.heard(asked);
                pause
            }
            Err(error) => after(error, agent, settings, replacer, (&mut link, beat)).await?,
        };
        tokio::time::sleep(pause).await;
    }
}

/// Renews a certificate if that is due, and says when to look again.
async fn renew_if_due(
    agent: &mut Agent,
    replacer: &Replacer,
    link: &mut Link,
) -> Result<Duration, Error> {
    let lifetime = agent.credentials.lifetime()?;
    let certificate = Certificate {
        name: agent.credentials.identity.remit.name(),
        begins: lifetime.begins,
        expires: lifetime.expires,
        labels: match agent.credentials.identity.labels == agent.offer.labels {
            true => Labels::Known,
            false => Labels::New,
        },
    };
    match link.renewal(&certificate, clock::time_of_day()) {
        Renewal::NotNow { look_again } => Ok(look_again),
        Renewal::Now(asked) => renew(agent, replacer, link, asked).await,
    }
}

async fn renew(
    agent: &mut Agent,
    replacer: &Replacer,
    link: &mut Link,
    asked: Asked,
) -> Result<Duration, Error> {
    let renewed = join::renew(&agent.credentials, &agent.instance, &agent.offer.labels).await;
    let came_to = renewed.as_ref().map(drop).map_err(Error::failure);
    let error = match renewed {
        Ok(identity) => {
            // The next start can renew the old one, also after it has expired.
            if let Err(error) = agent.folder.keep(&identity) {
                tracing::warn!(error = with_causes(&error), "the new certificate is not kept");
            }
            agent.credentials.identity = identity;
            replacer.replace(&agent.credentials, address(agent, link))?;
            tracing::info!("the certificate is renewed");
            None
        }
        Err(error) => Some(error),
    };
    match (link.renewed(asked, came_to), error) {
        (Renewed::GoOn(again), None) => Ok(again),
        (Renewed::GoOn(again), Some(error)) => {
            tracing::warn!(error = with_causes(&error), "cannot renew the certificate yet");
            Ok(again)
        }
        (Renewed::GiveUpLabels(again), error) => {
            let error = error.map(|error| with_causes(&error));
            tracing::error!(error, "the new labels are refused until the next start");
            agent.offer.labels.clone_from(&agent.credentials.identity.labels);
            Ok(again)
        }
        (Renewed::Failed, Some(error)) => Err(error),
        (Renewed::Failed, None) => Ok(asked.again),
    }
}

/// Does what follows from a failure, and says how long to wait then.
async fn after(
    error: Error,
    agent: &mut Agent,
    settings: &Settings,
    replacer: &Replacer,
    (link, beat): (&mut Link, Duration),
) -> Result<Duration, Error> {
    let means = |agent: &Agent| Means {
        addresses: agent.credentials.identity.addresses.len(),
        join_file: match settings.join_file {
            Some(_) => link::JoinFile::Given,
            None => link::JoinFile::None,
        },
        beat,
    };
    let mut next = link.failed(error.failure(), means(agent));
    let why = with_causes(&error);
    match error.retryable() {
        true => tracing::warn!(error = why, ?next, "no heartbeat; trying again"),
        false => tracing::error!(error = why, ?next, "no heartbeat; what runs here goes on"),
    }
    loop {
        next = match next {
            Next::Again { after } => return Ok(after),
            Next::Dial { after } => {
                replacer.replace(&agent.credentials, address(agent, link))?;
                return Ok(after);
            }
            Next::AskLighthouses => {
                let addresses = learn(agent).await;
                link.told(addresses, means(agent))
            }
            Next::Join => {
                let joined = join_anew(agent, settings, replacer, link).await?;
                link.joined(joined)
            }
            Next::End => return Err(error),
        };
    }
}

fn address(agent: &Agent, link: &Link) -> usize {
    link.address(agent.credentials.identity.addresses.len())
}

async fn join_anew(
    agent: &mut Agent,
    settings: &Settings,
    replacer: &Replacer,
    link: &Link,
) -> Result<link::Joined, Error> {
    // A new key, since the old one may be why. It is kept only if it opens the door.
    let key_pem = tombolo_identity::request::new_key()?;
    let about = (agent.machine.as_str(), &agent.offer);
    let stands_for = stands_for_of(&agent.credentials.identity.remit);
    match join_until_in(settings, stands_for, about, key_pem, &agent.folder).await {
        Ok(credentials) => {
            agent.folder.keep_anew(&credentials)?;
            agent.credentials = credentials;
            replacer.replace(&agent.credentials, address(agent, link))?;
            Ok(link::Joined::Yes)
        }
        Err(error) => {
            tracing::error!(error = with_causes(&error), "the join file does not help");
            Ok(link::Joined::No)
        }
    }
}

/// Asks the lighthouses for addresses.
async fn learn(agent: &mut Agent) -> Addresses {
    let identity = &mut agent.credentials.identity;
    let Some(addresses) = lighthouse::ask(&identity.lighthouses, &identity.addresses).await else {
        return Addresses::Same;
    };
    tracing::info!(?addresses, "the lighthouses know more addresses");
    identity.addresses = addresses;
    if let Err(error) = agent.folder.keep(identity) {
        tracing::warn!(
            error = with_causes(&error),
            "the addresses are forgotten with this process"
        );
    }
    Addresses::New
}
