//! The loops, wired to a Kubernetes-style API: each looks, lets `tombolo-plan` decide, and acts.
//!
//! The API may be our own or a cluster's; a loop holds a `kube::Client` and cannot tell. Called by
//! `tombolo up` and `tombolo controller`. Start reading at `sites`, the smallest loop, and `harness`,
//! which runs them all.
//!
//! One process runs the loops: `tombolo up` has its store to itself, and of several `tombolo
//! controller` on one cluster [`leader`] chooses one.

mod board;
pub mod clock;
mod event;
pub mod explainer;
mod foreign;
mod harness;
pub mod leader;
mod leases;
mod links;
mod mirror;
mod oversight;
pub mod patch;
mod placing;
mod policies;
mod report;
mod sites;
mod world;

use std::future::Future;
use std::sync::Arc;

use futures::FutureExt as _;
use kube::Client;
use tokio::task::JoinSet;
use tombolo_policy::look::{Engine, Question, Seen};

pub use board::Board;
pub use explainer::Explainer;
pub use harness::{BeforeLook, keep};

use harness::Harness;
use world::World;

/// Where no samples are near: policies over what is measured are unknown, and say why.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSamples;

impl Engine for NoSamples {
    fn ask(&self, _: &str, _: &Question, _: i64) -> Result<Vec<Seen>, String> {
        Err("this controller has no store of samples".to_owned())
    }
}

/// Runs every loop until `stop` is ready. Each has a task of its own, so that a long decision of
/// one holds up no other, and a client under its own name. How they fare is on the board.
pub async fn run(
    board: &Board,
    client: impl Fn(&'static str) -> Client,
    engine: Arc<dyn Engine>,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    run_with(board, client, engine, stop, Arc::new(|_| ())).await;
}

/// The same, with something that is called before each look.
pub async fn run_with(
    board: &Board,
    client: impl Fn(&'static str) -> Client,
    engine: Arc<dyn Engine>,
    stop: impl Future<Output = ()> + Send + 'static,
    before_look: BeforeLook,
) {
    let world = World::new(engine);
    board.show(&world);
    let stop = stop.boxed().shared();
    let harness = Harness { board: board.clone(), world: world.clone(), before_look, stop };
    let mut tasks = JoinSet::new();
    harness.start::<leases::Leases>(&mut tasks, &client);
    harness.start::<sites::Sites>(&mut tasks, &client);
    harness.start::<foreign::Translation>(&mut tasks, &client);
    harness.start::<placing::Placing>(&mut tasks, &client);
    harness.start::<policies::Policies>(&mut tasks, &client);
    harness.start::<links::Links>(&mut tasks, &client);
    let watching = client("mirrors");
    let mirrors = keep(board, &watching, "mirrors", || {
        (harness.before_look)("mirrors");
        world.keep(&watching)
    });
    let telling = client(oversight::NAME);
    let oversight = keep(board, &telling, oversight::NAME, || {
        oversight::watch_over(board, &telling, &harness.before_look)
    });
    let loops = async { while tasks.join_next().await.is_some() {} };
    // The mirrors go on until the last loop has come to its end.
    tokio::select! {
        () = loops => (),
        () = mirrors => (),
        () = oversight => (),
    }
}
