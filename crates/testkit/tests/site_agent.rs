//! One agent for a whole site of many nodes: the real server over TLS, and an agent with an engine in
//! memory that says it has three machines.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tombolo_agent::converge::Drivers;
use tombolo_agent::engines::DockerAt;
use tombolo_agent::{JoinFile, Offer, Settings};
use tombolo_driver::fake::Fake;
use tombolo_driver::{Driver, Machines, Result};
use tombolo_model::Engine;
use tombolo_model::node::Machine;
use tombolo_testkit::{Tombolo, eventually};

const OURS: &str = "/apis/tombolo.dev/v1alpha1";
const ASSIGNMENTS: &str = "/apis/tombolo.dev/v1alpha1/namespaces/default/assignments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases";

/// A cluster whose machines are what the test says.
#[derive(Clone, Debug)]
struct Cluster {
    machines: Arc<Mutex<Vec<Machine>>>,
    changed: Arc<watch::Sender<u64>>,
    engine: Fake,
}

impl Cluster {
    fn of(names: &[&str]) -> Cluster {
        let machine = |name: &&str| Machine { name: (*name).to_owned(), ..Machine::default() };
        Cluster {
            machines: Arc::new(Mutex::new(names.iter().map(machine).collect())),
            changed: Arc::new(watch::Sender::new(0)),
            engine: Fake::new(Engine::Host),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Machine>)) {
        change(&mut self.machines.lock().unwrap());
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Machines for Cluster {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Machine>>> {
        let machines = self.machines.lock().unwrap().clone();
        Box::pin(async move { Ok(machines) })
    }

    fn events(&self) -> BoxStream<'static, ()> {
        let changed = self.changed.subscribe();
        stream::unfold(changed, async |mut changed| {
            changed.changed().await.ok()?;
            Some(((), changed))
        })
        .boxed()
    }
}

/// An agent that dies without a good-bye when it is dropped.
struct Agent(JoinHandle<()>);

impl Agent {
    fn start(folder: &Path, join_file: Option<JoinFile>, cluster: &Cluster) -> Agent {
        let settings = Settings {
            folder: folder.to_owned(),
            join_file,
            node: None,
            machine: Some("machine-of-the-site".to_owned()),
            offer: Offer { heartbeat_seconds: Some(1), ..Offer::default() },
            docker: DockerAt::Nowhere,
        };
        let cluster = cluster.clone();
        Agent(tokio::spawn(async move {
            let engines = |_: &Path| {
                let driver: Arc<dyn Driver> = Arc::new(cluster.engine.clone());
                let machines: Arc<dyn Machines> = Arc::new(cluster);
                Ok((Drivers::from([(Engine::Host, driver)]), machines))
            };
            let ended = tombolo_agent::run_site(settings, engines, std::future::pending()).await;
            panic!("the agent has ended: {ended:?}");
        }))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn get(client: &Client, path: &str) -> std::result::Result<Value, u16> {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    code(client.request(request).await)
}

async fn send(
    client: &Client,
    (method, path): (&str, &str),
    body: &Value,
) -> std::result::Result<Value, u16> {
    let type_ = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", type_);
    code(client.request(request.body(body.to_string().into_bytes()).unwrap()).await)
}

fn code(answer: std::result::Result<Value, kube::Error>) -> std::result::Result<Value, u16> {
    match answer {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(other) => panic!("{other}"),
    }
}

/// Waits until the Ready condition of the object says so, and returns its reason.
async fn until_ready(client: &Client, path: &str, status: &str) -> String {
    eventually(&format!("{path} has Ready={status}"), async || {
        let object = get(client, path).await.ok()?;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let ready = conditions.into_iter().find(|found| found["type"] == "Ready")?;
        (ready["status"] == status).then(|| ready["reason"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

fn assignment(site: &str, node: &str) -> Value {
    json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": format!("web-{node}"), "finalizers": ["tombolo.dev/undeploy"]},
        "spec": {"app": "web", "component": "front", "replica": 0, "site": site, "node": node,
            "engine": "host", "run": {"process": {"command": ["serve"]}}},
    })
}

/// A client with the credentials of the agent.
fn client_of(tombolo: &Tombolo, folder: &Path) -> Client {
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let identity: Value = serde_json::from_str(&read("agent.json")).unwrap();
    let mut config = Config::new(format!("https://{}", tombolo.address()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = AuthInfo {
        client_certificate_data: Some(BASE64.encode(identity["certificate"].as_str().unwrap())),
        client_key_data: Some(BASE64.encode(read("agent.key")).into()),
        ..AuthInfo::default()
    };
    Client::try_from(config).unwrap()
}

async fn join_file(tombolo: &Tombolo, folder: &Path) -> JoinFile {
    let path = folder.join("north.join").display().to_string();
    tombolo.shell(&["token", "create", "--site", "north", "--whole-site", "-o", &path]).await.ok();
    JoinFile::parse(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the life of one agent, from its joining to its end")]
async fn one_agent_stands_for_all_nodes_of_its_site() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let tombolo = Tombolo::start().await;
    let admin = tombolo.client().await;
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("agent");
    let cluster = Cluster::of(&["m1", "m2", "m3"]);
    let file = join_file(&tombolo, root.path()).await;
    let agent = Agent::start(&folder, Some(file), &cluster);

    // One Lease carries three Nodes.
    for node in ["m1", "m2", "m3"] {
        until_ready(&admin, &format!("{OURS}/nodes/{node}"), "True").await;
    }
    let leases = get(&admin, LEASES).await.unwrap();
    let names = leases["items"].as_array().unwrap().iter();
    let names: Vec<&str> = names.filter_map(|lease| lease["metadata"]["name"].as_str()).collect();
    assert!(names.contains(&"site-north"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("node-m")), "{names:?}");

    // What is assigned to any of them arrives, and runs on the one that it names.
    for node in ["m1", "m2", "m3"] {
        send(&admin, ("POST", ASSIGNMENTS), &assignment("north", node)).await.unwrap();
    }
    for node in ["m1", "m2", "m3"] {
        let running = eventually(&format!("web-{node} runs"), async || {
            let path = format!("{ASSIGNMENTS}/web-{node}");
            let found = get(&admin, &path).await.ok()?;
            let conditions = found["status"]["conditions"].as_array()?;
            let up = |found: &Value| found["type"] == "Available" && found["status"] == "True";
            conditions.iter().any(up).then(|| found.clone())
        })
        .await;
        assert_eq!(running["status"]["agent"], node);
        let uid = running["metadata"]["uid"].as_str().unwrap();
        let instances = cluster.engine.list().await.unwrap();
        let instance = instances.iter().find(|found| found.id.assignment() == uid).unwrap();
        assert_eq!(cluster.engine.spec(&instance.id).unwrap().node.as_deref(), Some(node));
        cluster.engine.writes(&instance.id, &format!("hello from {node}"));
    }

    // Errands for each of them go to the one agent.
    for node in ["m1", "m3"] {
        let request = http::Request::get(format!("{ASSIGNMENTS}/web-{node}/log")).body(Vec::new());
        let log = admin.request_text(request.unwrap()).await.unwrap();
        assert!(log.contains(&format!("hello from {node}")), "{log}");
    }

    // Another site's are none of its business.
    let south = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
        "metadata": {"name": "south"}, "spec": {"engine": "host"}});
    send(&admin, ("POST", &format!("{OURS}/sites")), &south).await.unwrap();
    send(&admin, ("POST", ASSIGNMENTS), &assignment("south", "s1")).await.unwrap();
    let thief = client_of(&tombolo, &folder);
    assert!(get(&thief, &format!("{ASSIGNMENTS}/web-m2")).await.is_ok());
    assert_eq!(get(&thief, &format!("{ASSIGNMENTS}/web-s1")).await, Err(404));
    let all_south = format!("{ASSIGNMENTS}?fieldSelector=spec.site%3Dsouth");
    assert_eq!(get(&thief, &all_south).await, Err(403));
    let foreign = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
        "metadata": {"name": "s1"}, "spec": {"site": "south"}});
    let nodes = format!("{OURS}/nodes");
    assert_eq!(send(&thief, ("POST", &nodes), &foreign).await, Err(403));
    send(&admin, ("POST", &nodes), &foreign).await.unwrap();
    let take = json!({"spec": {"site": "north"}});
    assert_eq!(send(&thief, ("PATCH", &format!("{nodes}/s1")), &take).await, Err(404));
    let give = json!({"spec": {"site": "south"}});
    assert_eq!(send(&thief, ("PATCH", &format!("{nodes}/m1")), &give).await, Err(403));

    // One machine may be down while the site is heard, and one that is gone loses its Node.
    cluster.change(|machines| machines[1].down = Some("unplugged".to_owned()));
    assert_eq!(until_ready(&admin, &format!("{nodes}/m2"), "False").await, "SaidDown");
    cluster.change(|machines| {
        machines[1].down = None;
        machines.truncate(2);
    });
    assert_eq!(until_ready(&admin, &format!("{nodes}/m2"), "True").await, "Heartbeat");
    eventually("the Node m3 is gone", async || {
        (get(&admin, &format!("{nodes}/m3")).await == Err(404)).then_some(())
    })
    .await;

    // Its silence is that of all its nodes.
    drop(agent);
    for node in ["m1", "m2"] {
        let reason = until_ready(&admin, &format!("{nodes}/{node}"), "False").await;
        assert_eq!(reason, "HeartbeatLost");
    }
    until_ready(&admin, &format!("{OURS}/sites/north"), "False").await;
    let _agent = Agent::start(&folder, None, &cluster);
    until_ready(&admin, &format!("{nodes}/m1"), "True").await;

    // A revocation ends it, with its next request.
    let site = format!("{OURS}/sites/north");
    let revoked = json!({"metadata": {"annotations": {"tombolo.dev/revoked": "now"}}});
    send(&admin, ("PATCH", &site), &revoked).await.unwrap();
    assert_eq!(get(&thief, &format!("{ASSIGNMENTS}/web-m2")).await, Err(401));
    until_ready(&admin, &format!("{nodes}/m1"), "False").await;
}
