//! A Prometheus of our own, with blocks that promtool has made, until it is dropped.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(programs: &Path, samples: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (text, data) = (folder.path().join("samples.om"), folder.path().join("data"));
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&text, samples).unwrap();
        std::fs::write(&config, "").unwrap();
        let made = Command::new(programs.join("promtool"))
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([&text, &data])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let features = "promql-experimental-functions,promql-duration-expr,promql-extended-range-selectors,promql-binop-fill-modifiers";
        let mut child = Command::new(programs.join("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg("--storage.tsdb.retention.time=100y")
            .arg("--web.listen-address=127.0.0.1:0")
            .arg(format!("--enable-feature={features}"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut address, mut said) = (None, String::new());
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("Server is ready to receive web requests") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "Prometheus ended: {said}");
            said.push_str(&line);
            if let Some((_, rest)) = line.split_once("Listening on") {
                address = rest
                    .split_once("address=")
                    .map(|(_, a)| a.split(' ').next().unwrap().trim().to_owned());
            }
        }
        // What it says later would fill the pipe and stop it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Self { child, address: address.unwrap(), _folder: folder }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
