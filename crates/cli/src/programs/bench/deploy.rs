//! `tombolo bench deploy`: how long it takes from an App to a process that is up and known to be, through
//! a real server, its placing loop, and a real agent.

use std::path::Path;

use anyhow::anyhow;
use serde_json::{Value, json};

use super::machine::{APPS, Machine, deploy};
use super::numbers::percentile_ms;
use super::server::Server;

/// Not counted: the first ones find everything cold.
const WARM_UP: usize = 3;

pub(super) async fn run(dir: &Path, apps: usize) -> anyhow::Result<Value> {
    let server = Server::start_with(&dir.join("server"), &["--no-agent"]).await?;
    let connection = server.connect().await?;
    let _machine = Machine::start(&connection, &server.address()?, &dir.join("agent")).await?;
    let mut times = Vec::new();
    for number in 0..WARM_UP + apps {
        let name = format!("bench-{number}");
        let took = deploy(&connection, &name).await?;
        if number >= WARM_UP {
            times.push(took);
        }
        let gone = connection.delete(&format!("{APPS}/{name}"), &json!({})).await;
        gone.map_err(|failure| anyhow!(failure.message))?;
    }
    Ok(json!({
        "bench": "deploy", "apps": apps,
        "process_p50_ms": percentile_ms(&mut times, 50),
        "process_p99_ms": percentile_ms(&mut times, 99),
        "process_max_ms": percentile_ms(&mut times, 100),
    }))
}
