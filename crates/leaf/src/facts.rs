//! What a machine is, as metrics whose labels say it: those of ICOS (`tlum_…`) and ACCORDION
//! (`char_node_…`). They change seldom and go out with each message once. Start at [`samples`].

use std::collections::BTreeMap;

use tombolo_model::characteristics::{Characteristics, DeviceStatus};
use tombolo_model::node::Energy;

use crate::Measured;
use crate::machine::Whose;
use crate::measured::Moment;

/// What is known of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub hostname: String,
    /// Where it is reached.
    pub address: String,
    pub site: String,
    pub characteristics: Characteristics,
    pub energy: Energy,
    /// From 0 to 100.
    pub security_score: Option<u8>,
    /// Of the Node, as its operator wrote them.
    pub labels: BTreeMap<String, String>,
    pub version: String,
}

/// Devices beyond this number are left out.
const DEVICES_MAX: usize = 64;

pub fn samples(facts: &Facts, whose: Whose<'_>, at_ms: i64) -> Vec<Measured> {
    let mut moment = Moment::new(at_ms, whose.labels());
    of_node_exporter(facts, whose, &mut moment);
    of_icos(facts, whose, &mut moment);
    of_accordion(facts, whose, &mut moment);
    moment.put("tombolo_agent_info", &[("version", &facts.version)], 1.0);
    moment.found
}

/// Nothing is an empty label, which is one that is not there.
fn text(word: Option<&String>) -> &str {
    word.map(String::as_str).unwrap_or_default()
}

fn architecture(facts: &Facts) -> String {
    let arch = facts.characteristics.cpu.as_ref().and_then(|cpu| cpu.architecture);
    let word = arch.map(|arch| arch.to_string()).unwrap_or_default();
    match word.as_str() {
        // As `uname` has them.
        "amd64" => "x86_64".to_owned(),
        "arm64" => "aarch64".to_owned(),
        _ => word,
    }
}

fn of_node_exporter(facts: &Facts, whose: Whose<'_>, moment: &mut Moment<'_>) {
    let os = facts.characteristics.os.clone().unwrap_or_default();
    let named = [
        ("nodename", whose.node),
        ("sysname", "Linux"),
        ("release", text(os.kernel.as_ref())),
        ("machine", &architecture(facts)),
    ];
    moment.put("node_uname_info", &named, 1.0);
    let cpu = facts.characteristics.cpu.as_ref();
    let hertz = cpu.and_then(|cpu| cpu.frequency_mhz_max).map(|mhz| f64::from(mhz) * 1e6);
    moment.put_some("node_cpu_frequency_max_hertz", &[], hertz);
}

fn of_icos(facts: &Facts, whose: Whose<'_>, moment: &mut Moment<'_>) {
    let what = &facts.characteristics;
    let os = what.os.clone().unwrap_or_default();
    let degrees = |pick: fn(&tombolo_model::site::Location) -> Option<f64>| {
        what.location.as_ref().and_then(pick).map(|degrees| degrees.to_string()).unwrap_or_default()
    };
    let (latitude, longitude) = (degrees(|at| at.latitude), degrees(|at| at.longitude));
    let host = [
        ("os", text(os.name.as_ref())),
        ("ip", &facts.address),
        ("arch", &architecture(facts)),
        ("latitude", &latitude),
        ("longitude", &longitude),
        ("hostname", &facts.hostname),
        ("tlum_host_id", whose.host),
    ];
    moment.put("tlum_host_info", &host, 1.0);
    let site = facts.site.as_str();
    let orchestrator =
        [("type", "tombolo"), ("agent_id", site), ("agent_name", site), ("cluster_id", site)];
    moment.put("tlum_orch_info", &orchestrator, 1.0);
    for engine in &what.engines {
        let runtime = [
            ("type", engine.name.as_str()),
            ("version", text(engine.version.as_ref())),
            ("node_name", whose.node),
            ("cluster_id", site),
        ];
        moment.put("tlum_runtime_info", &runtime, 1.0);
    }
    let labels: Vec<(String, &str)> = facts
        .labels
        .iter()
        .map(|(name, value)| (format!("label_{}", as_label(name)), value.as_str()))
        .collect();
    if !labels.is_empty() {
        let labels: Vec<(&str, &str)> =
            labels.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        moment.put("tlum_host_labels", &labels, 1.0);
    }
    for device in what.devices.iter().take(DEVICES_MAX) {
        let labels = [("device", text(device.path.as_ref())), ("resource_path", &device.name)];
        let value = match device.status {
            Some(DeviceStatus::Available) => 1.0,
            Some(DeviceStatus::Busy) => 0.0,
            Some(DeviceStatus::Detached) => -1.0,
            Some(DeviceStatus::Unknown) | None => continue,
        };
        moment.put("node_mounted", &labels, value);
    }
    let agent = [("agent_ip", facts.address.as_str()), ("agent_hostname", &facts.hostname)];
    moment.put_some("SCA_score", &agent, facts.security_score.map(f64::from));
}

