//! The engines that this agent serves. Called by [`crate::run()`]; a new driver gets a line here.

use std::path::Path;
use std::sync::Arc;

use tombolo_driver::Driver;
use tombolo_driver_process::Options;
use tombolo_model::Engine;

use crate::Error;
use crate::converge::Drivers;

/// Where the process driver keeps its instances, in the agent's folder.
pub(crate) const INSTANCES: &str = "instances";

/// Opens them. Call it inside a tokio runtime.
pub fn open(folder: &Path) -> Result<Drivers, Error> {
    let host = tombolo_driver_process::open(&folder.join(INSTANCES), Options::default())?;
    let host: Arc<dyn Driver> = Arc::new(host);
    Ok(Drivers::from([(Engine::Host, host)]))
}
