//! `tombolo bench deploy`: how long it takes from an App to a process or a container that is up and
//! known to be, through a real server, its placing loop, and a real agent; and what of that a process costs
//! because it is confined.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tombolo_agent::engines::DockerAt;

use crate::agent::pss_mib;
use crate::client::Client;
use crate::image::{BUSYBOX, IMAGE, Image, Missing};
use crate::machine::{APPS, Machine, SITE, app, deploy, wait_until_gone};
use crate::numbers::{percentile_ms, rounded};
use crate::server::Server;

pub(crate) const APPS_USUAL: usize = 100;
/// Not counted: the first ones find everything cold.
const WARM_UP: usize = 3;
const SITES: &str = "/apis/tombolo.dev/v1alpha1/sites";

pub(crate) async fn run(dir: &Path, apps: usize, docker: &DockerAt) -> anyhow::Result<Value> {
    let image = match docker.socket() {
        Some(socket) => Image::make(&socket)?,
        None => Err(Missing("--docker none".to_owned())),
    };
    // What is not measured is not looked for.
    let docker = if image.is_ok() { docker } else { &DockerAt::Nowhere };
    let server = Server::start_with(&dir.join("server"), &["--no-agent"]).await?;
    let client = server.connect().await?;
    let site = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Site", "metadata": {"name": SITE},
        "spec": {"engine": "host", "allow": ["process", "privileged"]},
    });
    client.post(SITES, &site).await?;
    let machine =
        Machine::start(&server, &server.address()?, &dir.join("agent"), docker, &[]).await?;
    let mut line = json!({"bench": "deploy", "apps": apps});
    confinement(&mut line, &client, &machine, apps).await?;
    match &image {
        Ok(_) => {
            // One that ends when it is asked to: the end of the last is not to hold up the next.
            let script = format!("trap 'exit 0' TERM; {BUSYBOX} sleep 86400 & wait");
            let command = [BUSYBOX, "sh", "-c", &script];
            let container = json!({"container": {"image": IMAGE, "command": command}});
            let mut times = measure(&client, apps, &[container]).await?;
            add(&mut line, "docker", times.remove(0));
        }
        Err(Missing(reason)) => line["docker_skipped"] = json!(reason),
    }
    Ok(line)
}

/// The same program confined, as any workload is, and with all rights of the agent, in turns: what happens on the
/// machine meanwhile happens to both. What confinement costs is the difference.
async fn confinement(
    line: &mut Value,
    client: &Client,
    machine: &Machine,
    apps: usize,
) -> anyhow::Result<()> {
    let process = |more: Value| {
        let mut process = json!({"command": ["sleep", "86400"]});
        process["privileged"] = more;
        json!({"process": process})
    };
    let ways = [process(json!(false)), process(json!(true))];
    let times = measure(client, apps, &ways).await?;
    let mut halves = Vec::new();
    for (name, mut times) in ["process", "process_unconfined"].into_iter().zip(times) {
        halves.push(percentile_ms(&mut times, 50));
        add(line, name, times);
    }
    let mut memory = Vec::new();
    for way in &ways {
        deploy(client, &app("bench-memory", way)).await?;
        memory.push(instance_pss_mib(machine)?);
        client.delete(&format!("{APPS}/bench-memory")).await?;
        wait_until_gone(client).await?;
    }
    line["confinement_ms"] = json!(rounded(halves[0] - halves[1]));
    line["instance_pss_mib"] = json!(rounded(memory[0]));
    line["instance_unconfined_pss_mib"] = json!(rounded(memory[1]));
    line["confinement_pss_mib"] = json!(rounded(memory[0] - memory[1]));
    Ok(())
}

/// Of the one instance that runs: its supervisor and its program.
fn instance_pss_mib(machine: &Machine) -> anyhow::Result<f64> {
    let supervisor = machine.supervisors().into_iter().next().context("there is no supervisor")?;
    let children =
        std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"))?;
    let mut all = pss_mib(supervisor)?;
    for child in children.split_ascii_whitespace() {
        all += pss_mib(child.parse()?)?;
    }
    Ok(all)
}

/// Deploys one App after the other, each of these ways in turn, and removes each. The times of each way.
async fn measure(
    client: &Client,
    apps: usize,
    ways: &[Value],
) -> anyhow::Result<Vec<Vec<Duration>>> {
    let mut times = vec![Vec::new(); ways.len()];
    for number in 0..WARM_UP + apps {
        for (run, times) in ways.iter().zip(&mut times) {
            let name = format!("bench-{number}");
            let took = deploy(client, &app(&name, run)).await?;
            if number >= WARM_UP {
                times.push(took);
            }
            client.delete(&format!("{APPS}/{name}")).await?;
            // The next one finds the machine idle, and nothing is left behind.
            wait_until_gone(client).await?;
        }
    }
    Ok(times)
}

fn add(line: &mut Value, kind: &str, mut times: Vec<Duration>) {
    for (name, percent) in [("p50", 50), ("p99", 99), ("max", 100)] {
        line[format!("{kind}_{name}_ms")] = json!(percentile_ms(&mut times, percent));
    }
}
