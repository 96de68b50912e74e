//! Logs, commands and ports of what runs on other machines, through agents that have no open port: the
//! real server, real agents, real processes and our own shell.

use std::fs::File;
use std::process::{Command, Stdio};

use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use tombolo_testkit::rig::{kill9, pid, runs};
use tombolo_testkit::{Rig, Running, Terminal, binary, eventually};

const LOG: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/assignments";
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const UNREACHABLE: i32 = 6;

/// Instance `replica` of a component of App `shop`, named `COMPONENT-REPLICA`.
async fn assign(rig: &Rig, component: &str, replica: u32, process: Value) {
    let spec = json!({"component": component, "replica": replica, "run": {"process": process}});
    rig.assign(&format!("{component}-{replica}"), spec).await;
}

/// The log, once it has so many lines.
async fn until_lines(rig: &Rig, what: &str, count: usize) -> String {
    eventually(&format!("{what} has written {count} lines"), async || {
        let ran = rig.tombolo.shell(&["logs", what]).await;
        (ran.code == Some(0) && ran.stdout.lines().count() >= count).then_some(ran.stdout)
    })
    .await
}

fn script(text: &str) -> Value {
    json!({"command": ["sh", "-c", text]})
}

#[tokio::test]
async fn logs_of_an_instance_are_read_whole_or_in_part_and_merged() {
    let rig = Rig::start().await;
    let lines = "for word in one two three; do echo $word; sleep 0.02; done; exec sleep 3600";
    assign(&rig, "web", 0, script(lines)).await;
    assert_eq!(until_lines(&rig, "shop/web", 3).await, "one\ntwo\nthree\n");
    let shell = async |arguments: &[&str]| rig.tombolo.shell(arguments).await;
    assert_eq!(shell(&["logs", "shop", "--tail", "1"]).await.ok(), "three\n");
    assert_eq!(shell(&["logs", "shop/web/0", "--since", "1h"]).await.ok(), "one\ntwo\nthree\n");

    // Plain HTTP, for whoever has only curl; a time that was shown can be gone on from.
    let client = rig.tombolo.client().await;
    let read = async |query: &str| {
        let request = http::Request::get(format!("{LOG}/web-0/log?{query}")).body(Vec::new());
        client.request_text(request.unwrap()).await.unwrap()
    };
    let stamped = read("timestamps=true&tailLines=2").await;
    let (two, rest) = stamped.split_once(" two\n").unwrap();
    assert!(rest.ends_with(" three\n"), "{stamped}");
    assert_eq!(read(&format!("sinceTime={two}")).await, "two\nthree\n");
    assert_eq!(read("sinceTime=2100-01-01T00:00:00Z").await, "");

    assign(&rig, "store", 0, script("echo stored; exec sleep 3600")).await;
    assign(&rig, "web", 1, script("echo again; exec sleep 3600")).await;
    let merged = until_lines(&rig, "shop", 5).await;
    let expected = "web-0   | one\nweb-0   | two\nweb-0   | three\n";
    assert!(merged.starts_with(expected), "{merged}");
    assert!(merged.contains("store-0 | stored\n") && merged.contains("web-1   | again\n"));
    assert_eq!(shell(&["logs", "shop/web/1"]).await.ok(), "again\n");

    let missing = shell(&["logs", "shop/wab"]).await;
    assert_eq!(missing.code, Some(NOT_FOUND));
    assert!(missing.stderr.contains("no component \"wab\""), "{}", missing.stderr);
    assert!(missing.stderr.contains("it has store, web"), "{}", missing.stderr);
    assert_eq!(shell(&["logs", "shop/web/7"]).await.code, Some(NOT_FOUND));
    assert_eq!(shell(&["logs", "nothing"]).await.code, Some(NOT_FOUND));
    assert_eq!(shell(&["logs", "shop/web/x"]).await.code, Some(USAGE));
}

#[tokio::test]
async fn following_survives_the_end_of_the_instance_of_the_agent_and_of_the_server() {
    let mut rig = Rig::start().await;
    assign(&rig, "web", 0, script("echo run $$$$; exec sleep 3600")).await;
    let first = pid(&rig.until_up("web-0").await);
    let mut following = rig.tombolo.shell_running(&["logs", "-f", "shop/web"]);
    following.line_with(&format!("run {first}")).await;
    kill9(first);
    let next = async |rig: &Rig, before: i32, following: &mut Running| {
        let line = following.line_with("run ").await;
        let pid: i32 = line.strip_prefix("run ").unwrap().parse().unwrap();
        assert_ne!(pid, before, "no line comes twice");
        rig.until("it is told", "web-0", |found| {
            found["status"]["instance"] == pid.to_string().as_str()
        })
        .await;
        pid
    };
    let second = next(&rig, first, &mut following).await;
    let before = rig.tombolo.shell(&["logs", "shop/web", "--previous"]).await.ok();
    assert_eq!(before, format!("run {first}\n"));

    rig.kill9_agent();
    let gone = rig.tombolo.shell(&["logs", "shop/web"]).await;
    assert_eq!(gone.code, Some(UNREACHABLE), "{gone:?}");
    assert!(gone.stderr.contains("the agent of node \"crane\" is not connected"), "{gone:?}");
    assert!(gone.stderr.contains("it was last heard"), "{gone:?}");
    rig.start_agent(&[]);
    kill9(second);
    let third = next(&rig, second, &mut following).await;

    rig.tombolo.kill9();
    rig.tombolo.restart().await;
    kill9(third);
    next(&rig, third, &mut following).await;
}

