//! What the engine tells of our containers, as instances. Called at every look of the driver; values
//! in, values out. Start with [`instances`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use bollard::models::{
    ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, HealthStatusEnum,
    PortBinding,
};
use tombolo_driver::{
    Error, Exit, Instance, InstanceId, LOOPBACK, Origin, Part, PublishedPort, Running, State,
};
use tombolo_model::Reason;
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
    /// The last lines of its log, if it has ended.
    pub(crate) log: Vec<String>,
}

impl Seen {
    /// Whether there is a process, which may have been asked to end.
    pub(crate) fn is_running(&self) -> bool {
        matches!(state(self), State::Running(_) | State::Stopping(_))
    }

    pub(crate) fn has_exited(&self) -> bool {
        matches!(state(self), State::Exited(_))
    }
}

/// What this driver is doing for an instance, or why it could not.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    pub(crate) origin: Origin,
    pub(crate) state: State,
}

/// By id. What the driver is doing right now comes before what the engine shows.
pub(crate) fn instances(seen: &[Arc<Seen>], doing: &BTreeMap<InstanceId, Doing>) -> Vec<Instance> {
    let mut found: BTreeMap<&InstanceId, Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        if let Some(id) = &one.tag.id {
            found.entry(id).or_default().push(one);
        }
    }
    let mut instances: BTreeMap<InstanceId, Instance> = BTreeMap::new();
    for (id, seen) in found {
        instances.extend(instance(id, &seen).map(|instance| (id.clone(), instance)));
    }
    for (id, doing) in doing {
        let known = instances.entry(id.clone());
        let instance = known.or_insert_with(|| empty(id, &doing.origin, doing.state.clone()));
        match (&doing.state, &instance.state) {
            // It runs after all: the answer to its start got lost.
            (State::Failed(_), State::Running(_) | State::Stopping(_)) => (),
            (state, _) => instance.state = state.clone(),
        }
    }
    instances.into_values().collect()
}

/// The newest container of each part, by the order in which they are started; a part without a name is
/// the whole instance.
pub(crate) fn newest<'a>(seen: impl IntoIterator<Item = &'a Seen>) -> Vec<&'a Seen> {
    let mut parts: BTreeMap<Option<&str>, &Seen> = BTreeMap::new();
    for one in seen {
        let known = parts.entry(one.tag.part.as_deref()).or_insert(one);
        if one.tag.run > known.tag.run {
            *known = one;
        }
    }
    let mut parts: Vec<&Seen> = parts.into_values().collect();
    parts.sort_by_key(|seen| {
        let part = seen.tag.part.as_ref();
        seen.tag.parts.iter().position(|other| Some(other) == part)
    });
    parts
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
fn instance(id: &InstanceId, seen: &[&Seen]) -> Option<Instance> {
    let parts = newest(seen.iter().copied());
    let first = *parts.first()?;
    let earlier = seen.iter().filter(|one| {
        parts.iter().any(|part| part.tag.part == one.tag.part && part.tag.run > one.tag.run)
    });
    let exits = earlier.filter_map(|seen| match state(seen) {
        State::Exited(exit) => Some(exit),
        State::Starting { .. } | State::Running(_) | State::Stopping(_) | State::Failed(_) => None,
    });
    let mut notes = first.tag.notes.clone();
    notes.extend(parts.iter().filter_map(|part| unhealthy(part)));
    let of_project = first.tag.part.is_some();
    let told = |part: &&Seen| {
        let name = part.tag.part.clone()?;
        Some(Part { name, state: state(part) })
    };
    Some(Instance {
        restarts: parts.iter().map(|part| part.tag.run).sum(),
        last_exit: exits.max_by_key(|exit| exit.at),
        notes,
        parts: parts.iter().filter_map(told).collect(),
        ..empty(id, &first.tag.origin, if of_project { project(id, &parts) } else { state(first) })
    })
}

/// The state of several parts together: the instance runs while all do that should.
fn project(id: &InstanceId, parts: &[&Seen]) -> State {
    let states: Vec<(&Seen, State)> = parts.iter().map(|part| (*part, state(part))).collect();
    let wanted = parts.iter().flat_map(|part| &part.tag.parts);
    let there = |name: &String| parts.iter().any(|part| part.tag.part.as_ref() == Some(name));
    if let Some(error) = states.iter().find_map(|(_, state)| match state {
        State::Failed(error) => Some(error.clone()),
        State::Starting { .. } | State::Running(_) | State::Stopping(_) | State::Exited(_) => None,
    }) {
        return State::Failed(error);
    }
    let mut lost = wanted.filter(|name| !there(name));
    if let Some(name) = lost.next() {
        return State::Failed(Error::Failed {
            doing: format!("find {name}, a part of it"),
            source: error::words("somebody has removed its container, or it was never made"),
        });
    }
    let running = states.iter().filter_map(|(_, state)| match state {
        State::Running(running) | State::Stopping(running) => Some(running),
        State::Starting { .. } | State::Exited(_) | State::Failed(_) => None,
    });
    let running: Vec<&Running> = running.collect();
    if states.iter().any(|(_, state)| matches!(state, State::Stopping(_))) {
        return State::Stopping(together(id, &running));
    }
    let mut ended: Vec<Exit> = Vec::new();
    for (part, state) in &states {
        let State::Exited(exit) = state else { continue };
        let done = part.tag.once && exit.code == Some(0) && !running.is_empty();
        if !done {
            let name = part.tag.part.as_deref().unwrap_or_default();
            let how = match (&exit.message, exit.code) {
                (Some(message), _) => message.clone(),
                (None, Some(code)) => format!("it ended with code {code}"),
                (None, None) => "it ended".to_owned(),
            };
            ended.push(Exit { message: Some(format!("{name}: {how}")), ..exit.clone() });
        }
    }
    // The worst that happened is what people want to read first.
    ended.sort_by_key(|exit| (exit.code == Some(0), exit.at));
    match ended.into_iter().next() {
        Some(exit) => State::Exited(exit),
        None => State::Running(together(id, &running)),
    }
}

