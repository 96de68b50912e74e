//! What the controller asks this node to probe, followed by a watch of the one object that says so. A node of a site
//! that allows no probes has none, and looks for it ever more rarely. Start at [`follow`].

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Api, WatchEvent, WatchParams};
use tokio::sync::watch;
use tombolo_model::Probing;
use tombolo_model::phrase::with_causes;
use tombolo_model::probing::ProbePeer;

use crate::connection::Connection;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The server says every minute that it is still there.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// Pauses between looks for an order that is not there: soon after the start of an agent, since the controller writes
/// it then, and hardly ever later. Each costs some hundred octets.
const NONE_FIRST: Duration = Duration::from_secs(1);
const NONE_MOST: Duration = Duration::from_secs(5 * 60);
const BROKEN: Duration = Duration::from_secs(5);

/// What this node is to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub(super) port: Option<u16>,
    pub(super) peers: Vec<ProbePeer>,
}

/// Follows for ever; ends when nobody hears it any more.
pub(super) async fn follow(
    connection: Connection,
    node: String,
    orders: watch::Sender<Option<Order>>,
) {
    let mut pause = NONE_FIRST;
    while !orders.is_closed() {
        let followed =
            connection.ask(async |client| once(&Api::all(client), &node, &orders).await).await;
        let rest = match followed {
            Some(Ok(Ended::Gone)) => {
                let rest = pause;
                pause = (pause * 2).min(NONE_MOST);
                rest
            }
            Some(Ok(Ended::Over)) => {
                pause = NONE_FIRST;
                Duration::ZERO
            }
            Some(Err(problem)) => {
                tracing::debug!(problem, "cannot read whom to probe");
                BROKEN
            }
            None => Duration::ZERO,
        };
        tokio::time::sleep(rest).await;
    }
}

enum Ended {
    /// There is none.
    Gone,
    /// The time of the watch was over.
    Over,
}

async fn once(
    api: &Api<Probing>,
    node: &str,
    orders: &watch::Sender<Option<Order>>,
) -> Result<Ended, String> {
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, api.get_opt(node)).await;
    let asked = asked.map_err(|late| late.to_string())?.map_err(|error| with_causes(&error))?;
    let Some(probing) = asked else {
        put(orders, None);
        return Ok(Ended::Gone);
    };
    let version = probing.metadata.resource_version.clone().unwrap_or_default();
    put(orders, Some(&probing));
    let params = WatchParams::default().fields(&format!("metadata.name={node}"));
    let opened = tokio::time::timeout(ANSWER_TIMEOUT, api.watch(&params, &version)).await;
    let stream = opened.map_err(|late| late.to_string())?.map_err(|error| with_causes(&error))?;
    let mut stream = pin!(stream);
    loop {
        let event = tokio::time::timeout(SILENCE_MAX, stream.next()).await;
        match event.map_err(|late| late.to_string())? {
            None => return Ok(Ended::Over),
            Some(Err(error)) => return Err(with_causes(&error)),
            Some(Ok(WatchEvent::Added(found) | WatchEvent::Modified(found))) => {
                put(orders, Some(&found));
            }
            Some(Ok(WatchEvent::Deleted(_))) => {
                put(orders, None);
                return Ok(Ended::Gone);
            }
            Some(Ok(WatchEvent::Bookmark(_))) => (),
            Some(Ok(WatchEvent::Error(status))) => return Err(status.message),
        }
    }
}

/// What this node has written itself is in the same object, and is no news.
fn put(orders: &watch::Sender<Option<Order>>, probing: Option<&Probing>) {
    let order =
        probing.map(|probing| Order { port: probing.spec.port, peers: probing.spec.peers.clone() });
    orders.send_if_modified(|known| {
        let is_new = *known != order;
        *known = order;
        is_new
    });
}
