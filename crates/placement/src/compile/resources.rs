//! The dimensions of the problem: what nodes have and items take. Most are plain amounts; devices that
//! go by several names and graphics processors with enough memory have one for each way to ask, and so has
//! each port that several instances must have: a node gives it once.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::Engine;
use tombolo_model::component::Component;
use tombolo_model::ports::NodePort;

use super::Compiled;
use crate::ask;
use crate::continuum::{Amounts, NodeRow};

const NAMED: [&str; 4] = ["cpu_millis", "memory_bytes", "storage_bytes", "gpu"];
const DEVICE: &str = "device/";
const GPU_MEMORY: &str = "gpu_memory/";
const PORT: &str = "port/";
/// Ports of a cluster are no ports of a node: more of one than anybody asks for.
const PORT_OF_CLUSTER: u64 = 1 << 20;
/// Between the names of a device; no name has this character.
const OR: char = '+';

/// The four that everybody knows, and what somebody asks for beyond.
pub(super) fn asked(compiled: &Compiled<'_, '_>) -> Vec<String> {
    let planned = compiled.scoped.planned.iter();
    let components = planned.flat_map(|app| &compiled.apps[*app].spec.components);
    let needs = || components.clone().filter_map(|component| component.needs.as_ref());
    let devices: BTreeSet<&str> =
        needs().flat_map(|needs| &needs.devices).map(String::as_str).collect();
    let memories: BTreeSet<u64> =
        needs().filter_map(|needs| needs.gpu_memory).map(|memory| memory.get()).collect();
    let shared = shared(compiled, &devices);
    let named = NAMED.map(str::to_owned).into_iter();
    let single = devices.iter().map(|name| format!("{DEVICE}{name}"));
    let joint = shared.iter().map(|names| {
        let names: Vec<&str> = names.iter().copied().collect();
        format!("{DEVICE}{}", names.join(&OR.to_string()))
    });
    let memories = memories.iter().map(|memory| format!("{GPU_MEMORY}{memory}"));
    let ports = contested(components).into_iter().map(|port| format!("{PORT}{port}"));
    named.chain(single).chain(joint).chain(memories).chain(ports).collect()
}

/// Ports that more than one of the instances must have. One that a single instance must have, or
/// somebody who is not planned has, is a matter of the filter.
fn contested<'c>(components: impl Iterator<Item = &'c Component>) -> BTreeSet<NodePort> {
    let mut asked: BTreeMap<NodePort, usize> = BTreeMap::new();
    for component in components {
        for port in ask::fixed_ports(component) {
            *asked.entry(port).or_default() += ask::instances(component);
        }
    }
    asked.into_iter().filter(|(_, count)| *count > 1).map(|(port, _)| port).collect()
}

/// What an instance takes, in the order of the dimensions.
pub(super) fn demand(asked: &Amounts<'_>, resources: &[String]) -> Box<[u64]> {
    each(asked, resources, &|port| u64::from(asked.ports.contains_key(&port)))
}

/// What a node gives, in the order of the dimensions.
pub(super) fn capacity(row: &NodeRow<'_>, left: &Amounts<'_>, resources: &[String]) -> Box<[u64]> {
    each(left, resources, &|port| match row.engine {
        Engine::Host | Engine::Docker => u64::from(!left.ports.contains_key(&port)),
        Engine::Kubernetes => PORT_OF_CLUSTER,
    })
}

fn each(amounts: &Amounts<'_>, resources: &[String], port: &dyn Fn(NodePort) -> u64) -> Box<[u64]> {
    let mut each = Vec::with_capacity(resources.len());
    let Amounts { cpu_millis, memory_bytes, storage_bytes, gpu, .. } = amounts;
    each.extend([cpu_millis, memory_bytes, storage_bytes, gpu]);
    each.extend(resources[NAMED.len()..].iter().map(|name| match meant(name) {
        Meant::Devices(names) => amounts.any_device(&names),
        Meant::GpuMemory(memory) => amounts.gpus_with(memory),
        Meant::Port(number) => port(number),
    }));
    each.into_boxed_slice()
}

/// An amount of a dimension beyond the four, as people say it.
pub(crate) fn say(resource: &str, amount: u64) -> String {
    match meant(resource) {
        Meant::Devices(names) => format!("{amount} {}", names.join(" or ")),
        Meant::GpuMemory(memory) => {
            format!("{amount} gpu with {} memory", crate::words::bytes(memory))
        }
        Meant::Port(port) => match amount {
            1 => format!("port {port} once"),
            amount => format!("port {port} {amount} times"),
        },
    }
}

enum Meant<'r> {
    Devices(Vec<&'r str>),
    GpuMemory(u64),
    Port(NodePort),
}

/// Whether a node cannot be given more of it: it has each port once.
pub(crate) fn is_port(resource: &str) -> bool {
    resource.starts_with(PORT)
}

fn meant(resource: &str) -> Meant<'_> {
    if let Some(port) = resource.strip_prefix(PORT).and_then(|port| port.parse().ok()) {
        return Meant::Port(port);
    }
    match resource.strip_prefix(GPU_MEMORY).and_then(|memory| memory.parse().ok()) {
        Some(memory) => Meant::GpuMemory(memory),
        None => {
            Meant::Devices(resource.strip_prefix(DEVICE).unwrap_or(resource).split(OR).collect())
        }
    }
}

/// Sets of names under which one and the same device is asked for on some node: every two, and all
/// that hang together. The devices of a set are counted together beside those of each name.
fn shared<'d>(
    compiled: &Compiled<'_, '_>,
    devices: &BTreeSet<&'d str>,
) -> BTreeSet<BTreeSet<&'d str>> {
    let mut shared: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    if devices.len() < 2 {
        return shared;
    }
    // By name: the set that it hangs together with.
    let mut joined: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for names in compiled.continuum.nodes.iter().flat_map(|row| row.total.aliases()) {
        let names: Vec<&str> =
            names.iter().filter_map(|name| devices.get::<str>(name)).copied().collect();
        for (at, first) in names.iter().enumerate() {
            shared.extend(names[at + 1..].iter().map(|second| BTreeSet::from([*first, *second])));
        }
        let Some(first) = names.first().filter(|_| names.len() > 1) else { continue };
        let known = joined.get(first);
        if !names.iter().all(|name| known.is_some_and(|known| known.contains(name))) {
            let known = names.iter().filter_map(|name| joined.get(name)).flatten().copied();
            let all: BTreeSet<&str> = known.chain(names.iter().copied()).collect();
            joined.extend(all.iter().map(|name| (*name, all.clone())));
        }
    }
    shared.extend(joined.into_values());
    shared
}
