//! Containers on a real Docker engine, with the real server and a real agent: deployed, called,
//! updated, rolled back, killed, adopted, and what is said when something does not work.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "what was seen last explains a failure")]

use std::cell::RefCell;
use std::fs::File;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tombolo_model::{App, Assignment};

use tombolo_testkit::docker::{Engine, IMAGE};
use tombolo_testkit::{Tombolo, binary, eventually};

const SITE: &str = "north";
const NODE: &str = "crane";

/// A server, an engine, and an agent that has joined the one and runs containers on the other.
struct Rig {
    tombolo: Tombolo,
    client: Client,
    agent: Option<Child>,
    engine: Engine,
}

impl Rig {
    async fn start(test: &str) -> Option<Rig> {
        let engine = Engine::start(test)?;
        let tombolo = Tombolo::start().await;
        let site = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
            "metadata": {"name": SITE}, "spec": {"engine": "docker"}});
        tombolo.shell_with(&["apply", "-f", "-"], &site.to_string()).await.ok();
        let file = tombolo.data().parent().unwrap().join("north.join").display().to_string();
        tombolo.shell(&["token", "create", "--site", SITE, "-o", &file]).await.ok();
        let client = tombolo.client().await;
        let mut rig = Rig { tombolo, client, agent: None, engine };
        rig.start_agent(&["--join-file", &file, "--name", NODE]);
        Some(rig)
    }

    fn start_agent(&mut self, more: &[&str]) {
        let root = self.tombolo.data().parent().unwrap().to_owned();
        let log = File::options().create(true).append(true).open(root.join("agent.log")).unwrap();
        let agent = Command::new(binary::path())
            .args(["-v", "agent", "--data"])
            .arg(root.join("agent"))
            .arg("--docker")
            .arg(self.engine.socket())
            .args(more)
            .env("HOME", &root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agent = Some(agent);
    }

    fn kill9_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    fn assignments(&self) -> Api<Assignment> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// By hand, so that nothing depends on the placing.
    async fn assign(&self, name: &str, container: Value, more: Value) {
        let mut spec = json!({
            "app": "shop", "component": name, "replica": 0, "site": SITE, "node": NODE,
            "engine": "docker", "run": {"container": container},
        });
        merge(&mut spec, more);
        let assignment = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
            "metadata": {"name": name}, "spec": spec,
        });
        let assignment: Assignment = serde_json::from_value(assignment).unwrap();
        self.assignments().create(&PostParams::default(), &assignment).await.unwrap();
    }

    async fn list(&self) -> Vec<Value> {
        let list = self.assignments().list(&ListParams::default()).await.unwrap();
        list.items.iter().map(|one| serde_json::to_value(one).unwrap()).collect()
    }

    /// Waits until the Assignment of a component is as it should be.
    async fn until(&self, what: &str, component: &str, is: impl Fn(&Value) -> bool) -> Value {
        let last = RefCell::new(Value::Null);
        let shown = Shown(what, &last);
        let found = eventually(&format!("{component}: {what}"), async || {
            let all = self.list().await;
            let found = all.into_iter().find(|one| one["spec"]["component"] == component)?;
            last.replace(found["status"].clone());
            is(&found).then_some(found)
        })
        .await;
        std::mem::forget(shown);
        found
    }

    async fn until_up(&self, component: &str) -> Value {
        self.until("it is up", component, |found| {
            condition(found, "Available")["status"] == "True"
                && condition(found, "Available")["reason"] == "Running"
                && condition(found, "Available")["observedGeneration"]
                    == found["metadata"]["generation"]
        })
        .await
    }

    async fn degraded(&self, component: &str, reason: &str) -> String {
        let found = self.until(reason, component, |found| {
            let degraded = condition(found, "Degraded");
            degraded["status"] == "True" && degraded["reason"] == reason
        });
        condition(&found.await, "Degraded")["message"].as_str().unwrap().to_owned()
    }

    async fn until_told(&self, reason: &str) {
        eventually(&format!("an event tells {reason}"), async || {
            let events = self.tombolo.shell(&["events"]).await.ok();
            events.contains(reason).then_some(())
        })
        .await;
    }

    fn process_of(&self, container: &str) -> i32 {
        let said = self.engine.docker(&["inspect", "-f", "{{.State.Pid}}", container]);
        said.trim().parse().unwrap()
    }
}

