//! CHARITY's LowLevelOrchestration: each of its apps becomes an App. Clusters and links are for
//! whoever makes clusters; here they are sites that join by themselves. Called through the table of
//! formats.

use std::collections::BTreeMap;

use serde_json::json;
use tombolo_model::component::{Component, Expose, Protocol};
use tombolo_model::needs::Needs;
use tombolo_model::run::{Container, KeyRef, Run};
use tombolo_model::{App, AppSpec};
use tombolo_yaml::{Node, Span};

use super::{ANNOTATION_OWNER, environment_path};
use crate::fields::{Field, Rest};
use crate::foreign::head::Head;
use crate::reader::Reader;

const NO_CLUSTERS: &str = "clusters are not made here; let it join as a site of this name";
const CLUSTER: &[&str] = &[
    "name",
    "uid",
    "provider",
    "kubernetes-version",
    "control-plane-count",
    "control-plane-flavor",
    "worker-machine-count",
    "worker-machine-flavor",
    "image",
    "datacenter",
    "kubernetes-type",
    "status",
    "kubeconfig",
];
/// What CHARITY's backend writes, or keeps for itself.
const APP_DROPPED: &[(&str, &str)] =
    &[("id", "an App has a uid of its own"), ("status", "a status is written by whoever runs it")];
const COMPONENT_DROPPED: &[(&str, &str)] = &[
    ("output-parameters", "where a component runs is in the status of its App"),
    ("registry", "a site's engine logs in to its registries itself"),
    ("tosca-cp", "a connection point of a blueprint is a port in \"expose\""),
];
const APP: &[&str] = &["name", "owner", "cluster", "components"];
const COMPONENT: &[&str] = &["name", "cluster-selector", "image", "expose", "env", "tls"];
const EXPOSE: &[&str] =
    &["is-public", "is-peered", "containerPort", "clusterPort", "name", "protocol"];
const PROTOCOLS: &[(&str, Protocol)] = &[
    ("TCP", Protocol::Tcp),
    ("UDP", Protocol::Udp),
    ("HTTP", Protocol::Http),
    ("HTTPS", Protocol::Https),
];

/// As many as a component may have.
const EXPOSED_MAX: usize = 64;

/// Reads the documents of one text.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let mut apps = Vec::new();
    for document in documents {
        match document.get("kind").and_then(Node::as_str) {
            Some("LowLevelOrchestration") | None => read_one(document, &mut apps, reader),
            Some("Secret" | "ConfigMap") => reader.other(document.to_json()),
            Some(kind) => {
                let why = format!("a {kind} beside an orchestration is not taken along");
                Field::document(document).dropped(reader, &why);
            }
        }
    }
    apps
}

fn read_one(document: &Node, apps: &mut Vec<App>, reader: &mut Reader<'_>) {
    let Some(mut fields) = Field::document(document).fields(reader) else { return };
    let mut head =
        Head::take(&mut fields, "charity-project.eu/v1", "LowLevelOrchestration", reader);
    if let Some(name) = head.name.take() {
        name.dropped(reader, "each app of the orchestration is an App of its own name");
    }
    let spec = fields.need("spec", reader, "clusters, links and apps");
    let known = &["apiVersion", "kind", "metadata", "spec"];
    fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
    let Some(mut fields) = spec.and_then(|spec| spec.fields(reader)) else { return };
    if let Some(clusters) = fields.take("clusters") {
        clusters.list(reader).iter().for_each(|cluster| read_cluster(cluster, reader));
    }
    if let Some(links) = fields.take("links") {
        links.dropped(reader, "links between sites are measured, not declared");
    }
    let mut places: BTreeMap<String, Span> = BTreeMap::new();
    match fields.take("apps") {
        Some(list) => {
            for field in list.list(reader) {
                reader.begin_app(apps.len());
                let Some((app, place)) = read_app(&field, &head, reader) else { continue };
                let name = app.metadata.name.clone().unwrap_or_default();
                if let Some(first) = places.get(&name) {
                    let message = format!("two apps would be named {name:?}");
                    reader
                        .error("duplicate", &field.path, place, message)
                        .expecting("a name of its own for each app")
                        .see(*first, "first here");
                    continue;
                }
                places.insert(name, place);
                apps.push(app);
            }
        }
        None => {
            let message = "there are no apps in this orchestration, so nothing is to be run";
            reader.warning("no-app", fields.path(), fields.span(), message).expecting("apps");
        }
    }
    fields.finish(Rest::Foreign { known: &["clusters", "links", "apps"], dropped: &[] }, reader);
}

