//! What to ask of the engine for a Spec: the requests themselves, made without asking anyone. Start
//! with [`project`].

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use bollard::models::{
    ContainerCreateBody, DeviceRequest, EndpointSettings, HostConfig, HostConfigLogConfig, Mount,
    MountType, MountVolumeOptions, NetworkingConfig, PortBinding, RestartPolicy,
    RestartPolicyNameEnum,
};
use tombolo_driver::{
    Container, Error, FilePlaced, LOOPBACK, Port, Result, Secret, Spec, Workload,
};
use tombolo_model::Engine;
use tombolo_model::component::Protocol;
use tombolo_model::needs::Resources;
use tombolo_model::run::Volume;

use crate::tag::{Tag, network_of_app, volume_name};
use crate::{LogLimits, Options, beyond, compose};

/// The engine takes no limit below this.
const MEMORY_BYTES_MIN: u64 = 6 * 1024 * 1024;
/// A core for the whole of this is one core.
const CPU_PERIOD_MICROS: i64 = 100_000;
/// The kernel takes no less.
const CPU_QUOTA_MICROS_MIN: i64 = 1_000;
/// How the engine calls it.
const NO_NETWORK: &str = "none";

/// All that an instance consists of.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Project {
    /// In the order in which they are to be started.
    pub(crate) parts: Vec<Draft>,
    /// What cannot be had and does not keep it from running, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// One container to be.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Draft {
    /// Its name in a compose project.
    pub(crate) name: Option<String>,
    pub(crate) body: ContainerCreateBody,
    pub(crate) files: Vec<FilePlaced>,
    /// The networks that it is on, and what it is called there.
    pub(crate) networks: Vec<Attachment>,
    /// Parts that must be so far before it starts.
    pub(crate) after: Vec<After>,
    /// It may end well without being started again.
    pub(crate) once: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) network: String,
    pub(crate) aliases: Vec<String>,
    /// The network leads nowhere else.
    pub(crate) internal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) part: String,
    pub(crate) until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Started,
    Healthy,
    /// It has ended, and well.
    Completed,
}

pub(crate) fn project(spec: &Spec, options: &Options) -> Result<Project> {
    let mut project = match &spec.workload {
        Workload::Container(container) => alone(spec, container, &options.agent)?,
        Workload::Compose(written) => compose::project(spec, written, &options.agent)?,
        Workload::Process(_) | Workload::Manifests(_) => {
            let what = "run anything but containers";
            return Err(Error::Unsupported { engine: Engine::Docker, what: what.to_owned() });
        }
    };
    let grace = i64::try_from(spec.stop_grace.as_secs()).unwrap_or(i64::MAX);
    for draft in &mut project.parts {
        draft.body.stop_timeout.get_or_insert(grace);
        let host = draft.body.host_config.get_or_insert_default();
        host.log_config = Some(log_config(&options.log));
        // The agent decides when to start it again, and with which pause.
        host.restart_policy = Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        });
        beyond::check(spec, host)?;
        beyond::confine(host);
    }
    Ok(project)
}

impl Project {
    pub(crate) fn tag(&self, spec: &Spec, draft: &Draft, agent: &str, run: u32) -> Tag {
        Tag {
            agent: agent.to_owned(),
            id: Some(spec.id.clone()),
            origin: spec.origin.clone(),
            part: draft.name.clone(),
            parts: self.parts.iter().filter_map(|draft| draft.name.clone()).collect(),
            run,
            once: draft.once,
            notes: self.notes.clone(),
        }
    }

    /// Every network that some part is on, and whether it leads nowhere else.
    pub(crate) fn networks(&self) -> BTreeMap<String, bool> {
        let attached = self.parts.iter().flat_map(|draft| &draft.networks);
        attached.map(|attached| (attached.network.clone(), attached.internal)).collect()
    }

    /// Goes on without a network that cannot be had.
    pub(crate) fn do_without(&mut self, network: &str, note: &str) {
        self.notes.push(note.to_owned());
        for draft in &mut self.parts {
            let before = draft.networks.len();
            draft.networks.retain(|attachment| attachment.network != network);
            let lost_all = before > 0 && draft.networks.is_empty();
            if lost_all && draft.is_kept_inside() {
                let name = draft.name.as_deref().unwrap_or_default();
                let why = "all that it names are internal";
                self.notes.push(format!("Service {name} is on no network: {why}."));
            }
        }
    }
}

