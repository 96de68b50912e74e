//! `tombolo lighthouse`: a server that knows where controllers are and runs no loops; and the other
//! side, a controller that registers there.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::up::{self, Part, UpArgs};
use crate::args::Globals;
use crate::connection::Connection;
use crate::failure::{Exit, Failure};

/// Two renewals may be lost before the registration, which lasts a minute, is over.
const RENEW_EVERY: Duration = Duration::from_secs(20);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Run a lighthouse: controllers register here, agents and clients ask where they are.
///
/// Every controller is a lighthouse too; a separate one gives several controllers one known address.
/// Registering takes a token with the role manager (`tombolo token create`); any token may list them: GET
/// /tombolo/controllers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo lighthouse --listen 0.0.0.0:7071")]
pub(crate) struct LighthouseArgs {
    #[command(flatten)]
    up: UpArgs,
}

pub(crate) fn run(args: LighthouseArgs) -> Result<Exit, Failure> {
    up::run_part(args.up, Part::Lighthouse)
}

/// Keeps a controller registered at the lighthouse of `kubeconfig`; never ends.
pub(super) async fn register_at(kubeconfig: PathBuf, name: String, addresses: Vec<String>) {
    let globals = Globals {
        kubeconfig: Some(kubeconfig),
        lighthouse_config: None,
        context: None,
        namespace: None,
        request_timeout: REQUEST_TIMEOUT,
        verbose: 0,
    };
    let registration = json!({"name": name, "addresses": addresses});
    loop {
        let registered = async {
            let connection = Connection::open(&globals).await?;
            connection.post("/tombolo/controllers", &registration).await
        };
        if let Err(failure) = registered.await {
            tracing::warn!(why = failure.message, "cannot register at the lighthouse");
        }
        tokio::time::sleep(RENEW_EVERY).await;
    }
}
