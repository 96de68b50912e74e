//! A server, an agent that has joined it, and what is assigned to it. Start at [`Rig::start`].

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tombolo_model::{Assignment, Node};

use tombolo_testkit::{Ran, Tombolo, binary, eventually};

use crate::world::{Disk, Link};

const SITE: &str = "north";
pub(crate) const NODE: &str = "crane";

/// By what the processes of an instance are known again.
const MARK: &str = "TOMBOLO_INSTANCE=";

pub(crate) struct Rig {
    tombolo: Tombolo,
    client: Client,
    agent: Option<Child>,
    folder: PathBuf,
    /// Begins with what puts the agent where it is to run.
    command: Box<dyn Fn() -> Command + Send + Sync>,
    forwarding: Option<JoinHandle<()>>,
}

impl Rig {
    pub(crate) async fn start() -> Rig {
        let tombolo = Tombolo::start().await;
        let folder = tombolo.data().parent().unwrap().join("agent");
        Rig::of(tombolo, folder, Box::new(|| Command::new(binary::path())), &[]).await
    }

    /// The agent's folder is on a disk of its own.
    pub(crate) async fn on(disk: &Disk) -> Rig {
        let tombolo = Tombolo::start().await;
        let command = Box::new(|| Command::new(binary::path()));
        Rig::of(tombolo, disk.path().join("agent"), command, &[]).await
    }

    /// The agent is on the far side of a link.
    pub(crate) async fn behind(link: &Link) -> Rig {
        let tombolo = Tombolo::start_with(&["--name", &link.address.to_string()]).await;
        let (port, forwarding) = link.forward(tombolo.address().to_owned()).await;
        let address = format!("https://{}:{port}", link.address);
        let folder = tombolo.data().parent().unwrap().join("agent");
        let first = link.command(binary::path());
        let arguments: Vec<_> = first.get_args().map(ToOwned::to_owned).collect();
        let command = Box::new(move || {
            let mut command = Command::new("nsenter");
            command.args(&arguments);
            command
        });
        let mut rig = Rig::of(tombolo, folder, command, &["--address", &address]).await;
        rig.forwarding = Some(forwarding);
        rig
    }

    async fn of(
        tombolo: Tombolo,
        folder: PathBuf,
        command: Box<dyn Fn() -> Command + Send + Sync>,
        more: &[&str],
    ) -> Rig {
        let client = tombolo.client().await;
        let mut rig = Rig { tombolo, client, agent: None, folder, command, forwarding: None };
        let file = rig.join_file_with("north.join", more).await;
        rig.start_agent(&["--join-file", &file, "--name", NODE]);
        rig.until_node("Ready", "True").await;
        rig
    }

    fn root(&self) -> PathBuf {
        self.tombolo.data().parent().unwrap().to_owned()
    }

