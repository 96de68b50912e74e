//! What the agent says of its machine: characteristics, engines, how safely it is set up. Looked at
//! when the agent starts and every ten minutes, written when it has changed. Started by
//! [`crate::work`]; start at [`keep`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tombolo_host::security::{self, Facts, Report};
use tombolo_host::{Ask, Doctor, Machine, Root, Sampler, uuid};
use tombolo_model::characteristics::Device;
use tombolo_model::site::Location;
use tombolo_model::{Engine, Node, NodeStatus};

use crate::connection::Connection;
use crate::converge::Drivers;
use crate::credentials::Folder;
use crate::desired::{self, Place};
use crate::offer::Offer;
use crate::{Error, clock};

const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);
/// After a look that could not be told.
const TELL_AGAIN: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Others write to the Node too: so often it is read anew.
const ATTEMPTS_MAX: usize = 4;
/// A name for a machine that has none of its own.
const UUID_FILE: &str = "uuid";
/// An engine that does not answer is left without a version.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the machine is reached as long as nobody knows better.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

/// What there is to say, apart from what people have written on the Node.
struct Sight {
    machine: Machine,
    security: Report,
    versions: Vec<(Engine, String)>,
}

/// Whose Node it is, and what is known of the machine beforehand.
pub(crate) struct Subject {
    pub(crate) place: Place,
    pub(crate) folder: Arc<Folder>,
    pub(crate) drivers: Drivers,
    pub(crate) offer: Offer,
}

/// Looks and tells for ever. `address` is where others reach what runs here.
pub(crate) async fn keep(connection: Connection, subject: Subject, address: watch::Sender<String>) {
    let mut devices: Vec<Device> = Vec::new();
    loop {
        let pause = match tell(&connection, &subject, &mut devices, &address).await {
            Ok(()) => LOOK_EVERY,
            Err(problem) => {
                tracing::info!(problem, "cannot describe the machine yet");
                TELL_AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn tell(
    connection: &Connection,
    subject: &Subject,
    devices: &mut Vec<Device>,
    address: &watch::Sender<String>,
) -> Result<(), String> {
    let place = &subject.place;
    let mut sight: Option<Sight> = None;
    for _ in 0..ATTEMPTS_MAX {
        let api: Api<Node> = Api::all(connection.client());
        let got = tokio::time::timeout(ANSWER_TIMEOUT, api.get(&place.node)).await;
        let got = got.map_err(|late| late.to_string())?;
        let mut node = got.map_err(|error| desired::chain(&error))?;
        if sight.is_none() {
            let found = look(subject, node.spec.location.clone(), devices.clone()).await?;
            devices.clone_from(&found.machine.characteristics.devices);
            let first = found.machine.addresses.first().map_or(LOOPBACK, String::as_str);
            address.send_if_modified(|known| {
                known != first && {
                    *known = first.to_owned();
                    true
                }
            });
            sight = Some(found);
        }
        let Some(sight) = &sight else { continue };
        let mut status = node.status.take().unwrap_or_default();
        let before = status.clone();
        put(sight, &mut status, &node);
        if status == before {
            return Ok(());
        }
        node.status = Some(status);
        let params = PostParams::default();
        let written = api.replace_status(&place.node, &params, &node);
        match tokio::time::timeout(ANSWER_TIMEOUT, written).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => (),
            Ok(Err(error)) => return Err(desired::chain(&error)),
            Err(late) => return Err(late.to_string()),
        }
    }
    Err("somebody else writes the Node all the time".to_owned())
}

fn put(sight: &Sight, status: &mut NodeStatus, node: &Node) {
    sight.machine.put_on(status, node.spec.reserved.as_ref());
    status.security_score = Some(sight.security.score);
    status.agent_version = Some(env!("CARGO_PKG_VERSION").to_owned());
    let engines = status.characteristics.iter_mut().flat_map(|found| &mut found.engines);
    for engine in engines {
        let known = sight.versions.iter().find(|(name, _)| *name == engine.name);
        if let Some((_, version)) = known {
            engine.version = Some(version.clone());
        }
    }
}

async fn look(
    subject: &Subject,
    location: Option<Location>,
    devices: Vec<Device>,
) -> Result<Sight, String> {
    let mut versions = Vec::new();
    for (engine, driver) in &subject.drivers {
        if let Ok(Ok(probe)) = tokio::time::timeout(PROBE_TIMEOUT, driver.probe()).await {
            versions.push((*engine, probe.version));
        }
    }
    let (folder, offer) = (Arc::clone(&subject.folder), subject.offer.clone());
    let looked = tokio::task::spawn_blocking(move || {
        let kept = folder.read(UUID_FILE).ok().flatten();
        let mut machine = machine(
            folder.path(),
            &Ask {
                location: location.as_ref().or(offer.location.as_ref()),
                region: offer.region.as_deref(),
                uuid_kept: kept.as_deref(),
                devices_before: &devices,
                ..Ask::default()
            },
        );
        if let (uuid::Source::Generated, Some(name)) =
            (machine.uuid_source, &machine.characteristics.uuid)
        {
            folder.write(UUID_FILE, name)?;
        }
        offer.put_on(&mut machine);
        Ok::<_, Error>((machine, security(folder.path())))
    });
    let (machine, security) =
        looked.await.map_err(|error| error.to_string())?.map_err(|error| desired::chain(&error))?;
    Ok(Sight { machine, security, versions })
}

fn machine(folder: &Path, ask: &Ask<'_>) -> Machine {
    tombolo_host::characterise(&Root::real(), &Ask { data: folder.to_str(), ..*ask })
}

fn security(folder: &Path) -> Report {
    let program = std::env::current_exe().ok();
    let ask = security::Ask {
        now: clock::time_of_day().as_second(),
        data: folder.to_str(),
        program: program.as_ref().and_then(|path| path.to_str()),
    };
    security::judge(&Facts::gather(&Root::real(), &ask))
}

/// Everything about this machine, for `tombolo agent doctor`. Changes nothing and needs no server.
pub fn examine(folder: &Path) -> Doctor {
    let kept = std::fs::read_to_string(folder.join(UUID_FILE)).ok();
    let load = Sampler::new(Root::real(), folder.to_str().unwrap_or("/")).sample();
    Doctor {
        machine: machine(folder, &Ask { uuid_kept: kept.as_deref(), ..Ask::default() }),
        load,
        security: security(folder),
    }
}

/// Where the machine is reached, as it was said or as far as it knows by itself.
pub(crate) fn address(offer: &Offer) -> String {
    if let Some(address) = &offer.address {
        return address.clone();
    }
    let addresses = tombolo_host::network::read(&Root::real()).addresses;
    addresses.into_iter().next().unwrap_or_else(|| LOOPBACK.to_owned())
}
