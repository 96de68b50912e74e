//! The loops, wired to an API in memory that keeps its state, with time that the test moves: what a
//! panic, a refused write and a change of each kind lead to.

#![expect(clippy::unwrap_used, reason = "a test that lacks what it needs ends there")]

#[path = "wiring/fake.rs"]
mod fake;
#[path = "wiring/restart.rs"]
mod restart;
#[path = "wiring/waking.rs"]
mod waking;
#[path = "wiring/writes.rs"]
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use fake::Fake;
use tombolo_controller::clock::Clock;
use tombolo_controller::{BeforeLook, Board};
use tombolo_plan::supervision::{Phase, State};

const OURS: &str = "/apis/tombolo.dev/v1alpha1";
const APPS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/apps";
const CODECO: &str = "/apis/codeco.he-codeco.eu/v1alpha1/namespaces/default/codecoapps";
const SYSTEM: &str = "/api/v1/namespaces/tombolo-system";
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
    /// Whether the node `x1` and everybody else are silent.
    x1_is_silent: Arc<AtomicBool>,
    all_are_silent: Arc<AtomicBool>,
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
        fake.put(
            SYSTEM,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {},
            "status": {"phase": "Active", "conditions": [{"type": "Theirs", "status": "True"}]}}),
        );
        for name in ["x", "y"] {
            fake.put(&format!("{OURS}/sites/{name}"), site());
            fake.put(&format!("{OURS}/nodes/{name}1"), node(name));
        }
        let board = Board::new(Clock::start());
        let (on, of) = (board.clone(), fake.clone());
        let loops = async move {
            let never = std::future::pending();
            tombolo_controller::run_with(
                &on,
                |_| of.client(),
                Arc::new(tombolo_controller::NoSamples),
                never,
                before_look,
            )
            .await;
        };
        let (x1_is_silent, all_are_silent) = (Arc::default(), Arc::default());
        let beating = renew(fake.clone(), Arc::clone(&x1_is_silent), Arc::clone(&all_are_silent));
        let tasks = vec![tokio::spawn(beating), tokio::spawn(loops)];
        Stage { fake, board, x1_is_silent, all_are_silent, tasks }
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

    /// The condition of the system's namespace about the loops.
    fn loops_well(&self) -> Value {
        let namespace = self.fake.get(SYSTEM).unwrap();
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|found| found["type"] == "Theirs"), "{conditions:?}");
        let found = conditions.iter().find(|found| found["type"] == "LoopsWell");
        found.cloned().unwrap_or_default()
    }

    fn is_said_to_be_well(&self) -> bool {
        let condition = self.loops_well();
        condition["status"] == "True" && condition["reason"] == "LoopsOnTime"
    }

    /// What Events with this reason say, each as often as it was counted.
    fn told(&self, reason: &str) -> Vec<String> {
        let events = self.fake.all("events");
        let about = events.iter().filter(|event| event["reason"] == reason);
        let said = |event: &Value| {
            let times = event["count"].as_u64().and_then(|count| count.try_into().ok());
            vec![event["message"].as_str().unwrap_or_default().to_owned(); times.unwrap_or(0)]
        };
        about.flat_map(said).collect()
    }

    fn is_ready(&self, node: &str) -> bool {
        let node = self.fake.get(&format!("{OURS}/nodes/{node}")).unwrap();
        let conditions = node["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
    }

    fn is_placed(&self, app: &str, instances: usize) -> bool {
        let of_app = |one: &&Value| one["spec"]["app"] == app;
        self.fake.all("assignments").iter().filter(of_app).count() == instances
    }
}

/// The heartbeats of all sites and nodes.
async fn renew(fake: Fake, x1_is_silent: Arc<AtomicBool>, all_are_silent: Arc<AtomicBool>) {
    for beat in 0.. {
        for name in ["site-x", "site-y", "node-x1", "node-y1"] {
            let x1 = name == "node-x1" && x1_is_silent.load(Ordering::SeqCst);
            if !x1 && !all_are_silent.load(Ordering::SeqCst) {
                fake.put(&format!("{LEASES}/{name}"), lease(name, beat));
            }
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

fn lease(name: &str, beat: u32) -> Value {
    let time = format!("2026-01-01T00:{:02}:{:02}.000000Z", beat / 6 % 60, beat % 6 * 10);
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40,
            "renewTime": time}})
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

/// An object of another project's kind, for which an App of this name is made.
fn codeco(app: &str) -> Value {
    json!({"apiVersion": "codeco.he-codeco.eu/v1alpha1", "kind": "CodecoApp", "metadata": {},
        "spec": {"appName": app, "codecoapp-msspec": [{"serviceName": "front",
            "podspec": {"containers": [{"name": "front", "image": "example/front:1"}]}}]}})
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
    // What watches over the others cannot say that it is dead itself.
    if name != "oversight" {
        stage
            .until("the death in the condition", |stage| {
                let condition = stage.loops_well();
                let message = condition["message"].as_str().unwrap_or_default();
                condition["status"] == "False"
                    && condition["reason"] == "LoopDied"
                    && message.contains(&format!("the loop {name} has died"))
            })
            .await;
    }
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
    stage.until("the end of it in the condition", Stage::is_said_to_be_well).await;
    let said = stage.told("LoopDied");
    assert_eq!(said.len(), DEATHS, "{said:?}");
    let events = stage.fake.all("events");
    let deaths = events.iter().filter(|event| event["reason"] == "LoopDied").count();
    assert_eq!(deaths, 1, "the same again is counted up");
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
    let all =
        ["foreign", "leases", "links", "mirrors", "oversight", "placing", "policies", "sites"];
    assert_eq!(names, all);
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
    stage.until("the condition", |stage| stage.loops_well()["reason"] == "LoopLate").await;
    assert_eq!(stage.loops_well()["status"], "False");
    stage.until("its end", |stage| !stage.told("LoopDied").is_empty()).await;
    let died = stage.told("LoopDied");
    assert!(died[0].contains("placing") && died[0].contains("took more than 300 s"), "{died:?}");
    assert_eq!(stage.told("LoopLate").len(), 1, "told once");
    stage.fake.hang_no_more();
    stage.until("the App's place", |stage| stage.is_placed("web", 1)).await;
    assert_eq!(stage.unwell(), []);
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
