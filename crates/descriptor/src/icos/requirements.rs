//! What a component asks of a node: what its header says, and where that says nothing, the sum of
//! what its manifests ask for.

use tombolo_model::component::{Component, OnEach};
use tombolo_model::needs::Needs;
use tombolo_model::{Bytes, Cpu};
use tombolo_yaml::Node;

use super::ENTRIES_MAX;
use super::manifests::{Engine, Manifest};
use crate::fields::{Field, Rest};
use crate::reader::Reader;

const KNOWN: &[&str] = &["cpu", "memory", "architecture", "devices", "nodelabel"];

/// Resources of Kubernetes that are no devices although their names have a prefix.
const GPU: &str = "nvidia.com/gpu";

/// Reads the component's own requirements, and the application's for what those leave out.
pub(super) fn read<'a>(
    component: &mut Component,
    own: Option<&Field<'a>>,
    whole: Option<&Field<'a>>,
    at: &str,
    reader: &mut Reader<'_>,
) {
    if let Some(own) = own {
        read_one(component, own, at, reader);
    }
    if let Some(whole) = whole
        && whole.may_copy_node(whole.node, reader)
    {
        read_one(component, whole, at, reader);
    }
}

fn read_one(component: &mut Component, field: &Field<'_>, at: &str, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    let needs = component.needs.get_or_insert_default();
    if let Some(field) = fields.take("cpu") {
        let cpu = field.cpu(reader);
        field.origin(reader, format!("{at}.needs.cpu"));
        needs.cpu = needs.cpu.or(cpu);
    }
    if let Some(field) = fields.take("memory") {
        let memory = field.bytes(reader);
        field.origin(reader, format!("{at}.needs.memory"));
        needs.memory = needs.memory.or(memory);
    }
    if let Some(field) = fields.take_any(&["architecture", "arch"]) {
        let named = field.list_or_one(reader);
        let archs: Vec<_> = named.iter().filter_map(|field| field.arch(reader)).collect();
        if needs.arch.is_empty() {
            needs.arch = archs;
            needs.arch.dedup();
        }
    }
    if let Some(field) = fields.take("devices") {
        field.origin(reader, format!("{at}.needs.devices"));
        for device in field.list_or_one(reader) {
            let names = device.str(reader).unwrap_or_default();
            for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                add_device(needs, name);
            }
        }
    }
    if let Some(field) = fields.take("nodelabel") {
        read_label(component, &field, at, reader);
    }
    fields.finish(Rest::Foreign { known: KNOWN, dropped: &[] }, reader);
}

fn read_label(component: &mut Component, field: &Field<'_>, at: &str, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    let key = fields.need("key", reader, "the key of a node label").and_then(|field| {
        field.origin(reader, format!("{at}.needs.labels"));
        field.origin(reader, format!("{at}.onEach.label"));
        field.text(reader)
    });
    let mut values = Vec::new();
    match fields.take_any(&["values", "value"]) {
        Some(field) => {
            field.origin(reader, format!("{at}.onEach.values"));
            let listed = field.list_or_one(reader);
            values.extend(listed.iter().filter_map(|field| field.text(reader)));
        }
        None => {
            fields.missing(reader, "values", "the values of the label that will do");
        }
    }
    fields.finish(Rest::Foreign { known: &["key", "values"], dropped: &[] }, reader);
    let Some(label) = key else { return };
    let needs = component.needs.get_or_insert_default();
    match values.as_slice() {
        [] => (),
        [value] => {
            needs.labels.entry(label).or_insert_with(|| value.clone());
        }
        [_, _, ..] if component.on_each.is_none() => {
            component.on_each = Some(OnEach { label, values });
        }
        [_, _, ..] => {
            field.dropped(reader, "the component has a label with several values already")
        }
    }
}

fn add_device(needs: &mut Needs, name: &str) {
    if needs.devices.len() < ENTRIES_MAX && !needs.devices.iter().any(|device| device == name) {
        needs.devices.push(name.to_owned());
    }
}

/// What one manifest, or several, ask for.
#[derive(Clone, Debug, Default)]
struct Sum {
    cpu_millis: u64,
    memory_bytes: u64,
    gpus: u64,
    devices: Vec<String>,
}

impl Sum {
    fn add(&mut self, other: &Sum, times: u64) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis.saturating_mul(times));
        self.memory_bytes =
            self.memory_bytes.saturating_add(other.memory_bytes.saturating_mul(times));
        self.gpus = self.gpus.saturating_add(other.gpus.saturating_mul(times));
        self.devices.extend(other.devices.iter().cloned());
    }

    fn at_least(&mut self, other: &Sum) {
        self.cpu_millis = self.cpu_millis.max(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.gpus = self.gpus.max(other.gpus);
        self.devices.extend(other.devices.iter().cloned());
    }
}

