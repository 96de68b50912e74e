//! What to run: an Assignment with everything looked up, so that a driver needs nothing but the
//! engine. The agent makes one with [`Spec::resolve`] and may add to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tombolo_model::assignment::PortReach;
use tombolo_model::component::{Expose, Protocol, Reach};
use tombolo_model::needs::Resources;
use tombolo_model::ports::{self, NodePort};
use tombolo_model::privilege::{self, Privilege};
use tombolo_model::run::{File, KeyRef, Volume, Way};
use tombolo_model::{Assignment, AssignmentSpec};

use crate::{Error, InstanceId, Result, Secret};

/// For what only the machine itself is to reach.
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How long an instance may take to stop when nobody says.
pub const STOP_GRACE_DEFAULT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub id: InstanceId,
    pub origin: Origin,
    /// The node that it is for; an engine of one machine needs no look at it. Nothing if the engine
    /// is to choose.
    pub node: Option<String>,
    pub workload: Workload,
    /// All of the environment, from Secrets or not. Never goes into an argument or a log.
    pub env: BTreeMap<String, Secret>,
    pub files: Vec<FilePlaced>,
    /// By port and protocol, each once.
    pub ports: Vec<Port>,
    /// The ports of the node that this instance must have and no other can have at the same time. Two two
    /// instances that share such a port cannot stand side by side: the old instance must end first.
    pub fixed_ports: BTreeSet<NodePort>,
    /// The address of the machine under which other nodes reach it. Where it is none of the machine's
    /// own, a port that they are to reach is open on all addresses.
    pub address: Option<IpAddr>,
    pub resources: Resources,
    pub stop_grace: Duration,
    /// What it asks for beyond its own walls, and what its site allows of that.
    pub asks: BTreeSet<Privilege>,
    pub allow: BTreeSet<Privilege>,
    /// Folders of the agent's own that it may read, whatever its site allows.
    pub shown: Vec<PathBuf>,
    /// When it ends by itself, unless [`crate::Driver::end_at`] puts that off.
    pub deadline: Option<Deadline>,
}

/// When an instance is to end because the controller was not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Since the boot, asleep or awake: no clock that somebody sets can put it off, and it means the
    /// same to the next agent.
    pub at: Duration,
    /// What the rule says, counted from the last word of the controller.
    pub after: Duration,
    /// How long it may take to end.
    pub grace: Duration,
}

/// Who wanted an instance. The engine keeps it, so that an instance which nobody remembers can
/// still be shown with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    pub namespace: String,
    /// Name of the Assignment.
    pub assignment: String,
    pub app: String,
    pub component: String,
    pub replica: u32,
}

/// How it is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    Container(Container),
    Process(Process),
    /// A compose project, as it was written.
    Compose(Value),
    /// Kubernetes objects, as they were written.
    Manifests(Vec<Value>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    pub image: String,
    /// Replaces the image's entry point unless empty.
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub workdir: Option<String>,
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub capabilities: Vec<String>,
    pub privileged: bool,
    pub volumes: Vec<Volume>,
}

/// A program of the host. `$(PORT_8080)` in an argument or a variable stands for the port that it is
/// to listen on in place of 8080, and `$(PORT)` for its first: a program that names one gets any
/// free port, one that does not listens on 8080 itself. `$(ADDRESS_8080)` and `$(ADDRESS)` stand for
/// the address to listen on: nobody can keep a program of the host to it. `$(TOMBOLO_DIR)` is the folder with its
/// files. No other variable is put into arguments, which everybody on the machine can read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    pub workdir: Option<String>,
    /// A user of the machine; when left out, a user that is the App's own.
    pub user: Option<String>,
    /// It is not confined.
    pub privileged: bool,
}

/// A file to be in place before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlaced {
    pub path: String,
    pub content: Secret,
}

/// A port that the program listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub port: u16,
    pub protocol: Protocol,
    /// The port of the node that must lead there; any free one when left out.
    pub published: Option<u16>,
    /// Others may reach it, so the node must have a port that leads there.
    pub exposed: bool,
    /// From where that port of the node is reached.
    pub reach: Reach,
}

