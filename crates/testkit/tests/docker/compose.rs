//! A component in the words of compose, run for real: networks, volumes, environment, ports, limits,
//! checks of the engine's own, replicas, and the file that says where its peers are.

use std::time::Instant;

use serde_json::{Value, json};

use crate::rig::{Docker, page_at, shell};
use tombolo_testkit::docker::IMAGE;
use tombolo_testkit::eventually;
use tombolo_testkit::rig::{condition, kill9, merge, print_time};

/// `api` shows what it has read from the component `store`, whose address it finds in the file of its
/// peers; `db` is for `api` alone; `worker` runs twice.
fn app() -> Value {
    let store = "mkdir /w; echo rows >/w/page; exec httpd -f -p 80 -h /w";
    let api = r#"
        until at=$$(sed -n 's/.*"\(.*:[0-9]*\)".*/\1/p' "$$TOMBOLO_PEERS_FILE") &&
            wget -q -O /tmp/got "http://$$at/page"; do sleep 0.1; done
        echo "$$GREETING $$(cat /tmp/got)" >/data/page; echo serving; exec httpd -f -p 80 -h /data"#;
    let db = "mkdir /w; touch /w/well; echo ready; exec httpd -f -p 5432 -h /w";
    let service = |script: &str, more: Value| {
        let mut service = json!({"image": IMAGE, "entrypoint": ["/bin/sh", "-c"],
            "command": [script], "restart": "always", "stop_grace_period": "1s"});
        merge(&mut service, more);
        service
    };
    let stack = json!({
        "services": {
            "api": service(api, json!({
                "environment": {"GREETING": "hello"}, "volumes": ["data:/data"], "ports": ["80"],
                "networks": ["front", "back"],
                "deploy": {"resources": {"limits": {"memory": "32M", "cpus": "0.5"}}},
                "depends_on": {"db": {"condition": "service_healthy"}},
            })),
            "db": service(db, json!({
                "networks": {"back": {"aliases": ["sql"]}},
                "healthcheck": {"test": ["CMD", "test", "-e", "/w/well"], "interval": "200ms",
                    "retries": 2},
            })),
            "worker": service("exec sleep 1000", json!({
                "networks": ["front"], "deploy": {"replicas": 2},
            })),
        },
        "networks": {"front": {}, "back": {"internal": true}}, "volumes": {"data": {}},
    });
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "shop"},
        "spec": {"components": [
            {"name": "store", "run": [{"container": shell(store)}], "expose": [{"port": 80}],
                "stopGrace": "1s"},
            {"name": "stack", "run": [{"compose": stack}], "connects": [{"to": "store"}]},
        ]},
    })
}

impl Docker {
    /// The containers of a part of the component `stack`.
    fn parts(&self, part: &str) -> Vec<String> {
        let label = format!("label=tombolo.dev/part={part}");
        let said = self.engine.docker(&["ps", "-q", "--no-trunc", "--filter", &label]);
        said.lines().map(str::to_owned).collect()
    }

    /// Whether a part reaches an address, by its name there.
    async fn reaches(&self, part: &str, address: &str) -> bool {
        let words = ["exec", "shop/stack", "--part", part, "--", "wget", "-q", "-O", "-"];
        let words = [&words[..], &[address]].concat();
        self.rig.tombolo.shell(&words).await.code == Some(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compose_component_runs_as_it_is_written() {
    let Some(docker) = Docker::start("compose").await else { return };
    let rig = &docker.rig;
    docker.apply(&app()).await;
    let up = rig.until_up("stack").await;
    let ports = up["status"]["ports"].as_array().unwrap();
    let port = ports.iter().find_map(|port| port["published"].as_u64()).unwrap();
    eventually("it shows what its peer says", async || {
        (page_at(port).await? == "hello rows").then_some(())
    })
    .await;

    let api = docker.parts("api");
    let [api] = api.as_slice() else { panic!("{api:?}") };
    let format =
        "{{.HostConfig.Memory}} {{.HostConfig.CpuQuota}} {{range .Mounts}}{{.Source}} {{end}}";
    let said = docker.engine.docker(&["inspect", "-f", format, api]);
    assert!(said.starts_with("33554432 50000 "), "{said}");
    assert!(said.contains(".shop.data/"), "{said}");
    let workers = [docker.parts("worker-1"), docker.parts("worker-2")].concat();
    assert_eq!(workers.len(), 2);

    assert!(docker.reaches("api", "http://sql:5432/well").await, "by its other name");
    assert!(!docker.reaches("worker-1", "http://db:5432/well").await, "on another network");
    assert!(docker.reaches("worker-1", "http://store/page").await, "a component of the same App");
    assert!(!docker.reaches("db", "http://store/page").await, "its network leads nowhere else");

    let logs = async |words: &[&str]| {
        let words = [&["logs", "shop/stack"], words].concat();
        rig.tombolo.shell(&words).await.ok()
    };
    let all = logs(&[]).await;
    assert!(all.contains("api: serving\n") && all.contains("db: ready\n"), "{all}");
    assert_eq!(logs(&["--part", "db"]).await, "ready\n");

    let fact = Instant::now();
    let ill = ["exec", "shop/stack", "--part", "db", "--", "mv", "/w/well", "/w/ill"];
    rig.tombolo.shell(&ill).await.ok();
    rig.until("the engine's check is told", "stack", |found| {
        let applied = condition(found, "Applied")["message"].to_string();
        applied.contains("db is not well by its own check")
    })
    .await;
    print_time("a check of the engine's own fails twice (every 200 ms)", fact);

    let fact = Instant::now();
    kill9(docker.pid(&workers[0]));
    let again = rig.until("it was restarted", "stack", |found| {
        found["status"]["restarts"] == 1 && condition(found, "Available")["status"] == "True"
    });
    let again = again.await;
    print_time("a part of a project is killed: it is up again", fact);
    let reason = again["status"]["lastExit"]["reason"].to_string();
    assert!(reason.contains("signal 9"), "{reason}");
    let now = [docker.parts("worker-1"), docker.parts("worker-2")].concat();
    assert!(now.len() == 2 && !now.contains(&workers[0]), "{now:?}");
    assert!(now.contains(&workers[1]) && docker.parts("api") == [api.clone()], "the rest went on");
}
