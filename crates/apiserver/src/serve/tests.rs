//! Real sockets on free ports; limits are small where a test must run into them.

use axum::Extension;
use axum::body::Body;
use axum::routing::get;
use futures::StreamExt as _;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use tombolo_identity::home::{Home, Settings, open};
use tombolo_identity::tls::{client_config, client_config_with, server_config};
use tombolo_identity::{Authority, Role, Via};

use super::*;
use crate::traffic;

/// Past this a test has failed; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(20);
/// A limit that a test runs into on purpose.
const SOON: Duration = Duration::from_millis(80);

struct Running {
    address: SocketAddr,
    home: Home,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Ended>,
    gate: Arc<Gate>,
    _data: TempDir,
}

/// Lets a test hold a request where it wants it.
#[derive(Default)]
struct Gate {
    entered: Notify,
    open: Notify,
    /// The endless answer is no longer worked on.
    left: Notify,
}

struct Leaving(Arc<Gate>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.left.notify_one();
    }
}

fn router(gate: Arc<Gate>) -> Router {
    let who = |Extension(peer): Extension<Peer>| async move {
        let subject = peer.subject.map(|subject| subject.to_string());
        format!("tls {} subject {subject:?} refusal {:?}", peer.tls, peer.refusal)
    };
    let holding = gate.clone();
    let held = move || async move {
        holding.entered.notify_one();
        holding.open.notified().await;
        "at last"
    };
    let endless = move || async move {
        let leaving = Leaving(gate);
        let first = futures::stream::iter([Ok::<_, io::Error>("first\n")]);
        let never = futures::stream::once(async move {
            let _leaving = leaving;
            futures::future::pending().await
        });
        Body::from_stream(first.chain(never))
    };
    Router::new().route("/who", get(who)).route("/held", get(held)).route("/endless", get(endless))
}

async fn start_at(listen: &str, limits: Limits) -> Running {
    start_with(listen, limits, traffic::Limits::default()).await
}

async fn start_with(listen: &str, limits: Limits, traffic: traffic::Limits) -> Running {
    let data = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(listen).await.unwrap();
    let bound = listener.local_addr().unwrap();
    let settings =
        Settings { folder: data.path().to_owned(), listen: vec![bound], names: Vec::new() };
    let home = open(&settings, time::timestamp()).unwrap();
    let (stop, stopped) = oneshot::channel();
    let gate = Arc::new(Gate::default());
    let serving = tokio::spawn(serve(
        vec![listener],
        router(gate.clone()),
        server_config(&home).unwrap(),
        limits,
        Traffic::new(traffic),
        async {
            let _ = stopped.await;
        },
    ));
    let address = SocketAddr::new([127, 0, 0, 1].into(), bound.port());
    Running { address, home, stop, serving, gate, _data: data }
}

async fn start(limits: Limits) -> Running {
    start_at("127.0.0.1:0", limits).await
}

impl Running {
    async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn tls(
        &self,
        config: ClientConfig,
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.plain().await).await
    }

    fn trusting(&self) -> ClientConfig {
        client_config(self.home.authority.certificate_pem()).unwrap()
    }

    async fn end(self) -> Ended {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.serving).await.expect("serving ends").unwrap()
    }
}

/// Asks once and reads to the end of the connection.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_all(stream).await
}

/// Everything until the other side closes, however it does.
async fn read_all(mut stream: impl AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it closes");
    String::from_utf8_lossy(&answer).into_owned()
}

async fn read_until(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut answer = String::new();
    while !answer.contains(end) {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("it answers").unwrap();
        answer.push(byte.into());
    }
    answer
}

#[tokio::test]
async fn loopback_takes_tls_and_plain_on_one_port() {
    let server = start(Limits::default()).await;
    let plain = ask(server.plain().await, "/who").await;
    assert!(plain.ends_with("tls false subject None refusal None"), "{plain}");
    let stream = server.tls(server.trusting()).await.unwrap();
    let secure = ask(stream, "/who").await;
    assert!(secure.ends_with("tls true subject None refusal None"), "{secure}");
    assert_eq!(server.end().await, Ended { cut: 0 });
}

#[tokio::test]
async fn any_other_address_takes_tls_only_and_says_so() {
    let server = start_at("0.0.0.0:0", Limits::default()).await;
    let plain = ask(server.plain().await, "/who").await;
    assert!(plain.starts_with("HTTP/1.1 400 "), "{plain}");
    assert!(plain.contains("this address takes TLS only"), "{plain}");
    let mut noise = server.plain().await;
    noise.write_all(b"\0\0\0\0").await.unwrap();
    assert_eq!(read_all(noise).await, "");
    let stream = server.tls(server.trusting()).await.unwrap();
    assert!(ask(stream, "/who").await.contains("tls true"));
}

