//! The loops, wired to an API in memory that keeps its state, with time that the test moves: what a
//! panic, a refused write and a change of each kind lead to.

#![expect(clippy::unwrap_used, reason = "a test that lacks what it needs ends there")]

#[path = "wiring/fake.rs"]
mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use fake::Fake;
use tombolo_controller::clock::Clock;
use tombolo_controller::{BeforeLook, Board};
use tombolo_plan::supervision::{Phase, State};

const OURS: &str = "/apis/tombolo.dev/v1alpha1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases";
/// In the time of the test, which costs nothing.
const DEADLINE: Duration = Duration::from_secs(600);
/// Between two looks of the test.
const STEP: Duration = Duration::from_millis(100);
/// Less than any loop's own "now and then": what comes sooner came by a change or a retry.
const SOON: Duration = Duration::from_secs(10);

/// Loops over a cluster of two sites, `x` and `y`, with a node each that lives.
struct Stage {
    fake: Fake,
    board: Board,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Stage {
    fn start() -> Stage {
        Stage::start_with(Arc::new(|_| ()))
    }

    fn start_with(before_look: BeforeLook) -> Stage {
        let fake = Fake::default();
        for name in ["x", "y"] {
            fake.put(&format!("{OURS}/sites/{name}"), site());
            fake.put(&format!("{OURS}/nodes/{name}1"), node(name));
        }
        let board = Board::new(Clock::start());
        let (on, of) = (board.clone(), fake.clone());
        let loops = async move {
            let never = std::future::pending();
            tombolo_controller::run_with(&on, |_| of.client(), never, before_look).await;
        };
        let tasks = vec![tokio::spawn(renew(fake.clone())), tokio::spawn(loops)];
        Stage { fake, board, tasks }
    }

    /// Waits in the time of the test; tells how long.
    async fn until(&self, what: &str, is_so: impl Fn(&Stage) -> bool) -> Duration {
        let clock = self.board.clock();
        let began = clock.now();
        while !is_so(self) {
            let waited = clock.now().since(began);
            assert!(waited < DEADLINE, "{what} never came: {:#}", self.board.as_json());
            tokio::time::sleep(STEP).await;
        }
        clock.now().since(began)
    }

    /// Until everything that had to be said about the cluster is said.
    async fn until_quiet(&self) {
        self.until("a look of every loop", |stage| {
            let looked = |name| {
                let record = stage.board.record(name);
                record.is_some_and(|record| record.looks > 0 || record.phase == Phase::Serving)
            };
            !stage.names().is_empty() && stage.names().into_iter().all(looked)
        })
        .await;
        tokio::time::sleep(Duration::from_secs(15)).await;
    }

    /// All loops, those included that the next person adds.
    fn names(&self) -> Vec<&'static str> {
        self.board.states().into_iter().map(|(name, _)| name).collect()
    }

    fn unwell(&self) -> Vec<(&'static str, State)> {
        self.board.states().into_iter().filter(|(_, state)| !state.is_well()).collect()
    }

    /// What Events with this reason say.
    fn told(&self, reason: &str) -> Vec<String> {
        let events = self.fake.all("events");
        let about = events.iter().filter(|event| event["reason"] == reason);
        about.filter_map(|event| event["message"].as_str()).map(str::to_owned).collect()
    }

    fn is_placed(&self, app: &str, instances: usize) -> bool {
        let of_app = |one: &&Value| one["spec"]["app"] == app;
        self.fake.all("assignments").iter().filter(of_app).count() == instances
    }
}

/// The heartbeats of all sites and nodes.
async fn renew(fake: Fake) {
    for beat in 0.. {
        for name in ["site-x", "site-y", "node-x1", "node-y1"] {
            let time = format!("2026-01-01T00:{:02}:{:02}.000000Z", beat / 6 % 60, beat % 6 * 10);
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40,
                    "renewTime": time}});
            fake.put(&format!("{LEASES}/{name}"), lease);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

fn site() -> Value {
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site", "metadata": {},
        "spec": {"engine": "docker"}})
}

fn node(site: &str) -> Value {
    let has = json!({"cpu": "4", "memory": "8Gi", "storage": "50Gi"});
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node", "metadata": {},
        "spec": {"site": site},
        "status": {"capacity": has, "allocatable": has, "addresses": ["192.0.2.1"]}})
}

/// An App with these components, each with `more` in its spec.
fn app(components: &[(&str, Value)]) -> Value {
    let components: Vec<Value> = components
        .iter()
        .map(|(name, more)| {
            let mut one = json!({"name": name, "run": [{"container": {"image": "shop:1"}}]});
            json_patch::merge(&mut one, more);
            one
        })
        .collect();
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {},
        "spec": {"components": components}})
}

fn link(latency: &str) -> Value {
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Link", "metadata": {},
        "spec": {"ends": [{"kind": "Site", "name": "x"}, {"kind": "Site", "name": "y"}],
            "latency": latency}})
}

