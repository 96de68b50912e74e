//! Checks of the start of the machine and of what lies on its disks.

use super::facts::{Facts, Mapped};
use super::parse::Mount;
use super::sysctl::within;
use super::{Check, Outcome};
use crate::root::Seen;

/// Devices may be made of devices; more than this deep they are not.
const LAYERS_MAX: usize = 8;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "TMB-BOOT-001",
        title: "only signed systems are started",
        why: "At the edge anyone may come near the machine, and start another system from a stick.",
        mend: "Switch on Secure Boot in the firmware.",
        weight: 4,
        check: |facts| match (
            facts.container,
            facts.is_there("/sys/firmware/efi"),
            facts.secure_boot,
        ) {
            (true, _, _) => Outcome::not_applicable("a container is not booted"),
            (false, false, _) => Outcome::not_applicable("the firmware has no Secure Boot"),
            (false, true, Seen::Present(true)) => Outcome::pass("Secure Boot is on"),
            (false, true, Seen::Present(false) | Seen::Absent) => {
                Outcome::fail("Secure Boot is off")
            }
            (false, true, Seen::Unreadable) => {
                Outcome::unknown("cannot read the firmware's variables")
            }
        },
    },
    Check {
        id: "TMB-BOOT-002",
        title: "the disk is encrypted",
        why: "Whoever carries off the machine, or just its disk, has all that is on it: keys, \
              data, secrets.",
        mend: "Set the machine up again with LUKS below the root file system; a TPM can open it at \
               the start.",
        weight: 6,
        check: disk,
    },
    Check {
        id: "TMB-BOOT-003",
        title: "memory that is moved to disk is encrypted",
        why: "Secrets that were only ever in memory would lie on the disk in the clear.",
        mend: "Encrypt the swap (`/etc/crypttab` with a random key), use zram, or switch it off.",
        weight: 3,
        check: swap,
    },
    Check {
        id: "TMB-BOOT-004",
        title: "the running kernel cannot be exchanged",
        why: "Even root should not be able to put another kernel in place of the one that was \
              checked at the start.",
        mend: "`sysctl -w kernel.kexec_load_disabled=1` once a crash kernel is loaded, or start \
               with `lockdown=integrity`.",
        weight: 2,
        check: |facts| {
            if facts.container {
                return Outcome::not_applicable("a container has the kernel of its host");
            }
            let lockdown =
                facts.text("/sys/kernel/security/lockdown").present().unwrap_or_default();
            if lockdown.contains("[integrity]") || lockdown.contains("[confidentiality]") {
                return Outcome::pass(format!("lockdown is {}", lockdown.trim()));
            }
            within(facts, &[("kernel.kexec_load_disabled", 1..=1)])
        },
    },
];

fn disk(facts: &Facts) -> Outcome {
    if facts.container || facts.virtual_machine {
        return Outcome::not_applicable("whoever runs this machine has its disks");
    }
    let Seen::Present(mounts) = facts.mounts.as_ref() else {
        return Outcome::unknown("cannot read /proc/mounts");
    };
    let Some(top) = mounts.iter().rfind(|mount| mount.target == "/") else {
        return Outcome::unknown("nothing is mounted on /");
    };
    judge_disk(top, &facts.mapped)
}

fn judge_disk(top: &Mount, mapped: &[Mapped]) -> Outcome {
    if ["zfs", "overlay", "tmpfs", "squashfs", "ramfs", "rootfs"].contains(&top.kind.as_str()) {
        return Outcome::unknown(format!("{} does not show what it lies on", top.kind));
    }
    match encrypted(&top.source, mapped) {
        true => Outcome::pass(format!("{} is encrypted", top.source)),
        false => Outcome::fail(format!("{} is not encrypted", top.source)),
    }
}

/// Whether a device is encrypted, or a device that it is made of.
fn encrypted(source: &str, mapped: &[Mapped]) -> bool {
    let mut layer: Vec<&Mapped> = mapped
        .iter()
        .filter(|device| {
            source.strip_prefix("/dev/mapper/") == Some(&device.name)
                || source.strip_prefix("/dev/") == Some(&device.node)
        })
        .collect();
    for _ in 0..LAYERS_MAX {
        if layer.iter().any(|device| device.encrypted) {
            return true;
        }
        let below: Vec<&String> = layer.iter().flat_map(|device| &device.made_of).collect();
        layer = mapped.iter().filter(|device| below.contains(&&device.node)).collect();
    }
    false
}

fn swap(facts: &Facts) -> Outcome {
    if facts.container {
        return Outcome::not_applicable("swapping is for the host of a container");
    }
    let Seen::Present(text) = facts.text("/proc/swaps") else {
        return Outcome::not_applicable("this kernel does not swap");
    };
    let devices = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let devices: Vec<&str> = devices.filter(|device| !device.contains("zram")).collect();
    // A file lies on a file system, most likely on that of the root.
    let top = facts
        .mounts
        .as_ref()
        .present()
        .and_then(|mounts| mounts.iter().rfind(|mount| mount.target == "/"));
    let source = |device: &str| match (device.starts_with("/dev/"), top) {
        (false, Some(top)) => top.source.clone(),
        _ => device.to_owned(),
    };
    let open = devices.iter().filter(|device| !encrypted(&source(device), &facts.mapped));
    let open: Vec<String> = open.map(|device| format!("{device} is not encrypted")).collect();
    Outcome::of_problems(&open, "nothing is moved to an open disk")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(node: &str, name: &str, encrypted: bool, made_of: &[&str]) -> Mapped {
        let made_of = made_of.iter().map(|part| (*part).to_owned()).collect();
        Mapped { node: node.into(), name: name.into(), encrypted, made_of }
    }

    #[test]
    fn encryption_is_found_below_other_layers() {
        let mapped = [
            device("dm-0", "luks-1", true, &["sda2"]),
            device("dm-1", "vg-top", false, &["dm-0"]),
            device("dm-2", "vg-open", false, &["sdb1"]),
        ];
        assert!(encrypted("/dev/mapper/vg-top", &mapped));
        assert!(encrypted("/dev/dm-0", &mapped));
        assert!(!encrypted("/dev/mapper/vg-open", &mapped));
        assert!(!encrypted("/dev/sda1", &mapped));
    }

    #[test]
    fn devices_made_of_each_other_do_not_hang_the_check() {
        let mapped = [device("dm-0", "a", false, &["dm-1"]), device("dm-1", "b", false, &["dm-0"])];
        assert!(!encrypted("/dev/mapper/a", &mapped));
    }
}