/// A label of Kubernetes, as Prometheus can have it.
fn as_label(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

fn of_accordion(facts: &Facts, whose: Whose<'_>, moment: &mut Moment<'_>) {
    let what = &facts.characteristics;
    let class = text(what.model.as_ref());
    let named: Vec<(&str, &str)> = vec![
        ("char_node_name", whose.node),
        ("char_node_class", class),
        ("char_node_uuid", whose.host),
    ];
    let mut put = |metric: &str, more: &[(&str, &str)], value: Option<f64>| {
        let labels: Vec<(&str, &str)> = named.iter().chain(more).copied().collect();
        moment.put_some(metric, &labels, value);
    };
    if let Some(battery) = &what.battery {
        let plugged = if battery.charging { "true" } else { "false" };
        let level = battery.level.map(f64::from);
        put("char_node_battery", &[("char_node_plugged_battery", plugged)], level);
    }
    let bytes = what.memory.map(|memory| memory.get() as f64);
    put("char_node_ram_total_bytes", &[], bytes);
    let cpu = what.cpu.clone().unwrap_or_default();
    let arch = architecture(facts);
    let bits =
        if arch.ends_with("64") || arch.ends_with("64le") || arch == "s390x" { "64" } else { "32" };
    let processor = [
        ("char_node_cpu_brand", text(cpu.model.as_ref())),
        ("char_node_cpu_arch", &arch),
        ("char_node_cpu_bits", if arch.is_empty() { "" } else { bits }),
    ];
    put("char_node_cpu_total_cores", &processor, cpu.cores.or(cpu.threads).map(f64::from));
    put("char_node_cpu_energy_watt", &[], facts.energy.busy_watts);
    if let Some(at) = &what.location {
        let degrees = |degrees: Option<f64>| degrees.map(|one| one.to_string()).unwrap_or_default();
        let (latitude, longitude) = (degrees(at.latitude), degrees(at.longitude));
        let place = [
            ("char_node_location_city", text(at.city.as_ref())),
            ("char_node_location_country", text(at.country.as_ref())),
            ("char_node_location_continent", text(at.continent.as_ref())),
            ("char_node_location_latitude", &latitude),
            ("char_node_location_longitude", &longitude),
        ];
        put("char_node_location", &place, Some(1.0));
    }
    let disks: f64 =
        what.disks.iter().filter_map(|disk| disk.size).map(|size| size.get() as f64).sum();
    put("char_node_disk_total_size", &[], (!what.disks.is_empty()).then_some(disks));
    let os = what.os.clone().unwrap_or_default();
    let named_os = [
        ("char_node_os_name", text(os.name.as_ref())),
        ("char_node_os_version", text(os.version.as_ref())),
    ];
    put("char_node_os", &named_os, what.os.as_ref().map(|_| 1.0));
    let mut models: BTreeMap<&str, u32> = BTreeMap::new();
    for gpu in &what.gpus {
        *models.entry(text(gpu.model.as_ref())).or_default() += 1;
    }
    for (model, count) in models {
        put("char_node_gpu", &[("char_node_gpu_model", model)], Some(f64::from(count)));
    }
    put(
        "char_node_device_model",
        &[("char_node_device_vendor", text(what.vendor.as_ref()))],
        Some(1.0),
    );
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use tombolo_model::characteristics::{Battery, Device, Gpu, Os, Processor};
    use tombolo_model::site::Location;
    use tombolo_model::{Arch, Bytes};

    use super::*;

    #[test]
    fn a_machine_is_told_in_the_words_of_others() {
        let device = |name: &str, status| Device {
            name: name.to_owned(),
            status: Some(status),
            path: Some(format!("/dev/{name}")),
            ..Device::default()
        };
        let facts = Facts {
            hostname: "crane.local".to_owned(),
            address: "10.0.0.7".to_owned(),
            site: "north".to_owned(),
            characteristics: Characteristics {
                model: Some("Pi 4".to_owned()),
                cpu: Some(Processor {
                    architecture: Some(Arch::Arm64),
                    cores: Some(4),
                    frequency_mhz_max: Some(1500),
                    ..Processor::default()
                }),
                memory: Some(Bytes::new(4096)),
                os: Some(Os { name: Some("debian".to_owned()), ..Os::default() }),
                battery: Some(Battery { level: Some(80), charging: true, ..Battery::default() }),
                location: Some(Location { latitude: Some(48.5), ..Location::default() }),
                gpus: vec![Gpu { model: Some("V3D".to_owned()), ..Gpu::default() }; 2],
                devices: vec![
                    device("video0", DeviceStatus::Available),
                    device("video1", DeviceStatus::Busy),
                    device("video2", DeviceStatus::Detached),
                    device("video3", DeviceStatus::Unknown),
                ],
                ..Characteristics::default()
            },
            energy: Energy { busy_watts: Some(6.5), ..Energy::default() },
            security_score: Some(72),
            labels: BTreeMap::from([("plant.example/hall".to_owned(), "3".to_owned())]),
            version: "0.1.0".to_owned(),
        };
        let whose = Whose { node: "crane", host: "4f2a" };
        let line = |one: &Measured| {
            let own = one.labels.without(|name| {
                let of_all = ["job", "instance", "icos_host_id"];
                of_all.contains(&name) || matches!(name, "char_node_name" | "char_node_uuid")
            });
            format!("{own} {}\n", one.value)
        };
        let text: String = samples(&facts, whose, 0).iter().map(line).collect();
        expect![[r#"
            {__name__="node_uname_info", machine="aarch64", nodename="crane", sysname="Linux"} 1
            {__name__="node_cpu_frequency_max_hertz"} 1500000000
            {__name__="tlum_host_info", arch="aarch64", hostname="crane.local", ip="10.0.0.7", latitude="48.5", os="debian", tlum_host_id="4f2a"} 1
            {__name__="tlum_orch_info", agent_id="north", agent_name="north", cluster_id="north", type="tombolo"} 1
            {__name__="tlum_host_labels", label_plant_example_hall="3"} 1
            {__name__="node_mounted", device="/dev/video0", resource_path="video0"} 1
            {__name__="node_mounted", device="/dev/video1", resource_path="video1"} 0
            {__name__="node_mounted", device="/dev/video2", resource_path="video2"} -1
            {__name__="SCA_score", agent_hostname="crane.local", agent_ip="10.0.0.7"} 72
            {__name__="char_node_battery", char_node_class="Pi 4", char_node_plugged_battery="true"} 80
            {__name__="char_node_ram_total_bytes", char_node_class="Pi 4"} 4096
            {__name__="char_node_cpu_total_cores", char_node_class="Pi 4", char_node_cpu_arch="aarch64", char_node_cpu_bits="64"} 4
            {__name__="char_node_cpu_energy_watt", char_node_class="Pi 4"} 6.5
            {__name__="char_node_location", char_node_class="Pi 4", char_node_location_latitude="48.5"} 1
            {__name__="char_node_os", char_node_class="Pi 4", char_node_os_name="debian"} 1
            {__name__="char_node_gpu", char_node_class="Pi 4", char_node_gpu_model="V3D"} 2
            {__name__="char_node_device_model", char_node_class="Pi 4"} 1
            {__name__="tombolo_agent_info", version="0.1.0"} 1
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn nothing_is_said_of_what_nobody_knows() {
        let whose = Whose { node: "crane", host: "4f2a" };
        let found = samples(&Facts::default(), whose, 0);
        let names: Vec<&str> = found.iter().map(|one| one.labels.get("__name__")).collect();
        let expected = [
            "node_uname_info",
            "tlum_host_info",
            "tlum_orch_info",
            "char_node_device_model",
            "tombolo_agent_info",
        ];
        assert_eq!(names, expected);
    }
}
