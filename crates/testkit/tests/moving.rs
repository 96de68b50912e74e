//! What moves and what stays when nodes fall silent, return or are gone, and how those who call each
//! other find each other again: the real server, several real agents and real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the logs of agents explain a failure")]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tombolo_model::{App, Assignment, Node};

use tombolo_testkit::rig::{condition, kill_marked, marked, read, runs};
use tombolo_testkit::{Tombolo, binary, eventually};

#[path = "moving/door.rs"]
mod door;
#[path = "moving/policies.rs"]
mod policies;

use door::Door;

/// A server and its agents, by node.
struct Land {
    tombolo: Tombolo,
    client: Client,
    agents: BTreeMap<String, Child>,
    /// Through which the agents reach the server.
    doors: BTreeMap<String, Door>,
}

impl Land {
    /// `crane@north` is a node and its site. Comes back when all are Ready.
    async fn start(nodes: &[&str]) -> Land {
        let tombolo = Tombolo::start().await;
        let client = tombolo.client().await;
        let (agents, doors) = (BTreeMap::new(), BTreeMap::new());
        let mut land = Land { tombolo, client, agents, doors };
        for one in nodes {
            land.join(one).await;
        }
        for one in nodes {
            land.until_ready(one.split_once('@').unwrap().0, "True").await;
        }
        land
    }

    async fn join(&mut self, one: &str) {
        let (node, site) = one.split_once('@').unwrap();
        let file = self.root().join(format!("{node}.join")).display().to_string();
        let door = Door::to(self.tombolo.address()).await;
        let address = format!("https://{}", door.address);
        self.doors.insert(node.to_owned(), door);
        let arguments = ["token", "create", "--site", site, "--address", &address, "-o", &file];
        self.tombolo.shell(&arguments).await.ok();
        self.start_agent(node, &["--join-file", &file, "--name", node, "--heartbeat", "1s"]);
    }

    fn root(&self) -> PathBuf {
        self.tombolo.data().parent().unwrap().to_owned()
    }

