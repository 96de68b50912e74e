//! A server, an agent that has joined it, and what is assigned to the agent. Assignments are written
//! by hand, so that nothing depends on the placing. Start at [`Rig::start`].

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "what was seen last explains a failure")]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tombolo_model::{Assignment, Node};

use crate::{Tombolo, binary, eventually};

/// The site and the node that the agent joins as.
pub const SITE: &str = "north";
pub const NODE: &str = "crane";

/// By what the processes of an instance are known again.
const MARK: &str = "TOMBOLO_INSTANCE=";

pub struct Rig {
    pub tombolo: Tombolo,
    pub client: Client,
    agent: Option<Child>,
    machine: Machine,
}

/// Where an agent runs, and what it is told.
pub struct Machine {
    /// The agent's own folder.
    pub folder: PathBuf,
    /// Begins a command that runs our program there.
    pub command: Box<dyn Fn() -> Command + Send + Sync>,
    /// What every start of the agent is given.
    pub arguments: Vec<String>,
    /// What the making of its token is given.
    pub token: Vec<String>,
}

impl Machine {
    /// Beside the server.
    pub fn beside(tombolo: &Tombolo) -> Machine {
        Machine {
            folder: tombolo.data().parent().unwrap().join("agent"),
            command: Box::new(|| Command::new(binary::path())),
            arguments: Vec::new(),
            token: Vec::new(),
        }
    }
}

/// A folder of the machine that an instance finds too, if it is assigned with [`sees`]: what runs is
/// confined, and sees nothing else of the test's.
pub fn shared_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    folder
}

/// What has to be in an Assignment for its instance to find a folder of the machine.
pub fn sees(folder: &Path) -> Value {
    json!({"allow": ["process", "host-path"], "run": {"process": {"workdir": folder}}})
}

impl Rig {
    pub async fn start() -> Rig {
        let tombolo = Tombolo::start().await;
        let machine = Machine::beside(&tombolo);
        Rig::of(tombolo, machine).await
    }

    /// Joins an agent, and comes back when its node is ready.
    pub async fn of(tombolo: Tombolo, machine: Machine) -> Rig {
        let client = tombolo.client().await;
        let mut rig = Rig { tombolo, client, agent: None, machine };
        let file = rig.join_file("north.join").await;
        rig.start_agent(&["--join-file", &file, "--name", NODE]);
        rig.until_node("Ready", "True").await;
        rig
    }

    pub async fn join_file(&self, name: &str) -> String {
        let file = self.root().join(name).display().to_string();
        let mut arguments = vec!["token", "create", "--site", SITE, "-o", &file];
        arguments.extend(self.machine.token.iter().map(String::as_str));
        self.tombolo.shell(&arguments).await.ok();
        file
    }

    /// The folder of the test, which goes with it.
    pub fn root(&self) -> PathBuf {
        self.tombolo.data().parent().unwrap().to_owned()
    }

    /// The folder of the agent.
    pub fn folder(&self) -> &Path {
        &self.machine.folder
    }

