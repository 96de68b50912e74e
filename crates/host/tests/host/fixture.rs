//! Machines that we do not have, written into a folder. Each is a list of paths and texts; start
//! reading at [`server`].

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tombolo_host::Root;
use tombolo_host::security::Confinement;

/// What is at a path.
#[derive(Clone, Debug)]
pub(crate) enum Thing {
    Text(String),
    Bytes(Vec<u8>),
    Link(String),
    Folder,
    Socket,
}

/// A machine before it is written. Later things take the place of earlier ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixture {
    pub(crate) things: BTreeMap<String, Thing>,
    pub(crate) modes: BTreeMap<String, u32>,
    pub(crate) confinement: Confinement,
    /// What the Docker engine says of itself.
    pub(crate) engine: Option<Vec<String>>,
}

impl Fixture {
    pub(crate) fn text(mut self, path: &str, text: &str) -> Fixture {
        self.things.insert(path.into(), Thing::Text(text.into()));
        self
    }

    /// As whoever runs programs has tried it.
    pub(crate) fn confined(mut self, lack: impl FnOnce(&mut Confinement)) -> Fixture {
        lack(&mut self.confinement);
        self
    }

    /// As an engine says it that could be asked.
    pub(crate) fn engine(mut self, options: &[&str]) -> Fixture {
        self.engine = Some(options.iter().map(|option| (*option).to_owned()).collect());
        self
    }

    /// Short files of one folder, each with a line feed at its end.
    pub(crate) fn values(mut self, folder: &str, values: &[(&str, &str)]) -> Fixture {
        for (name, value) in values {
            self = self.text(&format!("{folder}/{name}"), &format!("{value}\n"));
        }
        self
    }

    pub(crate) fn bytes(mut self, path: &str, bytes: &[u8]) -> Fixture {
        self.things.insert(path.into(), Thing::Bytes(bytes.into()));
        self
    }

    pub(crate) fn link(mut self, path: &str, target: &str) -> Fixture {
        self.things.insert(path.into(), Thing::Link(target.into()));
        self
    }

    pub(crate) fn folder(mut self, path: &str) -> Fixture {
        self.things.insert(path.into(), Thing::Folder);
        self
    }

    pub(crate) fn socket(mut self, path: &str) -> Fixture {
        self.things.insert(path.into(), Thing::Socket);
        self
    }

    pub(crate) fn without(mut self, path: &str) -> Fixture {
        assert!(self.things.remove(path).is_some(), "the fixture has no {path}");
        self
    }

    pub(crate) fn mode(mut self, path: &str, mode: u32) -> Fixture {
        self.modes.insert(path.into(), mode);
        self
    }

    /// Writes it, and keeps the folder for as long as the value lives.
    pub(crate) fn write(&self) -> Written {
        // In memory where that can be had: hundreds of machines are written in one run.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        for (path, thing) in &self.things {
            place(&below(folder.path(), path), thing);
        }
        for (path, mode) in &self.modes {
            let path = below(folder.path(), path);
            fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
        }
        Written { root: Root::at(folder.path()).unwrap(), folder }
    }
}

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) root: Root,
    pub(crate) folder: TempDir,
}

impl Written {
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        below(self.folder.path(), path)
    }
}

fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(path.trim_start_matches('/'))
}

fn place(path: &Path, thing: &Thing) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match thing {
        Thing::Text(text) => fs::write(path, text).unwrap(),
        Thing::Bytes(bytes) => fs::write(path, bytes).unwrap(),
        Thing::Link(target) => symlink(target, path).unwrap(),
        Thing::Folder => fs::create_dir_all(path).unwrap(),
        // The file stays when the listener goes.
        Thing::Socket => drop(UnixListener::bind(path).unwrap()),
    }
}

/// The head of a program for an ELF machine number.
pub(crate) fn program(class: u8, machine: u8) -> Vec<u8> {
    let mut head = vec![0x7f, b'E', b'L', b'F', class, 1, 1];
    head.resize(18, 0);
    head.extend([machine, 0]);
    head.resize(64, 0);
    head
}

fn x86_cpuinfo(model: &str, threads: &[(u32, u32)], flags: &str) -> String {
    let blocks = threads.iter().enumerate().map(|(number, (package, core))| {
        format!(
            "processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: {model}\n\
             cpu MHz\t\t: 2100.004\nphysical id\t: {package}\ncore id\t\t: {core}\n\
             flags\t\t: fpu lm sse2 {flags}\n\n"
        )
    });
    blocks.collect()
}

