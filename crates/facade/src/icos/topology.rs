//! The taxonomy of the ICOS aggregator: clusters with nodes, as JSON. Both of its forms are read:
//! pods under the cluster, and pods under each node; pods themselves are of no interest here.
//! Called by `tombolo match`.
//!
//! Names stay as they are, also where our API would not take them: an answer must name what the
//! question named.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tombolo_model::characteristics::{
    Characteristics, Device, DeviceStatus, Disk, Gpu, Interface, Processor,
};
use tombolo_model::needs::Resources;
use tombolo_model::node::{Energy, Vulnerabilities};
use tombolo_model::site::Location;
use tombolo_model::{
    About, BitRate, Bytes, Cpu, Engine, Node, NodeSpec, NodeStatus, Site, SiteSpec, Trouble, keys,
};
use tombolo_placement::topology::Topology;

/// The aggregator of a large federation knows some thousand.
const NODES_MAX: usize = 100_000;
/// Devices or interfaces of one node.
const PARTS_MAX: usize = 256;

/// Reads a taxonomy. Whatever is missing in it is missing in the result; only a document of another
/// kind is an error.
pub fn read(document: &Value) -> Result<Topology, Trouble> {
    let Some(clusters) = document.get("cluster") else {
        let says = "it has no \"cluster\", so it is not the taxonomy of an ICOS aggregator";
        return Err(Trouble::new(About::Topology, says));
    };
    let Some(clusters) = clusters.as_object() else {
        return Err(Trouble::new(
            About::Topology,
            "\"cluster\" is not an object of clusters by id",
        ));
    };
    let mut topology = Topology::default();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (id, cluster) in clusters {
        let name = name_of(cluster, id);
        let engine = engine(cluster, &name, &mut topology.troubles);
        let spec = SiteSpec {
            engine,
            description: None,
            layer: None,
            location: location(&cluster["location"]),
            owner: None,
            trust: None,
            unschedulable: false,
            taints: Vec::new(),
            carbon_intensity: None,
            allow: None,
            probe_port: None,
            address: None,
        };
        topology.sites.push(Site::new(&name, spec));
        for (id, node) in cluster["node"].as_object().into_iter().flatten() {
            if topology.nodes.len() == NODES_MAX {
                let says = format!("only the first {NODES_MAX} nodes are used");
                topology.troubles.push(Trouble::new(About::Topology, says));
                return Ok(topology);
            }
            let mut own = name_of(node, id);
            if !taken.insert(own.clone()) {
                // Short ids are unique within a cluster only.
                own = format!("{name}{}{own}", if own.starts_with('.') { "" } else { "." });
                taken.insert(own.clone());
            }
            topology.nodes.push(read_node(&own, &name, node));
        }
    }
    Ok(topology)
}

fn name_of(value: &Value, id: &str) -> String {
    match value["name"].as_str() {
        Some(name) if !name.is_empty() => name.to_owned(),
        Some(_) | None => id.to_owned(),
    }
}

fn engine(cluster: &Value, name: &str, troubles: &mut Vec<Trouble>) -> Engine {
    match cluster["type"].as_str().map(str::to_lowercase).as_deref() {
        Some("ocm" | "kubernetes" | "k8s" | "k3s") | None => Engine::Kubernetes,
        Some("nuvla" | "docker" | "swarm") => Engine::Docker,
        Some("host" | "process" | "bare-metal") => Engine::Host,
        Some(other) => {
            let says = format!("its type {other:?} is unknown, it is taken as kubernetes");
            troubles.push(Trouble::new(About::Site(name.to_owned()), says));
            Engine::Kubernetes
        }
    }
}

fn read_node(name: &str, site: &str, value: &Value) -> Node {
    let spec = NodeSpec {
        site: site.to_owned(),
        location: location(&value["location"]),
        ..NodeSpec::default()
    };
    let mut node = Node::new(name, spec);
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for field in ["labels", "nodelabels", "nodeLabels"] {
        for (key, label) in value[field].as_object().into_iter().flatten() {
            labels.insert(key.clone(), text(label));
        }
    }
    labels.entry(keys::LABEL_SITE.to_owned()).or_insert_with(|| site.to_owned());
    node.metadata.labels = Some(labels);

    let fixed = &value["staticMetrics"];
    let moving = &value["dynamicMetrics"];
    let cpu = number(&fixed["cpuCores"]).map(|cores| Cpu::from_millis(whole(cores * 1000.0)));
    let memory = bytes(&fixed["RAMMemory"]);
    let storage = sum(&fixed["storage"], &["size", "capacity", "total"]);
    let gpus = gpus(fixed);
    node.status = Some(NodeStatus {
        capacity: Some(Resources {
            cpu,
            memory,
            storage,
            gpu: u32::try_from(gpus.len()).ok(),
            devices: BTreeMap::new(),
        }),
        allocatable: Some(Resources {
            cpu,
            memory: bytes(&moving["freeRAM"]).or(memory),
            storage: sum(&moving["availableStorage"], &["free"]).or(storage),
            ..Resources::default()
        }),
        characteristics: Some(Characteristics {
            uuid: value["uuid"].as_str().map(str::to_owned),
            cpu: Some(Processor {
                architecture: fixed["cpuArchitecture"].as_str().and_then(|arch| arch.parse().ok()),
                cores: number(&fixed["cpuCores"])
                    .and_then(|n| u32::try_from(whole(n)).ok())
                    .filter(|n| *n > 0),
                frequency_mhz_max: megahertz(&fixed["cpuMaxFrequency"]),
                ..Processor::default()
            }),
            memory,
            disks: disks(&fixed["storage"]),
            gpus,
            interfaces: parts(&value["networkInterfaces"]).map(interface).collect(),
            devices: parts(&value["devices"]).map(device).collect(),
            ..Characteristics::default()
        }),
        security_score: number(&value["ScaScore"])
            .and_then(|score| u8::try_from(whole(score)).ok())
            .filter(|s| *s <= 100),
        vulnerabilities: vulnerabilities(&value["vulnerabilities"]),
        energy: energy(&moving["cpuEnergyConsumption"]),
        ..NodeStatus::default()
    });
    node
}

