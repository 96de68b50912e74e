//! The server: its state, and the way of a request from the socket to its handler.
//!
//! Every request is answered by [`Api::dispatch`]: read what it asks, who asks, whether they may; then one
//! handler. Requests from a socket have passed [`crate::traffic`] before.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, IF_NONE_MATCH, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt as _, Limited};
use serde_json::json;
use tombolo_identity::{Permit, Role, Subject, TokenHash, Verb, Via, access};
use tombolo_store::Store;
use tower::ServiceExt as _;

use crate::accept::{self, Representation};
use crate::answer::{Answer, cached, warn};
use crate::discovery::{self, Aggregated, Area};
use crate::health::Loops;
use crate::metrics::Metrics;
use crate::registry::{Registry, Served};
use crate::request::{Path, Query, Target, modern, parse_path, verb};
use crate::serve::Peer;
use crate::status::Failure;
use crate::traffic::flow::Flow;
use crate::traffic::{Charge, Good, Payer, Place, Traffic};
use crate::{
    agents, authenticate, encode, gzip, health, metrics, openapi, own_paths, read, remove, review,
    scale, scope, traffic, watch, write,
};
use tombolo_document::{apply, protobuf};

/// The largest body: twice what Kubernetes' own store would take.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// A client that sends its body slower than this is not coming to an end.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// The API over one store. Cheap to clone; all clones are the same server.
#[derive(Clone, Debug)]
pub struct Api {
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) admin: TokenHash,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) loops: Loops,
    /// What is served beside the protocol, and the protocol itself behind it. Its handlers find the
    /// Api among the extensions of a request: a router that held it would hold itself.
    pub(crate) routes: Router,
}

/// One request, read and allowed: what the handlers get.
#[derive(Debug)]
pub(crate) struct Call {
    pub api: Api,
    pub served: Arc<Served>,
    pub target: Target,
    pub query: Query,
    pub headers: HeaderMap,
    pub subject: Subject,
    /// The key of the certificate that an agent came with.
    pub key: Option<String>,
    /// Who pays for what is held for the request; nobody inside the process.
    pub payer: Option<Payer>,
    /// Where the request sits while it is worked on; nowhere inside the process.
    pub place: Option<Place>,
}

impl Api {
    /// Opens the API over a store, and sees to it that our own kinds and the first namespaces
    /// are there.
    pub async fn open(store: Store, admin: TokenHash) -> Result<Api, Failure> {
        let api = Api {
            registry: Arc::new(Registry::load(&store)),
            store,
            admin,
            traffic: Traffic::new(traffic::Limits::default()),
            metrics: Arc::default(),
            loops: Loops::default(),
            routes: Router::new().fallback(handle),
        };
        crate::bootstrap::run(&api).await?;
        Ok(api)
    }

    /// Keeps to other bounds at the door than the usual ones. Before anything is served and before
    /// any client is made: they go through the door that is there when they are made.
    #[must_use]
    pub fn limited(self, limits: traffic::Limits) -> Api {
        Api { traffic: Traffic::new(limits), ..self }
    }

