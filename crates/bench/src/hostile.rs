//! Clients that do not behave: their bodies never come, they do not read what they asked for, and they
//! ask for more than anybody needs. Real sockets and real TLS. Called by `overload`, and by the tests that
//! attack a server.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use http::{Method, Request, Response};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where clients come from, if it does not matter.
pub const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Little, so that what a client does not read stays at the server. With less than a packet of loopback
/// has, even a client that reads would be served at a crawl.
const RECEIVE_BUFFER_BYTES: u32 = 64 * 1024;

/// The door of a server, as a stranger sees it who trusts its authority.
#[derive(Clone)]
pub struct Hostile {
    address: SocketAddr,
    authority: Arc<RootCertStore>,
}

impl Hostile {
    /// `host:port` of a server, and its data folder.
    pub fn of(address: &str, data: &Path) -> anyhow::Result<Hostile> {
        // Somebody in this process may have been first, and that is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut authority = RootCertStore::empty();
        authority.add(CertificateDer::from_pem_file(data.join("ca.crt"))?)?;
        Ok(Hostile { address: address.parse()?, authority: Arc::new(authority) })
    }

    async fn socket(&self, from: Ipv4Addr) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        socket.bind((from, 0).into())?;
        socket.connect(self.address).await
    }

    async fn tls(&self, from: Ipv4Addr, protocol: &str) -> anyhow::Result<TlsStream<TcpStream>> {
        let roots = self.authority.clone();
        let mut config =
            ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("localhost").context("a fixed name")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, self.socket(from).await?).await?)
    }

    /// An HTTP/2 connection over TLS.
    pub async fn http2(&self, from: Ipv4Addr) -> anyhow::Result<Http2> {
        Http2::over(self.tls(from, "h2").await?).await
    }

    /// The same without TLS, which loopback takes and which costs less where only the number counts.
    /// Fails if the server does not take it or ends it at once.
    pub async fn plain_http2(&self, from: Ipv4Addr) -> anyhow::Result<Http2> {
        Http2::over(self.socket(from).await?).await
    }

    /// An HTTP/1 connection over TLS that has sent this much and reads nothing by itself.
    pub async fn http1(&self, request: &[u8]) -> anyhow::Result<TlsStream<TcpStream>> {
        let mut stream = self.tls(HERE, "http/1.1").await?;
        stream.write_all(request).await?;
        Ok(stream)
    }

    /// The code of a request on a connection of its own.
    pub async fn code(&self, from: Ipv4Addr, request: Request<()>) -> anyhow::Result<u16> {
        let mut connection = self.http2(from).await?;
        Ok(connection.ask(request).await?.status().as_u16())
    }
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hostile").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A request with this token, or of nobody.
///
/// # Panics
/// If the path or the token cannot be written in a request.
pub fn request(method: &Method, path: &str, token: Option<&str>) -> Request<()> {
    let type_ = match *method == Method::PATCH {
        true => "application/merge-patch+json",
        false => "application/json",
    };
    let mut request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header("content-type", type_);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(()).expect("paths and tokens of ours can be written")
}

/// The head of a response. The stream lives as long as its body does, read or not.
pub type Answer = Result<Response<h2::RecvStream>, h2::Error>;

/// A connection that takes no more than its window, until somebody reads.
pub struct Http2 {
    sender: SendRequest<Bytes>,
    pings: PingPong,
    task: JoinHandle<()>,
}

impl Http2 {
    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> anyhow::Result<Http2> {
        // A flood drops most answers unread. By default the client would end its connection after a
        // thousand of these, and the attack with it.
        let (sender, mut connection) = h2::client::Builder::new()
            .max_local_error_reset_streams(None)
            .handshake(stream)
            .await?;
        let pings = connection.ping_pong().context("it is asked for once")?;
        let task = tokio::spawn(async move {
            // The server may end it, which some tests are about.
            let _ = connection.await;
        });
        Ok(Http2 { sender, pings, task })
    }

    /// Comes back when the server has seen everything that was sent before.
    pub async fn settled(&mut self) -> Result<(), h2::Error> {
        self.pings.ping(Ping::opaque()).await.map(drop)
    }

