//! The listener: from a socket to requests that know who sent them.
//!
//! `tombolo up` calls [`serve`] with bound listeners. A loopback address takes TLS and plain HTTP
//! on one port, told apart by the first byte; any other address takes TLS only. Everything that a
//! client can hold on to is bounded, by [`Limits`] and by [`Traffic`]. Every request carries a [`Peer`].

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use jiff::Timestamp;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use tombolo_identity::Subject;
use tombolo_identity::tls::{CertificateIdentity, certificate_identity};

use self::streams::Streams;
use crate::time;
use crate::traffic::{Connection, Progress, Traffic};

mod loan;
mod streams;

/// Who is at the other end of the connection; in the extensions of every request.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Whom the client certificate names, while it is valid.
    pub subject: Option<Subject>,
    /// What tells the key of that certificate from others.
    pub key: Option<String>,
    /// Why the client certificate that was shown names nobody.
    pub refusal: Option<String>,
    pub tls: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the connection to the first byte, and again to the end of the TLS handshake.
    pub greeting: Duration,
    /// For the whole head of a request; also how long an idle HTTP/1 connection is kept.
    pub head: Duration,
    pub head_bytes_max: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// How often an HTTP/2 client is asked whether it is still there. Agents say so by themselves, and
    /// what they are asked beside is traffic of a link that may be paid for by the byte.
    pub keep_alive: Duration,
    /// How long it may take to answer that.
    pub keep_alive_answer: Duration,
    /// At the end: how long requests under way, and watches, may still take.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            greeting: Duration::from_secs(10),
            head: Duration::from_secs(30),
            // Long selectors travel in the head; nothing else is large.
            head_bytes_max: 64 * 1024,
            // Clients put all their watches on one connection and wait without a word past this.
            streams_max: 1000,
            keep_alive: Duration::from_secs(120),
            keep_alive_answer: Duration::from_secs(30),
            drain: Duration::from_secs(2),
        }
    }
}

/// How serving ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Connections that were still busy after [`Limits::drain`], and were closed all the same.
    pub cut: usize,
}

/// Serves until `shutdown` comes; then takes no more connections, lets requests under way finish,
/// and returns within [`Limits::drain`].
pub async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    tls: Arc<ServerConfig>,
    limits: Limits,
    traffic: Arc<Traffic>,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let (stop, stopping) = watch::channel(false);
    let server = Server { router, tls: TlsAcceptor::from(tls), limits, traffic, stopping };
    let accepting = listeners.into_iter().map(|listener| server.clone().accept_all(listener));
    let mut accepting = pin!(futures::future::join_all(accepting));
    let ended = tokio::select! {
        ended = &mut accepting => ended,
        () = shutdown => {
            stop.send_replace(true);
            accepting.await
        }
    };
    Ended { cut: ended.iter().map(|one| one.cut).sum() }
}

#[derive(Clone)]
struct Server {
    router: Router,
    tls: TlsAcceptor,
    limits: Limits,
    traffic: Arc<Traffic>,
    stopping: watch::Receiver<bool>,
}

/// What the first byte of a connection tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Tls,
    Plain,
    /// Plain HTTP where only TLS is taken.
    PlainRefused,
    /// Nothing that we speak.
    Unknown,
}

/// A TLS record that begins a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

fn opening(first: u8, loopback: bool) -> Opening {
    match (first, loopback) {
        (TLS_HANDSHAKE, _) => Opening::Tls,
        (_, true) => Opening::Plain,
        // Methods are written in capitals.
        (b'A'..=b'Z', false) => Opening::PlainRefused,
        (_, false) => Opening::Unknown,
    }
}

/// How long to leave a listener alone after an error. Some errors are of one client and mean
/// nothing; when files or memory have run out, only time helps, and trying at once would spin.
fn pause_after(error: &io::Error) -> Duration {
    match error.kind() {
        ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionRefused
        | ErrorKind::Interrupted => Duration::ZERO,
        _ => Duration::from_millis(100),
    }
}

