//! What the agent says of its machine: characteristics, engines, how safely it is set up. Looked at
//! when the agent starts and every ten minutes, written when it has changed. Started by
//! [`crate::work`]; start at [`keep`].

mod confining;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tombolo_driver::Confinement;
use tombolo_host::security::{self, Facts, Report};
use tombolo_host::{Ask, Doctor, Machine, Root, Sampler, uuid};
use tombolo_model::characteristics::{Device, EngineVersion};
use tombolo_model::condition::{DISK_PRESSURE, Finding, find, is_true, set};
use tombolo_model::phrase::{first_few, with_causes};
use tombolo_model::site::Location;
use tombolo_model::{ConditionStatus, Engine, Node, NodeStatus, Reason, keys};
use tombolo_plan::agent::pauses;

use crate::connection::Connection;
use crate::converge::Drivers;
use crate::credentials::Folder;
use crate::offer::Offer;
use crate::report::{Told, Tone};
use crate::{clock, leaf, tell};

pub use confining::cannot_confine;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Others write to the Node too: so often it is read anew.
const ATTEMPTS_MAX: usize = 4;
/// A name for a machine that has none of its own.
const UUID_FILE: &str = "uuid";
/// An engine that does not answer is left without a version.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// After the working half has said something new, before the machine is described.
const BURST: Duration = Duration::from_millis(500);
/// After something happened in an engine, before it is asked whether it is still the same.
const PROBE_PAUSE: Duration = Duration::from_secs(2);

/// The condition of a Node on which something runs that the server does not know.
const UNKNOWN_WORKLOADS: &str = "UnknownWorkloads";

/// A condition is a sentence, and nobody reads a thousand names.
const NAMED_MAX: usize = 12;

/// Where the machine is reached as long as nobody knows better.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

/// What there is to say, apart from what people have written on the Node.
struct Sight {
    machine: Machine,
    security: Report,
}

/// Which Node is told of, and what is known of its machine beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) site: String,
    pub(crate) node: String,
    pub(crate) folder: Arc<Folder>,
    pub(crate) drivers: Drivers,
    pub(crate) offer: Offer,
}

/// What the working half learns from here.
#[derive(Clone, Debug)]
pub(crate) struct Learnt {
    /// Where others reach what runs here.
    pub(crate) address: watch::Sender<String>,
    /// Whether the node is to be emptied, with what the server has forgotten.
    pub(crate) drained: watch::Sender<bool>,
    /// What the machine is, for those who measure it.
    pub(crate) known: watch::Sender<leaf::Known>,
}

/// What the machine is, as far as that is known without a server.
pub(crate) async fn facts(subject: &Subject) -> Result<leaf::facts::Facts, String> {
    let sight = look(subject, None, Vec::new(), None).await?;
    Ok(facts_of(&sight, &Versions::default(), subject))
}

fn facts_of(sight: &Sight, versions: &Versions, subject: &Subject) -> leaf::facts::Facts {
    let mut characteristics = sight.machine.characteristics.clone();
    for engine in &mut characteristics.engines {
        engine.version = versions.by_engine.get(&engine.name).cloned().flatten();
    }
    leaf::facts::Facts {
        hostname: sight.machine.hostname.clone().unwrap_or_else(|| subject.node.clone()),
        address: sight.machine.addresses.first().cloned().unwrap_or_default(),
        site: subject.site.clone(),
        characteristics,
        energy: sight.machine.energy.clone(),
        security_score: Some(sight.security.score),
        labels: subject.offer.labels.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// What the working half has to say of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) disk: Disk,
    /// What runs and the server does not know, by namespace and name.
    pub(crate) forgotten: Vec<String>,
    /// Ports of workloads that are open beyond this machine, once that is known.
    pub(crate) open_ports: Option<u32>,
}

/// Looks and tells for ever.
pub(crate) async fn keep(
    connection: Connection,
    subject: Subject,
    learnt: Learnt,
    mut inside: watch::Receiver<Inside>,
) {
    let mut devices: Vec<Device> = Vec::new();
    let mut events: SelectAll<_> = subject.drivers.values().map(|driver| driver.events()).collect();
    loop {
        // Before the look: what changes during it is looked at again.
        while events.next().now_or_never().flatten().is_some() {}
        let seen = inside.borrow_and_update().clone();
        let versions = versions(&subject.drivers).await;
        let told = describe(&connection, &subject, &versions, &mut devices, &learnt, &seen).await;
        let told = match told {
            Ok(()) if seen.forgotten.is_empty() => pauses::Told::All,
            Ok(()) => pauses::Told::AskingPeople,
            Err(problem) => {
                tracing::info!(problem, "cannot describe the machine yet");
                pauses::Told::Failed
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pauses::node(told)) => (),
            () = until_engines_change(&subject.drivers, &versions, &mut events) => (),
            // Without the other side the agent is ending, and the pause is as good.
            // All that a burst brings is one look.
            Ok(()) = inside.changed() => tokio::time::sleep(BURST).await,
        }
    }
}

/// What the engines say of themselves; nothing from an engine that does not answer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Versions {
    by_engine: BTreeMap<Engine, Option<String>>,
    /// How far programs are confined here.
    confinement: Option<Confinement>,
}

