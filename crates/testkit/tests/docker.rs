//! Containers on a real Docker engine, with the real server and a real agent: deployed, called,
//! updated, rolled back, killed, adopted, and what is said when something does not work.
//!
//! Every fact is printed with the time until it was told; the goal is 2 s. No time is asserted: a busy
//! machine is not a failure.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "docker/alone.rs"]
mod alone;
#[path = "docker/compose.rs"]
mod compose;
#[path = "docker/escape.rs"]
mod escape;
#[path = "docker/inside.rs"]
mod inside;
#[path = "docker/pull.rs"]
mod pull;
#[path = "docker/rig.rs"]
mod rig;

use std::net::TcpListener;
use std::time::Instant;

use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use tombolo_model::App;

use rig::{Docker, container, page, shell, sleeper};
use tombolo_testkit::docker::IMAGE;
use tombolo_testkit::eventually;
use tombolo_testkit::rig::{NODE, condition, kill9, merge, print_time, runs};

/// A shop of two components: the store says in which container it is, and the front shows what it
/// has read there a moment ago, at the address that the file of its peers says now.
fn shop(version: &str) -> Value {
    let store = "mkdir /w; hostname >/w/page; exec httpd -f -p 80 -h /w";
    let front = r#"mkdir /w; httpd -p 8080 -h /w
        while true; do
            at=$(sed -n 's/.*"\(.*:[0-9]*\)".*/\1/p' "$TOMBOLO_PEERS_FILE")
            wget -q -O /w/got "http://$at/page" && echo "$VERSION $(cat /w/got)" >/w/new \
                && mv /w/new /w/page
            sleep 0.05
        done"#;
    let front = match version {
        "broken" => "echo no config; exit 7",
        _ => front,
    };
    let mut run = shell(front);
    merge(&mut run, json!({"env": {"VERSION": version}}));
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "shop"},
        "spec": {"components": [
            {"name": "store", "run": [{"container": shell(store)}], "expose": [{"port": 80}],
                "stopGrace": "1s"},
            {"name": "front", "run": [{"container": run}], "connects": [{"to": "store"}],
                "expose": [{"port": 8080, "public": true}],
                "health": {"http": {"path": "/page", "port": 8080}, "interval": "200ms",
                    "failures": 20, "startup": "60s"},
                "stopGrace": "1s"},
        ]},
    })
}

