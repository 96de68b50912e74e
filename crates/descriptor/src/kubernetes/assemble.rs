//! The objects of one file put together to an App: which Service leads to which workload, which
//! ConfigMap belongs to whom, who calls whom.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tombolo_model::component::{Affinity, Component, Expose, Preference};
use tombolo_model::needs::Needs;
use tombolo_model::run::{Container, Run};
use tombolo_model::{App, AppSpec};
use tombolo_yaml::Node;

use crate::beyond::foreign;
use crate::fields::{Field, Rest};
use crate::kubernetes::container::text_map;
use crate::kubernetes::kept::{WRITTEN_BY_CLUSTER, cleaned, keep_one_replica, named_objects};
use crate::kubernetes::leads::{Leads, leads};
use crate::kubernetes::pod::{Nearness, Objects, Pod};
use crate::kubernetes::scheduling::Selector;
use crate::kubernetes::service::{self, Service};
use crate::kubernetes::workload::{self, Workload};
use crate::kubernetes::{LABEL_PART_OF, service::ingress_backends};
use crate::mentions::{self, Host, Said};
use crate::reader::{Reader, dashed};

/// As many as an App may have components; the names of each are held against all others.
const WORKLOADS_MAX: usize = 512;

/// A longer text is a file that somebody put into a variable.
const TOLD_BYTES_MAX: usize = 400;

/// The objects of a file, sorted.
#[derive(Debug, Default)]
pub(crate) struct File<'a> {
    workloads: Vec<Field<'a>>,
    services: Vec<Service<'a>>,
    ingresses: Vec<Field<'a>>,
    /// ConfigMaps and claims by name.
    configs: BTreeMap<String, Field<'a>>,
    claims: BTreeMap<String, Field<'a>>,
    /// Any other kind.
    rest: Vec<(String, Field<'a>)>,
    objects: Objects,
    namespaces: BTreeSet<String>,
}

impl<'a> File<'a> {
    pub(crate) fn sort_in(&mut self, root: Field<'a>, reader: &mut Reader<'_>) {
        let Some(mut fields) = root.fields(reader) else { return };
        let Some(kind) = fields.need("kind", reader, "Deployment, Service, ConfigMap, …") else {
            return;
        };
        fields.need("apiVersion", reader, "the group and version of the kind, such as apps/v1");
        let name = fields
            .need("metadata", reader, "a mapping with the name")
            .and_then(|metadata| self.read_metadata(&metadata, reader));
        let (Some(kind), Some(name)) = (kind.str(reader), name) else { return };
        match kind {
            "Service" => {
                let spec = fields.need("spec", reader, "ports and a selector");
                let found = spec.and_then(|spec| service::read(&root, name, &spec, reader));
                self.services.extend(found);
            }
            "ConfigMap" => {
                let entries = fields.take("data").map(|data| text_map(&data, reader));
                if let Some(binary) = fields.take("binaryData") {
                    binary.dropped(reader, "only texts become files of a container");
                }
                fields.take("immutable");
                fields.take("metadata");
                fields.finish(
                    foreign(&["apiVersion", "binaryData", "data", "immutable", "kind", "metadata"]),
                    reader,
                );
                self.objects.configs.insert(name.clone(), entries.unwrap_or_default());
                reader.other(cleaned(root.node));
                self.configs.insert(name, root);
            }
            "Secret" => {
                let mut keys = BTreeSet::new();
                for part in ["data", "stringData"] {
                    let entries = fields.take(part).map(|data| data.pairs(reader));
                    keys.extend(entries.unwrap_or_default().into_iter().map(|(key, _)| key));
                }
                for key in ["immutable", "type"] {
                    fields.take(key);
                }
                let known =
                    ["apiVersion", "data", "immutable", "kind", "metadata", "stringData", "type"];
                fields.finish(foreign(&known), reader);
                self.objects.secrets.insert(name, keys);
                reader.other(cleaned(root.node));
            }
            "PersistentVolumeClaim" => {
                if let Some((name, size)) = workload::read_claim(&root, reader) {
                    self.objects.claims.insert(name.clone(), size);
                    self.claims.insert(name, root);
                }
            }
            "Namespace" => {
                let why = "the App says which namespace it lives in";
                root.head().dropped(reader, why);
                if let Some(metadata) = fields.take("metadata") {
                    metadata.dropped(reader, why);
                }
                fields.finish(Rest::Dropped(why), reader);
            }
            "Ingress" => self.ingresses.push(root),
            kind if workload::is_workload(kind) => self.workloads.push(root),
            kind => self.rest.push((kind.to_owned(), root.clone())),
        }
    }