    fn start_agent(&mut self, node: &str, more: &[&str]) {
        let root = self.root();
        let log = root.join(format!("{node}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let agent = Command::new(binary::path())
            .args(["-v", "agent", "--data"])
            .arg(root.join("agents").join(node))
            .args(more)
            .env("HOME", &root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agents.insert(node.to_owned(), agent);
    }

    /// The agent ends as with its machine; the server learns of it at once.
    async fn lose(&mut self, node: &str) {
        let mut agent = self.agents.remove(node).unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
        self.patch_lease(node, json!({"spec": {"holderIdentity": ""}})).await;
        self.until_ready(node, "False").await;
    }

    async fn patch_lease(&self, node: &str, patch: Value) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "tombolo-system");
        let name = format!("node-{node}");
        leases.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn until_ready(&self, node: &str, status: &str) -> Value {
        self.until_condition(node, &format!("is Ready={status}"), |it| it["status"] == status).await
    }

    async fn is_ready(&self, node: &str) -> bool {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = serde_json::to_value(nodes.get_opt(node).await.unwrap()).unwrap();
        condition(&found, "Ready")["status"] == "True"
    }

    async fn until_condition(&self, node: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let nodes: Api<Node> = Api::all(self.client.clone());
        eventually(&format!("{node} {what}"), async || {
            let found = serde_json::to_value(nodes.get_opt(node).await.unwrap()?).unwrap();
            let conditions = found["status"]["conditions"].as_array().cloned();
            conditions.unwrap_or_default().into_iter().find(|it| it["type"] == "Ready" && is(it))
        })
        .await
    }

    async fn apply(&self, app: &Value) {
        self.tombolo.shell_with(&["apply", "-f", "-"], &app.to_string()).await.ok();
    }

    async fn assignments(&self) -> Vec<Assignment> {
        let api: Api<Assignment> = Api::namespaced(self.client.clone(), "default");
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// Where each component is and its process, once the App is up and nothing is on its way.
    async fn until_settled(
        &self,
        app: &str,
        what: &str,
        is: impl Fn(&BTreeMap<String, At>) -> bool,
    ) -> BTreeMap<String, At> {
        let apps: Api<App> = Api::namespaced(self.client.clone(), "default");
        eventually(&format!("{app}: {what}"), async || {
            let phase = apps.get(app).await.unwrap().status?.phase;
            let at = self.placed(app).await?;
            let up = phase.is_some_and(|phase| phase.as_str() == "Running");
            (up && is(&at)).then_some(at)
        })
        .await
    }

    /// Where each component is and its process, if all of them have one.
    async fn placed(&self, app: &str) -> Option<BTreeMap<String, At>> {
        let apps: Api<App> = Api::namespaced(self.client.clone(), "default");
        let status = apps.get(app).await.unwrap().status?;
        let assignments = self.assignments().await;
        let placements = status.placements.iter();
        let at = placements.map(|at| {
            let name = at.assignment.as_ref()?;
            let found = assignments.iter().find(|a| a.metadata.name.as_ref() == Some(name))?;
            let pid = found.status.as_ref()?.instance.as_ref()?.parse().ok()?;
            let node = at.node.clone()?;
            Some((at.component.clone(), At { node, pid, fence: found.spec.fence }))
        });
        at.collect()
    }

    async fn events(&self) -> String {
        self.tombolo.shell(&["events"]).await.ok()
    }
}

/// Where an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct At {
    node: String,
    pid: i32,
    fence: Option<u64>,
}

impl Drop for Land {
    fn drop(&mut self) {
        for agent in self.agents.values_mut() {
            drop(agent.kill());
            drop(agent.wait());
        }
        let root = self.root();
        if std::thread::panicking() {
            for node in self.agents.keys() {
                let log = std::fs::read_to_string(root.join(format!("{node}.log")));
                println!("--- the agent of {node}\n{}\n---", log.unwrap_or_default());
            }
        }
        // What runs outlives the agents, which is the point; after a test it must go all the same.
        kill_marked(&root.join("agents"));
    }
}

/// A variable of a running process.
fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = read(pid, "environ");
    let found = environment.split('\0').find_map(|one| one.strip_prefix(&format!("{name}=")))?;
    Some(found.to_owned())
}

fn component(name: &str, nodes: &[&str], change: Value) -> Value {
    let mut component = json!({"name": name, "needs": {"nodes": nodes},
        "run": [{"process": {"command": ["sleep", "3600"]}}]});
    for (key, value) in change.as_object().unwrap() {
        component[key] = value.clone();
    }
    component
}

fn app(name: &str, components: &[Value]) -> Value {
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"components": components}})
}

#[tokio::test]
async fn whoever_calls_a_peer_finds_it_again_after_it_has_moved_to_another_site() {
    let land = Land::start(&["crane@north", "lift@south"]).await;
    let shop = |store: &str| {
        let listen = json!([{"process": {
            "command": ["sh", "-c", "exec sleep 3600", "$(PORT)"], "ports": [8080]}}]);
        let store =
            component("store", &[store], json!({"run": listen, "expose": [{"port": 8080}]}));
        let call = |more: Value| {
            let mut connection = json!({"to": "store", "port": 8080});
            connection["onMove"] = more;
            json!({"connects": [connection]})
        };
        let web = component("web", &["lift"], call(json!("tell")));
        let old = component("old", &["lift"], call(json!("restart")));
        app("shop", &[store, web, old])
    };
    let address = async |pid: i32| {
        let file = variable(pid, "TOMBOLO_PEERS_FILE")?;
        let text = std::fs::read_to_string(file).ok()?;
        let peers: Value = serde_json::from_str(&text).unwrap();
        peers["store"][0].as_str().map(str::to_owned)
    };

    land.apply(&shop("crane")).await;
    let before = land.until_settled("shop", "it is up", |_| true).await;
    let first = eventually("web knows where store is", async || address(before["web"].pid).await);
    let first = first.await;
    assert_eq!(variable(before["web"].pid, "TOMBOLO_PEER_STORE").as_ref(), Some(&first));

    land.apply(&shop("lift")).await;
    let after = land
        .until_settled("shop", "store has moved and old was restarted", |at| {
            at["store"].node == "lift" && at["old"].pid != before["old"].pid
        })
        .await;
    let second = eventually("web knows of it", async || {
        address(after["web"].pid).await.filter(|address| *address != first)
    });
    let second = second.await;
    assert_eq!(after["web"].pid, before["web"].pid, "whoever reads the file goes on");
    assert_eq!(variable(after["web"].pid, "TOMBOLO_PEER_STORE"), Some(first));
    assert_eq!(variable(after["old"].pid, "TOMBOLO_PEER_STORE"), Some(second));
}