fn together(id: &InstanceId, running: &[&Running]) -> Running {
    let mut ports: Vec<PublishedPort> =
        running.iter().flat_map(|running| running.ports.iter().cloned()).collect();
    // Ports that lead in from outside come first: that is where the instance is reached.
    ports.sort_by_key(|port| (port.published.is_none(), port.port, port.protocol));
    ports.dedup_by_key(|port| (port.port, port.protocol));
    Running {
        name: tag::network_of_instance(id),
        pid: None,
        since: running.iter().map(|one| one.since).max().unwrap_or(SystemTime::UNIX_EPOCH),
        addresses: running.iter().flat_map(|running| running.addresses.iter().cloned()).collect(),
        ports,
    }
}

/// What the engine's own check says of a part that is not well.
fn unhealthy(seen: &Seen) -> Option<String> {
    let health = seen.inspected.state.as_ref()?.health.as_ref()?;
    if health.status != Some(HealthStatusEnum::UNHEALTHY) || !seen.is_running() {
        return None;
    }
    let last = health.log.as_ref().and_then(|log| log.last()?.output.as_deref());
    let last: String = last.unwrap_or_default().trim().chars().take(200).collect();
    let part = seen.tag.part.as_deref().unwrap_or("it");
    Some(format!("{part} is not well by its own check: {last}"))
}

pub(crate) fn state(seen: &Seen) -> State {
    let Some(state) = &seen.inspected.state else { return interrupted() };
    let failed = state.error.as_deref().filter(|text| !text.is_empty());
    match state.status {
        Some(
            ContainerStateStatusEnum::RUNNING
            | ContainerStateStatusEnum::PAUSED
            | ContainerStateStatusEnum::RESTARTING
            | ContainerStateStatusEnum::STOPPING,
        ) => match tag::stopping_until(&seen.name) {
            Some(_) => State::Stopping(running(seen, state)),
            None => State::Running(running(seen, state)),
        },
        Some(ContainerStateStatusEnum::CREATED) => match failed {
            Some(text) => State::Failed(error::meaning("start it", text)),
            None => interrupted(),
        },
        Some(
            ContainerStateStatusEnum::EXITED
            | ContainerStateStatusEnum::DEAD
            | ContainerStateStatusEnum::REMOVING
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
        // One for each family of addresses, and not always with the same port: IPv4 is how others
        // come, and not by the node's loopback address.
        let family = |one: &&PortBinding| {
            let ip = one.host_ip.as_deref().unwrap_or_default();
            (ip.starts_with("127."), ip.contains(':'))
        };
        let mut bindings: Vec<&PortBinding> = bindings.iter().flatten().collect();
        bindings.sort_by_key(family);
        let binding = bindings.iter().find_map(|one| {
            let address = one.host_ip.as_ref().and_then(|ip| ip.parse().ok());
            let on = address.filter(|address: &IpAddr| !address.is_unspecified());
            Some((one.host_port.as_ref()?.parse().ok()?, on))
        });
        let (published, on) = binding.map_or((None, None), |(port, on)| (Some(port), on));
        ports.push(PublishedPort { port, protocol, published, on });
    }
    ports.sort_unstable();
    ports
}

/// Where this machine reaches a port of a container: where it is published, then at the container's own
/// address, which does not depend on what becomes of the machine's.
pub(crate) fn doors(running: &Running, port: u16) -> Vec<SocketAddr> {
    let published = running.ports.iter().find(|one| one.port == port);
    let published =
        published.and_then(|one| Some(SocketAddr::new(one.on.unwrap_or(LOOPBACK), one.published?)));
    let own = running.addresses.iter().filter_map(|address| address.parse().ok());
    published.into_iter().chain(own.map(|address| SocketAddr::new(address, port))).collect()
}

fn exit(seen: &Seen, state: &ContainerState) -> Exit {
    let code = state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
    // The engine tells a signal as a shell does. Programs that end with such a code themselves mean
    // the same by it.
    let signal = (129..=192).contains(&code).then(|| code - 128);
    let out_of_memory = state.oom_killed == Some(true);
    let stopped = tag::stopping_until(&seen.name).is_some();
    let (reason, message) = match (stopped, out_of_memory, signal, code) {
        (true, _, _, _) => (Reason::Stopped, None),
        (false, true, _, _) => (Reason::OutOfMemory, Some(too_much(&seen.inspected))),
        (false, false, Some(signal), _) => {
            (Reason::Killed, Some(format!("it was ended by signal {signal}")))
        }
        (false, false, None, 0) => (Reason::Completed, None),
        (false, false, None, _) => (Reason::Error, None),
    };
    Exit {
        code: signal.is_none().then_some(code),
        signal,
        at: time(state.finished_at.as_deref()).unwrap_or(SystemTime::UNIX_EPOCH),
        reason,
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

#[cfg(test)]
mod tests;