fn arm_cpuinfo(part: &str, threads: u32, tail: &str) -> String {
    let blocks = (0..threads).map(|number| {
        format!(
            "processor\t: {number}\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\n\
             CPU architecture: 8\nCPU part\t: {part}\n\n"
        )
    });
    blocks.chain(std::iter::once(tail.to_owned())).collect()
}

fn debian(machine_id: &str) -> Fixture {
    Fixture::default()
        .text("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\nNAME=\"Debian GNU/Linux\"\n")
        .text("/etc/machine-id", &format!("{machine_id}\n"))
        .text("/proc/uptime", "3600.50 7000.00\n")
        .text("/proc/loadavg", "0.50 0.40 0.30 1/200 4242\n")
        .text("/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\n")
        .folder("/tmp")
}

/// Two processors with two cores of two threads, a graphics card, a console that is none, a fast
/// disk and a slow one, two wires made into one, and Docker.
pub(crate) fn server() -> Fixture {
    let threads = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1), (1, 0), (1, 1)];
    let card = "/sys/bus/pci/devices/0000:17:00.0";
    server_network(debian("0a1b2c3d4e5f60718293a4b5c6d7e8f9"))
        .bytes("/usr/bin/dash", &program(2, 62))
        .link("/bin/sh", "/usr/bin/dash")
        .text("/proc/cpuinfo", &x86_cpuinfo("Intel(R) Xeon(R) Gold 6230", &threads, "ht"))
        .text("/proc/meminfo", "MemTotal:       131072000 kB\nMemAvailable: 100000000 kB\n")
        .values("/proc/sys/kernel", &[("osrelease", "6.1.0-28-amd64"), ("hostname", "rack7")])
        .values("/sys/devices/system/cpu/cpu0/cpufreq", &[("cpuinfo_max_freq", "3900000")])
        .values("/sys/devices/system/cpu/cpu4/cpufreq", &[("cpuinfo_max_freq", "3700000")])
        .values(
            "/sys/class/dmi/id",
            &[
                ("sys_vendor", "Dell Inc."),
                ("product_name", "PowerEdge R740"),
                ("product_version", "Not Specified"),
            ],
        )
        .values(card, &[("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x20f1")])
        .text(
            "/proc/driver/nvidia/gpus/0000:17:00.0/information",
            "Model: \t NVIDIA A100-PCIE-40GB\n",
        )
        .values(
            "/sys/bus/pci/devices/0000:03:00.0",
            &[("class", "0x030000"), ("vendor", "0x1a03"), ("device", "0x2000")],
        )
        .values("/sys/block/nvme0n1", &[("size", "1953525168"), ("queue/rotational", "0")])
        .values(
            "/sys/block/sda",
            &[
                ("size", "7814037168"),
                ("queue/rotational", "1"),
                ("removable", "0"),
                ("device/vendor", "SEAGATE"),
            ],
        )
        .values("/sys/block/loop0", &[("size", "8")])
        .values("/sys/block/dm-0", &[("size", "1000"), ("dm/name", "x")])
        .values(
            "/sys/class/powercap/intel-rapl:0",
            &[
                ("name", "package-0"),
                ("constraint_0_max_power_uw", "125000000"),
                ("energy_uj", "1000000"),
                ("max_energy_range_uj", "9000000"),
            ],
        )
        .values(
            "/sys/class/powercap/intel-rapl:1",
            &[
                ("name", "package-1"),
                ("constraint_0_max_power_uw", "125000000"),
                ("energy_uj", "1000000"),
                ("max_energy_range_uj", "9000000"),
            ],
        )
        .values("/sys/class/powercap/intel-rapl:0:0", &[("name", "dram")])
        .values("/sys/class/thermal/thermal_zone0", &[("temp", "41000")])
        .values("/sys/class/thermal/thermal_zone1", &[("temp", "-274000")])
        .socket("/run/docker.sock")
        .socket("/run/containerd/containerd.sock")
}

/// Two wires, of which one is plugged in, made into one; and what Docker makes.
fn server_network(fixture: Fixture) -> Fixture {
    fixture
        .values(
            "/sys/class/net/bond0",
            &[
                ("type", "1"),
                ("operstate", "up"),
                ("speed", "20000"),
                ("uevent", "DEVTYPE=bond\nINTERFACE=bond0"),
            ],
        )
        .values("/sys/class/net/eno1", &[("type", "1"), ("operstate", "up"), ("speed", "10000")])
        .folder("/sys/class/net/eno1/device")
        .values("/sys/class/net/eno2", &[("type", "1"), ("operstate", "down"), ("speed", "-1")])
        .folder("/sys/class/net/eno2/device")
        .values(
            "/sys/class/net/docker0",
            &[("type", "1"), ("operstate", "up"), ("uevent", "DEVTYPE=bridge\nINTERFACE=docker0")],
        )
        .values("/sys/class/net/veth12", &[("type", "1"), ("operstate", "up")])
        .values("/sys/class/net/lo", &[("type", "772"), ("operstate", "unknown")])
        .text("/proc/net/route", SERVER_ROUTES)
        .text("/proc/net/fib_trie", SERVER_TRIE)
        .text("/proc/net/if_inet6", "20010db8000000000000000000000007 03 40 00 80    bond0\n")
}

