//! `tombolo up --demo` as a newcomer meets it: it comes up, does something, survives the loss of a
//! site, and goes without a trace. As a user without rights where that can be arranged.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tombolo_testkit::{binary, eventually, tools};

/// Nobody, on every Linux.
const NOBODY: u32 = 65534;

/// A demo, over a folder of its own; all of it goes with the test.
struct Demo {
    folder: TempDir,
    /// A copy: where the binary was built, others may not even look.
    program: PathBuf,
    process: Option<Child>,
    user: User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Own,
    Nobody,
}

impl User {
    /// Somebody without rights, if we may become that; otherwise ourselves.
    fn least(test: &str) -> User {
        if !getuid().is_root() {
            return User::Own;
        }
        let tried = User::Nobody.command(Path::new("true")).output();
        match tried.is_ok_and(|output| output.status.success()) {
            true => User::Nobody,
            false => {
                tools::skip(test, "setpriv is not there: run as root");
                User::Own
            }
        }
    }

    fn command(self, program: &Path) -> Command {
        match self {
            User::Own => Command::new(program),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                let id = NOBODY.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
                command.arg(program);
                command
            }
        }
    }
}

impl Demo {
    fn start(user: User) -> Demo {
        let folder = tempfile::Builder::new().prefix("tombolo-demo-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if user == User::Nobody {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let program = folder.path().join("tombolo");
        provide_program(&program);
        let mut demo = Demo { folder, program, process: None, user };
        demo.again();
        demo
    }

    fn again(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let process = self
            .user
            .command(&self.program)
            .args(["up", "--demo", "--data"])
            .arg(self.data())
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Runs a command of the shell against the demo.
    fn tombolo(&self, words: &[&str]) -> Output {
        let mut command = self.user.command(&self.program);
        command.args(words).env("HOME", self.folder.path());
        command.env("TOMBOLO_KUBECONFIG", self.data().join("kubeconfig"));
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn down(&self, more: &[&str]) -> String {
        let data = self.data();
        let output = self.tombolo(&[&["down", "--data", data.to_str().unwrap()], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }

    fn app(&self) -> Value {
        let output = self.tombolo(&["get", "app", "factory-vision", "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Waits until all parts run, and gives the status of the App.
    async fn running(&self) -> Value {
        eventually("all parts run", async || {
            let status = self.app()["status"].clone();
            (status["phase"] == "Running").then_some(status)
        })
        .await
    }

    /// Where a component is.
    fn site(status: &Value, component: &str) -> String {
        let placements = status["placements"].as_array().unwrap();
        let at = placements.iter().find(|at| at["component"] == component).unwrap();
        at["site"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of the foreground process.
    async fn ended(&mut self) -> bool {
        let mut process = self.process.take().unwrap();
        eventually("the demo ends", async || process.try_wait().unwrap()).await.success()
    }

    /// Processes that have anything to do with the folder, by their command or their mark.
    fn processes(&self) -> Vec<String> {
        let name = self.data().display().to_string();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let about = entries.filter_map(|entry| {
            let read = |file| fs::read(entry.path().join(file)).unwrap_or_default();
            let text = [read("cmdline"), read("environ")].concat();
            let text = String::from_utf8_lossy(&text).replace('\0', " ");
            let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
            (text.contains(&name) && pid != std::process::id()).then(|| format!("{pid}: {text}"))
        });
        about.collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.said();
            let _ = std::io::Write::write_all(&mut std::io::stderr(), log.as_bytes());
        }
        let data = self.data();
        drop(self.tombolo(&["down", "--data", data.to_str().unwrap()]));
        if let Some(mut process) = self.process.take() {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// A second name of the same file, in a folder that `nobody` can reach: no disk is needed for it. Where the two
/// folders lie on different disks, another process copies the file: a file that this process has open for
/// writing is, for a moment, also open in whatever another test forks, and cannot be executed until then.
fn provide_program(at: &Path) {
    if fs::hard_link(binary::path(), at).is_ok() {
        return;
    }
    let copied = Command::new("cp").arg(binary::path()).arg(at).output().unwrap();
    let said = String::from_utf8_lossy(&copied.stderr);
    assert!(copied.status.success(), "cannot copy the program under test: {said}");
}

/// The public address of the dashboard, as the App says it.
fn dashboard(status: &Value) -> String {
    let endpoints = status["endpoints"].as_array().unwrap();
    let public = endpoints.iter().find(|endpoint| endpoint["public"] == true).unwrap();
    assert_eq!(public["component"], "dashboard");
    public["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned()
}

/// Head and body of an answer; `None` if there is none.
async fn get(address: &str, path: &str) -> Option<(String, String)> {
    let mut socket = TcpStream::connect(address).await.ok()?;
    socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

async fn frames(address: &str) -> Option<u64> {
    let (_, body) = get(address, "/counts").await?;
    serde_json::from_str::<Value>(&body).ok()?["frames"].as_u64()
}

/// Frames go all the way from the camera to the dashboard, and go on doing so.
async fn counts_grow(address: &str) {
    let before = eventually("the dashboard counts", async || frames(address).await).await;
    eventually("more frames are counted", async || {
        frames(address).await.filter(|now| *now > before + 5)
    })
    .await;
}

#[tokio::test]
async fn it_comes_up_survives_the_loss_of_a_site_and_goes_without_a_trace() {
    let user = User::least("it_comes_up_survives_the_loss_of_a_site_and_goes_without_a_trace");
    let mut demo = Demo::start(user);
    let status = demo.running().await;
    assert_eq!(status["placements"].as_array().unwrap().len(), 4);
    let address = dashboard(&status);
    let (head, page) = get(&address, "/").await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && page.contains("factory-vision"), "{head}");
    counts_grow(&address).await;
    eventually("it says what to try", async || demo.said().contains("Try next").then_some(()))
        .await;
    assert!(demo.said().contains(&format!("http://{address}")), "{}", demo.said());

    // The site of the dashboard goes dark: another one takes over.
    let lost = Demo::site(&status, "dashboard");
    let before = demo.processes().len();
    assert!(demo.down(&["--site", &lost]).contains("is dark"));
    assert!(demo.processes().len() < before, "its processes are gone at once");
    let status = eventually("all parts run elsewhere", async || {
        let status = demo.app()["status"].clone();
        let moved = Demo::site(&status, "dashboard") != lost;
        (moved && status["phase"] == "Running").then_some(status)
    })
    .await;
    assert_ne!(dashboard(&status), address);
    counts_grow(&dashboard(&status)).await;

    let data = demo.data();
    assert!(demo.down(&[]).contains("removed"));
    assert!(demo.ended().await, "{}", demo.said());
    assert!(!data.exists());
    assert_eq!(demo.processes(), Vec::<String>::new());
    assert!(demo.down(&[]).contains("nothing to do"), "again is no failure");
}

#[tokio::test]
async fn ctrl_c_ends_all_of_it_and_the_next_start_goes_on_with_the_same_folder() {
    let mut demo = Demo::start(User::Own);
    let first = demo.running().await;
    counts_grow(&dashboard(&first)).await;
    let process = demo.process.as_ref().unwrap();
    kill_process(Pid::from_child(process), Signal::INT).unwrap();
    assert!(demo.ended().await, "{}", demo.said());
    assert_eq!(demo.processes(), Vec::<String>::new());
    assert!(demo.data().exists());

    demo.again();
    let status = demo.running().await;
    counts_grow(&dashboard(&status)).await;

    // The foreground process is killed: whatever it started goes on, and `down` finds it.
    let mut process = demo.process.take().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(!demo.processes().is_empty());
    counts_grow(&dashboard(&status)).await;
    demo.down(&[]);
    assert_eq!(demo.processes(), Vec::<String>::new());
    assert!(!demo.data().exists());
}

#[tokio::test]
async fn what_is_no_demo_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let down = |folder: &Path| {
        let mut command = Command::new(binary::path());
        command.args(["down", "--data"]).arg(folder).stdin(Stdio::null());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    fs::write(folder.path().join("letter"), "dear").unwrap();
    assert!(down(folder.path()).contains("neither a demo nor a server"));
    let tombolo = tombolo_testkit::Tombolo::start().await;
    assert!(down(&tombolo.data()).contains("--purge"));
    assert!(tombolo.shell(&["get", "nodes"]).await.code == Some(0), "it still runs");
    assert!(folder.path().join("letter").exists());
}
