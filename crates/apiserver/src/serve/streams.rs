//! The requests of one HTTP/2 connection, each a task.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::report;
use crate::traffic::Progress;

/// Runs the requests, and ends them when the connection is cut: none goes on for a client that is
/// gone. A request whose answer the client does not take is given up alone; its stream is reset. Only
/// when nothing is left but bytes that the protocol holds, the connection must end.
#[derive(Clone)]
pub(super) struct Streams {
    running: Arc<Mutex<JoinSet<()>>>,
    write: Duration,
    /// Told when the end of an answer is not taken.
    stuck: Arc<Notify>,
}

impl Streams {
    pub(super) fn new(write: Duration) -> Streams {
        Streams { running: Arc::default(), write, stuck: Arc::default() }
    }

    /// Ends when a client does not take the end of an answer.
    pub(super) async fn stuck(&self) {
        self.stuck.notified().await;
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (write, stuck) = (self.write, self.stuck.clone());
        // A panic while the lock was held cannot leave the set half changed.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = running.try_join_next() {
            report(ended);
        }
        running.spawn(async move {
            let progress = Progress::default();
            tokio::select! {
                // The stream first: what it hands on is what the next one looks at.
                biased;
                () = progress.scope(stream) => (),
                () = progress.stands_still(write) => {
                    tracing::debug!("the client does not read an answer; its stream is reset");
                    return;
                }
            }
            tokio::select! {
                () = progress.all_written() => (),
                () = progress.stands_still(write) => stuck.notify_one(),
            }
        });
    }
}
