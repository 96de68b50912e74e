//! Devices attached to the machine that a workload can use: cameras, serial lines, pins, and what
//! hangs on USB. Called by [`crate::characterise`]; start reading at [`read`].
//!
//! Cameras, serial lines and pins are named as the usual device plugin names them
//! (`squat.ai/video`), things on USB as ICOS does (`usb-video_046d_0825`). Of several alike the
//! first has the plain name, and the others `.2`, `.3`; [`counts`] has how many there are.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::characteristics::{Device, DeviceStatus};

use crate::root::{Root, Seen};

const DEVICES_MAX: usize = 128;
/// Processes and open files that are looked at to see who holds a device.
const PROCESSES_MAX: usize = 8192;
const OPEN_FILES_MAX: usize = 65536;

/// Words in the names of video nodes that are parts of a chip and no cameras.
const NO_CAMERAS: &[&str] = &["codec", "-isp", "hevc", "rpivid", "pispbe", "-dec", "-enc", "vpu"];

/// A device before it has got its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    base: String,
    kind: String,
    path: Option<String>,
}

/// What is attached now; `before` are those of the last time, and what is missing of them is told
/// as detached.
pub fn read(root: &Root, before: &[Device]) -> Vec<Device> {
    let mut found = cameras(root);
    found.extend(serial_lines(root));
    found.extend(pins(root));
    found.extend(usb(root));
    found.truncate(DEVICES_MAX);
    let paths: BTreeSet<&str> = found.iter().filter_map(|device| device.path.as_deref()).collect();
    let held = if paths.is_empty() { BTreeSet::new() } else { held(root, &paths) };
    let status = |device: &Found| match &device.path {
        Some(path) if held.contains(path.as_str()) => DeviceStatus::Busy,
        Some(path) if root.entry(path).present().is_none() => DeviceStatus::Unknown,
        Some(_) | None => DeviceStatus::Available,
    };
    let now = named(&found, status);
    with_detached(before, now)
}

/// The value of ICOS's metric `node_mounted`.
pub fn mounted(status: DeviceStatus) -> Option<i8> {
    match status {
        DeviceStatus::Available => Some(1),
        DeviceStatus::Busy => Some(0),
        DeviceStatus::Detached => Some(-1),
        DeviceStatus::Unknown => None,
    }
}

/// How many devices there are of each name, without those that are gone.
pub fn counts(devices: &[Device]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for device in devices.iter().filter(|device| device.status != Some(DeviceStatus::Detached)) {
        *counts.entry(base(&device.name).to_owned()).or_default() += 1;
    }
    counts
}

/// The name without the number that tells it from others alike.
pub fn base(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((base, number)) if base.contains('/') || base.starts_with("usb-") => {
            if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() {
                return base;
            }
            name
        }
        _ => name,
    }
}

/// What was there and is no longer stays in the list as detached.
pub fn with_detached(before: &[Device], mut now: Vec<Device>) -> Vec<Device> {
    let names: BTreeSet<String> = now.iter().map(|device| device.name.clone()).collect();
    let gone = before.iter().filter(|device| !names.contains(&device.name));
    let gone = gone.map(|device| Device { status: Some(DeviceStatus::Detached), ..device.clone() });
    now.extend(gone);
    now.truncate(DEVICES_MAX);
    now
}

fn named(found: &[Found], status: impl Fn(&Found) -> DeviceStatus) -> Vec<Device> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut devices = Vec::new();
    for device in found {
        let number = seen.entry(&device.base).or_default();
        *number += 1;
        let name = match *number {
            1 => device.base.clone(),
            number => format!("{}.{number}", device.base),
        };
        devices.push(Device {
            name,
            kind: Some(device.kind.clone()),
            status: Some(status(device)),
            path: device.path.clone(),
        });
    }
    devices
}

fn of_kind(kind: &str, node: &str) -> Found {
    let path = Some(format!("/dev/{node}"));
    Found { base: format!("squat.ai/{kind}"), kind: kind.to_owned(), path }
}

/// Of the nodes of one camera only the first gives pictures.
fn cameras(root: &Root) -> Vec<Found> {
    let folder = "/sys/class/video4linux";
    let mut nodes: Vec<String> = crate::processor::numbered(root, folder, "video").collect();
    nodes.sort_by_key(|node| (node.len(), node.clone()));
    nodes.retain(|node| {
        let name = root.text(&format!("{folder}/{node}/name")).unwrap_or_default().to_lowercase();
        let index: u32 = root.number(&format!("{folder}/{node}/index")).unwrap_or(0);
        index == 0 && !NO_CAMERAS.iter().any(|word| name.contains(word))
    });
    nodes.iter().map(|node| of_kind("video", node)).collect()
}

/// Adapters and built-in lines with a real chip behind them; not the one the console is on.
fn serial_lines(root: &Root) -> Vec<Found> {
    let console = root.text("/sys/class/tty/console/active").unwrap_or_default();
    let mut nodes = root.list("/sys/class/tty");
    nodes.retain(|node| {
        let adapter = ["ttyUSB", "ttyACM", "ttyAMA", "ttymxc", "ttyTHS", "ttyO"]
            .iter()
            .any(|prefix| node.starts_with(prefix));
        // Four of them are always listed; type 0 means that there is no chip.
        let chip: u32 = root.number(&format!("/sys/class/tty/{node}/type")).unwrap_or(0);
        let built_in = node.starts_with("ttyS") && chip != 0;
        (adapter || built_in) && !console.split_whitespace().any(|active| active == node)
    });
    nodes.iter().map(|node| of_kind("serial", node)).collect()
}

