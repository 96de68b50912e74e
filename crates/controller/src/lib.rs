//! The loops, wired to a Kubernetes-style API: each looks, lets `tombolo-plan` decide, and acts.
//!
//! The API may be our own or a cluster's; a loop holds a `kube::Client` and cannot tell. Called by
//! `tombolo up` and `tombolo controller`. Start reading at [`leases`], the pattern of all loops, and
//! `cycle`, which wakes them.
//!
//! One process runs the loops: `tombolo up` has its store to itself, and of several `tombolo
//! controller` on one cluster [`leader`] chooses one.

pub mod clock;
mod cycle;
mod event;
pub mod foreign;
pub mod leader;
pub mod leases;
mod mirror;
pub mod patch;
pub mod placing;
pub mod sites;
mod typed;

use std::future::Future;

use kube::Client;
use tokio::task::JoinSet;

use clock::Clock;

/// Runs every loop until `shutdown` is ready. Each has a task of its own, so that a long decision
/// of one holds up no other, and a client under its own name.
pub async fn run<S>(client: impl Fn(&'static str) -> Client, shutdown: impl Fn() -> S)
where
    S: Future<Output = ()> + Send + 'static,
{
    let clock = Clock::start();
    let mut loops = JoinSet::new();
    loops.spawn(leases::run(client("leases"), clock, shutdown()));
    loops.spawn(sites::run(client("sites"), clock, shutdown()));
    loops.spawn(foreign::run(client("foreign"), clock, shutdown()));
    loops.spawn(placing::run(client("placing"), clock, shutdown()));
    while let Some(ended) = loops.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a loop has ended; restart the server to bring it back");
        }
    }
}
