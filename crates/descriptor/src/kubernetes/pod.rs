//! A pod as a component: one container with its environment, files and volumes, what it needs of a
//! node, whom it wants near, how to tell whether it is well. Called by the readers of Kubernetes
//! manifests, ICOS descriptors and CodecoApps; start with [`pod`].
//!
//! Every key of a PodSpec has a row: taken here, or in [`UNSAID`] with the reason why a container
//! does without it or cannot be had without it.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::component::{Health, Preference, Spread};
use tombolo_model::needs::Needs;
use tombolo_model::quantity::{Bytes, Duration};
use tombolo_model::run::Container;
use tombolo_yaml::Value;

use crate::beyond::{Beyond, Keep, foreign};
use crate::fields::{Field, Fields};
use crate::kubernetes::container::{self, PodPort};
use crate::kubernetes::scheduling::{self, Selector};
use crate::kubernetes::security;
use crate::kubernetes::volumes::Volumes;
use crate::reader::Reader;

/// What a pod is as a component.
#[derive(Debug, Default)]
pub(crate) struct Pod<'a> {
    /// The same as a plain container; nothing when a container cannot say it and it is kept in
    /// its own words.
    pub(crate) container: Option<Container>,
    pub(crate) needs: Needs,
    pub(crate) health: Option<Health>,
    pub(crate) stop_grace: Option<Duration>,
    /// The ports of all its containers.
    pub(crate) ports: Vec<PodPort>,
    /// Pods that it wants to share a site with.
    pub(crate) with: Vec<Selector<'a>>,
    /// Pods that it must not share a node with.
    pub(crate) apart: Vec<Selector<'a>>,
    pub(crate) spread: Option<Spread>,
    /// By how many two of what it is spread over may differ; one for each if nothing.
    pub(crate) skew: Option<u32>,
    /// Over how many it must be spread at least (`minDomains`).
    pub(crate) domains: Option<u32>,
    /// What it would like, as far as it needs no other component to be said.
    pub(crate) prefers: Vec<Preference>,
    /// Pods that it would rather be with, or away from, with how much that counts.
    pub(crate) rather: Vec<(u32, Nearness, Selector<'a>)>,
    /// Variables with their values and words of its command line, in which names of other services may
    /// stand; see [`crate::mentions`].
    pub(crate) texts: Vec<(Option<String>, String)>,
}

impl Pod<'_> {
    /// Over what so many of it are spread, and by how many two may differ: with as many domains as pods each has one
    /// at most.
    pub(crate) fn spreading(&self, replicas: Option<u32>) -> (Option<Spread>, Option<u32>) {
        let is_one_each = self.skew == Some(1) && self.domains >= Some(replicas.unwrap_or(1));
        (self.spread, self.skew.filter(|_| !is_one_each))
    }
}

/// Whether other pods draw a pod or keep it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    With,
    Apart,
}

impl Nearness {
    /// The wish that a component `own` has about components with these names, if there are any.
    pub(crate) fn wish(self, weight: u32, mut names: Vec<String>, own: &str) -> Option<Preference> {
        let wish = Preference { weight, ..Preference::default() };
        let wish = match self {
            Nearness::With => {
                // Its instances are at a site with themselves anyway.
                names.retain(|name| name != own);
                Preference { with: names, ..wish }
            }
            Nearness::Apart => Preference { apart: names, ..wish },
        };
        (!wish.with.is_empty() || !wish.apart.is_empty()).then_some(wish)
    }
}

/// The other objects of a file that a pod may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// The entries of each ConfigMap.
    pub(crate) configs: BTreeMap<String, BTreeMap<String, String>>,
    /// The names of the entries of each Secret.
    pub(crate) secrets: BTreeMap<String, BTreeSet<String>>,
    /// The size of each PersistentVolumeClaim, as far as it is given.
    pub(crate) claims: BTreeMap<String, Option<Bytes>>,
}

/// More than any pod has; the ports of each are held against those of the others.
const CONTAINERS_MAX: usize = 256;

/// How much a key that a container cannot say matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matters {
    Little,
    /// Unless it says no: `false`, an empty list, the default.
    Much,
    /// It means nothing elsewhere, and the program mostly runs without it: told in any case.
    Told,
    /// It is about the place.
    Placing,
}

/// A key that a container cannot say, how much that matters, and what to tell about it.
pub(crate) type Unsaid = (&'static str, Matters, &'static str);

