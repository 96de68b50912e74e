//! The way to the controllers: a `kube::Client` with the pinned authority and the agent's certificate. A
//! renewal puts a new client in place of the old one; watches that run on the old client go on until they
//! end by themselves, since the old certificate still holds for a while.
//!
//! Beside it goes a [`Wire`], with the same authority and certificate: kube's client sends whole bodies
//! only, and errands need some that flow.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::AuthInfo;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::watch;
use tombolo_model::keys::INSTANCE_HEADER;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, service_fn};

use crate::Error;
use crate::credentials::{Credentials, Identity};

/// A controller that does not take the connection within this is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Who we are in managedFields, where a request does not say it itself.
const PROGRAM: &str = "tombolo-agent";

/// A body that may flow, in both directions.
pub type Flow = UnsyncBoxBody<Bytes, io::Error>;

/// Sends a request with the path alone in its address; the body of the answer may begin before that
/// of the request has ended.
pub type Wire = BoxCloneSyncService<Request<Flow>, Response<Flow>, io::Error>;

/// Cheap to clone; all clones follow a renewal and a change of address.
#[derive(Clone)]
pub struct Connection {
    ways: watch::Receiver<Ways>,
}

#[derive(Clone)]
struct Ways {
    client: Client,
    wire: Wire,
}

/// The side that replaces the client. `live` has it.
pub(crate) struct Replacer {
    ways: watch::Sender<Ways>,
    instance: String,
}

impl Connection {
    pub(crate) fn open(
        credentials: &Credentials,
        instance: &str,
    ) -> Result<(Connection, Replacer), Error> {
        let (ways, receiver) = watch::channel(authenticated(credentials, instance, 0)?);
        let replacer = Replacer { ways, instance: instance.to_owned() };
        Ok((Connection { ways: receiver }, replacer))
    }

    /// A connection that is never replaced: it goes straight to a server in the same process.
    pub fn fixed(client: Client, wire: Wire) -> Connection {
        Connection { ways: watch::channel(Ways { client, wire }).1 }
    }

    /// The client of now. Ask again for every request or watch, and do not keep it.
    pub fn client(&self) -> Client {
        self.ways.borrow().client.clone()
    }

    /// As [`Connection::client`], for bodies that flow.
    pub fn wire(&self) -> Wire {
        self.ways.borrow().wire.clone()
    }

    /// Asks the client of now; nothing if it is replaced before the answer is there. On a connection that
    /// was cut without a word an answer would be waited for for minutes.
    pub(crate) async fn ask<T>(&self, asked: impl AsyncFnOnce(Client) -> T) -> Option<T> {
        let mut connection = self.clone();
        let client = connection.ways.borrow_and_update().client.clone();
        tokio::select! {
            answer = asked(client) => Some(answer),
            () = connection.replaced() => None,
        }
    }

    /// Comes when there is a new client: time to begin long watches anew, when it suits.
    pub async fn replaced(&mut self) {
        // Without the other side the agent is ending, and nothing is replaced any more.
        if self.ways.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Replacer {
    /// From now on with these credentials and over a connection of their own, to one of the addresses.
    pub(crate) fn replace(&self, credentials: &Credentials, address: usize) -> Result<(), Error> {
        self.ways.send_replace(authenticated(credentials, &self.instance, address)?);
        Ok(())
    }
}

/// A merge patch that asks for no more of an answer than what others may have written there: the body
/// is empty, or an object with annotations. A server that does not know the preference answers in full.
pub(crate) async fn patch_quietly(
    client: &Client,
    path: &str,
    change: &serde_json::Value,
) -> Result<String, kube::Error> {
    let request = http::Request::patch(path)
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .header("prefer", "return=minimal")
        .body(change.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}

/// A client that shows no certificate: to join, and to renew a certificate that has expired.
pub(crate) fn anonymous(address: &str, authority_pem: &str) -> Result<Client, Error> {
    client(config(address, authority_pem)?)
}

/// A client of a person or program with a token.
pub(crate) fn with_token(address: &str, authority_pem: &str, token: &str) -> Result<Client, Error> {
    let mut config = config(address, authority_pem)?;
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|error| Error::Answer { problem: format!("the token: {error}") })?;
    value.set_sensitive(true);
    config.headers.push((AUTHORIZATION, value));
    client(config)
}

fn authenticated(credentials: &Credentials, instance: &str, address: usize) -> Result<Ways, Error> {
    let Identity { addresses, authority, certificate, .. } = &credentials.identity;
    let address = &addresses[address % addresses.len()];
    let mut config = config(address, authority)?;
    config.auth_info = AuthInfo {
        client_certificate_data: Some(BASE64.encode(certificate)),
        client_key_data: Some(BASE64.encode(&credentials.key_pem).into()),
        ..AuthInfo::default()
    };
    let value = HeaderValue::from_str(instance)
        .map_err(|error| Error::Answer { problem: error.to_string() })?;
    config.headers.push((HeaderName::from_static(INSTANCE_HEADER), value));
    config.headers.push((USER_AGENT, HeaderValue::from_static(PROGRAM)));
    let wire = wire(&config)?;
    Ok(Ways { client: client(config)?, wire })
}

/// Every request dials anew: what flows for hours has its connection for itself, and none is sent on
/// one that the server has just closed.
fn wire(config: &Config) -> Result<Wire, Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = config
        .rustls_https_connector_with_connector(connector)
        .map_err(|error| Error::Unreachable { source: Box::new(error) })?;
    let client: legacy::Client<_, Flow> =
        legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let (base, headers) = (config.cluster_url.clone(), config.headers.clone());
    Ok(Wire::new(service_fn(move |mut request: Request<Flow>| {
        let client = client.clone();
        let address = address(&base, request.uri().path_and_query());
        request.headers_mut().extend(headers.iter().cloned());
        async move {
            *request.uri_mut() = address?;
            let response = client.request(request).await.map_err(io::Error::other)?;
            Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
        }
    })))
}

fn address(base: &Uri, path: Option<&PathAndQuery>) -> io::Result<Uri> {
    let mut parts = base.clone().into_parts();
    parts.path_and_query = path.cloned();
    Uri::from_parts(parts).map_err(io::Error::other)
}

fn config(address: &str, authority_pem: &str) -> Result<Config, Error> {
    let unusable = |problem: String| Error::Answer { problem };
    let url: http::Uri =
        address.parse().map_err(|error| unusable(format!("address {address:?}: {error}")))?;
    let authority = CertificateDer::from_pem_slice(authority_pem.as_bytes())
        .map_err(|error| unusable(format!("the authority is no certificate: {error}")))?;
    let mut config = Config::new(url);
    config.root_cert = Some(vec![authority.to_vec()]);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Proxies of the environment are for people; an agent goes where its file says.
    config.proxy_url = None;
    Ok(config)
}

/// Over HTTP/2 where the server speaks it: one connection for everything, on which a heartbeat costs no
/// more than what has changed since the last. kube's own client speaks HTTP/1.1 alone.
fn client(config: Config) -> Result<Client, Error> {
    let unusable = |error: kube::Error| Error::Unreachable { source: Box::new(error) };
    let mut tls = config.rustls_client_config().map_err(unusable)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(config.connect_timeout);
    let connector = HttpsConnector::from((http, tls));
    let hyper = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let headers = config.extra_headers_layer().map_err(unusable)?;
    let service = config.base_uri_layer().layer(headers.layer(hyper));
    Ok(Client::new(service, config.default_namespace))
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Replacer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Replacer").field("instance", &self.instance).finish_non_exhaustive()
    }
}