    /// Everything that the API answers, with what is served beside it.
    pub fn router(&self) -> Router {
        Router::new().fallback(route).with_state(self.clone())
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    async fn dispatch(&self, request: Request) -> Result<Response, Failure> {
        let (mut parts, body) = request.into_parts();
        let path = parse_path(parts.uri.path());
        let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
        let subject = authenticate::subject(self, &parts)?;
        let key = authenticate::key(&parts);
        agents::check(self, &subject, key.as_deref(), &parts.headers)?;
        let verb = match &path {
            Path::Resource(target) => verb(&parts.method, target, &query).ok_or_else(|| {
                let method = &parts.method;
                Failure::new(405, "MethodNotAllowed", format!("{method} is not possible here"))
            })?,
            _ => Verb::of_method(parts.method.as_str()),
        };
        let (permit, body) = match &path {
            Path::Resource(target) if matches!(subject.role, Role::Agent(_)) => {
                let agent = scope::Asked { subject: &subject, verb, target, query: &query };
                agent.authorize(self, &parts.headers, body).await?
            }
            _ => {
                let permit = match &path {
                    Path::Resource(target) => authorize(&subject, verb, resource_of(target)),
                    _ => authorize(&subject, verb, access::Target::Path(parts.uri.path())),
                };
                (permit.map_err(|failure| explain_refusal(failure, &parts))?, body)
            }
        };

        let target = match path {
            Path::Resource(target) => target,
            Path::Health => return Ok(health::answer(self, &subject, parts.uri.path(), &query)),
            Path::Version => return Ok(Answer::value(&version()).into_response()),
            Path::Own(operation) => {
                let asked = own_paths::Asked { permit, parts: &parts, query: &query };
                return own_paths::answer(self, asked, &operation, body).await;
            }
            other => return self.document(&other, &parts),
        };
        if review::is_review(&target) {
            negotiate(&parts.headers, accept::OF_A_REVIEW)?;
            let body = read_body(body).await?;
            let content_type = content_type(&parts.headers);
            return review::answer(self, &target, &subject, verb, content_type, &body);
        }
        // A body may take its time; only then is the kind looked up, as it is by now.
        let body = match verb.reads() {
            true => Bytes::new(),
            false => read_body(body).await?,
        };
        let served = self
            .registry
            .now()
            .find(&target.group, &target.version, &target.resource)
            .ok_or_else(Failure::no_such_path)?
            .clone();
        let api = self.clone();
        let payer = parts.extensions.remove::<Payer>();
        let place = parts.extensions.remove::<Place>();
        let headers = parts.headers;
        let call = Call { api, served, target, query, headers, subject, key, payer, place };
        call.answer(permit, verb, body).await
    }

    fn document(&self, path: &Path, parts: &Parts) -> Result<Response, Failure> {
        if parts.method != Method::GET {
            return Err(Failure::new(405, "MethodNotAllowed", "this document can only be read"));
        }
        let kinds = self.registry.now();
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let known = parts.headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
        if *path == Path::OpenApiV2 && openapi::wants_v2_binary(accept) {
            return Ok(cached(kinds.openapi_v2_binary(), openapi::V2_BINARY_TYPE, known));
        }
        let representation = negotiate(&parts.headers, accept::OF_DISCOVERY)?;
        let send = |body: Bytes| Ok(cached(body, representation.content_type(), known));
        let render = |area| match representation {
            Representation::AggregatedDiscoveryV2 => {
                discovery::aggregated(kinds.plain(), area, Aggregated::V2)
            }
            Representation::AggregatedDiscoveryV2Beta1 => {
                discovery::aggregated(kinds.plain(), area, Aggregated::V2Beta1)
            }
            _ => match area {
                Area::Core => discovery::api_versions(host(&parts.headers)),
                Area::Named => discovery::group_list(kinds.plain()),
            },
        };
        let found = match path {
            Path::CoreVersions => return send(encode::to_bytes(&render(Area::Core))),
            Path::Groups => return send(encode::to_bytes(&render(Area::Named))),
            Path::Group(group) => {
                discovery::group(kinds.plain(), group).map(|value| encode::to_bytes(&value))
            }
            Path::Resources { group, version } => {
                discovery::resource_list(kinds.plain(), group, version)
                    .map(|value| encode::to_bytes(&value))
            }
            Path::OpenApiV2 => Some(kinds.openapi_v2()),
            Path::OpenApiV3Index => Some(kinds.openapi_v3_index()),
            Path::OpenApiV3 { group, version } => kinds.openapi_v3_document(group, version),
            Path::Health | Path::Version | Path::Resource(_) | Path::Own(_) | Path::Unknown => None,
        };
        let body = found.ok_or_else(Failure::no_such_path)?;
        Ok(cached(body, "application/json", known))
    }
}

impl Call {
    /// The answer, and the word that the version will go if it will.
    async fn answer(self, permit: Permit, verb: Verb, body: Bytes) -> Result<Response, Failure> {
        let deprecation = self.served.kind.deprecation.clone();
        let form = self.representation(accept::OF_AN_OBJECT).unwrap_or(Representation::Json);
        let mut response = match self.answer_in_version(permit, verb, body).await {
            Err(failure) if form == Representation::Protobuf => failed(failure, form),
            answer => answer?,
        };
        if let Some(sentence) = deprecation {
            warn(response.headers_mut(), &sentence);
        }
        Ok(response)
    }

