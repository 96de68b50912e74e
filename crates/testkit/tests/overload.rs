//! What one client can do to all others: nothing. Each test is an attack on a real server, over TLS, while
//! others go about their business. The sizes are the least at which a server without a door gives way;
//! `tombolo bench overload` has the full ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::Ipv4Addr;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::{Value, json};

use tombolo_bench::hostile::{HERE, Hostile, Pressure, Resident, Tally, first_line, request};
use tombolo_testkit::rig::{Machine, NODE};
use tombolo_testkit::{Rig, Tombolo, eventually};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const JOIN: &str = "/tombolo/join";
/// Other addresses of this machine.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const THIRD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// What all attacks together may cost.
const MEMORY_MB_MAX: u64 = 200;

/// A new token of somebody.
async fn token(tombolo: &Tombolo, role: &str, name: &str) -> String {
    let mut arguments = vec!["token", "create", "--token-only", "--role", role, name];
    if role == "user" {
        arguments.extend(["--for-namespace", "default"]);
    }
    let said = tombolo.shell(&arguments).await.ok();
    said.split_whitespace().last().unwrap().to_owned()
}

fn door(tombolo: &Tombolo) -> Hostile {
    Hostile::of(tombolo.address(), &tombolo.data()).unwrap()
}

/// Waits until the answers to an attack are as they should be.
async fn until(attack: &Pressure, what: &str, is: impl Fn(&Tally) -> bool) -> Tally {
    eventually(what, async || Some(attack.tally()).filter(|tally| is(tally))).await
}

fn admin(tombolo: &Tombolo) -> String {
    let token = std::fs::read_to_string(tombolo.data().join("admin.token")).unwrap();
    token.trim().to_owned()
}

/// Writes ConfigMaps of so many bytes each.
async fn fill(tombolo: &Tombolo, count: usize, bytes: usize) {
    let hostile = door(tombolo);
    let admin = admin(tombolo);
    let mut connection = hostile.http2(HERE).await.unwrap();
    for number in 0..count {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number}")},
            "data": {"text": "x".repeat(bytes)},
        });
        let post = request(&Method::POST, MAPS, Some(&admin));
        let answer = connection.ask_with(post, Bytes::from(map.to_string())).await.unwrap();
        assert_eq!(answer.status(), 201);
    }
}

/// The Lease of the agent's node goes from version to version, so many times.
async fn until_renewed(rig: &Rig, times: usize) {
    let leases: Api<Lease> = Api::namespaced(rig.client.clone(), "tombolo-system");
    let version = async || {
        let lease = leases.get(&format!("node-{NODE}")).await.unwrap();
        lease.metadata.resource_version.unwrap()
    };
    let mut last = version().await;
    for _ in 0..times {
        last = eventually("the agent renews its Lease", async || {
            Some(version().await).filter(|version| *version != last)
        })
        .await;
    }
}

