//! The attacks that the door is made for, over real sockets, with bounds that they reach cheaply.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tombolo_gate::Gate;
use tombolo_identity::home::{self, Settings};
use tombolo_identity::{AccessToken, Role, Subject, Token, tls};
use tombolo_store::{Expect, Options, Store, Write};

use super::*;
use crate::{Api, encode, serve, time};

mod held;

/// Past this a test has failed; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

struct World {
    address: SocketAddr,
    api: Api,
    _data: TempDir,
}

/// A token of a user of the default namespace, by its number.
fn token(number: u8) -> Token {
    Token::from_bytes([number; 32])
}

impl World {
    async fn start(limits: Limits) -> World {
        let nothing = axum::routing::get(|| async {});
        World::serving(limits, axum::Router::new().route("/some/facade", nothing)).await
    }

    /// With routes beside the protocol.
    async fn serving(limits: Limits, routes: axum::Router) -> World {
        let data = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = data.path().to_owned();
        let settings = Settings { folder, listen: vec![address], names: Vec::new() };
        let home = home::open(&settings, time::timestamp()).unwrap();
        let store = Store::open(data.path(), Options::default()).unwrap();
        let api = Api::open(store, token(0).hash()).await.unwrap().limited(limits);
        let gate = Gate::open(api.client(Subject::system("gate")), None).unwrap();
        let api = api.streaming(gate.router()).serving(routes);
        let router = api.admitting(api.router());
        let (tls, traffic) = (tls::server_config(&home).unwrap(), api.traffic());
        let never = futures::future::pending();
        tokio::spawn(serve::serve(
            vec![listener],
            router,
            tls,
            serve::Limits::default(),
            traffic,
            never,
        ));
        let world = World { address, api, _data: data };
        for number in [1, 2] {
            world.let_in(number).await;
        }
        world
    }

    /// Writes the token of a user.
    async fn let_in(&self, number: u8) {
        let token = token(number);
        let name = format!("user-{number}");
        let namespace = Some("default".to_owned());
        let record = AccessToken::new(&token, &name, Role::User, namespace, None);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": tombolo_identity::token::ACCESS_TOKEN_TYPE,
            "metadata": {"name": token.hash().secret_name(), "namespace": "tombolo-system"},
            "data": record.unwrap().to_data(),
        });
        let key = format!("/secrets/tombolo-system/{}", token.hash().secret_name());
        self.put(key, &secret).await;
    }

    async fn put(&self, key: String, object: &serde_json::Value) {
        let write = Write::put(key, Expect::Absent, encode::draft_stored(object));
        self.api.store.commit(vec![write]).await.unwrap();
    }

    async fn fill(&self, count: usize, bytes: usize) {
        for number in 0..count {
            let name = format!("map-{number}");
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"}, "data": {"a": "x".repeat(bytes)},
            });
            self.put(format!("/configmaps/default/{name}"), &map).await;
        }
    }

    /// A plain HTTP/2 connection that never takes more than its window.
    async fn connect(&self) -> SendRequest<Bytes> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(async move {
            let _ = connection.await;
        });
        sender
    }

    async fn until(&self, what: &str, is: impl Fn() -> bool) {
        let waiting = async {
            while !is() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
    }

    async fn until_nothing_is_held(&self) {
        let nothing = || lock(&self.api.traffic.ledger).is_empty();
        self.until("what was not read is given up", nothing).await;
    }

    /// The code of one request on a connection of its own.
    async fn code(&self, path: &str, token: Option<&Token>) -> u16 {
        let mut sender = self.connect().await.ready().await.unwrap();
        let (answer, _) = sender.send_request(ask("GET", path, token), true).unwrap();
        timeout(PATIENCE, answer).await.expect("it answers").unwrap().status().as_u16()
    }
}

fn ask(method: &str, path: &str, token: Option<&Token>) -> Request<()> {
    let mut request = Request::builder().method(method).uri(format!("http://localhost{path}"));
    request = request.header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {}", token.reveal()));
    }
    request.body(()).unwrap()
}

