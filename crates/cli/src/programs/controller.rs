//! `tombolo controller`: the control plane without an agent for this machine, or the loops alone.

use std::sync::Arc;

use clap::Args;
use tombolo_controller::Board;
use tombolo_controller::clock::Clock;

use super::up::{self, Part, UpArgs};
use crate::args::Globals;
use crate::connection::Connection;
use crate::failure::{Exit, Failure};
use crate::output;

/// Run the control plane without an agent for this machine.
///
/// With --kubeconfig, only the loops run, against the API server that it names, which may be a
/// Kubernetes cluster with our kinds installed (`tombolo crds | kubectl apply -f -`). There may be
/// several: one of them leads, by the Lease tombolo-leader in tombolo-system, the others stand by.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo controller --listen 0.0.0.0:7070
  tombolo controller --kubeconfig ~/.kube/config")]
pub(crate) struct ControllerArgs {
    #[command(flatten)]
    up: UpArgs,
}

pub(crate) fn run(args: ControllerArgs, globals: &Globals) -> Result<Exit, Failure> {
    if globals.kubeconfig.is_none() {
        return up::run_part(args.up, Part::Loops);
    }
    let runtime = up::runtime()?;
    runtime.block_on(run_loops(globals))?;
    Ok(Exit::Ok)
}

async fn run_loops(globals: &Globals) -> Result<(), Failure> {
    let connection = Connection::open(globals).await?;
    // A server that is not there, or does not let us in, is better told now than logged for ever.
    connection.get("/apis/tombolo.dev/v1alpha1/nodes?limit=1").await?;
    let stop = up::stop_signal().map_err(|error| Failure::failed(format!("{error:#}")))?;
    let me = format!("{}-{}", tombolo_agent::machine::host_name(), std::process::id());
    output::note(&format!(
        "the loops of {me} run against {}; Ctrl-C stops them",
        connection.server
    ));
    let board = Board::new(Clock::start());
    let work = || {
        // What is measured is measured elsewhere; policies over it say that they do not know.
        let engine = Arc::new(tombolo_controller::NoSamples);
        let stop = up::stopped(stop.clone());
        tombolo_controller::run(&board, |_| connection.client(), engine, stop)
    };
    let stopped = up::stopped(stop.clone());
    tombolo_controller::leader::lead(connection.client(), &me, stopped, work).await;
    output::note("stopped");
    Ok(())
}
