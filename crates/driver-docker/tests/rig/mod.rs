//! A Docker engine of the tests' own, and what the tests ask of a driver. It ends with the test
//! program, however that ends.

#![expect(clippy::unwrap_used, reason = "the lint takes what is no test function for a product")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tombolo_driver::{
    Container, Driver, Exit, Instance, InstanceId, Origin, Spec, State, Workload,
};
use tombolo_driver_docker::{DockerDriver, LogLimits, Options, open};

/// Long, because a test machine may be busy: a passing test never waits for it.
const DEADLINE: Duration = Duration::from_secs(60);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/docker-engine.sh");
pub(crate) const IMAGE: &str = "test/busybox:1";

/// One for each test program.
struct Engine {
    socket: PathBuf,
    words: ChildStdin,
    answers: BufReader<ChildStdout>,
    _keeper: Child,
}

static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);

pub(crate) struct Rig {
    socket: PathBuf,
    agent: String,
    driver: Option<DockerDriver>,
}

impl Rig {
    /// Nothing where there can be no engine; then the test is noted as skipped. The name of the test
    /// is the name of its agent, so that no test sees what another runs.
    pub(crate) async fn new(test: &str) -> Option<Rig> {
        let found = |program: &str| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|path| path.join(program).exists())
        };
        let missing = ["dockerd", "docker", "busybox"].into_iter().find(|name| !found(name));
        if let Some(missing) = missing {
            skip(test, &format!("this machine has no {missing}"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip(test, "only root can start an engine");
            return None;
        }
        let socket = tokio::task::spawn_blocking(|| {
            let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
            engine.get_or_insert_with(launch).socket.clone()
        });
        let mut rig = Rig { socket: socket.await.unwrap(), agent: test.to_owned(), driver: None };
        rig.reopen();
        Some(rig)
    }

    /// As if the agent was killed: all that it held is gone.
    pub(crate) fn reopen(&mut self) {
        self.driver = None;
        self.driver = Some(self.open(&self.agent));
    }

    /// Another agent on the same engine.
    pub(crate) fn open(&self, agent: &str) -> DockerDriver {
        open_at(&self.socket, agent)
    }

    /// The same, over a cable that can be cut.
    pub(crate) fn open_over(&self, agent: &str) -> (DockerDriver, Cable) {
        let cable = Cable::lay(self.socket.clone(), agent);
        (open_at(&cable.socket, agent), cable)
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

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What the command line says of the engine.
    pub(crate) fn docker(&self, arguments: &[&str]) -> String {
        let mut docker = Command::new("docker");
        docker.arg("-H").arg(format!("unix://{}", self.socket.display())).args(arguments);
        String::from_utf8(docker.output().unwrap().stdout).unwrap()
    }

    /// Ends the engine, and leaves its containers running.
    pub(crate) async fn engine_goes(&self) {
        tell("gone").await;
    }

    pub(crate) async fn engine_comes_back(&self) {
        tell("back").await;
    }
}

fn open_at(socket: &Path, agent: &str) -> DockerDriver {
    let (socket, agent) = (socket.to_owned(), agent.to_owned());
    open(Options { socket, agent, log: LogLimits::default(), guarded: None })
}

/// A way to the engine.
pub(crate) struct Cable {
    socket: PathBuf,
    cuts: watch::Sender<u64>,
}

impl Cable {
    fn lay(engine: PathBuf, name: &str) -> Cable {
        let socket = engine.with_file_name(format!("{name}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let (cuts, _) = watch::channel(0);
        let told = cuts.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (engine, mut cut) = (engine.clone(), told.subscribe());
                tokio::spawn(async move {
                    let Ok(mut far) = UnixStream::connect(engine).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => (),
                        _ = cut.changed() => (),
                    }
                });
            }
        });
        Cable { socket, cuts }
    }

    /// Ends everything that is under way; what is begun afterwards gets through.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}

async fn tell(word: &'static str) {
    let told = tokio::task::spawn_blocking(move || {
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = engine.as_mut().unwrap();
        writeln!(engine.words, "{word}").unwrap();
        answer(&mut engine.answers)
    });
    assert_eq!(told.await.unwrap(), word);
}

fn answer(answers: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn launch() -> Engine {
    let folder = std::env::temp_dir().join(format!("tombolo-docker-{}", std::process::id()));
    let mut keeper = Command::new(Path::new(SCRIPT));
    keeper.arg(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut keeper = keeper.spawn().unwrap();
    let words = keeper.stdin.take().unwrap();
    let mut answers = BufReader::new(keeper.stdout.take().unwrap());
    assert_eq!(answer(&mut answers), "ready", "the engine does not start");
    Engine { socket: folder.join("docker.sock"), words, answers, _keeper: keeper }
}

pub(crate) fn spec(id: &str, command: &[&str]) -> Spec {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let image = IMAGE.to_owned();
    let id: InstanceId = id.parse().unwrap();
    Spec {
        origin: Origin {
            namespace: "default".to_owned(),
            app: id.assignment().to_owned(),
            component: "web".to_owned(),
            ..Origin::default()
        },
        id,
        node: None,
        workload: Workload::Container(Container { image, command, ..Container::default() }),
        env: Default::default(),
        files: Vec::new(),
        ports: Vec::new(),
        fixed_ports: Default::default(),
        address: None,
        resources: Default::default(),
        stop_grace: Duration::from_secs(1),
        asks: Default::default(),
        allow: Default::default(),
        shown: Vec::new(),
        deadline: None,
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

/// Its process number and the container, as soon as it runs.
pub(crate) async fn running(rig: &Rig, id: &InstanceId) -> (u32, String) {
    eventually("it runs", async || match rig.instance(id).await?.state {
        State::Running(running) => Some((running.pid?, running.name)),
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