    pub fn start_agent(&mut self, more: &[&str]) {
        let root = self.root();
        let log = File::options().create(true).append(true).open(root.join("agent.log")).unwrap();
        let agent = (self.machine.command)()
            .args(["-v", "agent", "--data"])
            .arg(&self.machine.folder)
            .args(&self.machine.arguments)
            .args(more)
            .env("HOME", &root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agent = Some(agent);
    }

    /// The agent and everything that it has started is gone at once.
    pub fn lose_power(&mut self) {
        self.kill9_agent();
        kill_marked(&self.machine.folder);
    }

    pub fn kill9_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    pub fn agent_id(&self) -> u32 {
        self.agent.as_ref().expect("it was started").id()
    }

    pub fn signal_agent(&self, signal: Signal) {
        let agent = self.agent.as_ref().expect("it was started");
        kill_process(Pid::from_child(agent), signal).unwrap();
    }

    /// Waits until the agent has ended by itself, and says with which code.
    pub async fn until_agent_ends(&mut self) -> Option<i32> {
        let mut agent = self.agent.take().expect("it was started");
        let ended = eventually("the agent ends", async || agent.try_wait().unwrap());
        ended.await.code()
    }

    /// What the agent has logged, of all its starts.
    pub fn agent_log(&self) -> String {
        fs::read_to_string(self.root().join("agent.log")).unwrap_or_default()
    }

    /// Waits until the server has taken so many more heartbeats.
    pub async fn until_heartbeats(&self, count: usize) {
        let name = format!("node-{NODE}");
        let get = ["get", "leases", &name, "-n", "tombolo-system", "-o", "json"];
        let mut last = Value::Null;
        // The first only says where the counting begins.
        for _ in 0..=count {
            last = eventually("the next heartbeat is taken", async || {
                let lease = self.tombolo.shell(&get).await.json();
                let now = lease["spec"]["renewTime"].clone();
                (now.is_string() && now != last).then_some(now)
            })
            .await;
        }
    }

    pub fn assignments(&self) -> Api<Assignment> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Assigns a process that sleeps, with `change` merged into its spec.
    pub async fn assign(&self, name: &str, change: Value) {
        let sleep = json!({"process": {"command": ["sleep", "3600"]}});
        let mut spec = json!({"engine": "host", "run": sleep});
        merge(&mut spec, change);
        self.assign_bare(name, spec).await;
    }

    /// Writes an Assignment of App `shop` to this node, with `change` merged into its spec.
    pub async fn assign_bare(&self, name: &str, change: Value) {
        let mut spec = json!({
            "app": "shop", "component": name, "replica": 0, "site": SITE, "node": NODE,
        });
        merge(&mut spec, change);
        let assignment = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
            "metadata": {"name": name}, "spec": spec,
        });
        let assignment: Assignment = serde_json::from_value(assignment).unwrap();
        self.assignments().create(&PostParams::default(), &assignment).await.unwrap();
    }

    pub async fn change(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.assignments().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// By its name, or by its component: those that were placed have names of their own.
    async fn find(&self, name: &str) -> Option<Value> {
        let all = self.assignments().list(&ListParams::default()).await.ok()?;
        let mut all = all.items.into_iter();
        let is = |one: &Assignment| {
            one.metadata.name.as_deref() == Some(name) || one.spec.component == name
        };
        all.find(is).map(|found| serde_json::to_value(found).unwrap())
    }

    pub async fn get(&self, name: &str) -> Value {
        self.find(name).await.unwrap()
    }

    /// Waits until the Assignment is as it should be.
    pub async fn until(&self, what: &str, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let last = Last::new(what);
        let found = eventually(&format!("{name}: {what}"), async || {
            let found = self.find(name).await?;
            last.see(found["status"].clone());
            is(&found).then_some(found)
        })
        .await;
        last.found();
        found
    }

    pub async fn until_up(&self, name: &str) -> Value {
        self.until("it is up", name, |found| {
            let available = condition(found, "Available");
            available["status"] == "True"
                && available["reason"] == "Running"
                && available["observedGeneration"] == found["metadata"]["generation"]
        })
        .await
    }

    /// Waits until the agent has it on its disk, which may be a little later than it is up. An agent
    /// that is killed before then does not know it any more, until a server says it again.
    pub async fn until_kept(&self, name: &str) {
        let file = self.folder().join("assignments.json");
        let name = format!("\"{name}\"");
        eventually("it is kept", async || {
            let text = fs::read_to_string(&file).ok()?;
            text.contains(&name).then_some(())
        })
        .await;
    }

    /// Waits for the reason, and for the Event of the same name about it; returns the sentence. Both
    /// times since the fact are printed.
    pub async fn until_degraded(&self, name: &str, reason: &str, fact: Instant) -> String {
        let found = self
            .until(reason, name, |found| {
                let degraded = condition(found, "Degraded");
                degraded["status"] == "True" && degraded["reason"] == reason
            })
            .await;
        print_time(&format!("{reason} of {name}"), fact);
        self.until_event(name, reason).await;
        print_time(&format!("the event {reason} of {name}"), fact);
        condition(&found, "Degraded")["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for an Event about the Assignment; returns its message.
    pub async fn until_event(&self, name: &str, reason: &str) -> String {
        let found = self.get(name).await;
        self.until_event_about(found["metadata"]["name"].as_str().unwrap(), reason).await
    }

    /// The same about anything of this name.
    pub async fn until_event_about(&self, name: &str, reason: &str) -> String {
        eventually(&format!("an event says {reason} of {name}"), async || {
            let events = self.tombolo.shell(&["get", "events", "-o", "json"]).await.json();
            let events = events["items"].as_array().cloned().unwrap_or_default();
            let about = |event: &&Value| {
                event["involvedObject"]["name"] == name && event["reason"] == reason
            };
            events.iter().find(about)?["message"].as_str().map(str::to_owned)
        })
        .await
    }

    /// Waits for a condition of the node.
    pub async fn until_node(&self, kind: &str, status: &str) -> Value {
        let last = Last::new(kind);
        let api: Api<Node> = Api::all(self.client.clone());
        let found = eventually(&format!("the node has {kind}={status}"), async || {
            let node = serde_json::to_value(api.get(NODE).await.ok()?).unwrap();
            last.see(node["status"]["conditions"].clone());
            (condition(&node, kind)["status"] == status).then_some(node)
        })
        .await;
        last.found();
        found
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl fmt::Debug for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig").field("tombolo", &self.tombolo).finish_non_exhaustive()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            drop(agent.kill());
            drop(agent.wait());
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.root().join("agent.log")).unwrap_or_default();
            println!("--- the agent's log\n{log}\n---");
        }
        // What runs outlives the agent, which is the point; after a test it must go all the same.
        kill_marked(&self.machine.folder);
    }
}

