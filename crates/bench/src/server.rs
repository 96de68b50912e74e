//! A server to measure: this very binary as a process of its own, over a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tombolo_agent::{JoinFile, issue};

use crate::client::Client;
use crate::wire::Door;

const START_TIME_MAX: Duration = Duration::from_secs(30);
/// For the last of a thousand agents, which are started one after the other.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);

pub(crate) struct Server {
    process: Child,
    data: PathBuf,
    /// From the start of the process to the first 200 of `/readyz`.
    pub(crate) ready_after: Duration,
}

impl Server {
    pub(crate) async fn start(data: &Path) -> anyhow::Result<Server> {
        Server::start_with(data, &[]).await
    }

    /// With more words for `tombolo up`.
    pub(crate) async fn start_with(data: &Path, more: &[&str]) -> anyhow::Result<Server> {
        // Left over from a run before, it would name a port that nobody listens on.
        let _ = std::fs::remove_file(data.join("address"));
        let started = Instant::now();
        let process = Command::new(std::env::current_exe()?)
            .args(["up", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start tombolo up")?;
        let mut server = Server { process, data: data.to_path_buf(), ready_after: Duration::ZERO };
        while !server.is_ready().await {
            if started.elapsed() > START_TIME_MAX {
                bail!("tombolo up was not ready within {START_TIME_MAX:?}");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.ready_after = started.elapsed();
        Ok(server)
    }

    /// The address is written when the port is open; `/readyz` on loopback needs no TLS.
    async fn is_ready(&self) -> bool {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let Ok(address) = self.address() else { return false };
        let ask = async {
            let mut socket = tokio::net::TcpStream::connect(&address).await?;
            socket.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        ask.await.is_ok_and(|answer| answer.contains(" 200 "))
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.data.join("address"))?.trim().to_owned())
    }

    pub(crate) fn door(&self) -> anyhow::Result<Door> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.data.join("ca.crt"))?)?;
        let tls =
            rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Door {
            address: self.address()?,
            token: std::fs::read_to_string(self.data.join("admin.token"))?.trim().to_owned(),
            tls: Arc::new(tls),
        })
    }

    /// As its administrator.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        Client::open(&self.data.join("kubeconfig")).await
    }

    /// What a machine joins with that reaches the server at `address`.
    pub(crate) async fn join_file(&self, site: &str, address: &str) -> anyhow::Result<JoinFile> {
        let client = self.connect().await?.kube;
        let authority = std::fs::read_to_string(self.data.join("ca.crt"))?;
        let address = format!("https://{address}");
        Ok(issue::hand_out(&client, site, address, authority, TOKEN_LIFE).await?)
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn resident_mb(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = line
            .and_then(|line| line.trim().strip_suffix("kB"))
            .context("VmRSS in /proc")?
            .trim()
            .parse()?;
        Ok(kib / 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
