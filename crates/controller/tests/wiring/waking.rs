//! What wakes the loops, and what they see when a watch is broken.

use serde_json::json;

use super::*;

/// Less than the shortest "now and then" of any loop.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Every kind that a loop reads, as a path to an object whose change is to wake it.
const READS: [(&str, &[&str]); 5] = [
    ("foreign", &["apps/web", "assignments/web", "nodes/x1", "sites/x", "codecoapps/shop"]),
    ("leases", &["sites/x", "nodes/x1", "leases/other"]),
    ("links", &["apps/web", "assignments/web", "sites/x", "nodes/x1", "links/xy"]),
    ("placing", &["apps/web", "assignments/web", "sites/x", "nodes/x1", "links/xy"]),
    ("sites", &["nodes/x1", "sites/x"]),
];

#[tokio::test(start_paused = true)]
async fn every_kind_that_a_loop_reads_wakes_it() {
    let stage = Stage::start();
    stage.fake.put(&format!("{OURS}/links/xy"), link("200ms"));
    stage.fake.put(&format!("{CODECO}/shop"), codeco("shop"));
    stage.fake.put(&format!("{APPS}/web"), app(&[("web", json!({}))]));
    stage.fake.put(&format!("{LEASES}/other"), lease("other", 0));
    stage.until("a place", |stage| stage.is_placed("web", 1)).await;
    for (name, paths) in READS {
        for short in paths {
            stage.until_quiet().await;
            stage.all_are_silent.store(true, Ordering::SeqCst);
            let looks = || stage.board.record(name).unwrap().looks;
            // Just after a look the next is as far away as can be.
            let before = looks();
            let patience = stage.board.clock().now() + SOON;
            while looks() == before && stage.board.clock().now() < patience {
                tokio::time::sleep(STEP).await;
            }
            tokio::time::sleep(STEP * 10).await;
            let before = looks();
            stage.touch(short);
            let waited = stage.until("a look", |_| looks() > before).await;
            assert!(waited < AT_ONCE, "{short} woke {name} after {waited:?}");
            stage.all_are_silent.store(false, Ordering::SeqCst);
        }
    }
}

impl Stage {
    /// Changes an object in a way that means nothing.
    fn touch(&self, short: &str) {
        let (plural, name) = short.split_once('/').unwrap();
        let all = self.fake.all(plural);
        let wanted = |one: &&Value| {
            one["metadata"]["name"].as_str().is_some_and(|found| found.starts_with(name))
        };
        let mut object = all.iter().find(wanted).unwrap().clone();
        object["metadata"]["annotations"]["touched"] =
            object["metadata"]["resourceVersion"].clone();
        let version = object["apiVersion"].as_str().unwrap();
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.map_or_else(String::new, |name| format!("namespaces/{name}/"));
        let name = object["metadata"]["name"].as_str().unwrap();
        self.fake.put(&format!("/apis/{version}/{namespace}{plural}/{name}"), object.clone());
    }
}

/// The heartbeats arrive all the while: only the watch does not show them.
#[tokio::test(start_paused = true)]
async fn nobody_is_called_silent_because_the_watch_on_leases_is_broken() {
    let stage = Stage::start();
    stage.until_quiet().await;
    assert!(stage.is_ready("x1") && stage.is_ready("y1"));
    stage.fake.break_watches("leases");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(stage.is_ready("x1") && stage.is_ready("y1"));
    assert_eq!(stage.told("NodeNotReady"), [""; 0]);
    // What is silent indeed is still found.
    stage.x1_is_silent.store(true, Ordering::SeqCst);
    stage.until("its silence", |stage| !stage.is_ready("x1")).await;
    assert!(stage.is_ready("y1"));
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
