//! What is assigned to a machine runs there, whatever is killed: the real server, real agents and
//! real processes. Assignments are written by hand, so that nothing here depends on the placing.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use tombolo_testkit::rig::{
    NODE, condition, kill9, marked, pid, read, runs, sees, shared_folder, shell,
};
use tombolo_testkit::{Rig, eventually, tools};

#[tokio::test]
async fn what_is_assigned_runs_and_survives_the_end_of_everybody_else() {
    let mut rig = Rig::start().await;
    rig.assign("web", json!({})).await;
    let first = rig.until_up("web").await;
    assert_eq!(first["status"]["agent"], NODE);
    assert_eq!(first["status"]["restarts"], 0);
    assert_eq!(condition(&first, "Applied")["status"], "True");
    assert_eq!(condition(&first, "Degraded")["status"], "False");
    let one = pid(&first);
    assert!(runs(one));

    kill9(one);
    let second = rig
        .until("it was restarted", "web", |found| {
            found["status"]["restarts"] == 1 && condition(found, "Available")["status"] == "True"
        })
        .await;
    let two = pid(&second);
    assert!(one != two && runs(two));
    assert_eq!(second["status"]["lastExit"]["signal"], 9);
    rig.until_event("web", "Started").await;
    rig.until_event("web", "Restarted").await;

    rig.kill9_agent();
    assert!(runs(two), "it does not need its agent");
    rig.start_agent(&[]);
    rig.assign("more", json!({})).await;
    rig.until_up("more").await;
    assert_eq!(pid(&rig.get("web").await), two, "it was found again and left alone");

    rig.tombolo.kill9();
    assert!(runs(two), "it does not need the controller");
    rig.tombolo.restart().await;
    rig.assign("later", json!({})).await;
    let later = rig.until_up("later").await;
    let now = rig.get("web").await;
    assert_eq!((pid(&now), &now["status"]["restarts"]), (two, &json!(1)), "nothing was restarted");

    rig.until_kept("later").await;
    rig.tombolo.kill9();
    rig.kill9_agent();
    let third = pid(&later);
    kill9(third);
    kill9(two);
    rig.start_agent(&[]);
    let folder = rig.folder().to_owned();
    let is_sleep = |pid: &i32| read(*pid, "cmdline").contains("sleep\0");
    let alive = || marked(&folder).into_iter().filter(is_sleep).count();
    eventually("all three run without the controller", async || (alive() == 3).then_some(())).await;
    rig.tombolo.restart().await;
    rig.until("the server hears of it", "web", |found| {
        found["status"]["restarts"] == 2 && condition(found, "Available")["status"] == "True"
    })
    .await;

    rig.assignments().delete("web", &DeleteParams::default()).await.unwrap();
    eventually("what was deleted stops", async || (alive() == 2).then_some(())).await;
    rig.until("a stop is told", "more", |found| found["status"]["restarts"] == 0).await;
    rig.change("more", json!({"stopped": true})).await;
    rig.until("it was stopped", "more", |found| {
        condition(found, "Available")["reason"] == "Stopped"
            && found["status"].get("instance").is_none()
    })
    .await;
}

#[tokio::test]
async fn what_cannot_run_says_why_in_a_sentence() {
    let rig = Rig::start().await;
    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    rig.assign("nothing", json!({"run": {"process": {"command": ["no-such-program"]}}})).await;
    rig.assign("taken", json!({"run": {"process": {"ports": [port]}}})).await;
    rig.assign("crasher", shell("echo the disk is on fire; exit 3")).await;
    rig.assign(
        "secretive",
        json!({"run": {"process": {"secretEnv": {"KEY": {"name": "keys", "key": "a"}}}}}),
    )
    .await;

    let found = rig
        .until("it is told", "nothing", |found| condition(found, "Degraded")["status"] == "True");
    let message = condition(&found.await, "Degraded")["message"].to_string();
    assert!(message.contains("no-such-program") && message.contains("was not found"), "{message}");
    assert!(message.contains("Install"), "{message}");
    let found = rig.until("it is told", "taken", |found| {
        condition(found, "Degraded")["message"].to_string().contains("is taken")
    });
    let message = condition(&found.await, "Degraded")["message"].to_string();
    assert!(message.contains(&port.to_string()), "{message}");
    let found = rig.until("a crash loop", "crasher", |found| {
        condition(found, "Available")["reason"] == "CrashLoop"
    });
    let found = found.await;
    let message = condition(&found, "Degraded")["message"].to_string();
    assert!(message.contains("code 3") && message.contains("the disk is on fire"), "{message}");
    assert_eq!(found["status"]["lastExit"]["code"], 3);
    assert_eq!(found["status"]["lastExit"]["log"][0], "the disk is on fire");
    rig.until("a missing Secret", "secretive", |found| {
        condition(found, "Degraded")["reason"] == "NoSuchEntry"
    })
    .await;

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"a": "hunter2"}});
    rig.tombolo.shell_with(&["apply", "-f", "-"], &secret.to_string()).await.ok();
    let up = rig.until_up("secretive").await;
    let environment = read(pid(&up), "environ");
    assert!(environment.contains("KEY=hunter2"), "{environment}");
    assert!(environment.contains("TOMBOLO_COMPONENT=secretive"), "{environment}");
    rig.until_kept("secretive").await;
    let kept = std::fs::read_to_string(rig.folder().join("assignments.json")).unwrap();
    assert!(kept.contains("secretive") && !kept.contains("hunter2"), "secrets are sealed");

    drop(listener);
    rig.until_up("taken").await;
    rig.until_event("nothing", "CommandNotFound").await;
    rig.until_event("taken", "PortTaken").await;
    rig.until_event("crasher", "CrashLoop").await;
    rig.until_event("secretive", "NoSuchEntry").await;
}

