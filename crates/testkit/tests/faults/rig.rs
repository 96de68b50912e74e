//! Agents on a disk of their own and behind a link, and what the tests of faults ask about them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinHandle;

use tombolo_testkit::rig::{Machine, marked, read};
use tombolo_testkit::{Ran, Rig, Tombolo, binary, eventually};

use crate::world::{Disk, Link};

/// The agent's folder is on a disk of its own.
pub(crate) async fn on(disk: &Disk) -> Rig {
    let tombolo = Tombolo::start().await;
    let machine = Machine { folder: disk.path().join("agent"), ..Machine::beside(&tombolo) };
    Rig::of(tombolo, machine).await
}

/// The agent is on the far side of a link.
pub(crate) async fn behind(link: &Link) -> Rig {
    let tombolo = Tombolo::start_with(&["--name", &link.address.to_string()]).await;
    let port = link.forward(tombolo.address().to_owned()).await;
    let address = format!("https://{}:{port}", link.address);
    let first = link.command(binary::path());
    let arguments: Vec<_> = first.get_args().map(ToOwned::to_owned).collect();
    let command = Box::new(move || {
        let mut command = Command::new("nsenter");
        command.args(&arguments);
        command
    });
    let token = vec!["--address".to_owned(), address];
    let machine = Machine { command, token, ..Machine::beside(&tombolo) };
    Rig::of(tombolo, machine).await
}

/// Another agent, which is not expected to go on.
pub(crate) async fn run_agent(rig: &Rig, folder: &Path, more: &[&str]) -> Ran {
    let folder = folder.display().to_string();
    let mut arguments = vec!["agent", "--name", "other", "--data", &folder];
    arguments.extend(more);
    rig.tombolo.shell(&arguments).await
}

/// The processes of a component that is a `sleep`.
pub(crate) fn running(rig: &Rig, component: &str) -> Vec<i32> {
    let mark = format!("TOMBOLO_COMPONENT={component}\0");
    let is_its = |number: &i32| {
        read(*number, "environ").contains(&mark) && read(*number, "cmdline").contains("sleep\0")
    };
    marked(rig.folder()).into_iter().filter(is_its).collect()
}

/// Every status that is written about it from now on.
pub(crate) async fn record(rig: &Rig, name: &str) -> Record {
    let api = rig.assignments();
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let version = api.get(name).await.unwrap().resource_version().unwrap();
    let mut stream = api.watch(&params, &version).await.unwrap().boxed();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let watching = tokio::spawn(async move {
        while let Some(event) = stream.next().await {
            let (WatchEvent::Added(found) | WatchEvent::Modified(found)) = event.unwrap() else {
                continue;
            };
            keep.lock().unwrap().push(serde_json::to_value(found).unwrap());
        }
    });
    Record { seen, watching }
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

/// When a process was started, in ticks since the boot.
pub(crate) fn started(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    // The name is the second field, and this is the twenty-second.
    after_name.split_whitespace().nth(19).unwrap().parse().unwrap()
}
