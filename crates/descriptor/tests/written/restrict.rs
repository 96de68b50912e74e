//! What each format can say: the App without everything else. This is the exact statement behind
//! `docs/formats/convert.md`; an App restricted to a format comes back unchanged from it, and the
//! writer has no note on it.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_descriptor::write::Target;
use tombolo_model::app::{AppPolicy, AppSpec, Profile};
use tombolo_model::component::{Affinity, Component, Connection, Expose, Health, Protocol};
use tombolo_model::needs::Needs;
use tombolo_model::policy::{Action, Remediation};
use tombolo_model::run::{Container, Run};
use tombolo_model::{App, Duration, Level};

pub(crate) fn restrict(app: &App, target: Target) -> App {
    match target {
        Target::Native => app.clone(),
        Target::Icos => icos(app),
        Target::Codeco => codeco(app),
        Target::Compose => compose(app),
        Target::Kubernetes => kubernetes(app),
    }
}

fn named(app: &App, spec: AppSpec) -> App {
    App::new(app.metadata.name.as_deref().unwrap(), spec)
}

fn bare(component: &Component) -> Component {
    Component { name: component.name.clone(), ..Component::default() }
}

/// The first container, or one in its place: no other format runs processes.
fn container(component: &Component) -> Container {
    let found = component.run.iter().find_map(|run| run.container.clone());
    found.unwrap_or_else(|| Container { image: "a:1".to_owned(), ..Container::default() })
}

fn as_container(container: Container) -> Vec<Run> {
    vec![Run { container: Some(container), ..Run::default() }]
}

fn needed(needs: Needs) -> Option<Needs> {
    (needs != Needs::default()).then_some(needs)
}

/// Whole seconds.
fn whole(time: Option<Duration>) -> Option<Duration> {
    time.filter(|time| time.micros().is_multiple_of(1_000_000))
}

fn whole_seconds(health: &Health) -> Health {
    Health {
        interval: whole(health.interval),
        timeout: whole(health.timeout),
        startup: whole(health.startup),
        ..health.clone()
    }
}

/// A container in a pod: no contents of files (they become ConfigMaps), users by number.
fn in_pod(mut container: Container) -> Container {
    container.files.retain(|file| file.content.is_none());
    let is_number = |part: &str| part.parse::<u32>().is_ok_and(|id| id.to_string() == part);
    let by_number = |user: &String| user.split(':').all(is_number);
    container.user = container.user.filter(by_number);
    for volume in &mut container.volumes {
        if volume.host_path.is_some() {
            volume.size = None;
        }
    }
    container
}

/// What a pod can ask of its node.
fn needs_of_pod(needs: &Needs) -> Needs {
    let mut devices = needs.devices.clone();
    devices.retain(|device| device.contains('/') && !device.ends_with("/gpu"));
    let mut tolerations = needs.tolerations.clone();
    tolerations.retain(|one| one.key.is_some() || one.value.is_none());
    Needs {
        cpu: needs.cpu,
        memory: needs.memory,
        storage: needs.storage,
        gpu: needs.gpu,
        arch: needs.arch.clone(),
        devices,
        labels: needs.labels.clone(),
        regions: needs.regions.clone(),
        sites: needs.sites.clone(),
        nodes: needs.nodes.clone(),
        tolerations,
        ..Needs::default()
    }
}

fn kubernetes(app: &App) -> App {
    let mut components = Vec::new();
    for component in &app.spec.components {
        let mut said = bare(component);
        let mut one = in_pod(container(component));
        let mut claims = BTreeSet::new();
        // A claim has a size, and one size.
        one.volumes.retain(|volume| match &volume.name {
            Some(name) => volume.size.is_some() && claims.insert(name.clone()),
            None => true,
        });
        for volume in &mut one.volumes {
            volume.name = volume.name.take().map(|name| format!("{}-{name}", component.name));
        }
        said.run = as_container(one);
        said.replicas = component.replicas;
        said.stateful = component.stateful;
        said.unavailable_max = component.unavailable_max.filter(|_| !component.stateful);
        said.stop_grace = whole(component.stop_grace);
        said.health = component.health.as_ref().map(whole_seconds);
        said.needs = component.needs.as_ref().map(needs_of_pod).and_then(needed);
        said.expose = component.expose.clone();
        // One Service for each of its types; one inside is called at the port itself.
        said.expose.sort_by_key(|one| (one.public, one.published.is_some() && one.public));
        for expose in &mut said.expose {
            expose.published = expose.published.filter(|_| expose.public);
        }
        // In the order of the components, of which a component is no neighbour of itself.
        let wish = component.affinity.clone().unwrap_or_default();
        let with = wish.with.into_iter().filter(|name| *name != component.name).collect();
        let affinity = Affinity { with, ..wish };
        said.affinity = (affinity != Affinity::default()).then_some(affinity);
        components.push(said);
    }
    let mut said = named(app, AppSpec { components, ..AppSpec::default() });
    said.metadata.namespace = app.metadata.namespace.clone();
    said
}