/// Says what was last seen when a wait ends in a panic.
struct Shown<'a>(&'a str, &'a RefCell<Value>);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("waiting for {}, last seen: {:#}", self.0, self.1.borrow());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            drop(agent.kill());
            drop(agent.wait());
        }
        if std::thread::panicking() {
            let root = self.tombolo.data().parent().unwrap().to_owned();
            let log = std::fs::read_to_string(root.join("agent.log")).unwrap_or_default();
            println!("--- the agent's log\n{log}\n---");
        }
    }
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}

fn condition(found: &Value, kind: &str) -> Value {
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

fn container(found: &Value) -> String {
    found["status"]["instance"].as_str().unwrap().to_owned()
}

fn shell(script: &str) -> Value {
    json!({"image": IMAGE, "command": ["/bin/sh", "-c", script]})
}

/// What a web server answers, once it does.
async fn page(found: &Value) -> Option<String> {
    let port = found["status"]["ports"][0]["published"].as_u64()?;
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).await.ok()?;
    stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.trim().to_owned())
}

/// A shop of two components: what the front shows it has fetched from the store.
fn shop(version: &str) -> Value {
    let store = "mkdir /w; echo rows >/w/page; exec httpd -f -p 80 -h /w";
    let front = "mkdir /w; until wget -q -O /w/got http://store/page; do sleep 0.1; done; \
                 echo $VERSION $(cat /w/got) >/w/page; exec httpd -f -p 8080 -h /w";
    let front = match version {
        "broken" => "echo no config; exit 7",
        _ => front,
    };
    let mut run = shell(front);
    merge(&mut run, json!({"env": {"VERSION": version}}));
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "shop"},
        "spec": {"components": [
            {"name": "store", "run": [{"container": shell(store)}], "expose": [{"port": 80}]},
            {"name": "front", "run": [{"container": run}], "connects": [{"to": "store"}],
                "expose": [{"port": 8080, "public": true}],
                "health": {"http": {"path": "/page", "port": 8080}, "interval": "200ms",
                    "failures": 20, "startup": "60s"},
                "stopGrace": "1s"},
        ]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_containers_runs_is_updated_rolled_back_killed_and_adopted() {
    let Some(mut rig) = Rig::start("app").await else { return };
    let apply = async |rig: &Rig, version: &str| {
        rig.tombolo.shell_with(&["apply", "-f", "-"], &shop(version).to_string()).await.ok();
    };
    apply(&rig, "v1").await;
    let first = rig.until_up("front").await;
    assert_eq!(first["spec"]["engine"], "docker");
    let shown = eventually("it answers", async || page(&first).await).await;
    assert_eq!(shown, "v1 rows", "what the store said, by its name");

    apply(&rig, "v2").await;
    let second = rig
        .until("the new one serves", "front", |found| {
            condition(found, "Available")["reason"] == "Running"
                && found["status"]["instance"] != first["status"]["instance"]
        })
        .await;
    assert_eq!(eventually("it answers", async || page(&second).await).await, "v2 rows");
    eventually("the old one is gone", async || {
        let all = rig.engine.docker(&["ps", "-aq", "--no-trunc"]);
        (!all.contains(&container(&first))).then_some(())
    })
    .await;

    apply(&rig, "broken").await;
    let back = rig
        .until("it went back", "front", |found| {
            condition(found, "Degraded")["reason"] == "RolledBack"
                && condition(found, "Available")["status"] == "True"
        })
        .await;
    assert_eq!(container(&back), container(&second), "the good one never stopped");
    let message = condition(&back, "Degraded")["message"].to_string();
    assert!(message.contains("code 7") && message.contains("no config"), "{message}");
    rig.until_told("RolledBack").await;
    apply(&rig, "v2").await;
    let good = rig.until_up("front").await;

    let process = Pid::from_raw(rig.process_of(&container(&good))).unwrap();
    kill_process(process, Signal::KILL).unwrap();
    let third = rig
        .until("it was restarted", "front", |found| {
            found["status"]["restarts"] == 1 && condition(found, "Available")["status"] == "True"
        })
        .await;
    assert_eq!(third["status"]["lastExit"]["signal"], 9);
    rig.until_told("Restarted").await;

    rig.kill9_agent();
    assert_eq!(eventually("it needs no agent", async || page(&third).await).await, "v2 rows");
    rig.start_agent(&[]);
    rig.assign("later", shell("exec sleep 1000"), json!({"app": "other"})).await;
    rig.until_up("later").await;
    let fourth = rig.until_up("front").await;
    assert_eq!(container(&fourth), container(&third), "it was found again and left alone");
    assert_eq!(fourth["status"]["restarts"], 1);

    let apps: Api<App> = Api::namespaced(rig.client.clone(), "default");
    apps.delete("shop", &DeleteParams::default()).await.unwrap();
    rig.assignments().delete("later", &DeleteParams::default()).await.unwrap();
    eventually("what was deleted is gone", async || {
        let networks = rig.engine.docker(&["network", "ls", "--format", "{{.Name}}"]);
        (rig.engine.docker(&["ps", "-aq"]).is_empty() && !networks.contains("tombolo"))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_why_and_an_engine_that_goes_takes_nothing_with_it() {
    let Some(mut rig) = Rig::start("why").await else { return };
    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let absent = json!({"image": "127.0.0.1:1/absent:1"});
    rig.assign("absent", absent, json!({})).await;
    let taken = json!({"expose": [{"port": 80, "published": port}]});
    rig.assign("taken", shell("exec sleep 1000"), taken).await;
    rig.assign("crasher", shell("echo the disk is on fire; exit 3"), json!({})).await;
    let nothing = json!({"image": IMAGE, "command": ["no-such-program"]});
    rig.assign("nothing", nothing, json!({})).await;
    rig.assign("well", shell("exec sleep 1000"), json!({})).await;

    let message = rig.degraded("absent", "ImageOutOfReach").await;
    assert!(message.contains("127.0.0.1:1/absent:1"), "{message}");
    assert!(message.contains("load 127.0.0.1:1/absent:1 on this machine by hand"), "{message}");
    let message = rig.degraded("taken", "PortTaken").await;
    assert!(message.contains(&format!("port {port} of this machine is taken")), "{message}");
    let message = rig.degraded("nothing", "CommandNotFound").await;
    assert!(message.contains("\"no-such-program\" was not found"), "{message}");
    let message = rig.degraded("crasher", "CrashLoop").await;
    assert!(message.contains("code 3") && message.contains("the disk is on fire"), "{message}");
    let crasher = rig.until("its exit", "crasher", |found| found["status"]["lastExit"].is_object());
    let crasher = crasher.await;
    assert_eq!(crasher["status"]["lastExit"]["code"], 3);
    assert_eq!(crasher["status"]["lastExit"]["log"][0], "the disk is on fire");
    for reason in ["ImageOutOfReach", "PortTaken", "CommandNotFound", "CrashLoop"] {
        rig.until_told(reason).await;
    }
    drop(listener);
    rig.until_up("taken").await;

    eventually("the node says what it can run", async || {
        let node = rig.tombolo.shell(&["get", "node", NODE, "-o", "json"]).await.json();
        let engines = node["status"]["characteristics"]["engines"].as_array()?.clone();
        let docker = engines.into_iter().find(|engine| engine["name"] == "docker")?;
        docker["version"].as_str().map(str::to_owned)
    })
    .await;
    let before = rig.until_up("well").await;
    rig.engine.goes();
    let message = rig.degraded("well", "EngineUnreachable").await;
    let socket = rig.engine.socket().display().to_string();
    assert!(message.contains(&socket) && message.contains("Start the docker engine"), "{message}");
    rig.until_told("EngineUnreachable").await;
    rig.engine.comes_back();
    let after = rig.until_up("well").await;
    assert_eq!(container(&after), container(&before), "nothing was restarted");
    assert_eq!(after["status"]["restarts"], 0);

    let stopped = Patch::Merge(json!({"spec": {"stopped": true}}));
    rig.assignments().patch("well", &PatchParams::default(), &stopped).await.unwrap();
    rig.until("it was stopped", "well", |found| {
        condition(found, "Available")["reason"] == "Stopped"
            && found["status"].get("instance").is_none()
    })
    .await;
}
