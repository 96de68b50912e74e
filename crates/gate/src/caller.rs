//! A request that has come through the door of its home. Handlers of guarded routes find a [`Caller`]
//! among the request's extensions, and have no other way to a resource.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{AsyncBufRead as _, AsyncBufReadExt as _};
use tombolo_identity::{Permit, Subject};
use tombolo_model::errand::LogOptions;
use tombolo_model::keys;

use crate::log_end::{Log, LogEnd};

/// Whether who was let in would still be: a token may have been revoked or have expired, a node
/// removed. Asked now and then while something flows.
pub type Still = Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// Who asks and what they were allowed, and a client that may do what they may and no more.
#[derive(Clone)]
pub struct Caller {
    /// The proof that the door asked the table of rights.
    pub permit: Permit,
    pub client: kube::Client,
    pub address: IpAddr,
    pub still: Still,
}

impl Caller {
    pub fn subject(&self) -> &Subject {
        self.permit.subject()
    }

    /// The end of the log of an instance, if the caller may read it; `bytes_max` of it at most. For
    /// facades.
    pub async fn log(
        &self,
        namespace: &str,
        assignment: &str,
        options: &LogOptions,
        bytes_max: usize,
    ) -> Result<Log, kube::Error> {
        let numbers = [("tailLines", options.tail_lines), ("sinceSeconds", options.since_seconds)];
        let flags = [("timestamps", options.timestamps), ("previous", options.previous)];
        let numbers =
            numbers.iter().filter_map(|(key, value)| Some(format!("{key}={}", (*value)?)));
        let flags = flags.iter().filter(|(_, set)| *set).map(|(key, _)| format!("{key}=true"));
        let query: Vec<String> = numbers.chain(flags).collect();
        let path = format!(
            "/apis/{}/namespaces/{namespace}/assignments/{assignment}/log?{}",
            keys::API_VERSION,
            query.join("&")
        );
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let mut stream = pin!(self.client.request_stream(request).await?);
        let mut end = LogEnd::new(bytes_max);
        loop {
            let piece = stream.fill_buf().await.map_err(kube::Error::ReadEvents)?;
            if piece.is_empty() {
                return Ok(end.finish());
            }
            let length = piece.len();
            end.push(piece);
            stream.as_mut().consume(length);
        }
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Caller").field("permit", &self.permit).finish_non_exhaustive()
    }
}
