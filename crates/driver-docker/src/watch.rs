//! Following the engine's events, so that the agent looks when there is something to see. One task
//! for each driver; when the engine goes it tells so, and waits for it to come back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::query_parameters::EventsOptions;
use futures::StreamExt;

use crate::{Inner, held, tag};

/// Between two tries to reach an engine that is away.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// What changes an instance. Commands inside of one are none of it: health checks would wake the
/// agent all the time.
const ACTIONS: &[&str] =
    &["create", "start", "die", "oom", "rename", "destroy", "pause", "unpause", "health_status"];

pub(crate) async fn watch(inner: Arc<Inner>) {
    loop {
        follow(&inner).await;
        // Nothing that was known before counts: the engine may be another one.
        held(&inner.seen).forget(None);
        inner.wake();
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Returns when the engine is gone.
async fn follow(inner: &Inner) {
    let Ok(docker) = inner.connection.docker().await else { return };
    let options = EventsOptions { filters: Some(filters()), ..EventsOptions::default() };
    let mut events = docker.events(Some(options));
    held(&inner.seen).forget(None);
    inner.wake();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let container = event.actor.and_then(|actor| actor.id);
                held(&inner.seen).forget(container.as_deref());
                inner.wake();
            }
            Err(error) => {
                let error = inner.connection.failed("follow the engine's events", error);
                tracing::debug!(%error, "events end");
                return;
            }
        }
    }
}

fn filters() -> HashMap<String, Vec<String>> {
    let mut filters = tag::filter(None);
    filters.insert("type".to_owned(), vec!["container".to_owned()]);
    filters.insert("event".to_owned(), ACTIONS.iter().map(|one| (*one).to_owned()).collect());
    filters
}
