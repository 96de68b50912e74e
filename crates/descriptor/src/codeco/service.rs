//! One service of a CodecoApp as a component: its pod, what it needs, and its channels. Called by
//! [`super::read`].

use std::collections::BTreeMap;

use tombolo_model::Bytes;
use tombolo_model::component::{Affinity, Component, Data, Expose, Preference};
use tombolo_model::needs::Needs;
use tombolo_model::run::{Container, Run};
use tombolo_yaml::{Node, Value};

use super::{Floor, Names, channel};
use crate::beyond::Keep;
use crate::fields::{Field, Rest};
use crate::kubernetes::pod::{self, Objects, Pod};
use crate::kubernetes::scheduling::Selector;
use crate::reader::{Reader, dashed};

const SERVICE: &[&str] = &["serviceName", "podspec", "serviceChannels", "nwbandwidth", "nwlatency"];
const RESOURCES: &[&str] = &["cpu", "mem", "nwbandwidth", "nwlatency"];
const TEMPLATE: &str = "Tombolo labels its instances itself";
const TEMPLATE_DROPPED: &[(&str, &str)] = &[("metadata", TEMPLATE)];
/// By which a pod tells whose it is.
const SERVICE_LABELS: &[&str] = &["app", "app.kubernetes.io/name"];
/// What people put into a `podspec` from a Deployment around it.
const AROUND_A_POD: &[&str] = &["replicas", "selector", "template"];

/// The pods of the same text, by name, for the services of D11 that refer to theirs.
#[derive(Debug)]
pub(super) struct Pods<'a> {
    named: BTreeMap<&'a str, Field<'a>>,
}

/// The PodSpecs of the pods and Deployments among the documents.
pub(super) fn named_pods(documents: &[Node]) -> Pods<'_> {
    let named = documents.iter().filter_map(|document| {
        let path: &[&str] = match document.get("kind")?.as_str()? {
            "Pod" => &["spec"],
            "PodTemplate" => &["template", "spec"],
            "Deployment" | "StatefulSet" | "DaemonSet" => &["spec", "template", "spec"],
            _ => return None,
        };
        let name = document.at(&["metadata", "name"])?.as_str()?;
        let mut field = Field::document(document);
        for key in path {
            let (key, node) = field.node.entry(key)?;
            field = Field { node, path: field.path.key(&key.text), key_span: key.span };
        }
        Some((name, field))
    });
    Pods { named: named.collect() }
}

/// A document beside the CodecoApps: Secrets and ConfigMaps go along, pods are read where a service
/// names them.
pub(super) fn other_document(
    document: &Node,
    kind: &str,
    pods: &Pods<'_>,
    reader: &mut Reader<'_>,
) {
    let name = document.at(&["metadata", "name"]).and_then(Node::as_str).unwrap_or_default();
    match kind {
        "Secret" | "ConfigMap" => reader.other(document.to_json()),
        _ if pods.named.contains_key(name) => (),
        _ => {
            let field = Field::document(document);
            field.dropped(reader, &format!("a {kind} beside a CodecoApp is not taken along"));
        }
    }
}

