//! A driver with a folder of its own, and what the tests ask of it. Whatever still runs when a rig is
//! dropped is killed.

#![expect(clippy::unwrap_used, reason = "the lint takes what is no test function for a product")]

use std::future::Future;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tombolo_driver::{
    Driver, Exit, FilePlaced, Instance, InstanceId, LogRequest, Origin, Port, Process, Spec, State,
    Workload,
};
use tombolo_driver_process::{LogLimits, Options, ProcessDriver, open};
use tombolo_model::component::{Protocol, Reach};
use tombolo_model::needs::Resources;

/// Long, because a test machine may be busy: a passing test never waits for it.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    folder: tempfile::TempDir,
    driver: Option<ProcessDriver>,
    mounted: bool,
}

/// A spec under way.
pub(crate) struct Draft(pub(crate) Spec);

impl Rig {
    pub(crate) fn new() -> Rig {
        let mut rig = Rig { folder: tempfile::tempdir().unwrap(), driver: None, mounted: false };
        rig.reopen();
        rig
    }

    /// On a file system of 2 MB, where one can be mounted.
    pub(crate) fn on_small_disk(test: &str) -> Option<Rig> {
        let mut rig = Rig { folder: tempfile::tempdir().unwrap(), driver: None, mounted: false };
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(rig.folder.path());
        if !mount.output().is_ok_and(|output| output.status.success()) {
            skip(test, "no file system can be mounted here");
            return None;
        }
        rig.mounted = true;
        rig.reopen();
        Some(rig)
    }

    pub(crate) fn driver(&self) -> &ProcessDriver {
        self.driver.as_ref().unwrap()
    }

    /// As if the agent was killed: all that it held is gone.
    pub(crate) fn close(&mut self) {
        self.driver = None;
    }

    pub(crate) fn reopen(&mut self) {
        self.close();
        self.driver = Some(self.open_again().unwrap());
    }

    pub(crate) fn open_again(&self) -> tombolo_driver::Result<ProcessDriver> {
        let options = Options {
            supervisor: vec![env!("CARGO_BIN_EXE_tombolo-supervise").into()],
            log: LogLimits { file_bytes_max: 8192, files_max: 3 },
            ..Options::default()
        };
        open(&self.root(), options)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("instances")
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root().join(below)
    }

    pub(crate) fn spec(&self, id: &str, command: &[&str]) -> Draft {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Draft(Spec {
            id: id.parse().unwrap(),
            origin: Origin::default(),
            node: None,
            workload: Workload::Process(Process { command, ..Process::default() }),
            env: Default::default(),
            files: Vec::new(),
            ports: Vec::new(),
            fixed_ports: Default::default(),
            address: None,
            resources: Resources::default(),
            stop_grace: DEADLINE,
            asks: Default::default(),
            allow: Default::default(),
            shown: Vec::new(),
            deadline: None,
        })
    }

    /// Starts a shell script.
    pub(crate) async fn start(&self, id: &str, script: &str) -> InstanceId {
        let spec = self.spec(id, &["sh", "-c", script]).0;
        self.driver().start(&spec).await.unwrap();
        spec.id
    }

