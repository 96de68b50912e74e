//! Following the engine's events, so that the agent looks when there is something to see. One task
//! for each driver; when the engine goes it tells so, and waits for it to come back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::EventsOptions;
use futures::StreamExt;

use crate::{Inner, locked, tag};

/// Between two tries to reach an engine that was there a moment ago, which double up to the second.
const TRY_AGAIN_MIN: Duration = Duration::from_millis(250);
const TRY_AGAIN_MAX: Duration = Duration::from_secs(2);

/// What changes an instance. Commands inside an instance are left out: health checks would wake the agent
/// all the time.
const ACTIONS: &[&str] =
    &["create", "start", "die", "oom", "rename", "destroy", "pause", "unpause", "health_status"];

pub(crate) async fn watch(inner: Arc<Inner>) {
    let mut pause = TRY_AGAIN_MIN;
    loop {
        // Nobody is woken by an engine that is still away.
        if let Ok(docker) = inner.connection.docker().await
            && let Some(since) = time(&docker).await
        {
            pause = TRY_AGAIN_MIN;
            follow(&inner, &docker, since).await;
            locked(&inner.cache).lose();
            inner.connection.forget();
            inner.wake();
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(TRY_AGAIN_MAX);
    }
}

/// The time by the engine's own clock. Whatever happens from it on is told, however long it takes
/// until we listen.
async fn time(docker: &Docker) -> Option<String> {
    let info = docker.info().await.ok()?;
    let time: jiff::Timestamp = info.system_time?.parse().ok()?;
    Some(format!("{}.{:09}", time.as_second(), time.subsec_nanosecond()))
}

/// Returns when the engine is gone.
async fn follow(inner: &Inner, docker: &Docker, since: String) {
    let filters = Some(filters(inner));
    let options = EventsOptions { since: Some(since), filters, ..EventsOptions::default() };
    let mut events = docker.events(Some(options));
    locked(&inner.cache).follow();
    inner.wake();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if let Some(container) = event.actor.and_then(|actor| actor.id) {
                    locked(&inner.cache).forget(&container);
                }
                inner.wake();
            }
            Err(error) => {
                tracing::debug!(%error, "events end");
                return;
            }
        }
    }
}

fn filters(inner: &Inner) -> HashMap<String, Vec<String>> {
    let mut filters = tag::filter(&inner.options.agent, None);
    filters.insert("type".to_owned(), vec!["container".to_owned()]);
    filters.insert("event".to_owned(), ACTIONS.iter().map(|one| (*one).to_owned()).collect());
    filters
}
