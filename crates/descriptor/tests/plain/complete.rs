//! Notes are complete: each key that a format knows is either in what was made of the text, or in
//! the notes. A key is in it when taking the key away changes it. The files in `complete/` have
//! every key; for the kinds of Kubernetes the API's own types say so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use k8s_openapi::api::apps::v1::{DaemonSetSpec, DeploymentSpec, ReplicaSetSpec, StatefulSetSpec};
use k8s_openapi::api::batch::v1::{CronJobSpec, JobSpec};
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMap, Container, ContainerPort, EnvVarSource, PersistentVolumeClaimSpec,
    PodSecurityContext, PodSpec, Probe, Secret, SecurityContext, ServicePort, ServiceSpec,
    Toleration, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::{HTTPIngressPath, IngressRule, IngressSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{DeserializeOwned, Deserializer, Visitor, value};
use serde_json::{Value, json};
use tombolo_descriptor::{Files, Reading, Source, read};

use crate::files;

fn load(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plain/complete");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let (documents, problems) = tombolo_yaml::documents(&text, &tombolo_yaml::Limits::default());
    assert!(problems.is_empty(), "{problems:?}");
    documents[0].to_json()
}

/// What the container says again, and then the pod's word does not count.
const SHADOWED: &[&str] = &[
    "spec.template.spec.securityContext.runAsGroup",
    "spec.template.spec.securityContext.runAsUser",
];

/// Every scalar below `start` counts, and there may be no errors.
#[track_caller]
fn check(document: &Value, start: &str, all: &dyn Files) {
    let reading = |value: &Value| {
        let text = value.to_string();
        read(Source { name: "complete.json", text: &text }, None, all)
    };
    let whole = reading(document);
    assert_eq!(whole.diagnostics, [], "in {document:#}");
    let mut silent = Vec::new();
    for (path, pointer) in leaves(document) {
        if !path.starts_with(start) || is_told(&whole, &path) || SHADOWED.contains(&path.as_str()) {
            continue;
        }
        let mut without = document.clone();
        remove(&mut without, &pointer);
        let less = reading(&without);
        // A key that is missed without it counts as well.
        let same = less.diagnostics == whole.diagnostics;
        if same && less.apps == whole.apps && less.others == whole.others {
            silent.push(path);
        }
    }
    assert!(silent.is_empty(), "nobody tells of {silent:#?}");
}

/// Whether a note speaks of a place or of what holds it.
fn is_told(reading: &Reading, path: &str) -> bool {
    reading.notes.iter().any(|note| {
        let rest = path.strip_prefix(note.path.as_str());
        !note.path.is_empty()
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// The way to every scalar, as notes write it and as a JSON pointer.
fn leaves(document: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![(String::new(), String::new(), document)];
    while let Some((path, pointer, value)) = waiting.pop() {
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    let path = match (path.as_str(), key.chars().all(plain)) {
                        ("", _) => key.clone(),
                        (path, true) => format!("{path}.{key}"),
                        (path, false) => format!("{path}[{key}]"),
                    };
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    waiting.push((path, format!("{pointer}/{escaped}"), value));
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    waiting.push((format!("{path}[{index}]"), format!("{pointer}/{index}"), value));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                found.push((path, pointer));
            }
        }
    }
    found
}

fn remove(document: &mut Value, pointer: &str) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let key = last.replace("~1", "/").replace("~0", "~");
    match document.pointer_mut(parent).unwrap() {
        Value::Object(entries) => drop(entries.remove(&key)),
        Value::Array(items) => drop(items.remove(key.parse().unwrap())),
        other => panic!("{other} holds nothing"),
    }
}

/// The keys of a type of the Kubernetes API: it names them to whoever reads one.
fn keys_of<T: DeserializeOwned>() -> BTreeSet<String> {
    struct Names(std::cell::RefCell<BTreeSet<String>>);
    impl<'de> Deserializer<'de> for &Names {
        type Error = value::Error;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
            Err(serde::de::Error::custom("only its keys are asked for"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, value::Error> {
            self.0.borrow_mut().extend(fields.iter().map(|field| (*field).to_owned()));
            self.deserialize_any(visitor)
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let names = Names(std::cell::RefCell::default());
    assert!(T::deserialize(&names).is_err());
    names.0.into_inner()
}

/// The value at a pointer has every key of the type, together with the other places.
#[track_caller]
fn has_every_key<T: DeserializeOwned>(document: &Value, pointers: &[&str]) {
    let keys = pointers.iter().flat_map(|pointer| {
        let value = document.pointer(pointer);
        let object = value.and_then(Value::as_object).unwrap_or_else(|| panic!("no {pointer}"));
        object.keys().cloned()
    });
    let found: BTreeSet<String> = keys.collect();
    let wanted = keys_of::<T>();
    let missing: Vec<&String> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "{pointers:?} lack {missing:?}");
    assert!(!wanted.is_empty());
}

/// The pod of the complete Deployment.
const POD: &str = "/spec/template/spec";

#[test]
fn every_key_of_a_pod_is_carried_or_told() {
    let document = load("deployment.yaml");
    let at = |rest: &str| format!("{POD}{rest}");
    has_every_key::<DeploymentSpec>(&document, &["/spec"]);
    has_every_key::<PodSpec>(&document, &[POD]);
    has_every_key::<Container>(&document, &[&at("/containers/0")]);
    has_every_key::<ContainerPort>(&document, &[&at("/containers/0/ports/0")]);
    has_every_key::<SecurityContext>(&document, &[&at("/containers/0/securityContext")]);
    has_every_key::<PodSecurityContext>(&document, &[&at("/securityContext")]);
    let probes = ["/containers/0/livenessProbe", "/containers/0/readinessProbe"].map(at);
    let startup = at("/containers/0/startupProbe");
    has_every_key::<Probe>(&document, &[&probes[0], &probes[1], &startup]);
    has_every_key::<VolumeMount>(
        &document,
        &[&at("/containers/0/volumeMounts/0"), &at("/containers/0/volumeMounts/1")],
    );
    has_every_key::<Affinity>(&document, &[&at("/affinity")]);
    has_every_key::<Toleration>(&document, &[&at("/tolerations/0"), &at("/tolerations/1")]);
    has_every_key::<TopologySpreadConstraint>(&document, &[&at("/topologySpreadConstraints/0")]);
    let count = document.pointer(&at("/volumes")).unwrap().as_array().unwrap().len();
    let volumes: Vec<String> = (0..count).map(|index| at(&format!("/volumes/{index}"))).collect();
    let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
    has_every_key::<Volume>(&document, &volumes);
    let sources: Vec<String> =
        (0..4).map(|index| at(&format!("/containers/0/env/{index}/valueFrom"))).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    has_every_key::<EnvVarSource>(&document, &sources);

    check(&document, "", &files(&[]));
    // Once more without the manifests, in which everything is.
    let mut bare = document;
    bare["metadata"]["annotations"] = json!({"tombolo.dev/run": "container"});
    check(&bare, "spec.template.spec", &files(&[]));
}

#[test]
fn every_key_of_the_other_workloads_is_carried_or_told() {
    let template = json!({
        "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"image": "i:1"}]},
    });
    let specs = [
        ("StatefulSet", "apps/v1", keys_of::<StatefulSetSpec>()),
        ("DaemonSet", "apps/v1", keys_of::<DaemonSetSpec>()),
        ("ReplicaSet", "apps/v1", keys_of::<ReplicaSetSpec>()),
        ("Job", "batch/v1", keys_of::<JobSpec>()),
        ("CronJob", "batch/v1", keys_of::<CronJobSpec>()),
    ];
    for (kind, version, keys) in specs {
        let mut document = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {},
        });
        for key in keys {
            document["spec"][&key] = match key.as_str() {
                "template" => template.clone(),
                "jobTemplate" => json!({"spec": {"template": template}}),
                "selector" => json!({"matchLabels": {"app": "a"}}),
                "volumeClaimTemplates" => json!([{"metadata": {"name": "v"}, "spec": {}}]),
                _ => json!(1),
            };
        }
        check(&document, "", &files(&[]));
    }
}

#[test]
fn every_key_of_a_service_is_carried_or_told() {
    let service = load("service.yaml");
    has_every_key::<ServiceSpec>(&service["items"][1], &["/spec"]);
    has_every_key::<ServicePort>(&service["items"][1], &["/spec/ports/0"]);
    check(&service, "items", &files(&[]));
}

#[test]
fn every_key_of_what_stands_beside_a_workload_is_carried_or_told() {
    let beside = load("beside.yaml");
    has_every_key::<ObjectMeta>(&beside["items"][0], &["/metadata"]);
    has_every_key::<ConfigMap>(&beside["items"][1], &[""]);
    has_every_key::<Secret>(&beside["items"][2], &[""]);
    has_every_key::<PersistentVolumeClaimSpec>(&beside["items"][3], &["/spec"]);
    has_every_key::<IngressSpec>(&beside["items"][5], &["/spec"]);
    has_every_key::<IngressRule>(&beside["items"][5], &["/spec/rules/0"]);
    has_every_key::<HTTPIngressPath>(&beside["items"][5], &["/spec/rules/0/http/paths/0"]);
    check(&beside, "items", &files(&[]));
}

#[test]
fn every_key_of_a_selective_deployment_is_carried_or_told() {
    for start in ["metadata", "spec", "status"] {
        check(&load("edgenet.yaml"), start, &files(&[]));
    }
}

/// The keys of a service in the compose specification.
const SERVICE: &[&str] = &[
    "annotations",
    "attach",
    "blkio_config",
    "build",
    "cap_add",
    "cap_drop",
    "cgroup",
    "cgroup_parent",
    "command",
    "configs",
    "container_name",
    "cpu_count",
    "cpu_percent",
    "cpu_period",
    "cpu_quota",
    "cpu_rt_period",
    "cpu_rt_runtime",
    "cpu_shares",
    "cpus",
    "cpuset",
    "credential_spec",
    "depends_on",
    "deploy",
    "develop",
    "device_cgroup_rules",
    "devices",
    "dns",
    "dns_opt",
    "dns_search",
    "domainname",
    "driver_opts",
    "entrypoint",
    "env_file",
    "environment",
    "expose",
    "extends",
    "external_links",
    "extra_hosts",
    "gpus",
    "group_add",
    "healthcheck",
    "hostname",
    "image",
    "init",
    "ipc",
    "isolation",
    "label_file",
    "labels",
    "links",
    "logging",
    "mac_address",
    "mem_limit",
    "mem_reservation",
    "mem_swappiness",
    "memswap_limit",
    "models",
    "network_mode",
    "networks",
    "oom_kill_disable",
    "oom_score_adj",
    "pid",
    "pids_limit",
    "platform",
    "ports",
    "post_start",
    "pre_stop",
    "privileged",
    "profiles",
    "provider",
    "pull_policy",
    "pull_refresh_after",
    "read_only",
    "restart",
    "runtime",
    "scale",
    "secrets",
    "security_opt",
    "shm_size",
    "stdin_open",
    "stop_grace_period",
    "stop_signal",
    "storage_opt",
    "sysctls",
    "tmpfs",
    "tty",
    "ulimits",
    "use_api_socket",
    "user",
    "userns_mode",
    "uts",
    "volumes",
    "volumes_from",
    "working_dir",
];

/// Each key stands alone in its service: beside one that a container cannot say, all are kept.
#[test]
fn every_key_of_a_compose_file_is_carried_or_told() {
    let document = load("compose.yaml");
    let all = files(&[("a.env", "A=1"), ("./secret", "s"), ("./config", "c")]);
    check(&document, "", &all);
    let services = document["services"].as_object().unwrap();
    let found: BTreeSet<&str> = services
        .values()
        .flat_map(|service| service.as_object().unwrap().keys().map(String::as_str))
        .collect();
    let missing: Vec<&&str> = SERVICE.iter().filter(|key| !found.contains(**key)).collect();
    assert!(missing.is_empty(), "no service has {missing:?}");
}
