//! A plain HTTP client for measuring: one connection, nothing between the clock and the socket.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where a server is and how to be let in.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

/// One TLS connection that asks one thing after another.
pub(crate) struct Connection {
    door: Door,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(crate) async fn open(door: &Door) -> anyhow::Result<Connection> {
        let socket = TcpStream::connect(&door.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").context("a fixed name")?;
        let stream = TlsConnector::from(door.tls.clone()).connect(name, socket).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { door: door.clone(), sender })
    }

    /// Whether the server has closed it, as it does with those that are silent for long.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and hands out the body as it comes.
    pub(crate) async fn begin(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Incoming)> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.door.token))
            .header("content-type", content_type)
            .header("user-agent", "tombolo-bench")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        Ok((response.status(), response.into_body()))
    }

    /// Sends a request, reads the whole answer, and expects success.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let (status, body) = self.begin(method.clone(), path, body).await?;
        let answer = body.collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{method} {path}: {status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }
}
