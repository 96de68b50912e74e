//! A Docker engine of the tests' own, with its own socket, folder and bridge, and what the tests ask
//! of a driver. It ends with the test program, however that ends.

#![expect(clippy::unwrap_used, reason = "the lint takes what is no test function for a product")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use bollard::query_parameters::CreateImageOptions;
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use futures::StreamExt;
use tombolo_driver::{
    Container, Driver, Exit, Instance, InstanceId, Origin, Spec, State, Workload,
};
use tombolo_driver_docker::{DockerDriver, LogLimits, Options, open};

/// Long, because a test machine may be busy: a passing test never waits for it.
const DEADLINE: Duration = Duration::from_secs(60);
const PROGRAMS: &[&str] =
    &["sh", "sleep", "httpd", "wget", "cat", "echo", "env", "tail", "dd", "kill"];

/// It lives as long as its standard input is open: a killed test program leaves nothing behind.
const KEEPER: &str = r#"
ip link add "$BRIDGE" type bridge && ip addr add "$ADDRESS" dev "$BRIDGE" && ip link set "$BRIDGE" up
dockerd --data-root "$FOLDER/data" --exec-root "$FOLDER/exec" -H "unix://$FOLDER/docker.sock" \
  --pidfile "$FOLDER/pid" --bridge "$BRIDGE" --iptables=false --ip6tables=false >"$FOLDER/log" 2>&1 &
engine=$!
cat >/dev/null
kill -TERM "$engine"; wait "$engine"
ip link del "$BRIDGE"; rm -rf "$FOLDER"
"#;

struct Engine {
    folder: PathBuf,
    _keeper: Child,
}

static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);

pub(crate) struct Rig {
    socket: PathBuf,
    driver: Option<DockerDriver>,
}

impl Rig {
    /// Nothing where there can be no engine; then the test is noted as skipped.
    pub(crate) async fn new(test: &str) -> Option<Rig> {
        let root = rustix::process::geteuid().is_root();
        let found = |path: &str| Path::new(path).exists();
        if !root || !found("/usr/sbin/dockerd") || !found("/usr/bin/busybox") {
            skip(test, "it needs root, dockerd and a static busybox");
            return None;
        }
        let socket = {
            let mut engine = ENGINE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            engine.get_or_insert_with(launch).folder.join("docker.sock")
        };
        let mut rig = Rig { socket, driver: None };
        rig.reopen();
        eventually("the engine is there", async || rig.driver().probe().await.ok()).await;
        import(&rig.socket).await;
        Some(rig)
    }

    /// As if the agent was killed: all that it held is gone.
    pub(crate) fn reopen(&mut self) {
        self.driver = None;
        let log = LogLimits::default();
        self.driver = Some(open(Options { socket: self.socket.clone(), log }));
    }

    pub(crate) fn driver(&self) -> &DockerDriver {
        self.driver.as_ref().unwrap()
    }

    pub(crate) async fn instance(&self, id: &InstanceId) -> Option<Instance> {
        let instances = self.driver().list().await.unwrap();
        instances.into_iter().find(|instance| instance.id == *id)
    }

    pub(crate) async fn start(&self, id: &str, script: &str) -> InstanceId {
        let spec = spec(id, &["/bin/sh", "-c", script]);
        self.driver().start(&spec).await.unwrap();
        spec.id
    }
}

pub(crate) fn spec(id: &str, command: &[&str]) -> Spec {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let image = "test/busybox:1".to_owned();
    Spec {
        id: id.parse().unwrap(),
        origin: Origin::default(),
        workload: Workload::Container(Container { image, command, ..Container::default() }),
        env: Default::default(),
        files: Vec::new(),
        ports: Vec::new(),
        resources: Default::default(),
        stop_grace: Duration::from_secs(1),
    }
}

fn launch() -> Engine {
    let pid = std::process::id();
    let folder = std::env::temp_dir().join(format!("tombolo-docker-{pid}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER]).env("FOLDER", &folder).env("BRIDGE", format!("tb{pid}"));
    let address = format!("10.{}.{}.1/24", 200 + pid % 50, pid / 50 % 250);
    keeper.env("ADDRESS", address).stdin(Stdio::piped());
    let log = std::fs::File::create(folder.join("keeper")).unwrap();
    keeper.stdout(log.try_clone().unwrap()).stderr(log);
    Engine { folder, _keeper: keeper.spawn().unwrap() }
}

/// An image with nothing but a static busybox in it.
async fn import(socket: &Path) {
    let version = ClientVersion { minor_version: 41, ..*API_DEFAULT_VERSION };
    let docker = Docker::connect_with_unix(socket.to_str().unwrap(), 60, &version).unwrap();
    let mut image = tar::Builder::new(Vec::new());
    image.append_path_with_name("/usr/bin/busybox", "bin/busybox").unwrap();
    for program in PROGRAMS {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        image.append_link(&mut header, format!("bin/{program}"), "busybox").unwrap();
    }
    let body = bollard::body_full(image.into_inner().unwrap().into());
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some("test/busybox".to_owned()),
        tag: Some("1".to_owned()),
        ..CreateImageOptions::default()
    };
    let mut steps = docker.create_image(Some(options), Some(body), None);
    while let Some(step) = steps.next().await {
        step.unwrap();
    }
}

/// Asks again and again until there is an answer, and panics if there is none in a minute.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < DEADLINE, "in a minute it never came true: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How it ended, as soon as it has.
pub(crate) async fn exited(rig: &Rig, id: &InstanceId) -> Exit {
    eventually("it has ended", async || match rig.instance(id).await?.state {
        State::Exited(exit) => Some(exit),
        State::Starting { .. } | State::Running(_) | State::Stopping(_) | State::Failed(_) => None,
    })
    .await
}

/// Its process number, as soon as it runs.
pub(crate) async fn running(rig: &Rig, id: &InstanceId) -> u32 {
    eventually("it runs", async || match rig.instance(id).await?.state {
        State::Running(running) => running.pid,
        State::Starting { .. } | State::Stopping(_) | State::Exited(_) | State::Failed(_) => None,
    })
    .await
}

/// Notes that a test did not run, and why.
#[expect(clippy::print_stdout, reason = "whoever runs the test shall see it")]
fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}");
    println!("{line}");
    let Ok(path) = std::env::var("TOMBOLO_SKIPS") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}