    /// Who may pass through the folder above all of it.
    pub(crate) fn set_mode(&self, mode: u32) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(self.folder.path(), mode).unwrap();
    }

    /// Another process writes it: what this one has open for writing is, for a moment, also open in
    /// whatever another test forks, and cannot be executed until then.
    pub(crate) fn script(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        let draft = self.folder.path().join(format!("{name}.draft"));
        std::fs::write(&draft, content).unwrap();
        let mut install = std::process::Command::new("install");
        install.args(["-m", "755"]).arg(draft).arg(&path);
        assert!(install.status().unwrap().success(), "cannot write the script");
        path.to_str().unwrap().to_owned()
    }

    pub(crate) async fn instance(&self, id: &InstanceId) -> Option<Instance> {
        let instances = self.driver().list().await.unwrap();
        instances.into_iter().find(|instance| instance.id == *id)
    }

    /// All that it wrote to its standard output.
    pub(crate) async fn log(&self, id: &InstanceId) -> String {
        let lines = self.driver().logs(id, LogRequest::default()).await.unwrap();
        let lines: Vec<_> = lines.collect().await;
        let text = |line: tombolo_driver::Result<tombolo_driver::LogLine>| {
            String::from_utf8_lossy(&line.unwrap().text).into_owned() + "\n"
        };
        lines.into_iter().map(text).collect()
    }

    fn json(&self, below: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(below)).unwrap()).unwrap()
    }

    pub(crate) fn edit(&self, below: &str, edit: impl FnOnce(&mut Value)) {
        let mut value = self.json(below);
        edit(&mut value);
        std::fs::write(self.path(below), value.to_string()).unwrap();
    }

    pub(crate) fn supervisor(&self, id: &str) -> u32 {
        let pid = self.json(&format!("{id}/run.json"))["supervisor"]["pid"].as_u64().unwrap();
        u32::try_from(pid).unwrap()
    }

    pub(crate) fn groups(&self, id: &str) -> Vec<PathBuf> {
        let record = self.json(&format!("{id}/instance.json"));
        let groups = record["cgroups"].as_array().unwrap().iter();
        groups.map(|group| PathBuf::from(group.as_str().unwrap())).collect()
    }

    /// Every process that lives and carries the mark of the instance in this folder.
    pub(crate) fn marked(&self, id: &str) -> Vec<u32> {
        let mark = format!("TOMBOLO_INSTANCE={}", self.path(id).display());
        let has = |environment: &[u8], entry: &str| {
            environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
        };
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            // A zombie has no environment any more.
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environment| has(&environment, &mark))
        })
        .collect()
    }

    pub(crate) async fn wait_for_file(&self, below: &str) {
        let path = self.path(below);
        eventually(below, async || path.exists().then_some(())).await;
    }

    pub(crate) fn fill_disk(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.folder.path().join("filler")).unwrap();
        for size in [4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    pub(crate) fn empty_disk(&self) {
        std::fs::remove_file(self.folder.path().join("filler")).unwrap();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.close();
        let entries = std::fs::read_dir(self.root()).into_iter().flatten().flatten();
        for id in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            if !self.path(&id).is_dir() {
                continue;
            }
            // The supervisor first would have its orphans live on; they all carry the mark, but for
            // a moment in which they become another program.
            let exit = self.path(&id).join("exit.json");
            for _ in 0..500 {
                if exit.exists() || !self.path(&id).join("run.json").exists() {
                    break;
                }
                self.marked(&id).into_iter().for_each(kill);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if self.mounted {
            _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
        }
    }
}

impl Draft {
    fn process(&mut self) -> &mut Process {
        match &mut self.0.workload {
            Workload::Process(process) => process,
            Workload::Container(_) | Workload::Compose(_) | Workload::Manifests(_) => {
                unreachable!("drafts are of processes")
            }
        }
    }

    pub(crate) fn workdir(mut self, path: &str) -> Draft {
        self.process().workdir = Some(path.to_owned());
        self
    }

    pub(crate) fn user(mut self, user: &str) -> Draft {
        self.process().user = Some(user.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Draft {
        self.0.env.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn file(mut self, path: &str, content: &str) -> Draft {
        self.0.files.push(FilePlaced { path: path.to_owned(), content: content.into() });
        self
    }

    pub(crate) fn port(mut self, port: u16) -> Draft {
        let protocol = Protocol::Tcp;
        let reach = Reach::Loopback;
        self.0.ports.push(Port { port, protocol, published: None, exposed: false, reach });
        self
    }

    pub(crate) fn resources(mut self, resources: Resources) -> Draft {
        self.0.resources = resources;
        self
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
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How it ended, as soon as it has.
pub(crate) fn exited(rig: &Rig, id: &InstanceId) -> impl Future<Output = Exit> {
    eventually("it has ended", async || match rig.instance(id).await?.state {
        State::Exited(exit) => Some(exit),
        State::Starting { .. } | State::Running(_) | State::Stopping(_) | State::Failed(_) => None,
    })
}

/// Its process number, as soon as it runs.
pub(crate) fn running(rig: &Rig, id: &InstanceId) -> impl Future<Output = u32> {
    eventually("it runs", async || match rig.instance(id).await?.state {
        State::Running(running) => running.pid,
        State::Starting { .. } | State::Stopping(_) | State::Exited(_) | State::Failed(_) => None,
    })
}

pub(crate) fn kill(pid: u32) {
    send(pid, Signal::KILL);
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    _ = kill_process(pid, signal);
}

/// Whether it is there, and no zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

/// Notes that a test did not run, and why, as `tombolo_testkit` does: that crate knows everything,
/// and to build it for this alone would take minutes.
#[expect(clippy::print_stdout, reason = "whoever runs the test shall see it")]
pub(crate) fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let line = format!("SKIPPED {test}: {reason}");
    println!("{line}");
    let Ok(path) = std::env::var("TOMBOLO_SKIPS") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

pub(crate) fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).exists())
}