#[tokio::test]
async fn a_dead_node_is_replaced_and_when_it_returns_the_rule_says_who_wins() {
    // One node at first, so that one death is enough for all.
    let mut land = Land::start(&["crane@north"]).await;
    let rule = |on_return: &str| json!({"disconnect": {"action": "replace", "after": "1s", "onReturn": on_return}});
    let mut state = rule("original");
    state["stateful"] = json!(true);
    let both = ["crane", "lift"];
    land.apply(&app(
        "shop",
        &[
            component("first", &both, rule("original")),
            component("newest", &both, rule("newest")),
            component("state", &both, state),
        ],
    ))
    .await;
    let before = land.until_settled("shop", "it is up", |_| true).await;
    land.join("lift@south").await;
    land.until_ready("lift", "True").await;
    let lost = "crane".to_owned();
    land.lose(&lost).await;
    let away =
        land.until_settled("shop", "all have moved", |at| at.values().all(|at| at.node != lost));
    let away = away.await;
    for (name, at) in &before {
        assert!(runs(at.pid), "{name} goes on where nobody can tell it to stop");
    }
    let fence = |at: &BTreeMap<String, At>| at["state"].fence.unwrap();
    assert!(fence(&away) > fence(&before), "whoever holds the state twice is told apart");

    land.start_agent(&lost, &[]);
    land.until_ready(&lost, "True").await;
    let after = land
        .until_settled("shop", "the originals are back", |at| {
            at["first"].node == lost && at["state"].node == lost && at["newest"].node != lost
        })
        .await;
    assert_eq!(after["first"], before["first"], "it has never stopped");
    assert_eq!(after["newest"], away["newest"], "it stays where it was moved to");
    assert!(fence(&after) > fence(&away), "state comes back with a higher number");
    eventually("the others have ended", async || {
        let ended =
            [before["newest"].pid, before["state"].pid, away["first"].pid, away["state"].pid];
        (!ended.into_iter().any(runs)).then_some(())
    })
    .await;
    // Its agent lets go of an Assignment after the process has ended.
    eventually("three Assignments are left", async || {
        (land.assignments().await.len() == 3).then_some(())
    })
    .await;
    let events = land.events().await;
    assert!(events.contains("Moved") && events.contains("Returned"), "{events}");
}