/// What the front shows: its version, and the container of the store that it has asked.
async fn until_shown(what: &str, front: &Value, version: &str, store: &Value) {
    // A container's own name is the beginning of its id.
    let wanted = format!("{version} {}", &container(store)[..12]);
    eventually(what, async || (page(front).await? == wanted).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_containers_runs_is_updated_and_rolled_back() {
    let Some(docker) = Docker::start("app").await else { return };
    let rig = &docker.rig;
    docker.apply(&shop("v1")).await;
    let store = rig.until_up("store").await;
    let first = rig.until_up("front").await;
    assert_eq!(first["spec"]["engine"], "docker");
    until_shown("the front shows what the store says", &first, "v1", &store).await;

    docker.apply(&shop("v2")).await;
    let second = rig
        .until("the new one serves", "front", |found| {
            condition(found, "Available")["reason"] == "Running"
                && found["status"]["instance"] != first["status"]["instance"]
        })
        .await;
    until_shown("the new front does", &second, "v2", &store).await;
    eventually("the old one is gone", async || {
        let all = docker.engine.docker(&["ps", "-aq", "--no-trunc"]);
        (!all.contains(&container(&first))).then_some(())
    })
    .await;
    assert_eq!(container(&rig.get("store").await), container(&store), "it was left alone");

    docker.apply(&shop("broken")).await;
    let back = rig
        .until("it went back", "front", |found| {
            condition(found, "Degraded")["reason"] == "RolledBack"
                && condition(found, "Available")["status"] == "True"
        })
        .await;
    assert_eq!(container(&back), container(&second), "the good one never stopped");
    let message = condition(&back, "Degraded")["message"].to_string();
    assert!(message.contains("code 7") && message.contains("no config"), "{message}");
    assert!(rig.until_event("front", "RolledBack").await.contains("code 7"));
    docker.apply(&shop("v2")).await;
    rig.until_up("front").await;

    let apps: Api<App> = Api::namespaced(rig.client.clone(), "default");
    apps.delete("shop", &DeleteParams::default()).await.unwrap();
    eventually("what was deleted is gone", async || {
        let networks = docker.engine.docker(&["network", "ls", "--format", "{{.Name}}"]);
        (docker.engine.docker(&["ps", "-aq"]).is_empty() && !networks.contains("tombolo"))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_the_app_goes_on() {
    let Some(mut docker) = Docker::start("killed").await else { return };
    docker.apply(&shop("v1")).await;
    let store = docker.rig.until_up("store").await;
    let front = docker.rig.until_up("front").await;
    let serving = docker.pid(&container(&front));

    // The program itself: it comes again in another container, at another port, and the front hears
    // of it without being restarted.
    let fact = Instant::now();
    kill9(docker.pid(&container(&store)));
    let again = docker
        .rig
        .until("it was restarted", "store", |found| {
            found["status"]["restarts"] == 1 && condition(found, "Available")["status"] == "True"
        })
        .await;
    print_time("a container's process is killed: it is up again", fact);
    assert_eq!(again["status"]["lastExit"]["signal"], 9);
    assert!(docker.rig.until_event("store", "Restarted").await.contains("signal 9"));
    until_shown("the front has heard of it", &front, "v1", &again).await;
    print_time("a container's process is killed: its peer has found the next one", fact);
    assert_eq!(docker.pid(&container(&front)), serving);

    docker.rig.kill9_agent();
    until_shown("it needs no agent", &front, "v1", &again).await;
    docker.rig.start_agent(&[]);
    docker.assign("later", sleeper(), json!({"app": "other"})).await;
    docker.rig.until_up("later").await;
    let known = [("front", &front), ("store", &again)];
    for (name, before) in known {
        let after = docker.rig.until_up(name).await;
        assert_eq!(container(&after), container(before), "{name} was found again");
        assert_eq!(after["status"]["restarts"], before["status"]["restarts"], "and left alone");
    }
    assert_eq!(docker.pid(&container(&front)), serving, "the same process");

    // Without the controller nothing stops, and what ends is started again.
    docker.rig.tombolo.kill9();
    until_shown("it needs no controller", &front, "v1", &again).await;
    kill9(docker.pid(&container(&again)));
    let before = container(&again);
    let now = eventually("it is started again while the controller is away", async || {
        let label = "label=tombolo.dev/component=store";
        let running = docker.engine.docker(&["ps", "-q", "--no-trunc", "--filter", label]);
        running.lines().find(|id| *id != before).map(str::to_owned)
    })
    .await;
    let moved = json!({"status": {"instance": now}});
    until_shown("the front has heard of it from the agent", &front, "v1", &moved).await;
    docker.rig.tombolo.restart().await;
    let told = docker
        .rig
        .until("the server hears of the restart", "store", |found| {
            found["status"]["restarts"] == 2 && condition(found, "Available")["status"] == "True"
        })
        .await;
    assert_eq!(container(&told), now, "once is enough");
    docker.assign("last", sleeper(), json!({"app": "other"})).await;
    docker.rig.until_up("last").await;
    assert!(runs(serving) && docker.pid(&container(&front)) == serving, "nothing was restarted");
    assert_eq!(docker.rig.get("front").await["status"]["restarts"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_why() {
    let Some(docker) = Docker::start("why").await else { return };
    let rig = &docker.rig;
    docker.assign("well", sleeper(), json!({})).await;
    rig.until_up("well").await;

    let fact = Instant::now();
    docker.assign("absent", json!({"image": "127.0.0.1:1/absent:1"}), json!({})).await;
    let message = rig.until_degraded("absent", "ImageOutOfReach", fact).await;
    assert!(message.contains("127.0.0.1:1/absent:1"), "{message}");
    assert!(message.contains("load 127.0.0.1:1/absent:1 on the node by hand"), "{message}");

    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let fact = Instant::now();
    let taken = json!({"expose": [{"port": 80, "published": port}]});
    docker.assign("taken", sleeper(), taken).await;
    let message = rig.until_degraded("taken", "PortTaken", fact).await;
    assert!(message.contains(&format!("port {port} of the node is taken")), "{message}");
    assert!(message.contains(&format!("End what listens on port {port}")), "{message}");

    let fact = Instant::now();
    let nothing = json!({"image": IMAGE, "command": ["no-such-program"]});
    docker.assign("nothing", nothing, json!({})).await;
    let message = rig.until_degraded("nothing", "CommandNotInImage", fact).await;
    assert!(message.contains("\"no-such-program\" was not found"), "{message}");

    let fact = Instant::now();
    let script = "echo the disk is on fire; exit 3";
    docker.assign("crasher", shell(script), json!({})).await;
    let ended =
        rig.until("its end", "crasher", |found| found["status"]["lastExit"]["code"] == 3).await;
    print_time("a container ends with code 3", fact);
    assert_eq!(ended["status"]["lastExit"]["log"][0], "the disk is on fire");
    let message = rig.until_degraded("crasher", "CrashLoop", fact).await;
    assert!(message.contains("code 3") && message.contains("the disk is on fire"), "{message}");

    let fact = Instant::now();
    let greedy = json!({"resources": {"memory": "16Mi"}});
    docker.assign("greedy", shell("tail /dev/zero"), greedy).await;
    let message = rig.until_degraded("greedy", "CrashLoop", fact).await;
    assert!(message.contains("it needed more memory than its 16 MiB"), "{message}");

    drop(listener);
    rig.until_up("taken").await;
    let well = rig.until_up("well").await;
    assert_eq!(well["status"]["restarts"], 0, "the others are no concern of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_goes_takes_nothing_with_it() {
    let Some(mut docker) = Docker::start("gone").await else { return };
    docker.assign("well", sleeper(), json!({})).await;
    let before = docker.rig.until_up("well").await;
    let serving = docker.pid(&container(&before));
    eventually("the node says what it can run", async || {
        let node = docker.rig.tombolo.shell(&["get", "node", NODE, "-o", "json"]).await.json();
        let engines = node["status"]["characteristics"]["engines"].as_array()?.clone();
        let docker = engines.into_iter().find(|engine| engine["name"] == "docker")?;
        docker["version"].as_str().map(str::to_owned)
    })
    .await;

    docker.engine.goes();
    let fact = Instant::now();
    let message = docker.rig.until_degraded("well", "EngineUnreachable", fact).await;
    let socket = docker.engine.socket().display().to_string();
    assert!(message.contains(&socket) && message.contains("Start the docker engine"), "{message}");
    assert!(runs(serving), "it needs no engine");
    let fact = Instant::now();
    docker.assign("late", sleeper(), json!({})).await;
    docker.rig.until_degraded("late", "EngineUnreachable", fact).await;
    // An agent that starts without its engine waits for it.
    docker.rig.kill9_agent();
    docker.rig.start_agent(&[]);

    docker.engine.comes_back();
    let fact = Instant::now();
    let after = docker.rig.until_up("well").await;
    print_time("the engine is back", fact);
    docker.rig.until_up("late").await;
    print_time("the engine is back: what was assigned meanwhile is up", fact);
    assert_eq!(container(&after), container(&before), "nothing was restarted");
    assert_eq!(docker.pid(&container(&after)), serving);
    assert_eq!(after["status"]["restarts"], 0);

    docker.rig.change("well", json!({"stopped": true})).await;
    docker
        .rig
        .until("it was stopped", "well", |found| {
            condition(found, "Available")["reason"] == "Stopped"
                && found["status"].get("instance").is_none()
        })
        .await;
    assert!(!runs(serving));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hangs_is_told_and_holds_up_nobody_else() {
    let Some(docker) = Docker::start("hangs").await else { return };
    docker.assign("boxed", sleeper(), json!({})).await;
    let free = json!({"engine": "host", "run": {"process": {"command": ["sleep", "3600"]}}});
    docker.rig.assign("free", free).await;
    let before = docker.rig.until_up("boxed").await;
    let process = docker.rig.until_up("free").await;

    docker.engine.freezes();
    let fact = Instant::now();
    // Nothing happens that the agent would have to look at: the next look finds it.
    docker
        .rig
        .assign(
            "late",
            json!({"engine": "host", "stopped": true,
        "run": {"process": {"command": ["sleep", "3600"]}}}),
        )
        .await;
    let message = docker.rig.until_degraded("boxed", "TimedOut", fact).await;
    assert!(message.contains("listing took longer than 5s"), "{message}");
    let fact = Instant::now();
    kill9(container(&process).parse().unwrap());
    docker
        .rig
        .until("it was restarted", "free", |found| {
            found["status"]["restarts"] == 1 && condition(found, "Available")["status"] == "True"
        })
        .await;
    print_time("a process is killed while the Docker engine hangs", fact);

    docker.engine.thaws();
    let after = docker.rig.until_up("boxed").await;
    print_time("the engine answers again", fact);
    assert_eq!(container(&after), container(&before));
    assert_eq!(after["status"]["restarts"], 0);
    docker.rig.change("free", json!({"stopped": true})).await;
    docker
        .rig
        .until("it was stopped", "free", |found| {
            condition(found, "Available")["reason"] == "Stopped"
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstall_leaves_no_container_no_network_and_no_volume() {
    let Some(docker) = Docker::start("uninstall").await else { return };
    let keeps = json!({"volumes": [{"path": "/data", "name": "data"}]});
    let mut run =
        shell("echo rows >/data/rows; trap 'exit 0' TERM; while true; do sleep 0.1; done");
    merge(&mut run, keeps);
    docker.assign("store", run, json!({})).await;
    docker.rig.until_up("store").await;
    let left = || {
        let all = [&["ps", "-aq"][..], &["volume", "ls", "-q"], &["network", "ls", "-q"]];
        all.map(|words| docker.engine.docker(words).lines().count())
    };
    let [containers, volumes, networks] = left();
    assert_eq!((containers, volumes), (1, 1));

    let root = docker.rig.root();
    let (units, data) = (root.display().to_string(), root.join("agent").display().to_string());
    let words = ["agent", "uninstall", "--units", &units, "--data", &data, "--yes"];
    let said = docker.rig.tombolo.shell(&words).await;
    assert!(said.stderr.contains("1 workload and 1 volume"), "{said:?}");
    said.ok();
    assert_eq!(left(), [0, 0, networks - 1]);
    assert!(!root.join("agent").exists());
}

/// A compose file as people bring it: one service runs to its end before another starts, both on one
/// volume, with a folder of settings beside the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_compose_file_with_a_service_that_ends_comes_up() {
    let Some(docker) = Docker::start("once").await else {
        return;
    };
    let tombolo = &docker.rig.tombolo;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("conf")).unwrap();
    std::fs::write(folder.path().join("conf/greeting"), "good day\n").unwrap();
    let compose = format!(
        "name: shop
services:
  init:
    image: {IMAGE}
    command: [sh, -c, 'sleep 1; cp /conf/greeting /data/mark']
    volumes: ['data:/data', './conf:/conf:ro']
  web:
    image: {IMAGE}
    command: [sh, -c, 'cat /data/mark && exec sleep 3600']
    restart: always
    volumes: ['data:/data']
    depends_on: {{init: {{condition: service_completed_successfully}}}}
volumes: {{data: {{}}}}
"
    );
    let file = folder.path().join("compose.yaml");
    std::fs::write(&file, compose).unwrap();
    tombolo.shell(&["apply", "-f", file.to_str().unwrap()]).await.ok();
    tombolo.shell(&["rollout", "status", "shop", "--timeout", "80s"]).await.ok();
    let logs = tombolo.shell(&["logs", "shop/web"]).await.ok();
    assert!(logs.contains("good day"), "{logs}");
}