    async fn answer_in_version(
        self,
        permit: Permit,
        verb: Verb,
        body: Bytes,
    ) -> Result<Response, Failure> {
        self.check_scope()?;
        self.check_form(verb)?;
        let subresource = self.target.subresource.as_deref();
        let answer = match (subresource, verb) {
            (_, Verb::Watch) => return watch::answer(self, &permit).await,
            (None, Verb::List) => return read::list(&self, &permit).await,
            (None, Verb::DeleteCollection) => remove::collection(&self, &permit, &body).await?,
            (None, Verb::Delete) => remove::one(&self, &permit, &body).await?,
            (None | Some("status"), Verb::Get) => read::get(&self, &permit)?,
            (None, Verb::Create) => write::create(&self, &permit, &body).await?,
            (None | Some("status" | "finalize"), Verb::Update) => {
                write::update(&self, &permit, &body).await?
            }
            (None | Some("status"), Verb::Patch) => write::patch(&self, &permit, &body).await?,
            (Some("scale"), verb) => scale::answer(&self, &permit, verb, &body).await?,
            (subresource, verb) => {
                let place = subresource.unwrap_or("this resource");
                let message = format!("{} is not possible on {place}", verb.as_str());
                return Err(Failure::new(405, "MethodNotAllowed", message));
            }
        };
        Ok(answer.into_response())
    }

    /// The path must say a namespace if and only if the kind lives in one.
    fn check_scope(&self) -> Result<(), Failure> {
        use crate::kinds::Scope;
        let kind = &self.served.kind;
        let known = match self.target.subresource.as_deref() {
            None => true,
            Some("status") => kind.status_subresource || kind.is("", "Namespace"),
            Some("scale") => kind.scale.is_some(),
            Some("finalize") => kind.is("", "Namespace"),
            Some(_) => false,
        };
        let fits = match (kind.scope, &self.target.namespace, &self.target.name) {
            (Scope::Cluster, namespace, _) => namespace.is_none(),
            (Scope::Namespaced, None, name) => name.is_none(),
            (Scope::Namespaced, Some(_), _) => true,
        };
        if known && fits { Ok(()) } else { Err(Failure::no_such_path()) }
    }