/// Fills in what the header leaves out. Of a component that has manifests for both engines the
/// larger sum counts: either may be chosen.
pub(super) fn add_up(
    component: &mut Component,
    manifests: &[Manifest<'_>],
    at: &str,
    reader: &mut Reader<'_>,
) {
    let mut kubernetes = Sum::default();
    let mut docker = Sum::default();
    for manifest in manifests {
        match manifest.engine {
            Engine::Kubernetes => kubernetes.add(&of_object(&manifest.content, reader), 1),
            Engine::Docker => docker.add(&of_project(&manifest.content, reader), 1),
        }
    }
    let mut sum = kubernetes;
    sum.at_least(&docker);
    let mut needs = component.needs.take().unwrap_or_default();
    if needs.cpu.is_none() && sum.cpu_millis > 0 {
        needs.cpu = Some(Cpu::from_millis(sum.cpu_millis));
    }
    if needs.memory.is_none() && sum.memory_bytes > 0 {
        needs.memory = Some(Bytes::new(sum.memory_bytes));
    }
    if needs.gpu.is_none() && sum.gpus > 0 {
        needs.gpu = Some(u32::try_from(sum.gpus).unwrap_or(u32::MAX));
    }
    for device in &sum.devices {
        add_device(&mut needs, device);
    }
    if let Some(first) = manifests.first() {
        reader.origin(format!("{at}.needs"), first.content.key_span);
    }
    component.needs = (needs != Needs::default()).then_some(needs);
}

/// What the Pods of a Kubernetes object ask for, all of them together.
fn of_object(object: &Field<'_>, reader: &mut Reader<'_>) -> Sum {
    let (pod, count) = match object.node.get("kind").and_then(Node::as_str) {
        Some("Pod") => (object.look(&["spec"]), None),
        Some("Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController") => {
            (object.look(&["spec", "template", "spec"]), object.look(&["spec", "replicas"]))
        }
        Some("Job") => {
            (object.look(&["spec", "template", "spec"]), object.look(&["spec", "parallelism"]))
        }
        Some("DaemonSet") => (object.look(&["spec", "template", "spec"]), None),
        Some("CronJob") => {
            (object.look(&["spec", "jobTemplate", "spec", "template", "spec"]), None)
        }
        Some(_) | None => (None, None),
    };
    let Some(pod) = pod else { return Sum::default() };
    let count = count.and_then(|field| field.count(reader, 10_000)).unwrap_or(1);
    let mut together = Sum::default();
    for container in containers(&pod, "containers") {
        together.add(&of_container(&container, reader), 1);
    }
    // Containers that run before the others need their room at another time.
    for container in containers(&pod, "initContainers") {
        together.at_least(&of_container(&container, reader));
    }
    let mut sum = Sum::default();
    sum.add(&together, u64::from(count));
    sum
}

fn containers<'a>(pod: &Field<'a>, key: &str) -> Vec<Field<'a>> {
    pod.look(&[key]).map(|field| field.look_through()).unwrap_or_default()
}

fn of_container(container: &Field<'_>, reader: &mut Reader<'_>) -> Sum {
    let mut sum = Sum::default();
    let asked = |resource: &str| {
        let request = container.look(&["resources", "requests", resource]);
        request.or_else(|| container.look(&["resources", "limits", resource]))
    };
    sum.cpu_millis = asked("cpu").and_then(|field| field.cpu(reader)).map_or(0, Cpu::millis);
    sum.memory_bytes = asked("memory").and_then(|field| field.bytes(reader)).map_or(0, Bytes::get);
    sum.gpus = asked(GPU).and_then(|field| field.count(reader, 1024)).map_or(0, u64::from);
    for part in ["limits", "requests"] {
        let resources = container.look(&["resources", part]);
        let entries = resources.as_ref().and_then(|field| field.node.as_map()).unwrap_or_default();
        let devices = entries.iter().map(|(key, _)| &key.text);
        let devices = devices.filter(|name| name.contains('/') && name.as_str() != GPU);
        sum.devices.extend(devices.cloned());
    }
    sum
}

/// What the services of a compose project ask for, all of them together.
fn of_project(project: &Field<'_>, reader: &mut Reader<'_>) -> Sum {
    let mut sum = Sum::default();
    let services = project.look(&["services"]);
    let entries = services.as_ref().and_then(|field| field.node.as_map()).unwrap_or_default();
    let path = services.as_ref().map(|field| field.path.clone()).unwrap_or_default();
    for (key, node) in entries {
        let service = Field { node, path: path.key(&key.text), key_span: key.span };
        let count = service.look(&["deploy", "replicas"]).or_else(|| service.look(&["scale"]));
        let count = count.and_then(|field| field.count(reader, 10_000)).unwrap_or(1);
        sum.add(&of_service(&service, reader), u64::from(count));
    }
    sum
}

fn of_service(service: &Field<'_>, reader: &mut Reader<'_>) -> Sum {
    let asked = |resource: &str, old: &str| {
        let reserved = service.look(&["deploy", "resources", "reservations", resource]);
        let limited =
            reserved.or_else(|| service.look(&["deploy", "resources", "limits", resource]));
        limited.or_else(|| service.look(&[old]))
    };
    let cpu = asked("cpus", "cpus").and_then(|field| field.cpu(reader));
    let memory = asked("memory", "mem_limit").and_then(|field| {
        // Compose counts in powers of two and writes `200M` or `200mb` for it.
        field.quantity_as::<Bytes>(reader, compose_bytes)
    });
    Sum {
        cpu_millis: cpu.map_or(0, Cpu::millis),
        memory_bytes: memory.map_or(0, Bytes::get),
        ..Sum::default()
    }
}

/// `200M`, `200mb`, `1g` as compose means them.
fn compose_bytes(written: &str) -> String {
    let number = written.trim().trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = written.trim()[number.len()..].to_ascii_lowercase();
    match unit.trim_end_matches('b') {
        "" => number.to_owned(),
        "k" => format!("{number}Ki"),
        "m" => format!("{number}Mi"),
        "g" => format!("{number}Gi"),
        "t" => format!("{number}Ti"),
        _ => written.to_owned(),
    }
}