#[tokio::test]
async fn what_does_not_run_shows_how_its_last_run_ended() {
    let rig = Rig::start().await;
    assign(&rig, "nothing", 0, json!({"command": ["no-such-program"]})).await;
    rig.until("it is told", "nothing-0", |found| {
        found["status"]["conditions"].to_string().contains("CommandNotFound")
    })
    .await;
    let ran = rig.tombolo.shell(&["logs", "shop/nothing"]).await;
    assert!(ran.stderr.contains("no-such-program"), "{ran:?}");
    let ran = rig.tombolo.shell(&["exec", "shop/nothing", "--", "true"]).await;
    assert_ne!(ran.code, Some(0), "{ran:?}");

    assign(&rig, "crasher", 0, script("echo the disk is on fire; exit 3")).await;
    rig.until("it crashes", "crasher-0", |found| found["status"]["lastExit"]["code"] == 3).await;
    let log = until_lines(&rig, "shop/crasher", 1).await;
    assert!(log.starts_with("the disk is on fire\n"), "{log}");
}

#[tokio::test]
async fn a_command_runs_inside_and_ends_as_it_ends_there() {
    let rig = Rig::start().await;
    assign(&rig, "web", 0, json!({"command": ["sleep", "3600"]})).await;
    rig.until_up("web-0").await;
    let exec = async |words: &[&str], input: &str| {
        let arguments = [&["exec", "-i", "shop/web", "--"], words].concat();
        rig.tombolo.shell_with(&arguments, input).await
    };
    let ran = exec(&["sh", "-c", "echo out; echo err >&2; exit 3"], "").await;
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(3), "out\n", "err\n"));
    assert_eq!(exec(&["printenv", "TOMBOLO_COMPONENT"], "").await.ok(), "web\n");
    let long = "0123456789abcdef\n".repeat(100_000);
    assert_eq!(exec(&["cat"], &long).await.ok(), long, "it is read while it is written");
    let deaf = exec(&["sh", "-c", "exit 3"], &long).await;
    assert_eq!(deaf.code, Some(3), "input that nobody takes does not hide how it ended: {deaf:?}");
    assert_eq!(exec(&["sh", "-c", "kill -9 $$"], "").await.code, Some(128 + 9));
    let missing = exec(&["no-such-command"], "").await;
    assert_eq!(missing.code, Some(127), "{missing:?}");
    assert!(missing.stderr.contains("no-such-command"), "{missing:?}");
    let silent = rig.tombolo.shell_with(&["exec", "shop/web", "--", "cat"], "unheard").await;
    assert_eq!(silent.ok(), "", "without -i there is no input");

    let mut running = rig.tombolo.shell_running(&[
        "exec",
        "shop/web",
        "--",
        "sh",
        "-c",
        "echo at $$; sleep 3601",
    ]);
    let line = running.line_with("at ").await;
    let inside: i32 = line.strip_prefix("at ").unwrap().parse().unwrap();
    assert!(runs(inside));
    running.kill().await;
    eventually("the command ends with whoever ran it", async || (!runs(inside)).then_some(()))
        .await;

    let audit = rig.tombolo.shell(&["audit"]).await.ok();
    let row = audit.lines().find(|line| line.contains("no-such-command")).unwrap();
    let row: Value = serde_json::from_str(row).unwrap();
    assert_eq!((&row["verb"], &row["role"]), (&json!("exec"), &json!("admin")));
    assert!(rig.tombolo.shell(&["events"]).await.ok().contains("runs a command in it: cat"));

    assign(&rig, "web", 1, json!({"command": ["sleep", "3600"]})).await;
    rig.until_up("web-1").await;
    // Copies of one program: any will do, and it is said which.
    let several = exec(&["true"], "").await;
    assert_eq!(several.code, Some(0));
    assert!(several.stderr.contains("shop/web has 2 instances; this is shop/web/"), "{several:?}");
    let chosen = ["exec", "shop/web/1", "--", "printenv", "TOMBOLO_REPLICA"];
    assert_eq!(rig.tombolo.shell(&chosen).await.ok(), "1\n");
}

