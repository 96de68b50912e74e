//! An App as a compose file: a service for each component that has a container. A component that
//! has only a compose project is written as it is.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tombolo_model::component::{Component, Expose, Health, Protocol};
use tombolo_model::needs::Needs;
use tombolo_model::quantity::Bytes;
use tombolo_model::run::{Container, File, KeyRef};
use tombolo_model::{App, AppSpec};

use super::emit::{self, Style};
use super::{Written, kubernetes, pod, put, unsaid};
use crate::compose::escaped;
use crate::mentions::Host;

const NAME: &str = "compose";

pub(super) fn write(app: &App) -> Written {
    let mut rest = app.clone();
    rest.status = None;
    let (document, left) = project(&app.spec, &mut rest.spec.components);
    rest.spec.components = left;
    let mut document = document;
    if let Some(name) = &app.metadata.name {
        document.insert("name".into(), name.clone().into());
    }
    let text = emit::document(&document.into(), Style::Block);
    Written { text, notes: unsaid::notes(&rest, NAME) }
}

/// The project, and what it does not say of the components.
pub(super) fn project(
    spec: &AppSpec,
    components: &mut Vec<Component>,
) -> (Map<String, Value>, Vec<Component>) {
    let hosts = hosts(spec);
    let mut project = Project::default();
    let mut left = std::mem::take(components);
    for (component, rest) in spec.components.iter().zip(&mut left) {
        project.component(component, rest, &hosts);
    }
    let mut document = Map::new();
    document.insert("services".into(), escaped(project.services.into()));
    for (key, map) in
        [("volumes", project.volumes), ("secrets", project.secrets), ("configs", project.configs)]
    {
        if !map.is_empty() {
            document.insert(key.into(), escaped(map.into()));
        }
    }
    (document, left)
}

/// In a compose network a service is called at its own ports.
fn hosts(spec: &AppSpec) -> BTreeMap<String, Host> {
    let host = |component: &Component| Host {
        component: component.name.clone(),
        ports: component.expose.iter().map(|one| (one.port, one.port)).collect(),
    };
    // A project keeps the names of its services, and only these can be referred to.
    let has_service = |project: &Value, name: &str| project["services"].get(name).is_some();
    let is_written = |component: &&Component| {
        component.run.iter().any(|run| {
            let project = run.compose.as_ref();
            run.container.is_some()
                || project.is_some_and(|project| has_service(project, &component.name))
        })
    };
    let written = spec.components.iter().filter(is_written);
    written.map(|component| (component.name.clone(), host(component))).collect()
}

#[derive(Default)]
struct Project {
    services: Map<String, Value>,
    volumes: Map<String, Value>,
    secrets: Map<String, Value>,
    configs: Map<String, Value>,
}

impl Project {
    fn component(
        &mut self,
        component: &Component,
        rest: &mut Component,
        hosts: &BTreeMap<String, Host>,
    ) {
        let Some(mut container) = pod::take_container(rest) else {
            self.as_it_is(rest);
            return;
        };
        let name = std::mem::take(&mut rest.name);
        let mut service = Map::new();
        service.insert("image".into(), std::mem::take(&mut container.image).into());
        program(&mut container, &mut service);
        ports(rest, &mut container, &mut service);
        self.mounts(&mut container, &mut service);
        deploy(&name, rest, &mut service);
        if let Some(health) = &mut rest.health {
            put(&mut service, "healthcheck", health_check(health));
        }
        put(&mut service, "stop_grace_period", rest.stop_grace.take().map(|time| time.to_string()));
        service.insert("restart".into(), "unless-stopped".into());
        kubernetes::take_mentioned(component, rest, hosts);
        let mut waits: Vec<String> = Vec::new();
        for (connection, left) in component.connects.iter().zip(&mut rest.connects) {
            if connection.app.is_some() || !hosts.contains_key(&connection.to) {
                continue;
            }
            left.to.clear();
            if !waits.contains(&connection.to) {
                waits.push(connection.to.clone());
            }
        }
        put(&mut service, "depends_on", (!waits.is_empty()).then_some(waits));
        self.services.insert(name, service.into());
        if container != Container::default()
            && let Some(run) = rest.run.iter_mut().find(|run| run.way().is_none())
        {
            run.container = Some(container);
        }
    }

