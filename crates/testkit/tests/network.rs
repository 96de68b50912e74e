//! A network that measures itself: a real server, real agents in network namespaces, and a switch between them whose
//! ways take as long as the test says. A way gets longer, and what suffers moves, once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "what was seen explains a failure")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tombolo_model::{App, Assignment, Link};
use tombolo_testkit::rig::kill_marked;
use tombolo_testkit::{Tombolo, binary, eventually, tools};

/// The server is behind the first port.
const SERVER: &str = "p0";
/// What takes a minute of good news to become true, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// A server, agents and the switch between them.
struct Net {
    tombolo: Tombolo,
    client: Client,
    agents: BTreeMap<String, Child>,
    switch: Child,
    delays: PathBuf,
    /// The port of each node.
    ports: BTreeMap<String, String>,
    spaces: Vec<String>,
    outside: String,
    address: Ipv4Addr,
}

impl Net {
    /// A node a site; `None`, and noted, where this machine cannot make it.
    async fn of(test: &str, sites: &[&str]) -> Option<Net> {
        if !rustix::process::geteuid().is_root() {
            tools::skip(test, "network namespaces take root");
            return None;
        }
        let Some(python) = ["python3", "python"].into_iter().find(|it| works(it, "--version"))
        else {
            tools::skip(test, "the switch is a program in Python, which is not here");
            return None;
        };
        let process = std::process::id();
        let [_, _, third, fourth] = process.to_be_bytes();
        let address = |last: u8| Ipv4Addr::new(198, 18 + (third & 1), fourth, last);
        let outside = format!("tn{process}");
        let switch_space = format!("tombolo-net-{process}");
        let mut spaces = vec![switch_space.clone()];
        let mut steps = vec![
            format!("netns add {switch_space}"),
            format!("link add {outside} type veth peer name {SERVER} netns {switch_space}"),
            format!("addr add {}/24 dev {outside}", address(1)),
            format!("link set {outside} up"),
            format!("-n {switch_space} link set {SERVER} up"),
        ];
        let mut ports = BTreeMap::new();
        for (number, site) in (1u8..).zip(sites) {
            let (space, port) = (format!("tombolo-net-{process}-{site}"), format!("p{number}"));
            steps.extend([
                format!("netns add {space}"),
                format!("-n {switch_space} link add {port} type veth peer name net0 netns {space}"),
                format!("-n {switch_space} link set {port} up"),
                format!("-n {space} addr add {}/24 dev net0", address(number + 1)),
                format!("-n {space} link set net0 up"),
                format!("-n {space} link set lo up"),
            ]);
            spaces.push(space);
            ports.insert(format!("{site}1"), port);
        }
        for step in &steps {
            if let Err(problem) = ip(step) {
                tools::skip(test, &format!("ip {step}: {problem}"));
                for space in &spaces {
                    drop(ip(&format!("netns del {space}")));
                }
                drop(ip(&format!("link del {outside}")));
                return None;
            }
        }
        let tombolo = Tombolo::start_with(&["--name", &address(1).to_string()]).await;
        let client = tombolo.client().await;
        let delays = tombolo.data().parent().unwrap().join("delays");
        fs::write(&delays, "").unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/network/switch.py");
        let switch = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{switch_space}"))
            .args(["--", python, script])
            .arg(&delays)
            .arg(SERVER)
            .args(ports.values())
            .spawn()
            .unwrap();
        let (agents, own) = (BTreeMap::new(), address(1));
        let mut net =
            Net { tombolo, client, agents, switch, delays, ports, spaces, outside, address: own };
        let port = net.forward().await;
        for (number, site) in (1u8..).zip(sites) {
            net.join(site, address(number + 1), port).await;
        }
        Some(net)
    }

