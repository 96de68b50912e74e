//! From a request to a WebSocket. By hand and not by axum's extractor: the request has come through
//! our own door by then, and the handshake is a handful of headers. Called by
//! [`super::subresource`].

use axum::body::Body;
use axum::response::Response;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::splice::Form;
use crate::failure::Failure;

/// What a client may send at once; a client that sends more is cut off.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A client that has asked for a WebSocket, and can have one.
#[derive(Debug)]
pub(super) struct Upgrade {
    on_upgrade: OnUpgrade,
    accept: String,
    protocol: Option<&'static str>,
}

impl Upgrade {
    pub(super) fn of(parts: &mut Parts, form: Form) -> Result<Upgrade, Failure> {
        let headers = &parts.headers;
        let asked = has(headers, &UPGRADE, "websocket") && has(headers, &CONNECTION, "upgrade");
        let version = headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
        let key = headers.get(SEC_WEBSOCKET_KEY);
        let (true, true, Some(key)) = (asked, version, key) else {
            let message = "this is a WebSocket (version 13): ask for an upgrade";
            return Err(Failure::new(426, "UpgradeRequired", message));
        };
        let accept = derive_accept_key(key.as_bytes());
        let protocol = agree(headers, form)?;
        let on_upgrade = parts.extensions.remove::<OnUpgrade>().ok_or_else(|| {
            Failure::bad_request("this connection cannot become a WebSocket: use HTTP/1.1")
        })?;
        Ok(Upgrade { on_upgrade, accept, protocol })
    }

    /// Answers, and serves the socket in a task of its own once the client has the answer.
    pub(super) fn accept<Served>(
        self,
        serve: impl FnOnce(Socket) -> Served + Send + 'static,
    ) -> Response
    where
        Served: Future<Output = ()> + Send + 'static,
    {
        let Upgrade { on_upgrade, accept, protocol } = self;
        tokio::spawn(async move {
            match on_upgrade.await {
                Ok(upgraded) => {
                    let config =
                        WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
                    let io = TokioIo::new(upgraded);
                    let socket = Socket::from_raw_socket(io, Role::Server, Some(config)).await;
                    serve(socket).await;
                }
                // The client has gone; what was to be served is dropped, and ends with it.
                Err(error) => tracing::debug!(%error, "no WebSocket came of it"),
            }
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        // A key in base64 is always a header.
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        response
    }
}

/// The first subprotocol of ours that the client offers. A client that offers none gets none.
fn agree(headers: &HeaderMap, form: Form) -> Result<Option<&'static str>, Failure> {
    if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) {
        return Ok(None);
    }
    let ours = form.protocols();
    let found = ours.iter().find(|name| has(headers, &SEC_WEBSOCKET_PROTOCOL, name));
    found.map(|name| Some(*name)).ok_or_else(|| {
        let message =
            format!("none of the offered protocols is spoken here, but {}", ours.join(", "));
        Failure::bad_request(message)
    })
}

/// Whether a header with commas in it names this word.
fn has(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|found| found.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_protocol_that_both_speak_is_taken() {
        let agreed = |offered: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(SEC_WEBSOCKET_PROTOCOL, offered.parse().unwrap());
            agree(&headers, Form::Channels).map_err(|failure| failure.code)
        };
        assert_eq!(agreed("v4.channel.k8s.io, v5.channel.k8s.io"), Ok(Some("v5.channel.k8s.io")));
        assert_eq!(agreed("v4.channel.k8s.io"), Ok(Some("v4.channel.k8s.io")));
        assert_eq!(agreed("base64.channel.k8s.io"), Err(400));
        assert_eq!(agree(&HeaderMap::new(), Form::Raw).unwrap(), None);
    }
}
