//! Ending an instance. Once [`stop`] has returned, the engine has written down until when each
//! container may take, and has passed on the signal: whatever becomes of this agent, the next one
//! finds it so, and sees to the rest ([`Ends::see_to`]).
//!
//! The engine's own `stop` is not used: it answers when all is over, and a request that is cut off
//! before the engine has read it leaves a container that everybody believes to be ending.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::Docker;
use bollard::query_parameters::{KillContainerOptions, RenameContainerOptions};
use tokio::task::{AbortHandle, JoinSet};
use tombolo_driver::{InstanceId, Result};

use crate::look::Seen;
use crate::{Inner, error, list, locked, tag};

/// What the engine takes for the end that nobody can refuse.
const KILL: &str = "SIGKILL";
/// What most programs take for a wish to end.
const STOP_SIGNAL_DEFAULT: &str = "SIGTERM";
/// Between two kills of what does not go.
const KILL_AGAIN: Duration = Duration::from_secs(2);
/// Nobody waits longer for the end of what an earlier agent has stopped, whatever the clock says.
const REST_MAX: Duration = Duration::from_secs(60 * 60);

/// The containers of one instance that are ending, each with a task that waits for its end.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    tasks: JoinSet<()>,
    by_container: BTreeMap<String, AbortHandle>,
}

pub(crate) async fn stop(
    inner: &Arc<Inner>,
    id: &InstanceId,
    grace: Duration,
    ends: &mut Ends,
) -> Result<()> {
    let docker = inner.connection.docker().await?;
    let seen = list::seen(inner, Some(id)).await?;
    ends.adopt(inner, &seen);
    for seen in seen.iter().filter(|seen| seen.is_running()) {
        ask(&docker, inner, seen, grace, ends).await?;
    }
    Ok(())
}

/// Whether it was asked to end, and has not ended yet.
pub(crate) fn is_ending(seen: &Seen) -> bool {
    seen.is_running() && tag::stopping_until(&seen.name).is_some()
}

/// Writes down that it is to end, and tells it so.
async fn ask(
    docker: &Docker,
    inner: &Arc<Inner>,
    seen: &Seen,
    grace: Duration,
    ends: &mut Ends,
) -> Result<()> {
    let earlier = tag::stopping_until(&seen.name);
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let until = now_ms().saturating_add(grace_ms);
    if earlier.is_some_and(|earlier| earlier <= until) {
        return Ok(());
    }
    locked(&inner.cache).forget(&seen.container);
    // Before the name says so: a look in between must not take the container for one that an earlier
    // agent left behind.
    ends.watch_over(inner, &seen.container, None, grace);
    let options = RenameContainerOptions { name: tag::stopping_name(&seen.name, until) };
    if let Err(error) = docker.rename_container(&seen.container, options).await {
        ends.let_go(&seen.container);
        return match error::status(&error) {
            Some(404) => Ok(()),
            Some(_) | None => Err(inner.connection.failed("stop it", error)),
        };
    }
    let signal = match (grace.is_zero(), earlier) {
        (true, _) => Some(KILL),
        (false, None) => Some(stop_signal(seen)),
        // It has been told; it only has less time now.
        (false, Some(_)) => None,
    };
    let told = match signal {
        Some(signal) => send(docker, inner, &seen.container, signal).await.map(drop),
        None => Ok(()),
    };
    if told.is_err() {
        // The next look finds it as if an earlier agent had left it so, and tells it again.
        ends.let_go(&seen.container);
    }
    locked(&inner.cache).forget(&seen.container);
    inner.wake();
    told
}

impl Ends {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_container.is_empty()
    }

    /// Comes when one of them has ended; never if there is none.
    pub(crate) async fn next(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.by_container.retain(|_, task| !task.is_finished());
    }

    /// Takes on what is ending and has nobody who waits for it; lets go of what has ended. `seen` is all
    /// that there is of the instance.
    pub(crate) fn see_to(&mut self, inner: &Arc<Inner>, seen: &[Arc<Seen>]) {
        let running = seen.iter().filter(|seen| seen.is_running());
        let running: BTreeSet<&str> = running.map(|seen| seen.container.as_str()).collect();
        let ended = self.by_container.keys().filter(|name| !running.contains(name.as_str()));
        for container in ended.cloned().collect::<Vec<String>>() {
            self.let_go(&container);
        }
        self.adopt(inner, seen);
    }

    /// Sees to it that what an earlier agent has begun to stop ends.
    pub(crate) fn adopt(&mut self, inner: &Arc<Inner>, seen: &[Arc<Seen>]) {
        for seen in seen.iter().filter(|seen| is_ending(seen)) {
            let Some(until) = tag::stopping_until(&seen.name) else { continue };
            if self.by_container.contains_key(&seen.container) {
                continue;
            }
            let rest = Duration::from_millis(until.saturating_sub(now_ms())).min(REST_MAX);
            tracing::info!(container = seen.name, ?rest, "an earlier agent has begun to stop it");
            // That one may have ended before it could tell the container so.
            self.watch_over(inner, &seen.container, Some(stop_signal(seen)), rest);
        }
    }

    pub(crate) fn let_go(&mut self, container: &str) {
        if let Some(task) = self.by_container.remove(container) {
            task.abort();
        }
    }

    /// Kills the container when its time is over, and again until it is gone. Before that it is told to
    /// end, if there is a signal.
    fn watch_over(
        &mut self,
        inner: &Arc<Inner>,
        container: &str,
        signal: Option<&str>,
        rest: Duration,
    ) {
        self.let_go(container);
        let (inner, name) = (Arc::clone(inner), container.to_owned());
        let signal = signal.map(str::to_owned);
        let task = self.tasks.spawn(async move {
            if let Some(signal) = signal
                && let Err(error) = tell(&inner, &name, &signal).await
            {
                tracing::warn!(container = name, %error, "cannot tell it to end");
            }
            tokio::time::sleep(rest).await;
            loop {
                match tell(&inner, &name, KILL).await {
                    Ok(Told::Gone) => return inner.wake(),
                    Ok(Told::Heard) => (),
                    Err(error) => tracing::warn!(container = name, %error, "cannot end it yet"),
                }
                tokio::time::sleep(KILL_AGAIN).await;
            }
        });
        self.by_container.insert(container.to_owned(), task);
    }
}

async fn tell(inner: &Inner, container: &str, signal: &str) -> Result<Told> {
    let docker = inner.connection.docker().await?;
    send(&docker, inner, container, signal).await
}

/// What came of a signal.
enum Told {
    Heard,
    /// Nobody was there to hear it.
    Gone,
}

async fn send(docker: &Docker, inner: &Inner, container: &str, signal: &str) -> Result<Told> {
    let options = KillContainerOptions { signal: signal.to_owned() };
    match docker.kill_container(container, Some(options)).await {
        Ok(()) => Ok(Told::Heard),
        Err(error) if error::is_not_running(&error) => Ok(Told::Gone),
        Err(error) => Err(inner.connection.failed("stop it", error)),
    }
}

/// What the image or the project says; a word that the engine does not know would be an error.
fn stop_signal(seen: &Seen) -> &str {
    let signal = seen.inspected.config.as_ref().and_then(|config| config.stop_signal.as_deref());
    signal.filter(|signal| !signal.is_empty()).unwrap_or(STOP_SIGNAL_DEFAULT)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
