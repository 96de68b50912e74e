//! A compose project as containers: one for each service, on one network where they find each other
//! by name. Called by `draft` for what is run in the words of compose; start with [`project`].
//!
//! A service is read by the same reader that reads compose files, one at a time. What that reader
//! cannot put into a container of ours is taken out before, and handed to the engine as it is
//! (`service`).

mod service;

use std::collections::{BTreeMap, BTreeSet};

use bollard::models::HealthConfig;
use serde_json::{Map, Value, json};
use tombolo_descriptor::{Format, NoFiles, Severity, Source};
use tombolo_driver::{Container, Error, FilePlaced, Port, Result, Secret, Spec, Workload};
use tombolo_model::Engine;
use tombolo_model::component::{Component, Health, Reach};
use tombolo_model::needs::{Needs, Resources};
use tombolo_model::run;

use crate::draft::{self, After, Attachment, Draft, Project, Until};
use crate::tag;

pub(crate) use service::DEFAULT_NETWORK;

/// More containers in one instance are better off as an App.
const PARTS_MAX: usize = 64;
/// What services share.
const SHARED: &[&str] = &["volumes", "configs", "secrets"];

/// One service, taken apart.
struct Service<'a> {
    key: &'a str,
    component: Component,
    container: run::Container,
    /// What only the engine knows.
    beyond: Map<String, Value>,
    after: Vec<After>,
    once: bool,
    /// Other names under which the rest of the project calls it.
    aliases: Vec<String>,
    networks: Vec<service::Joined>,
}

pub(crate) fn project(spec: &Spec, written: &Value, agent: &str) -> Result<Project> {
    let services = written.get("services").and_then(Value::as_object);
    let services = services.ok_or_else(|| invalid("a compose project needs \"services\""))?;
    let mut read = Vec::new();
    for (key, service) in services {
        read.extend(Service::read(key, service, written)?);
    }
    let read = in_order(read)?;
    let alone = read.len() == 1;
    let mut project = Project::default();
    for service in &read {
        let count = service.component.count();
        for number in 1..=count {
            if project.parts.len() == PARTS_MAX {
                return Err(invalid(&format!("more than {PARTS_MAX} containers in a project")));
            }
            let name = match count {
                1 => service.key.to_owned(),
                _ => format!("{}-{number}", service.key),
            };
            let mut draft = service.draft(spec, agent, alone, &mut project.notes)?;
            draft.name = Some(name);
            project.parts.push(draft);
        }
    }
    if project.parts.is_empty() {
        return Err(invalid("no service of the compose project runs"));
    }
    check_names(&project)?;
    Ok(project)
}

fn invalid(what: &str) -> Error {
    Error::Invalid { what: what.to_owned() }
}

/// The engine takes few characters in names, and ours must be told apart.
fn check_names(project: &Project) -> Result<()> {
    let mut names = BTreeSet::new();
    let fits = |character: char| character.is_ascii_alphanumeric() || ".-_".contains(character);
    for name in project.parts.iter().filter_map(|draft| draft.name.as_deref()) {
        if name.is_empty() || name.len() > 100 || !name.chars().all(fits) {
            return Err(invalid(&format!("{name:?} is no name of a service")));
        }
        if !names.insert(name) {
            return Err(invalid(&format!("two services are called {name:?}")));
        }
    }
    Ok(())
}