const SERVER_ROUTES: &str = "\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
bond0 00000000 010200C0 0003 0 0 0 00000000 0 0 0
bond0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0
docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0
";

const SERVER_TRIE: &str = "\
Local:
  |-- 127.0.0.1
     /32 host LOCAL
  |-- 172.17.0.1
     /32 host LOCAL
  |-- 192.0.2.7
     /32 host LOCAL
  |-- 192.0.2.255
     /32 link BROADCAST
";

/// A Raspberry Pi: no DMI, a card for a disk, a camera that someone uses, pins, an adapter for a
/// serial line, a webcam, and wireless.
pub(crate) fn raspberry_pi() -> Fixture {
    let camera = "/sys/class/video4linux";
    let webcam = "/sys/bus/usb/devices/1-1.2";
    debian("1111222233334444555566667777888f")
        .bytes("/bin/sh", &program(2, 183))
        .text(
            "/proc/cpuinfo",
            &arm_cpuinfo(
                "0xd08",
                4,
                "Revision\t: c03114\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
            ),
        )
        .text("/proc/meminfo", "MemTotal:        3884360 kB\nMemAvailable:    3000000 kB\n")
        .values("/proc/sys/kernel", &[("osrelease", "6.6.31+rpt-rpi-v8"), ("hostname", "pi-door")])
        .text("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0")
        .text("/proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0")
        .values(
            "/sys/devices/system/cpu/cpu0",
            &[("cpufreq/cpuinfo_max_freq", "1800000"), ("topology/core_cpus_list", "0")],
        )
        .values("/sys/devices/system/cpu/cpu1/topology", &[("core_cpus_list", "1")])
        .values("/sys/devices/system/cpu/cpu2/topology", &[("core_cpus_list", "2")])
        .values("/sys/devices/system/cpu/cpu3/topology", &[("core_cpus_list", "3")])
        .text(
            "/sys/class/drm/renderD128/device/uevent",
            "DRIVER=v3d\nOF_COMPATIBLE_0=brcm,2711-v3d\n",
        )
        .values("/sys/block/mmcblk0", &[("size", "62333952"), ("queue/rotational", "0")])
        .values("/sys/block/mmcblk0boot0", &[("size", "8192")])
        .values(&format!("{camera}/video0"), &[("name", "unicam-image"), ("index", "0")])
        .values(&format!("{camera}/video1"), &[("name", "unicam-embedded"), ("index", "1")])
        .values(&format!("{camera}/video2"), &[("name", "HD Webcam C525"), ("index", "0")])
        .values(&format!("{camera}/video10"), &[("name", "bcm2835-codec-decode"), ("index", "0")])
        .text("/dev/video0", "")
        .text("/dev/video2", "")
        .link("/proc/731/fd/5", "/dev/video0")
        .link("/proc/731/fd/1", "/dev/null")
        .folder("/sys/bus/gpio/devices/gpiochip0")
        .text("/dev/gpiochip0", "")
        .folder("/sys/class/tty/ttyUSB0")
        .text("/dev/ttyUSB0", "")
        .folder("/sys/class/tty/ttyAMA0")
        .values("/sys/class/tty/ttyS0", &[("type", "0")])
        .values("/sys/class/tty/console", &[("active", "ttyAMA0 tty1")])
        .values(
            webcam,
            &[
                ("idVendor", "046d"),
                ("idProduct", "0825"),
                ("bDeviceClass", "ef"),
                ("busnum", "1"),
                ("devnum", "4"),
            ],
        )
        .text("/dev/bus/usb/001/004", "")
        .values(&format!("{webcam}:1.0"), &[("bInterfaceClass", "0e")])
        .values(&format!("{webcam}:1.2"), &[("bInterfaceClass", "01")])
        .values(
            "/sys/bus/usb/devices/1-1",
            &[("idVendor", "2109"), ("idProduct", "3431"), ("bDeviceClass", "09")],
        )
        .values("/sys/bus/usb/devices/usb1", &[("idVendor", "1d6b"), ("idProduct", "0002")])
        .values(
            "/sys/class/net/wlan0",
            &[("type", "1"), ("operstate", "up"), ("uevent", "DEVTYPE=wlan\nINTERFACE=wlan0")],
        )
        .values("/sys/class/net/eth0", &[("type", "1"), ("operstate", "down"), ("speed", "-1")])
        .folder("/sys/class/net/eth0/device")
        .values("/sys/class/thermal/thermal_zone0", &[("temp", "52584")])
}

