//! What the engine tells of our containers, as instances. Called at every look of the driver; values
//! in, values out. Start with [`instances`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum};
use tombolo_driver::{Error, Exit, Instance, InstanceId, Origin, PublishedPort, Running, State};
use tombolo_model::component::Protocol;

use crate::error;
use crate::tag::{self, Tag};

/// A container of ours as it was last inspected.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) container: String,
    pub(crate) name: String,
    pub(crate) tag: Tag,
    pub(crate) inspected: ContainerInspectResponse,
    /// The last lines of one that has ended.
    pub(crate) log: Vec<String>,
}

/// What this driver is doing for an instance, or why it could not.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    pub(crate) origin: Origin,
    pub(crate) state: State,
}

/// By id. What the driver is doing right now comes before what the engine shows.
pub(crate) fn instances(seen: &[Arc<Seen>], doing: &BTreeMap<InstanceId, Doing>) -> Vec<Instance> {
    let mut runs: BTreeMap<&InstanceId, Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        if let Some(id) = &one.tag.id {
            runs.entry(id).or_default().push(one);
        }
    }
    let mut instances: BTreeMap<InstanceId, Instance> = BTreeMap::new();
    for (id, mut runs) in runs {
        runs.sort_by_key(|seen| seen.tag.run);
        instances.extend(instance(id, &runs).map(|instance| (id.clone(), instance)));
    }
    for (id, doing) in doing {
        let known = instances.entry(id.clone());
        let instance = known.or_insert_with(|| empty(id, &doing.origin, doing.state.clone()));
        instance.state = doing.state.clone();
    }
    instances.into_values().collect()
}

fn empty(id: &InstanceId, origin: &Origin, state: State) -> Instance {
    Instance {
        id: id.clone(),
        origin: origin.clone(),
        state,
        restarts: 0,
        last_exit: None,
        notes: Vec::new(),
        parts: Vec::new(),
    }
}

/// The last run is the instance; the one before it is how it last ended.
fn instance(id: &InstanceId, runs: &[&Seen]) -> Option<Instance> {
    let (last, earlier) = runs.split_last()?;
    let before = earlier.last().and_then(|seen| match state(seen) {
        State::Exited(exit) => Some(exit),
        State::Starting { .. } | State::Running(_) | State::Stopping(_) | State::Failed(_) => None,
    });
    Some(Instance {
        restarts: last.tag.run,
        last_exit: before,
        notes: last.tag.notes.clone(),
        ..empty(id, &last.tag.origin, state(last))
    })
}

pub(crate) fn state(seen: &Seen) -> State {
    let Some(state) = &seen.inspected.state else { return interrupted() };
    let failed = state.error.as_deref().filter(|text| !text.is_empty());
    match state.status {
        Some(
            ContainerStateStatusEnum::RUNNING
            | ContainerStateStatusEnum::PAUSED
            | ContainerStateStatusEnum::RESTARTING,
        ) => match tag::is_stopping(&seen.name) {
            true => State::Stopping(running(seen, state)),
            false => State::Running(running(seen, state)),
        },
        Some(ContainerStateStatusEnum::CREATED) => match failed {
            Some(text) => State::Failed(error::meaning("start it", text)),
            None => interrupted(),
        },
        Some(
            ContainerStateStatusEnum::EXITED
            | ContainerStateStatusEnum::DEAD
            | ContainerStateStatusEnum::REMOVING
            | ContainerStateStatusEnum::STOPPING
            | ContainerStateStatusEnum::EMPTY,
        )
        | None => State::Exited(exit(seen, state)),
    }
}

/// It was made and not started, and nobody is about to.
fn interrupted() -> State {
    State::Failed(Error::Failed {
        doing: "say whether it was started: the agent ended while it did so".to_owned(),
        source: error::words("the container was created and never started"),
    })
}

fn running(seen: &Seen, state: &ContainerState) -> Running {
    let settings = seen.inspected.network_settings.as_ref();
    let networks = settings.and_then(|settings| settings.networks.as_ref());
    let addresses = networks.into_iter().flat_map(|networks| networks.values());
    let addresses = addresses.filter_map(|endpoint| endpoint.ip_address.clone());
    let mut addresses: Vec<String> = addresses.filter(|address| !address.is_empty()).collect();
    addresses.sort_unstable();
    Running {
        name: seen.container.clone(),
        pid: state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0),
        since: time(state.started_at.as_deref()).unwrap_or(SystemTime::UNIX_EPOCH),
        addresses,
        ports: ports(&seen.inspected),
    }
}

fn ports(inspected: &ContainerInspectResponse) -> Vec<PublishedPort> {
    let settings = inspected.network_settings.as_ref();
    let map = settings.and_then(|settings| settings.ports.as_ref());
    let mut ports: Vec<PublishedPort> = Vec::new();
    for (name, bindings) in map.into_iter().flatten() {
        let Some((port, transport)) = name.split_once('/') else { continue };
        let Ok(port) = port.parse() else { continue };
        let protocol = if transport == "udp" { Protocol::Udp } else { Protocol::Tcp };
        // One for each family of addresses, all with the same port.
        let published =
            bindings.iter().flatten().find_map(|one| one.host_port.as_ref()?.parse().ok());
        ports.push(PublishedPort { port, protocol, published });
    }
    ports.sort_unstable();
    ports
}

fn exit(seen: &Seen, state: &ContainerState) -> Exit {
    let code = state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
    // The engine tells a signal as a shell does. Programs that end with such a code themselves mean
    // the same by it.
    let signal = (129..=192).contains(&code).then(|| code - 128);
    let out_of_memory = state.oom_killed == Some(true);
    let (reason, message) = match (tag::is_stopping(&seen.name), out_of_memory, signal, code) {
        (true, _, _, _) => ("Stopped", None),
        (false, true, _, _) => ("OutOfMemory", Some(too_much(&seen.inspected))),
        (false, false, Some(signal), _) => ("Killed", Some(format!("signal {signal} ended it"))),
        (false, false, None, 0) => ("Completed", None),
        (false, false, None, _) => ("Error", None),
    };
    Exit {
        code: signal.is_none().then_some(code),
        signal,
        at: time(state.finished_at.as_deref()).unwrap_or(SystemTime::UNIX_EPOCH),
        reason: reason.to_owned(),
        message,
        log: seen.log.clone(),
    }
}

fn too_much(inspected: &ContainerInspectResponse) -> String {
    let limit = inspected.host_config.as_ref().and_then(|host| host.memory).unwrap_or_default();
    match limit {
        0 => "the machine ran out of memory".to_owned(),
        limit => format!("it needed more memory than its {} MiB", limit / (1024 * 1024)),
    }
}

/// The engine writes the first of January of the year 1 for never.
pub(crate) fn time(text: Option<&str>) -> Option<SystemTime> {
    let time: jiff::Timestamp = text?.parse().ok()?;
    (time > jiff::Timestamp::UNIX_EPOCH).then(|| SystemTime::from(time))
}
