//! Routes beside the Kubernetes protocol: facades and the console. They go through the same door
//! as every other request, and their handlers act with the rights of whoever asks. Called by the
//! programs that put the router together; start at [`Api::guarded`].

use std::pin::pin;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::{AsyncBufRead as _, AsyncBufReadExt as _};
use tombolo_identity::{Subject, Verb, access};
use tombolo_model::errand::LogOptions;
use tombolo_model::keys;

use crate::authenticate;
pub use crate::log_end::Log;
use crate::log_end::LogEnd;
use crate::request::parse_path;
use crate::server::{Api, authorize, explain_refusal, read_body};
use crate::status::Failure;

/// Who asks, and a client that may do what they may and no more. Handlers of guarded routes find
/// it among the request's extensions; they have no other way to a resource.
#[derive(Clone)]
pub struct Caller {
    pub subject: Subject,
    pub client: kube::Client,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Caller").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl Caller {
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

impl Api {
    /// `routes`, reached only by those whom the table of rights lets to the path, with a [`Caller`]
    /// and a body that has arrived whole, in time and within bounds.
    pub fn guarded(&self, routes: Router) -> Router {
        routes.route_layer(from_fn_with_state(self.clone(), guard))
    }
}

async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    match admit(&api, request).await {
        Ok((request, _room)) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

async fn admit(api: &Api, request: Request) -> Result<(Request, impl Sized), Failure> {
    let (mut parts, body) = request.into_parts();
    let subject = authenticate::subject(api, &parts)?;
    let verb = Verb::of_method(parts.method.as_str());
    authorize(&subject, verb, access::Target::Path(parts.uri.path()))
        .map_err(|failure| explain_refusal(failure, &parts))?;
    let room = api.traffic.enter(&subject, &parse_path(parts.uri.path()))?;
    let body = read_body(body).await?;
    let client = api.client(subject.clone());
    parts.extensions.insert(Caller { subject, client });
    Ok((Request::from_parts(parts, Body::from(body)), room))
}