async fn versions(drivers: &Drivers) -> Versions {
    let mut versions = Versions::default();
    for (engine, driver) in drivers {
        let probe = tokio::time::timeout(PROBE_TIMEOUT, driver.probe()).await;
        let probe = probe.ok().and_then(Result::ok);
        let (version, confinement) = match probe {
            Some(probe) => (Some(probe.version), probe.confinement),
            None => (None, None),
        };
        versions.by_engine.insert(*engine, version);
        versions.confinement = confinement.or(versions.confinement);
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

/// Whether the agent can keep what it must know after a reboot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Disk {
    #[default]
    Well,
    /// It cannot, and why.
    CannotWrite(String),
}

async fn describe(
    connection: &Connection,
    subject: &Subject,
    versions: &Versions,
    devices: &mut Vec<Device>,
    learnt: &Learnt,
    inside: &Inside,
) -> Result<(), String> {
    let name = &subject.node;
    let mut sight: Option<Sight> = None;
    for _ in 0..ATTEMPTS_MAX {
        let client = connection.client();
        let api: Api<Node> = Api::all(client.clone());
        let got = tokio::time::timeout(ANSWER_TIMEOUT, api.get(name)).await;
        let got = got.map_err(|late| late.to_string())?;
        let mut node = got.map_err(|error| with_causes(&error))?;
        // A drain that was seen before there was anything to end says nothing about it.
        let drained = !inside.forgotten.is_empty()
            && node.spec.taints.iter().any(|taint| taint.key == keys::TAINT_DRAIN);
        learnt.drained.send_if_modified(|known| std::mem::replace(known, drained) != drained);
        if sight.is_none() {
            let confinement = versions.confinement.clone();
            let location = node.spec.location.clone();
            let found = look(subject, location, devices.clone(), confinement).await?;
            devices.clone_from(&found.machine.characteristics.devices);
            let first = found.machine.addresses.first().map_or(LOOPBACK, String::as_str);
            learnt.address.send_if_modified(|known| {
                known != first && {
                    *known = first.to_owned();
                    true
                }
            });
            learnt.known.send_replace(Some(Arc::new(facts_of(&found, versions, subject))));
            sight = Some(found);
        }
        let Some(sight) = &sight else { continue };
        let mut status = node.status.take().unwrap_or_default();
        let before = status.clone();
        put(sight, versions, &mut status, &node);
        status.open_ports = inside.open_ports.or(status.open_ports);
        let now = Time(clock::time_of_day());
        let told = [
            put_disk(&inside.disk, &mut status, &now),
            confining::put(versions.confinement.as_ref(), &mut status, &now),
            put_forgotten(&inside.forgotten, name, &mut status, &now),
        ];
        if status == before {
            return Ok(());
        }
        node.status = Some(status);
        let params = PostParams::default();
        let written = api.replace_status(name, &params, &node);
        match tokio::time::timeout(ANSWER_TIMEOUT, written).await {
            Ok(Ok(node)) => {
                for told in told.iter().flatten() {
                    tell::of_node(&client, &node, told).await;
                }
                return Ok(());
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => (),
            Ok(Err(error)) => return Err(with_causes(&error)),
            Err(late) => return Err(late.to_string()),
        }
    }
    Err("somebody else writes the Node all the time".to_owned())
}

/// Says how the disk is, if it ever was not well. Returns what is news.
fn put_disk(disk: &Disk, status: &mut NodeStatus, now: &Time) -> Option<Told> {
    let was_well = !is_true(&status.conditions, DISK_PRESSURE);
    let (so, reason, message) = match disk {
        Disk::Well if find(&status.conditions, DISK_PRESSURE).is_none() => return None,
        Disk::Well => (ConditionStatus::False, Reason::CanWrite, Reason::CanWrite.says(&[])),
        Disk::CannotWrite(why) => {
            let message = Reason::CannotWrite.says(&[("why", why.clone())]);
            (ConditionStatus::True, Reason::CannotWrite, message)
        }
    };
    let observed_generation = None;
    let finding =
        Finding { kind: DISK_PRESSURE, status: so, reason, message: &message, observed_generation };
    set(&mut status.conditions, finding, now);
    let tone = match (was_well, disk) {
        (true, Disk::CannotWrite(_)) => Tone::Warning,
        (false, Disk::Well) => Tone::Normal,
        (true, Disk::Well) | (false, Disk::CannotWrite(_)) => return None,
    };
    Some(Told { tone, reason, message })
}

/// Says what runs here and the server does not know, if there ever was such. Returns what is news.
fn put_forgotten(
    forgotten: &[String],
    node: &str,
    status: &mut NodeStatus,
    now: &Time,
) -> Option<Told> {
    let before = find(&status.conditions, UNKNOWN_WORKLOADS).map(|found| found.message.clone());
    let (so, reason, message) = match (forgotten, &before) {
        ([], None) => return None,
        ([], Some(_)) => (ConditionStatus::False, Reason::AllKnown, Reason::AllKnown.says(&[])),
        (_, _) => {
            let blanks = [("names", first_few(forgotten, NAMED_MAX)), ("node", node.to_owned())];
            let (what, help) =
                (Reason::Forgotten.says(&blanks), Reason::Forgotten.advises(&blanks));
            (ConditionStatus::True, Reason::Forgotten, format!("{what}. {help}"))
        }
    };
    let observed_generation = None;
    let finding = Finding {
        kind: UNKNOWN_WORKLOADS,
        status: so,
        reason,
        message: &message,
        observed_generation,
    };
    set(&mut status.conditions, finding, now);
    let tone = if forgotten.is_empty() { Tone::Normal } else { Tone::Warning };
    (before.as_ref() != Some(&message)).then_some(Told { tone, reason, message })
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
    if matches!(versions.by_engine.get(&Engine::Docker), Some(version) if version.is_some() || docker_before)
    {
        engines.push(EngineVersion { name: Engine::Docker, version: None });
    }
    for engine in engines {
        engine.version = versions.by_engine.get(&engine.name).cloned().flatten();
    }
}

async fn look(
    subject: &Subject,
    location: Option<Location>,
    devices: Vec<Device>,
    confinement: Option<Confinement>,
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
            // The next look draws another: that is better than to say nothing of the machine.
            if let Err(error) = folder.write(UUID_FILE, name) {
                tracing::warn!(error = with_causes(&error), "the machine's id is not kept");
            }
        }
        offer.put_on(&mut machine);
        (machine, security(folder.path(), confinement))
    });
    let (machine, security) = looked.await.map_err(|error| error.to_string())?;
    Ok(Sight { machine, security })
}

fn machine(folder: &Path, ask: &Ask<'_>) -> Machine {
    tombolo_host::characterise(&Root::real(), &Ask { data: folder.to_str(), ..*ask })
}

fn security(folder: &Path, confinement: Option<Confinement>) -> Report {
    let program = std::env::current_exe().ok();
    let confinement = confinement.map(confining::as_fact);
    // An engine that cannot be asked is judged by its settings.
    let engine = crate::engines::docker_socket(folder)
        .and_then(|socket| tombolo_driver_docker::security_options(&socket).ok());
    let ask = security::Ask {
        now: clock::time_of_day().as_second(),
        data: folder.to_str(),
        program: program.as_ref().and_then(|path| path.to_str()),
        confinement: confinement.as_ref(),
        engine: engine.as_deref(),
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
        security: security(folder, confining::try_it()),
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