impl<'a> Service<'a> {
    /// Nothing for a service that runs only when it is asked for.
    fn read(key: &'a str, service: &Value, written: &Value) -> Result<Option<Service<'a>>> {
        let mut own = service.as_object().cloned().unwrap_or_default();
        let profiles = own.remove("profiles");
        if profiles.is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty())) {
            return Ok(None);
        }
        let after = dependencies(key, own.remove("depends_on"))?;
        own.remove("links");
        let restart = own.remove("restart");
        let always =
            matches!(restart.as_ref().and_then(Value::as_str), Some("always" | "unless-stopped"));
        let aliases = service::aliases(&own);
        let networks = service::networks(&own, written.get("networks"))?;
        let beyond = service::take_beyond(&mut own);
        let mut single = Map::new();
        single.insert("name".to_owned(), json!("project"));
        for name in SHARED {
            single.extend(written.get(name).map(|shared| ((*name).to_owned(), shared.clone())));
        }
        single.insert("services".to_owned(), json!({key: own}));
        let (component, container) = understood(key, &Value::Object(single))?;
        let once = !always;
        Ok(Some(Service { key, component, container, beyond, after, once, aliases, networks }))
    }

    fn draft(
        &self,
        spec: &Spec,
        agent: &str,
        alone: bool,
        notes: &mut Vec<String>,
    ) -> Result<Draft> {
        let own = self.spec(spec, alone)?;
        let Workload::Container(container) = &own.workload else {
            return Err(invalid("a service is a container"));
        };
        let mut draft = draft::native(&own, container, agent, notes)?;
        draft.body.healthcheck = self.component.health.as_ref().map(health);
        if let Some(grace) = self.component.stop_grace {
            let seconds = grace.to_std().as_secs();
            draft.body.stop_timeout = Some(i64::try_from(seconds).unwrap_or(i64::MAX));
        }
        draft.after.clone_from(&self.after);
        draft.once = self.once;
        service::put_beyond(&self.beyond, &mut draft.body)?;
        if !self.beyond.contains_key("network_mode") {
            draft.networks = self.networks(spec, agent, alone);
            if draft.networks.iter().all(|attachment| attachment.internal) {
                draft.keep_inside();
            }
        }
        Ok(draft)
    }

    /// A project of one service is reached like any other component. One of several has networks of
    /// its own, so that two revisions of it do not mix, and beside them that of its App. Neither is on
    /// that of its App if it is to reach nothing outside.
    fn networks(&self, spec: &Spec, agent: &str, alone: bool) -> Vec<Attachment> {
        let mut names = vec![self.key.to_owned()];
        names.extend(self.aliases.iter().cloned());
        let network = tag::network_of_app(agent, &spec.origin);
        let inside = self.networks.iter().all(|joined| joined.internal);
        if alone && !inside {
            names.extend(self.networks.iter().flat_map(|joined| joined.aliases.clone()));
            names.push(spec.origin.component.clone());
            return vec![Attachment { network, aliases: names, internal: false }];
        }
        let own = self.networks.iter().map(|joined| Attachment {
            network: tag::network_of_project(&spec.id, &joined.network),
            aliases: names.iter().chain(&joined.aliases).cloned().collect(),
            internal: joined.internal,
        });
        let mut attachments: Vec<Attachment> = own.collect();
        if !inside {
            // The one that the component is named after is called by others as the component is.
            let is_main = self.component.name == spec.origin.component;
            let exposed = self.component.expose.iter().any(|expose| expose.public || is_main);
            let aliases = if exposed { vec![spec.origin.component.clone()] } else { Vec::new() };
            attachments.push(Attachment { network, aliases, internal: false });
        }
        attachments
    }

    /// The service as if it were an instance of its own.
    fn spec(&self, spec: &Spec, alone: bool) -> Result<Spec> {
        let container = &self.container;
        let mut env: BTreeMap<String, Secret> = spec.env.clone();
        env.extend(
            container.env.iter().map(|(name, value)| (name.clone(), Secret::from(value.as_str()))),
        );
        let mut files = Vec::new();
        for file in &container.files {
            let Some(content) = &file.content else {
                let what = format!("{} of service {:?} in the project itself", file.path, self.key);
                return Err(Error::NoSuchEntry { what });
            };
            files.push(FilePlaced { path: file.path.clone(), content: content.as_str().into() });
        }
        let given = self.component.needs.as_ref().map(resources);
        let resources = match (given, alone) {
            (Some(given), _) => given,
            (None, true) => spec.resources.clone(),
            (None, false) => Resources::default(),
        };
        let own = Container {
            image: container.image.clone(),
            command: container.command.clone(),
            args: container.args.clone(),
            workdir: container.workdir.clone(),
            user: container.user.clone(),
            groups: container.groups.clone(),
            capabilities: container.capabilities.clone(),
            privileged: container.privileged,
            volumes: container.volumes.clone(),
        };
        Ok(Spec {
            workload: Workload::Container(own),
            env,
            files,
            ports: self.ports(spec, alone)?,
            resources,
            ..spec.clone()
        })
    }

    /// What the service publishes itself, and what the Assignment exposes of it.
    fn ports(&self, spec: &Spec, alone: bool) -> Result<Vec<Port>> {
        let several = self.component.count() > 1;
        let mut ports: Vec<Port> = Vec::new();
        for expose in &self.component.expose {
            let wanted = spec.ports.iter().find(|port| port.port == expose.port && port.exposed);
            let published = expose.published.or(wanted.and_then(|port| port.published));
            if several && published.is_some() {
                return Err(invalid(&format!(
                    "service {:?} runs more than once and cannot have port {} of the node",
                    self.key, expose.port
                )));
            }
            let own = if expose.public { Reach::Public } else { Reach::Loopback };
            ports.push(Port {
                port: expose.port,
                protocol: expose.protocol,
                published,
                exposed: expose.public || wanted.is_some(),
                reach: wanted.map_or(own, |port| own.max(port.reach)),
            });
        }
        let known = |port: u16| self.component.expose.iter().any(|expose| expose.port == port);
        if alone {
            ports.extend(spec.ports.iter().filter(|port| !known(port.port)).cloned());
        }
        Ok(ports)
    }
}

