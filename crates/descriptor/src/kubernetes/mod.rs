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

/// Reads the documents of one text as one App.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let mut file = File::default();
    for document in documents {
        let root = Field::document(document);
        if root.node.is_null() {
            continue;
        }
        match root.node.get("kind").and_then(Node::as_str) {
            Some(kind) if kind.ends_with("List") && root.node.get("items").is_some() => {
                let Some(mut fields) = root.fields(reader) else { continue };
                for item in fields.take_list("items", reader) {
                    file.sort_in(item, reader);
                }
            }
            Some(_) | None => file.sort_in(root, reader),
        }
    }
    file.into_app(None, documents, reader).into_iter().collect()
}