#[tokio::test]
async fn an_update_keeps_the_old_one_until_the_new_one_is_well_and_goes_back_if_it_never_is() {
    let rig = Rig::start().await;
    let folder = shared_folder();
    let flag = folder.path().join("ready");
    std::fs::write(&flag, "").unwrap();
    let check = json!({"exec": {"command": ["test", "-e", flag]}, "interval": "200ms",
        "failures": 1000});
    let mut spec = sees(folder.path());
    spec["health"] = check;
    rig.assign("web", spec).await;
    let old = pid(&rig.until_up("web").await);

    std::fs::remove_file(&flag).unwrap();
    rig.change("web", json!({"run": {"process": {"command": ["sleep", "3601"]}}})).await;
    rig.until("the old one serves", "web", |found| {
        matches!(condition(found, "Available")["reason"].as_str(), Some("Updating" | "CheckFails"))
            && condition(found, "Available")["status"] == "True"
    })
    .await;
    assert!(runs(old), "the new one is not well yet");
    std::fs::write(&flag, "").unwrap();
    let new = rig
        .until("the new one serves", "web", |found| {
            condition(found, "Available")["reason"] == "Running" && pid(found) != old
        })
        .await;
    let new = pid(&new);
    eventually("the old one is gone", async || (!runs(old)).then_some(())).await;

    rig.change("web", shell("exit 7")).await;
    let back = rig
        .until("it went back", "web", |found| {
            condition(found, "Degraded")["reason"] == "RolledBack"
                && condition(found, "Available")["status"] == "True"
        })
        .await;
    assert_eq!(pid(&back), new, "the good one never stopped");
    assert!(condition(&back, "Degraded")["message"].to_string().contains("code 7"), "{back}");
    assert!(runs(new));
    rig.change("web", json!({"run": {"process": {"command": ["sleep", "3602"]}}})).await;
    rig.until_up("web").await;
}

#[tokio::test]
async fn a_process_of_another_user_reaches_its_folder_and_its_peers_by_name() {
    if !rustix::process::geteuid().is_root() {
        let test = "a_process_of_another_user_reaches_its_folder_and_its_peers_by_name";
        tools::skip(test, "only root can become another user");
        return;
    }
    let rig = Rig::start().await;
    // The folder of the test itself is not the agent's to open.
    std::fs::set_permissions(rig.root(), Permissions::from_mode(0o711)).unwrap();
    let script = "id -u && cat $TOMBOLO_DIR/etc/conf $TOMBOLO_PEERS_FILE && touch $TOMBOLO_DIR/read \
        && exec sleep 3600";
    let process = json!({"command": ["sh", "-c", script], "user": "12345:12345",
        "files": [{"path": "/etc/conf", "content": "deep water"}]});
    let spec = json!({"run": {"process": process}, "peers": [{"component": "store"}],
        "allow": ["process", "host-user"]});
    rig.assign("web", spec).await;
    let up = rig.until_up("web").await;
    let environment = read(pid(&up), "environ");
    let folder = environment.split('\0').find_map(|one| one.strip_prefix("TOMBOLO_DIR=")).unwrap();
    let done = std::path::Path::new(folder).join("read");
    eventually("it has read and written", async || done.exists().then_some(())).await;
    assert_eq!(std::fs::metadata(&done).unwrap().uid(), 12345);
    assert_eq!(rig.get("web").await["status"]["restarts"], 0);
    let applied = condition(&up, "Applied")["message"].to_string();
    assert!(!applied.contains("cannot reach"), "{applied}");
}

#[tokio::test]
async fn an_assignment_without_a_node_is_taken_and_the_machine_is_described() {
    let rig = Rig::start().await;
    rig.assign("anywhere", json!({})).await;
    rig.change("anywhere", json!({"node": null})).await;
    let found = rig.until_up("anywhere").await;
    assert_eq!(found["status"]["agent"], NODE);
    eventually("the node is described", async || {
        let node = rig.tombolo.shell(&["get", "node", NODE, "-o", "json"]).await.json();
        let status = &node["status"];
        let told = status["capacity"]["cpu"].is_string()
            && status["securityScore"].is_number()
            && status["characteristics"]["engines"][0]["version"].is_string();
        told.then_some(())
    })
    .await;
    let nodes = rig.assignments().list(&ListParams::default()).await.unwrap();
    assert_eq!(nodes.items.len(), 1);
}

#[tokio::test]
async fn an_agent_whose_folder_is_deleted_ends_and_nothing_runs_twice() {
    let mut rig = Rig::start().await;
    // What it writes wakes its supervisor, which then sees at once that the folder is gone.
    rig.assign("web", shell("while :; do echo the tide is in; sleep 0.05; done")).await;
    let first = pid(&rig.until_up("web").await);
    std::fs::remove_dir_all(rig.folder()).unwrap();
    // It wakes the agent.
    rig.assign("more", json!({})).await;
    let code = rig.until_agent_ends().await;
    assert_eq!(code, Some(1));
    let log = rig.agent_log();
    assert!(log.contains("was deleted or moved away"), "{log}");
    assert!(!rig.folder().join("instances").exists(), "nothing was begun anew");
    eventually("what ran from there has ended", async || (!runs(first)).then_some(())).await;

    let file = rig.join_file("again.join").await;
    rig.start_agent(&["--join-file", &file, "--name", NODE]);
    let again = eventually("it runs again", async || {
        let found = rig.until_up("web").await;
        Some(pid(&found)).filter(|now| *now != first)
    })
    .await;
    rig.until_up("more").await;
    let loops = |pid: &i32| read(*pid, "cmdline").contains("the tide is in");
    let running: Vec<i32> = marked(rig.folder()).into_iter().filter(loops).collect();
    assert_eq!(running, [again], "and once");
}