fn compose(app: &App) -> App {
    let mut entries: BTreeMap<(bool, String), String> = BTreeMap::new();
    let mut components = Vec::new();
    for component in &app.spec.components {
        let mut said = bare(component);
        let mut one = container(component);
        one.secret_env.clear();
        for volume in &mut one.volumes {
            volume.size = None;
        }
        // An entry goes by its key, so the key belongs to one Secret or ConfigMap.
        one.files.retain(|file| match (&file.secret, &file.config) {
            (Some(entry), _) | (None, Some(entry)) => {
                let key = (file.secret.is_some(), entry.key.clone());
                *entries.entry(key).or_insert_with(|| entry.name.clone()) == entry.name
            }
            (None, None) => true,
        });
        one.files.sort_by_key(|file| file.secret.is_none());
        for expose in component.expose.iter().filter(|expose| expose.public) {
            said.expose.push(expose.clone());
        }
        for expose in component.expose.iter().filter(|expose| !expose.public) {
            if matches!(expose.protocol, Protocol::Tcp | Protocol::Udp) {
                let (port, protocol) = (expose.port, expose.protocol);
                said.expose.push(Expose { port, protocol, ..Expose::default() });
            }
        }
        one.ports.clear();
        for expose in &said.expose {
            if !one.ports.contains(&expose.port) {
                one.ports.push(expose.port);
            }
        }
        said.run = as_container(one);
        said.replicas = component.replicas;
        said.unavailable_max = component.unavailable_max.filter(|most| *most > 0);
        said.stop_grace = component.stop_grace;
        said.health = component.health.clone().filter(|health| health.exec.is_some());
        let needs = component.needs.clone().unwrap_or_default();
        said.needs = needed(Needs {
            cpu: needs.cpu,
            memory: needs.memory,
            gpu: needs.gpu,
            arch: needs.arch.into_iter().take(1).collect(),
            labels: needs.labels,
            nodes: needs.nodes.into_iter().take(1).collect(),
            ..Needs::default()
        });
        said.connects = bare_connections(component);
        let apart =
            component.affinity.as_ref().is_some_and(|wish| wish.apart == [component.name.clone()]);
        said.affinity =
            apart.then(|| Affinity { apart: vec![component.name.clone()], ..Affinity::default() });
        components.push(said);
    }
    // Services are a mapping; theirs is the order of their names.
    components.sort_by(|a, b| a.name.cmp(&b.name));
    named(app, AppSpec { components, ..AppSpec::default() })
}

/// Only whom a component calls, each once.
fn bare_connections(component: &Component) -> Vec<Connection> {
    let mut found: Vec<Connection> = Vec::new();
    for connection in component.connects.iter().filter(|connection| connection.app.is_none()) {
        if !found.iter().any(|known| known.to == connection.to) {
            found.push(Connection { to: connection.to.clone(), ..Connection::default() });
        }
    }
    found
}

