//! A machine to measure: a real agent as a process of its own, joined by a real token, and one App for
//! it to run. Used by `bench deploy` and `bench agent`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tombolo_agent::engines::DockerAt;
use tombolo_agent::removal;

use crate::client::Client;
use crate::server::Server;

pub(crate) const SITE: &str = "bench";
const WAIT_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const ASSIGNMENTS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/assignments";
pub(crate) const APPS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/apps";

pub(crate) struct Machine {
    process: Child,
    folder: PathBuf,
}

impl Machine {
    /// Starts an agent that reaches its server at `address`, and waits until its node is ready, with
    /// the Docker engine if there is to be one. `more` are options of the agent.
    pub(crate) async fn start(
        server: &Server,
        address: &str,
        folder: &Path,
        docker: &DockerAt,
        more: &[&str],
    ) -> anyhow::Result<Machine> {
        let file = server.join_file(SITE, address).await?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(["agent", "--join-file", "-", "--name", "bench-1", "--data"])
            .arg(folder)
            .arg("--docker")
            .arg(docker.socket().unwrap_or_else(|| "none".into()))
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start tombolo agent")?;
        if let Some(mut stdin) = process.stdin.take() {
            std::io::Write::write_all(&mut stdin, file.to_text().as_bytes())?;
        }
        let machine = Machine { process, folder: folder.to_path_buf() };
        let path = "/apis/tombolo.dev/v1alpha1/nodes";
        wait(&server.connect().await?, path, |node| {
            let mut engines =
                node["status"]["characteristics"]["engines"].as_array().into_iter().flatten();
            is_true(node, "Ready")
                && !node["status"]["allocatable"]["cpu"].is_null()
                && (docker.socket().is_none() || engines.any(|engine| engine["name"] == "docker"))
        })
        .await?;
        Ok(machine)
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Its supervisors.
    pub(crate) fn supervisors(&self) -> Vec<u32> {
        let folder = self.folder.display().to_string();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let supervises = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("\0supervise\0") && words.contains(&folder)
        };
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(supervises).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // What it ran would outlive it.
        let _ = removal::cut_workloads(&self.folder);
    }
}

/// The smallest App there is. With less of a processor an engine could not even start it quickly:
/// what prepares a container is held to its limit already.
pub(crate) fn app(name: &str, run: &Value) -> Value {
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": name},
        "spec": {"components": [{
            "name": "one", "run": [run], "needs": {"cpu": "100m", "memory": "8Mi"},
        }]},
    })
}

/// Creates an App, and waits until its one instance is known to be up.
pub(crate) async fn deploy(client: &Client, app: &Value) -> anyhow::Result<Duration> {
    let name = app["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{ASSIGNMENTS}?labelSelector=tombolo.dev%2Fapp%3D{name}");
    let up = wait(client, &path, |assignment| is_true(assignment, "Available"));
    let started = Instant::now();
    let create = async { client.post(APPS, app).await.map(drop) };
    // Both at once: a watch that begins too late would be told all the same, and no time is lost.
    futures::future::try_join(create, up).await?;
    Ok(started.elapsed())
}

/// Waits until nothing is assigned any more.
pub(crate) async fn wait_until_gone(client: &Client) -> anyhow::Result<()> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let listed = client.get(ASSIGNMENTS).await?;
        if listed["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("what was deleted is still there after {WAIT_MAX:?}");
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits for an object that is as wanted.
async fn wait(client: &Client, path: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}watch=true&resourceVersion=0");
    let events = client.watch(&path).await?;
    let mut events = std::pin::pin!(events);
    let found = async {
        while let Some(event) = events.next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event?
                && wanted(&object)
            {
                return Ok(());
            }
        }
        bail!("the watch of {path} has ended")
    };
    tokio::time::timeout(WAIT_MAX, found).await.with_context(|| format!("nothing came: {path}"))?
}

pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|found| found["type"] == condition && found["status"] == "True")
}