impl Draft {
    pub(crate) fn image(&self) -> &str {
        self.body.image.as_deref().unwrap_or_default()
    }

    /// Without any of its networks it is on none at all: the engine's default one leads outside.
    pub(crate) fn keep_inside(&mut self) {
        let host = self.body.host_config.get_or_insert_default();
        host.network_mode = Some(NO_NETWORK.to_owned());
    }

    fn is_kept_inside(&self) -> bool {
        let mode = self.body.host_config.as_ref().and_then(|host| host.network_mode.as_deref());
        mode == Some(NO_NETWORK)
    }

    /// The request with its labels, on the first of its networks: the engine takes one.
    pub(crate) fn request(&self, tag: &Tag) -> ContainerCreateBody {
        let mut body = self.body.clone();
        body.labels.get_or_insert_default().extend(tag.labels());
        if let Some(first) = self.networks.first() {
            body.host_config.get_or_insert_default().network_mode = Some(first.network.clone());
            let endpoints = HashMap::from([(first.network.clone(), first.endpoint())]);
            body.networking_config = Some(NetworkingConfig { endpoints_config: Some(endpoints) });
        }
        body
    }
}

impl Attachment {
    pub(crate) fn endpoint(&self) -> EndpointSettings {
        EndpointSettings { aliases: Some(self.aliases.clone()), ..EndpointSettings::default() }
    }
}

/// An instance of one container, which the others of its App on this node find by its component's
/// name.
fn alone(spec: &Spec, container: &Container, agent: &str) -> Result<Project> {
    let mut notes = Vec::new();
    let mut draft = native(spec, container, agent, &mut notes)?;
    draft.networks.push(Attachment {
        network: network_of_app(agent, &spec.origin),
        aliases: vec![spec.origin.component.clone()],
        internal: false,
    });
    Ok(Project { parts: vec![draft], notes })
}

pub(crate) fn native(
    spec: &Spec,
    container: &Container,
    agent: &str,
    notes: &mut Vec<String>,
) -> Result<Draft> {
    let mut host = HostConfig { privileged: Some(container.privileged), ..HostConfig::default() };
    let volumes = container.volumes.iter().map(|volume| mount(spec, volume, agent));
    host.mounts = Some(volumes.collect());
    host.group_add = not_empty(&container.groups);
    host.cap_add = not_empty(&container.capabilities);
    limit(&mut host, &spec.resources, notes);
    let mut draft = Draft { files: spec.files.clone(), ..Draft::default() };
    draft.body = ContainerCreateBody {
        image: Some(container.image.clone()),
        entrypoint: not_empty(&container.command),
        cmd: not_empty(&container.args),
        env: Some(env(spec.env.iter().map(|(name, value)| (name.as_str(), value)))?),
        working_dir: container.workdir.clone(),
        user: container.user.clone(),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    for port in &spec.ports {
        publish(&mut draft.body, port, spec);
    }
    Ok(draft)
}

fn not_empty(words: &[String]) -> Option<Vec<String>> {
    (!words.is_empty()).then(|| words.to_vec())
}

/// Goes into the body of a request over the engine's socket, and into no argument of any program.
fn env<'a>(pairs: impl Iterator<Item = (&'a str, &'a Secret)>) -> Result<Vec<String>> {
    pairs
        .map(|(name, value)| match std::str::from_utf8(value.expose()) {
            Ok(value) if !value.contains('\0') => Ok(format!("{name}={value}")),
            Ok(_) | Err(_) => {
                Err(Error::Invalid { what: format!("the value of variable {name} is no text") })
            }
        })
        .collect()
}