fn codeco(app: &App) -> App {
    let first = app.spec.components[0].needs.clone().unwrap_or_default();
    // The classes are the application's, so all components ask for the same.
    let words = [Level::LOW, Level::MEDIUM, Level::HIGH];
    let good = Level::from_score(50).unwrap();
    let security = first.security.filter(|level| words.contains(level) || *level == good);
    let compliance = first.compliance.filter(|level| words.contains(level));
    let ports: BTreeMap<&str, Vec<u16>> = app
        .spec
        .components
        .iter()
        .map(|component| (component.name.as_str(), container(component).ports))
        .collect();
    let mut components = Vec::new();
    for component in &app.spec.components {
        let mut said = bare(component);
        let mut one = in_pod(container(component));
        for volume in &mut one.volumes {
            volume.size = volume.size.filter(|_| volume.name.is_none());
        }
        // A claim must be there before, which is a note.
        one.volumes.retain(|volume| volume.name.is_none());
        // Every port of the container is exposed, and no other.
        for port in &one.ports {
            let udp = port % 2 == 0;
            let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
            said.expose.push(Expose { port: *port, protocol, ..Expose::default() });
        }
        said.run = as_container(one);
        said.stop_grace = whole(component.stop_grace);
        said.health = component.health.as_ref().map(whole_seconds);
        let needs = component.needs.as_ref().map(needs_of_pod).unwrap_or_default();
        said.needs = needed(Needs { security, compliance, ..needs });
        for connection in &component.connects {
            let known = ports.get(connection.to.as_str()).and_then(|ports| ports.first().copied());
            said.connects.push(Connection {
                port: if connection.app.is_some() { connection.port } else { known },
                // Its own name would lead back to itself.
                app: connection
                    .app
                    .clone()
                    .filter(|other| Some(other) != app.metadata.name.as_ref()),
                protocol: Protocol::Tcp,
                jitter: None,
                ..connection.clone()
            });
        }
        components.push(said);
    }
    let spec = AppSpec {
        qos: app.spec.qos,
        failure_tolerance: app.spec.failure_tolerance,
        energy_limit: app.spec.energy_limit,
        // There is no word for packing.
        profile: app.spec.profile.filter(|profile| *profile != Profile::Pack),
        components,
        ..AppSpec::default()
    };
    App { metadata: app.metadata.clone(), ..named(app, spec) }
}

fn icos(app: &App) -> App {
    let names: Vec<String> = app.spec.components.iter().map(|one| one.name.clone()).collect();
    let mut policies = app.spec.policies.clone();
    policies.retain(|policy| !policy.suspended);
    for policy in &mut policies {
        // A step and no more; a floor of security always has one.
        let action = policy.remediation.as_ref().map(|remediation| remediation.action);
        let action = match policy.condition.security {
            Some(_) => Some(action.unwrap_or(Action::None)),
            None => action,
        };
        let action = action.filter(|action| !matches!(action, Action::Patch | Action::Webhook));
        let action = action.or(policy.condition.security.map(|_| Action::None));
        policy.remediation = action.map(|action| Remediation { action, ..Remediation::default() });
    }
    let mut components = Vec::new();
    for component in &app.spec.components {
        let mut said = bare(component);
        let manifests = component.run.iter().find(|run| !run.manifests.is_empty()).cloned();
        let compose = component.run.iter().find(|run| run.compose.is_some()).cloned();
        said.run = manifests.into_iter().chain(compose).collect();
        if said.run.is_empty() {
            let object = serde_json::json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": component.name},
            });
            said.run = vec![Run { manifests: vec![object], ..Run::default() }];
        }
        let needs = component.needs.clone().unwrap_or_default();
        // One node label: with several values an instance for each.
        said.on_each = component.on_each.clone().filter(|each| each.values.len() > 1);
        let label = needs.labels.into_iter().take(1).filter(|_| said.on_each.is_none());
        // A level of security is asked for by a policy.
        let covers = |policy: &&AppPolicy| {
            policy.components.is_empty() || policy.components.contains(&component.name)
        };
        let security =
            policies.iter().filter(covers).filter_map(|policy| policy.condition.security).max();
        said.needs = needed(Needs {
            cpu: needs.cpu,
            memory: needs.memory,
            arch: needs.arch,
            devices: needs.devices,
            labels: label.collect(),
            security,
            ..Needs::default()
        });
        said.connects = bare_connections(component);
        said.connects.retain(|connection| names.contains(&connection.to));
        components.push(said);
    }
    let spec = AppSpec {
        description: app.spec.description.clone(),
        homogeneous: app.spec.homogeneous,
        weights: app.spec.weights.clone(),
        components,
        policies,
        ..AppSpec::default()
    };
    let mut said = named(app, spec);
    said.metadata.namespace = app.metadata.namespace.clone();
    said
}
