//! Graphics processors that can compute. Called by [`crate::characterise`]; start reading at
//! [`read`].
//!
//! Screens of remote consoles and of virtual machines are left out: they would make a server with a
//! service processor look like one that can run a model.

use tombolo_model::Bytes;
use tombolo_model::characteristics::Gpu;

use crate::clean;
use crate::root::{Root, Seen};

const GPUS_MAX: usize = 64;
const PCI_DEVICES_MAX: usize = 4096;
/// The list of all names has 1.5 MB today.
const NAMES_BYTES_MAX: u64 = 4 * 1024 * 1024;
const NAME_FILES: &[&str] =
    &["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/var/lib/pciutils/pci.ids"];

/// Makers of what draws a screen and does nothing else: ASPEED, Matrox, Bochs, Cirrus, VMware,
/// virtio, QXL, Hyper-V, VirtualBox, HiSilicon's and XGI's service processors.
const SCREENS_ONLY: &[u32] =
    &[0x1a03, 0x102b, 0x1234, 0x1013, 0x15ad, 0x1af4, 0x1b36, 0x1414, 0x80ee, 0x19e5, 0x18ca];

pub fn read(root: &Root) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> = Vec::new();
    let mut names = None;
    for address in root.list("/sys/bus/pci/devices").iter().take(PCI_DEVICES_MAX) {
        let folder = format!("/sys/bus/pci/devices/{address}");
        let Some((vendor, device)) = pci_computer(root, &folder) else { continue };
        let model = model_by_driver(root, &folder, address).or_else(|| {
            let names = names.get_or_insert_with(|| name_list(root));
            Some(format!("{} {}", maker(vendor)?, parse_names(names, vendor, device)?))
        });
        let unnamed = || format!("{} {vendor:04x}:{device:04x}", maker(vendor).unwrap_or("GPU"));
        gpus.push(Gpu {
            model: clean::line(&model.unwrap_or_else(unnamed), 256),
            memory: root.number(&format!("{folder}/mem_info_vram_total")).map(Bytes::new),
            cores: None,
            frequency_mhz_max: root.number(&format!("{folder}/drm/card0/gt_max_freq_mhz")),
        });
    }
    gpus.extend(board_gpus(root));
    gpus.truncate(GPUS_MAX);
    gpus
}

/// Maker and device of a PCI function that computes or draws.
fn pci_computer(root: &Root, folder: &str) -> Option<(u32, u32)> {
    let class = hexadecimal(&root.text(&format!("{folder}/class"))?)?;
    let vendor = hexadecimal(&root.text(&format!("{folder}/vendor"))?)?;
    let device = hexadecimal(&root.text(&format!("{folder}/device"))?)?;
    // 03: display; 1200: processing accelerator.
    let computes = class >> 16 == 0x03 || class >> 8 == 0x1200;
    (computes && !SCREENS_ONLY.contains(&vendor)).then_some((vendor, device))
}

/// Drivers know their cards better than any list.
fn model_by_driver(root: &Root, folder: &str, address: &str) -> Option<String> {
    let nvidia = format!("/proc/driver/nvidia/gpus/{address}/information");
    let nvidia = root.read(&nvidia).present().and_then(|text| parse_nvidia(&text));
    nvidia.or_else(|| root.text(&format!("{folder}/product_name")).filter(|name| name.len() > 2))
}

/// `Model: NVIDIA A100-PCIE-40GB`, with any blanks between.
fn parse_nvidia(text: &str) -> Option<String> {
    let model = text.lines().find_map(|line| line.strip_prefix("Model:"))?.trim();
    (!model.is_empty()).then(|| model.to_owned())
}

/// The graphics units of small boards, which are on no bus.
fn board_gpus(root: &Root) -> Vec<Gpu> {
    let mut models = Vec::new();
    for node in root.list("/sys/class/drm").iter().filter(|name| name.starts_with("renderD")) {
        let path = format!("/sys/class/drm/{node}/device/uevent");
        let Some(text) = root.read(&path).present() else { continue };
        models.extend(parse_board_gpu(&text));
    }
    let compatible = root.text("/proc/device-tree/compatible").unwrap_or_default();
    if models.is_empty() && compatible.contains("nvidia,tegra") {
        models.push("NVIDIA Tegra".to_owned());
    }
    models
        .into_iter()
        .map(|model| Gpu { model: clean::line(&model, 256), ..Gpu::default() })
        .collect()
}

/// A render node's description, if it hangs on the board's device tree: `brcm,2711-v3d`.
fn parse_board_gpu(uevent: &str) -> Option<String> {
    uevent
        .lines()
        .find_map(|line| line.strip_prefix("OF_COMPATIBLE_0="))
        .map(|compatible| compatible.replacen(',', " ", 1))
}

fn name_list(root: &Root) -> String {
    let found = NAME_FILES.iter().map(|path| root.bytes_up_to(path, NAMES_BYTES_MAX));
    let bytes = found.filter_map(Seen::present).next().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Finds a device in the list of names: makers at the start of a line, devices one tab in.
fn parse_names(names: &str, vendor: u32, device: u32) -> Option<String> {
    let vendor = format!("{vendor:04x}  ");
    let device = format!("\t{device:04x}  ");
    let mut devices = names.lines().skip_while(|line| !line.starts_with(&vendor)).skip(1);
    devices
        .by_ref()
        .take_while(|line| line.starts_with('\t') || line.starts_with('#'))
        .find_map(|line| line.strip_prefix(&device))
        .map(str::to_owned)
}

fn maker(vendor: u32) -> Option<&'static str> {
    match vendor {
        0x10de => Some("NVIDIA"),
        0x1002 | 0x1022 => Some("AMD"),
        0x8086 => Some("Intel"),
        0x1da3 => Some("Habana"),
        0x1e0f | 0x1ac1 => Some("Google"),
        _ => None,
    }
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_below_its_maker_only() {
        let names = "# comment\n1002  AMD\n\t20b0  Wrong\n10de  NVIDIA Corporation\n# x\n\
                     \t20b0  GA100 [A100 SXM4 40GB]\n\t\t10de 1463  Part\n\t20b1  Other\n8086  Intel\n\
                     \t56c0  Flex\n";
        assert_eq!(parse_names(names, 0x10de, 0x20b0).as_deref(), Some("GA100 [A100 SXM4 40GB]"));
        assert_eq!(parse_names(names, 0x10de, 0x56c0), None);
        assert_eq!(parse_names(names, 0xffff, 0x20b0), None);
        assert_eq!(parse_names("", 0, 0), None);
    }

    #[test]
    fn drivers_name_their_cards() {
        let text = "Model: \t\t NVIDIA A100-PCIE-40GB\nIRQ:   \t 1\n";
        assert_eq!(parse_nvidia(text).as_deref(), Some("NVIDIA A100-PCIE-40GB"));
        assert_eq!(parse_nvidia("Model:\n"), None);
        let board = "DRIVER=v3d\nOF_COMPATIBLE_0=brcm,2711-v3d\n";
        assert_eq!(parse_board_gpu(board).as_deref(), Some("brcm 2711-v3d"));
        assert_eq!(parse_board_gpu("DRIVER=i915\nPCI_ID=8086:1\n"), None);
    }
}