/// One service in the words of an App.
fn understood(key: &str, single: &Value) -> Result<(Component, run::Container)> {
    let text = single.to_string();
    let source = Source { name: "compose", text: &text };
    let reading = tombolo_descriptor::read(source, Some(Format::Compose), &NoFiles);
    let wrong = reading.diagnostics.iter().find(|found| found.severity == Severity::Error);
    if let Some(wrong) = wrong {
        let expected = wrong.expected.as_ref().map(|more| format!("; expected {more}"));
        let expected = expected.unwrap_or_default();
        return Err(invalid(&format!("service {key:?}: {}{expected}", wrong.message)));
    }
    let components = reading.apps.into_iter().flat_map(|app| app.spec.components);
    let mut component =
        components.into_iter().next().ok_or_else(|| invalid("there is no service"))?;
    match component.run.pop().and_then(|run| run.container) {
        Some(container) => Ok((component, container)),
        None => Err(Error::Unsupported {
            engine: Engine::Docker,
            what: format!("run service {key:?} with all that it asks for"),
        }),
    }
}

fn dependencies(key: &str, written: Option<Value>) -> Result<Vec<After>> {
    let started = |part: &str| After { part: part.to_owned(), until: Until::Started };
    match written {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            Ok(list.iter().filter_map(Value::as_str).map(started).collect())
        }
        Some(Value::Object(map)) => map
            .iter()
            .map(|(part, rule)| {
                let until = match rule.get("condition").and_then(Value::as_str) {
                    None | Some("service_started") => Until::Started,
                    Some("service_healthy") => Until::Healthy,
                    Some("service_completed_successfully") => Until::Completed,
                    Some(other) => {
                        let what = format!("service {key:?} waits for {part:?} to be {other:?}");
                        return Err(invalid(&what));
                    }
                };
                Ok(After { part: part.clone(), until })
            })
            .collect(),
        Some(_) => Err(invalid(&format!("\"depends_on\" of service {key:?} is no list"))),
    }
}

/// Services that others wait for come first; otherwise they go by their names.
fn in_order(mut left: Vec<Service<'_>>) -> Result<Vec<Service<'_>>> {
    let known: BTreeSet<String> = left.iter().map(|service| service.key.to_owned()).collect();
    for service in &mut left {
        // What does not run by default is not waited for.
        service.after.retain(|after| known.contains(&after.part));
    }
    let mut ordered: Vec<Service<'_>> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let done: BTreeSet<&str> = ordered.iter().map(|service| service.key).collect();
        let free = |service: &Service<'_>| {
            service.after.iter().all(|after| done.contains(after.part.as_str()))
        };
        let Some(next) = left.iter().position(free) else {
            let names: Vec<&str> = left.iter().map(|service| service.key).collect();
            return Err(invalid(&format!("the services {} wait for each other", names.join(", "))));
        };
        ordered.push(left.remove(next));
    }
    // A service that runs several times is so far when its first one is.
    let several = ordered.iter().filter(|service| service.component.count() > 1);
    let several: BTreeSet<String> = several.map(|service| service.key.to_owned()).collect();
    for after in ordered.iter_mut().flat_map(|service| &mut service.after) {
        if several.contains(&after.part) {
            after.part.push_str("-1");
        }
    }
    Ok(ordered)
}

fn resources(needs: &Needs) -> Resources {
    Resources { cpu: needs.cpu, memory: needs.memory, gpu: needs.gpu, ..Resources::default() }
}

/// The engine's own check, which other parts may wait for.
fn health(health: &Health) -> HealthConfig {
    let nanoseconds = |time: Option<tombolo_model::Duration>| {
        time.and_then(|time| i64::try_from(time.to_std().as_nanos()).ok())
    };
    let command = health.exec.as_ref().map(|exec| {
        let words = std::iter::once("CMD".to_owned()).chain(exec.command.iter().cloned());
        words.collect()
    });
    HealthConfig {
        test: command,
        interval: nanoseconds(health.interval),
        timeout: nanoseconds(health.timeout),
        retries: health.failures.map(i64::from),
        start_period: nanoseconds(health.startup),
        start_interval: None,
    }
}

#[cfg(test)]
mod tests;