    /// The services of a component that is a compose project already.
    fn as_it_is(&mut self, rest: &mut Component) {
        let project = rest.run.iter_mut().find_map(|run| run.compose.take());
        let Some(Value::Object(project)) = project else { return };
        rest.name.clear();
        for (key, value) in project {
            let into = match key.as_str() {
                "services" => &mut self.services,
                "volumes" => &mut self.volumes,
                "secrets" => &mut self.secrets,
                "configs" => &mut self.configs,
                _ => continue,
            };
            if let Value::Object(entries) = value {
                // They are escaped already, and all are escaped at the end.
                into.extend(entries.into_iter().map(|(key, value)| (key, unescaped(value))));
            }
        }
    }

    fn mounts(&mut self, container: &mut Container, service: &mut Map<String, Value>) {
        let mut mounts = Vec::new();
        for volume in &mut container.volumes {
            let mut mount = Map::new();
            let kind = if volume.host_path.is_some() { "bind" } else { "volume" };
            mount.insert("type".into(), kind.into());
            if let Some(name) = volume.name.take() {
                self.volumes.insert(name.clone(), json!({}));
                mount.insert("source".into(), name.into());
            }
            put(&mut mount, "source", volume.host_path.take());
            mount.insert("target".into(), std::mem::take(&mut volume.path).into());
            if std::mem::take(&mut volume.read_only) {
                mount.insert("read_only".into(), true.into());
            }
            mounts.push(Value::Object(mount));
        }
        put(service, "volumes", (!mounts.is_empty()).then_some(mounts));
        let (mut secrets, mut configs) = (Vec::new(), Vec::new());
        for file in &mut container.files {
            let path = file.path.clone();
            if let Some(content) = file.content.take() {
                let key = format!("config-{}", self.configs.len());
                self.configs.insert(key.clone(), json!({"content": content}));
                configs.push(json!({"source": key, "target": path}));
            } else if let Some(entry) = &file.secret {
                if !outside(&mut self.secrets, entry) {
                    continue;
                }
                secrets.push(json!({"source": entry.key, "target": path}));
            } else if let Some(entry) = &file.config {
                if !outside(&mut self.configs, entry) {
                    continue;
                }
                configs.push(json!({"source": entry.key, "target": path}));
            }
            *file = File::default();
        }
        put(service, "secrets", (!secrets.is_empty()).then_some(secrets));
        put(service, "configs", (!configs.is_empty()).then_some(configs));
    }
}

/// An entry of a Secret or ConfigMap that is there already, under its key. Another entry under
/// the same key cannot be said.
fn outside(map: &mut Map<String, Value>, entry: &KeyRef) -> bool {
    let said = json!({"external": true, "name": entry.name});
    *map.entry(entry.key.clone()).or_insert_with(|| said.clone()) == said
}