    /// A write whose answer the client could not read must not be done. Reads negotiate themselves.
    fn check_form(&self, verb: Verb) -> Result<(), Failure> {
        if verb.reads() {
            return Ok(());
        }
        let offers = match verb {
            Verb::DeleteCollection => accept::OF_A_LIST,
            _ => accept::OF_AN_OBJECT,
        };
        match self.representation(offers)? {
            Representation::Table => read::included(self).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether whoever asked may still watch: a token may have been revoked or have expired. The
    /// kind may be gone as well.
    pub(crate) fn still_allowed(&self) -> Result<(), Failure> {
        let subject = match bearer(&self.headers) {
            Some(token) if self.subject.via == Via::Token => {
                authenticate::by_token(&self.api, token)?
            }
            _ => self.subject.clone(),
        };
        agents::check(&self.api, &subject, self.key.as_deref(), &self.headers)?;
        match subject.role {
            Role::Agent(_) => {
                let (target, query) = (&self.target, &self.query);
                scope::Asked { subject: &subject, verb: Verb::Watch, target, query }
                    .authorize_watch(&self.api)?;
            }
            _ => {
                authorize(&subject, Verb::Watch, resource_of(&self.target))?;
            }
        }
        let Target { group, version, resource, .. } = &self.target;
        let kinds = self.api.registry.now();
        kinds.find(group, version, resource).map(|_| ()).ok_or_else(Failure::no_such_path)
    }

    /// Whose turn it is when this is worked on.
    pub(crate) fn flow(&self) -> Flow {
        Flow::Subject(self.subject.name.as_str().into())
    }

    /// Counts the bytes of an answer that will be sent.
    pub(crate) fn pay(&self, bytes: usize) -> Result<Option<Charge>, Failure> {
        self.payer.as_ref().map(|payer| payer.take(Good::AnswerBytes, bytes)).transpose()
    }

    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn key(&self) -> String {
        self.served.kind.key(self.target.namespace.as_deref(), self.name())
    }

    /// The client's name for itself; without one, the program in its user agent.
    pub(crate) fn manager(&self) -> Result<String, Failure> {
        if let Some(name) = &self.query.field_manager {
            apply::check_manager_name(name)
                .map_err(|problem| Failure::bad_request(problem.to_string()))?;
            return Ok(name.clone());
        }
        let agent = self.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        Ok(apply::manager_of_user_agent(agent.unwrap_or_default()))
    }

    pub(crate) fn content_type(&self) -> &str {
        content_type(&self.headers)
    }

    /// The form in which the client wants what it asked for.
    pub(crate) fn representation(
        &self,
        offers: &[Representation],
    ) -> Result<Representation, Failure> {
        let mut offers = offers.to_vec();
        if protobuf::encode::knows(&self.served.kind.api_version(), &self.served.kind.kind) {
            offers.push(Representation::Protobuf);
        }
        negotiate(&self.headers, &offers)
    }
}

pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    header.unwrap_or("application/json").split(';').next().unwrap_or_default().trim()
}

fn negotiate(headers: &HeaderMap, offers: &[Representation]) -> Result<Representation, Failure> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept::negotiate(accept, offers)
        .map_err(|problem| Failure::new(406, "NotAcceptable", problem.to_string()))
}

/// To what is beside the protocol, or to [`handle`].
async fn route(State(api): State<Api>, mut request: Request) -> Response {
    if let Some(uri) = modern(request.uri()) {
        *request.uri_mut() = uri;
    }
    let routes = api.routes.clone();
    request.extensions_mut().insert(api);
    routes.oneshot(request).await.unwrap_or_else(|never| match never {})
}

async fn handle(Extension(api): Extension<Api>, request: Request) -> Response {
    let asked = metrics::Asked::of(&api, request.method(), request.uri());
    let accepts_gzip = gzip::accepts(request.headers());
    let response = match api.dispatch(request).await {
        Ok(response) => response,
        Err(failure) => failed(failure, Representation::Json),
    };
    asked.answered(&api.metrics, response.status().as_u16());
    if accepts_gzip { gzip::compressed(response) } else { response }
}

fn failed(failure: Failure, form: Representation) -> Response {
    if failure.code >= 500 {
        tracing::error!(code = failure.code, message = failure.message, "request failed");
    }
    failure.response(form)
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// Whether the subject may; the proof if so.
pub(crate) fn authorize(
    subject: &Subject,
    verb: Verb,
    target: access::Target<'_>,
) -> Result<Permit, Failure> {
    let attributes = access::Attributes { verb, target };
    tombolo_identity::authorize(subject, &attributes).map_err(|denied| {
        match denied.is_anonymous() {
            true => Failure::unauthorized(denied.to_string()),
            false => Failure::forbidden(denied.to_string()),
        }
    })
}

/// A certificate that was shown and names nobody is worth a word of its own.
pub(crate) fn explain_refusal(failure: Failure, parts: &Parts) -> Failure {
    match peer(parts).and_then(|peer| peer.refusal.as_deref()) {
        Some(refusal) if failure.code == 401 => {
            Failure::unauthorized(format!("{} ({refusal})", failure.message))
        }
        _ => failure,
    }
}

pub(crate) fn resource_of(target: &Target) -> access::Target<'_> {
    access::Target::Resource(access::Resource {
        group: &target.group,
        resource: &target.resource,
        subresource: target.subresource.as_deref().unwrap_or_default(),
        namespace: target.namespace.as_deref().unwrap_or_default(),
        name: target.name.as_deref().unwrap_or_default(),
        site: "",
        node: "",
    })
}

pub(crate) async fn read_body(body: axum::body::Body) -> Result<Bytes, Failure> {
    read_body_within(body, BODY_BYTES_MAX).await
}

pub(crate) async fn read_body_within(
    body: axum::body::Body,
    bytes_max: usize,
) -> Result<Bytes, Failure> {
    let collected = tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, bytes_max).collect());
    match collected.await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(_)) => Err(body_too_large(bytes_max)),
        Err(_) => Err(body_too_slow()),
    }
}

pub(crate) fn body_too_large(bytes_max: usize) -> Failure {
    let message = format!("the body could not be read, or has more than {bytes_max} bytes");
    Failure::new(413, "RequestEntityTooLarge", message)
}

pub(crate) fn body_too_slow() -> Failure {
    Failure::new(408, "Timeout", "the body did not arrive in time")
}

/// `gitVersion` names the Kubernetes release whose protocol this is; clients compare with it.
fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "33",
        "gitVersion": concat!("v1.33.0+tombolo-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// The peer of a request: present on requests from a socket, absent in process.
pub(crate) fn peer(parts: &Parts) -> Option<&Peer> {
    parts.extensions.get::<Peer>()
}

/// The token of a request; ICOS clients send theirs in a header of its own.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    if !headers.contains_key(AUTHORIZATION) {
        return headers.get("api_key")?.to_str().ok().map(str::trim);
    }
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
