//! Plain Kubernetes manifests, many documents: workloads become components, Services become
//! `expose`, and where one component's environment names the Service of another, `connects`.
//! Called through the table of formats; ICOS descriptors and CodecoApps take [`pod::pod`].
//!
//! A component gets two ways to run. First `manifests`: the objects as they are, together with the
//! Services, ConfigMaps and claims that belong to them, for Kubernetes sites. Then, if the pod is
//! one plain container, the same as a `container`, for all other sites. What a container cannot say
//! is in [`crate::beyond`]. Start with [`read`].

pub(crate) mod assemble;
pub(crate) mod container;
mod expand;
mod kept;
mod leads;
pub(crate) mod pod;
mod probes;
pub(crate) mod scheduling;
mod security;
pub(crate) mod service;
mod volumes;
pub(crate) mod workload;

use tombolo_model::App;
use tombolo_yaml::Node;

use crate::fields::Field;
use crate::kubernetes::assemble::File;
use crate::reader::Reader;

pub(crate) use expand::{escape, expand};

/// On a workload that a writer of ours made from a container: the container is all there is, the
/// manifests need not be kept.
pub(crate) const ANNOTATION_RUN: &str = "tombolo.dev/run";
pub(crate) const LABEL_NAME: &str = "app.kubernetes.io/name";
pub(crate) const LABEL_PART_OF: &str = "app.kubernetes.io/part-of";

/// Reads the documents as one App for each namespace that has workloads.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let mut objects = Vec::new();
    for document in documents {
        let root = Field::document(document);
        if root.node.is_null() {
            continue;
        }
        // People put objects away in a text: `--- >+`.
        if root.node.as_str().is_some() {
            root.dropped(reader, "this document is a text, and no object");
            continue;
        }
        match root.node.get("kind").and_then(Node::as_str) {
            Some(kind) if kind.ends_with("List") && root.node.get("items").is_some() => {
                let Some(mut fields) = root.fields(reader) else { continue };
                objects.extend(fields.take_list("items", reader));
            }
            Some(_) | None => objects.push(root),
        }
    }
    let mut apps = Vec::new();
    for (number, group) in by_namespace(objects).into_iter().enumerate() {
        reader.begin_app(number);
        let mut file = File::default();
        group.into_iter().for_each(|root| file.sort_in(root, reader));
        apps.extend(file.into_app(None, documents, reader));
    }
    apps
}

/// The objects by their namespaces, in the order of the text. A namespace without a workload is none of
/// its own: what is in it goes with the first that has one.
fn by_namespace(objects: Vec<Field<'_>>) -> Vec<Vec<Field<'_>>> {
    let mut groups: Vec<(Option<&str>, Vec<Field<'_>>)> = Vec::new();
    for object in objects {
        let namespace = object.node.at(&["metadata", "namespace"]).and_then(Node::as_str);
        match groups.iter_mut().find(|(known, _)| *known == namespace) {
            Some((_, group)) => group.push(object),
            None => groups.push((namespace, vec![object])),
        }
    }
    let runs = |group: &[Field<'_>]| {
        let mut kinds = group.iter().map(|object| object.node.get("kind").and_then(Node::as_str));
        kinds.any(|kind| kind.is_some_and(workload::is_workload))
    };
    let (mut running, rest): (Vec<_>, Vec<_>) =
        groups.into_iter().map(|(_, group)| group).partition(|group| runs(group));
    match running.first_mut() {
        Some(first) => first.extend(rest.into_iter().flatten()),
        None => running.push(rest.into_iter().flatten().collect()),
    }
    running
}