fn location(value: &Value) -> Option<Location> {
    let fields = value.as_object().filter(|fields| !fields.is_empty())?;
    let word = |key: &str| fields.get(key).map(text).filter(|word| !word.is_empty());
    let degrees = |key: &str, max: f64| {
        fields.get(key).and_then(number_signed).filter(|degrees| degrees.abs() <= max)
    };
    Some(Location {
        continent: word("continent"),
        country: word("country"),
        region: word("region").or(word("name")),
        city: word("city"),
        latitude: degrees("latitude", 90.0),
        longitude: degrees("longitude", 180.0),
    })
}

fn vulnerabilities(value: &Value) -> Option<Vulnerabilities> {
    value.as_object()?;
    let count =
        |key: &str| number(&value[key]).and_then(|n| u32::try_from(whole(n)).ok()).unwrap_or(0);
    Some(Vulnerabilities {
        critical: count("Critical"),
        high: count("High"),
        medium: count("Medium"),
        low: count("Low"),
        untriaged: count("Untriaged"),
    })
}

/// The aggregator does not say the unit. What would be too many watts for a machine is milliwatts.
fn energy(value: &Value) -> Option<Energy> {
    const WATTS_MAX: f64 = 2000.0;
    let consumed = number(value)?;
    let watts = if consumed > WATTS_MAX { consumed / 1000.0 } else { consumed };
    let source = Some("ICOS aggregator".to_owned());
    Some(Energy { busy_watts: Some(watts.min(1e6)), source, ..Energy::default() })
}

/// Given in hertz; some write megahertz.
fn megahertz(value: &Value) -> Option<u32> {
    let frequency = number(value)?;
    let mhz = if frequency >= 1e6 { frequency / 1e6 } else { frequency };
    u32::try_from(whole(mhz)).ok().filter(|mhz| (1..=100_000).contains(mhz))
}

fn gpus(fixed: &Value) -> Vec<Gpu> {
    let cores =
        number(&fixed["gpuCores"]).and_then(|n| u32::try_from(whole(n)).ok()).filter(|n| *n > 0);
    let memory = bytes(&fixed["gpuRAMMemory"]).filter(|memory| memory.get() > 0);
    if cores.is_none() && memory.is_none() {
        return Vec::new();
    }
    vec![Gpu {
        cores,
        memory,
        frequency_mhz_max: megahertz(&fixed["gpuMaxFrequency"]),
        ..Gpu::default()
    }]
}

fn disks(value: &Value) -> Vec<Disk> {
    let disk = |(index, one): (usize, &Value)| {
        let name = one["name"].as_str().map_or_else(|| format!("disk{index}"), str::to_owned);
        Disk { name, kind: None, size: bytes(&one["size"]) }
    };
    value.as_array().into_iter().flatten().take(PARTS_MAX).enumerate().map(disk).collect()
}

fn interface((id, value): (&String, &Value)) -> Interface {
    Interface {
        name: name_of(value, id),
        kind: value["type"].as_str().map(str::to_owned),
        speed: number(&value["speed"]).map(|speed| BitRate::from_bps(whole(speed))),
        addresses: value["ip"].as_str().map(str::to_owned).into_iter().collect(),
        up: value["status"].as_str().is_some_and(|status| status.eq_ignore_ascii_case("up")),
    }
}

fn device((id, value): (&String, &Value)) -> Device {
    let status = value["status"].as_str().map(str::to_lowercase);
    Device {
        name: name_of(value, id),
        kind: value["type"].as_str().map(str::to_owned),
        status: Some(match status.as_deref() {
            Some("available") => DeviceStatus::Available,
            Some("busy") => DeviceStatus::Busy,
            Some("detached") => DeviceStatus::Detached,
            Some(_) | None => DeviceStatus::Unknown,
        }),
        path: value["path"].as_str().filter(|path| *path != "none").map(str::to_owned),
    }
}

fn parts(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).take(PARTS_MAX)
}

/// Adds up figures that come as one object, as objects by name, or as a list of objects.
fn sum(value: &Value, fields: &[&str]) -> Option<Bytes> {
    let direct = |one: &Value| fields.iter().find_map(|field| bytes(&one[*field]));
    let each: Vec<Bytes> = match value {
        Value::Array(list) => list.iter().take(PARTS_MAX).filter_map(direct).collect(),
        Value::Object(map) => match direct(value) {
            Some(one) => vec![one],
            None => map.values().take(PARTS_MAX).filter_map(direct).collect(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    let total = each.iter().fold(0u64, |total, one| total.saturating_add(one.get()));
    (!each.is_empty()).then(|| Bytes::new(total))
}

fn bytes(value: &Value) -> Option<Bytes> {
    number(value).map(|count| Bytes::new(whole(count)))
}

/// A number of 0 or more, also when it is written as text.
fn number(value: &Value) -> Option<f64> {
    number_signed(value).filter(|number| *number >= 0.0)
}

fn number_signed(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| number.is_finite())
}

/// Saturates; `number` is 0 or more.
fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "a float to an integer saturates")]
    #[expect(clippy::cast_sign_loss, reason = "a negative number becomes 0")]
    let whole = number.round() as u64;
    whole
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
