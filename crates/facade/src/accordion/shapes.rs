//! Nodes in the shapes of ACCORDION, for `GET /characterization?format=json|tosca`. Called by
//! [`super::characterization`]; pure: a Node in, JSON or YAML out.
//!
//! There are two JSON shapes: a list of devices, which the resource index also queries
//! (`device.CPU.cores`), and a later one with a table for each topic. What a Node does not know is
//! the word `None` in the first and empty in the second, as there.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tombolo_model::characteristics::{Characteristics, Disk, Gpu};
use tombolo_model::site::Location;
use tombolo_model::{Arch, Bytes, Node};

const NOTHING: &str = "None";
const DEDICATED: &str = "Dedicated graphics processing";
/// Spelt as the agents of ACCORDION spell it: clients compare it.
const INTEGRATED: &str = "Intergated graphics processing";

/// One Node as an element of the list of devices.
pub(super) fn json(node: &Node) -> Value {
    let about = About::new(node);
    let what = about.what;
    let memory = what.memory.map_or(json!(NOTHING), |memory| json!(memory.get()));
    let battery = what.battery.as_ref().map_or(
        json!(NOTHING),
        |battery| json!({"percent": battery.level, "plugged": battery.charging}),
    );
    json!({"device": {
        "_id": {"$oid": about.object_id()},
        "device_name": about.name,
        "ip": about.address,
        "UUID": about.uuid,
        "RAM(bytes)": memory,
        "Battery": battery,
        "CPU": {
            "Arch": about.architecture(),
            "bits": about.bits(),
            "cores": about.cores().map_or(json!(NOTHING), |cores| json!(cores)),
            "model": what.cpu.as_ref().and_then(|cpu| cpu.model.as_deref()),
        },
        "GPU": what.gpus.first().map_or(json!(NOTHING), gpu),
        "OS": {"OS_name": "Linux", "OS_version": about.kernel()},
        "DISK": what.disks.iter().map(disk).collect::<Vec<_>>(),
        "K3s": {"node_role": ""},
        "Region": {
            "continent": about.place(|place| place.continent.as_ref()),
            "country": about.place(|place| place.country.as_ref()),
            "city": about.place(|place| place.city.as_ref()),
        },
    }})
}

/// All Nodes as the list of devices.
pub(super) fn json_of_all<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Value {
    Value::Array(nodes.into_iter().map(json).collect())
}

/// All Nodes in the later shape: a table for each topic, all values text. `timestamp` is in seconds
/// since 1970.
pub(super) fn json_by_topic<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
    timestamp: f64,
    minicloud: &str,
) -> Value {
    let mut topics: BTreeMap<&str, Vec<Value>> =
        TOPICS.iter().map(|name| (*name, vec![])).collect();
    for node in nodes {
        for (topic, rows) in rows(&About::new(node)) {
            topics.entry(topic).or_default().extend(rows);
        }
    }
    let mut answer = Map::new();
    answer.insert("timestamp".into(), json!(timestamp));
    answer.insert("minicloud_id".into(), json!(minicloud));
    answer.extend(topics.into_iter().map(|(name, rows)| (name.to_owned(), Value::Array(rows))));
    Value::Object(answer)
}

/// All Nodes as one TOSCA document, in the node types of ACCORDION's application models.
pub(super) fn tosca_of_all<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let mut text = String::from(
        "tosca_definitions_version: tosca_simple_yaml_1_2\n\n\
         description: Characterization of nodes\n\n\
         topology_template:\n",
    );
    let templates: String = nodes.into_iter().map(|node| template(&About::new(node))).collect();
    match templates.is_empty() {
        true => text.push_str("  node_templates: {}\n"),
        false => text.push_str(&format!("  node_templates:\n{templates}")),
    }
    text
}

const CPU: &str = "CPU Characterization";
const MEMORY: &str = "Memory Characterization";
const DISK: &str = "Disk Characterization";
const BATTERY: &str = "Battery Characterization";
const LOCATION: &str = "Location Characterization";
const OS: &str = "OS Characterization";
const GPU: &str = "GPU Characterization";
const TOPICS: &[&str] = &[CPU, MEMORY, DISK, BATTERY, LOCATION, OS, GPU];

/// A Node with what every shape asks of it.
struct About<'a> {
    name: &'a str,
    uuid: &'a str,
    address: &'a str,
    what: &'a Characteristics,
    location: Option<&'a Location>,
}

