//! The kinds that run pods: Deployment, StatefulSet, DaemonSet, ReplicaSet and the older
//! ReplicationController, Job, CronJob, Pod. Each
//! is a row in [`KINDS`]; whatever a row does not take stays in the manifests.

use std::collections::BTreeMap;

use tombolo_model::quantity::Bytes;
use tombolo_yaml::Node;

use crate::beyond::{Beyond, Keep, foreign};
use crate::fields::{Field, Fields};
use crate::kubernetes::ANNOTATION_RUN;
use crate::kubernetes::container::text_map;
use crate::kubernetes::pod::{Objects, Pod, pod_with_claims};
use crate::reader::Reader;

/// More than a component may have.
const REPLICAS_MAX: u32 = 10_000;

/// A workload as a component, still without its Services.
#[derive(Debug)]
pub(crate) struct Workload<'a> {
    pub(crate) root: Field<'a>,
    pub(crate) name: String,
    /// The labels of its pods, by which Services and affinities find it.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) pod: Pod<'a>,
    pub(crate) replicas: Option<u32>,
    pub(crate) stateful: bool,
    pub(crate) unavailable_max: Option<u32>,
    /// Whether the manifests are a way to run it.
    pub(crate) keeps_manifests: bool,
}

/// What is particular about a kind.
struct Kind {
    name: &'static str,
    /// The way from the object to its pod template; empty for a Pod.
    template: &'static [&'static str],
    stateful: bool,
    /// What a component does otherwise, when a container would not do the same.
    only_there: Option<&'static str>,
    /// Keys of the spec that mean something within the cluster only.
    kept: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "Deployment",
        template: &["template"],
        stateful: false,
        only_there: None,
        kept: &["minReadySeconds", "paused", "progressDeadlineSeconds", "revisionHistoryLimit"],
    },
    Kind {
        name: "StatefulSet",
        template: &["template"],
        stateful: true,
        only_there: None,
        kept: &[
            "minReadySeconds",
            "ordinals",
            "persistentVolumeClaimRetentionPolicy",
            "podManagementPolicy",
            "revisionHistoryLimit",
            "serviceName",
            "updateStrategy",
        ],
    },
    Kind {
        name: "DaemonSet",
        template: &["template"],
        stateful: false,
        only_there: None,
        kept: &["minReadySeconds", "revisionHistoryLimit", "updateStrategy"],
    },
    Kind {
        name: "ReplicaSet",
        template: &["template"],
        stateful: false,
        only_there: None,
        kept: &["minReadySeconds"],
    },
    Kind {
        name: "ReplicationController",
        template: &["template"],
        stateful: false,
        only_there: None,
        kept: &["minReadySeconds"],
    },
    Kind { name: "Pod", template: &[], stateful: false, only_there: None, kept: &[] },
    Kind {
        name: "Job",
        template: &["template"],
        stateful: false,
        only_there: Some("a Job ends, while a container is started again and again"),
        kept: &[
            "activeDeadlineSeconds",
            "backoffLimit",
            "backoffLimitPerIndex",
            "completionMode",
            "completions",
            "managedBy",
            "manualSelector",
            "maxFailedIndexes",
            "parallelism",
            "podFailurePolicy",
            "podReplacementPolicy",
            "successPolicy",
            "suspend",
            "ttlSecondsAfterFinished",
        ],
    },
    Kind {
        name: "CronJob",
        template: &["jobTemplate", "spec", "template"],
        stateful: false,
        only_there: Some("a CronJob runs on a schedule, a container all the time"),
        kept: &[
            "concurrencyPolicy",
            "failedJobsHistoryLimit",
            "jobTemplate",
            "schedule",
            "startingDeadlineSeconds",
            "successfulJobsHistoryLimit",
            "suspend",
            "timeZone",
        ],
    },
];

/// Whether a kind runs pods.
pub(crate) fn is_workload(kind: &str) -> bool {
    KINDS.iter().any(|known| known.name == kind)
}

/// Reads a workload; nothing if it is none, or has no name or no pod.
pub(crate) fn workload<'a>(
    root: &Field<'a>,
    objects: &Objects,
    reader: &mut Reader<'_>,
) -> Option<Workload<'a>> {
    let mut top = root.fields(reader)?;
    let kind_name = top.take("kind")?.str(reader)?;
    let kind = KINDS.iter().find(|known| known.name == kind_name)?;
    top.take("apiVersion");
    let metadata = top.need("metadata", reader, "a mapping with the name")?;
    let name = name_of(&mut metadata.fields(reader)?, reader)?.name;
    let ours = metadata.node.at(&["annotations", ANNOTATION_RUN]).and_then(Node::as_str);
    let keep = match ours {
        Some("container") => Keep::Never,
        Some(_) | None => Keep::Always,
    };
    let spec = top.need("spec", reader, "what shall run")?;
    if let Some(status) = top.take("status") {
        status.dropped(reader, "a status is written by the cluster");
    }
    top.finish(foreign(&["apiVersion", "kind", "metadata", "spec", "status"]), reader);

    let mut fields = spec.fields(reader)?;
    let mut read = Workload {
        root: root.clone(),
        name,
        labels: BTreeMap::new(),
        pod: Pod::default(),
        replicas: None,
        stateful: kind.stateful,
        unavailable_max: None,
        keeps_manifests: keep == Keep::Always,
    };
    if kind.template.is_empty() {
        drop(fields.take_rest());
        read.labels = labels_of(&metadata, reader);
        read.pod = pod_with_claims(&spec, objects, &BTreeMap::new(), keep, reader);
        return Some(read);
    }
    read.read_spec(kind, &mut fields, objects, keep, reader)?;
    let taken = ["replicas", "selector", "strategy", "template", "volumeClaimTemplates"];
    let known: Vec<&str> = taken.into_iter().chain(kind.kept.iter().copied()).collect();
    fields.finish(foreign(&known), reader);
    Some(read)
}

