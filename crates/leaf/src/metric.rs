//! All that an agent measures, one row a metric: [`METRICS`]. The server keeps kind, unit and help, and
//! `docs/metrics.md` is this table.

/// What a value of a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Info,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: &'static str,
    /// Beside those that every series of its group has.
    pub labels: &'static str,
    pub help: &'static str,
}

const fn row(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    labels: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, kind, unit, labels, help }
}

use Kind::{Counter, Gauge, Info};

#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    row("up", Gauge, "", "", "the agent reads the machine"),
    row("node_cpu_seconds_total", Counter, "seconds", "cpu, mode", "time of each processor by what it did"),
    row("node_cpu_scaling_frequency_hertz", Gauge, "hertz", "cpu", "how fast a processor runs"),
    row("node_cpu_frequency_max_hertz", Gauge, "hertz", "", "how fast processors can run"),
    row("node_load1", Gauge, "", "", "processes that ran or wanted to, over one minute"),
    row("node_load5", Gauge, "", "", "the same over five minutes"),
    row("node_load15", Gauge, "", "", "the same over fifteen minutes"),
    row("node_intr_total", Counter, "", "", "interrupts"),
    row("node_context_switches_total", Counter, "", "", "changes from one process to another"),
    row("node_forks_total", Counter, "", "", "processes that were started"),
    row("node_procs_running", Gauge, "", "", "processes that run or could"),
    row("node_procs_blocked", Gauge, "", "", "processes that wait for a disk"),
    row("node_boot_time_seconds", Gauge, "seconds", "", "when the machine was started"),
    row("node_uname_info", Info, "", "nodename, sysname, release, machine", "the system, as uname names it"),
    row("node_memory_MemTotal_bytes", Gauge, "bytes", "", "memory that there is"),
    row("node_memory_MemFree_bytes", Gauge, "bytes", "", "memory that nobody uses"),
    row("node_memory_MemAvailable_bytes", Gauge, "bytes", "", "memory that a program could have"),
    row("node_memory_Buffers_bytes", Gauge, "bytes", "", "buffers of disks"),
    row("node_memory_Cached_bytes", Gauge, "bytes", "", "pages of files"),
    row("node_memory_SwapTotal_bytes", Gauge, "bytes", "", "swap that there is"),
    row("node_memory_SwapFree_bytes", Gauge, "bytes", "", "swap that nobody uses"),
    row("node_memory_Active_bytes", Gauge, "bytes", "", "memory used lately"),
    row("node_memory_Inactive_bytes", Gauge, "bytes", "", "memory not used lately"),
    row("node_memory_Dirty_bytes", Gauge, "bytes", "", "memory that waits to be written"),
    row("node_memory_AnonPages_bytes", Gauge, "bytes", "", "memory of programs that is of no file"),
    row("node_memory_Shmem_bytes", Gauge, "bytes", "", "memory that programs share"),
    row("node_memory_SReclaimable_bytes", Gauge, "bytes", "", "memory that the kernel can give back"),
    row("node_pressure_cpu_waiting_seconds_total", Counter, "seconds", "", "time in which somebody waited for a processor"),
    row("node_pressure_io_waiting_seconds_total", Counter, "seconds", "", "time in which somebody waited for a disk"),
    row("node_pressure_io_stalled_seconds_total", Counter, "seconds", "", "time in which everybody did"),
    row("node_pressure_memory_waiting_seconds_total", Counter, "seconds", "", "time in which somebody waited for memory"),
    row("node_pressure_memory_stalled_seconds_total", Counter, "seconds", "", "time in which everybody did"),
    row("node_disk_reads_completed_total", Counter, "", "device", "reads"),
    row("node_disk_read_bytes_total", Counter, "bytes", "device", "what was read"),
    row("node_disk_read_time_seconds_total", Counter, "seconds", "device", "time that reads took: with their number, the latency"),
    row("node_disk_writes_completed_total", Counter, "", "device", "writes"),
    row("node_disk_written_bytes_total", Counter, "bytes", "device", "what was written"),
    row("node_disk_write_time_seconds_total", Counter, "seconds", "device", "time that writes took: with their number, the latency"),
    row("node_disk_io_now", Gauge, "", "device", "reads and writes under way"),
    row("node_disk_io_time_seconds_total", Counter, "seconds", "device", "time in which the disk did something"),
    row("node_disk_io_time_weighted_seconds_total", Counter, "seconds", "device", "the same times what was under way"),
    row("node_filesystem_size_bytes", Gauge, "bytes", "device, fstype, mountpoint", "room that there is"),
    row("node_filesystem_avail_bytes", Gauge, "bytes", "device, fstype, mountpoint", "room for users without privileges"),
    row("node_network_receive_bytes_total", Counter, "bytes", "device", "what was received"),
    row("node_network_receive_packets_total", Counter, "", "device", "packets received"),
    row("node_network_receive_errs_total", Counter, "", "device", "errors in receiving"),
    row("node_network_receive_drop_total", Counter, "", "device", "packets dropped in receiving"),
    row("node_network_transmit_bytes_total", Counter, "bytes", "device", "what was sent"),
    row("node_network_transmit_packets_total", Counter, "", "device", "packets sent"),
    row("node_network_transmit_errs_total", Counter, "", "device", "errors in sending"),
    row("node_network_transmit_drop_total", Counter, "", "device", "packets dropped in sending"),
    row("node_thermal_zone_temp", Gauge, "celsius", "zone, type", "temperature of a zone"),
    row("node_rapl_package_joules_total", Counter, "joules", "index, path", "energy of a package of processors, as the kernel counts it; only root may read it"),
    row("tombolo_node_power_watts", Gauge, "watts", "source", "power: rapl of the processors, counted; said and model of the machine, calculated"),
    row("tombolo_node_energy_joules_total", Counter, "joules", "source", "energy since the agent started, from the same source"),
    row("scaph_host_energy_microjoules_total", Counter, "microjoules", "source", "the same under the name that ICOS asks for"),
    row("container_cpu_usage_seconds_total", Counter, "seconds", "", "processor time of an instance"),
    row("container_memory_usage_bytes", Gauge, "bytes", "", "memory of an instance"),
    row("container_memory_working_set_bytes", Gauge, "bytes", "", "the same: what the kernel can take back is in neither"),
    row("container_processes", Gauge, "", "", "processes of an instance"),
    row("container_start_time_seconds", Gauge, "seconds", "", "when an instance was started"),
    row("container_network_receive_bytes_total", Counter, "bytes", "", "what an instance received; containers only"),
    row("container_network_transmit_bytes_total", Counter, "bytes", "", "what an instance sent; containers only"),
    row("kube_pod_container_status_restarts_total", Counter, "", "", "how often an instance was started again"),
    row("tlum_workload_info", Info, "", "name, status, icos_app_name, icos_app_instance, icos_app_component", "an instance, in the words of ICOS"),
    row("tlum_host_info", Info, "", "os, ip, arch, latitude, longitude, hostname, tlum_host_id", "the machine, in the words of ICOS"),
    row("tlum_orch_info", Info, "", "type, agent_id, agent_name, cluster_id", "who orchestrates it"),
    row("tlum_runtime_info", Info, "", "type, version, node_name, cluster_id", "an engine of the machine"),
    row("tlum_host_labels", Info, "", "label_…", "labels of the Node"),
    row("node_mounted", Gauge, "", "device, resource_path", "a device: 1 available, 0 busy, -1 detached"),
    row("SCA_score", Gauge, "", "agent_ip, agent_hostname", "how safely the machine is set up, of 100"),
    row("char_node_battery", Gauge, "percent", "char_node_plugged_battery", "how full the battery is"),
    row("char_node_ram_total_bytes", Gauge, "bytes", "", "memory"),
    row("char_node_cpu_total_cores", Gauge, "", "char_node_cpu_brand, char_node_cpu_arch, char_node_cpu_bits", "cores"),
    row("char_node_cpu_energy_watt", Gauge, "watts", "", "power when busy"),
    row("char_node_location", Info, "", "char_node_location_…: city, country, continent, latitude, longitude", "where it is"),
    row("char_node_disk_total_size", Gauge, "bytes", "", "disks"),
    row("char_node_os", Info, "", "char_node_os_name, char_node_os_version", "system"),
    row("char_node_gpu", Gauge, "", "char_node_gpu_model", "how many there are of this model"),
    row("char_node_device_model", Info, "", "char_node_device_vendor", "its model is char_node_class"),
    row("tombolo_agent_info", Info, "", "version", "the agent"),
    row("tombolo_leaf_samples_total", Counter, "", "", "samples that the agent has taken"),
    row("tombolo_leaf_sent_bytes_total", Counter, "bytes", "", "what it has sent of them"),
    row("tombolo_leaf_send_failures_total", Counter, "", "", "messages that the server did not take"),
    row("tombolo_leaf_refused_samples_total", Counter, "", "", "samples that the server will never take"),
    row("tombolo_leaf_dropped_samples_total", Counter, "", "why", "samples that were let go of: buffer, the oldest of a full buffer; gathering, too many at once; pushed, too many of parts of the agent"),
    row("tombolo_leaf_buffered_samples", Gauge, "", "", "samples that wait to be sent"),
    row("tombolo_leaf_buffered_bytes", Gauge, "bytes", "", "what they take"),
    row("tombolo_leaf_bytes_per_second_max", Gauge, "bytes", "", "what it may take of the link"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_metric_has_one_row_and_counters_end_as_counters_do() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Counter, "{}", metric.name);
            assert!(!metric.help.is_empty() && !metric.help.contains('|'), "{}", metric.name);
        }
    }

    #[test]
    fn the_page_lists_all_that_is_measured() {
        let page = include_str!("../../../docs/metrics.md");
        let row = |metric: &Metric| {
            let Metric { name, kind, unit, labels, help } = metric;
            format!("| `{name}` | {} | {unit} | {labels} | {help} |\n", kind.word())
        };
        let table: String = METRICS.iter().map(row).collect();
        assert!(page.contains(&table), "docs/metrics.md is to have these rows:\n{table}");
    }
}
