//! What the loops write: a refused write comes again soon, and a deletion is of the object that was seen.

use http::Method;
use serde_json::json;
use tombolo_model::keys::FINALIZER_ASSIGNMENT;

use super::*;

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
async fn the_loop_of_leases_tries_a_refused_write_again_before_its_usual_look() {
    let stage = Stage::start();
    stage.until_quiet().await;
    // The first look also asks siblings about the node, which wakes the loop once more.
    stage.fake.refuse(Method::PATCH, "nodes/x1/status", 3);
    stage.x1_is_silent.store(true, Ordering::SeqCst);
    stage.until("refused writes", |stage| stage.fake.refused().len() == 3).await;
    let waited = stage.until("a second try", |stage| !stage.is_ready("x1")).await;
    assert!(waited < Duration::from_secs(3), "it took {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_loop_of_foreign_kinds_tries_a_refused_write_again() {
    let path = format!("{CODECO}/shop");
    let make = |fake: &Fake| fake.put(&path, codeco("shop"));
    let is_made = |stage: &Stage| stage.fake.get(&format!("{APPS}/shop")).is_some();
    check_tries_again("apps/shop", make, is_made).await;
    let says_so = |stage: &Stage| {
        let object = stage.fake.get(&path);
        object.is_some_and(|object| object["status"]["status"].is_string())
    };
    check_tries_again("codecoapps/shop/status", make, says_so).await;
}

/// Somebody makes the object anew after the loop has seen it and before its deletion arrives.
async fn check_deletes_what_it_saw(stage: &Stage, path: &str, change: impl Fn(&Fake)) {
    stage.fake.remake_before_deletion(path);
    assert_eq!(stage.fake.deletions(), [0_u16; 0]);
    change(&stage.fake);
    stage.until("a deletion", |stage| !stage.fake.deletions().is_empty()).await;
    assert_eq!(stage.fake.deletions()[0], 409, "{path}: another object, which nobody has judged");
    // Once the loop has seen that one, it goes as well.
    stage.until("its end", |stage| stage.fake.deletions().len() > 1).await;
    assert_eq!(stage.fake.deletions(), [409, 200], "{path}");
}

#[tokio::test(start_paused = true)]
async fn an_assignment_is_deleted_only_if_it_is_the_one_that_was_seen() {
    let stage = Stage::start();
    let web = format!("{APPS}/web");
    stage.fake.put(&web, app(&[("web", json!({"replicas": 2}))]));
    stage.until("two places", |stage| stage.is_placed("web", 2)).await;
    stage.until_quiet().await;
    let all = stage.fake.all("assignments");
    let last = all.iter().find(|one| one["spec"]["replica"] == 1).unwrap();
    let path = last["metadata"]["name"].as_str().unwrap();
    let path = format!("{OURS}/namespaces/default/assignments/{path}");
    let fewer = |fake: &Fake| fake.put(&web, app(&[("web", json!({"replicas": 1}))]));
    check_deletes_what_it_saw(&stage, &path, fewer).await;
}

#[tokio::test(start_paused = true)]
async fn an_app_of_a_foreign_object_is_deleted_only_if_it_is_the_one_that_was_seen() {
    let stage = Stage::start();
    let path = format!("{CODECO}/shop");
    stage.fake.put(&path, codeco("shop"));
    stage.until_quiet().await;
    let owner = stage.fake.get(&path).unwrap()["metadata"]["uid"].clone();
    // Made of an earlier state of the object, which no longer names it.
    let old = format!("{APPS}/old");
    let leave = |fake: &Fake| {
        let mut app = app(&[("web", json!({}))]);
        app["metadata"]["ownerReferences"] = json!([{"apiVersion": "codeco.he-codeco.eu/v1alpha1",
            "kind": "CodecoApp", "name": "shop", "uid": owner, "controller": true}]);
        fake.put(&old, app);
    };
    check_deletes_what_it_saw(&stage, &old, leave).await;
    assert!(stage.fake.get(&format!("{APPS}/shop")).is_some());
}

const OLD: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/assignments/old";

/// It waits for an agent that will not answer.
fn leave_old(fake: &Fake) {
    let held = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"finalizers": ["else/one", FINALIZER_ASSIGNMENT],
            "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"app": "web", "component": "web", "replica": 0, "site": "x", "node": "x9",
            "engine": "docker", "run": {"container": {"image": "shop:1"}}}});
    fake.put(OLD, held);
}

