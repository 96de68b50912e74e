//! A real Docker engine for a test, started by `scripts/docker-engine.sh`. It has a socket, a folder
//! and networks of its own, an image [`IMAGE`] in it, and ends with the test program, however that
//! ends. Start at [`Engine::start`].

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::tools;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/docker-engine.sh");

/// A static busybox and nothing else.
pub const IMAGE: &str = "test/busybox:1";

#[derive(Debug)]
pub struct Engine {
    folder: PathBuf,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    keeper: Child,
}

impl Engine {
    /// Nothing where there can be none; then `test` is noted as skipped.
    pub fn start(test: &str) -> Option<Engine> {
        for program in ["dockerd", "docker", "busybox"] {
            tools::program(test, program)?;
        }
        if !rustix::process::geteuid().is_root() {
            tools::skip(test, "only root can start a Docker engine");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("tbd-{}-{test}", std::process::id()));
        let mut keeper = Command::new(SCRIPT);
        keeper.arg(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = keeper.spawn().expect("the script starts");
        let words = keeper.stdin.take();
        let answers = keeper.stdout.take().expect("its output is piped");
        let mut engine = Engine { folder, words, answers: BufReader::new(answers), keeper };
        assert_eq!(engine.answer(), "ready", "the engine does not start");
        Some(engine)
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("docker.sock")
    }

    /// What the command line says.
    pub fn docker(&self, arguments: &[&str]) -> String {
        let mut docker = Command::new("docker");
        docker.arg("-H").arg(format!("unix://{}", self.socket().display())).args(arguments);
        let output = docker.output().expect("the client starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Ends the engine, and leaves its containers running.
    pub fn goes(&mut self) {
        self.tell("gone");
    }

    pub fn comes_back(&mut self) {
        self.tell("back");
    }

    /// It takes connections and answers none, until [`Engine::thaws`].
    pub fn freezes(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaws(&self) {
        self.signal(Signal::CONT);
    }

    /// Nobody hears it while the engine is gone.
    fn signal(&self, signal: Signal) {
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap_or_default();
        if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }

    fn tell(&mut self, word: &str) {
        let words = self.words.as_mut().expect("it has not ended");
        writeln!(words, "{word}").expect("the script listens");
        assert_eq!(self.answer(), word);
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the script answers");
        line.trim().to_owned()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A frozen one could not end.
        self.thaws();
        // Its input ends, and with it everything that it runs.
        self.words = None;
        drop(self.keeper.wait());
    }
}