impl Server {
    async fn accept_all(mut self, listener: TcpListener) -> Ended {
        let loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let mut connections = JoinSet::new();
        loop {
            let (stream, address) = tokio::select! {
                _ = self.stopping.wait_for(|stop| *stop) => break,
                // Ended tasks are collected as they end, so that the set does not grow.
                Some(ended) = connections.join_next() => {
                    report(ended);
                    continue;
                }
                accepted = accept(&listener) => accepted,
            };
            let server = self.clone();
            let (connection, evicted) = self.traffic.connect(address.ip());
            connections.spawn(async move {
                tokio::select! {
                    () = server.converse(stream, address, connection, loopback) => (),
                    _ = evicted => tracing::debug!(%address, "it made room for another connection"),
                }
            });
        }
        // Whoever comes now is refused by the system, at once.
        drop(listener);
        drain(connections, self.limits.drain).await
    }

    /// One connection, from its first byte to its end.
    async fn converse(
        mut self,
        stream: TcpStream,
        address: SocketAddr,
        connection: Connection,
        loopback: bool,
    ) {
        // Answers are written whole; waiting for more would only delay events of watches.
        let _ = stream.set_nodelay(true);
        let mut stopping = self.stopping.clone();
        let greeted = tokio::select! {
            // Nothing was asked yet, so that nothing is lost.
            _ = stopping.wait_for(|stop| *stop) => return,
            greeted = self.greet(stream, loopback) => greeted,
        };
        let result = match greeted {
            Ok(Greeted::Plain(stream)) => {
                let caller = Caller { address, connection, certificate: None, tls: false };
                self.answer(stream, caller).await
            }
            Ok(Greeted::Tls(stream)) => {
                let certificate = certificate_of(&stream);
                let caller = Caller { address, connection, certificate, tls: true };
                self.answer(*stream, caller).await
            }
            Ok(Greeted::Closed(why)) => Err(why.into()),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = result {
            // Of interest to whoever looks for it: any passer-by can cause it.
            tracing::debug!(%address, error, "a connection ended early");
        }
    }

    async fn greet(&self, mut stream: TcpStream, loopback: bool) -> io::Result<Greeted> {
        let greeting = self.limits.greeting;
        let mut first = [0];
        match timeout(greeting, stream.peek(&mut first)).await {
            Err(_) => return Ok(Greeted::Closed("the client said nothing")),
            Ok(Ok(0)) => return Ok(Greeted::Closed("the client left at once")),
            Ok(read) => read?,
        };
        match opening(first[0], loopback) {
            Opening::Plain => Ok(Greeted::Plain(stream)),
            Opening::Tls => match timeout(greeting, self.tls.accept(stream)).await {
                Err(_) => Ok(Greeted::Closed("the TLS handshake took too long")),
                Ok(accepted) => Ok(Greeted::Tls(Box::new(accepted?))),
            },
            Opening::PlainRefused => {
                // A peer that does not read must not hold us up.
                let _ = timeout(greeting, refuse_plain(&mut stream)).await;
                Ok(Greeted::Closed("plain HTTP where only TLS is taken"))
            }
            Opening::Unknown => Ok(Greeted::Closed("neither TLS nor HTTP")),
        }
    }

    /// Answers the requests of one connection until it ends.
    async fn answer(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        caller: Caller,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let router = self.router.clone();
        let asked = Arc::new(AtomicBool::new(false));
        let service = service_fn({
            let asked = asked.clone();
            move |request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                let (mut request, loan) = loan::lend(request);
                request.extensions_mut().insert(caller.peer(time::timestamp()));
                request.extensions_mut().insert(caller.connection.clone());
                let answering = router.clone().oneshot(request);
                async move {
                    let response = answering.await?;
                    if response.status().is_client_error() || response.status().is_server_error() {
                        loan.read_to_the_end().await;
                    }
                    Ok::<_, std::convert::Infallible>(response)
                }
            }
        });
        let streams = Streams::new(self.traffic.limits().write);
        let builder = self.builder(streams.clone());
        let mut connection =
            pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        // The parser's own limit begins only when the version of HTTP is known.
        let mut silence = pin!(sleep(self.limits.head));
        let mut silent = true;
        let mut open = true;
        let progress = Progress::default();
        let write = self.traffic.limits().write;
        let mut stands_still = pin!(progress.stands_still(write));
        loop {
            tokio::select! {
                // The connection first: what it writes is what the next one looks at.
                biased;
                ended = progress.scope(connection.as_mut()) => return ended,
                () = &mut stands_still => return Err("the client does not read its answer".into()),
                () = streams.stuck() => return Err("the client does not read its answers".into()),
                () = &mut silence, if silent => {
                    silent = false;
                    if !asked.load(Ordering::Relaxed) {
                        return Err("the client never finished a request".into());
                    }
                }
                _ = self.stopping.wait_for(|stop| *stop), if open => {
                    open = false;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn builder(&self, streams: Streams) -> Builder<Streams> {
        let limits = &self.limits;
        let mut builder = Builder::new(streams);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(limits.head_bytes_max);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams_max)
            .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
            .keep_alive_interval(limits.keep_alive)
            .keep_alive_timeout(limits.keep_alive_answer)
            // What a watcher that does not read can hold of our memory.
            .max_send_buf_size(64 * 1024);
        builder
    }
}

enum Greeted {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Closed(&'static str),
}

/// What is known of a connection before its first request.
#[derive(Clone)]
struct Caller {
    address: SocketAddr,
    connection: Connection,
    certificate: Option<Result<CertificateIdentity, String>>,
    tls: bool,
}

impl Caller {
    /// Made for each request: a connection may outlive the certificate that began it.
    fn peer(&self, now: Timestamp) -> Peer {
        let (identity, refusal) = match &self.certificate {
            None => (None, None),
            Some(Err(problem)) => (None, Some(problem.clone())),
            Some(Ok(identity)) if identity.expires <= now => {
                (None, Some(format!("the client certificate expired at {}", identity.expires)))
            }
            Some(Ok(identity)) if now < identity.begins => {
                let begins = identity.begins;
                (None, Some(format!("the client certificate begins only at {begins}")))
            }
            Some(Ok(identity)) => (Some(identity), None),
        };
        let subject = identity.map(|identity| identity.subject.clone());
        let key = identity.map(|identity| identity.key.clone());
        Peer { address: self.address, subject, key, refusal, tls: self.tls }
    }
}

/// The handshake has checked that our authority signed it.
fn certificate_of(stream: &TlsStream<TcpStream>) -> Option<Result<CertificateIdentity, String>> {
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates()?.first()?;
    Some(certificate_identity(certificate, time::timestamp()).map_err(|error| error.to_string()))
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                let pause = pause_after(&error);
                if !pause.is_zero() {
                    tracing::warn!(%error, "cannot take a connection; trying again");
                }
                sleep(pause).await;
            }
        }
    }
}

async fn refuse_plain(stream: &mut TcpStream) -> io::Result<()> {
    let sentence = "this address takes TLS only: use https:// and the authority of the server\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{sentence}",
        sentence.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with something unread would take the answer back before the client has seen it.
    let mut rest = stream.take(64 * 1024);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn drain(mut connections: JoinSet<()>, limit: Duration) -> Ended {
    let all_end = async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    };
    if timeout(limit, all_end).await.is_ok() {
        return Ended { cut: 0 };
    }
    let cut = connections.len();
    connections.shutdown().await;
    Ended { cut }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    match ended {
        Err(error) if error.is_panic() => {
            tracing::error!(%error, "a request made the server stumble; its connection is closed");
        }
        Err(_) | Ok(()) => (),
    }
}

#[cfg(test)]
mod tests;
