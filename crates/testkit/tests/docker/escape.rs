//! Projects that ask for the machine: none of them runs, on a real engine, whoever writes it down; and whose App it is
//! is told by what name the site would have to allow it.

use std::time::Instant;

use kube::api::Api;
use serde_json::{Value, json};
use tombolo_model::App;

use crate::rig::Docker;
use tombolo_testkit::docker::IMAGE;
use tombolo_testkit::eventually;
use tombolo_testkit::rig::merge;

/// A name for the App, what its service says beside its image, and the first name that is missing.
fn attempts() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("all-rights", json!({"privileged": true}), "privileged"),
        ("the-engine", json!({"volumes": ["/var/run/docker.sock:/s"]}), "engine-socket"),
        ("the-run-folder", json!({"volumes": ["/run:/r:ro"]}), "engine-socket"),
        ("the-root", json!({"volumes": ["/:/host"]}), "engine-socket"),
        ("a-way-up", json!({"volumes": ["/srv/../run:/r"]}), "engine-socket"),
        ("a-folder", json!({"volumes": ["/srv:/srv:ro"]}), "host-path"),
        (
            "a-folder-in-full",
            json!({"volumes": [{"type": "bind", "source": "/etc", "target": "/e"}]}),
            "host-path",
        ),
        ("processes", json!({"pid": "host"}), "host-namespaces"),
        ("shared-memory", json!({"ipc": "host"}), "host-namespaces"),
        ("the-name", json!({"uts": "host"}), "host-namespaces"),
        ("users", json!({"userns_mode": "host"}), "host-namespaces"),
        ("groups", json!({"cgroup": "host"}), "host-namespaces"),
        ("network", json!({"network_mode": "host"}), "host-network"),
        ("a-device", json!({"devices": ["/dev/mem:/dev/mem"]}), "devices"),
        ("device-rules", json!({"device_cgroup_rules": ["a *:* rwm"]}), "devices"),
        ("capabilities", json!({"cap_add": ["SYS_ADMIN"]}), "capabilities"),
        ("no-filter", json!({"security_opt": ["seccomp=unconfined"]}), "unconfined-container"),
        ("no-profile", json!({"security_opt": ["apparmor=unconfined"]}), "unconfined-container"),
        ("setuid", json!({"security_opt": ["no-new-privileges:false"]}), "unconfined-container"),
        ("a-parent", json!({"cgroup_parent": "/system"}), "unconfined-container"),
        ("no-bound", json!({"pids_limit": -1}), "unconfined-container"),
        ("last-to-die", json!({"oom_score_adj": -1000}), "unconfined-container"),
        ("a-runtime", json!({"runtime": "other"}), "unconfined-container"),
    ]
}

fn project(more: &Value) -> Value {
    let mut service = json!({"image": IMAGE, "command": ["sleep", "1000"]});
    merge(&mut service, more.clone());
    json!({"services": {"a": service}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_asks_for_the_machine_is_refused_by_name() {
    let Some(docker) = Docker::start("escape").await else { return };
    let rig = &docker.rig;
    let apps: Api<App> = Api::namespaced(rig.client.clone(), "default");
    for (name, more, privilege) in attempts() {
        docker
            .apply(&json!({
                "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": name},
                "spec": {"components": [{"name": "a", "run": [{"compose": project(&more)}]}]},
            }))
            .await;
        let what = format!("{name} is told to have no place");
        let told = eventually(&what, async || {
            let app = serde_json::to_value(apps.get(name).await.ok()?).ok()?;
            let unplaced = &app["status"]["unplaced"][0];
            (app["status"]["phase"] == "Unplaceable").then(|| unplaced.to_string())
        })
        .await;
        assert!(told.contains("spec.allow of site") && told.contains(privilege), "{name}: {told}");
        let shown = rig.tombolo.shell(&["get", "app", name, "-o", "yaml"]).await.ok();
        assert!(shown.contains(privilege), "{name}: {shown}");
        let why = rig.tombolo.shell(&["why", name]).await;
        assert!(why.stdout.contains(privilege), "{name}: {why:?}");
    }
    // Whoever writes Assignments by hand gets no further: the agent's own driver refuses them.
    for (name, more, privilege) in attempts() {
        let name = format!("by-hand-{name}");
        let fact = Instant::now();
        let run = json!({"engine": "docker", "run": {"compose": project(&more)}});
        rig.assign_bare(&name, run).await;
        let told = rig.until_degraded(&name, "NotAllowed", fact).await;
        let first = match privilege {
            // Both are missing, and the first is told.
            "engine-socket" => "host-path",
            other => other,
        };
        assert!(told.contains(first) || told.contains(privilege), "{name}: {told}");
    }
    let containers = docker.engine.docker(&["ps", "-aq"]);
    assert!(containers.trim().is_empty(), "nothing of it was even made: {containers}");
}