/// A port that others may reach gets one of the node, a given one or any, on as many of the node's
/// addresses as it is to be reached at; any other is reached at the container's own address.
fn publish(body: &mut ContainerCreateBody, port: &Port, spec: &Spec) {
    let name = port_name(port.port, port.protocol);
    let exposed = body.exposed_ports.get_or_insert_default();
    if !exposed.contains(&name) {
        exposed.push(name.clone());
    }
    if !port.exposed && port.published.is_none() {
        return;
    }
    let host_port = port.published.map(|published| published.to_string()).unwrap_or_default();
    let on = spec.opens_on(port.reach);
    // Who asks for a port of the node expects it on the node itself, too. Of a port that is left to the
    // engine, each address would get another one.
    let also = on.filter(|on| port.published.is_some() && !on.is_loopback()).map(|_| LOOPBACK);
    let binding = |on: Option<IpAddr>| PortBinding {
        host_ip: on.map(|address| address.to_string()),
        host_port: Some(host_port.clone()),
    };
    let all = std::iter::once(binding(on)).chain(also.map(|also| binding(Some(also)))).collect();
    let bindings = body.host_config.get_or_insert_default().port_bindings.get_or_insert_default();
    bindings.insert(name, Some(all));
}

fn port_name(port: u16, protocol: Protocol) -> String {
    let transport = match protocol {
        Protocol::Tcp | Protocol::Http | Protocol::Https => "tcp",
        Protocol::Udp => "udp",
    };
    format!("{port}/{transport}")
}

fn limit(host: &mut HostConfig, resources: &Resources, notes: &mut Vec<String>) {
    if let Some(memory) = resources.memory {
        limit_memory(host, memory.get(), notes);
    }
    if let Some(cpu) = resources.cpu {
        limit_cpu(host, cpu.millis());
    }
    if let Some(count) = resources.gpu.filter(|count| *count > 0) {
        let capabilities = Some(vec![vec!["gpu".to_owned()]]);
        let count = Some(i64::from(count));
        let request = DeviceRequest { count, capabilities, ..DeviceRequest::default() };
        host.device_requests.get_or_insert_default().push(request);
    }
    for device in resources.devices.keys() {
        notes.push(format!("No device {device} is handed in: docker does not know such kinds."));
    }
}

fn limit_memory(host: &mut HostConfig, bytes: u64, notes: &mut Vec<String>) {
    if bytes < MEMORY_BYTES_MIN {
        notes.push("It may use 6 MiB of memory: docker sets no lower limit.".to_owned());
    }
    let bytes = i64::try_from(bytes.max(MEMORY_BYTES_MIN)).unwrap_or(i64::MAX);
    host.memory = Some(bytes);
    // As much of both together: no swap beside it, which would only put off the end.
    host.memory_swap = Some(bytes);
}

/// By quota, not by number of cores: the engine refuses more cores than there are, and a limit above
/// what there is does no harm.
fn limit_cpu(host: &mut HostConfig, millis: u64) {
    let quota = i64::try_from(millis.saturating_mul(100)).unwrap_or(i64::MAX);
    host.cpu_period = Some(CPU_PERIOD_MICROS);
    host.cpu_quota = Some(quota.max(CPU_QUOTA_MICROS_MIN));
}

fn mount(spec: &Spec, volume: &Volume, agent: &str) -> Mount {
    let (typ, source) = match (&volume.host_path, &volume.name) {
        (Some(path), _) => (MountType::BIND, Some(path.clone())),
        (None, Some(name)) => (MountType::VOLUME, Some(volume_name(agent, &spec.origin, name))),
        // A volume of its own, which goes when the container does.
        (None, None) => (MountType::VOLUME, None),
    };
    let named = typ == MountType::VOLUME && source.is_some();
    Mount {
        target: Some(volume.path.clone()),
        source,
        typ: Some(typ),
        read_only: Some(volume.read_only),
        volume_options: named.then(|| volume_options(spec, agent)),
        ..Mount::default()
    }
}

fn volume_options(spec: &Spec, agent: &str) -> MountVolumeOptions {
    let tag = Tag { agent: agent.to_owned(), origin: spec.origin.clone(), ..Tag::default() };
    MountVolumeOptions { labels: Some(tag.labels()), ..MountVolumeOptions::default() }
}

fn log_config(limits: &LogLimits) -> HostConfigLogConfig {
    let config = HashMap::from([
        ("max-size".to_owned(), limits.file_bytes_max.to_string()),
        ("max-file".to_owned(), limits.files_max.to_string()),
    ]);
    HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(config) }
}