impl<'a> About<'a> {
    fn new(node: &'a Node) -> About<'a> {
        static NOTHING_KNOWN: Characteristics = Characteristics {
            uuid: None,
            model: None,
            vendor: None,
            cpu: None,
            memory: None,
            disks: Vec::new(),
            gpus: Vec::new(),
            os: None,
            battery: None,
            location: None,
            interfaces: Vec::new(),
            devices: Vec::new(),
            engines: Vec::new(),
            virtualization: None,
        };
        let status = node.status.as_ref();
        let what = status.and_then(|status| status.characteristics.as_ref());
        let what = what.unwrap_or(&NOTHING_KNOWN);
        let address = status.and_then(|status| status.addresses.first());
        About {
            name: node.metadata.name.as_deref().unwrap_or_default(),
            uuid: what.uuid.as_deref().unwrap_or_default(),
            address: address.map(String::as_str).unwrap_or_default(),
            what,
            // What people say of a machine goes before what it says itself.
            location: node.spec.location.as_ref().or(what.location.as_ref()),
        }
    }

    /// An id as their database gives: 24 hexadecimal digits.
    fn object_id(&self) -> String {
        self.uuid.chars().filter(char::is_ascii_hexdigit).take(24).collect()
    }

    fn arch(&self) -> Option<Arch> {
        self.what.cpu.as_ref()?.architecture
    }

    /// In the words of `uname`.
    fn architecture(&self) -> &'static str {
        match self.arch() {
            Some(Arch::Amd64) => "x86_64",
            Some(Arch::Arm64) => "aarch64",
            Some(Arch::Arm) => "armv7l",
            Some(Arch::X86) => "i686",
            Some(Arch::Riscv64) => "riscv64",
            Some(Arch::Ppc64le) => "ppc64le",
            Some(Arch::S390x) => "s390x",
            None => "unknown",
        }
    }

    fn bits(&self) -> &'static str {
        match self.arch() {
            Some(Arch::Arm | Arch::X86) => "32",
            Some(Arch::Amd64 | Arch::Arm64 | Arch::Riscv64 | Arch::Ppc64le | Arch::S390x) => "64",
            None => "unknown",
        }
    }

    /// What the operating system counts: threads.
    fn cores(&self) -> Option<u32> {
        self.what.cpu.as_ref().and_then(|cpu| cpu.threads.or(cpu.cores))
    }

    fn kernel(&self) -> &str {
        let kernel = self.what.os.as_ref().and_then(|os| os.kernel.as_deref());
        kernel.unwrap_or_default()
    }

    fn place(&self, part: impl Fn(&'a Location) -> Option<&'a String>) -> &'a str {
        self.location.and_then(part).map(String::as_str).unwrap_or_default()
    }

    fn disks_bytes(&self) -> u64 {
        let sizes = self.what.disks.iter().filter_map(|disk| disk.size).map(Bytes::get);
        sizes.fold(0, u64::saturating_add)
    }
}

/// A card with memory of its own, or of a maker who makes nothing else, is one by itself.
fn gpu_type(gpu: &Gpu) -> &'static str {
    let model = gpu.model.as_deref().unwrap_or_default();
    let card = model.starts_with("NVIDIA") && !model.contains("Tegra");
    if gpu.memory.is_some() || card { DEDICATED } else { INTEGRATED }
}

fn gpu(gpu: &Gpu) -> Value {
    json!({
        "GPU_name": gpu.model,
        "GPU_type": gpu_type(gpu),
        "GPU_video_memory(bytes)": gpu.memory.map_or(json!(NOTHING), |memory| json!(memory.get())),
        "unified_memory": if gpu_type(gpu) == DEDICATED { "no" } else { "yes" },
    })
}

fn disk(disk: &Disk) -> Value {
    json!({
        "device": format!("/dev/{}", disk.name),
        "fstype": NOTHING,
        "mountpoint": NOTHING,
        "type": disk.kind.map(|kind| kind.as_str()),
        "size(bytes)": disk.size.map(Bytes::get),
    })
}

/// The rows of one Node for each topic.
fn rows(about: &About<'_>) -> Vec<(&'static str, Vec<Value>)> {
    let what = about.what;
    let model = what.cpu.as_ref().and_then(|cpu| cpu.model.clone()).unwrap_or_default();
    let battery = what.battery.as_ref();
    let level = battery.and_then(|battery| battery.level).unwrap_or(0);
    let degrees = |part: fn(&Location) -> Option<f64>| text(about.location.and_then(part));
    vec![
        (
            CPU,
            vec![row(
                about,
                json!({
                    "node_cpu_arch": about.architecture(),
                    "node_cpu_bits": about.bits(),
                    "node_cpu_brand": model,
                    "node_cpu_cores": text(about.cores()),
                }),
            )],
        ),
        (
            MEMORY,
            vec![row(about, json!({"node_ram_total_bytes": text(what.memory.map(Bytes::get))}))],
        ),
        (DISK, vec![row(about, json!({"node_disk_total_size": about.disks_bytes().to_string()}))]),
        (
            BATTERY,
            vec![row(
                about,
                json!({
                    "node_battery_plugged": battery.is_some_and(|one| one.charging).to_string(),
                    "node_battery_percent": level.to_string(),
                }),
            )],
        ),
        (
            LOCATION,
            vec![row(
                about,
                json!({
                    "node_city": about.place(|place| place.city.as_ref()),
                    "node_continent": about.place(|place| place.continent.as_ref()),
                    "node_country": about.place(|place| place.country.as_ref()),
                    "node_latitude": degrees(|place| place.latitude),
                    "node_longitude": degrees(|place| place.longitude),
                }),
            )],
        ),
        (OS, vec![row(about, json!({"node_os_name": "Linux", "node_os_version": about.kernel()}))]),
        (GPU, gpu_rows(about)),
    ]
}

