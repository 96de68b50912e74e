//! The words of daily use, on the real stack: looking, scaling, restarting, taking back, editing, copying.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tombolo_testkit::rig::Last;
use tombolo_testkit::{Ran, Rig, Tombolo, binary, eventually};

const FAILED: Option<i32> = Some(1);
const CONFLICT: Option<i32> = Some(4);

fn app(count: u32) -> Value {
    let run = json!([{"process": {"command": ["sleep", "3600"]}}]);
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "shop"},
        "spec": {"components": [
            {"name": "web", "replicas": count, "run": run, "stopGrace": "1s"},
            {"name": "store", "run": run, "stopGrace": "1s"}]}})
}

async fn apply(tombolo: &Tombolo, object: &Value) {
    tombolo.shell_with(&["apply", "-f", "-"], &object.to_string()).await.ok();
}

async fn settled(tombolo: &Tombolo) {
    tombolo.shell(&["rollout", "status", "shop", "--timeout", "80s"]).await.ok();
}

/// The processes of a component, by their numbers.
async fn processes(tombolo: &Tombolo, component: &str) -> BTreeSet<String> {
    let field = format!("spec.component={component}");
    let get = ["get", "assignments", "--field-selector", &field, "-o", "json"];
    let list = tombolo.shell(&get).await.json();
    let all = list["items"].as_array().unwrap().iter();
    all.filter_map(|one| one["status"]["instance"].as_str().map(str::to_owned)).collect()
}

fn folder(tombolo: &Tombolo) -> PathBuf {
    tombolo.data().parent().unwrap().to_owned()
}