fn unescaped(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("$$", "$")),
        Value::Array(items) => Value::Array(items.into_iter().map(unescaped).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, unescaped(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn program(container: &mut Container, service: &mut Map<String, Value>) {
    let non_empty = |words: Vec<String>| (!words.is_empty()).then_some(words);
    put(service, "entrypoint", non_empty(std::mem::take(&mut container.command)));
    put(service, "command", non_empty(std::mem::take(&mut container.args)));
    let env = std::mem::take(&mut container.env);
    put(service, "environment", (!env.is_empty()).then(|| json!(env)));
    put(service, "working_dir", container.workdir.take());
    put(service, "user", container.user.take());
    put(service, "group_add", non_empty(std::mem::take(&mut container.groups)));
    put(service, "cap_add", non_empty(std::mem::take(&mut container.capabilities)));
    put(service, "privileged", std::mem::take(&mut container.privileged).then_some(true));
}

fn ports(rest: &mut Component, container: &mut Container, service: &mut Map<String, Value>) {
    let (mut public, mut inside) = (Vec::new(), Vec::new());
    for expose in &mut rest.expose {
        let known = container.ports.iter().position(|port| *port == expose.port);
        if let Some(index) = known {
            container.ports.remove(index);
        }
        if expose.public {
            let mut port = Map::new();
            put(&mut port, "name", expose.name.take());
            port.insert("target".into(), expose.port.into());
            put(&mut port, "published", expose.published.take().map(|port| port.to_string()));
            match expose.protocol {
                Protocol::Tcp => (),
                Protocol::Udp => put(&mut port, "protocol", Some("udp")),
                Protocol::Http | Protocol::Https => {
                    put(&mut port, "app_protocol", Some(expose.protocol.as_str()));
                }
            }
            public.push(Value::Object(port));
            *expose = Expose::default();
        } else {
            let port = match expose.protocol {
                Protocol::Udp => format!("{}/udp", expose.port),
                Protocol::Tcp | Protocol::Http | Protocol::Https => expose.port.to_string(),
            };
            inside.push(port);
            let said = matches!(expose.protocol, Protocol::Tcp | Protocol::Udp);
            expose.port = 0;
            if said {
                expose.protocol = Protocol::Tcp;
            }
        }
    }
    put(service, "ports", (!public.is_empty()).then_some(public));
    put(service, "expose", (!inside.is_empty()).then_some(inside));
}

fn deploy(name: &str, rest: &mut Component, service: &mut Map<String, Value>) {
    let mut deploy = Map::new();
    put(&mut deploy, "replicas", rest.replicas.take());
    let parallelism = rest.unavailable_max.take_if(|most| *most > 0);
    put(&mut deploy, "update_config", parallelism.map(|most| json!({"parallelism": most})));
    let mut placement = Map::new();
    if let Some(needs) = &mut rest.needs {
        let reservations = reservations(needs);
        put(&mut deploy, "resources", reservations.map(|amounts| json!({"reservations": amounts})));
        if let [arch] = needs.arch.as_slice() {
            service.insert("platform".into(), format!("linux/{arch}").into());
            needs.arch.clear();
        }
        let mut constraints: Vec<String> = std::mem::take(&mut needs.labels)
            .into_iter()
            .map(|(key, value)| format!("node.labels.{key} == {value}"))
            .collect();
        if let [node] = needs.nodes.as_slice() {
            constraints.push(format!("node.hostname == {node}"));
            needs.nodes.clear();
        }
        put(&mut placement, "constraints", (!constraints.is_empty()).then_some(constraints));
        if *needs == Needs::default() {
            rest.needs = None;
        }
    }
    if let Some(wish) = &mut rest.affinity
        && wish.apart == [name]
    {
        placement.insert("max_replicas_per_node".into(), 1.into());
        wish.apart.clear();
    }
    put(&mut deploy, "placement", (!placement.is_empty()).then_some(placement));
    put(service, "deploy", (!deploy.is_empty()).then_some(deploy));
}

fn reservations(needs: &mut Needs) -> Option<Value> {
    let mut amounts = Map::new();
    let cores = |millis: u64| match millis % 1000 {
        0 => (millis / 1000).to_string(),
        part => format!("{}.{part:03}", millis / 1000).trim_end_matches('0').to_owned(),
    };
    put(&mut amounts, "cpus", needs.cpu.take().map(|cpu| cores(cpu.millis())));
    put(&mut amounts, "memory", needs.memory.take().map(size));
    let devices = needs.gpu.take().map(|count| json!([{"capabilities": ["gpu"], "count": count}]));
    put(&mut amounts, "devices", devices);
    (!amounts.is_empty()).then_some(amounts.into())
}

/// Compose files count by 1024.
fn size(bytes: Bytes) -> String {
    let bytes = bytes.get();
    match bytes {
        0 => "0".to_owned(),
        bytes if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

fn health_check(health: &mut Health) -> Option<Value> {
    let exec = health.exec.take()?;
    let test: Vec<String> = std::iter::once("CMD".to_owned()).chain(exec.command).collect();
    let mut check = Map::new();
    check.insert("test".into(), json!(test));
    put(&mut check, "interval", health.interval.take().map(|time| time.to_string()));
    put(&mut check, "timeout", health.timeout.take().map(|time| time.to_string()));
    put(&mut check, "retries", health.failures.take());
    put(&mut check, "start_period", health.startup.take().map(|time| time.to_string()));
    Some(check.into())
}
