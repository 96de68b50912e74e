//! A machine as a whole: what goes on its Node. Called by the agent when it starts, and now and
//! then after; start reading at [`characterise`].

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tombolo_model::characteristics::{Characteristics, Device};
use tombolo_model::needs::Resources;
use tombolo_model::node::{Energy, NodeStatus};
use tombolo_model::site::Location;
use tombolo_model::{Arch, Bytes, Cpu};

use crate::root::Root;
use crate::virtualization::Virtualization;
use crate::{
    devices, disks, engines, gpus, memory, network, power, processor, system, uuid, virtualization,
};

/// What the machine cannot say of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// Where it is, as somebody has written. Nobody is asked over the network.
    pub location: Option<&'a Location>,
    /// Its region, as somebody has written; else the one that its provider wrote on it.
    pub region: Option<&'a str>,
    /// Where each region is.
    pub regions: Option<&'a BTreeMap<String, Location>>,
    /// The folder where workloads keep their data; `/` when left out.
    pub data: Option<&'a str>,
    /// The name that [`uuid::Source::Generated`] asked to keep.
    pub uuid_kept: Option<&'a str>,
    /// The devices of the last time, to tell what was detached.
    pub devices_before: &'a [Device],
}

/// What a machine is. The same machine, unchanged, gives the same value: nothing in here trembles.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub characteristics: Characteristics,
    pub capacity: Resources,
    pub energy: Energy,
    /// Addresses at which it is reached, the likeliest first.
    pub addresses: Vec<String>,
    pub hostname: Option<String>,
    /// Engines and the files by which they were found.
    pub engines: Vec<engines::FoundEngine>,
    #[serde(skip)]
    pub uuid_source: uuid::Source,
}

impl Machine {
    /// Puts what was found on the Node, and says whether that changed anything: an unchanged
    /// status is not written. What others have added is kept: the versions that drivers were told,
    /// and the carbon intensity.
    pub fn put_on(&self, status: &mut NodeStatus, reserved: Option<&Resources>) -> bool {
        let before = status.clone();
        let mut found = self.characteristics.clone();
        let known = before.characteristics.iter().flat_map(|known| &known.engines);
        for known in known.filter(|known| known.version.is_some()) {
            let mut same = found.engines.iter_mut().filter(|engine| engine.name == known.name);
            if let Some(engine) = same.next() {
                engine.version.clone_from(&known.version);
            }
        }
        status.characteristics = Some(found);
        status.capacity = Some(self.capacity.clone());
        status.allocatable = Some(allocatable(&self.capacity, reserved));
        let carbon_intensity = before.energy.as_ref().and_then(|energy| energy.carbon_intensity);
        status.energy = Some(Energy { carbon_intensity, ..self.energy.clone() });
        status.addresses.clone_from(&self.addresses);
        *status != before
    }
}

/// What is left for workloads when the machine keeps its part.
pub fn allocatable(capacity: &Resources, reserved: Option<&Resources>) -> Resources {
    let none = Resources::default();
    let reserved = reserved.unwrap_or(&none);
    let kept_cpu = reserved.cpu.unwrap_or_default().millis();
    let cpu = |there: Cpu| Cpu::from_millis(there.millis().saturating_sub(kept_cpu));
    let bytes = |there: Option<Bytes>, kept: Option<Bytes>| {
        let kept = kept.map_or(0, Bytes::get);
        there.map(|there| Bytes::new(there.get().saturating_sub(kept)))
    };
    let devices = capacity.devices.iter().map(|(name, count)| {
        let kept = reserved.devices.get(name).copied().unwrap_or(0);
        (name.clone(), count.saturating_sub(kept))
    });
    Resources {
        cpu: capacity.cpu.map(cpu),
        memory: bytes(capacity.memory, reserved.memory),
        storage: bytes(capacity.storage, reserved.storage),
        gpu: capacity.gpu.map(|count| count.saturating_sub(reserved.gpu.unwrap_or(0))),
        devices: devices.filter(|(_, count)| *count > 0).collect(),
    }
}