#[tokio::test]
async fn what_is_cut_off_is_stopped_or_kept_as_its_rule_says() {
    let land = Land::start(&["crane@north", "lift@south"]).await;
    let both = ["crane", "lift"];
    let stop = json!({"disconnect": {"action": "stop", "after": "2s"}, "stopGrace": "1s"});
    let keep = json!({"disconnect": {"action": "keep"}});
    let keepers = both.map(|node| component(node, &[node], keep.clone()));
    let components = [&[component("stopper", &both, stop)], &keepers[..]].concat();
    land.apply(&app("shop", &components)).await;
    let before = land.until_settled("shop", "it is up", |_| true).await;
    let cut = before["stopper"].node.clone();
    let keeper = before[&cut].clone();

    let told = |what: &str, since: Instant| {
        println!("cut off: {what} after {} ms", since.elapsed().as_millis());
    };
    land.doors[&cut].shut();
    let shut_at = Instant::now();
    let stopped = eventually("the agent stops it, by itself", async || {
        (!runs(before["stopper"].pid)).then(|| told("stopped", shut_at))
    });
    let moved = eventually("it runs elsewhere", async || {
        let at = land.placed("shop").await.filter(|at| at["stopper"].node != cut)?;
        assert!(!runs(before["stopper"].pid), "never two of it at once");
        told("replaced", shut_at);
        Some(at)
    });
    let ((), away) = tokio::join!(stopped, moved);
    assert!(runs(keeper.pid), "nothing else is stopped");
    assert_eq!(away[&cut], keeper, "it is waited for, without end");
    assert!(runs(away["stopper"].pid));

    land.doors[&cut].open();
    let opened_at = Instant::now();
    land.until_ready(&cut, "True").await;
    told("the node is ready again", opened_at);
    let after = land.until_settled("shop", "all is well", |_| true).await;
    told("the App is well again", opened_at);
    assert_eq!(after, away, "the new one stays, and what was kept has never stopped");
    assert!(after.values().all(|at| runs(at.pid)));
    assert_eq!(land.assignments().await.len(), 3);
}

/// What becomes of an agent that can no longer stop what it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Killed,
    Frozen,
}

/// An App with one instance that ends when it is cut off.
fn singleton() -> Value {
    let rule = json!({"stateful": true, "stopGrace": "1s",
        "disconnect": {"action": "stop", "after": "2s"}});
    app("shop", &[component("only", &["crane", "lift"], rule)])
}

/// The processes of the one component of [`singleton`], wherever they are.
fn those_that_run(land: &Land) -> Vec<i32> {
    let all = marked(&land.root().join("agents"));
    all.into_iter().filter(|pid| read(*pid, "comm").trim() == "sleep").collect()
}

