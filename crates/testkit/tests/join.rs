//! Machines that join, come back, are copied and are thrown out: the real server and real agents,
//! over TLS.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::{AsyncBufReadExt as _, StreamExt as _};
use kube::api::{Api, Patch, PatchParams};
use kube::config::AuthInfo;
use kube::{Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tombolo_identity::home::{self, Settings};
use tombolo_identity::{Subject, request};
use tombolo_model::Node;

use tombolo_testkit::{Tombolo, binary, eventually};

const DENIED: i32 = 5;
const UNREACHABLE: i32 = 6;

/// A running agent; goes with the test.
struct Agent {
    process: Child,
    folder: PathBuf,
    log: PathBuf,
}

impl Agent {
    fn start(tombolo: &Tombolo, folder: &str, more: &[&str]) -> Agent {
        let root = tombolo.data().parent().unwrap().to_owned();
        let (folder, log) = (root.join(folder), root.join(format!("{folder}.log")));
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let process = Command::new(binary::path())
            .args(["agent", "--data"])
            .arg(&folder)
            .args(more)
            .env("HOME", &root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        Agent { process, folder, log }
    }

    async fn ended(&mut self) -> ExitStatus {
        eventually("the agent ends", async || self.process.try_wait().unwrap()).await
    }

    async fn stop(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        assert!(self.ended().await.success(), "{}", self.said());
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

async fn token(tombolo: &Tombolo, site: &str, file: &str) -> String {
    let path = tombolo.data().parent().unwrap().join(file).display().to_string();
    tombolo.shell(&["token", "create", "--site", site, "-o", &path]).await.ok();
    path
}

async fn node(tombolo: &Tombolo, name: &str) -> Value {
    tombolo.shell(&["get", "node", name, "-o", "json"]).await.json()
}

fn condition(node: &Value, kind: &str) -> Option<Value> {
    let conditions = node["status"]["conditions"].as_array()?;
    conditions.iter().find(|found| found["type"] == kind).cloned()
}

async fn until(tombolo: &Tombolo, name: &str, kind: &str, status: &str) -> Value {
    eventually(&format!("{name} has {kind}={status}"), async || {
        let found = tombolo.shell(&["get", "node", name, "-o", "json"]).await;
        let node: Value = serde_json::from_str(&found.stdout).unwrap_or_default();
        condition(&node, kind).filter(|found| found["status"] == status)
    })
    .await
}

fn identity(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("agent.json")).unwrap()).unwrap()
}

/// Puts a certificate of the same key in place that expired two days ago.
fn expire(tombolo: &Tombolo, folder: &Path) {
    let listen = vec![tombolo.address().parse().unwrap()];
    let settings = Settings { folder: tombolo.data(), listen, names: Vec::new() };
    let now = jiff_now();
    let home = home::open(&settings, now).unwrap();
    let key = fs::read_to_string(folder.join("agent.key")).unwrap();
    let subject = Subject::agent("north", "crane").unwrap();
    let request = request::make(&key, "").unwrap();
    let then = now - Duration::from_secs(2 * 24 * 60 * 60);
    let old = home.authority.sign_request(&request, &subject, Duration::from_secs(1), then);
    let mut identity = identity(folder);
    identity["certificate"] = json!(old.unwrap());
    fs::write(folder.join("agent.json"), identity.to_string()).unwrap();
}

fn jiff_now() -> k8s_openapi::jiff::Timestamp {
    k8s_openapi::jiff::Timestamp::now()
}

/// A client with the credentials of an agent, as a thief of its folder would have them.
fn client_of(tombolo: &Tombolo, folder: &Path) -> Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    let identity = identity(folder);
    let encode = |text: &str| BASE64.encode(text);
    let key = fs::read_to_string(folder.join("agent.key")).unwrap();
    let mut config = Config::new(format!("https://{}", tombolo.address()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = AuthInfo {
        client_certificate_data: Some(encode(identity["certificate"].as_str().unwrap())),
        client_key_data: Some(encode(&key).into()),
        ..AuthInfo::default()
    };
    Client::try_from(config).unwrap()
}

/// The code that a request of this client is answered with.
async fn code(client: &Client, path: &str) -> u16 {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{path}: {other}"),
    }
}

#[tokio::test]
async fn a_machine_joins_once_comes_back_after_its_certificate_expired_and_is_set_up_anew() {
    let tombolo = Tombolo::start().await;
    let file = token(&tombolo, "north", "north.join").await;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let join = ["--join-file", &file, "--name", "crane"];
    let agent = Agent::start(&tombolo, "crane", &join);
    until(&tombolo, "crane", "Ready", "True").await;
    assert_eq!(node(&tombolo, "crane").await["spec"]["site"], "north");
    tombolo.shell(&["get", "site", "north"]).await.ok();
    let mode =
        |name: &str| fs::metadata(agent.folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("") & 0o066, 0, "nobody else lists or changes what is in it");
    assert_eq!((mode("agent.key"), mode("agent.json")), (0o600, 0o600));

    let mut second = Agent::start(&tombolo, "second", &["--join-file", &file, "--name", "lift"]);
    assert_eq!(second.ended().await.code(), Some(DENIED), "{}", second.said());
    assert!(second.said().contains(r#"used by node "crane""#), "{}", second.said());
    let listed = tombolo.shell(&["token", "ls"]).await.ok();
    assert!(listed.contains("used by crane"), "{listed}");

    let folder = agent.folder.clone();
    agent.stop().await;
    let condition = until(&tombolo, "crane", "Ready", "False").await;
    assert_eq!(condition["reason"], "Released");

    expire(&tombolo, &folder);
    let agent = Agent::start(&tombolo, "crane", &[]);
    until(&tombolo, "crane", "Ready", "True").await;
    let audit = tombolo.shell(&["audit"]).await.ok();
    assert!(audit.contains(r#""verb":"renew""#), "{audit}");
    assert!(audit.contains(r#""user":"tombolo:agent:north/crane""#), "{audit}");
    agent.stop().await;
    until(&tombolo, "crane", "Ready", "False").await;

    let old = client_of(&tombolo, &folder);
    let own = "/apis/tombolo.dev/v1alpha1/nodes/crane";
    assert_eq!(code(&old, own).await, 200);
    let before = node(&tombolo, "crane").await;
    let fresh = token(&tombolo, "north", "again.join").await;
    let _agent = Agent::start(&tombolo, "anew", &["--join-file", &fresh, "--name", "crane"]);
    until(&tombolo, "crane", "Ready", "True").await;
    let after = node(&tombolo, "crane").await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "the node was adopted");
    assert_eq!(code(&old, own).await, 401, "the old key is worth nothing any more");
    let events = tombolo.shell(&["events", "--for", "node/crane"]).await.ok();
    assert!(events.contains("Joined") && events.contains("Reinstalled"), "{events}");
}

#[tokio::test]
async fn a_copied_folder_is_noticed_and_the_copy_is_put_under_quarantine() {
    let tombolo = Tombolo::start().await;
    let file = token(&tombolo, "north", "north.join").await;
    let original = Agent::start(&tombolo, "crane", &["--join-file", &file, "--name", "crane"]);
    until(&tombolo, "crane", "Ready", "True").await;
    let copy = original.folder.with_file_name("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["agent.key", "agent.json"] {
        fs::copy(original.folder.join(name), copy.join(name)).unwrap();
    }
    let copy = Agent::start(&tombolo, "copy", &[]);
    let condition = until(&tombolo, "crane", "Cloned", "True").await;
    assert!(condition["message"].as_str().unwrap().contains("are both alive"), "{condition}");
    eventually("the copy says so", async || copy.said().contains("is a copy").then_some(())).await;
    let events = tombolo.shell(&["events", "--for", "node/crane"]).await.ok();
    assert!(events.contains("Cloned"), "{events}");
    let lease =
        tombolo.shell(&["get", "lease", "node-crane", "-n", "tombolo-system", "-o", "json"]);
    let holder = lease.await.json()["spec"]["holderIdentity"].clone();
    let node = node(&tombolo, "crane").await;
    let quarantined = &node["metadata"]["annotations"]["tombolo.dev/quarantined"];
    assert_ne!(&holder, quarantined, "the original holds the node again");
    assert!(!original.said().contains("is a copy"), "{}", original.said());
}

#[tokio::test]
async fn a_thief_of_the_folder_reaches_nothing_else_and_is_out_when_it_is_revoked() {
    let tombolo = Tombolo::start().await;
    let file = token(&tombolo, "north", "north.join").await;
    let mut agent = Agent::start(&tombolo, "crane", &["--join-file", &file, "--name", "crane"]);
    until(&tombolo, "crane", "Ready", "True").await;
    let thief = client_of(&tombolo, &agent.folder);
    let ours = "/apis/tombolo.dev/v1alpha1";
    for (path, expected) in [
        (format!("{ours}/nodes/crane"), 200),
        (format!("{ours}/assignments?fieldSelector=spec.site%3Dnorth"), 200),
        (format!("{ours}/assignments?fieldSelector=spec.site%3Dsouth"), 403),
        (format!("{ours}/assignments"), 403),
        (format!("{ours}/nodes"), 403),
        (format!("{ours}/jointokens"), 403),
        (format!("{ours}/probings"), 403),
        (format!("{ours}/probings/lift"), 403),
        ("/api/v1/secrets".to_owned(), 403),
        ("/tombolo/audit".to_owned(), 403),
    ] {
        assert_eq!(code(&thief, &path).await, expected, "{path}");
    }

    tombolo.shell(&["node", "revoke", "crane", "--yes"]).await.ok();
    // On the connection that is open, with the certificate that still holds for a day.
    assert_eq!(code(&thief, &format!("{ours}/nodes/crane")).await, 401);
    eventually("the agent says so", async || agent.said().contains("was revoked").then_some(()))
        .await;
    assert!(agent.process.try_wait().unwrap().is_none(), "what it runs is not to stop with it");

    tombolo.shell(&["node", "cordon", "crane"]).await.ok();
    tombolo.shell(&["node", "drain", "crane"]).await.ok();
    let drained = node(&tombolo, "crane").await;
    assert_eq!(drained["spec"]["taints"][0]["key"], "tombolo.dev/drain");
    tombolo.shell(&["node", "uncordon", "crane"]).await.ok();
    assert_eq!(node(&tombolo, "crane").await["spec"].get("taints"), None);
    tombolo.shell(&["site", "remove", "north", "--yes"]).await.ok();
    assert!(tombolo.shell(&["node", "ls"]).await.ok().trim().is_empty());
}

#[tokio::test]
async fn an_agent_asks_the_lighthouse_when_its_controller_is_not_where_it_was() {
    let tombolo = Tombolo::start().await;
    let file = tombolo.data().parent().unwrap().join("north.join").display().to_string();
    // Every controller is a lighthouse too.
    let lighthouse = tombolo.kubeconfig().display().to_string();
    let create = ["token", "create", "--site", "north", "-o", &file, "--lighthouse", &lighthouse];
    tombolo.shell(&create).await.ok();
    let agent = Agent::start(&tombolo, "moved", &["--join-file", &file, "--name", "crane"]);
    until(&tombolo, "crane", "Ready", "True").await;
    let identity = agent.folder.join("agent.json");
    agent.stop().await;
    until(&tombolo, "crane", "Ready", "False").await;

    let mut kept: Value = serde_json::from_str(&fs::read_to_string(&identity).unwrap()).unwrap();
    let true_address = kept["addresses"][0].clone();
    kept["addresses"] = json!(["https://127.0.0.1:9"]);
    fs::write(&identity, kept.to_string()).unwrap();
    let agent = Agent::start(&tombolo, "moved", &[]);
    until(&tombolo, "crane", "Ready", "True").await;
    let kept: Value = serde_json::from_str(&fs::read_to_string(&identity).unwrap()).unwrap();
    assert_eq!(kept["addresses"], json!([true_address, "https://127.0.0.1:9"]));
    agent.stop().await;
}

#[tokio::test]
async fn the_shell_asks_the_lighthouse_when_the_server_is_not_where_it_was() {
    let tombolo = Tombolo::start().await;
    let config = fs::read_to_string(tombolo.kubeconfig()).unwrap();
    let moved = config.replace(tombolo.address(), "127.0.0.1:9");
    assert_ne!(moved, config);
    let moved = tombolo.file("moved.kubeconfig", &moved).display().to_string();
    let lost = tombolo.shell(&["get", "sites", "--kubeconfig", &moved]).await;
    assert_eq!(lost.code, Some(UNREACHABLE), "{lost:?}");
    // Every controller is a lighthouse too.
    let lighthouse = tombolo.kubeconfig().display().to_string();
    let more = ["--kubeconfig", &moved, "--lighthouse-config", &lighthouse];
    tombolo.shell(&[&["get", "sites"], &more[..]].concat()).await.ok();
    let file = tombolo.data().parent().unwrap().join("north.join").display().to_string();
    let create = ["token", "create", "--site", "north", "-o", &file];
    tombolo.shell(&[&create, &more[..]].concat()).await.ok();
}

#[tokio::test]
async fn the_shell_passes_by_whoever_is_not_its_own_server() {
    let (tombolo, other) = (Tombolo::start().await, Tombolo::start().await);
    // Takes connections, which wait in its queue for ever.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let lighthouse = tombolo.client().await;
    let others = [("a-other", other.address().to_owned()), ("a-silent", silent.to_string())];
    for (name, address) in &others {
        let body = json!({"name": name, "addresses": [format!("https://{address}")]}).to_string();
        let request = http::Request::post("/tombolo/controllers");
        let request = request.header("content-type", "application/json").body(body.into_bytes());
        lighthouse.request::<Value>(request.unwrap()).await.unwrap();
    }
    let request = http::Request::get("/tombolo/controllers").body(Vec::new()).unwrap();
    let listed = lighthouse.request::<Value>(request).await.unwrap();
    assert_eq!(listed["controllers"][0]["name"], "a-other", "it comes first: {listed}");
    let config = fs::read_to_string(tombolo.kubeconfig()).unwrap();
    let lighthouse = tombolo.kubeconfig().display().to_string();
    for (name, address) in &others {
        let moved = config.replace(tombolo.address(), address);
        let moved = tombolo.file(name, &moved).display().to_string();
        let more = ["--kubeconfig", &moved, "--lighthouse-config", &lighthouse];
        tombolo.shell(&[&["get", "sites"], &more[..]].concat()).await.ok();
    }
}

#[tokio::test]
async fn what_the_operator_says_anew_is_on_the_node() {
    let tombolo = Tombolo::start().await;
    let file = token(&tombolo, "north", "north.join").await;
    let first = [
        "--join-file",
        &file,
        "--name",
        "crane",
        "--label",
        "camera=yes",
        "--label",
        "hall=1",
        "--label",
        "floor=2",
        "--cpu",
        "2",
        "--location",
        "48.5,9.25",
    ];
    let agent = Agent::start(&tombolo, "crane", &first);
    until(&tombolo, "crane", "Ready", "True").await;
    let described = async |label: &str, cpu: &str, latitude: f64| {
        eventually("the node says it", async || {
            let node = node(&tombolo, "crane").await;
            let is = node["metadata"]["labels"]["camera"] == label
                && node["status"]["capacity"]["cpu"] == cpu
                && node["status"]["characteristics"]["location"]["latitude"] == latitude;
            is.then_some(node)
        })
        .await
    };
    described("yes", "2", 48.5).await;
    let by_hand = json!({"metadata": {"labels": {"shift": "night", "floor": "3"}}});
    let nodes: Api<Node> = Api::all(tombolo.client().await);
    nodes.patch("crane", &PatchParams::default(), &Patch::Merge(by_hand)).await.unwrap();
    agent.stop().await;

    let labels = ["--label", "camera=no", "--label", "line=7", "--label", "floor=2"];
    let anew = [&labels[..], &["--cpu", "3", "--location", "50.5,8"]].concat();
    let agent = Agent::start(&tombolo, "crane", &anew);
    let node = described("no", "3", 50.5).await;
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["line"], &labels["shift"]), (&json!("7"), &json!("night")), "{labels}");
    assert_eq!(labels["floor"], "3", "it was said before, and not anew: {labels}");
    assert_eq!(labels["hall"], Value::Null, "it is not said any more: {labels}");
    assert_eq!(labels["tombolo.dev/site"], "north");
    agent.stop().await;
}

#[tokio::test]
async fn the_answer_of_a_node_that_was_not_asked_is_refused() {
    let tombolo = Tombolo::start().await;
    let mut agents = Vec::new();
    for name in ["crane", "lift"] {
        let file = token(&tombolo, "north", &format!("{name}.join")).await;
        agents.push(Agent::start(&tombolo, name, &["--join-file", &file, "--name", name]));
        until(&tombolo, name, "Ready", "True").await;
    }
    let assignment = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"app": "shop", "component": "web", "replica": 0, "site": "north", "node": "crane",
            "engine": "host", "stopped": true, "run": {"process": {"command": ["true"]}}},
    });
    tombolo.shell_with(&["apply", "-f", "-"], &assignment.to_string()).await.ok();
    let clients: Vec<Client> =
        agents.iter().map(|agent| client_of(&tombolo, &agent.folder)).collect();
    // We act for both from here on, with their keys: the errand is crane's, and lift knows its id.
    for agent in agents {
        agent.stop().await;
    }
    let request = http::Request::get("/tombolo/errands").body(Vec::new()).unwrap();
    let mut errands = clients[0].request_stream(request).await.unwrap().lines();
    let reader = tombolo.client().await;
    let asking = tokio::spawn(async move {
        let log = "/apis/tombolo.dev/v1alpha1/namespaces/default/assignments/web/log";
        reader.request_text(http::Request::get(log).body(Vec::new()).unwrap()).await
    });
    let id = loop {
        let line = errands.next().await.expect("the server keeps it open").unwrap();
        // Others are words that it is still there.
        if let Ok(errand) = serde_json::from_str::<Value>(&line) {
            break errand["id"].as_str().unwrap().to_owned();
        }
    };
    let answer = async |client: &Client| {
        let path = format!("/tombolo/errands?id={id}");
        let request = http::Request::post(path).body(Vec::new()).unwrap();
        match client.request_text(request).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(answer(&clients[1]).await, 404, "lift was not asked");
    assert!(!asking.is_finished(), "and whoever asks still waits");
    assert_eq!(answer(&clients[0]).await, 200, "crane was");
    asking.await.unwrap().unwrap_err();
}
