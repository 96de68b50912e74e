//! An App as Kubernetes manifests: a Deployment or StatefulSet for each component, its Services, the
//! claims and the ConfigMap that it needs. A component that has manifests and no container is
//! written as it is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tombolo_model::component::{Component, Connection, Expose, Protocol};
use tombolo_model::{App, AppSpec};

use super::emit::{self, Style};
use super::unsaid::{self, Unsaid};
use super::{Written, pod, put};
use crate::kubernetes::ANNOTATION_RUN;
use crate::kubernetes::service::port_name;
use crate::mentions::{self, Host};

const NAME: &str = "Kubernetes";
/// Kubernetes wants a size for every claim.
const CLAIM_SIZE: &str = "1Gi";

pub(super) fn write(app: &App) -> Written {
    let mut rest = app.clone();
    rest.status = None;
    let mut writer = Writer::new(app, rest.metadata.namespace.take());
    let hosts = hosts(&app.spec);
    for index in 0..rest.spec.components.len() {
        writer.component(
            index,
            &app.spec.components[index],
            &mut rest.spec.components[index],
            &hosts,
        );
    }
    let mut notes = writer.notes;
    notes.extend(unsaid::notes(&rest, NAME));
    Written { text: emit::documents(&writer.objects, Style::Block), notes }
}

/// The objects that run one component, and what had to be assumed for them.
pub(super) fn objects(app: &App, index: usize, rest: &mut Component) -> (Vec<Value>, Vec<Unsaid>) {
    let mut writer = Writer::new(app, app.metadata.namespace.clone());
    writer.component(index, &app.spec.components[index], rest, &BTreeMap::new());
    (writer.objects, writer.notes)
}

/// The names under which the Services that are written lead to components.
pub(super) fn hosts(spec: &AppSpec) -> BTreeMap<String, Host> {
    let exposed = spec.components.iter().filter(|component| !component.expose.is_empty());
    let host = |component: &Component| Host {
        component: component.name.clone(),
        ports: component.expose.iter().map(|one| (called(one), one.port)).collect(),
    };
    exposed.map(|component| (component.name.clone(), host(component))).collect()
}

/// The port of the Service.
fn called(expose: &Expose) -> u16 {
    match (expose.public, expose.published) {
        // A NodePort: the Service has the component's own port.
        (true, None) | (false, _) => expose.port,
        (true, Some(published)) => published,
    }
}

/// Takes out the connections that a reader finds in the environment by itself.
pub(super) fn take_mentioned(
    component: &Component,
    rest: &mut Component,
    hosts: &BTreeMap<String, Host>,
) {
    let container = component.run.iter().find_map(|run| run.container.as_ref());
    let said = container.into_iter().flat_map(mentions::said_by);
    let found = mentions::connections(said, hosts, &component.name);
    for connection in &mut rest.connects {
        let bare = |one: &Connection| (one.to.clone(), one.port, one.protocol, one.app.clone());
        if found.iter().any(|known| bare(known) == bare(connection)) {
            connection.to.clear();
            connection.port = None;
            connection.protocol = Protocol::Tcp;
        }
    }
}

struct Writer {
    app: String,
    namespace: Option<String>,
    claims: BTreeSet<String>,
    objects: Vec<Value>,
    notes: Vec<Unsaid>,
}

impl Writer {
    fn new(app: &App, namespace: Option<String>) -> Writer {
        let app = app.metadata.name.clone().unwrap_or_default();
        let (claims, objects, notes) = (BTreeSet::new(), Vec::new(), Vec::new());
        Writer { app, namespace, claims, objects, notes }
    }

