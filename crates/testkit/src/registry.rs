//! A registry of images on this machine, as Debian packages it, on a port of its own. Start at
//! [`Registry::start`].

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::port::Port;
use crate::{eventually, tools};

#[derive(Debug)]
pub struct Registry {
    folder: TempDir,
    port: Port,
    process: Option<Child>,
}

impl Registry {
    /// Nothing where there is none; then `test` is noted as skipped. `scripts/install-test-tools.sh`
    /// fetches one.
    pub async fn start(test: &str) -> Option<Registry> {
        let program = tools::program(test, "docker-registry")?;
        let folder = tempfile::Builder::new().prefix("tombolo-registry-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        let mut registry = Registry { folder, port: Port::reserve(), process: None };
        registry.run(&program).await;
        Some(registry)
    }

    async fn run(&mut self, program: &Path) {
        let settings = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '{}'}}\n",
            self.folder.path().join("data").display(),
            self.address()
        );
        let file = self.folder.path().join("config.yml");
        std::fs::write(&file, settings).expect("a file can be written");
        let mut command = Command::new(program);
        command.arg("serve").arg(file).stdin(Stdio::null()).stdout(Stdio::null());
        self.process = Some(command.stderr(Stdio::null()).spawn().expect("the registry starts"));
        let address = self.address();
        eventually("the registry listens", async || TcpStream::connect(&address).await.ok()).await;
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        self.port.address()
    }

    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}
