//! The way to the engine. Every call of the driver asks for it anew with [`Connection::docker`], so that
//! an engine which was gone is found again by the next call.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::{ClientVersion, Docker};
use tombolo_driver::{Error, Result};
use tombolo_model::Engine;

use crate::error;

/// What we ask the engine for is in this version of its API, which Docker has had since 20.10.
const API_VERSION: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };
/// How long the engine may take to begin an answer. A disk that is busy with an image makes it slow.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// It keeps what was agreed upon with the engine, and no connection: each call opens its own, which
/// costs little on a socket of this machine.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: PathBuf,
    agreed: Mutex<Option<Docker>>,
}

impl Connection {
    pub(crate) fn new(socket: PathBuf) -> Connection {
        Connection { socket, agreed: Mutex::default() }
    }

    pub(crate) fn address(&self) -> String {
        self.socket.display().to_string()
    }

    pub(crate) async fn docker(&self) -> Result<Docker> {
        if let Some(docker) = self.agreed().clone() {
            return Ok(docker);
        }
        let docker = self.agree().await?;
        *self.agreed() = Some(docker.clone());
        Ok(docker)
    }

    /// What the error means; if the engine is gone, the next call begins anew: another version of it
    /// may come back.
    pub(crate) fn failed(&self, doing: &str, error: bollard::errors::Error) -> Error {
        if !error::is_lost(&error) {
            return error::told(doing, error);
        }
        self.forget();
        self.unreachable(error)
    }

    /// What was agreed upon may not hold any more.
    pub(crate) fn forget(&self) {
        *self.agreed() = None;
    }

    fn unreachable(&self, error: bollard::errors::Error) -> Error {
        let address = self.address();
        Error::Unreachable { engine: Engine::Docker, address, source: Arc::new(error) }
    }

    fn agreed(&self) -> std::sync::MutexGuard<'_, Option<Docker>> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn agree(&self) -> Result<Docker> {
        let docker = self.connect(&API_VERSION)?;
        match docker.version().await {
            Ok(_) => Ok(docker),
            Err(error) => match error::other_version(&error) {
                Some(minor_version) => {
                    let version = ClientVersion { major_version: 1, minor_version };
                    let docker = self.connect(&version)?;
                    docker.version().await.map_err(|error| self.unreachable(error))?;
                    Ok(docker)
                }
                None => Err(self.unreachable(error)),
            },
        }
    }

    fn connect(&self, version: &ClientVersion) -> Result<Docker> {
        let connected =
            Docker::connect_with_unix(&self.address(), ANSWER_WITHIN.as_secs(), version);
        connected.map_err(|error| self.unreachable(error))
    }
}
