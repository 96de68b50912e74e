//! Amounts of what a node gives and an instance takes, as whole numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tombolo_model::Node;
use tombolo_model::characteristics::{Characteristics, DeviceStatus};
use tombolo_model::needs::{Needs, Resources};
use tombolo_model::ports::NodePort;

use super::attached::Attached;

/// Processor time, memory, storage, graphics processors, devices and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts<'a> {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    pub storage_bytes: u64,
    pub gpu: u64,
    /// By the names under which they can be asked for.
    pub devices: BTreeMap<&'a str, u64>,
    /// Of an instance, the ports of its node that it must have; of a node, those that are taken. By
    /// whom, as far as that is known.
    pub(crate) ports: BTreeMap<NodePort, Arc<str>>,
    /// What counts do not say; few have any of it.
    pub(super) attached: Option<Box<Attached<'a>>>,
}

impl<'a> Amounts<'a> {
    pub fn of_node(node: &'a Node) -> Amounts<'a> {
        let Some(status) = &node.status else { return Amounts::default() };
        let allocatable = status.allocatable.as_ref();
        let whole = status.capacity.as_ref().map(Amounts::of_resources).unwrap_or_default();
        let whole = match &node.spec.reserved {
            Some(reserved) => whole.without(&Amounts::of_resources(reserved)),
            None => whole,
        };
        // A figure that only one of the two knows is better than none.
        let mut amounts = match allocatable {
            Some(known) => Amounts {
                attached: None,
                ports: BTreeMap::new(),
                cpu_millis: known.cpu.map_or(whole.cpu_millis, |cpu| cpu.millis()),
                memory_bytes: known.memory.map_or(whole.memory_bytes, |memory| memory.get()),
                storage_bytes: known.storage.map_or(whole.storage_bytes, |storage| storage.get()),
                gpu: known.gpu.map_or(whole.gpu, u64::from),
                devices: match known.devices.is_empty() {
                    true => whole.devices,
                    false => Amounts::of_resources(known).devices,
                },
            },
            None => whole,
        };
        if let Some(found) = &status.characteristics {
            amounts.add_found(found);
        }
        amounts
    }

    pub fn of_resources(resources: &'a Resources) -> Amounts<'a> {
        let gpu = resources.gpu.map_or(0, u64::from);
        Amounts {
            cpu_millis: resources.cpu.map_or(0, |cpu| cpu.millis()),
            memory_bytes: resources.memory.map_or(0, |memory| memory.get()),
            storage_bytes: resources.storage.map_or(0, |storage| storage.get()),
            gpu,
            devices: resources
                .devices
                .iter()
                .map(|(name, count)| (name.as_str(), u64::from(*count)))
                .collect(),
            ports: BTreeMap::new(),
            attached: Attached::asked(gpu, 0),
        }
    }

    pub fn of_needs(needs: &'a Needs) -> Amounts<'a> {
        let gpu = needs.gpu.map_or(0, u64::from);
        // Memory of a graphics processor is of no use without one.
        let gpu = if needs.gpu_memory.is_some() { gpu.max(1) } else { gpu };
        Amounts {
            cpu_millis: needs.cpu.map_or(0, |cpu| cpu.millis()),
            memory_bytes: needs.memory.map_or(0, |memory| memory.get()),
            storage_bytes: needs.storage.map_or(0, |storage| storage.get()),
            gpu,
            devices: needs.devices.iter().map(|name| (name.as_str(), 1)).collect(),
            ports: BTreeMap::new(),
            attached: Attached::asked(gpu, needs.gpu_memory.map_or(0, |memory| memory.get())),
        }
    }

    /// Whether any of them is more, devices aside.
    pub fn exceed(&self, other: &Amounts<'_>) -> bool {
        self.cpu_millis > other.cpu_millis
            || self.memory_bytes > other.memory_bytes
            || self.storage_bytes > other.storage_bytes
            || self.gpu > other.gpu
    }

    pub fn device(&self, name: &str) -> u64 {
        self.any_device(&[name])
    }

    /// Devices that go by any of the names; one that goes by several counts once.
    pub(crate) fn any_device(&self, names: &[&str]) -> u64 {
        let attached = self.attached.as_deref();
        let on_shelf = |name: &&&str| attached.is_some_and(|attached| attached.knows(name));
        let counted = names.iter().filter(|name| !on_shelf(name));
        let counted = counted.filter_map(|name| self.devices.get(name)).copied();
        let found: Vec<&str> = names.iter().filter(on_shelf).copied().collect();
        counted.fold(attached.map_or(0, |attached| attached.left(&found)), u64::saturating_add)
    }

    /// Names of one device, if anyone could ask for it by several.
    pub(crate) fn aliases(&self) -> impl Iterator<Item = &[&'a str]> {
        self.attached.iter().flat_map(|attached| &attached.shelf).map(Vec::as_slice)
    }

    /// Graphics processors with at least so much memory.
    pub(crate) fn gpus_with(&self, memory: u64) -> u64 {
        let attached = self.attached.as_deref();
        attached.map_or(0, |attached| attached.gpus.iter().filter(|has| **has >= memory).count())
            as u64
    }

    /// The most memory that so many graphics processors have each.
    pub(crate) fn gpu_memory_of(&self, count: u64) -> Option<u64> {
        let gpus = self.attached.as_deref().map_or(&[][..], |attached| &attached.gpus);
        let mut gpus = gpus.to_vec();
        gpus.sort_unstable_by_key(|memory| std::cmp::Reverse(*memory));
        gpus.get(usize::try_from(count.max(1) - 1).ok()?).copied()
    }

    /// The same, where each graphics processor has to have so much memory.
    pub(crate) fn with_gpu_memory(mut self, memory: u64) -> Amounts<'a> {
        self.attached = Attached::asked(self.gpu, memory);
        self
    }

    /// The same, of an instance that must have these ports of its node.
    pub(crate) fn with_ports(
        mut self,
        ports: impl IntoIterator<Item = NodePort>,
        holder: &Arc<str>,
    ) -> Amounts<'a> {
        self.ports = ports.into_iter().map(|port| (port, Arc::clone(holder))).collect();
        self
    }

    pub fn add(&mut self, other: &Amounts<'a>) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.storage_bytes = self.storage_bytes.saturating_add(other.storage_bytes);
        self.gpu = self.gpu.saturating_add(other.gpu);
        for (name, count) in &other.devices {
            let sum = self.devices.entry(name).or_insert(0);
            *sum = sum.saturating_add(*count);
        }
        self.ports.extend(other.ports.iter().map(|(port, holder)| (*port, Arc::clone(holder))));
    }

    /// What is left when `used` is taken away; nothing goes below 0.
    pub fn without(&self, used: &Amounts<'_>) -> Amounts<'a> {
        Amounts {
            cpu_millis: self.cpu_millis.saturating_sub(used.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_sub(used.memory_bytes),
            storage_bytes: self.storage_bytes.saturating_sub(used.storage_bytes),
            gpu: self.gpu.saturating_sub(used.gpu),
            devices: self
                .devices
                .iter()
                .map(|(name, count)| (*name, count.saturating_sub(used.device(name))))
                .collect(),
            ports: {
                let both = self.ports.iter().chain(&used.ports);
                both.map(|(port, holder)| (*port, Arc::clone(holder))).collect()
            },
            attached: self.attached.as_ref().map(|attached| Box::new(attached.without(used))),
        }
    }

    /// What the agent has seen counts where nobody has said a number.
    fn add_found(&mut self, found: &'a Characteristics) {
        if self.gpu == 0 {
            self.gpu = found.gpus.len() as u64;
        }
        let mut gpus: Vec<u64> =
            found.gpus.iter().map(|gpu| gpu.memory.map_or(0, |memory| memory.get())).collect();
        gpus.sort_unstable();
        let mut shelf: Vec<Vec<&'a str>> = Vec::new();
        let mut seen: BTreeMap<&'a str, u64> = BTreeMap::new();
        for device in &found.devices {
            match device.status {
                Some(DeviceStatus::Available) | None => (),
                Some(DeviceStatus::Busy | DeviceStatus::Detached | DeviceStatus::Unknown) => {
                    continue;
                }
            }
            // One device goes by its name, its path and its kind; people ask for any of them.
            let names =
                [Some(device.name.as_str()), device.path.as_deref(), device.kind.as_deref()];
            let mut names: Vec<&str> = names.into_iter().flatten().collect();
            names.sort_unstable();
            names.dedup();
            names.retain(|name| !self.devices.contains_key(name));
            for name in &names {
                *seen.entry(name).or_insert(0) += 1;
            }
            shelf.push(names);
        }
        self.devices.extend(seen);
        if !gpus.is_empty() || !shelf.is_empty() {
            self.attached = Some(Box::new(Attached { gpus, shelf, held: Vec::new() }));
        }
    }
}
