//! The engines that this agent serves. [`set_up`] writes down which, [`open`] opens them: called by
//! [`crate::run()`]. A new driver gets a line here.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tombolo_driver::Driver;
use tombolo_driver_docker::{Guarded, SOCKET_DEFAULT, Used};
use tombolo_driver_process::Options;
use tombolo_identity::Remit;
use tombolo_model::Engine;

use crate::converge::Drivers;
use crate::credentials::Folder;
use crate::{Error, machine};

/// Where the process driver keeps its instances, in the agent's folder.
pub(crate) const INSTANCES: &str = "instances";
/// Where the Docker driver keeps its deadlines, in the agent's folder.
const DOCKER: &str = "docker";
/// Which engines there are beside the host itself, in the agent's folder.
const ENGINES: &str = "engines.json";
/// So much of a digest tells one controller from another.
const MARK_CHARS: usize = 16;

/// Where a Docker engine is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DockerAt {
    /// Where it usually listens. If nobody does, it is looked for again and again.
    #[default]
    Usual,
    Socket(PathBuf),
    /// No containers are run.
    Nowhere,
}

impl DockerAt {
    pub fn socket(&self) -> Option<PathBuf> {
        match self {
            DockerAt::Usual => Some(PathBuf::from(SOCKET_DEFAULT)),
            DockerAt::Socket(path) => Some(path.clone()),
            DockerAt::Nowhere => None,
        }
    }
}

/// `/run/docker.sock`, `unix:///run/docker.sock` or `none`.
impl FromStr for DockerAt {
    type Err = String;

    fn from_str(text: &str) -> Result<DockerAt, String> {
        match text.strip_prefix("unix://").unwrap_or(text) {
            "none" => Ok(DockerAt::Nowhere),
            path if path.starts_with('/') => Ok(DockerAt::Socket(path.into())),
            _ => Err(format!(
                "{text:?} is not a Docker engine on this machine: name its socket, such as \
                 {SOCKET_DEFAULT}, or say none"
            )),
        }
    }
}

/// What is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Engines {
    /// Tells this agent from others with the same name that belong to other controllers.
    mark: String,
    docker: Option<Docker>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Docker {
    socket: PathBuf,
    /// Under which name the engine keeps what is ours.
    agent: String,
}

/// Writes down which engines there are. `authority` is the certificate of the controller's authority, for
/// an agent that has joined: an agent that is installed anew finds again what it ran.
pub fn set_up(
    folder: &Folder,
    docker: &DockerAt,
    remit: &Remit,
    authority: Option<&str>,
) -> Result<(), Error> {
    let text = folder.read(ENGINES)?;
    let known: Engines =
        text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mark = match authority {
        Some(authority) => fingerprint(authority),
        None if known.mark.is_empty() => machine::random_hex()?.chars().take(MARK_CHARS).collect(),
        None => known.mark,
    };
    let agent = format!("{}/{}@{mark}", remit.site(), remit.name());
    let engines = Engines { docker: docker.socket().map(|socket| Docker { socket, agent }), mark };
    let wanted = serde_json::to_string(&engines).unwrap_or_default();
    match text.is_some_and(|text| text == wanted) {
        true => Ok(()),
        false => folder.write(ENGINES, &wanted),
    }
}

/// Where the Docker engine of the agent with this folder listens; where one usually does if there is no agent yet.
pub(crate) fn docker_socket(folder: &Path) -> Option<PathBuf> {
    match folder.join(ENGINES).exists() {
        true => written(folder).docker.map(|docker| docker.socket),
        false => DockerAt::Usual.socket(),
    }
}

fn fingerprint(authority: &str) -> String {
    let digest = digest(&SHA256, authority.trim().as_bytes());
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    hex.collect::<String>().chars().take(MARK_CHARS).collect()
}

/// Opens them: processes of the host always, and what is written down. Call it inside a tokio
/// runtime.
pub fn open(folder: &Path) -> Result<Drivers, Error> {
    open_with(folder, written(folder).docker)
}

fn open_with(folder: &Path, docker: Option<Docker>) -> Result<Drivers, Error> {
    let host = tombolo_driver_process::open(&folder.join(INSTANCES), Options::default())?;
    let host: Arc<dyn Driver> = Arc::new(host);
    let mut drivers = Drivers::from([(Engine::Host, host)]);
    if let Some(Docker { socket, agent }) = docker {
        let log = tombolo_driver_docker::LogLimits::default();
        let guarded = Some(guarded(folder));
        let options = tombolo_driver_docker::Options { socket, agent, log, guarded };
        drivers.insert(Engine::Docker, Arc::new(tombolo_driver_docker::open(options)));
    }
    Ok(drivers)
}

/// As [`open`], without an engine that cannot run anything now, because nothing listens on its socket.
/// The engine on which there are containers counts more than the one that the next start would use.
pub(crate) fn open_those_there(folder: &Path) -> Result<Drivers, Error> {
    let used = used(folder).map(|Used { socket, agent }| Docker { socket, agent });
    let docker = used.or_else(|| written(folder).docker);
    open_with(folder, docker.filter(|docker| answers(&docker.socket)))
}

/// The engine that has, or had, containers of the agent with this folder.
pub(crate) fn used(folder: &Path) -> Option<Used> {
    Used::read(&folder.join(DOCKER))
}

/// Whether somebody listens there.
pub(crate) fn answers(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// Where the Docker driver keeps what is to be known without the engine and without the agent.
fn guarded(folder: &Path) -> Guarded {
    let mut guard = Options::default().supervisor;
    guard.push("guard".into());
    Guarded { folder: folder.join(DOCKER), guard }
}

fn written(folder: &Path) -> Engines {
    let text = std::fs::read_to_string(folder.join(ENGINES)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_a_socket_of_this_machine() {
        let socket = DockerAt::Socket("/run/d.sock".into());
        assert_eq!("/run/d.sock".parse(), Ok(socket.clone()));
        assert_eq!("unix:///run/d.sock".parse(), Ok(socket));
        assert_eq!("none".parse(), Ok(DockerAt::Nowhere));
        for other in ["tcp://10.0.0.1:2375", "ssh://host", "", "docker.sock"] {
            assert!(other.parse::<DockerAt>().is_err(), "{other}");
        }
    }

    #[test]
    fn agents_of_two_controllers_differ_and_one_stays_the_same() {
        let remit = Remit::Node { site: "north".to_owned(), node: "crane".to_owned() };
        let agent = |folder: &Folder, authority| {
            set_up(folder, &DockerAt::Usual, &remit, authority).unwrap();
            let engines = folder.read(ENGINES).unwrap().unwrap();
            serde_json::from_str::<Engines>(&engines).unwrap().docker.unwrap().agent
        };
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, two] = folders.each_ref().map(|folder| Folder::open(folder.path()).unwrap());
        assert_ne!(agent(&one, None), agent(&two, None), "two servers with an agent inside");
        assert_eq!(agent(&one, None), agent(&one, None), "the same after a restart");
        assert_eq!(agent(&one, Some("ca")), agent(&two, Some("ca")), "installed anew");
        assert_ne!(agent(&one, Some("ca")), agent(&one, Some("another")));
    }
}