#[track_caller]
fn assert_has(said: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(said.contains(wanted), "no {wanted:?} in:\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_scaled_restarted_and_taken_back() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    apply(tombolo, &app(1)).await;
    settled(tombolo).await;
    tombolo.shell(&["scale", "shop/web=3"]).await.ok();
    settled(tombolo).await;
    assert_eq!(processes(tombolo, "web").await.len(), 3);
    let wrong = tombolo.shell(&["scale", "shop/wab=3"]).await;
    assert_has(&wrong.stderr, &["no component \"wab\"", "it has web, store"]);
    // Whoever applies the file again learns who has changed the number.
    let conflict = tombolo.shell_with(&["apply", "-f", "-"], &app(1).to_string()).await;
    assert_eq!(conflict.code, CONFLICT);
    assert_has(&conflict.stderr, &["tombolo-scale"]);

    let (web, store) = (processes(tombolo, "web").await, processes(tombolo, "store").await);
    tombolo.shell(&["restart", "shop/web"]).await.ok();
    settled(tombolo).await;
    let now = processes(tombolo, "web").await;
    assert!(now.len() == 3 && now.is_disjoint(&web), "all are new: {web:?}, then {now:?}");
    assert_eq!(processes(tombolo, "store").await, store, "and nothing else is");

    let history = tombolo.shell(&["rollout", "history", "shop"]).await.ok();
    assert_has(&history, &["GENERATION", "web×1 sleep", "web×3 sleep", "store×1 sleep"]);
    tombolo.shell(&["rollout", "undo", "shop", "--to-generation", "1"]).await.ok();
    settled(tombolo).await;
    assert_eq!(processes(tombolo, "web").await.len(), 1);
    tombolo.shell(&["rollout", "undo", "shop"]).await.ok();
    settled(tombolo).await;
    assert_eq!(processes(tombolo, "web").await.len(), 3, "an undo can be undone");
    let file = ["rollout", "history", "shop", "--generation", "1"];
    let file = tombolo.shell(&file).await.ok();
    tombolo.shell_with(&["apply", "-f", "-", "--force-conflicts"], &file).await.ok();
    settled(tombolo).await;
    assert_eq!(processes(tombolo, "web").await.len(), 1);

    tombolo.shell(&["delete", "app/shop", "--yes", "--wait", "--timeout=80s"]).await.ok();
    eventually("its history goes with it", async || {
        let maps = tombolo.shell(&["get", "configmaps", "-o", "name"]).await.ok();
        (!maps.contains("rollout")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_has_everything_and_the_first_cause_of_trouble() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    let shown = tombolo.shell(&["status"]).await.stdout;
    assert_has(
        &shown,
        &["Server  https://", "Loops", "Sites   1, all ready", "Nodes   1, all ready"],
    );
    let mut broken = app(1);
    broken["spec"]["components"][0]["run"][0]["process"]["command"] = json!(["/usr/bin/no-such"]);
    apply(tombolo, &broken).await;
    let last = Last::new("status");
    eventually("the trouble is told", async || {
        let status = tombolo.shell(&["status"]).await;
        last.see(json!(status.stdout));
        let told = "app/shop  Degraded: web/0 on crane: command \"/usr/bin/no-such\" was not found";
        (status.code == FAILED && status.stdout.contains(told)).then_some(())
    })
    .await;
    last.found();
    let status = tombolo.shell(&["status", "-o", "json"]).await;
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["apps"]["Degraded"], 1);
    let all = tombolo.shell(&["get", "all", "-A"]).await.ok();
    assert_has(&all, &["site/north", "node/crane", "app/shop", "assignment/shop-web-0"]);
    let kinds = tombolo.shell(&["api-resources"]).await.ok();
    assert_has(&kinds, &["apps", "App", "configmaps", "cm"]);
}

/// Edits with a script for an editor, which gets the file as `$1`.
async fn edit(tombolo: &Tombolo, script: &str) -> Ran {
    let path = tombolo.file("editor.sh", script);
    let editor = format!("EDITOR=sh {}", path.display());
    let arguments = ["-u", "VISUAL", &editor, binary::path().to_str().unwrap(), "edit", "app/shop"];
    tombolo.run(Path::new("env"), &arguments).await
}

#[tokio::test]
async fn an_edit_sends_what_was_changed_and_comes_back_with_what_is_wrong() {
    let tombolo = Tombolo::start().await;
    apply(&tombolo, &app(1)).await;
    let replicas = async || {
        let app = tombolo.shell(&["get", "app/shop", "-o", "json"]).await.json();
        app["spec"]["components"][0]["replicas"].clone()
    };
    edit(&tombolo, "sed -i 's/replicas: 1/replicas: 2/' $1").await.ok();
    assert_eq!(replicas().await, 2);
    assert_has(&edit(&tombolo, "true").await.stderr, &["nothing was changed"]);
    edit(&tombolo, "false").await.failed();

    // The first attempt is refused, and the second sees why.
    let seen = folder(&tombolo).join("seen");
    let seen = seen.display();
    let twice = format!(
        "if grep -q '^# error:' $1; then cp $1 {seen}; sed -i 's/many/4/' $1; \
         else sed -i 's/replicas: 2/replicas: many/' $1; fi"
    );
    edit(&tombolo, &twice).await.ok();
    assert_eq!(replicas().await, 4);
    let seen = std::fs::read_to_string(seen.to_string()).unwrap();
    assert_has(&seen, &["# error:", "replicas", "many"]);

    // Somebody else changes another field meanwhile, and then the same.
    let program = binary::path().display();
    let config = tombolo.kubeconfig();
    let other =
        |arguments: &str| format!("{program} --kubeconfig {} {arguments}", config.display());
    let label = format!(
        "sed -i 's/replicas: 4/replicas: 5/' $1; {} >/dev/null",
        other("restart shop/store")
    );
    let conflict = edit(&tombolo, &label).await;
    assert_eq!(conflict.code, CONFLICT, "a list is one field: {conflict:#?}");
    let hint = conflict.stderr;
    let kept = hint.split_whitespace().find(|word| word.contains("tombolo-edit-")).unwrap();
    let kept = kept.trim_end_matches(';');
    assert_has(&std::fs::read_to_string(kept).unwrap(), &["replicas: 5"]);
    std::fs::remove_file(kept).unwrap();
    assert_eq!(replicas().await, 4);
    let beside = format!(
        "sed -i 's/^spec:/spec:\\n  description: mine/' $1; {} >/dev/null",
        other("restart shop/store")
    );
    edit(&tombolo, &beside).await.ok();
    let app = tombolo.shell(&["get", "app/shop", "-o", "json"]).await.json();
    assert_eq!(app["spec"]["description"], "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_copied_both_ways() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    apply(tombolo, &app(1)).await;
    settled(tombolo).await;
    let folder = folder(tombolo);
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(folder.join("tree/deep")).unwrap();
    // More than a piece, and not a multiple of one.
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|number| number.to_le_bytes()[0]).collect();
    std::fs::write(folder.join("tree/deep/file"), &bytes).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("tree/link")).unwrap();

    let copied = tombolo.shell(&["cp", &at("tree"), "shop/web:/tmp/"]).await;
    assert_has(&copied.stdout, &["copied 1 file, 1000003 bytes"]);
    assert_has(&copied.stderr, &["1 links and special files were left out"]);
    tombolo.shell(&["cp", "shop/web/0:/tmp/tree", &at("back")]).await.ok();
    assert_eq!(std::fs::read(folder.join("back/deep/file")).unwrap(), bytes);
    tombolo.shell(&["cp", "shop/web:/tmp/tree/deep/file", &at("one")]).await.ok();
    assert_eq!(std::fs::read(folder.join("one")).unwrap(), bytes);
    let missing = tombolo.shell(&["cp", "shop/web:/tmp/none", &at("none")]).await;
    assert_eq!(missing.code, FAILED);
    assert_has(&missing.stderr, &["tar in shop/web/0 failed"]);
}

#[tokio::test]
async fn every_example_is_taken_by_a_fresh_server() {
    let tombolo = Tombolo::start().await;
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let files = std::fs::read_dir(examples).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    files.sort();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let applied = tombolo.shell(&["apply", "-f", file.to_str().unwrap()]).await;
        assert_eq!(applied.code, Some(0), "{}: {applied:#?}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_for_any_machine_runs_on_this_one() {
    let rig = Rig::start().await;
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/app-clock.yaml");
    rig.tombolo.shell(&["apply", "-f", example]).await.ok();
    rig.tombolo.shell(&["rollout", "status", "clock", "--timeout", "80s"]).await.ok();
}