    fn read_metadata(&mut self, metadata: &Field<'a>, reader: &mut Reader<'_>) -> Option<String> {
        let mut fields = metadata.fields(reader)?;
        if let Some(namespace) = fields.take("namespace").and_then(|name| name.text(reader)) {
            self.namespaces.insert(namespace);
        }
        for key in WRITTEN_BY_CLUSTER {
            if let Some(field) = fields.take(key) {
                field.dropped(reader, "it is written by the cluster");
            }
        }
        let named = workload::name_of(&mut fields, reader);
        if let Some(begin) = named.as_ref().and_then(|named| named.drawn_from.as_ref()) {
            begin.changed(
                reader,
                "the App is named by this beginning; a cluster would add letters to it",
            );
        }
        for key in ["annotations", "finalizers", "labels", "ownerReferences"] {
            fields.take(key);
        }
        let known = ["annotations", "finalizers", "generateName", "labels", "name", "namespace"];
        fields.finish(foreign(&known), reader);
        Some(named?.name)
    }

    /// The App of this name, or else of the name that its workloads suggest.
    pub(crate) fn into_app(
        self,
        name: Option<String>,
        documents: &[Node],
        reader: &mut Reader<'_>,
    ) -> Option<App> {
        if self.workloads.len() > WORKLOADS_MAX
            && let Some(first) = documents.first()
        {
            let message = format!("there are {} workloads", self.workloads.len());
            Field::document(first)
                .error(reader, "too-many", message)
                .expecting(format!("{WORKLOADS_MAX} at most: an App has no more components"));
            return None;
        }
        let mut workloads = Vec::new();
        for root in &self.workloads {
            workloads.extend(workload::workload(root, &self.objects, reader));
        }
        if workloads.is_empty() {
            if let Some(first) = documents.first().filter(|_| !reader.has_errors()) {
                Field::document(first)
                    .error(reader, "nothing-runs", "there is no workload among these objects")
                    .expecting(
                        "a Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob or Pod",
                    );
            }
            return None;
        }
        let leads = leads(&self.services, &workloads);
        let names = self.names(&workloads, &leads, reader);
        let labels: Vec<(String, BTreeMap<String, String>)> = names
            .iter()
            .zip(&workloads)
            .map(|(name, workload)| (name.clone(), workload.labels.clone()))
            .collect();
        let hosts = self.hosts(&workloads, &names, &leads);
        let public: Vec<String> = self.ingresses.iter().flat_map(ingress_backends).collect();
        let app_name = name.unwrap_or_else(|| app_name(&workloads, reader));
        let mut spec = AppSpec::default();
        for (index, (workload, name)) in workloads.into_iter().zip(names).enumerate() {
            reader.origin(format!("spec.components[{index}]"), workload.root.node.span);
            let services = leads.to[index].iter().map(|number| &self.services[*number]);
            let services = services.collect();
            let around = Around { services, public: &public, labels: &labels, hosts: &hosts };
            let component = self.component(workload, name, &around, reader);
            spec.components.push(component);
        }
        self.tell_unmatched(&leads, reader);
        self.keep_rest(&mut spec, reader);
        let mut app = App::new(&app_name, spec);
        let mut namespaces = self.namespaces.into_iter();
        app.metadata.namespace = namespaces.next();
        if namespaces.next().is_some()
            && let Some(first) = documents.first()
        {
            let kept = app.metadata.namespace.clone().unwrap_or_default();
            let what = format!("the objects are in several namespaces; the App is in {kept:?}");
            Field::document(first).assumed(reader, &what);
        }
        Some(app)
    }

    /// A component is called what others call it: like its workload, unless the only Service that
    /// leads to it has another name.
    fn names(
        &self,
        workloads: &[Workload<'a>],
        leads: &Leads,
        reader: &mut Reader<'_>,
    ) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (workload, leading) in workloads.iter().zip(&leads.to) {
            let leading = leading.iter().map(|number| &self.services[*number]);
            let name = match leading.collect::<Vec<_>>().as_slice() {
                [only]
                    if only.name != workload.name
                        && !names.contains(&only.name)
                        && !workloads.iter().any(|other| other.name == only.name) =>
                {
                    let how = format!(
                        "the component is named {:?} like its Service, because others call it that",
                        only.name
                    );
                    workload.root.head().changed(reader, &how);
                    only.name.clone()
                }
                _ => workload.name.clone(),
            };
            let path = workload.root.path.key("metadata").key("name");
            let span = workload.root.node.at(&["metadata", "name"]).map(|name| name.span);
            let label = reader.label(&name, &path, span.unwrap_or_default());
            names.push(label.unwrap_or(name));
        }
        names
    }

