//! A WebSocket to the server, for `exec` and `port-forward`. The request goes out as every other does,
//! with the same credentials; only the answer becomes a socket.

use futures::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Request, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::core::Status;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

pub(crate) use tokio_tungstenite::tungstenite::Message;

use crate::connection::Connection;
use crate::failure::{self, Failure};

type Socket = WebSocketStream<TokioIo<Upgraded>>;
pub(crate) type Sender = futures::stream::SplitSink<Socket, Message>;
pub(crate) type Receiver = futures::stream::SplitStream<Socket>;

/// Opens one; what the server says instead of it is the failure.
pub(crate) async fn open(
    connection: &Connection,
    path: &str,
    protocols: &str,
) -> Result<(Sender, Receiver), Failure> {
    let key = generate_key();
    let request = Request::get(path)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key)
        .header(SEC_WEBSOCKET_PROTOCOL, protocols)
        .body(Body::empty())
        .map_err(|error| Failure::usage(format!("cannot make a request of `{path}`: {error}")))?;
    let response = connection.send_raw(request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(response).await);
    }
    let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|accept| accept != derive_accept_key(key.as_bytes()).as_str()) {
        return Err(Failure::failed("the answer of the server does not belong to this request"));
    }
    let upgraded = hyper::upgrade::on(response).await;
    let upgraded = upgraded.map_err(|error| Failure::failed(format!("no WebSocket: {error}")))?;
    let socket = Socket::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await;
    Ok(socket.split())
}

async fn refused(response: http::Response<Body>) -> Failure {
    let code = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.unwrap_or_default();
    let status = serde_json::from_slice::<Status>(&body);
    failure::of_status(&status.unwrap_or_else(|_| {
        let message = format!("the server answered {code} where a WebSocket was asked for");
        Status { code, message, ..Status::default() }
    }))
}

/// Sends one message; whoever does not take it any more says why in what is received.
pub(crate) async fn send(sender: &mut Sender, bytes: Vec<u8>) -> bool {
    sender.send(Message::Binary(bytes.into())).await.is_ok()
}
