//! What the agent says of its machine: characteristics, engines, how safely it is set up. Looked at
//! when the agent starts and every ten minutes, written when it has changed. Started by
//! [`crate::work`]; start at [`keep`].

use std::path::Path;
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

/// Looks and tells for ever. `address` is where others reach what runs here.
pub(crate) async fn keep(
    connection: Connection,
    place: Place,
    folder: std::sync::Arc<Folder>,
    drivers: Drivers,
    address: watch::Sender<String>,
) {
    let mut devices: Vec<Device> = Vec::new();
    loop {
        let pause = match tell(&connection, &place, &folder, &drivers, &mut devices, &address).await
        {
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
    place: &Place,
    folder: &std::sync::Arc<Folder>,
    drivers: &Drivers,
    devices: &mut Vec<Device>,
    address: &watch::Sender<String>,
) -> Result<(), String> {
    let mut sight: Option<Sight> = None;
    for _ in 0..ATTEMPTS_MAX {
        let api: Api<Node> = Api::all(connection.client());
        let got = tokio::time::timeout(ANSWER_TIMEOUT, api.get(&place.node)).await;
        let got = got.map_err(|late| late.to_string())?;
        let mut node = got.map_err(|error| desired::chain(&error))?;
        if sight.is_none() {
            let found = look(folder, node.spec.location.clone(), devices.clone(), drivers).await?;
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
    folder: &std::sync::Arc<Folder>,
    location: Option<Location>,
    devices: Vec<Device>,
    drivers: &Drivers,
) -> Result<Sight, String> {
    let mut versions = Vec::new();
    for (engine, driver) in drivers {
        if let Ok(Ok(probe)) = tokio::time::timeout(PROBE_TIMEOUT, driver.probe()).await {
            versions.push((*engine, probe.version));
        }
    }
    let folder = std::sync::Arc::clone(folder);
    let looked = tokio::task::spawn_blocking(move || {
        let kept = folder.read(UUID_FILE).ok().flatten();
        let machine = machine(folder.path(), location.as_ref(), &devices, kept.as_deref());
        if let (uuid::Source::Generated, Some(name)) =
            (machine.uuid_source, &machine.characteristics.uuid)
        {
            folder.write(UUID_FILE, name)?;
        }
        Ok::<_, Error>((machine, security(folder.path())))
    });
    let (machine, security) =
        looked.await.map_err(|error| error.to_string())?.map_err(|error| desired::chain(&error))?;
    Ok(Sight { machine, security, versions })
}

fn machine(
    folder: &Path,
    location: Option<&Location>,
    devices: &[Device],
    uuid_kept: Option<&str>,
) -> Machine {
    let ask = Ask {
        location,
        data: folder.to_str(),
        uuid_kept,
        devices_before: devices,
        ..Ask::default()
    };
    tombolo_host::characterise(&Root::real(), &ask)
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
        machine: machine(folder, None, &[], kept.as_deref()),
        load,
        security: security(folder),
    }
}

/// Where the machine is reached, as far as it knows by itself.
pub(crate) fn address() -> String {
    let addresses = tombolo_host::network::read(&Root::real()).addresses;
    addresses.into_iter().next().unwrap_or_else(|| LOOPBACK.to_owned())
}
