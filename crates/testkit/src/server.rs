//! A real `tombolo up` for one test. Start reading at [`Tombolo::start`].

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clock::Clock;
use crate::command::{self, Ran, Running};
use crate::port::Port;
use crate::terminal::Terminal;
use crate::{binary, eventually};

/// The server has a data folder, a port and a home folder of its own, and all go with it. If the test
/// fails, its log is printed.
#[derive(Debug)]
pub struct Tombolo {
    folder: TempDir,
    /// `None` while it is down.
    process: Option<Child>,
    /// Of all its starts, so that clients stay valid.
    port: Port,
    /// As it said it itself.
    address: Option<String>,
    /// What `up` gets beside what every test needs.
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Tombolo {
    /// Starts a server and waits until it is ready.
    pub async fn start() -> Tombolo {
        Tombolo::start_with(&[]).await
    }

    /// The same, with more arguments for `tombolo up`.
    pub async fn start_with(arguments: &[&str]) -> Tombolo {
        Tombolo::start_in(arguments, Vec::new()).await
    }

    /// The server lives by this clock, and nobody else does.
    pub async fn start_by(clock: &Clock) -> Tombolo {
        Tombolo::start_in(&[], clock.environment()).await
    }

    async fn start_in(arguments: &[&str], environment: Vec<(String, String)>) -> Tombolo {
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        let folder = tempfile::Builder::new().prefix("tombolo-test-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        let port = Port::reserve();
        let (process, address) = (None, None);
        let mut tombolo = Tombolo { folder, process, port, address, arguments, environment };
        tombolo.restart().await;
        tombolo
    }

    /// Starts the server again, after [`Tombolo::kill9`] or [`Tombolo::stop`], over the same data.
    pub async fn restart(&mut self) {
        assert!(self.process.is_none(), "it is running");
        let said = self.data().join("address");
        drop(std::fs::remove_file(&said));
        self.process = Some(self.spawn());
        let address = eventually("the server says its address", async || {
            self.assert_alive();
            std::fs::read_to_string(&said).ok().filter(|text| !text.trim().is_empty())
        })
        .await
        .trim()
        .to_owned();
        eventually("the server is ready", async || {
            self.assert_alive();
            answers_ready(&address).await.then_some(())
        })
        .await;
        self.address = Some(address);
    }

    /// The same, with these arguments for `tombolo up` from now on.
    pub async fn restart_with(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        self.restart().await;
    }

    fn spawn(&self) -> Child {
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = log.expect("a log can be written");
        Command::new(binary::path())
            .args(["up", "--no-agent", "--listen", &self.port.address(), "--data"])
            .arg(self.data())
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be opened twice"))
            .stderr(log)
            .spawn()
            .expect("the binary starts")
    }

    /// Ends it as a power cut would.
    pub fn kill9(&mut self) {
        let mut process = self.process.take().expect("it is running");
        process.kill().expect("a child can be killed");
        process.wait().expect("a child can be waited for");
    }

    /// Ends it as `systemctl stop` would, and says how it went.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let mut process = self.process.take().expect("it is running");
        eventually("the server ends", async || {
            process.try_wait().expect("a child can be waited for")
        })
        .await
    }

    pub fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it is running");
        kill_process(Pid::from_child(process), signal).expect("a child can be signalled");
    }

    /// The process under test, to look at its memory.
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().expect("it is running").id()
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        self.address.as_deref().expect("it has started")
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.data().join("kubeconfig")
    }

    /// A file of the test, in a folder that goes with the server.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    }

    /// A client as the kubeconfig says: over TLS, with the CA and the credentials in it.
    pub async fn client(&self) -> Client {
        // Another test in this process may have been first, and that is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig is there");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.expect("the kubeconfig is valid");
        Client::try_from(config).expect("a client can be made of the kubeconfig")
    }

    pub async fn kubectl(&self, arguments: &[&str]) -> Ran {
        self.kubectl_with(arguments, "").await
    }

    /// With `input` on stdin, for `-f -`.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Ran {
        command::run(self.command(Path::new("kubectl"), arguments), input).await
    }

    /// For commands that go on, such as `get --watch`.
    pub fn kubectl_running(&self, arguments: &[&str]) -> Running {
        command::start(self.command(Path::new("kubectl"), arguments))
    }

    /// Our own shell.
    pub async fn shell(&self, arguments: &[&str]) -> Ran {
        self.shell_with(arguments, "").await
    }

    /// With `input` on stdin, for `-f -`.
    pub async fn shell_with(&self, arguments: &[&str], input: &str) -> Ran {
        command::run(self.command(binary::path(), arguments), input).await
    }

    /// For commands that go on, such as `logs -f`.
    pub fn shell_running(&self, arguments: &[&str]) -> Running {
        command::start(self.command(binary::path(), arguments))
    }

    /// Our own shell at a terminal.
    pub fn shell_at(&self, terminal: &Terminal, arguments: &[&str]) -> Child {
        terminal.start(self.command(binary::path(), arguments).as_std())
    }

    /// Any other program, such as a Python with a script.
    pub async fn run(&self, program: &Path, arguments: &[&str]) -> Ran {
        command::run(self.command(program, arguments), "").await
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program);
        command
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("TOMBOLO_KUBECONFIG", self.kubeconfig())
            // kubectl caches what it discovers below here.
            .env("HOME", self.folder.path())
            .env("NO_COLOR", "1");
        command
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn assert_alive(&self) {
        let process = self.process.as_ref().expect("it was started");
        let status = std::fs::read_to_string(format!("/proc/{}/stat", process.id()));
        let dead = status.is_ok_and(|status| status.contains(") Z "));
        assert!(!dead, "the server ended at once");
    }
}

impl Drop for Tombolo {
    #[expect(clippy::print_stderr, reason = "the log of a server whose test failed")]
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.kill());
            drop(process.wait());
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(200);
            eprintln!("--- the last of the server's log\n{}\n---", lines[last..].join("\n"));
        }
    }
}

/// Plain HTTP, which loopback takes. By hand, so that waiting needs no client.
async fn answers_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).await.is_ok()
        && stream.read_to_string(&mut answer).await.is_ok()
        && answer.starts_with("HTTP/1.1 200")
}