#[tokio::test]
async fn a_client_certificate_tells_who_asks() {
    let server = start(Limits::default()).await;
    let authority = &server.home.authority;
    let anna = Subject::person("anna", Role::Manager, None, Via::Certificate).unwrap();
    let issued = authority.client(&anna, Duration::from_secs(600), time::timestamp()).unwrap();
    let config = client_config_with(authority.certificate_pem(), &issued).unwrap();
    let answer = ask(server.tls(config).await.unwrap(), "/who").await;
    assert!(answer.ends_with(r#"subject Some("anna (manager)") refusal None"#), "{answer}");
}

#[tokio::test]
async fn a_certificate_of_someone_else_is_no_way_in() {
    let server = start(Limits::default()).await;
    let stranger = Authority::generate(time::timestamp()).unwrap();
    let anna = Subject::person("anna", Role::Admin, None, Via::Certificate).unwrap();
    let issued = stranger.client(&anna, Duration::from_secs(600), time::timestamp()).unwrap();
    let config = client_config_with(server.home.authority.certificate_pem(), &issued).unwrap();
    // The client may learn of it only at its first read.
    match server.tls(config).await {
        Err(_) => (),
        Ok(mut stream) => {
            let _ = stream.write_all(b"GET /who HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            assert_eq!(read_all(stream).await, "");
        }
    }
    // And a server of someone else is not taken for ours.
    let config = client_config(stranger.certificate_pem()).unwrap();
    assert!(server.tls(config).await.is_err());
}

#[test]
fn a_certificate_names_nobody_before_its_time_and_after_it_on_a_connection_that_is_open() {
    let begins: Timestamp = "2026-06-01T11:00:00Z".parse().unwrap();
    let expires: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
    let subject = Subject::agent("north", "n1").unwrap();
    let caller = Caller {
        address: "127.0.0.1:1".parse().unwrap(),
        connection: Traffic::new(traffic::Limits::default()).connect([127, 0, 0, 1].into()).0,
        certificate: Some(Ok(CertificateIdentity {
            subject: subject.clone(),
            begins,
            expires,
            key: "k1".into(),
        })),
        tls: true,
    };
    let before = caller.peer("2026-06-01T11:59:59Z".parse().unwrap());
    assert_eq!((before.subject, before.refusal), (Some(subject), None));
    let after = caller.peer(expires);
    assert_eq!(after.subject, None);
    assert_eq!(after.refusal.unwrap(), "the client certificate expired at 2026-06-01T12:00:00Z");
    // The clock of the server was wrong when the certificate was made, and has been set right.
    let too_early = caller.peer("2026-06-01T10:59:59Z".parse().unwrap());
    assert_eq!(too_early.subject, None);
    let told = "the client certificate begins only at 2026-06-01T11:00:00Z";
    assert_eq!(too_early.refusal.unwrap(), told);
}

/// The beginning of an HTTP/2 connection and one request, in frames.
fn http_2_request(path: &str) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // GET and https by their numbers, then path and authority as they are.
    let mut head = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
    head.extend(path.as_bytes());
    head.extend(b"\x01\x09localhost");
    let length = u8::try_from(head.len()).unwrap();
    // Headers (type 1) that end both the head and the stream, on stream 1.
    sent.extend([0, 0, length, 1, 0x05, 0, 0, 0, 1]);
    sent.extend(head);
    sent
}

/// The text of the first frame of data (type 0).
async fn http_2_data(stream: &mut (impl AsyncRead + Unpin)) -> String {
    loop {
        let mut head = [0; 9];
        timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("it answers").unwrap();
        let mut frame = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        timeout(PATIENCE, stream.read_exact(&mut frame)).await.expect("it answers").unwrap();
        if head[3] == 0 {
            return String::from_utf8(frame).unwrap();
        }
    }
}

#[tokio::test]
async fn http_2_is_spoken_to_those_who_ask_for_it() {
    let server = start(Limits::default()).await;
    let mut config = server.trusting();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = server.tls(config).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream.write_all(&http_2_request("/who")).await.unwrap();
    assert_eq!(http_2_data(&mut stream).await, "tls true subject None refusal None");
}

#[tokio::test]
async fn a_watch_over_http_2_ends_with_its_connection() {
    let server = start(Limits { drain: SOON, ..Limits::default() }).await;
    let mut stream = server.plain().await;
    stream.write_all(&http_2_request("/endless")).await.unwrap();
    assert_eq!(http_2_data(&mut stream).await, "first\n");
    let gate = server.gate.clone();
    assert_eq!(server.end().await, Ended { cut: 1 });
    timeout(PATIENCE, gate.left.notified()).await.expect("nobody works on it any more");
}

#[tokio::test]
async fn a_watch_ends_when_its_client_leaves() {
    let server = start(Limits::default()).await;
    for over_http_2 in [false, true] {
        let mut stream = server.plain().await;
        let request = match over_http_2 {
            true => http_2_request("/endless"),
            false => b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
        };
        stream.write_all(&request).await.unwrap();
        read_until(&mut stream, "first").await;
        drop(stream);
        timeout(PATIENCE, server.gate.left.notified()).await.expect("it is noticed");
    }
}

#[tokio::test]
async fn a_slow_client_is_closed() {
    #[track_caller]
    fn claim(holds: bool, sent: &[u8]) {
        assert!(holds, "after {:?}", String::from_utf8_lossy(sent));
    }
    let server = start(Limits { greeting: SOON, head: SOON, ..Limits::default() }).await;
    // Nothing; half a TLS record; half a preface of HTTP/2; all of it and no request; half a head.
    let beginnings: [&[u8]; 5] = [
        b"",
        b"\x16\x03",
        b"PRI * HT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /who HTTP/1.1\r\nhost: lo",
    ];
    for sent in beginnings {
        let mut stream = server.plain().await;
        stream.write_all(sent).await.unwrap();
        claim(!read_all(stream).await.contains("tls false"), sent);
    }
    // Its place is free again for others.
    assert!(ask(server.plain().await, "/who").await.contains("tls false"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = start(Limits { head_bytes_max: 8192, ..Limits::default() }).await;
    let mut stream = server.plain().await;
    let head = format!("GET /who HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20_000));
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = read_all(stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(ask(server.plain().await, "/who").await.contains("tls false"));
}

#[tokio::test]
async fn a_stranger_past_the_limit_takes_the_place_of_the_oldest() {
    let limits = traffic::Limits { strangers_of_loopback: 2, ..traffic::Limits::default() };
    let server = start_with("127.0.0.1:0", Limits::default(), limits).await;
    let mut kept = Vec::new();
    for _ in 0..5 {
        let mut stream = server.plain().await;
        stream.write_all(b"GET /who HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        read_until(&mut stream, "refusal None").await;
        kept.push(stream);
    }
    let newest = kept.split_off(3);
    for oldest in kept {
        assert_eq!(read_all(oldest).await, "", "it was closed");
    }
    for mut stream in newest {
        stream.write_all(b"GET /who HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        read_until(&mut stream, "refusal None").await;
    }
}

#[tokio::test]
async fn a_request_under_way_is_finished_at_the_end() {
    let server = start(Limits { drain: PATIENCE, ..Limits::default() }).await;
    let asking = tokio::spawn(ask(server.plain().await, "/held"));
    server.gate.entered.notified().await;
    let (address, gate) = (server.address, server.gate.clone());
    let ending = tokio::spawn(server.end());
    // The listener is gone before the request is done.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    gate.open.notify_one();
    assert!(asking.await.unwrap().ends_with("at last"));
    assert_eq!(ending.await.unwrap(), Ended { cut: 0 });
}

#[tokio::test]
async fn the_end_does_not_wait_for_an_endless_answer() {
    let server = start(Limits { drain: SOON, ..Limits::default() }).await;
    let mut stream = server.tls(server.trusting()).await.unwrap();
    stream.write_all(b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    read_until(&mut stream, "first").await;
    let _idle = server.plain().await;
    assert_eq!(server.end().await, Ended { cut: 1 });
    read_all(stream).await;
}

#[test]
fn the_first_byte_tells_what_is_spoken() {
    assert_eq!(opening(0x16, true), Opening::Tls);
    assert_eq!(opening(0x16, false), Opening::Tls);
    assert_eq!(opening(b'G', true), Opening::Plain);
    assert_eq!(opening(b'G', false), Opening::PlainRefused);
    assert_eq!(opening(0x80, false), Opening::Unknown);
}

#[test]
fn only_errors_of_the_machine_make_the_listener_pause() {
    let too_many_files = io::Error::from_raw_os_error(24);
    assert!(pause_after(&too_many_files) > Duration::ZERO);
    assert_eq!(pause_after(&ErrorKind::ConnectionAborted.into()), Duration::ZERO);
}