fn read_cluster(field: &Field<'_>, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    for key in CLUSTER {
        // The note speaks of the cluster as a whole.
        let _ = fields.take(key);
    }
    field.dropped(reader, NO_CLUSTERS);
    fields.finish(Rest::Foreign { known: CLUSTER, dropped: &[] }, reader);
}

/// The App, and where its name stands.
fn read_app(field: &Field<'_>, head: &Head<'_>, reader: &mut Reader<'_>) -> Option<(App, Span)> {
    let mut fields = field.fields(reader)?;
    if !field.may_copy(head.bytes(), reader) {
        return None;
    }
    reader.origin("metadata", field.node.span);
    reader.origin("spec", field.node.span);
    let name_field = fields.need("name", reader, "the name of the app");
    let name = name_field.as_ref().and_then(|name| name.object_name(reader));
    let mut head = head.clone();
    if let Some(owner) = fields.take("owner")
        && let Some(text) = owner.text(reader)
    {
        owner.changed(reader, &format!("kept as the annotation {ANNOTATION_OWNER}"));
        head.annotate(ANNOTATION_OWNER, text);
    }
    let cluster = fields.take("cluster");
    let list = fields.need("components", reader, "the parts of the app, at least one");
    let mut components = Vec::new();
    let mut home_counts = false;
    for component in list.map(|list| list.list(reader)).unwrap_or_default() {
        let context = Context {
            app: name.as_deref(),
            namespace: head.namespace(),
            cluster: cluster.as_ref(),
        };
        home_counts |= component.node.get("cluster-selector").is_none();
        components.extend(read_component(&component, components.len(), &context, reader));
    }
    if let Some(cluster) = &cluster
        && !home_counts
    {
        cluster.dropped(reader, "each component says its own cluster");
    }
    fields.finish(Rest::Foreign { known: APP, dropped: APP_DROPPED }, reader);
    let spec = AppSpec { components, ..AppSpec::default() };
    Some((head.app(&name?, spec), name_field?.node.span))
}

/// What a component takes from its app.
#[derive(Clone, Copy, Debug)]
struct Context<'c, 'a> {
    app: Option<&'c str>,
    namespace: Option<&'c str>,
    cluster: Option<&'c Field<'a>>,
}

fn read_component(
    field: &Field<'_>,
    index: usize,
    context: &Context<'_, '_>,
    reader: &mut Reader<'_>,
) -> Option<Component> {
    let mut fields = field.fields(reader)?;
    let path = format!("spec.components[{index}]");
    reader.origin(&path, field.node.span);
    let name = fields.need("name", reader, "the name of the component");
    let mut component = Component::default();
    let mut container = Container::default();
    if let Some(name) = &name {
        name.origin(reader, format!("{path}.name"));
        component.name = name.label(reader).unwrap_or_default();
    }
    let selector = fields.take("cluster-selector");
    if let Some(site) = selector.as_ref().or(context.cluster)
        && let Some(site_name) = site.object_name(reader)
    {
        site.origin(reader, format!("{path}.needs.sites"));
        if selector.is_some() {
            site.assumed(reader, "a cluster is the site of the same name");
        }
        component.needs = Some(Needs { sites: vec![site_name], ..Needs::default() });
    }
    if let Some(image) = fields.need("image", reader, "the container image, such as nginx:1.27") {
        image.origin(reader, format!("{path}.run"));
        container.image = image.text(reader).unwrap_or_default();
    }
    let exposed = fields.take("expose");
    let exposed = exposed.map(|list| list.at_most(list.list(reader), EXPOSED_MAX, reader));
    for expose in exposed.unwrap_or_default() {
        if let Some(expose) = read_expose(&expose, reader) {
            if !container.ports.contains(&expose.port) {
                container.ports.push(expose.port);
            }
            component.expose.push(expose);
        }
    }
    if let Some(env) = fields.take("env") {
        read_environment(&env, &component.name, &path, context, &mut container, reader);
    }
    if let Some(tls) = fields.take("tls") {
        read_tls(&tls, reader);
    }
    fields.finish(Rest::Foreign { known: COMPONENT, dropped: COMPONENT_DROPPED }, reader);
    component.run = vec![Run { container: Some(container), ..Run::default() }];
    (!component.name.is_empty()).then_some(component)
}

