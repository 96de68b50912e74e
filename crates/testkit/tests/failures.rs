//! The failures of daily use, on the real stack: wherever a person looks first, the true cause stands
//! there, with a way out of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "docker/rig.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod docker;

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;

use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tombolo_model::Node;

use docker::Docker;
use tombolo_testkit::docker::IMAGE;
use tombolo_testkit::rig::{Last, Machine, NODE, SITE};
use tombolo_testkit::{Rig, Tombolo, eventually};

/// The exit code of a command that found nothing.
const NOT_FOUND: Option<i32> = Some(3);
/// The exit code of a command that failed, and not because its time was up.
const FAILED: Option<i32> = Some(1);

/// What is to be read about an App.
struct Told<'a> {
    reason: &'a str,
    cause: &'a str,
    way_out: &'a str,
}

/// Applies an App of one component `web`, with `more` in it.
async fn apply(tombolo: &Tombolo, name: &str, run: Value, more: Value) {
    let mut component = json!({"name": "web", "run": [run], "stopGrace": "1s"});
    tombolo_testkit::rig::merge(&mut component, more);
    apply_all(tombolo, name, json!([component])).await;
}

async fn apply_all(tombolo: &Tombolo, name: &str, components: Value) {
    let app = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
        "metadata": {"name": name}, "spec": {"components": components}});
    tombolo.shell_with(&["apply", "-f", "-"], &app.to_string()).await.ok();
}

/// Waits until the command says all the words, in its first line if it is `why`.
async fn until_said(tombolo: &Tombolo, arguments: &[&str], words: &[&str]) {
    let last = Last::new(&arguments.join(" "));
    eventually(&format!("{arguments:?} says {words:?}"), async || {
        let ran = tombolo.shell(arguments).await;
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let said = match arguments[0] {
            "why" => said.lines().next().unwrap_or_default().to_owned(),
            _ => said,
        };
        last.see(said.clone().into());
        words.iter().all(|word| said.contains(word)).then_some(())
    })
    .await;
    last.found();
}

/// Looks wherever people look.
async fn check(tombolo: &Tombolo, name: &str, told: &Told<'_>) {
    let Told { reason, cause, way_out } = told;
    let label = format!("app/{name}");
    until_said(tombolo, &["get", "apps", name], &[reason]).await;
    until_said(tombolo, &["get", "apps", name, "-o", "wide"], &[cause, way_out]).await;
    until_said(tombolo, &["why", name], &[cause, way_out]).await;
    until_said(tombolo, &["describe", &label], &[reason, cause, way_out]).await;
    // Of a crash the first end was the news, before it was a loop.
    until_said(tombolo, &["events", "--for", &label], &[cause]).await;
    let wait = ["wait", &label, "--for=condition=Ready", "--timeout=1s"];
    until_said(tombolo, &wait, &[cause, way_out]).await;
}