#[tokio::test]
async fn a_command_has_a_terminal_that_is_as_large_as_the_one_in_front_of_it() {
    let rig = Rig::start().await;
    assign(&rig, "web", 0, json!({"command": ["sleep", "3600"]})).await;
    rig.until_up("web-0").await;
    let terminal = Terminal::open(101, 31);
    assert!(terminal.is_for_people());
    let script = "tty -s && stty size; while read line; do \
        case $line in size) stty size;; end) exit 7;; esac; done";
    let arguments = ["exec", "-it", "shop/web", "--", "sh", "-c", script];
    let mut shell = rig.tombolo.shell_at(&terminal, &arguments);
    terminal.until("31 101").await;
    assert!(!terminal.is_for_people(), "every key goes to the other side");
    for (columns, rows) in [(132, 50), (90, 20)] {
        terminal.resize(columns, rows);
        eventually("the other side knows the size", async || {
            terminal.types("size\r");
            terminal.text().contains(&format!("{rows} {columns}")).then_some(())
        })
        .await;
    }
    terminal.types("end\r");
    let ended = eventually("it ends", async || shell.try_wait().unwrap()).await;
    assert_eq!(ended.code(), Some(7), "{}", terminal.text());
    assert!(terminal.is_for_people(), "it is left as it was found");

    // Ctrl-C is a key like any other, and ends what runs on the other side.
    let terminal = Terminal::open(80, 24);
    let arguments = ["exec", "-it", "shop/web", "--", "sh", "-c", "echo ready; exec sleep 3601"];
    let mut shell = rig.tombolo.shell_at(&terminal, &arguments);
    terminal.until("ready").await;
    terminal.types("\x03");
    let ended = eventually("it ends", async || shell.try_wait().unwrap()).await;
    assert_eq!(ended.code(), Some(128 + 2), "{}", terminal.text());
}

/// One request, as plain as it gets.
async fn http_get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    (!answer.is_empty()).then_some(answer)
}