fn read_expose(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Expose> {
    let mut fields = field.fields(reader)?;
    let mut expose = Expose::default();
    if let Some(public) = fields.take("is-public") {
        expose.public = public.boolean(reader).unwrap_or_default();
    }
    if let Some(peered) = fields.take("is-peered") {
        // Components of an App reach each other from every site, so only a no is lost.
        if peered.boolean(reader) == Some(false) {
            peered.dropped(reader, "a port cannot be kept from the other sites of the App");
        }
    }
    let port = fields.need("containerPort", reader, "the port that the component listens on");
    let service = fields.take("clusterPort");
    if let Some(name) = fields.take("name") {
        expose.name = name.label(reader);
    }
    if let Some(word) = fields.take("protocol") {
        expose.protocol = word.one_of(reader, PROTOCOLS).unwrap_or_default();
    }
    fields.finish(Rest::Foreign { known: EXPOSE, dropped: &[] }, reader);
    expose.port = port?.port(reader)?;
    // A Service of a cluster has its own address, a node has each port once: two components with one
    // clusterPort could not share a node.
    if let Some(service) = service
        && let Some(called) = service.port(reader)
        && called != expose.port
    {
        let how = format!("others call it at its own port, {}", expose.port);
        service.changed(reader, &how);
    }
    Some(expose)
}

fn read_environment(
    field: &Field<'_>,
    component: &str,
    path: &str,
    context: &Context<'_, '_>,
    container: &mut Container,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    let secret =
        fields.take("is-secret").and_then(|field| field.boolean(reader)).unwrap_or_default();
    let variables = fields.take("variables");
    fields.finish(Rest::Foreign { known: &["is-secret", "variables"], dropped: &[] }, reader);
    let mut values = BTreeMap::new();
    for variable in variables.map(|list| list.list(reader)).unwrap_or_default() {
        let Some((name, value)) = read_variable(&variable, reader) else { continue };
        reader.origin(environment_path(path, &name), variable.node.span);
        values.insert(name, value);
    }
    let (true, Some(app)) = (secret, context.app) else {
        container.env = values;
        return;
    };
    if values.is_empty() {
        return;
    }
    let name = format!("{app}-{component}-env");
    field.changed(reader, &format!("the values are in the Secret {name}"));
    container.secret_env = values
        .keys()
        .map(|key| (key.clone(), KeyRef { name: name.clone(), key: key.clone() }))
        .collect();
    let mut object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name}, "stringData": values,
    });
    if let Some(namespace) = context.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    reader.other(object);
}

fn read_variable(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<(String, String)> {
    let mut fields = field.fields(reader)?;
    let name = fields.need("name", reader, "the name of the variable");
    let value = fields.take("value").and_then(|value| value.text(reader));
    fields.finish(Rest::Foreign { known: &["name", "value"], dropped: &[] }, reader);
    Some((name?.text(reader)?, value.unwrap_or_default()))
}

fn read_tls(field: &Field<'_>, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    for key in ["name", "certificate", "key"] {
        if let Some(field) = fields.take(key) {
            field.dropped(reader, "a port cannot be given a certificate of its own");
        }
    }
    let known = &["name", "certificate", "key"];
    fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
}
