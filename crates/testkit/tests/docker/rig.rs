//! A real engine with a server and an agent, and what the tests ask of its containers.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use tombolo_testkit::docker::{Engine, IMAGE};
use tombolo_testkit::rig::{Machine, SITE, merge};
use tombolo_testkit::{Rig, Tombolo};

/// An agent that runs containers on an engine of its own.
pub(crate) struct Docker {
    pub(crate) rig: Rig,
    pub(crate) engine: Engine,
}

impl Docker {
    /// Nothing where there can be no engine; then `test` is noted as skipped.
    pub(crate) async fn start(test: &str) -> Option<Docker> {
        Docker::start_with(test, &[]).await
    }

    /// The same, with more arguments for the agent.
    pub(crate) async fn start_with(test: &str, more: &[&str]) -> Option<Docker> {
        let engine = Engine::start(test)?;
        let tombolo = Tombolo::start().await;
        let site = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
            "metadata": {"name": SITE}, "spec": {"engine": "docker"}});
        tombolo.shell_with(&["apply", "-f", "-"], &site.to_string()).await.ok();
        let socket = engine.socket().display().to_string();
        let mut arguments = vec!["--docker".to_owned(), socket];
        arguments.extend(more.iter().map(|one| (*one).to_owned()));
        let machine = Machine { arguments, ..Machine::beside(&tombolo) };
        let rig = Rig::of(tombolo, machine).await;
        Some(Docker { rig, engine })
    }

    pub(crate) async fn apply(&self, app: &Value) {
        self.rig.tombolo.shell_with(&["apply", "-f", "-"], &app.to_string()).await.ok();
    }

    pub(crate) async fn assign(&self, name: &str, container: Value, more: Value) {
        let mut spec = json!({"engine": "docker", "run": {"container": container}});
        merge(&mut spec, more);
        self.rig.assign_bare(name, spec).await;
    }

    /// The process of a container, as the kernel of this machine counts.
    pub(crate) fn pid(&self, container: &str) -> i32 {
        let said = self.engine.docker(&["inspect", "-f", "{{.State.Pid}}", container]);
        said.trim().parse().unwrap()
    }
}

pub(crate) fn shell(script: &str) -> Value {
    json!({"image": IMAGE, "command": ["/bin/sh", "-c", script]})
}

/// One that runs until it is ended, and ends at once then.
pub(crate) fn sleeper() -> Value {
    shell("trap 'exit 0' TERM; while true; do sleep 0.1; done")
}

pub(crate) fn container(found: &Value) -> String {
    found["status"]["instance"].as_str().unwrap().to_owned()
}

/// What a web server answers at `127.0.0.1:port`, once it does.
pub(crate) async fn page_at(port: u64) -> Option<String> {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).await.ok()?;
    stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.trim().to_owned())
}

/// The same at the first port of an Assignment.
pub(crate) async fn page(found: &Value) -> Option<String> {
    page_at(found["status"]["ports"][0]["published"].as_u64()?).await
}