/// One row for each model.
fn gpu_rows(about: &About<'_>) -> Vec<Value> {
    let mut models: Vec<(&Gpu, usize)> = Vec::new();
    for gpu in &about.what.gpus {
        match models.iter_mut().find(|(known, _)| known.model == gpu.model) {
            Some((_, quantity)) => *quantity += 1,
            None => models.push((gpu, 1)),
        }
    }
    let rows = models.iter().enumerate().map(|(place, (gpu, quantity))| {
        row(
            about,
            json!({
                "node_gpu_model": gpu.model.clone().unwrap_or_default(),
                "node_gpu_type": gpu_type(gpu),
                "node_gpu_id": (place + 1).to_string(),
                "quantity": quantity.to_string(),
            }),
        )
    });
    rows.collect()
}

/// A row names its Node, whatever the topic.
fn row(about: &About<'_>, fields: Value) -> Value {
    let mut row = json!({
        "node_type": "Computer",
        "node_name": about.name,
        "node_uuid": about.uuid,
        "node_ip": about.address,
    });
    if let (Value::Object(row), Value::Object(fields)) = (&mut row, fields) {
        row.extend(fields);
    }
    row
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn template(about: &About<'_>) -> String {
    let what = about.what;
    let mut block = Block(String::new());
    block.line(4, &format!("{}:", quoted(about.name)));
    block.line(6, "type: tosca.nodes.Compute.EdgeNode");
    block.line(6, "properties:");
    block.field(8, "device_name", Some(about.name));
    block.field(8, "UUID", what.uuid.as_deref());
    block.field(8, "ip", Some(about.address).filter(|address| !address.is_empty()));
    block.field(8, "device_model", what.model.as_deref());
    if let Some(battery) = &what.battery {
        block.line(8, "battery:");
        block.field(10, "percent", battery.level);
        block.field(10, "plugged", Some(battery.charging));
    }
    if let Some(gpu) = what.gpus.first() {
        block.line(8, "gpu_model:");
        block.field(10, "model", gpu.model.as_deref());
        block.field(10, "dedicated", Some(gpu_type(gpu) == DEDICATED));
    }
    if let Some(place) = about.location.filter(|place| **place != Location::default()) {
        block.line(8, "geolocation:");
        block.field(10, "continent", place.continent.as_deref());
        block.field(10, "country", place.country.as_deref());
        block.field(10, "region", place.region.as_deref());
        block.field(10, "city", place.city.as_deref());
        block.field(10, "latitude", place.latitude);
        block.field(10, "longitude", place.longitude);
    }
    block.line(6, "capabilities:");
    block.line(8, "host:");
    block.line(10, "properties:");
    let frequency = what.cpu.as_ref().and_then(|cpu| cpu.frequency_mhz_max);
    block.field(12, "num_cpus", about.cores().unwrap_or(0));
    block.field(12, "cpu_frequency", frequency.map(|frequency| format!("{frequency} MHz")));
    block.field(12, "mem_size", what.memory.map(|memory| format!("{} B", memory.get())));
    block.field(12, "disk_size", format!("{} B", about.disks_bytes()));
    block.line(8, "os:");
    block.line(10, "properties:");
    block.field(12, "architecture", Some(about.architecture()));
    block.field(12, "type", Some("linux"));
    block.field(12, "distribution", what.os.as_ref().and_then(|os| os.name.as_deref()));
    block.field(12, "version", what.os.as_ref().and_then(|os| os.version.as_deref()));
    block.0
}

/// Lines of YAML. A text is written as JSON, which every YAML reader takes as it stands.
struct Block(String);

impl Block {
    fn line(&mut self, indent: usize, text: &str) {
        writeln!(self.0, "{:indent$}{text}", "").expect("writing to a String cannot fail");
    }

    /// Left out where there is no value.
    fn field(&mut self, indent: usize, name: &str, value: impl serde::Serialize) {
        match json!(value) {
            Value::Null => (),
            value => self.line(indent, &format!("{name}: {value}")),
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