    /// The server listens on loopback alone; agents come over the switch.
    async fn forward(&self) -> u16 {
        let listener = tokio::net::TcpListener::bind((self.address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = self.tombolo.address().to_owned();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    if let Ok(mut far) = tokio::net::TcpStream::connect(&server).await {
                        // Either side may end it; that is what connections are like.
                        drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
                    }
                });
            }
        });
        port
    }

    async fn join(&mut self, site: &str, address: Ipv4Addr, port: u16) {
        let made = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
            "metadata": {"name": site}, "spec": {"engine": "host", "probePort": 7072}});
        self.apply(&made).await;
        let root = self.tombolo.data().parent().unwrap().to_owned();
        let node = format!("{site}1");
        let file = root.join(format!("{node}.join")).display().to_string();
        let server = format!("https://{}:{port}", self.address);
        let token = ["token", "create", "--site", site, "--address", &server, "-o", &file];
        self.tombolo.shell(&token).await.ok();
        let log = File::create(root.join(format!("{node}.log"))).unwrap();
        let space = &self.spaces[self.agents.len() + 1];
        let agent = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{space}"))
            .arg("--")
            .arg(binary::path())
            .args(["-v", "agent", "--join-file", &file, "--name", &node, "--heartbeat", "1s"])
            .args(["--address", &address.to_string(), "--data"])
            .arg(root.join("agents").join(&node))
            .env("HOME", &root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agents.insert(node, agent);
    }

    async fn apply(&self, object: &Value) {
        self.tombolo.shell_with(&["apply", "-f", "-"], &object.to_string()).await.ok();
    }

    /// One way, in milliseconds; the others stay as they are.
    fn delay(&self, one: &str, other: &str, ms: u32) {
        let (one, other) = (&self.ports[one], &self.ports[other]);
        let before = fs::read_to_string(&self.delays).unwrap();
        let pair = format!("{one} {other} ");
        let others = before.lines().filter(|line| !line.starts_with(&pair));
        let lines: String = others.map(|line| format!("{line}\n")).collect();
        // In one step: the switch must not read half of it.
        let next = self.delays.with_extension("next");
        fs::write(&next, format!("{lines}{pair}{ms}\n")).unwrap();
        fs::rename(next, &self.delays).unwrap();
    }

    async fn links(&self) -> BTreeMap<String, Link> {
        let links =
            Api::<Link>::all(self.client.clone()).list(&ListParams::default()).await.unwrap();
        let named = |link: Link| (link.metadata.name.clone().unwrap_or_default(), link);
        links.items.into_iter().map(named).collect()
    }

    /// Waits until the measured delay of a link, in milliseconds one way, is as wanted.
    async fn until_measured(&self, link: &str, is: impl Fn(f64) -> bool) -> Link {
        let mut last = None;
        let found = within(PATIENCE, async || {
            let found = self.links().await.remove(link)?;
            let delay = found.status.as_ref()?.measured.latency?;
            let ms = delay.to_std().as_secs_f64() * 1000.0;
            if last != Some(delay) {
                println!("{link}: {delay}");
                last = Some(delay);
            }
            is(ms).then_some(found)
        });
        found.await.unwrap_or_else(|| panic!("{link} was never measured so: last {last:?}"))
    }

    /// Where a component is to run. Whether its process is up there yet is tested elsewhere.
    async fn place(&self, app: &str, component: &str) -> Option<String> {
        let apps: Api<App> = Api::namespaced(self.client.clone(), "default");
        let status = apps.get(app).await.unwrap().status?;
        status.placements.into_iter().find(|at| at.component == component)?.node
    }

    /// How often a component was given a place, whatever became of it.
    async fn assignments(&self, component: &str) -> Vec<String> {
        let api: Api<Assignment> = Api::namespaced(self.client.clone(), "default");
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let of = all.into_iter().filter(|one| one.spec.component == component);
        of.filter_map(|one| one.spec.node).collect()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let root = self.tombolo.data().parent().unwrap().to_owned();
        for (node, agent) in &mut self.agents {
            drop(agent.kill());
            drop(agent.wait());
            if std::thread::panicking() {
                let log = fs::read_to_string(root.join(format!("{node}.log"))).unwrap_or_default();
                println!("--- the agent of {node}\n{log}\n---");
            }
        }
        kill_marked(&root.join("agents"));
        drop(self.switch.kill());
        drop(self.switch.wait());
        drop(ip(&format!("link del {}", self.outside)));
        for space in &self.spaces {
            drop(ip(&format!("netns del {space}")));
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    let ran = ran.map_err(|error| error.to_string())?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
    }
}

fn works(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

async fn within<T>(deadline: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    while started.elapsed() < deadline {
        if let Some(answer) = ask().await {
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}

/// A camera at one site, and what looks at its pictures at one of two others, near enough.
fn shop() -> Value {
    let sleep = json!([{"process": {"command": ["sleep", "3600"]}}]);
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
    "metadata": {"name": "hall", "namespace": "default"},
    "spec": {"components": [
        {"name": "camera", "run": sleep, "needs": {"nodes": ["a1"]}},
        {"name": "watch", "run": sleep, "needs": {"nodes": ["b1", "c1"]},
         "connects": [{"to": "camera", "latency": "40ms"}]},
    ]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_that_gets_longer_moves_what_suffers_once_and_nothing_flaps() {
    let name = "a_way_that_gets_longer_moves_what_suffers_once_and_nothing_flaps";
    let Some(net) = Net::of(name, &["a", "b", "c"]).await else { return };
    net.delay("a1", "b1", 3);
    net.delay("a1", "c1", 8);
    net.delay("b1", "c1", 5);
    // Nobody has declared a link: probes have found them.
    net.until_measured("a-to-b", |ms| ms < 20.0).await;
    net.until_measured("a-to-c", |ms| ms < 20.0).await;
    net.until_measured("b-to-c", |ms| ms < 20.0).await;
    net.apply(&shop()).await;
    let first =
        eventually("watch has a place near its camera", async || net.place("hall", "watch").await)
            .await;
    let (other, bad, good) = match first.as_str() {
        "b1" => ("c1", "a-to-b", 3),
        _ => ("b1", "a-to-c", 8),
    };
    let why = net.tombolo.shell(&["why", "hall/watch", "--node", other]).await;
    println!("{}", why.stdout);

    let raised = Instant::now();
    net.delay("a1", &first, 200);
    let link = net.until_measured(bad, |ms| ms > 150.0).await;
    println!("written {:?} after the way got longer", raised.elapsed());
    assert!(link.is_measured() && link.is_made_by_probes());
    let moved =
        within(PATIENCE, async || net.place("hall", "watch").await.filter(|node| node == other));
    assert_eq!(moved.await.as_deref(), Some(other), "{:?}", net.assignments("watch").await);
    println!("moved {:?} after the way got longer", raised.elapsed());
    let why = net.tombolo.shell(&["why", "hall/watch", "--node", &first]).await;
    let why = why.stdout;
    assert!(why.contains("measured at") && why.contains(bad), "{why}");

    net.delay("a1", &first, good);
    net.until_measured(bad, |ms| ms < 20.0).await;
    // The loop has looked at it by the time that another App has come and found its place.
    let mut next = shop();
    next["metadata"]["name"] = json!("next");
    net.apply(&next).await;
    eventually("the next App has a place", async || net.place("next", "watch").await).await;
    assert_eq!(net.place("hall", "watch").await.as_deref(), Some(other), "it stays where it is");
    let events = net.tombolo.shell(&["events"]).await.ok();
    println!("{events}");
    // What two agents measure agrees, and an agent cannot speak for another: see the tests of the gate.
    assert!(!events.contains("DelaysDoubted"), "{events}");
}
