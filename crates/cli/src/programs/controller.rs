//! `tombolo controller`: the loops without an agent. Called by `programs::run`.

use clap::Args;

use crate::failure::{Exit, Failure};

/// Run the loops alone, against the server of the kubeconfig.
#[derive(Args, Debug)]
pub(crate) struct ControllerArgs {}

pub(crate) fn run(_args: ControllerArgs) -> Result<Exit, Failure> {
    Err(Failure::failed("this build has no loops to run"))
}