    /// An empty file that goes with the test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.tombolo.file(name, "")
    }

    pub(crate) async fn join_file(&self, name: &str) -> String {
        self.join_file_with(name, &[]).await
    }

    async fn join_file_with(&self, name: &str, more: &[&str]) -> String {
        let file = self.root().join(name).display().to_string();
        let mut arguments = vec!["token", "create", "--site", SITE, "-o", &file];
        arguments.extend(more);
        self.tombolo.shell(&arguments).await.ok();
        file
    }

    pub(crate) fn start_agent(&mut self, more: &[&str]) {
        let log = File::options().create(true).append(true).open(self.root().join("agent.log"));
        let agent = (self.command)()
            .args(["-v", "agent", "--data"])
            .arg(&self.folder)
            .args(more)
            .env("HOME", self.root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        self.agent = Some(agent);
    }

    /// Another agent, which is not expected to go on.
    pub(crate) async fn run_agent(&self, folder: &Path, more: &[&str]) -> Ran {
        let folder = folder.display().to_string();
        let mut arguments = vec!["agent", "--name", "other", "--data", &folder];
        arguments.extend(more);
        self.tombolo.shell(&arguments).await
    }

    pub(crate) fn kill9_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    pub(crate) fn kill9_server(&mut self) {
        self.tombolo.kill9();
    }

    pub(crate) async fn restart_server(&mut self) {
        self.tombolo.restart().await;
    }

    /// The agent and everything that it has started is gone at once.
    pub(crate) fn lose_power(&mut self) {
        self.kill9_agent();
        self.kill_instances();
    }

    /// Supervisors too, and again until none is left: one may just have started another.
    fn kill_instances(&self) {
        for _ in 0..100 {
            let left = self.marked("");
            if left.is_empty() {
                return;
            }
            for number in left {
                if let Some(pid) = Pid::from_raw(number) {
                    // It may have ended by itself.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }

    /// The processes of this agent's instances whose command line has `command` in it.
    fn marked(&self, command: &str) -> Vec<i32> {
        let mark = format!("{MARK}{}", self.folder.display());
        let mut found = Vec::new();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let number = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(number) = number.filter(|number| runs(*number)) else { continue };
            let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
            let (environment, line) = (read("environ"), read("cmdline"));
            if String::from_utf8_lossy(&environment).contains(&mark)
                && String::from_utf8_lossy(&line).contains(command)
            {
                found.push(number);
            }
        }
        found
    }

    /// The processes of a component that is a `sleep`.
    pub(crate) fn running(&self, component: &str) -> Vec<i32> {
        let mark = format!("TOMBOLO_COMPONENT={component}\0");
        let is_its = |number: &i32| {
            let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        };
        self.marked("sleep\0").into_iter().filter(is_its).collect()
    }

    fn api(&self) -> Api<Assignment> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn assign(&self, name: &str, change: Value) {
        let mut spec = json!({
            "app": "shop", "component": name, "replica": 0, "site": SITE, "node": NODE,
            "engine": "host", "run": {"process": {"command": ["sleep", "3600"]}},
        });
        merge(&mut spec, change);
        let assignment = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
            "metadata": {"name": name}, "spec": spec,
        });
        let assignment: Assignment = serde_json::from_value(assignment).unwrap();
        self.api().create(&PostParams::default(), &assignment).await.unwrap();
    }

    pub(crate) async fn change(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.api().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Every status that is written about it from now on.
    pub(crate) async fn record(&self, name: &str) -> Record {
        let params = WatchParams::default().fields(&format!("metadata.name={name}"));
        let version = self.api().get(name).await.unwrap().resource_version().unwrap();
        let mut stream = self.api().watch(&params, &version).await.unwrap().boxed();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        let watching = tokio::spawn(async move {
            while let Some(event) = stream.next().await {
                let (WatchEvent::Added(found) | WatchEvent::Modified(found)) = event.unwrap()
                else {
                    continue;
                };
                keep.lock().unwrap().push(serde_json::to_value(found).unwrap());
            }
        });
        Record { seen, watching }
    }

    pub(crate) async fn get(&self, name: &str) -> Value {
        serde_json::to_value(self.api().get(name).await.unwrap()).unwrap()
    }

    /// Waits until the Assignment is as it should be.
    pub(crate) async fn until(&self, what: &str, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let last = Last::new(what);
        let found = eventually(&format!("{name}: {what}"), async || {
            let found = self.api().get(name).await.ok();
            let found = serde_json::to_value(found?).unwrap();
            last.seen.replace(found["status"].clone());
            is(&found).then_some(found)
        })
        .await;
        last.armed.set(false);
        found
    }

    pub(crate) async fn until_up(&self, name: &str) -> Value {
        self.until("it is up", name, |found| {
            let available = condition(found, "Available");
            available["status"] == "True"
                && available["reason"] == "Running"
                && available["observedGeneration"] == found["metadata"]["generation"]
        })
        .await
    }

    /// Waits for the reason, and for the Event of the same name; returns the sentence.
    pub(crate) async fn until_degraded(&self, name: &str, reason: &str) -> String {
        let found = self
            .until(reason, name, |found| {
                let degraded = condition(found, "Degraded");
                degraded["status"] == "True" && degraded["reason"] == reason
            })
            .await;
        self.until_event(reason).await;
        condition(&found, "Degraded")["message"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn until_node(&self, kind: &str, status: &str) -> Value {
        let last = Last::new(kind);
        let api: Api<Node> = Api::all(self.client.clone());
        let found = eventually(&format!("the node has {kind}={status}"), async || {
            let node = serde_json::to_value(api.get(NODE).await.ok()?).unwrap();
            last.seen.replace(node["status"]["conditions"].clone());
            (condition(&node, kind)["status"] == status).then_some(node)
        })
        .await;
        last.armed.set(false);
        found
    }

    pub(crate) async fn until_event(&self, reason: &str) {
        eventually(&format!("an event says {reason}"), async || {
            self.tombolo.shell(&["events"]).await.ok().contains(reason).then_some(())
        })
        .await;
    }

    /// Waits until the agent has it on its disk.
    pub(crate) async fn until_kept(&self, name: &str) {
        let file = self.folder.join("assignments.json");
        let name = format!("\"{name}\"");
        eventually("it is kept", async || {
            fs::read_to_string(&file).is_ok_and(|text| text.contains(&name)).then_some(())
        })
        .await;
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(forwarding) = self.forwarding.take() {
            forwarding.abort();
        }
        if let Some(mut agent) = self.agent.take() {
            drop(agent.kill());
            drop(agent.wait());
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.root().join("agent.log")).unwrap_or_default();
            println!("--- the agent's log\n{log}\n---");
        }
        // What runs outlives the agent, which is the point; after a test it must go all the same.
        self.kill_instances();
    }
}

/// What was seen of an Assignment, each time that something was written.
pub(crate) struct Record {
    seen: Arc<Mutex<Vec<Value>>>,
    watching: JoinHandle<()>,
}

impl Record {
    /// Once it has seen everything up to this version of it.
    pub(crate) async fn up_to(self, last: &Value) -> Vec<Value> {
        let version = &last["metadata"]["resourceVersion"];
        let seen = eventually("the watch has told it all", async || {
            let seen = self.seen.lock().unwrap();
            seen.iter()
                .any(|found| found["metadata"]["resourceVersion"] == *version)
                .then(|| seen.clone())
        })
        .await;
        self.watching.abort();
        seen
    }
}

/// Says what was last seen when a wait ends in a panic.
struct Last {
    what: String,
    seen: RefCell<Value>,
    armed: Cell<bool>,
}

impl Last {
    fn new(what: &str) -> Last {
        Last { what: what.to_owned(), seen: RefCell::default(), armed: Cell::new(true) }
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        if self.armed.get() && std::thread::panicking() {
            println!("waiting for {}, last seen: {:#}", self.what, self.seen.borrow());
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

pub(crate) fn condition(found: &Value, kind: &str) -> Value {
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

pub(crate) fn pid(found: &Value) -> i32 {
    found["status"]["instance"].as_str().unwrap().parse().unwrap()
}

pub(crate) fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|status| !status.contains(") Z "))
}

/// When a process was started, in ticks since the boot.
pub(crate) fn started(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    // The name is the second field, and this is the twenty-second.
    after_name.split_whitespace().nth(19).unwrap().parse().unwrap()
}

pub(crate) fn kill9(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

pub(crate) fn shell(script: &str) -> Value {
    json!({"run": {"process": {"command": ["sh", "-c", script]}}})
}