/// Looks at the whole machine. What cannot be read is left out; nothing here fails.
pub fn characterise(root: &Root, ask: &Ask<'_>) -> Machine {
    let (processor, info) = processor::read(root);
    let virtualization = virtualization::read(root, info.hypervisor);
    let battery = power::battery(root);
    let network = network::read(root);
    let engines = engines::read(root);
    let make = system::make(root, info.board);
    let (uuid, uuid_source) = uuid::read(root, ask.uuid_kept);
    let model = processor.model.clone().unwrap_or_default().to_lowercase();
    let energy = power::energy(
        root,
        &processor,
        &power::Traits {
            model: &model,
            arm: matches!(processor.architecture, Some(Arch::Arm64 | Arch::Arm)),
            battery: battery.is_some(),
            // A container on a virtual machine still shows the flag of the processor.
            virtual_machine: info.hypervisor
                || matches!(virtualization, Some(Virtualization::Machine(_))),
        },
    );
    let characteristics = Characteristics {
        uuid,
        model: make.model,
        vendor: make.vendor,
        memory: memory::read(root).total.map(Bytes::new),
        disks: disks::read(root),
        gpus: gpus::read(root),
        os: Some(system::os(root)),
        battery,
        location: location(root, ask),
        interfaces: network.interfaces,
        devices: devices::read(root, ask.devices_before),
        engines: engines::versions(&engines),
        virtualization: virtualization.map(|kind| kind.name().to_owned()),
        cpu: Some(processor),
    };
    Machine {
        capacity: capacity(root, &characteristics, ask.data.unwrap_or("/")),
        characteristics,
        energy,
        addresses: network.addresses,
        hostname: system::hostname(root),
        engines,
        uuid_source,
    }
}

/// What there is to share out. In a container that is what the container may use.
fn capacity(root: &Root, characteristics: &Characteristics, data: &str) -> Resources {
    let limits = memory::limits(root);
    let threads = characteristics.cpu.as_ref().and_then(|cpu| cpu.threads);
    let millis = threads.map(|threads| u64::from(threads) * 1000);
    let bytes = characteristics.memory.map(Bytes::get);
    let gpus = u32::try_from(characteristics.gpus.len()).unwrap_or(u32::MAX);
    Resources {
        cpu: least(millis, limits.cpu_millis).map(Cpu::from_millis),
        memory: least(bytes, limits.memory_bytes).map(Bytes::new),
        storage: storage(root, data).map(Bytes::new),
        gpu: (gpus > 0).then_some(gpus),
        devices: devices::counts(&characteristics.devices),
    }
}

/// The size of the file system that holds the data, or will hold it once its folder is made.
fn storage(root: &Root, data: &str) -> Option<u64> {
    let mut above = std::path::Path::new(data).ancestors().filter_map(|path| path.to_str());
    above.find_map(|path| root.space(path)).map(|space| space.bytes_total)
}

fn least(there: Option<u64>, allowed: Option<u64>) -> Option<u64> {
    match (there, allowed) {
        (Some(there), Some(allowed)) => Some(there.min(allowed)),
        (there, allowed) => there.or(allowed),
    }
}

/// As written; else by the region. A region that the table does not know is at least a name.
fn location(root: &Root, ask: &Ask<'_>) -> Option<Location> {
    if let Some(location) = ask.location {
        return Some(location.clone());
    }
    let found = || parse_cloud_region(&root.text("/run/cloud-init/instance-data.json")?);
    let region = ask.region.map(str::to_owned).or_else(found)?;
    let known = ask.regions.and_then(|regions| regions.get(&region)).cloned();
    Some(known.unwrap_or_else(|| Location {
        region: crate::clean::line(&region, 64),
        ..Location::default()
    }))
}

/// What cloud-init has noted of the provider's region when the machine was made.
fn parse_cloud_region(text: &str) -> Option<String> {
    let noted: Value = serde_json::from_str(text).ok()?;
    let region = noted.pointer("/v1/region")?.as_str()?;
    (!region.is_empty()).then(|| region.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_only_where_it_is_lower() {
        assert_eq!(least(Some(4), Some(2)), Some(2));
        assert_eq!(least(Some(4), Some(8)), Some(4));
        assert_eq!(least(Some(4), None), Some(4));
        assert_eq!(least(None, Some(2)), Some(2));
    }

    #[test]
    fn the_machine_keeps_its_part() {
        let amounts = |millis, bytes: u64, cameras| Resources {
            cpu: Some(Cpu::from_millis(millis)),
            memory: Some(Bytes::new(bytes)),
            devices: BTreeMap::from([("squat.ai/video".to_owned(), cameras)]),
            ..Resources::default()
        };
        let capacity = amounts(4000, 1000, 2);
        assert_eq!(allocatable(&capacity, None), capacity);
        assert_eq!(allocatable(&capacity, Some(&amounts(500, 300, 1))), amounts(3500, 700, 1));
        let nothing = allocatable(&capacity, Some(&amounts(9000, 9000, 9)));
        assert_eq!(nothing, Resources { devices: BTreeMap::new(), ..amounts(0, 0, 0) });
    }

    #[test]
    fn the_region_is_what_the_provider_noted() {
        let text = r#"{"v1":{"region":"eu-west-1"}}"#;
        assert_eq!(parse_cloud_region(text).as_deref(), Some("eu-west-1"));
        assert_eq!(parse_cloud_region(r#"{"v1":{"region":null}}"#), None);
        assert_eq!(parse_cloud_region("not json"), None);
    }
}