async fn rig_that_beats_often() -> Rig {
    let tombolo = Tombolo::start().await;
    let machine = Machine::beside(&tombolo);
    let arguments = vec!["--heartbeat".to_owned(), "2s".to_owned()];
    Rig::of(tombolo, Machine { arguments, ..machine }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_requests_of_a_user_whose_bodies_never_come_cost_no_heartbeat() {
    let rig = rig_that_beats_often().await;
    let hostile = door(&rig.tombolo);
    let anna = token(&rig.tombolo, "user", "anna").await;
    let bert = token(&rig.tombolo, "user", "bert").await;

    let mut connection = hostile.http2(HERE).await.unwrap();
    connection.settled().await.unwrap();
    let attack = connection.withhold(900, request(&Method::POST, LEASES, Some(&anna)));
    until(&attack, "900 requests wait for their bodies", |tally| tally.sent >= 900).await;
    until_renewed(&rig, 4).await;
    let list = request(&Method::GET, MAPS, Some(&bert));
    assert_eq!(hostile.code(HERE, list).await.unwrap(), 200, "another user");
    let list = request(&Method::GET, MAPS, Some(&anna));
    assert_eq!(
        hostile.code(HERE, list).await.unwrap(),
        200,
        "the same user, whose request is whole"
    );

    let told = until(&attack, "some are told to come back", |tally| tally.of(429) > 0).await;
    assert_eq!(told.without_retry_after, 0, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_take_little_memory() {
    let tombolo = Tombolo::start().await;
    fill(&tombolo, 16, 500_000).await;
    let hostile = door(&tombolo);
    let anna = token(&tombolo, "user", "anna").await;
    let bert = token(&tombolo, "user", "bert").await;
    let list = || request(&Method::GET, MAPS, Some(&anna));
    // The first list of all makes room that later ones use again.
    assert_eq!(hostile.code(HERE, list()).await.unwrap(), 200);
    let before = Resident::of(tombolo.process_id()).unwrap().now;

    let mut connection = hostile.http2(HERE).await.unwrap();
    let mut unread = Vec::new();
    for _ in 0..100 {
        unread.push(connection.send(list()).await.unwrap());
    }
    let unread: Vec<_> = join_all(unread).await.into_iter().map(Result::unwrap).collect();
    let refused: Vec<_> = unread.iter().filter(|answer| answer.status() == 429).collect();
    assert!(refused.iter().all(|answer| answer.headers().contains_key("retry-after")));
    assert!(!refused.is_empty() && refused.len() < 100, "{} refused", refused.len());

    let head =
        format!("GET {MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {anna}\r\n\r\n");
    // Opened one after the other: a hundred handshakes at once outlast the server's patience on a busy
    // machine.
    let mut asked = Vec::new();
    for _ in 0..100 {
        asked.push(hostile.http1(head.as_bytes()).await.unwrap());
    }
    let slow = asked.into_iter().map(async |mut stream| {
        let line = first_line(&mut stream).await.unwrap();
        assert!(line.contains(" 200 ") || line.contains(" 429 "), "{line}");
        stream
    });
    let slow = join_all(slow).await;
    assert_eq!(hostile.code(HERE, request(&Method::GET, MAPS, Some(&bert))).await.unwrap(), 200);
    let most = Resident::of(tombolo.process_id()).unwrap().most;
    assert!(most <= before + MEMORY_MB_MAX, "from {before} to {most} MB");
    drop((unread, slow));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_floods_is_told_to_come_back_and_nobody_else_is() {
    let rig = rig_that_beats_often().await;
    fill(&rig.tombolo, 50, 1000).await;
    let hostile = door(&rig.tombolo);
    let anna = token(&rig.tombolo, "user", "anna").await;
    let bert = token(&rig.tombolo, "user", "bert").await;
    let mut floods = Vec::new();
    for _ in 0..2 {
        let mut connection = hostile.http2(HERE).await.unwrap();
        connection.settled().await.unwrap();
        floods.push(connection.flood(900, request(&Method::GET, MAPS, Some(&anna))));
    }
    until(&floods[0], "some are told to come back", |tally| tally.of(429) > 0).await;

    until_renewed(&rig, 2).await;
    for token in [&bert, &admin(&rig.tombolo)] {
        let mut connection = hostile.http2(HERE).await.unwrap();
        for number in 0..20 {
            let list = request(&Method::GET, MAPS, Some(token));
            assert_eq!(connection.ask(list).await.unwrap().status(), 200);
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "new-"},
                "data": {"number": number.to_string()},
            });
            let post = request(&Method::POST, MAPS, Some(token));
            let answer = connection.ask_with(post, Bytes::from(map.to_string())).await.unwrap();
            assert_eq!(answer.status(), 201);
        }
    }
    for flood in floods {
        let tally = flood.tally();
        assert_eq!(tally.without_retry_after, 0, "{tally:?}");
        let others = tally.codes.keys().any(|code| ![200, 429].contains(code));
        assert!(!others && tally.broken == 0, "{tally:?}");
    }
}

/// Whoever asks whether the server is ready is answered long before all watches are set up. A server
/// that sets them up where it answers requests answers afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn watches_with_selectors_do_not_come_before_the_health_check() {
    const WATCHES: usize = 600;
    let tombolo = Tombolo::start().await;
    fill(&tombolo, 300, 10_000).await;
    let hostile = door(&tombolo);
    let anna = token(&tombolo, "user", "anna").await;
    let mut connection = hostile.http2(HERE).await.unwrap();
    let path = format!("{MAPS}?watch=1&labelSelector=a%3Db");
    let mut watches = FuturesUnordered::new();
    for _ in 0..WATCHES {
        watches.push(connection.send(request(&Method::GET, &path, Some(&anna))).await.unwrap());
    }
    for _ in 0..3 {
        let mut health = hostile.http2(ELSEWHERE).await.unwrap();
        let asked = health.ask(request(&Method::GET, "/readyz", None)).await;
        assert_eq!(asked.unwrap().status(), 200);
    }
    let mut begun = 0;
    while let Some(Some(answer)) = futures::FutureExt::now_or_never(watches.next()) {
        begun += usize::from(answer.unwrap().status() == 200);
    }
    assert!(begun < WATCHES / 2, "{begun} of {WATCHES} watches came before the health check");
}

#[tokio::test(flavor = "multi_thread")]
async fn joinings_whose_bodies_never_come_keep_nobody_out() {
    let tombolo = Tombolo::start().await;
    let hostile = door(&tombolo);
    let mut people = vec![("admin", admin(&tombolo))];
    for role in ["guest", "user", "manager"] {
        people.push((role, token(&tombolo, role, &format!("a-{role}")).await));
    }
    let mut connection = hostile.http2(ELSEWHERE).await.unwrap();
    connection.settled().await.unwrap();
    let attack = connection.withhold(700, request(&Method::POST, JOIN, None));
    until(&attack, "700 joinings wait for their bodies", |tally| tally.sent >= 700).await;

    for (role, token) in &people {
        let list = request(&Method::GET, "/apis/tombolo.dev/v1alpha1/nodes", Some(token));
        assert_eq!(hostile.code(HERE, list).await.unwrap(), 200, "{role}");
    }
    // And a machine joins, renews its Lease, and is known to be ready.
    let machine = Machine::beside(&tombolo);
    let rig = Rig::of(tombolo, machine).await;
    let told = until(&attack, "some are told to come back", |tally| tally.of(429) > 0).await;
    assert_eq!(told.without_retry_after, 0, "{told:?}");
    drop(rig);
}

/// Idle connections of HTTP/2, which nobody may end for being idle.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_address_keep_no_other_address_out() {
    let tombolo = Tombolo::start().await;
    let hostile = door(&tombolo);
    let admin = admin(&tombolo);
    let mut before = hostile.http2(HERE).await.unwrap();
    let list = || request(&Method::GET, MAPS, Some(&admin));
    assert_eq!(before.ask(list()).await.unwrap().status(), 200);

    let mut idle = Vec::new();
    for _ in 0..4_200 {
        let Ok(mut connection) = hostile.plain_http2(ELSEWHERE).await else { continue };
        // It may have had to go for the next one by now.
        let _ = connection.send(request(&Method::GET, "/healthz", None)).await;
        idle.push(connection);
    }
    for from in [HERE, THIRD, ELSEWHERE] {
        let newcomer = async {
            let mut connection = hostile.http2(from).await.unwrap();
            connection.ask(request(&Method::GET, "/readyz", None)).await.unwrap().status()
        };
        let answered = tokio::time::timeout(std::time::Duration::from_secs(60), newcomer);
        assert_eq!(answered.await.expect("a newcomer is answered"), 200, "{from}");
    }
    assert_eq!(before.ask(list()).await.unwrap().status(), 200, "who had signed in before");
    drop(idle);
}

