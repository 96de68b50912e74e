//! `tombolo bench agent`: what an idle agent with one workload takes, and how a controller takes a
//! thousand agents that join at once.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_agent::engines::DockerAt;

use crate::client::Client;
use crate::machine::{Machine, app, deploy};
use crate::numbers::rounded;
use crate::server::Server;
use crate::{fleet, relay};

/// After the start: what was still under way is not idleness.
const SETTLE: Duration = Duration::from_secs(15);
/// `USER_HZ`, which Linux has fixed at this for programs.
pub(crate) const TICKS_A_SECOND: f64 = 100.0;

/// An agent that measures nothing; what measuring costs is in `bench leaf`.
const NO_METRICS: [&str; 2] = ["--metrics", "off"];

pub(crate) async fn run(dir: &Path, period: Duration, agents: usize) -> anyhow::Result<Value> {
    let mut line = idle(&dir.join("idle"), period, &NO_METRICS).await?;
    line["metrics"] = json!("off");
    let fleet = fleet::run(&dir.join("fleet"), agents).await?;
    for (name, value) in fleet.as_object().into_iter().flatten() {
        line[name] = value.clone();
    }
    Ok(line)
}

/// `tombolo bench leaf`: what it costs an agent to measure, as the difference to one that does not.
pub(crate) async fn leaf(dir: &Path, period: Duration) -> anyhow::Result<Value> {
    let off = idle(&dir.join("off"), period, &NO_METRICS).await?;
    let on = idle(&dir.join("on"), period, &[]).await?;
    let more = |name: &str| {
        let figure = |line: &Value| line[name].as_f64().unwrap_or_default();
        rounded(figure(&on) - figure(&off))
    };
    let series = on["series"].as_f64().context("nothing was measured")?;
    Ok(json!({
        "bench": "leaf", "period_s": on["period_s"], "series": series,
        "cpu_percent_more": more("cpu_percent"), "pss_mib_more": more("agent_pss_mib"),
        "wire_kbit_s_more": more("wire_kbit_s"),
        "wire_kbit_s_for_200_series": rounded(more("wire_kbit_s") * 200.0 / series),
        "samples": on["samples"], "off": off, "on": on,
    }))
}

/// How many series the agent has, and how many samples it says that it has taken.
async fn measured(client: &Client) -> anyhow::Result<(Value, Value)> {
    let ask = async |query: &str| -> anyhow::Result<Value> {
        let answer = client.get(&format!("/prometheus/api/v1/query?query={query}")).await?;
        let value = answer["data"]["result"][0]["value"][1].as_str().map(str::parse::<f64>);
        Ok(json!(value.transpose()?))
    };
    let series = ask("count(%7Bnode=%22bench-1%22%7D)").await?;
    let samples = ask("max(tombolo_leaf_samples_total%7Bnode=%22bench-1%22%7D)").await?;
    Ok((series, samples))
}

async fn idle(dir: &Path, period: Duration, options: &[&str]) -> anyhow::Result<Value> {
    let server = Server::start_with(&dir.join("server"), &["--no-agent"]).await?;
    let client = server.connect().await?;
    let (address, traffic) = relay::start(server.address()?).await?;
    let none = DockerAt::Nowhere;
    let machine = Machine::start(&server, &address, &dir.join("agent"), &none, options).await?;
    let run = json!({"process": {"command": ["sleep", "86400"]}});
    deploy(&client, &app("bench", &run)).await?;
    tokio::time::sleep(SETTLE).await;

    let pid = machine.process_id();
    let before = (ticks(pid)?, traffic.payload_bytes(), traffic.wire_bytes());
    tokio::time::sleep(period).await;
    let after = (ticks(pid)?, traffic.payload_bytes(), traffic.wire_bytes());

    let seconds = period.as_secs_f64();
    let kbit = |from: u64, to: u64| rounded(number(to - from) * 8.0 / 1000.0 / seconds);
    let (series, samples) = measured(&client).await?;
    let supervisor = machine.supervisors().into_iter().next().context("there is no supervisor")?;
    Ok(json!({
        "bench": "agent", "period_s": seconds,
        "agent_pss_mib": rounded(pss_mib(pid)?),
        "agent_rss_mib": rounded(rss_mib(pid)?),
        "supervisor_pss_mib": rounded(pss_mib(supervisor)?),
        "cpu_percent": rounded(number(after.0 - before.0) / TICKS_A_SECOND / seconds * 100.0),
        "payload_kbit_s": kbit(before.1, after.1),
        "wire_kbit_s": kbit(before.2, after.2),
        "series": series, "samples": samples,
    }))
}

#[expect(clippy::cast_precision_loss, reason = "bytes and ticks of a minute")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// Processor time of a process so far, its own and the kernel's for it.
pub(crate) fn ticks(pid: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = text.rsplit_once(')').context("a name in brackets")?.1;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |index: usize| -> anyhow::Result<u64> {
        Ok(fields.get(index).context("a field of /proc/PID/stat")?.parse()?)
    };
    Ok(field(11)? + field(12)?)
}

pub(crate) fn pss_mib(pid: u32) -> anyhow::Result<f64> {
    mib_of(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn rss_mib(pid: u32) -> anyhow::Result<f64> {
    mib_of(&format!("/proc/{pid}/status"), "VmRSS:")
}

pub(crate) fn mib_of(path: &str, name: &str) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")).context("a line in kB")?;
    Ok(kib.trim().parse::<f64>()? / 1024.0)
}