/// An entry that a workload names and [`Spec::resolve`] looks up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entry<'a> {
    Secret(&'a KeyRef),
    Config(&'a KeyRef),
}

impl Spec {
    /// Everything that the Assignment says, with entries of Secrets and ConfigMaps in place of
    /// their names. Tells all the entries that `look_up` does not find.
    pub fn resolve(
        assignment: &Assignment,
        revision: u64,
        look_up: &dyn Fn(Entry<'_>) -> Result<Secret, Absent>,
    ) -> Result<Spec> {
        let metadata = &assignment.metadata;
        let spec = &assignment.spec;
        let way = spec.run.way().ok_or_else(|| Error::Invalid {
            what: "exactly one way to run must be given: container, process, compose or manifests"
                .to_owned(),
        })?;
        let mut missing = BTreeSet::new();
        let named = Named::of(way);
        let env = named.env(look_up, &mut missing);
        let files = named.files(look_up, &mut missing);
        if !missing.is_empty() {
            let missing: Vec<String> = missing.into_iter().collect();
            return Err(Error::NoSuchEntry { what: missing.join(", no ") });
        }
        Ok(Spec {
            id: InstanceId::new(metadata.uid.as_deref().unwrap_or_default(), revision)?,
            origin: Origin {
                namespace: metadata.namespace.clone().unwrap_or_default(),
                assignment: metadata.name.clone().unwrap_or_default(),
                app: spec.app.clone(),
                component: spec.component.clone(),
                replica: spec.replica,
            },
            node: spec.node.clone(),
            workload: workload(way),
            files,
            ports: ports(named.ports, spec),
            fixed_ports: ports::fixed(way, &spec.expose, &|port, is_first| {
                asks_in(&env, port, is_first)
            }),
            address: None,
            env,
            resources: spec.resources.clone().unwrap_or_default(),
            stop_grace: spec.stop_grace.map_or(STOP_GRACE_DEFAULT, |grace| grace.to_std()),
            asks: privilege::asked(&spec.run),
            allow: privilege::allowed(spec.allow.as_deref()),
            shown: Vec::new(),
            deadline: None,
        })
    }

    /// Whether its site allows all that it asks for. Every driver asks before it starts anything.
    pub fn check_allowed(&self) -> Result<()> {
        match self.asks.difference(&self.allow).next() {
            Some(privilege) => Err(Error::NotAllowed { privilege: *privilege }),
            None => Ok(()),
        }
    }

    /// Whether the program asks under which port it is to listen, so that it can be given any.
    pub fn takes_any(&self, process: &Process, port: u16) -> bool {
        let is_first = self.ports.first().is_some_and(|first| first.port == port);
        process.command.iter().any(|argument| ports::asks_for(argument, port, is_first))
            || asks_in(&self.env, port, is_first)
    }

    /// Where the node opens a port of this reach; on all of its addresses when nothing is said.
    pub fn opens_on(&self, reach: Reach) -> Option<IpAddr> {
        match reach {
            Reach::Loopback => Some(LOOPBACK),
            Reach::Node => self.address,
            Reach::Public => None,
        }
    }
}

fn asks_in(env: &BTreeMap<String, Secret>, port: u16, is_first: bool) -> bool {
    env.values()
        .any(|value| ports::asks_for(&String::from_utf8_lossy(value.expose()), port, is_first))
}

/// What containers and processes name alike.
#[derive(Default)]
struct Named<'a> {
    env: Option<&'a BTreeMap<String, String>>,
    secret_env: Option<&'a BTreeMap<String, KeyRef>>,
    files: &'a [File],
    ports: &'a [u16],
}

impl<'a> Named<'a> {
    fn of(way: Way<'a>) -> Named<'a> {
        match way {
            Way::Container(container) => Named {
                env: Some(&container.env),
                secret_env: Some(&container.secret_env),
                files: &container.files,
                ports: &container.ports,
            },
            Way::Process(process) => Named {
                env: Some(&process.env),
                secret_env: Some(&process.secret_env),
                files: &process.files,
                ports: &process.ports,
            },
            Way::Manifests(_) | Way::Compose(_) => Named::default(),
        }
    }

    fn env(
        &self,
        look_up: &dyn Fn(Entry<'_>) -> Result<Secret, Absent>,
        missing: &mut BTreeSet<String>,
    ) -> BTreeMap<String, Secret> {
        let plain = self.env.into_iter().flatten();
        let mut env: BTreeMap<String, Secret> =
            plain.map(|(name, value)| (name.clone(), Secret::from(value.as_str()))).collect();
        for (name, key) in self.secret_env.into_iter().flatten() {
            match look_up(Entry::Secret(key)) {
                Ok(value) => _ = env.insert(name.clone(), value),
                Err(absent) => _ = missing.insert(described(Entry::Secret(key), absent)),
            }
        }
        env
    }

    fn files(
        &self,
        look_up: &dyn Fn(Entry<'_>) -> Result<Secret, Absent>,
        missing: &mut BTreeSet<String>,
    ) -> Vec<FilePlaced> {
        let mut files = Vec::with_capacity(self.files.len());
        for file in self.files {
            let entry = match (&file.secret, &file.config) {
                (Some(key), _) => Some(Entry::Secret(key)),
                (None, Some(key)) => Some(Entry::Config(key)),
                (None, None) => None,
            };
            let content = match entry {
                Some(entry) => look_up(entry),
                None => Ok(Secret::from(file.content.as_deref().unwrap_or_default())),
            };
            match (content, entry) {
                (Ok(content), _) => files.push(FilePlaced { path: file.path.clone(), content }),
                (Err(absent), Some(entry)) => _ = missing.insert(described(entry, absent)),
                (Err(_), None) => (),
            }
        }
        files
    }
}

/// What is not there when an entry is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The Secret or the ConfigMap itself.
    Object,
    /// The entry in it.
    Entry,
}

fn described(entry: Entry<'_>, absent: Absent) -> String {
    let (kind, key) = match entry {
        Entry::Secret(key) => ("Secret", key),
        Entry::Config(key) => ("ConfigMap", key),
    };
    match absent {
        Absent::Object => format!("{kind} {:?} with an entry {:?}", key.name, key.key),
        Absent::Entry => format!("entry {:?} in the {kind} {:?}", key.key, key.name),
    }
}

fn workload(way: Way<'_>) -> Workload {
    match way {
        Way::Container(container) => Workload::Container(Container {
            image: container.image.clone(),
            command: container.command.clone(),
            args: container.args.clone(),
            workdir: container.workdir.clone(),
            user: container.user.clone(),
            groups: container.groups.clone(),
            capabilities: container.capabilities.clone(),
            privileged: container.privileged,
            volumes: container.volumes.clone(),
        }),
        Way::Process(process) => Workload::Process(Process {
            command: process.command.clone(),
            workdir: process.workdir.clone(),
            user: process.user.clone(),
            privileged: process.privileged,
        }),
        Way::Compose(project) => Workload::Compose(project.clone()),
        Way::Manifests(manifests) => Workload::Manifests(manifests.to_vec()),
    }
}

/// With how far each is open; as far as can be where the Assignment was written by a controller that
/// says nothing of it.
fn ports(listened: &[u16], spec: &AssignmentSpec) -> Vec<Port> {
    let reach = |expose: &Expose| match &spec.reach {
        None => Reach::Public,
        Some(open) => {
            let same =
                |one: &&PortReach| (one.port, one.protocol) == (expose.port, expose.protocol);
            open.iter().find(same).map_or(Reach::Loopback, |one| one.from)
        }
    };
    let port = |one: &ports::Listening<'_>| Port {
        port: one.port,
        protocol: one.protocol,
        published: one.expose.and_then(|expose| expose.published),
        exposed: one.expose.is_some(),
        reach: one.expose.map_or(Reach::Loopback, reach),
    };
    ports::listening(listened, &spec.expose).iter().map(port).collect()
}

#[cfg(test)]
mod tests;