#[tokio::test]
async fn a_port_of_an_instance_is_reached_here_also_after_a_restart() {
    let rig = Rig::start().await;
    // Another server of ours is a web server like any other.
    let data = "$(TOMBOLO_DIR)/inner";
    let program = binary::path().display().to_string();
    let command = [&program, "up", "--no-agent", "--listen", "127.0.0.1:$(PORT)", "--data", data];
    assign(&rig, "web", 0, json!({"command": command, "ports": [8080]})).await;
    let first = pid(&rig.until_up("web-0").await);
    let mut forwarding = rig.tombolo.shell_running(&["port-forward", "shop/web", ":8080", ":81"]);
    let line = forwarding.line_with("port 8080").await;
    let address = line.split_once(" -> shop/web/0").unwrap().0.to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let other = forwarding.line_with("port 81").await;
    let other = other.split_once(" -> ").unwrap().0.to_owned();

    let answers = async || {
        let answer = http_get(&address, "/livez").await?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    };
    let answer = eventually("it answers", answers).await;
    assert!(answer.ends_with("ok"), "{answer}");
    let many = (0..20).map(|_| http_get(&address, "/version"));
    let many = futures::future::join_all(many).await;
    assert!(many.iter().flatten().filter(|answer| answer.contains("gitVersion")).count() == 20);
    assert_eq!(http_get(&other, "/livez").await, None, "it has no such port");

    kill9(first);
    rig.until("it was restarted", "web-0", |found| found["status"]["restarts"] == 1).await;
    eventually("it answers again", answers).await;
    forwarding.interrupt();
    assert_eq!(forwarding.end().await, Some(0), "Ctrl-C is a good end");
    assert!(TcpStream::connect(&address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_viewer_reads_logs_and_goes_nowhere_else() {
    let rig = Rig::start().await;
    assign(&rig, "web", 0, script("echo hello; exec sleep 3600")).await;
    until_lines(&rig, "shop/web", 1).await;
    let create = ["token", "create", "--role", "guest", "--token-only", "viewer"];
    let token = rig.tombolo.shell(&create).await.ok();
    let mut config = Config::new(format!("http://{}", rig.tombolo.address()).parse().unwrap());
    let token = token.split_whitespace().last().unwrap().to_owned();
    config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
    let viewer = Client::try_from(config).unwrap();
    let get = async |path: &str| {
        let request = http::Request::get(format!("{LOG}/web-0/{path}")).body(Vec::new()).unwrap();
        viewer.request_text(request).await
    };
    assert_eq!(get("log").await.unwrap(), "hello\n");
    for path in ["exec?command=id", "portforward?port=80"] {
        match get(path).await {
            Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_logs_of_a_deployment_are_read_as_icos_does() {
    let rig = Rig::start().await;
    let app = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
    "metadata": {"name": "tide", "namespace": "default"}, "spec": {"components": [
        {"name": "gauge", "replicas": 2, "run": [{"process": {
            "command": ["sh", "-c", "echo low water; echo high water; exec sleep 3600"]}}]},
        {"name": "bell", "run": [{"process": {
            "command": ["sh", "-c", "echo ding; exec sleep 3600"]}}]},
    ]}});
    rig.tombolo.shell_with(&["apply", "-f", "-"], &app.to_string()).await.ok();
    rig.tombolo.shell(&["wait", "app/tide", "--for=condition=Ready", "--timeout=60s"]).await.ok();
    let found = rig.tombolo.shell(&["get", "app", "tide", "-o", "json"]).await.json();
    let id = found["metadata"]["uid"].as_str().unwrap().to_owned();
    let client = rig.tombolo.client().await;
    let logs = async |query: &str| {
        let path = format!("/api/v3/deployment/{id}/logs{query}");
        client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
    };
    let all = "bell/0 ding\ngauge/0 low water\ngauge/0 high water\ngauge/1 low water\n\
        gauge/1 high water\n";
    eventually("all have written", async || (logs("").await.unwrap() == all).then_some(())).await;
    assert_eq!(
        logs("?component=gauge&tail=1").await.unwrap(),
        "gauge/0 high water\ngauge/1 high water\n"
    );
}

#[tokio::test]
async fn a_log_that_is_too_long_for_icos_keeps_its_end_and_says_so() {
    let rig = Rig::start().await;
    // 5 MB in 5000 lines.
    let flood = "yes $(printf %0999d 0) | head -n 5000; echo ebb; exec sleep 3600";
    let app = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
    "metadata": {"name": "tide", "namespace": "default"}, "spec": {"components": [
        {"name": "flood", "run": [{"process": {"command": ["sh", "-c", flood]}}]},
    ]}});
    rig.tombolo.shell_with(&["apply", "-f", "-"], &app.to_string()).await.ok();
    let found = rig.tombolo.shell(&["get", "app", "tide", "-o", "json"]).await.json();
    let id = found["metadata"]["uid"].as_str().unwrap().to_owned();
    let client = rig.tombolo.client().await;
    let logs = async |query: &str| {
        let path = format!("/api/v3/deployment/{id}/logs{query}");
        client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
    };
    let written = async || (logs("?tail=1").await.unwrap() == "flood/0 ebb\n").then_some(());
    eventually("all is written", written).await;
    let text = logs("?tail=10000").await.unwrap();
    let mut lines = text.lines().rev();
    assert_eq!(lines.next(), Some("(left out: earlier lines of 1 instance)"));
    assert_eq!(lines.next(), Some("flood/0 ebb"));
    assert!(lines.clone().count() > 1000, "{}", text.len());
    assert!(lines.all(|line| line.len() == "flood/0 ".len() + 999), "whole lines only");
}

#[tokio::test]
async fn the_agent_in_the_server_itself_runs_errands_too() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let log = File::create(folder.path().join("log")).unwrap();
    let mut server = Command::new(binary::path())
        .args(["up", "--listen", "127.0.0.1:0", "--site", "here", "--data"])
        .arg(&data)
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let app = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "shop"},
        "spec": {"components": [{"name": "web",
            "run": [{"process": {"command": ["sh", "-c", "echo hello; exec sleep 3600"]}}]}]},
    });
    let file = folder.path().join("app.json");
    std::fs::write(&file, app.to_string()).unwrap();
    let kubeconfig = data.join("kubeconfig");
    let shell = async |arguments: &[&str]| {
        tokio::process::Command::new(binary::path())
            .args(arguments)
            .env("TOMBOLO_KUBECONFIG", &kubeconfig)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap()
    };
    eventually("the app is taken", async || {
        shell(&["apply", "-f", file.to_str().unwrap()]).await.status.success().then_some(())
    })
    .await;
    eventually("its log is read", async || {
        let ran = shell(&["logs", "shop/web"]).await;
        (ran.status.success() && ran.stdout == b"hello\n").then_some(())
    })
    .await;
    let ran = shell(&["exec", "shop/web", "--", "sh", "-c", "echo inside; exit 4"]).await;
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(4), &b"inside\n"[..]), "{ran:?}");
    shell(&["delete", "app", "shop", "--yes"]).await;
    eventually("what it ran has ended", async || {
        let ran = shell(&["get", "assignments", "-o", "name"]).await;
        (ran.status.success() && ran.stdout.is_empty()).then_some(())
    })
    .await;
    server.kill().unwrap();
    server.wait().unwrap();
}