/// A laptop: a battery on the cable, the maker's odd way with names, an encrypted disk.
pub(crate) fn laptop() -> Fixture {
    debian("22223333444455556666777788889990")
        .bytes("/bin/sh", &program(2, 62))
        .text(
            "/proc/cpuinfo",
            &x86_cpuinfo("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", &[(0, 0), (0, 1)], "ht"),
        )
        .text("/proc/meminfo", "MemTotal: 16000000 kB\n")
        .values("/proc/sys/kernel", &[("osrelease", "6.9.3"), ("hostname", "bag")])
        .values(
            "/sys/class/dmi/id",
            &[
                ("sys_vendor", "LENOVO"),
                ("product_name", "20KHCTO1WW"),
                ("product_version", "ThinkPad X1 Carbon 6th"),
            ],
        )
        .values("/sys/class/power_supply/AC", &[("type", "Mains"), ("online", "1")])
        .values(
            "/sys/class/power_supply/BAT0",
            &[
                ("type", "Battery"),
                ("status", "Charging"),
                ("capacity", "83"),
                ("energy_full", "50320000"),
            ],
        )
        .values(
            "/sys/class/power_supply/hidpp_battery_0",
            &[("type", "Battery"), ("scope", "Device"), ("capacity", "10")],
        )
        .values(
            "/sys/bus/pci/devices/0000:00:02.0",
            &[("class", "0x030000"), ("vendor", "0x8086"), ("device", "0x5917")],
        )
        .text("/usr/share/misc/pci.ids", "8086  Intel Corporation\n\t5917  UHD Graphics 620\n")
        .values("/sys/block/nvme0n1", &[("size", "1000215216"), ("queue/rotational", "0")])
        .values(
            "/sys/block/sdb",
            &[("size", "60062500"), ("removable", "1"), ("queue/rotational", "1")],
        )
        .values(
            "/sys/block/dm-0",
            &[("size", "9"), ("dm/name", "luks-top"), ("dm/uuid", "CRYPT-LUKS2-0")],
        )
        .folder("/sys/block/dm-0/slaves/nvme0n1p3")
        .text("/proc/mounts", "/dev/mapper/luks-top / ext4 rw,relatime 0 0\n")
}

/// A virtual machine of a provider, with nothing of its own.
pub(crate) fn virtual_machine() -> Fixture {
    debian("3333444455556666777788889999aaab")
        .bytes("/bin/sh", &program(2, 62))
        .text("/proc/cpuinfo", &x86_cpuinfo("AMD EPYC", &[(0, 0), (0, 1)], "hypervisor"))
        .text("/proc/meminfo", "MemTotal: 4000000 kB\n")
        .values("/proc/sys/kernel", &[("osrelease", "6.1.0"), ("hostname", "vm1")])
        .values(
            "/sys/class/dmi/id",
            &[("sys_vendor", "QEMU"), ("product_name", "Standard PC (Q35 + ICH9, 2009)")],
        )
        .values("/sys/block/vda", &[("size", "41943040"), ("queue/rotational", "1")])
        .values("/sys/class/net/eth0", &[("type", "1"), ("operstate", "up"), ("speed", "-1")])
        .folder("/sys/class/net/eth0/device")
        .text("/run/cloud-init/instance-data.json", r#"{"v1":{"region":"eu-west-1"}}"#)
}

/// A container with half a core and 512 MiB, on a machine with much more.
pub(crate) fn container() -> Fixture {
    Fixture::default()
        .text("/etc/os-release", "ID=alpine\nVERSION_ID=3.20.1\n")
        .bytes("/bin/busybox", &program(2, 62))
        .link("/bin/sh", "busybox")
        .text("/.dockerenv", "")
        .text("/proc/cpuinfo", &x86_cpuinfo("AMD EPYC", &[(0, 0), (0, 1)], "hypervisor"))
        .text("/proc/meminfo", "MemTotal: 64000000 kB\n")
        .text("/sys/fs/cgroup/memory.max", "536870912\n")
        .text("/sys/fs/cgroup/cpu.max", "50000 100000\n")
        .text("/proc/sys/kernel/random/uuid", "6f1c8d9e-0a1b-4c2d-8e3f-405162738495\n")
}