pub(super) fn read<'a>(
    field: &Field<'a>,
    index: usize,
    floor: Floor,
    names: &Names<'a>,
    pods: &Pods<'a>,
    reader: &mut Reader<'_>,
) -> Option<Component> {
    let mut fields = field.fields(reader)?;
    let path = format!("spec.components[{index}]");
    reader.origin(&path, field.node.span);
    let mut component = Component::default();
    let mut needs = Needs::default();
    match fields.take_any(&["serviceName", "name"]) {
        Some(name) => {
            name.origin(reader, format!("{path}.name"));
            component.name = name.label(reader)?;
        }
        None => {
            fields.missing(reader, "serviceName", "the name of the service");
            return None;
        }
    }
    let mut network = channel::network(&mut fields, reader);
    let podspec = fields.take("podspec");
    let named = fields.take("podspecname");
    match (podspec, named) {
        (Some(podspec), named) => {
            read_pod(&podspec, names, &mut component, &mut needs, reader);
            if let Some(named) = named {
                named.dropped(reader, "the podspec itself is given");
            }
        }
        (None, Some(named)) => refer(&named, pods, names, &mut component, &mut needs, reader),
        (None, None) => {
            fields.missing(reader, "podspec", "what runs, as a Kubernetes PodSpec");
        }
    }
    if let Some(resources) = fields.take("required-resources") {
        read_resources(&resources, &mut needs, &mut network, reader);
    }
    let channels = fields.take("serviceChannels");
    let connections = channel::read(channels.as_ref(), &network, names, reader);
    for (index, (connection, target)) in connections.into_iter().enumerate() {
        reader.origin(format!("{path}.connects[{index}]"), target);
        component.connects.push(connection);
    }
    fields.finish(Rest::Foreign { known: SERVICE, dropped: &[] }, reader);
    needs.security = floor.security;
    needs.compliance = floor.compliance;
    component.needs = (needs != Needs::default()).then_some(needs);
    Some(component)
}

/// The volume of input data of the whole application, which only one service can be meant by.
pub(super) fn input(field: &Field<'_>, components: &mut [Component], reader: &mut Reader<'_>) {
    match components {
        [only] => {
            let input = field.bytes(reader);
            only.data = input.map(|input| Data { input: Some(input), from: None });
        }
        _ => field.dropped(reader, "it is not said which of the services reads the data"),
    }
}

fn read_pod<'a>(
    podspec: &Field<'a>,
    names: &Names<'_>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let Some(mut around) = podspec.fields(reader) else { return };
    if let Some(replicas) = around.take("replicas") {
        component.replicas = replicas.count(reader, 10_000);
    }
    if let Some(selector) = around.take("selector") {
        selector.dropped(reader, "instances are told apart by their component");
    }
    let template = around.take("template");
    let inner = template.as_ref().and_then(|template| read_template(template, reader));
    let has_containers = around.peek("containers").is_some();
    // What is left is the pod's own, and read as such below.
    let _ = around.take_rest();
    match (inner, has_containers) {
        (Some(inner), false) => take_pod(&inner, names, component, needs, reader),
        (inner, _) => {
            if let Some(inner) = inner {
                inner.dropped(reader, "the containers beside the template are used");
            }
            let bare = without_surroundings(podspec.node);
            let bare =
                Field { node: &bare, path: podspec.path.clone(), key_span: podspec.key_span };
            take_pod(&bare, names, component, needs, reader);
        }
    }
}

/// The PodSpec inside a pod template.
fn read_template<'a>(template: &Field<'a>, reader: &mut Reader<'_>) -> Option<Field<'a>> {
    let mut fields = template.fields(reader)?;
    let spec = fields.take("spec");
    fields.finish(Rest::Foreign { known: &["spec"], dropped: TEMPLATE_DROPPED }, reader);
    spec
}

fn without_surroundings(podspec: &Node) -> Node {
    let entries = podspec.as_map().unwrap_or_default().iter();
    let own = entries.filter(|(key, _)| !AROUND_A_POD.contains(&key.text.as_str()));
    Node::new(Value::Map(own.cloned().collect()), podspec.span)
}

fn take_pod(
    spec: &Field<'_>,
    names: &Names<'_>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let read = pod::pod(spec, &Objects::default(), Keep::WhenNeeded, reader);
    (component.affinity, component.prefers) = affinity(&read, component, names, spec, reader);
    *needs = read.needs;
    component.health = read.health;
    component.stop_grace = read.stop_grace;
    for port in &read.ports {
        let expose = Expose { port: port.port, protocol: port.protocol, ..Expose::default() };
        component.expose.push(expose);
    }
    component.run = match read.container {
        Some(container) => vec![Run { container: Some(container), ..Run::default() }],
        None => vec![Run { manifests: vec![deployment(component, spec)], ..Run::default() }],
    };
}