const UNSAID: &[Unsaid] = &[
    ("activeDeadlineSeconds", Matters::Much, "a container has no deadline"),
    ("automountServiceAccountToken", Matters::Little, "there is no service account"),
    ("dnsConfig", Matters::Much, "a container cannot choose its name servers"),
    ("dnsPolicy", Matters::Little, "names are resolved as the site does it"),
    ("enableServiceLinks", Matters::Little, "no variables are made from Services"),
    ("ephemeralContainers", Matters::Little, "they are for looking into a running pod"),
    ("hostAliases", Matters::Much, "a container has no host aliases"),
    ("hostIPC", Matters::Much, "a container cannot share the host's inter-process communication"),
    ("hostNetwork", Matters::Much, "a container cannot use the host's network"),
    ("hostPID", Matters::Much, "a container cannot see the host's processes"),
    ("hostUsers", Matters::Little, "user namespaces are the engine's choice"),
    ("hostname", Matters::Much, "a container cannot choose its host name"),
    ("imagePullSecrets", Matters::Little, "a site's engine logs in to its registries itself"),
    ("initContainers", Matters::Much, "a container has no init containers"),
    ("os", Matters::Little, "nodes run Linux"),
    ("overhead", Matters::Little, "the engine's own share is not counted"),
    ("preemptionPolicy", Matters::Placing, "importance is the App's qos"),
    ("priority", Matters::Placing, "importance is the App's qos"),
    ("priorityClassName", Matters::Placing, "importance is the App's qos"),
    ("readinessGates", Matters::Little, "readiness is the health check's"),
    ("resourceClaims", Matters::Much, "a container cannot claim devices dynamically"),
    ("resources", Matters::Little, "what each container asks for is counted"),
    ("restartPolicy", Matters::Little, "an instance that ends is started again"),
    ("runtimeClassName", Matters::Much, "a container cannot choose its runtime"),
    ("schedulerName", Matters::Little, "the node is chosen by the engine's own scheduler"),
    ("schedulingGates", Matters::Placing, "there is nothing that opens a gate"),
    ("serviceAccount", Matters::Told, "outside of a cluster there is no service account"),
    ("serviceAccountName", Matters::Told, "outside of a cluster there is no service account"),
    ("setHostnameAsFQDN", Matters::Much, "a container cannot choose its host name"),
    ("shareProcessNamespace", Matters::Much, "a container cannot share its processes"),
    ("subdomain", Matters::Much, "a container cannot choose its host name"),
];

/// Reads a PodSpec.
pub(crate) fn pod<'a>(
    spec: &Field<'a>,
    objects: &Objects,
    keep: Keep,
    reader: &mut Reader<'_>,
) -> Pod<'a> {
    pod_with_claims(spec, objects, &BTreeMap::new(), keep, reader)
}

/// Reads the PodSpec of a StatefulSet, whose claims count as volumes of the pod.
pub(crate) fn pod_with_claims<'a>(
    spec: &Field<'a>,
    objects: &Objects,
    claims: &BTreeMap<String, Option<Bytes>>,
    keep: Keep,
    reader: &mut Reader<'_>,
) -> Pod<'a> {
    let mut pod = Pod::default();
    let Some(mut fields) = spec.fields(reader) else { return pod };
    let mut beyond = Beyond::new(keep, "Kubernetes");
    let volumes = Volumes::read(fields.take("volumes"), claims, objects, reader);
    let who = fields
        .take("securityContext")
        .and_then(|context| security::of_pod(&context, &mut beyond, reader))
        .unwrap_or_default();
    if let Some(grace) = fields.take("terminationGracePeriodSeconds") {
        pod.stop_grace = grace.integer(reader, 0..=i64::from(u32::MAX)).map(seconds);
    }
    scheduling::read(&mut fields, &mut pod, &beyond, reader);
    let mut first = None;
    if let Some(containers) = fields.take("containers") {
        let all = containers.at_most(containers.list(reader), CONTAINERS_MAX, reader);
        for (index, one) in all.into_iter().enumerate() {
            let context = container::Context { objects, volumes: &volumes, who: &who };
            if index == 1 {
                beyond.major(&containers, "a component is one container, and this pod has several");
            }
            let read = container::read(&one, &context, &mut pod, &mut beyond, reader);
            first = first.or(read);
        }
        if containers.node.as_list().is_some_and(|list| list.is_empty()) {
            containers.error(reader, "container-missing", "a pod needs at least one container");
        }
    } else {
        fields.missing(reader, "containers", "the containers of the pod");
    }
    unsaid(&mut fields, UNSAID, &mut beyond, reader);
    fields.finish(foreign(&known()), reader);
    volumes.tell_unused(&mut beyond);
    if beyond.tell(reader) {
        pod.container = first;
    }
    pod
}

/// Takes every key of the table, and tells about it as the table says.
pub(crate) fn unsaid<'a>(
    fields: &mut Fields<'a>,
    table: &'static [Unsaid],
    beyond: &mut Beyond<'a>,
    reader: &mut Reader<'_>,
) {
    for (key, matters, why) in table {
        let Some(field) = fields.take(key) else { continue };
        match matters {
            Matters::Little => beyond.minor(&field, why),
            Matters::Much if says_no(&field) => beyond.minor(&field, why),
            Matters::Much => beyond.major(&field, why),
            Matters::Told if says_no(&field) => beyond.minor(&field, why),
            Matters::Told => field.dropped(reader, why),
            Matters::Placing => beyond.placing(&field, why, reader),
        }
    }
}

/// Whether a value is what would hold without it.
fn says_no(field: &Field) -> bool {
    let node = field.node;
    let says_false = matches!(node.value, Value::Bool(false));
    let empty_list = node.as_list().is_some_and(|items| items.is_empty());
    let empty_map = node.as_map().is_some_and(|entries| entries.is_empty());
    let text_says_no = matches!(node.as_str(), Some("" | "default"));
    node.is_null() || says_false || empty_list || empty_map || text_says_no
}

pub(crate) fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

const TAKEN: &[&str] = &[
    "affinity",
    "containers",
    "nodeName",
    "nodeSelector",
    "securityContext",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

fn known() -> Vec<&'static str> {
    TAKEN.iter().copied().chain(UNSAID.iter().map(|(key, _, _)| *key)).collect()
}