fn process(command: &[&str]) -> Value {
    json!({"process": {"command": command}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_added_to_a_secret_is_noticed_soon() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    let secret = |key: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"},
            "stringData": {key: "x"}})
        .to_string()
    };
    tombolo.shell_with(&["apply", "-f", "-"], &secret("pas")).await.ok();
    let run = json!({"process": {"command": ["sleep", "3600"],
        "secretEnv": {"PASSWORD": {"name": "db", "key": "pass"}}}});
    apply(tombolo, "web", run, json!({})).await;
    until_said(tombolo, &["get", "apps", "web"], &["NoSuchEntry"]).await;
    until_said(tombolo, &["why", "web"], &["there is no entry \"pass\" in the Secret \"db\""])
        .await;
    tombolo.shell_with(&["apply", "-f", "-"], &secret("pass")).await.ok();
    tombolo.shell(&["wait", "app/web", "--for=condition=Ready", "--timeout=60s"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_run_says_why() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    let none = || json!({});

    apply(tombolo, "typo", process(&["/usr/bin/my-servr"]), none()).await;
    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = json!({"process": {"command": ["sleep", "3600"], "ports": [port]}});
    apply(tombolo, "taken", taken, none()).await;
    let crash = "echo connecting; echo cannot resolve db >&2; exit 2";
    apply(tombolo, "crash", process(&["sh", "-c", crash]), none()).await;
    let secret = json!({"process": {"command": ["sleep", "3600"],
        "secretEnv": {"PASSWORD": {"name": "db", "key": "pass"}}}});
    apply(tombolo, "secret", secret, none()).await;
    let large = json!({"needs": {"cpu": 4000}});
    apply(tombolo, "large", process(&["sleep", "3600"]), large).await;
    apply(tombolo, "boxed", json!({"container": {"image": "web:1"}}), none()).await;
    let foreign = json!({"needs": {"arch": ["s390x"]}});
    apply(tombolo, "foreign", process(&["sleep", "3600"]), foreign).await;

    let typo = Told {
        reason: "CommandNotFound",
        cause: "command \"/usr/bin/my-servr\" was not found",
        way_out: "write its whole path, or choose a node that has it",
    };
    check(tombolo, "typo", &typo).await;
    let cause = format!("tcp port {port} of the node is taken");
    let way_out = format!("End what listens on port {port}");
    let taken = Told { reason: "PortTaken", cause: &cause, way_out: &way_out };
    check(tombolo, "taken", &taken).await;
    let crash = Told {
        reason: "CrashLoop",
        cause: "it ended with code 2; its last line was: cannot resolve db",
        way_out: "`tombolo logs` shows what it wrote",
    };
    check(tombolo, "crash", &crash).await;
    let secret = Told {
        reason: "NoSuchEntry",
        cause: "there is no Secret \"db\" with an entry \"pass\"",
        way_out: "Write it in the namespace of the App",
    };
    check(tombolo, "secret", &secret).await;
    let large = Told {
        reason: "Unplaceable",
        cause: "web/0 has no place: needs 4000 cpu; the only node",
        way_out: "would fit with",
    };
    check(tombolo, "large", &large).await;
    let foreign = Told {
        reason: "Unplaceable",
        cause: "web/0 has no place: needs architecture s390x; the only node",
        way_out: "would fit if it could run on",
    };
    check(tombolo, "foreign", &foreign).await;

    let boxed = Told {
        reason: "Unplaceable",
        cause: "web/0 has no place: needs an engine that can run it (docker or kubernetes)",
        way_out: "or with a Docker engine on its machine",
    };
    check(tombolo, "boxed", &boxed).await;

    // Whatever the cause was: when it is gone, so is the word.
    drop(listener);
    until_said(tombolo, &["get", "apps", "taken"], &["Running", "1/1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn needs_that_no_node_can_meet_say_so() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    let run = process(&["sleep", "3600"]);
    // What the one asks for the other cannot have, and they are to be together.
    let web = json!({"name": "web", "run": [run], "needs": {"labels": {"zone": "a"}}});
    let db = json!({"name": "db", "run": [run], "needs": {"labels": {"zone": "b"}},
        "affinity": {"with": ["web"]}});
    let nodes: Api<Node> = Api::all(rig.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"zone": "a"}}}));
    nodes.patch(NODE, &PatchParams::default(), &label).await.unwrap();
    apply_all(tombolo, "torn", json!([web, db])).await;
    for object in [
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site", "metadata": {"name": "south"},
            "spec": {"engine": "host"}}),
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Link", "metadata": {"name": "way"},
            "spec": {"ends": [{"kind": "Site", "name": SITE}, {"kind": "Site", "name": "south"}],
                "latency": "40ms"}}),
    ] {
        tombolo.shell_with(&["apply", "-f", "-"], &object.to_string()).await.ok();
    }
    let users = json!({"users": {"sites": ["south"], "latency": "1ms"}});
    apply(tombolo, "far", run.clone(), users).await;

    let torn = Told {
        reason: "Unplaceable",
        cause: "db/0 has no place: needs label zone=b; the only node, crane, has a",
        way_out: "would fit with the label zone=b on it",
    };
    check(tombolo, "torn", &torn).await;
    let far = Told {
        reason: "Unplaceable",
        cause: "needs at most 1ms to its users at south; the only node, crane, has 40ms",
        way_out: "would fit if 40ms to its users at south would do",
    };
    check(tombolo, "far", &far).await;
}