/// The services that a pod wants near or far. CODECO labels pods with the name of their service.
fn affinity(
    read: &Pod,
    of: &Component,
    names: &Names<'_>,
    spec: &Field<'_>,
    reader: &mut Reader<'_>,
) -> (Option<Affinity>, Vec<Preference>) {
    let own = of.name.as_str();
    let mut is_lost = false;
    let mut chosen = |selectors: &[Selector]| -> Vec<String> {
        let mut found = Vec::new();
        for selector in selectors {
            let values = SERVICE_LABELS.iter().find_map(|label| selector.any_of.get(*label));
            let values = values.filter(|_| selector.any_of.len() == 1).into_iter().flatten();
            let services: Vec<String> =
                values.filter_map(|value| names.components.get(value.as_str()).cloned()).collect();
            is_lost |= services.is_empty();
            found.extend(services);
        }
        found.sort();
        found.dedup();
        found
    };
    let mut with = chosen(&read.with);
    // Its instances cannot share a site with themselves.
    with.retain(|name| name != own);
    let (spread, skew) = read.spreading(of.replicas);
    let affinity = Affinity { with, apart: chosen(&read.apart), spread, skew };
    let mut prefers = read.prefers.clone();
    for (weight, nearness, selector) in &read.rather {
        let names = chosen(std::slice::from_ref(selector));
        prefers.extend(nearness.wish(*weight, names, own));
    }
    if is_lost && let Some((key, node)) = spec.node.entry("affinity") {
        let field = Field { node, path: spec.path.key(&key.text), key_span: key.span };
        field.dropped(reader, "no service of the application has those labels");
    }
    ((affinity != Affinity::default()).then_some(affinity), prefers)
}

/// A pod that a container cannot say, as the Deployment that CODECO makes of it.
fn deployment(component: &Component, spec: &Field<'_>) -> serde_json::Value {
    let labels = serde_json::json!({"app": component.name});
    serde_json::json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": component.name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec.node.to_json()},
        },
    })
}

/// D11 names a pod and leaves it to others to say what it is.
fn refer(
    named: &Field<'_>,
    pods: &Pods<'_>,
    names: &Names<'_>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let Some(name) = named.str(reader) else { return };
    if let Some(pod) = pods.named.get(name) {
        if named.may_copy_node(pod.node, reader) {
            take_pod(pod, names, component, needs, reader);
        }
        return;
    }
    let image = dashed(name);
    let message = format!("no pod of this text is named {name:?}, so its image is not known");
    named
        .warning(reader, "unknown-pod", message)
        .expecting("a Pod or a Deployment of that name in the same text, or a podspec");
    named.assumed(reader, &format!("the image is named {image:?}"));
    let container = Container { image, ..Container::default() };
    component.run = vec![Run { container: Some(container), ..Run::default() }];
}

fn read_resources<'a>(
    field: &Field<'a>,
    needs: &mut Needs,
    network: &mut channel::Network<'a>,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(cpu) = fields.take("cpu") {
        needs.cpu = cpu.cpu(reader).or(needs.cpu);
    }
    if let Some(memory) = fields.take_any(&["mem", "memory"]) {
        needs.memory = read_memory(&memory, reader).or(needs.memory);
    }
    let more = channel::network(&mut fields, reader);
    network.bandwidth = more.bandwidth.or(network.bandwidth.take());
    network.latency = more.latency.or(network.latency.take());
    fields.finish(Rest::Foreign { known: RESOURCES, dropped: &[] }, reader);
}

/// A number without a suffix is meant in gigabytes, as the older CodecoApp says.
fn read_memory(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Bytes> {
    let written = field.str(reader)?.trim();
    if written.parse::<f64>().is_err() {
        return field.bytes(reader);
    }
    field.assumed(reader, "a number without a unit is taken for gigabytes");
    field.quantity_as(reader, |written| format!("{}G", written.trim()))
}