/// Many times, because an answer was lost only sometimes.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_with_a_body_hears_why() {
    let tombolo = Tombolo::start().await;
    let hostile = door(&tombolo);
    let manager = token(&tombolo, "manager", "mona").await;
    let path = "/api/v1/namespaces/tombolo-system?dryRun=All";
    for size in [30, 20_000, 200_000, 2_000_000].into_iter().cycle().take(80) {
        let body = format!("{{\"metadata\":{{\"labels\":{{\"a\":\"b\"}}}}}}{}", " ".repeat(size));
        let mut connection = hostile.http2(HERE).await.unwrap();
        let patch = request(&Method::PATCH, path, Some(&manager));
        let answer = connection.ask_with(patch, Bytes::from(body.clone())).await.unwrap();
        assert_eq!(answer.status(), 403, "HTTP/2, {size}");
        let mut rest = answer.into_body();
        let mut status = Vec::new();
        while let Some(piece) = rest.data().await {
            status.extend_from_slice(&piece.unwrap());
        }
        let status: Value = serde_json::from_slice(&status).unwrap();
        assert_eq!(status["reason"], "Forbidden", "{status}");

        let head = format!(
            "PATCH {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\
             content-type: application/merge-patch+json\r\nauthorization: Bearer {manager}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = hostile.http1(head.as_bytes()).await.unwrap();
        assert!(first_line(&mut stream).await.unwrap().contains(" 403 "), "HTTP/1, {size}");
    }
}