fn pins(root: &Root) -> Vec<Found> {
    let nodes = crate::processor::numbered(root, "/sys/bus/gpio/devices", "gpiochip");
    nodes.map(|node| of_kind("gpio", &node)).collect()
}

fn usb(root: &Root) -> Vec<Found> {
    let folder = "/sys/bus/usb/devices";
    let names = root.list(folder);
    names.iter().filter_map(|name| usb_device(root, folder, name, &names)).collect()
}

/// Entries with a colon are interfaces of a device, and `usb1` is the computer's own side.
fn usb_device(root: &Root, folder: &str, name: &str, names: &[String]) -> Option<Found> {
    if name.contains(':') || name.starts_with("usb") {
        return None;
    }
    let field = |field: &str| root.text(&format!("{folder}/{name}/{field}"));
    let identity = |text: String| (text.len() == 4).then(|| text.to_lowercase());
    let (vendor, product) = (identity(field("idVendor")?)?, identity(field("idProduct")?)?);
    let interfaces = names.iter().filter(|other| other.starts_with(&format!("{name}:")));
    let classes = interfaces
        .filter_map(|interface| root.text(&format!("{folder}/{interface}/bInterfaceClass")))
        .chain(field("bDeviceClass"));
    let kind = usb_kind(classes)?;
    let number = |text: Option<String>| text?.parse::<u32>().ok();
    let path = number(field("busnum"))
        .zip(number(field("devnum")))
        .map(|(bus, device)| format!("/dev/bus/usb/{bus:03}/{device:03}"));
    Some(Found { base: format!("{kind}_{vendor}_{product}"), kind: kind.to_owned(), path })
}

/// The most telling of a device's classes; nothing for a hub.
fn usb_kind(classes: impl Iterator<Item = String>) -> Option<&'static str> {
    let classes: BTreeSet<String> = classes.collect();
    let has = |class: &str| classes.contains(class);
    let kinds = [
        ("0e", "usb-video"),
        ("08", "usb-storage"),
        ("01", "usb-audio"),
        ("02", "usb-communications"),
        ("07", "usb-printer"),
        ("e0", "usb-wireless"),
        ("0b", "usb-smart-card"),
        ("03", "usb-human-interface"),
    ];
    if has("09") {
        return None;
    }
    Some(kinds.iter().find(|(class, _)| has(class)).map_or("usb-other", |(_, kind)| *kind))
}

/// Those of the paths that some process has open, as far as we may see. The only slow part: it asks
/// for every open file of the machine, so nobody comes here unless there is a device.
fn held<'a>(root: &Root, paths: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut held = BTreeSet::new();
    let mut left = OPEN_FILES_MAX;
    let processes =
        root.list("/proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    for process in processes.take(PROCESSES_MAX) {
        let folder = format!("/proc/{process}/fd");
        let Seen::Present(files) = root.folder(&folder) else { continue };
        for file in files.iter().take(left) {
            let target = root.link(&format!("{folder}/{file}")).unwrap_or_default();
            held.extend(paths.get(target.as_str()));
        }
        left = left.saturating_sub(files.len());
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(base: &str) -> Found {
        Found { base: base.into(), kind: "video".into(), path: None }
    }

    #[test]
    fn several_alike_are_told_apart_and_counted_together() {
        let all = [found("squat.ai/video"), found("usb-video_046d_0825"), found("squat.ai/video")];
        let devices = named(&all, |_| DeviceStatus::Available);
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["squat.ai/video", "usb-video_046d_0825", "squat.ai/video.2"]);
        let expected = [("squat.ai/video".to_owned(), 2), ("usb-video_046d_0825".to_owned(), 1)];
        assert_eq!(counts(&devices), BTreeMap::from(expected));
    }

    #[test]
    fn what_was_unplugged_is_detached_until_it_comes_back() {
        let camera = named(&[found("squat.ai/video")], |_| DeviceStatus::Available);
        let gone = with_detached(&camera, Vec::new());
        assert_eq!(gone[0].status, Some(DeviceStatus::Detached));
        assert!(counts(&gone).is_empty());
        assert_eq!(with_detached(&gone, camera.clone()), camera);
    }

    #[test]
    fn a_usb_device_is_called_by_its_most_telling_class() {
        let kind = |classes: &[&str]| usb_kind(classes.iter().map(|class| (*class).to_owned()));
        assert_eq!(kind(&["ef", "01", "0e"]), Some("usb-video"));
        assert_eq!(kind(&["00", "03"]), Some("usb-human-interface"));
        assert_eq!(kind(&["09", "00"]), None);
        assert_eq!(kind(&["ff"]), Some("usb-other"));
        assert_eq!(kind(&[]), Some("usb-other"));
    }

    #[test]
    fn only_a_number_of_ours_is_cut_from_a_name() {
        assert_eq!(base("squat.ai/video.2"), "squat.ai/video");
        assert_eq!(base("squat.ai/video"), "squat.ai/video");
        assert_eq!(base("usb-video_046d_0825.13"), "usb-video_046d_0825");
        assert_eq!(base("example.2"), "example.2");
    }
}