    /// Sends a request without a body.
    pub async fn send(
        &mut self,
        request: Request<()>,
    ) -> Result<impl Future<Output = Answer> + use<>, h2::Error> {
        self.sender.clone().ready().await?;
        Ok(self.sender.send_request(request, true)?.0)
    }

    /// Sends a request without a body and waits for its answer.
    pub async fn ask(&mut self, request: Request<()>) -> Answer {
        self.send(request).await?.await
    }

    /// Sends a request with a body, as fast as the server takes it, and waits for the answer.
    pub async fn ask_with(&mut self, request: Request<()>, mut body: Bytes) -> Answer {
        self.sender.clone().ready().await?;
        let (answer, mut stream) = self.sender.send_request(request, false)?;
        let sending = async move {
            while !body.is_empty() {
                stream.reserve_capacity(body.len());
                let capacity = std::future::poll_fn(|ctx| stream.poll_capacity(ctx)).await;
                // No more is taken, because the answer is there.
                let Some(Ok(capacity)) = capacity else { return };
                let piece = body.split_to(capacity.min(body.len()));
                if stream.send_data(piece, body.is_empty()).is_err() {
                    return;
                }
            }
        };
        futures::join!(answer, sending).0
    }

    /// Keeps `count` requests open whose bodies never come. An answered one is followed by another, so
    /// that the pressure lasts; what the answers were is counted.
    pub fn withhold(self, count: usize, request: Request<()>) -> Pressure {
        self.press(count, request, EndStream::Never)
    }

    /// Keeps `count` whole requests under way.
    pub fn flood(self, count: usize, request: Request<()>) -> Pressure {
        self.press(count, request, EndStream::AtOnce)
    }

    fn press(mut self, count: usize, request: Request<()>, end: EndStream) -> Pressure {
        let tally = Arc::new(Mutex::new(Tally::default()));
        let counting = tally.clone();
        let task = tokio::spawn(async move {
            let mut open = FuturesUnordered::new();
            loop {
                while open.len() < count {
                    if self.sender.clone().ready().await.is_err() {
                        return;
                    }
                    let request = clone(&request);
                    let sent = self.sender.send_request(request, end == EndStream::AtOnce);
                    let Ok((answer, body)) = sent else { return };
                    lock(&counting).sent += 1;
                    open.push(async move {
                        let answer = answer.await;
                        drop(body);
                        answer
                    });
                }
                match open.next().await {
                    Some(Ok(answer)) => lock(&counting).note(&answer),
                    Some(Err(_)) => lock(&counting).broken += 1,
                    None => return,
                }
            }
        });
        Pressure { tally, task }
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        // Requests that are under way hold the connection open otherwise.
        self.task.abort();
    }
}

impl std::fmt::Debug for Http2 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Http2").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndStream {
    AtOnce,
    Never,
}

fn clone(request: &Request<()>) -> Request<()> {
    let mut copy = Request::new(());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// What a client that presses was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub sent: usize,
    pub codes: BTreeMap<u16, usize>,
    /// Of the 429s, how many did not say when to come back.
    pub without_retry_after: usize,
    /// Requests that got no answer.
    pub broken: usize,
}

impl Tally {
    fn note<T>(&mut self, answer: &Response<T>) {
        let code = answer.status().as_u16();
        *self.codes.entry(code).or_default() += 1;
        if code == 429 && !answer.headers().contains_key("retry-after") {
            self.without_retry_after += 1;
        }
    }

    pub fn of(&self, code: u16) -> usize {
        self.codes.get(&code).copied().unwrap_or(0)
    }
}

/// An attack that lasts until it is dropped.
#[derive(Debug)]
pub struct Pressure {
    tally: Arc<Mutex<Tally>>,
    task: JoinHandle<()>,
}

impl Pressure {
    /// The answers so far.
    pub fn tally(&self) -> Tally {
        lock(&self.tally).clone()
    }
}

impl Drop for Pressure {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The first line of an HTTP/1 answer, and nothing more of it.
pub async fn first_line(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Resident memory of a process, in MB.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    pub now: u64,
    /// Since it started.
    pub most: u64,
}

impl Resident {
    pub fn of(process: u32) -> anyhow::Result<Resident> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let field = |name: &str| -> anyhow::Result<u64> {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).context("no memory")?;
            Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1000)
        };
        Ok(Resident { now: field("VmRSS:")?, most: field("VmHWM:")? })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
