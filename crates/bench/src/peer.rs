//! A real Prometheus to measure beside us, and the plain HTTP that both are asked with. Prometheus is built
//! by `scripts/prometheus.sh`, or found on the path; without one its numbers are null.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// What `scripts/prometheus.sh` builds.
const VERSION: &str = "3.15.0";

const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Where to ask, and with which token.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: String,
    pub(crate) root: &'static str,
    pub(crate) token: Option<String>,
}

/// A connection that is kept.
pub(crate) struct Talk<'a> {
    place: &'a Place,
    stream: BufReader<TcpStream>,
}

impl Place {
    pub(crate) fn talk(&self) -> anyhow::Result<Talk<'_>> {
        let stream = TcpStream::connect(&self.address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Talk { place: self, stream: BufReader::new(stream) })
    }
}

impl Talk<'_> {
    /// Posts a body; its answer, if it is one of success.
    pub(crate) fn post(
        &mut self,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> anyhow::Result<Vec<u8>> {
        let Place { address, root, token } = self.place;
        let token = token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        let head = format!(
            "POST {root}/api/v1/{path} HTTP/1.1\r\nHost: {address}\r\n{token}{headers}\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let (mut line, mut length, mut chunked) = (String::new(), 0, false);
        self.stream.read_line(&mut line)?;
        let code = line.split(' ').nth(1).unwrap_or_default().to_owned();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(number) = header.strip_prefix("content-length:") {
                length = number.trim().parse()?;
            }
            chunked |= header == "transfer-encoding: chunked";
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        while chunked {
            line.clear();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16)?;
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk)?;
            answer.extend_from_slice(&chunk[..size]);
            chunked = size > 0;
        }
        if !code.starts_with('2') {
            bail!("{path}: {code} {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }
}

/// Started over a folder of its own, and ended when it is dropped.
pub(crate) struct Prometheus {
    process: Child,
    folder: PathBuf,
    pub(crate) place: Place,
    pub(crate) ready_after: Duration,
}

impl Prometheus {
    /// `None` when the machine has none.
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Option<Prometheus>> {
        let Some(program) = program() else { return Ok(None) };
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        std::fs::create_dir_all(folder)?;
        let config = folder.join("prometheus.yml");
        std::fs::write(&config, "")?;
        let started = Instant::now();
        let process = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start Prometheus")?;
        let place = Place { address, root: "", token: None };
        let folder = folder.to_owned();
        let mut prometheus = Prometheus { process, folder, place, ready_after: Duration::ZERO };
        while !prometheus.is_ready() {
            if started.elapsed() > START_TIME_MAX {
                bail!("Prometheus was not ready within {START_TIME_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        prometheus.ready_after = started.elapsed();
        Ok(Some(prometheus))
    }

    fn is_ready(&self) -> bool {
        let ask = || {
            let form = "Content-Type: application/x-www-form-urlencoded\r\n";
            self.place.talk()?.post("query", form, b"query=1")
        };
        ask().is_ok()
    }

    /// Ends it as a crash would, and starts it over the same data.
    pub(crate) fn restart(self) -> anyhow::Result<Option<Prometheus>> {
        let folder = self.folder.clone();
        drop(self);
        Prometheus::start(&folder)
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let built = cache.map(|cache| cache.join("tombolo/prometheus").join(VERSION));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = built.into_iter().chain(std::env::split_paths(&paths));
    folders.find_map(|folder| Some(folder.join("prometheus")).filter(|path| path.is_file()))
}

/// What a process holds in memory, in bytes.
pub(crate) fn resident_bytes(process: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages: u64 = text.split(' ').nth(1).context("statm has a second number")?.parse()?;
    Ok(pages * 4096)
}

/// All files of a folder, in bytes.
pub(crate) fn folder_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => folder_bytes(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}