/// Says what was last seen when a wait ends in a panic.
#[derive(Debug)]
pub struct Last {
    what: String,
    seen: RefCell<Value>,
    armed: Cell<bool>,
}

impl Last {
    pub fn new(what: &str) -> Last {
        Last { what: what.to_owned(), seen: RefCell::default(), armed: Cell::new(true) }
    }

    pub fn see(&self, what: Value) {
        self.seen.replace(what);
    }

    /// The wait is over, and nothing more is said of it.
    pub fn found(&self) {
        self.armed.set(false);
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        if self.armed.get() && std::thread::panicking() {
            println!("waiting for {}, last seen: {:#}", self.what, self.seen.borrow());
        }
    }
}

/// Says how long it took until a fact was told. No time is asserted: a busy machine is no failure.
pub fn print_time(fact: &str, since: Instant) {
    println!("fault: {fact}: told after {} ms", since.elapsed().as_millis());
}

/// A condition of a resource; null if it has none of this kind.
pub fn condition(found: &Value, kind: &str) -> Value {
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

pub fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}

/// Supervisors too, and again until none is left: one may just have started another.
pub fn kill_marked(folder: &Path) {
    for _ in 0..100 {
        let left = marked(folder);
        if left.is_empty() {
            return;
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The processes of all instances whose folders are below this one.
pub fn marked(folder: &Path) -> Vec<i32> {
    let mark = format!("{MARK}{}", folder.display());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let is_its = |number: &i32| runs(*number) && read(*number, "environ").contains(&mark);
    numbers.filter(is_its).collect()
}

/// A file of the kernel about a process; empty if there is no such process.
pub fn read(pid: i32, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The process of a running instance.
pub fn pid(found: &Value) -> i32 {
    found["status"]["instance"].as_str().unwrap().parse().unwrap()
}

/// For [`Rig::assign`]: runs a script instead.
pub fn shell(script: &str) -> Value {
    json!({"run": {"process": {"command": ["sh", "-c", script]}}})
}

pub fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|status| !status.contains(") Z "))
}

pub fn kill9(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}