/// An agent whose folder is a disk of its own, of this size.
async fn on_a_small_disk(test: &str) -> Option<Rig> {
    if !rustix::process::geteuid().is_root() {
        tombolo_testkit::tools::skip(test, "only root mounts a disk of its own");
        return None;
    }
    let tombolo = Tombolo::start().await;
    let folder = tombolo.data().parent().unwrap().join("agent");
    std::fs::create_dir_all(&folder).unwrap();
    let mount = format!("mount -t tmpfs -o size=24m tombolo {} && exec \"$@\"", folder.display());
    let command = move || {
        let mut command = std::process::Command::new("unshare");
        let program = tombolo_testkit::binary::path();
        command.args(["-m", "--propagation", "private", "sh", "-c", &mount, "--"]).arg(program);
        command
    };
    let (arguments, token) = (Vec::new(), Vec::new());
    let machine = Machine { folder, command: Box::new(command), arguments, token };
    Some(Rig::of(tombolo, machine).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_says_so() {
    let Some(rig) = on_a_small_disk("failures::a_full_disk_says_so").await else { return };
    let tombolo = &rig.tombolo;
    // The disk is seen by the agent alone, and so it is filled through its eyes.
    let seen = format!("/proc/{}/root{}", rig.agent_id(), rig.folder().display());
    let mut filler = std::fs::File::create(Path::new(&seen).join("filler")).unwrap();
    let full = loop {
        if let Err(error) = filler.write_all(&[1; 64 * 1024]) {
            break error;
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    apply(tombolo, "logs", process(&["sleep", "3600"]), json!({})).await;
    let disk = Told { reason: "DiskFull", cause: "disk is full", way_out: "Free some room" };
    check(tombolo, "logs", &disk).await;
    drop(filler);
    std::fs::remove_file(Path::new(&seen).join("filler")).unwrap();
    until_said(tombolo, &["get", "apps", "logs"], &["Running", "1/1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_does_not_run_says_why() {
    let Some(docker) = Docker::start("failures").await else { return };
    let tombolo = &docker.rig.tombolo;
    let typo = json!({"container": {"image": IMAGE, "command": ["my-servr"]}});
    apply(tombolo, "typo", typo, json!({})).await;
    let away = json!({"container": {"image": "127.0.0.1:1/absent:1"}});
    apply(tombolo, "away", away, json!({})).await;

    let typo = Told {
        reason: "CommandNotInImage",
        cause: "command \"my-servr\" was not found in the image",
        way_out: "Check the command, or use an image that has it",
    };
    check(tombolo, "typo", &typo).await;
    let away = Told {
        reason: "ImageOutOfReach",
        cause: "image 127.0.0.1:1/absent:1 is not on the node",
        way_out: "load 127.0.0.1:1/absent:1 on the node by hand",
    };
    check(tombolo, "away", &away).await;
    // No waiting puts the command into the image.
    let wait = ["wait", "app/typo", "--for=condition=Ready", "--timeout=80s"];
    let waited = tombolo.shell(&wait).await;
    assert_eq!(waited.code, FAILED, "{waited:#?}");
    assert!(waited.stderr.contains("app/typo needs a change"), "{waited:#?}");
}

/// The Events of one reason about any Assignment.
async fn events(tombolo: &Tombolo, reason: &str) -> Vec<Value> {
    let events = tombolo.shell(&["get", "events", "-o", "json"]).await.json();
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let is = |event: &Value| {
        event["involvedObject"]["kind"] == "Assignment" && event["reason"] == reason
    };
    events.into_iter().filter(is).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_counted_and_not_told_anew() {
    let rig = Rig::start().await;
    apply(&rig.tombolo, "crash", process(&["sh", "-c", "exit 2"]), json!({})).await;
    let last = Last::new("events");
    eventually("the third restart is told", async || {
        let told = events(&rig.tombolo, "Restarted").await;
        last.see(json!(told));
        assert!(told.len() < 2, "one Event for all: {told:#?}");
        (told.first()?["count"].as_i64()? >= 3).then_some(())
    })
    .await;
    last.found();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_waits_comes_back_when_nothing_runs_any_more() {
    let rig = Rig::start().await;
    let stubborn = "trap '' TERM; while true; do sleep 0.1; done";
    apply(&rig.tombolo, "shop", process(&["sh", "-c", stubborn]), json!({})).await;
    let found = rig.until_up("web").await;
    let process = tombolo_testkit::rig::pid(&found);
    rig.tombolo.shell(&["delete", "app/shop", "--yes", "--wait", "--timeout=80s"]).await.ok();
    assert!(!tombolo_testkit::rig::runs(process), "it still runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_followed_waits_for_the_first_instance() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    let needs = json!({"needs": {"labels": {"room": "attic"}}});
    let run = process(&["sh", "-c", "echo here I am; exec sleep 3600"]);
    apply(tombolo, "late", run, needs).await;
    until_said(tombolo, &["get", "apps", "late"], &["Unplaceable"]).await;
    let mut following = tombolo.shell_running(&["logs", "-f", "late"]);
    let nodes: Api<Node> = Api::all(rig.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"room": "attic"}}}));
    nodes.patch(NODE, &PatchParams::default(), &label).await.unwrap();
    following.line_with("here I am").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_an_app_that_is_deleted() {
    let rig = Rig::start().await;
    let tombolo = &rig.tombolo;
    let never = json!({"health": {"exec": {"command": ["false"]}, "startup": "1h"}});
    apply(tombolo, "slow", process(&["sleep", "3600"]), never).await;
    until_said(tombolo, &["get", "apps", "slow"], &["Deploying"]).await;
    let wait = ["wait", "app/slow", "--for=condition=Ready", "--timeout=80s"];
    let (waited, deleted) =
        tokio::join!(tombolo.shell(&wait), tombolo.shell(&["delete", "app/slow", "--yes"]));
    deleted.ok();
    assert_eq!(waited.code, NOT_FOUND, "{waited:#?}");
}