async fn never_there_twice(lost: Lost) {
    let mut land = Land::start(&["crane@north", "lift@south"]).await;
    land.apply(&singleton()).await;
    let before = land.until_settled("shop", "it is up", |_| true).await;
    let at = before["only"].node.clone();
    let agent = Pid::from_child(&land.agents[&at]);
    match lost {
        Lost::Killed => {
            let mut agent = land.agents.remove(&at).unwrap();
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
        Lost::Frozen => kill_process(agent, Signal::STOP).unwrap(),
    }
    let away = eventually("it runs elsewhere", async || {
        let running = those_that_run(&land);
        assert!(running.len() <= 1, "{lost:?}: never two of it at once: {running:?}");
        land.placed("shop").await.filter(|found| found["only"].node != at)
    });
    let away = away.await;
    assert!(!runs(before["only"].pid) && runs(away["only"].pid));

    match lost {
        Lost::Killed => land.start_agent(&at, &[]),
        Lost::Frozen => kill_process(agent, Signal::CONT).unwrap(),
    }
    eventually("the node is back, and it runs where it was moved to", async || {
        let running = those_that_run(&land);
        assert!(running.len() <= 1, "{lost:?}: nor when the agent is back: {running:?}");
        let ready = land.is_ready(&at).await;
        let found = land.placed("shop").await?;
        (ready && land.assignments().await.len() == 1 && found == away).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_singleton_whose_agent_is_killed_ends_before_another_starts() {
    never_there_twice(Lost::Killed).await;
}

#[tokio::test]
async fn a_singleton_whose_agent_is_frozen_ends_before_another_starts() {
    never_there_twice(Lost::Frozen).await;
}

#[tokio::test]
async fn an_agent_that_starts_again_and_again_does_not_put_off_the_end_of_what_is_cut_off() {
    let mut land = Land::start(&["crane@north"]).await;
    land.apply(&singleton()).await;
    let before = land.until_settled("shop", "it is up", |_| true).await;
    land.doors["crane"].shut();
    // Each agent lives for less than the rule's time, and so could never count to its end by itself.
    eventually("it is ended", async || {
        let mut agent = land.agents.remove("crane").unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
        land.start_agent("crane", &[]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        (!runs(before["only"].pid)).then_some(())
    })
    .await;
    assert!(those_that_run(&land).is_empty(), "and nobody begins it again");
    land.doors["crane"].open();
    land.until_settled("shop", "it is back with the server", |_| true).await;
}

#[tokio::test]
async fn a_deleted_app_waits_for_its_agent_but_not_for_a_dead_one() {
    let mut land = Land::start(&["crane@north"]).await;
    let quick = json!({"disconnect": {"action": "replace", "after": "1s"}});
    for name in ["living", "quick", "slow", "forced"] {
        let change = if name == "quick" { quick.clone() } else { json!({}) };
        land.apply(&app(name, &[component("one", &["crane"], change)])).await;
    }
    let living = land.until_settled("living", "it is up", |_| true).await;
    land.until_settled("quick", "it is up", |_| true).await;
    let slow = land.until_settled("slow", "it is up", |_| true).await;
    land.until_settled("forced", "it is up", |_| true).await;
    let of = async |app: &str| {
        let all = land.assignments().await;
        all.into_iter().filter(|one| one.spec.app == app).count()
    };

    land.tombolo.shell(&["delete", "app", "living", "--yes"]).await.ok();
    eventually("its Assignment is gone", async || (of("living").await == 0).then_some(())).await;
    assert!(!runs(living["one"].pid), "it has ended before the Assignment went");

    land.lose("crane").await;
    land.tombolo.shell(&["delete", "app", "quick", "slow", "--yes"]).await.ok();
    let of = async |app: &str| {
        let all = land.assignments().await;
        all.into_iter().filter(|one| one.spec.app == app).count()
    };
    eventually("quick is let go of", async || (of("quick").await == 0).then_some(())).await;
    assert_eq!(of("slow").await, 1, "its node is waited for");
    let events = land.events().await;
    assert!(events.contains("Abandoned"), "{events}");
    land.tombolo.shell(&["delete", "app", "forced", "--force", "--yes"]).await.ok();
    assert_eq!(of("forced").await, 0, "nobody is asked");
    land.tombolo.shell(&["node", "remove", "crane", "--force", "--yes"]).await.ok();
    eventually("slow is let go of", async || (of("slow").await == 0).then_some(())).await;
    assert!(runs(slow["one"].pid), "nobody was there to stop it");
}

#[tokio::test]
async fn a_silent_link_is_told_from_a_silent_node_by_a_sibling() {
    let mut land = Land::start(&["crane@north", "lift@north"]).await;
    let site = async || land.tombolo.shell(&["site", "ls"]).await.ok();
    eventually("the site counts its nodes", async || site().await.contains("2/2").then_some(()))
        .await;
    let mut agent = land.agents.remove("crane").unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    // As if its Lease had run for long already.
    land.patch_lease("crane", json!({"spec": {"leaseDurationSeconds": 1}})).await;
    let found = land.until_condition("crane", "is out of reach", |it| it["reason"] == "LinkSilent");
    let found = found.await;
    assert!(found["message"].as_str().unwrap().contains("but lift still reaches"), "{found}");

    // A name that is nobody's: whatever the network of the test does, it is not reached.
    let nodes: Api<Node> = Api::all(land.client.clone());
    let elsewhere = Patch::Merge(json!({"status": {"addresses": ["nowhere.invalid"]}}));
    nodes.patch_status("crane", &PatchParams::default(), &elsewhere).await.unwrap();
    let found = land.until_condition("crane", "does not answer", |it| it["reason"] == "NodeSilent");
    let found = found.await;
    assert!(found["message"].as_str().unwrap().contains("lift does not reach"), "{found}");
    let listed = land.tombolo.shell(&["site", "ls"]).await.ok();
    assert!(listed.contains("1/2"), "{listed}");
    let events = land.events().await;
    assert!(events.contains("NodeNotReady"), "{events}");
}