    /// Every name under which a component can be called.
    fn hosts(
        &self,
        workloads: &[Workload<'a>],
        names: &[String],
        leads: &Leads,
    ) -> BTreeMap<String, Host> {
        let mut hosts = BTreeMap::new();
        for (service, behind) in self.services.iter().zip(&leads.behind) {
            if let Some(first) = behind.first() {
                let ports = service.ways(&workloads[*first].pod.ports);
                let component = names[*first].clone();
                hosts.insert(service.name.clone(), Host { component, ports });
            }
        }
        hosts
    }

    fn component(
        &self,
        workload: Workload<'a>,
        name: String,
        around: &Around<'_, 'a>,
        reader: &mut Reader<'_>,
    ) -> Component {
        let mut component = Component { name, ..Component::default() };
        component.replicas = workload.replicas;
        component.stateful = workload.stateful;
        component.unavailable_max = workload.unavailable_max;
        let mut kept = vec![workload.root.node];
        for service in &around.services {
            if service.field.may_copy_node(service.field.node, reader) {
                kept.push(service.field.node);
            }
            for mut expose in service.expose(&workload.pod.ports, reader) {
                expose.public |= around.public.contains(&service.name);
                push_expose(&mut component.expose, expose);
            }
        }
        for port in workload.pod.ports.iter().filter(|port| port.host_port.is_some()) {
            let public = !port.host_alone;
            let (port, protocol, published) = (port.port, port.protocol, port.host_port);
            let expose = Expose { port, protocol, name: None, public, published };
            push_expose(&mut component.expose, expose);
        }
        let named = named_objects(workload.root.node);
        for objects in [&self.configs, &self.claims] {
            for object in named.iter().filter_map(|name| objects.get(*name)) {
                if object.may_copy_node(object.node, reader) {
                    kept.push(object.node);
                }
            }
        }
        let said = workload.pod.texts.iter();
        let said = said.map(|(variable, text)| Said { variable: variable.as_deref(), text });
        component.connects = mentions::connections(said, around.hosts, &component.name);
        for connection in &component.connects {
            let what = format!("it calls {:?}, whose name is in its environment", connection.to);
            workload.root.head().assumed(reader, &what);
        }
        let pod = workload.pod;
        component.affinity = affinity(&component, &pod, around.labels);
        component.prefers = prefers(&component.name, pod.prefers, &pod.rather, around.labels);
        let rather = pod.rather.iter().map(|(_, _, selector)| selector);
        for selector in pod.with.iter().chain(&pod.apart).chain(rather) {
            if !around.labels.iter().any(|(_, labels)| selector.matches(labels)) {
                selector.field.dropped(reader, "no component here has these labels");
            }
        }
        component.needs = (pod.needs != Needs::default()).then_some(pod.needs);
        component.health = pod.health;
        component.stop_grace = pod.stop_grace;
        if workload.keeps_manifests {
            let mut manifests: Vec<Value> = kept.into_iter().map(cleaned).collect();
            if let Some(own) = manifests.first_mut() {
                keep_one_replica(own);
            }
            component.run.push(Run { manifests, ..Run::default() });
        }
        if let Some(mut container) = pod.container {
            call_as_they_listen(&mut container, &workload.root, around.hosts, reader);
            component.run.push(Run { container: Some(container), ..Run::default() });
        }
        component
    }

    fn tell_unmatched(&self, leads: &Leads, reader: &mut Reader<'_>) {
        for (service, behind) in self.services.iter().zip(&leads.behind) {
            if behind.is_empty() {
                service.field.head().dropped(reader, "no workload here is behind this Service");
            }
        }
    }

    /// Objects of other kinds go with the first component, whose manifests they are then.
    fn keep_rest(&self, spec: &mut AppSpec, reader: &mut Reader<'_>) {
        let ingresses = self.ingresses.iter().map(|root| ("Ingress".to_owned(), root.clone()));
        for (kind, root) in self.rest.iter().cloned().chain(ingresses) {
            let first = spec.components.first_mut();
            let run = first.and_then(|first| {
                let way = first.run.iter_mut().find(|run| !run.manifests.is_empty())?;
                Some((first.name.clone(), way))
            });
            match run {
                Some((name, run)) => {
                    run.manifests.push(cleaned(root.node));
                    let what =
                        format!("this {kind} is applied with {name:?} on a Kubernetes site only");
                    root.head().assumed(reader, &what);
                }
                None => root.head().dropped(reader, "no component runs as manifests"),
            }
        }
    }
}

/// On other sites than clusters others are called at the ports that they listen on.
fn call_as_they_listen(
    container: &mut Container,
    root: &Field<'_>,
    hosts: &BTreeMap<String, Host>,
    reader: &mut Reader<'_>,
) {
    let mut said = BTreeSet::new();
    let words = container.command.iter_mut().chain(&mut container.args);
    for text in container.env.values_mut().chain(words) {
        if let Some(other) = mentions::as_they_listen(text, hosts)
            && root.may_copy(other.len(), reader)
        {
            said.insert(format!("{text:?} is {other:?}"));
            *text = other;
        }
    }
    for one in said.into_iter().filter(|one| one.len() <= TOLD_BYTES_MAX) {
        let how = format!("as a container, where no Service leads from port to port, {one}");
        root.head().changed(reader, &how);
    }
}

/// What a component needs to know of the others.
struct Around<'s, 'a> {
    /// The Services that lead to it.
    services: Vec<&'s Service<'a>>,
    /// The names of the Services that an Ingress opens.
    public: &'s [String],
    labels: &'s [(String, BTreeMap<String, String>)],
    hosts: &'s BTreeMap<String, Host>,
}

fn push_expose(list: &mut Vec<Expose>, expose: Expose) {
    let same = |known: &&mut Expose| known.port == expose.port && known.protocol == expose.protocol;
    match list.iter_mut().find(same) {
        Some(known) => {
            known.public |= expose.public;
            known.published = known.published.or(expose.published);
            known.name = known.name.take().or(expose.name);
        }
        None => list.push(expose),
    }
}

fn affinity(
    component: &Component,
    pod: &Pod<'_>,
    labels: &[(String, BTreeMap<String, String>)],
) -> Option<Affinity> {
    let (spread, skew) = pod.spreading(component.replicas);
    let chosen = |selectors: &[Selector<'_>]| {
        let matches = |labels| selectors.iter().any(|selector| selector.matches(labels));
        let names = labels.iter().filter(|(_, labels)| matches(labels));
        names.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let apart = chosen(&pod.apart);
    let not_itself = |name: &String| *name != component.name && !apart.contains(name);
    let with = chosen(&pod.with).into_iter().filter(not_itself).collect();
    let affinity = Affinity { with, apart, spread, skew };
    (affinity != Affinity::default()).then_some(affinity)
}

/// Its wishes, those that speak of other pods with the names of their components.
fn prefers(
    own_name: &str,
    mut prefers: Vec<Preference>,
    rather: &[(u32, Nearness, Selector<'_>)],
    labels: &[(String, BTreeMap<String, String>)],
) -> Vec<Preference> {
    for (weight, nearness, selector) in rather {
        let chosen = labels.iter().filter(|(_, labels)| selector.matches(labels));
        let names = chosen.map(|(name, _)| name.clone()).collect();
        prefers.extend(nearness.wish(*weight, names, own_name));
    }
    prefers
}

fn app_name(workloads: &[Workload<'_>], reader: &mut Reader<'_>) -> String {
    let part_of = workloads.iter().find_map(|workload| {
        let path = ["metadata", "labels", LABEL_PART_OF];
        workload.root.node.at(&path).and_then(Node::as_str)
    });
    let Some(first) = workloads.first() else { return String::new() };
    let is_set = workloads.len() > 1 && reader.has_several_texts();
    let folder = reader.folder().filter(|_| is_set).map(|folder| dashed(&folder));
    let folder = folder.filter(|folder| !folder.is_empty());
    let name = part_of.or(folder.as_deref()).unwrap_or(&first.name);
    if part_of.is_none() && workloads.len() > 1 {
        let like = if folder.is_some() { "folder" } else { "first workload" };
        let what = format!(
            "the App is named {name:?} like its {like}; the label {LABEL_PART_OF} would name it"
        );
        first.root.head().assumed(reader, &what);
    }
    reader.origin("metadata.name", first.root.node.span);
    let path = first.root.path.key("metadata").key("name");
    reader.label(name, &path, first.root.key_span).unwrap_or_else(|| name.to_owned())
}
