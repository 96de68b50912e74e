//! Ending an instance. Once [`stop`] has returned, the engine has written down until when each
//! container may take, and has passed on the signal: whatever becomes of this agent, the next one
//! finds it so, and sees to the rest ([`see_to`]).
//!
//! The engine's own `stop` is not used: it answers when all is over, and a request that is cut off
//! before the engine has read it leaves a container that everybody believes to be ending.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::Docker;
use bollard::query_parameters::{KillContainerOptions, RenameContainerOptions};
use tombolo_driver::{InstanceId, Result};

use crate::look::Seen;
use crate::{Inner, error, held, list, tag};

/// What the engine takes for the end that nobody can refuse.
const KILL: &str = "SIGKILL";
/// What most programs take for a wish to end.
const STOP_SIGNAL_DEFAULT: &str = "SIGTERM";
/// Between two kills of what does not go.
const KILL_AGAIN: Duration = Duration::from_secs(2);
/// Nobody waits longer for the end of what an earlier agent has stopped, whatever the clock says.
const REST_MAX: Duration = Duration::from_secs(60 * 60);

pub(crate) async fn stop(inner: &Arc<Inner>, id: &InstanceId, grace: Duration) -> Result<()> {
    let docker = inner.connection.docker().await?;
    for seen in list::seen(inner, Some(id)).await? {
        if seen.is_running() {
            ask(&docker, inner, &seen, grace).await?;
        }
    }
    Ok(())
}

/// Writes down that it is to end, and tells it so.
async fn ask(docker: &Docker, inner: &Arc<Inner>, seen: &Seen, grace: Duration) -> Result<()> {
    let earlier = tag::stopping_until(&seen.name);
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let until = now_ms().saturating_add(grace_ms);
    if earlier.is_some_and(|earlier| earlier <= until) {
        return Ok(());
    }
    held(&inner.cache).forget(&seen.container);
    // Before the name says so: whoever looks in between must not take it for left behind.
    watch_over(inner, &seen.container, grace);
    let options = RenameContainerOptions { name: tag::stopping_name(&seen.name, until) };
    if let Err(error) = docker.rename_container(&seen.container, options).await {
        let_go(inner, &seen.container);
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
        let_go(inner, &seen.container);
    }
    held(&inner.cache).forget(&seen.container);
    inner.wake();
    told
}

/// Takes on whatever is ending and has nobody who waits for it; lets go of what has ended. `seen` is
/// all that there is.
pub(crate) fn see_to(inner: &Arc<Inner>, seen: &[Arc<Seen>]) {
    let running = seen.iter().filter(|seen| seen.is_running());
    let running: BTreeSet<&str> = running.map(|seen| seen.container.as_str()).collect();
    held(&inner.stops).retain(|container, task| {
        let goes_on = running.contains(container.as_str());
        if !goes_on {
            task.abort();
        }
        goes_on
    });
    adopt(inner, seen);
}

/// Sees to it that what an earlier agent has begun to stop ends.
pub(crate) fn adopt(inner: &Arc<Inner>, seen: &[Arc<Seen>]) {
    for seen in seen {
        let Some(until) = tag::stopping_until(&seen.name) else { continue };
        if !seen.is_running() || held(&inner.stops).contains_key(&seen.container) {
            continue;
        }
        let rest = Duration::from_millis(until.saturating_sub(now_ms())).min(REST_MAX);
        tracing::info!(container = seen.name, ?rest, "an earlier agent has begun to stop it");
        watch_over(inner, &seen.container, rest);
        let (inner, seen) = (Arc::clone(inner), Arc::clone(seen));
        // The earlier one may have ended before it could say so.
        let telling = tokio::spawn(async move {
            let Ok(docker) = inner.connection.docker().await else { return };
            if let Err(error) = send(&docker, &inner, &seen.container, stop_signal(&seen)).await {
                tracing::warn!(container = seen.name, %error, "cannot tell it to end");
            }
        });
        drop(telling);
    }
}

fn let_go(inner: &Inner, container: &str) {
    if let Some(task) = held(&inner.stops).remove(container) {
        task.abort();
    }
}

/// Kills the container when its time is over, and again until it is gone.
fn watch_over(inner: &Arc<Inner>, container: &str, rest: Duration) {
    let (own, name) = (Arc::downgrade(inner), container.to_owned());
    let task = tokio::spawn(async move {
        tokio::time::sleep(rest).await;
        loop {
            let Some(inner) = own.upgrade() else { return };
            let ended = match inner.connection.docker().await {
                Ok(docker) => send(&docker, &inner, &name, KILL).await,
                Err(error) => Err(error),
            };
            match ended {
                Ok(Told::Gone) => return inner.wake(),
                Ok(Told::Heard) => (),
                Err(error) => tracing::warn!(container = name, %error, "cannot end it yet"),
            }
            drop(inner);
            tokio::time::sleep(KILL_AGAIN).await;
        }
    });
    if let Some(before) = held(&inner.stops).insert(container.to_owned(), task.abort_handle()) {
        before.abort();
    }
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
