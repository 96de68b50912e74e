//! Logs, commands and ports of containers, through the agent's own connection.

use std::time::Instant;

use serde_json::json;

use crate::rig::{Docker, container, page_at, shell, sleeper};
use tombolo_testkit::docker::IMAGE;
use tombolo_testkit::eventually;
use tombolo_testkit::rig::{kill9, print_time, runs};

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_container_is_read_and_followed_over_restarts() {
    let Some(docker) = Docker::start("logs").await else { return };
    let rig = &docker.rig;
    let tombolo = &rig.tombolo;
    let script = "echo one; echo two >&2; echo run $(hostname); exec sleep 1000";
    docker.assign("web", shell(script), json!({"stopGrace": "1s"})).await;
    let first = rig.until_up("web").await;
    let name = |container: &str| container[..12].to_owned();
    let before = name(&container(&first));
    let whole = eventually("all is written", async || {
        let ran = tombolo.shell(&["logs", "shop/web"]).await;
        (ran.code == Some(0) && ran.stdout.contains("run ")).then_some(ran)
    })
    .await;
    // The engine keeps the order within a stream, and not between two.
    let mut lines: Vec<&str> = whole.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", &format!("run {before}"), "two"], "{whole:?}");
    let last = tombolo.shell(&["logs", "shop/web", "--tail", "1"]).await.ok();
    assert_eq!(last.lines().count(), 1, "{last}");
    let recent = tombolo.shell(&["logs", "shop/web", "--since", "1h"]).await.ok();
    assert_eq!(recent.lines().count(), 3, "{recent}");

    let mut following = tombolo.shell_running(&["logs", "-f", "shop/web"]);
    following.line_with(&format!("run {before}")).await;
    let fact = Instant::now();
    kill9(docker.pid(&container(&first)));
    let line = following.line_with("run ").await;
    print_time("a line of the next run", fact);
    assert_ne!(line, format!("run {before}"), "no line comes twice");
    let again = rig.until("it was restarted", "web", |found| {
        // While the next container is made there is none to name.
        found["status"]["restarts"] == 1 && found["status"]["instance"].is_string()
    });
    assert_eq!(line, format!("run {}", name(&container(&again.await))));
    let previous = tombolo.shell(&["logs", "shop/web", "--previous"]).await.ok();
    assert!(previous.contains(&before) && !previous.contains(&line), "{previous}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_a_container_and_ends_as_it_ends_there() {
    let Some(docker) = Docker::start("exec").await else { return };
    let rig = &docker.rig;
    docker
        .assign("web", sleeper(), json!({"run": {"container": {"env": {"COLOUR": "teal"}}}}))
        .await;
    rig.until_up("web").await;
    let exec = async |words: &[&str], input: &str| {
        let arguments = [&["exec", "-i", "shop/web", "--"], words].concat();
        rig.tombolo.shell_with(&arguments, input).await
    };
    let ran = exec(&["sh", "-c", "echo out; echo err >&2; exit 3"], "").await;
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(3), "out\n", "err\n"));
    let ran = exec(&["sh", "-c", "echo $COLOUR $TOMBOLO_COMPONENT"], "").await;
    assert_eq!(ran.ok(), "teal web\n");
    let long = "0123456789abcdef\n".repeat(50_000);
    let copied = exec(&["cat"], &long).await.ok();
    assert!(copied == long, "it is read while it is written: {} bytes", copied.len());
    assert_eq!(exec(&["sh", "-c", "kill -9 $$"], "").await.code, Some(128 + 9));
    let missing = exec(&["no-such-command"], "").await;
    assert_eq!(missing.code, Some(127), "{missing:?}");
    assert!(missing.stderr.contains("no-such-command"), "{missing:?}");

    let words = ["exec", "shop/web", "--", "sh", "-c", "echo begun; exec sleep 54321"];
    let mut running = rig.tombolo.shell_running(&words);
    running.line_with("begun").await;
    let inside = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut numbers = processes.filter_map(|one| one.file_name().to_str()?.parse().ok());
        let is = |number: &i32| {
            let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            line.starts_with(b"sleep\x0054321")
        };
        numbers.find(is)
    };
    // The shell has spoken before it becomes what it runs.
    let pid = eventually("the command runs", async || inside()).await;
    running.kill().await;
    eventually("the command ends with whoever ran it", async || (!runs(pid)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_container_is_reached_here_whether_it_is_exposed_or_not() {
    let Some(docker) = Docker::start("forward").await else { return };
    let rig = &docker.rig;
    let script = "mkdir /w; echo $NAME >/w/page; exec httpd -f -p 8080 -h /w";
    let web = json!({"image": IMAGE, "command": ["/bin/sh", "-c", script], "ports": [8080]});
    let grace = json!({"stopGrace": "1s"});
    let named = |name: &str| json!({"run": {"container": {"env": {"NAME": name}}}});
    let with = |name: &str, mut more: serde_json::Value| {
        tombolo_testkit::rig::merge(&mut more, named(name));
        tombolo_testkit::rig::merge(&mut more, grace.clone());
        more
    };
    docker.assign("hidden", web.clone(), with("hidden", json!({}))).await;
    docker.assign("open", web, with("open", json!({"expose": [{"port": 8080}]}))).await;
    for name in ["hidden", "open"] {
        let up = rig.until_up(name).await;
        let target = format!("shop/{name}");
        let mut forwarding = rig.tombolo.shell_running(&["port-forward", &target, ":8080", ":81"]);
        let port = |line: String| {
            let address = line.split_once(" -> ").unwrap().0.to_owned();
            address.rsplit_once(':').unwrap().1.parse::<u64>().unwrap()
        };
        let there = port(forwarding.line_with("port 8080").await);
        let nowhere = port(forwarding.line_with("port 81").await);
        eventually("it answers", async || (page_at(there).await? == name).then_some(())).await;
        assert_eq!(page_at(nowhere).await, None, "nobody listens on it");
        kill9(docker.pid(&container(&up)));
        rig.until("it was restarted", name, |found| found["status"]["restarts"] == 1).await;
        eventually("it answers again", async || (page_at(there).await? == name).then_some(()))
            .await;
        forwarding.interrupt();
        assert_eq!(forwarding.end().await, Some(0), "Ctrl-C is a good end");
    }
}