/// Requests whose bodies never come, for as long as what is returned is kept.
async fn trickle(
    world: &World,
    count: usize,
    path: &str,
    token: Option<&Token>,
) -> (SendRequest<Bytes>, Vec<(ResponseFuture, h2::SendStream<Bytes>)>) {
    let mut sender = world.connect().await;
    let mut streams = Vec::new();
    for _ in 0..count {
        sender = sender.ready().await.unwrap();
        streams.push(sender.send_request(ask("POST", path, token), false).unwrap());
    }
    (sender, streams)
}

/// Those that were told to come back, which must be all but `kept`.
async fn refused(answers: Vec<ResponseFuture>, kept: usize) {
    let wanted = answers.len() - kept;
    let mut waiting: futures::stream::FuturesUnordered<ResponseFuture> =
        answers.into_iter().collect();
    for _ in 0..wanted {
        let next = futures::StreamExt::next(&mut waiting);
        let answer = timeout(PATIENCE, next).await.expect("it answers").unwrap().unwrap();
        assert_eq!(answer.status(), 429);
        assert_eq!(answer.headers()["retry-after"], "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_never_come_hold_no_seat_and_only_their_sender_is_refused() {
    let limits = Limits {
        users: Share { seats: 2, waiting: 8, waiting_per_flow: 4 },
        anonymous: Share { seats: 2, waiting: 8, waiting_per_flow: 4 },
        bodies: Bound { per_flow: 5, in_all: 100 },
        ..Limits::default()
    };
    let world = World::start(limits).await;
    for (path, sender) in [(LEASES, Some(token(1))), ("/tombolo/join", None)] {
        let (_sender, streams) = trickle(&world, 40, path, sender.as_ref()).await;
        let (answers, _bodies): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
        refused(answers, 5).await;
        assert_eq!(world.code(MAPS, Some(&token(1))).await, 200, "the same user, without a body");
        assert_eq!(world.code(MAPS, Some(&token(2))).await, 200, "another user");
        assert_eq!(world.code(MAPS, Some(&token(0))).await, 200, "an admin");
        assert_eq!(world.code("/tombolo/nonce", None).await, 200, "a machine that renews");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_not_read_are_bounded_and_given_up() {
    const MIB: usize = 1024 * 1024;
    let limits = Limits {
        answer_bytes: Bound { per_flow: 3 * MIB, in_all: 100 * MIB },
        answer_bytes_per_connection: 3 * MIB,
        write: Duration::from_millis(200),
        ..Limits::default()
    };
    let world = World::start(limits).await;
    world.fill(20, 50 * 1024).await;
    let mut sender = world.connect().await;
    let mut answers = Vec::new();
    for _ in 0..30 {
        sender = sender.ready().await.unwrap();
        answers.push(sender.send_request(ask("GET", MAPS, Some(&token(1))), true).unwrap().0);
    }
    let answers = join_all(answers).await;
    let codes = answers.iter().map(|answer| answer.as_ref().unwrap().status().as_u16());
    let full = codes.filter(|code| *code == 429).count();
    assert!(full > 0, "thirty lists of a MiB do not fit");
    assert_eq!(world.code(MAPS, Some(&token(2))).await, 200, "another user");
    // Each stream that stands still is reset, and what it held is there again.
    world.until_nothing_is_held().await;
    drop(answers);
}

/// Nothing is left to be reset then: the protocol holds the bytes, and only the end of the connection
/// frees them.
#[tokio::test(flavor = "multi_thread")]
async fn small_answers_that_are_not_read_are_given_up_with_their_connection() {
    let world =
        World::start(Limits { write: Duration::from_millis(200), ..Limits::default() }).await;
    world.fill(1, 10 * 1024).await;
    let mut sender = world.connect().await;
    let mut answers = Vec::new();
    // Ten times what a client takes that does not read.
    for _ in 0..64 {
        sender = sender.ready().await.unwrap();
        let one = ask("GET", &format!("{MAPS}/map-0"), Some(&token(1)));
        answers.push(sender.send_request(one, true).unwrap().0);
    }
    let answers = join_all(answers).await;
    world.until_nothing_is_held().await;
    assert!(timeout(PATIENCE, sender.ready()).await.expect("it ends").is_err(), "it is closed");
    drop(answers);
}

/// Of lists that wait for their turn on the threads for heavy steps.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_wait_for_their_turn_hold_no_seat() {
    let limits = Limits {
        users: Share { seats: 2, waiting: 64, waiting_per_flow: 64 },
        reads: 2,
        heavy: Share { seats: 1, waiting: 64, waiting_per_flow: 64 },
        wait: PATIENCE,
        ..Limits::default()
    };
    let world = World::start(limits).await;
    world.fill(20, 50 * 1024).await;
    let turn = world.api.traffic.turn(&Flow::Subject("somebody".into())).await.unwrap();
    let path = format!("{MAPS}?labelSelector=a%3Db&limit=5");
    let mut sender = world.connect().await;
    let mut lists = Vec::new();
    for _ in 0..20 {
        sender = sender.ready().await.unwrap();
        lists.push(sender.send_request(ask("GET", &path, Some(&token(1))), true).unwrap().0);
    }
    let waiting = || world.api.traffic.heavy.waiting();
    world.until("all lists wait", || waiting() == 20).await;
    let small = format!("{MAPS}/map-0");
    assert_eq!(world.code(&small, Some(&token(2))).await, 200, "another user");
    assert_eq!(world.code(&small, Some(&token(1))).await, 200, "the same user");
    drop(turn);
    for list in join_all(lists).await {
        assert_eq!(list.unwrap().status(), 200);
    }
}

/// One small request to a facade lists everything several times.
#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_facade_take_as_many_seats_as_their_work() {
    let limits = Limits {
        users: Share { seats: 32, waiting: 64, waiting_per_flow: 64 },
        facade: 16,
        wait: PATIENCE,
        ..Limits::default()
    };
    let working = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (end, ended) = tokio::sync::watch::channel(false);
    let count = Arc::clone(&working);
    let matchmake = axum::routing::get(move || {
        let (count, mut ended) = (Arc::clone(&count), ended.clone());
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = ended.wait_for(|ended| *ended).await;
        }
    });
    let routes = axum::Router::new().route("/matchmake", matchmake);
    let world = World::serving(limits, routes).await;
    let mut sender = world.connect().await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        sender = sender.ready().await.unwrap();
        let request = ask("GET", "/matchmake", Some(&token(1)));
        asked.push(sender.send_request(request, true).unwrap().0);
    }
    let hall = &world.api.traffic.halls[&(Level::Users, Work::Other)];
    world.until("the third waits for a seat", || hall.waiting() == 1).await;
    assert_eq!(working.load(Ordering::SeqCst), 2, "two fill the seats of users");
    assert_eq!(world.code(MAPS, Some(&token(1))).await, 200, "a request that reads");
    end.send(true).unwrap();
    for answer in join_all(asked).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
}

