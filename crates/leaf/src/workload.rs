//! What workloads use, under the names of cAdvisor, and what ICOS calls their state. Start at [`samples`].

use crate::Measured;
use crate::measured::Moment;

/// An instance, as its engine tells of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The engine's and the agent's name of this revision of it: two revisions may stand side by side.
    pub id: String,
    pub engine: String,
    pub namespace: String,
    pub app: String,
    pub component: String,
    /// Name of the Assignment.
    pub instance: String,
    /// The App by which ICOS knows it; nothing where nobody has said.
    pub app_id: Option<String>,
    pub status: Status,
    /// In seconds since 1970.
    pub started_at: Option<f64>,
    pub restarts: u32,
    pub usage: Option<Usage>,
}

/// In the words of ICOS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    Pending,
    Running,
    Exited,
    Failed,
    #[default]
    Unknown,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::Exited => "exited",
            Status::Failed => "failed",
            Status::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_micros: u64,
    pub memory_bytes: u64,
    pub processes: u32,
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
}

/// All samples of one look at the engines of a machine whose id is `host`.
pub fn samples(workloads: &[Workload], host: &str, at_ms: i64) -> Vec<Measured> {
    let mut moment = Moment::new(at_ms, vec![("icos_host_id", host)]);
    for one in workloads {
        put(one, &mut moment);
    }
    moment.found
}

fn put(one: &Workload, moment: &mut Moment<'_>) {
    let labels = [
        ("namespace", one.namespace.as_str()),
        ("app", &one.app),
        ("component", &one.component),
        ("instance", &one.instance),
        // As dashboards for Kubernetes call them.
        ("pod", &one.instance),
        ("container", &one.component),
        ("engine", &one.engine),
        ("id", &one.id),
    ];
    let restarts = f64::from(one.restarts);
    moment.put("kube_pod_container_status_restarts_total", &labels, restarts);
    let app_id = one.app_id.as_deref().unwrap_or_default();
    let told = [
        ("namespace", one.namespace.as_str()),
        ("name", &one.instance),
        ("id", &one.id),
        ("status", one.status.word()),
        ("icos_app_name", &one.app),
        ("icos_app_instance", app_id),
        ("icos_app_component", &one.component),
    ];
    moment.put("tlum_workload_info", &told, 1.0);
    let Some(usage) = one.usage else { return };
    moment.put_some("container_start_time_seconds", &labels, one.started_at);
    let seconds = usage.cpu_micros as f64 / 1e6;
    moment.put("container_cpu_usage_seconds_total", &labels, seconds);
    // Drivers leave out what the kernel can take back at any time, so that both are the same.
    moment.put("container_memory_usage_bytes", &labels, usage.memory_bytes as f64);
    moment.put("container_memory_working_set_bytes", &labels, usage.memory_bytes as f64);
    moment.put("container_processes", &labels, f64::from(usage.processes));
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    let (received, sent) = (bytes(usage.received_bytes), bytes(usage.sent_bytes));
    moment.put_some("container_network_receive_bytes_total", &labels, received);
    moment.put_some("container_network_transmit_bytes_total", &labels, sent);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn web() -> Workload {
        Workload {
            id: "u1.2a".to_owned(),
            engine: "host".to_owned(),
            namespace: "shop".to_owned(),
            app: "store".to_owned(),
            component: "web".to_owned(),
            instance: "store-web-0".to_owned(),
            app_id: Some("app-uid".to_owned()),
            status: Status::Running,
            started_at: Some(1.7e9),
            restarts: 2,
            usage: Some(Usage {
                cpu_micros: 1_500_000,
                memory_bytes: 4096,
                processes: 3,
                received_bytes: None,
                sent_bytes: Some(7),
            }),
        }
    }

    #[test]
    fn an_instance_is_told_with_the_labels_of_our_kinds() {
        let found = samples(&[web()], "4f2a", 5);
        let cpu = &found[3];
        expect![[r#"{__name__="container_cpu_usage_seconds_total", app="store", component="web", container="web", engine="host", icos_host_id="4f2a", id="u1.2a", instance="store-web-0", namespace="shop", pod="store-web-0"}"#]]
            .assert_eq(&cpu.labels.to_string());
        let values: Vec<String> = found
            .iter()
            .map(|one| format!("{} {}", one.labels.get("__name__"), one.value))
            .collect();
        expect![[r#"
            kube_pod_container_status_restarts_total 2
            tlum_workload_info 1
            container_start_time_seconds 1700000000
            container_cpu_usage_seconds_total 1.5
            container_memory_usage_bytes 4096
            container_memory_working_set_bytes 4096
            container_processes 3
            container_network_transmit_bytes_total 7"#]]
        .assert_eq(&values.join("\n"));
    }

    #[test]
    fn two_revisions_side_by_side_are_two_series() {
        let newer = Workload { id: "u1.2b".to_owned(), ..web() };
        let found = samples(&[web(), newer], "4f2a", 5);
        let mut labels: Vec<String> = found.iter().map(|one| one.labels.to_string()).collect();
        labels.sort();
        let count = labels.len();
        labels.dedup();
        assert_eq!(labels.len(), count);
    }

    #[test]
    fn what_does_not_run_uses_nothing_and_is_told_all_the_same() {
        let ended = Workload { status: Status::Failed, usage: None, ..web() };
        let found = samples(&[ended], "4f2a", 5);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].labels.get("status"), "failed");
    }
}
