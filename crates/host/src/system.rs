//! The device as its maker sold it, and the operating system on it. Called by
//! [`crate::characterise`].

use std::collections::BTreeMap;

use tombolo_model::characteristics::Os;

use crate::clean;
use crate::root::Root;

const DMI: &str = "/sys/class/dmi/id";
/// The same tree by two names; the second is there even where `/proc` hides the first.
const DEVICE_TREES: &[&str] = &["/proc/device-tree", "/sys/firmware/devicetree/base"];

/// Maker and model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Make {
    pub vendor: Option<String>,
    pub model: Option<String>,
}

/// The device: from DMI on PCs and servers, from the device tree on boards.
pub fn make(root: &Root, board: Option<String>) -> Make {
    let dmi = |field: &str| clean::name(&root.text(&format!("{DMI}/{field}"))?);
    let vendor = dmi("sys_vendor").or_else(|| dmi("board_vendor"));
    // Lenovo keeps the name that people know in the version and a part number in the name.
    let version = dmi("product_version").filter(|_| vendor.as_deref() == Some("LENOVO"));
    let model = version.or_else(|| dmi("product_name")).or_else(|| dmi("board_name"));
    if vendor.is_some() || model.is_some() {
        return Make { vendor, model };
    }
    let tree = |field: &str| {
        DEVICE_TREES.iter().find_map(|folder| root.text(&format!("{folder}/{field}")))
    };
    Make {
        vendor: tree("compatible").and_then(|compatible| parse_compatible(&compatible)),
        model: tree("model").and_then(|model| clean::name(&model)).or(board),
    }
}

/// The maker in a device tree: the part before the comma of the first entry.
pub fn parse_compatible(compatible: &str) -> Option<String> {
    let first = compatible.split('\0').next()?;
    let maker = first.split_once(',')?.0;
    let name = match maker {
        "raspberrypi" => "Raspberry Pi",
        "nvidia" => "NVIDIA",
        "hardkernel" => "Hardkernel",
        "radxa" => "Radxa",
        "pine64" => "Pine64",
        "friendlyarm" => "FriendlyElec",
        "xunlong" => "Xunlong",
        "ti" => "Texas Instruments",
        "fsl" | "nxp" => "NXP",
        "khadas" => "Khadas",
        "starfive" => "StarFive",
        "sifive" => "SiFive",
        other => return clean::name(other),
    };
    Some(name.to_owned())
}

pub fn os(root: &Root) -> Os {
    let release = root
        .read("/etc/os-release")
        .present()
        .or_else(|| root.read("/usr/lib/os-release").present())
        .unwrap_or_default();
    let release = parse_assignments(&release);
    let field = |name: &str| clean::line(release.get(name)?, 128);
    Os {
        name: field("ID").or_else(|| field("NAME")),
        version: field("VERSION_ID").or_else(|| field("BUILD_ID")),
        kernel: root
            .text("/proc/sys/kernel/osrelease")
            .and_then(|release| clean::line(&release, 128)),
    }
}

pub fn hostname(root: &Root) -> Option<String> {
    let name = root.text("/proc/sys/kernel/hostname").or_else(|| root.text("/etc/hostname"))?;
    clean::line(&name, 253)
}

/// Lines of the form `NAME="value"`, as in `os-release` and the files below `/etc/default`.
pub fn parse_assignments(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), unquoted(value.trim())))
        .collect()
}

fn unquoted(value: &str) -> String {
    let inner =
        ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(value).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maker_of_a_board_is_the_first_word_of_its_tree() {
        let pi = "raspberrypi,4-model-b\0brcm,bcm2711\0";
        assert_eq!(parse_compatible(pi).as_deref(), Some("Raspberry Pi"));
        assert_eq!(parse_compatible("acme,board").as_deref(), Some("acme"));
        assert_eq!(parse_compatible("nonsense"), None);
        assert_eq!(parse_compatible(""), None);
    }

    #[test]
    fn assignments_may_be_quoted() {
        let text =
            "# ID=x\nID=debian\nNAME=\"Debian GNU/Linux\"\nEMPTY=\nVERSION='12'\nODD=\"\nno\n";
        let found = parse_assignments(text);
        let field = |name: &str| found.get(name).map(String::as_str);
        assert_eq!(field("ID"), Some("debian"));
        assert_eq!(field("NAME"), Some("Debian GNU/Linux"));
        assert_eq!(field("VERSION"), Some("12"));
        assert_eq!(field("EMPTY"), Some(""));
        assert_eq!(field("ODD"), Some("\""));
        assert_eq!(found.len(), 5);
    }
}