/// A body that is too large is refused by the bound that was set.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_body_can_be_set() {
    let world = World::start(Limits { body_bytes_each: 1000, ..Limits::default() }).await;
    for (bytes, expected) in [(900_usize, 400), (1100, 413)] {
        let mut sender = world.connect().await.ready().await.unwrap();
        let request = ask("POST", MAPS, Some(&token(1)));
        let (answer, mut body) = sender.send_request(request, false).unwrap();
        body.send_data(Bytes::from(vec![b' '; bytes]), true).unwrap();
        let answer = timeout(PATIENCE, answer).await.expect("it answers").unwrap();
        assert_eq!(answer.status(), expected, "{bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_in_pieces_is_the_whole_list() {
    let world = World::start(Limits::default()).await;
    world.fill(30, 20 * 1024).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let request = format!(
        "GET {MAPS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        token(1).reveal()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it ends").unwrap();
    assert!(answer.contains("transfer-encoding: chunked"), "{}", &answer[..200]);
    assert_eq!(answer.matches(r#""kind":"ConfigMap""#).count(), 30);
}

/// Many times, because an answer was lost only sometimes.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_refused_hears_why_however_large_its_body_is() {
    let world = World::start(Limits::default()).await;
    for size in [30, 200_000, 8_000_000].into_iter().cycle().take(12) {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {size}\r\n\
             authorization: Bearer nobody\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // A connection that is closed too early loses what was sent, and the answer with it.
        let sent = stream.write_all(&vec![b' '; size]).await;
        let mut answer = String::new();
        let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it ends");
        assert!(sent.is_ok() && read.is_ok(), "{size}: {sent:?} {read:?}");
        assert!(answer.starts_with("HTTP/1.1 401 "), "{size}: {answer}");
    }
}
