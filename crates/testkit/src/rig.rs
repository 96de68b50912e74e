//! A server, an agent that has joined it, and what is assigned to the agent. Assignments are written
//! by hand, so that nothing depends on the placing. Start at [`Rig::of`].

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "what was seen last explains a failure")]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
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

pub struct Rig {
    pub tombolo: Tombolo,
    pub client: Client,
    agent: Option<Child>,
    /// What every start of the agent is given.
    arguments: Vec<String>,
}

impl Rig {
    /// Joins an agent that is given `arguments` at each of its starts.
    pub async fn of(tombolo: Tombolo, arguments: &[&str]) -> Rig {
        let file = tombolo.data().parent().unwrap().join("north.join").display().to_string();
        tombolo.shell(&["token", "create", "--site", SITE, "-o", &file]).await.ok();
        let client = tombolo.client().await;
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        let mut rig = Rig { tombolo, client, agent: None, arguments };
        rig.start_agent(&["--join-file", &file, "--name", NODE]);
        rig.until_node("Ready", "True").await;
        rig
    }

    /// The folder of the test, which goes with it.
    pub fn root(&self) -> PathBuf {
        self.tombolo.data().parent().unwrap().to_owned()
    }

    pub fn start_agent(&mut self, more: &[&str]) {
        let root = self.root();
        let log = File::options().create(true).append(true).open(root.join("agent.log")).unwrap();
        let agent = Command::new(binary::path())
            .args(["-v", "agent", "--data"])
            .arg(root.join("agent"))
            .args(&self.arguments)
            .args(more)
            .env("HOME", &root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agent = Some(agent);
    }

    pub fn kill9_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    pub fn assignments(&self) -> Api<Assignment> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Writes an Assignment of App `shop` to this node, with `change` merged into its spec.
    pub async fn assign(&self, name: &str, change: Value) {
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
            last.seen.replace(found["status"].clone());
            is(&found).then_some(found)
        })
        .await;
        last.armed.set(false);
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
        let about = self.get(name).await;
        eventually(&format!("an event says {reason} of {name}"), async || {
            let events = self.tombolo.shell(&["get", "events", "-o", "json"]).await.json();
            let events = events["items"].as_array().cloned().unwrap_or_default();
            let name = &about["metadata"]["name"];
            let about = |event: &&Value| {
                event["involvedObject"]["name"] == *name && event["reason"] == reason
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
            last.seen.replace(node["status"]["conditions"].clone());
            (condition(&node, kind)["status"] == status).then_some(node)
        })
        .await;
        last.armed.set(false);
        found
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

pub fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|status| !status.contains(") Z "))
}

pub fn kill9(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}
