//! Disks: what kind and how large. Called by [`crate::characterise`].

use tombolo_model::Bytes;
use tombolo_model::characteristics::{Disk, DiskKind};

use crate::root::Root;

const DISKS_MAX: usize = 64;
/// `/sys/block/*/size` counts in these whatever the disk does.
const SECTOR_BYTES: u64 = 512;
/// Names of block devices that are no disks: they are made of disks or of memory, or hold a medium
/// now and then.
const NO_DISKS: &[&str] = &["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "mtdblock"];
/// Makers that stand for a disk that some other machine makes up, in lower case.
const VIRTUAL_MAKERS: &[&str] = &["qemu", "vmware", "msft", "vbox", "google", "amazon", "xen"];

/// What is known of a block device, as far as its kind depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen<'a> {
    pub name: &'a str,
    pub rotational: Option<bool>,
    pub removable: bool,
    pub maker: &'a str,
    /// Where the link in `/sys/block` leads.
    pub link: &'a str,
}

pub fn read(root: &Root) -> Vec<Disk> {
    let names = root.list("/sys/block");
    names.iter().filter_map(|name| read_one(root, name)).take(DISKS_MAX).collect()
}

fn read_one(root: &Root, name: &str) -> Option<Disk> {
    let no_disk = NO_DISKS.iter().any(|prefix| name.starts_with(prefix));
    // The boot areas of an eMMC chip look like disks of their own.
    let boot_area = name.starts_with("mmcblk") && (name.contains("boot") || name.contains("rpmb"));
    let sectors: u64 = root.number(&format!("/sys/block/{name}/size"))?;
    // A card reader without a card has no size.
    if no_disk || boot_area || sectors == 0 {
        return None;
    }
    let rotational: Option<u8> = root.number(&format!("/sys/block/{name}/queue/rotational"));
    let kind = kind(Seen {
        name,
        rotational: rotational.map(|turns| turns == 1),
        removable: root.number(&format!("/sys/block/{name}/removable")) == Some(1),
        maker: &root.text(&format!("/sys/block/{name}/device/vendor")).unwrap_or_default(),
        link: &root.link(&format!("/sys/block/{name}")).unwrap_or_default(),
    });
    let size = Bytes::new(sectors.saturating_mul(SECTOR_BYTES));
    Some(Disk { name: name.chars().take(256).collect(), kind: Some(kind), size: Some(size) })
}

pub fn kind(seen: Seen<'_>) -> DiskKind {
    let maker = seen.maker.trim().to_lowercase();
    if seen.name.starts_with("nvme") {
        return DiskKind::Nvme;
    }
    if seen.name.starts_with("mmcblk") {
        return DiskKind::Flash;
    }
    let paravirtual = seen.name.starts_with("vd") || seen.name.starts_with("xvd");
    if paravirtual || VIRTUAL_MAKERS.contains(&maker.as_str()) || seen.link.contains("/virtio") {
        return DiskKind::Virtual;
    }
    match (seen.rotational, seen.removable) {
        (_, true) => DiskKind::Flash,
        (Some(true), false) => DiskKind::Hdd,
        (Some(false), false) => DiskKind::Ssd,
        (None, false) => DiskKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_disk_follows_from_its_driver_and_maker() {
        let disk = Seen { name: "sda", ..Seen::default() };
        assert_eq!(kind(Seen { name: "nvme0n1", ..disk }), DiskKind::Nvme);
        assert_eq!(kind(Seen { name: "mmcblk0", ..disk }), DiskKind::Flash);
        assert_eq!(kind(Seen { name: "vda", rotational: Some(true), ..disk }), DiskKind::Virtual);
        assert_eq!(kind(Seen { rotational: Some(true), ..disk }), DiskKind::Hdd);
        assert_eq!(kind(Seen { rotational: Some(false), ..disk }), DiskKind::Ssd);
        assert_eq!(
            kind(Seen { rotational: Some(true), maker: "QEMU   ", ..disk }),
            DiskKind::Virtual
        );
        assert_eq!(kind(Seen { rotational: Some(true), removable: true, ..disk }), DiskKind::Flash);
        assert_eq!(kind(disk), DiskKind::Unknown);
    }
}