/// What an object is called.
#[derive(Debug)]
pub(super) struct Named<'a> {
    pub(super) name: String,
    /// The beginning of a name, to which a cluster would add letters.
    pub(super) drawn_from: Option<Field<'a>>,
}

/// Takes the name from an object's metadata.
pub(super) fn name_of<'a>(fields: &mut Fields<'a>, reader: &mut Reader<'_>) -> Option<Named<'a>> {
    let has_name = fields.peek("name").is_some();
    match fields.take("generateName").filter(|_| !has_name) {
        Some(begin) => {
            let name = begin.text(reader)?.trim_end_matches('-').to_owned();
            Some(Named { name, drawn_from: Some(begin) })
        }
        None => {
            let name = fields.need("name", reader, "the name of the object")?.text(reader)?;
            Some(Named { name, drawn_from: None })
        }
    }
}

impl<'a> Workload<'a> {
    fn read_spec(
        &mut self,
        kind: &Kind,
        fields: &mut Fields<'a>,
        objects: &Objects,
        keep: Keep,
        reader: &mut Reader<'_>,
    ) -> Option<()> {
        if let Some(replicas) = fields.take("replicas") {
            self.replicas = replicas.count(reader, REPLICAS_MAX);
            if keep == Keep::Always && self.replicas.is_some_and(|count| count != 1) {
                let how =
                    "the component counts the instances; each runs the manifests with one pod";
                replicas.changed(reader, how);
            }
        }
        fields.take("selector");
        if let Some(strategy) = fields.take("strategy") {
            let path = ["rollingUpdate", "maxUnavailable"];
            let most = strategy.node.at(&path).and_then(Node::raw);
            self.unavailable_max = most.and_then(|most| most.parse().ok());
            if keep == Keep::Never && self.unavailable_max.is_none() {
                strategy.dropped(reader, "instances are updated one after the other");
            }
        }
        let claims = fields.take("volumeClaimTemplates");
        let claims = claims.map(|claims| read_claims(&claims, reader)).unwrap_or_default();
        let template = take_template(kind, fields, reader)?;
        for key in kind.kept {
            if let Some(kept) = fields.take(key)
                && keep == Keep::Never
            {
                kept.dropped(reader, "it only means something within a cluster");
            }
        }
        let mut inner = template.fields(reader)?;
        if let Some(metadata) = inner.take("metadata") {
            self.labels = labels_of(&metadata, reader);
        }
        let spec = inner.need("spec", reader, "the containers of the pod")?;
        inner.finish(foreign(&["metadata", "spec"]), reader);
        self.pod = pod_with_claims(&spec, objects, &claims, keep, reader);
        match kind.only_there {
            Some(why) => {
                let mut beyond = Beyond::new(keep, "Kubernetes");
                beyond.major(&self.root.head(), why);
                if !beyond.tell(reader) {
                    self.pod.container = None;
                }
            }
            None if kind.name == "DaemonSet" => {
                let how = "on each node of the chosen Kubernetes site; anywhere else one instance \
                           runs, use onEach for more";
                self.root.head().changed(reader, how);
            }
            None => (),
        }
        Some(())
    }
}

/// The pod template; for a CronJob it lies deeper.
fn take_template<'a>(
    kind: &Kind,
    fields: &mut Fields<'a>,
    reader: &mut Reader<'_>,
) -> Option<Field<'a>> {
    let (first, rest) = kind.template.split_first()?;
    let mut found = fields.need(first, reader, "the template of the pods")?;
    for key in rest {
        // What else a job template says stays in the manifests.
        let mut inner = found.fields(reader)?;
        found = inner.need(key, reader, "the template of the pods")?;
        drop(inner.take_rest());
    }
    Some(found)
}

fn labels_of(metadata: &Field<'_>, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let Some(mut fields) = metadata.fields(reader) else { return BTreeMap::new() };
    let labels = fields.take("labels");
    // All other metadata stays in the manifests.
    drop(fields.take_rest());
    labels.map(|labels| text_map(&labels, reader)).unwrap_or_default()
}

/// The claims of a StatefulSet: name and size.
fn read_claims(list: &Field<'_>, reader: &mut Reader<'_>) -> BTreeMap<String, Option<Bytes>> {
    let mut claims = BTreeMap::new();
    for claim in list.list(reader) {
        if let Some((name, size)) = read_claim(&claim, reader) {
            claims.insert(name, size);
        }
    }
    claims
}

/// Name and size of a PersistentVolumeClaim. The rest of it speaks of a cluster's storage and is
/// kept in the manifests.
pub(super) fn read_claim(
    claim: &Field<'_>,
    reader: &mut Reader<'_>,
) -> Option<(String, Option<Bytes>)> {
    let name = claim.node.at(&["metadata", "name"]).and_then(Node::as_str)?.to_owned();
    let mut top = claim.fields(reader)?;
    let size = top.take("spec").and_then(|spec| {
        let resources = spec.fields(reader)?.take("resources")?;
        let requests = resources.fields(reader)?.take("requests")?;
        requests.fields(reader)?.take("storage")?.bytes(reader)
    });
    Some((name, size))
}