#[tokio::test(start_paused = true)]
async fn an_assignment_of_a_node_that_is_gone_is_let_go_of_and_told() {
    let stage = Stage::start();
    leave_old(&stage.fake);
    stage.until("its release", |stage| !stage.told("Abandoned").is_empty()).await;
    let left = stage.fake.get(OLD).unwrap();
    assert_eq!(left["metadata"]["finalizers"], json!(["else/one"]), "that of others stays");
    assert!(stage.told("Abandoned")[0].contains("node x9 is gone"));
    let is_released = |stage: &Stage| !stage.told("Abandoned").is_empty();
    check_tries_again("assignments/old", leave_old, is_released).await;
}

/// Somebody else writes the object after the loop has seen it and before its own write arrives.
async fn check_writes_over_nobody(
    path_holds: &str,
    prepare: impl Fn(&Fake),
    change: impl Fn(&Stage),
) {
    let stage = Stage::start();
    prepare(&stage.fake);
    stage.until_quiet().await;
    stage.fake.overtake(path_holds);
    change(&stage);
    stage.until("a second try", |stage| stage.fake.patches().len() > 1).await;
    assert_eq!(stage.fake.patches()[..2], [409, 200], "{path_holds}");
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_on_an_old_copy_is_written_over_nobodys_change() {
    let nothing = |_: &Fake| ();
    let web = |image: &str| app(&[("web", json!({"run": [{"container": {"image": image}}]}))]);
    let put_web = |fake: &Fake| fake.put(&format!("{APPS}/web"), web("shop:1"));
    check_writes_over_nobody("apps/web/status", nothing, |stage| put_web(&stage.fake)).await;
    let update = |stage: &Stage| stage.fake.put(&format!("{APPS}/web"), web("shop:2"));
    check_writes_over_nobody("default/assignments/web", put_web, update).await;
    let grow = |stage: &Stage| {
        let mut node = stage.fake.get(&format!("{OURS}/nodes/x1")).unwrap();
        node["status"]["allocatable"]["cpu"] = json!("64");
        stage.fake.put(&format!("{OURS}/nodes/x1"), node);
    };
    check_writes_over_nobody("sites/x/status", nothing, grow).await;
    let fall_silent = |stage: &Stage| stage.x1_is_silent.store(true, Ordering::SeqCst);
    check_writes_over_nobody("nodes/x1/status", nothing, fall_silent).await;
    let shop = |stage: &Stage| stage.fake.put(&format!("{CODECO}/shop"), codeco("shop"));
    check_writes_over_nobody("codecoapps/shop/status", nothing, shop).await;
}

#[tokio::test(start_paused = true)]
async fn what_others_say_of_a_node_stays_when_it_falls_silent() {
    let stage = Stage::start();
    let path = format!("{OURS}/nodes/x1");
    let mut node = stage.fake.get(&path).unwrap();
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "Said", "message": "so",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    node["status"]["conditions"] = json!([theirs]);
    stage.fake.put(&path, node);
    stage.until("its readiness", |stage| stage.is_ready("x1")).await;
    stage.x1_is_silent.store(true, Ordering::SeqCst);
    stage.until("its silence", |stage| !stage.is_ready("x1")).await;
    let node = stage.fake.get(&path).unwrap();
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 2, "{conditions:?}");
    assert!(conditions.contains(&theirs), "{conditions:?}");
}
