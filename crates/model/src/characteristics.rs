//! What kind of machine a Node is: everything an agent can see of it. Written by the agent, read
//! by the placer's filter and by the characterisation facade.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::{is_false, named};
use crate::quantity::{Arch, BitRate, Bytes};
use crate::site::{Engine, Location};

/// What kind of machine it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Characteristics {
    /// A name for the machine that stays the same over restarts and renamings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uuid: Option<String>,
    /// Model of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub model: Option<String>,
    /// Maker of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub vendor: Option<String>,
    /// Its processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Processor>,
    /// Its main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Its disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(length(max = 256))]
    pub disks: Vec<Disk>,
    /// Its graphics processors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub gpus: Vec<Gpu>,
    /// Its operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<Os>,
    /// Its battery, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery: Option<Battery>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// Its network interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(length(max = 256))]
    pub interfaces: Vec<Interface>,
    /// Devices attached to it: cameras, serial ports, pins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(length(max = 256))]
    pub devices: Vec<Device>,
    /// Engines found on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(length(max = 8))]
    pub engines: Vec<EngineVersion>,
    /// The kind of virtual machine or container that it is itself; left out on bare metal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub virtualization: Option<String>,
}

/// A processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Processor {
    /// Its architecture, such as amd64 or arm64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Arch>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub model: Option<String>,
    /// Number of cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub cores: Option<u32>,
    /// Number of threads that run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub threads: Option<u32>,
    /// Highest frequency in megahertz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100000))]
    pub frequency_mhz_max: Option<u32>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Its name, such as nvme0n1.
    #[schemars(length(max = 256))]
    pub name: String,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "type")]
    pub kind: Option<DiskKind>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
}

named! {
    /// A kind of disk.
    pub enum DiskKind {
        Nvme = "nvme",
        Ssd = "ssd",
        Hdd = "hdd",
        Flash = "flash",
        Virtual = "virtual",
        Unknown = "unknown",
    }
}

/// A graphics processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub model: Option<String>,
    /// Its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Number of its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Highest frequency in megahertz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100000))]
    pub frequency_mhz_max: Option<u32>,
}

/// An operating system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Os {
    /// Its name, such as debian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Version of its kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub kernel: Option<String>,
}

/// A battery.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Battery {
    /// How full it is, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub level: Option<u8>,
    /// Whether it is being charged.
    #[serde(default, skip_serializing_if = "is_false")]
    pub charging: bool,
    /// Watt-hours when full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e7))]
    pub capacity_wh: Option<f64>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Its name, such as eth0.
    #[schemars(length(max = 64))]
    pub name: String,
    /// Its kind, such as ethernet, wifi or cellular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "type")]
    #[schemars(length(max = 64))]
    pub kind: Option<String>,
    /// What it can carry at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<BitRate>,
    /// Its addresses, with the length of the prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    #[schemars(length(max = 64))]
    pub addresses: Vec<String>,
    /// Whether it is connected.
    #[serde(default, skip_serializing_if = "is_false")]
    pub up: bool,
}

/// A device attached to a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Its name, under which components ask for it, such as squat.ai/video.
    #[schemars(length(max = 256))]
    pub name: String,
    /// Its kind, such as video, usb, serial or gpio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "type")]
    #[schemars(length(max = 64))]
    pub kind: Option<String>,
    /// Whether it can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DeviceStatus>,
    /// Its path on the machine, such as /dev/video0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
}

named! {
    /// Whether a device can be used.
    pub enum DeviceStatus {
        Available = "available",
        Busy = "busy",
        Detached = "detached",
        Unknown = "unknown",
    }
}

/// An engine found on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineVersion {
    /// The engine.
    pub name: Engine,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
}