/// The loop dies in its first two looks, and nobody has to do anything about it.
async fn check_survives(name: &'static str) {
    const DEATHS: usize = 2;
    let left = Arc::new(AtomicUsize::new(DEATHS));
    let stage = Stage::start_with(Arc::new(move |looking| {
        let dies = looking == name
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok();
        assert!(!dies, "planted in {name}");
    }));
    stage.until("the death on the board", |stage| stage.unwell() == [(name, State::Dead)]).await;
    stage.fake.put(&format!("{OURS}/namespaces/default/apps/web"), app(&[("web", json!({}))]));
    stage.until("the App's place", |stage| stage.is_placed("web", 1)).await;
    stage
        .until("its next life", |stage| {
            let record = stage.board.record(name).unwrap();
            record.looks > 0 || (record.phase == Phase::Serving && record.restarts == 2)
        })
        .await;
    let record = stage.board.record(name).unwrap();
    assert_eq!(record.restarts, 2, "{name}");
    let told = record.error.unwrap().text;
    assert_eq!(told, format!("it panicked: planted in {name}"));
    assert_eq!(stage.unwell(), [], "{name} is well again");
    let said = stage.told("LoopDied");
    assert_eq!(said.len(), DEATHS, "{said:?}");
    assert!(said[0].contains(name) && said[0].contains("planted"), "{said:?}");
    for other in stage.names() {
        let restarts = stage.board.record(other).map(|record| record.restarts);
        let expected = if other == name { 2 } else { 0 };
        assert_eq!(restarts, Some(expected), "{other} while {name} dies");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_any_loop_is_survived_and_told() {
    let stage = Stage::start();
    stage.until_quiet().await;
    let names = stage.names();
    assert_eq!(names, ["foreign", "leases", "mirrors", "placing", "sites"]);
    for name in names {
        check_survives(name).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_hangs_is_late_and_then_started_again() {
    let stage = Stage::start();
    stage.until_quiet().await;
    stage.fake.hang("apps/web/status");
    stage.fake.put(&format!("{OURS}/namespaces/default/apps/web"), app(&[("web", json!({}))]));
    stage.until("word of it", |stage| !stage.told("LoopLate").is_empty()).await;
    assert_eq!(stage.unwell(), [("placing", State::Late)]);
    stage.until("its end", |stage| !stage.told("LoopDied").is_empty()).await;
    let died = stage.told("LoopDied");
    assert!(died[0].contains("placing") && died[0].contains("took more than 300 s"), "{died:?}");
    assert_eq!(stage.told("LoopLate").len(), 1, "told once");
    stage.fake.hang_no_more();
    stage.until("the App's place", |stage| stage.is_placed("web", 1)).await;
    assert_eq!(stage.unwell(), []);
}

/// The first write to `path` after `change` is refused. Nothing else changes then: a second try comes
/// by itself.
async fn check_tries_again(path: &str, change: impl Fn(&Fake), is_done: impl Fn(&Stage) -> bool) {
    let stage = Stage::start();
    stage.until_quiet().await;
    assert!(!is_done(&stage), "{path}");
    stage.fake.refuse(Method::PATCH, path, 1);
    change(&stage.fake);
    stage.until("a refused write", |stage| !stage.fake.refused().is_empty()).await;
    let waited = stage.until("a second try", is_done).await;
    assert!(waited < SOON, "{path} was written after {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_tried_again_soon() {
    let web = |fake: &Fake| {
        fake.put(&format!("{OURS}/namespaces/default/apps/web"), app(&[("web", json!({}))]));
    };
    check_tries_again("apps/web/status", web, |stage| stage.is_placed("web", 1)).await;
    let grow = |fake: &Fake| {
        let path = format!("{OURS}/nodes/x1");
        let mut node = fake.get(&path).unwrap();
        node["status"]["allocatable"]["cpu"] = json!("64");
        fake.put(&path, node);
    };
    let has_grown = |stage: &Stage| {
        let site = stage.fake.get(&format!("{OURS}/sites/x")).unwrap();
        site["status"].to_string().contains("64")
    };
    check_tries_again("sites/x/status", grow, has_grown).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_link_leads_to_another_decision() {
    let stage = Stage::start();
    stage.fake.put(&format!("{OURS}/links/xy"), link("200ms"));
    let caller = json!({"needs": {"nodes": ["x1"]},
        "connects": [{"to": "data", "port": 80, "latency": "20ms"}]});
    let called = json!({"needs": {"nodes": ["y1"]}, "expose": [{"port": 80}]});
    let shop = app(&[("web", caller), ("data", called)]);
    stage.fake.put(&format!("{OURS}/namespaces/default/apps/shop"), shop);
    stage.until_quiet().await;
    assert!(stage.is_placed("shop", 0), "the link is too slow");
    stage.fake.put(&format!("{OURS}/links/xy"), link("5ms"));
    let waited = stage.until("a place", |stage| stage.is_placed("shop", 2)).await;
    assert!(waited < SOON, "it took {waited:?}: no loop was woken by the link");
}

#[tokio::test(start_paused = true)]
async fn the_instances_of_an_app_come_into_being_together() {
    let stage = Stage::start();
    stage.until_quiet().await;
    stage.fake.hang("namespaces/default/assignments");
    let shop = app(&[("web", json!({})), ("api", json!({})), ("data", json!({}))]);
    stage.fake.put(&format!("{OURS}/namespaces/default/apps/shop"), shop);
    stage.until("a request for each instance", |stage| stage.fake.waiting() == 3).await;
}