    fn component(
        &mut self,
        index: usize,
        component: &Component,
        rest: &mut Component,
        hosts: &BTreeMap<String, Host>,
    ) {
        let Some(container) = pod::take_container(rest) else {
            let manifests = rest.run.iter_mut().find(|run| !run.manifests.is_empty());
            if let Some(run) = manifests {
                self.objects.append(&mut run.manifests);
                rest.name.clear();
            }
            return;
        };
        let name = std::mem::take(&mut rest.name);
        let made = pod::pod(&self.app, &name, rest, container);
        for (claim, size) in made.claims {
            self.claim(index, claim, size);
        }
        if !made.contents.is_empty() {
            let metadata = self.metadata(&pod::config_name(&name), &name);
            self.objects.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": made.contents,
            }));
        }
        self.workload(&name, rest, made.spec);
        self.services(&name, std::mem::take(&mut rest.expose));
        take_mentioned(component, rest, hosts);
    }

    fn metadata(&self, name: &str, component: &str) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".into(), name.into());
        put(&mut metadata, "namespace", self.namespace.clone());
        metadata.insert("labels".into(), pod::labels(&self.app, component));
        metadata.into()
    }

    fn claim(&mut self, index: usize, claim: String, size: Option<String>) {
        if !self.claims.insert(claim.clone()) {
            return;
        }
        if size.is_none() {
            let message = format!(
                "{claim:?} asks for {CLAIM_SIZE}: Kubernetes wants a size and none is given"
            );
            let path = format!("spec.components[{index}].run.container.volumes");
            self.notes.push(Unsaid { path, message });
        }
        let mut metadata = Map::new();
        metadata.insert("name".into(), claim.into());
        put(&mut metadata, "namespace", self.namespace.clone());
        let size = size.unwrap_or_else(|| CLAIM_SIZE.to_owned());
        self.objects.push(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
            },
        }));
    }

    fn workload(&mut self, name: &str, rest: &mut Component, pod_spec: Value) {
        let labels = pod::labels(&self.app, name);
        let mut spec = Map::new();
        put(&mut spec, "replicas", rest.replicas.take());
        spec.insert("selector".into(), json!({"matchLabels": labels}));
        spec.insert("template".into(), json!({"metadata": {"labels": labels}, "spec": pod_spec}));
        let kind = match std::mem::take(&mut rest.stateful) {
            true => {
                spec.insert("serviceName".into(), name.into());
                "StatefulSet"
            }
            false => {
                let most = rest.unavailable_max.take();
                let strategy = most.map(|most| {
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}})
                });
                put(&mut spec, "strategy", strategy);
                "Deployment"
            }
        };
        let mut metadata = self.metadata(name, name);
        metadata["annotations"] = json!({ANNOTATION_RUN: "container"});
        self.objects.push(json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec,
        }));
    }

    /// A Service has one type, so there is one for each that is needed.
    fn services(&mut self, name: &str, expose: Vec<Expose>) {
        let kinds = [("ClusterIP", ""), ("NodePort", "-node-port"), ("LoadBalancer", "-public")];
        let mut first = true;
        for (kind, suffix) in kinds {
            let of_kind = |one: &&Expose| match (one.public, one.published) {
                (false, _) => kind == "ClusterIP",
                (true, None) => kind == "NodePort",
                (true, Some(_)) => kind == "LoadBalancer",
            };
            let list: Vec<&Expose> = expose.iter().filter(of_kind).collect();
            if list.is_empty() {
                continue;
            }
            let ports: Vec<Value> = list.iter().map(|one| port(one, list.len())).collect();
            let service_name = match std::mem::replace(&mut first, false) {
                true => name.to_owned(),
                false => format!("{name}{suffix}"),
            };
            let selector = pod::labels(&self.app, name);
            let mut spec = json!({"selector": selector, "ports": ports});
            if kind != "ClusterIP" {
                spec["type"] = kind.into();
            }
            let metadata = self.metadata(&service_name, name);
            self.objects.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec,
            }));
        }
    }
}

fn port(expose: &Expose, count: usize) -> Value {
    let service_port = called(expose);
    let mut port = Map::new();
    let unnamed = (count > 1).then(|| port_name(expose.protocol, service_port));
    put(&mut port, "name", expose.name.clone().or(unnamed));
    port.insert("port".into(), service_port.into());
    if service_port != expose.port {
        port.insert("targetPort".into(), expose.port.into());
    }
    match expose.protocol {
        Protocol::Tcp => (),
        Protocol::Udp => {
            port.insert("protocol".into(), "UDP".into());
        }
        Protocol::Http | Protocol::Https => {
            port.insert("appProtocol".into(), expose.protocol.as_str().into());
        }
    }
    port.into()
}
