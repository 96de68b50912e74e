//! `tombolo bench deploy`: how long it takes from an App to a process or a container that is up and
//! known to be, through a real server, its placing loop, and a real agent.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tombolo_agent::engines::DockerAt;

use crate::client::Client;
use crate::image::{BUSYBOX, IMAGE, Image, Missing};
use crate::machine::{APPS, Machine, app, deploy, wait_until_gone};
use crate::numbers::percentile_ms;
use crate::server::Server;

pub(crate) const APPS_USUAL: usize = 100;
/// Not counted: the first ones find everything cold.
const WARM_UP: usize = 3;

pub(crate) async fn run(dir: &Path, apps: usize, docker: &DockerAt) -> anyhow::Result<Value> {
    let image = match docker.socket() {
        Some(socket) => Image::make(&socket)?,
        None => Err(Missing("--docker none".to_owned())),
    };
    // What is not measured is not looked for.
    let docker = if image.is_ok() { docker } else { &DockerAt::Nowhere };
    let server = Server::start_with(&dir.join("server"), &["--no-agent"]).await?;
    let client = server.connect().await?;
    let _machine = Machine::start(&server, &server.address()?, &dir.join("agent"), docker).await?;
    let mut line = json!({"bench": "deploy", "apps": apps});
    let process = json!({"process": {"command": ["sleep", "86400"]}});
    add(&mut line, "process", measure(&client, apps, &process).await?);
    match &image {
        Ok(_) => {
            // One that ends when it is asked to: the end of the last is not to hold up the next.
            let script = format!("trap 'exit 0' TERM; {BUSYBOX} sleep 86400 & wait");
            let command = [BUSYBOX, "sh", "-c", &script];
            let container = json!({"container": {"image": IMAGE, "command": command}});
            add(&mut line, "docker", measure(&client, apps, &container).await?);
        }
        Err(Missing(reason)) => line["docker_skipped"] = json!(reason),
    }
    Ok(line)
}

/// Deploys one App after the other, and removes each.
async fn measure(client: &Client, apps: usize, run: &Value) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for number in 0..WARM_UP + apps {
        let name = format!("bench-{number}");
        let took = deploy(client, &app(&name, run)).await?;
        if number >= WARM_UP {
            times.push(took);
        }
        client.delete(&format!("{APPS}/{name}")).await?;
        // The next one finds the machine idle, and nothing is left behind.
        wait_until_gone(client).await?;
    }
    Ok(times)
}

fn add(line: &mut Value, kind: &str, mut times: Vec<Duration>) {
    for (name, percent) in [("p50", 50), ("p99", 99), ("max", 100)] {
        line[format!("{kind}_{name}_ms")] = json!(percentile_ms(&mut times, percent));
    }
}
