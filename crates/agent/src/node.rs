//! What the agent says of its machine: characteristics, engines, how safely it is set up. Looked at
//! when the agent starts and every ten minutes, written when it has changed. Started by
//! [`crate::work`]; start at [`keep`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tombolo_host::security::{self, Facts, Report};
use tombolo_host::{Ask, Doctor, Machine, Root, Sampler, uuid};
use tombolo_model::characteristics::{Device, EngineVersion};
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
/// After something happened in an engine, before it is asked whether it is still the same.
const PROBE_PAUSE: Duration = Duration::from_secs(2);

/// Where the machine is reached as long as nobody knows better.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

/// What there is to say, apart from what people have written on the Node.
struct Sight {
    machine: Machine,
    security: Report,
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
    let mut events: SelectAll<_> = subject.drivers.values().map(|driver| driver.events()).collect();
    loop {
        // Before the look: what changes during it is looked at again.
        while events.next().now_or_never().flatten().is_some() {}
        let versions = versions(&subject.drivers).await;
        let pause = match tell(&connection, &subject, &versions, &mut devices, &address).await {
            Ok(()) => LOOK_EVERY,
            Err(problem) => {
                tracing::info!(problem, "cannot describe the machine yet");
                TELL_AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => (),
            () = until_engines_change(&subject.drivers, &versions, &mut events) => (),
        }
    }
}

/// What the engines say of themselves; nothing from one that does not answer.
type Versions = BTreeMap<Engine, Option<String>>;

async fn versions(drivers: &Drivers) -> Versions {
    let mut versions = Versions::new();
    for (engine, driver) in drivers {
        let probe = tokio::time::timeout(PROBE_TIMEOUT, driver.probe()).await;
        versions.insert(*engine, probe.ok().and_then(Result::ok).map(|probe| probe.version));
    }
    versions
}

/// Comes when an engine has come, gone or become another.
async fn until_engines_change(
    drivers: &Drivers,
    known: &Versions,
    events: &mut SelectAll<BoxStream<'static, ()>>,
) {
    while events.next().await.is_some() {
        // Whatever is started or stopped is an event, too.
        tokio::time::sleep(PROBE_PAUSE).await;
        while events.next().now_or_never().flatten().is_some() {}
        if versions(drivers).await != *known {
            return;
        }
    }
    std::future::pending().await
}

async fn tell(
    connection: &Connection,
    subject: &Subject,
    versions: &Versions,
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
        put(sight, versions, &mut status, &node);
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

fn put(sight: &Sight, versions: &Versions, status: &mut NodeStatus, node: &Node) {
    let listed = |status: &NodeStatus, name: Engine| {
        let engines = status.characteristics.iter().flat_map(|found| &found.engines);
        engines.into_iter().any(|engine| engine.name == name)
    };
    let docker_before = listed(status, Engine::Docker);
    sight.machine.put_on(status, node.spec.reserved.as_ref());
    status.security_score = Some(sight.security.score);
    status.agent_version = Some(env!("CARGO_PKG_VERSION").to_owned());
    let Some(characteristics) = &mut status.characteristics else { return };
    // A socket is not enough: only what answers us runs anything. What did so once stays, for an
    // engine that is started anew keeps what it runs.
    let engines = &mut characteristics.engines;
    engines.retain(|engine| engine.name != Engine::Docker);
    if matches!(versions.get(&Engine::Docker), Some(version) if version.is_some() || docker_before)
    {
        engines.push(EngineVersion { name: Engine::Docker, version: None });
    }
    for engine in engines {
        engine.version = versions.get(&engine.name).cloned().flatten();
    }
}

async fn look(
    subject: &Subject,
    location: Option<Location>,
    devices: Vec<Device>,
) -> Result<Sight, String> {
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
    Ok(Sight { machine, security })
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
