//! The attacks, each as large as it was when it brought a server without a door down.

use std::net::Ipv4Addr;

use futures::StreamExt as _;
use futures::future::{FutureExt as _, LocalBoxFuture, join_all};
use futures::stream::FuturesUnordered;
use http::{Method, Response};
use tokio::sync::watch;

use super::{MAPS, World};
use crate::hostile::{HERE, Pressure, first_line, request};

pub(super) struct Attack {
    pub name: &'static str,
    run: Run,
}

/// What an attacker was answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Attacked {
    /// Requests, or connections.
    pub sent: usize,
    pub answered: usize,
    pub refused: usize,
    /// Of those that were refused, how many were not told when to come back.
    pub without_retry_after: usize,
    /// Whose stream or connection ended without an answer.
    pub broken: usize,
}

impl Attacked {
    fn note<T>(&mut self, answer: &Response<T>) {
        match answer.status().as_u16() {
            200 => self.answered += 1,
            429 => {
                self.refused += 1;
                let told = answer.headers().contains_key("retry-after");
                self.without_retry_after += usize::from(!told);
            }
            _ => (),
        }
    }
}

/// Attacks until it is stopped, and says what it was answered.
type Run = for<'a> fn(&'a World, Stopped) -> LocalBoxFuture<'a, anyhow::Result<Attacked>>;
type Stopped = watch::Receiver<bool>;

pub(super) const ATTACKS: &[Attack] = &[
    Attack { name: "leases_without_bodies", run: |world, stop| leases(world, stop).boxed_local() },
    Attack { name: "joins_without_bodies", run: |world, stop| joins(world, stop).boxed_local() },
    Attack { name: "unread_answers", run: |world, stop| unread(world, stop).boxed_local() },
    Attack { name: "flood", run: |world, stop| flood(world, stop).boxed_local() },
    Attack { name: "watches", run: |world, stop| watches(world, stop).boxed_local() },
    Attack { name: "connections", run: |world, stop| connections(world, stop).boxed_local() },
];

const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

const LEASE_STREAMS: usize = 900;
const JOIN_STREAMS: usize = 700;
const UNREAD_STREAMS: usize = 200;
const SLOW_READERS: usize = 100;
const FLOOD_CONNECTIONS: usize = 6;
/// A server takes a thousand on one connection.
const FLOOD_STREAMS: usize = 990;
const WATCHES: usize = 990;
const CONNECTIONS: usize = 4_096;

/// On this thread alone.
pub(super) fn run(attack: &Attack, world: &World, stop: Stopped) -> anyhow::Result<Attacked> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on((attack.run)(world, stop))
}

async fn until(mut stop: Stopped) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn leases(world: &World, stop: Stopped) -> anyhow::Result<Attacked> {
    let mut connection = world.hostile.http2(HERE).await?;
    connection.settled().await?;
    let post = request(&Method::POST, LEASES, Some(&world.flooder));
    let pressure = connection.withhold(LEASE_STREAMS, post);
    until(stop).await;
    Ok(tally(&[pressure]))
}

async fn joins(world: &World, stop: Stopped) -> anyhow::Result<Attacked> {
    let mut connection = world.hostile.http2(ELSEWHERE).await?;
    connection.settled().await?;
    let post = request(&Method::POST, "/tombolo/join", None);
    let pressure = connection.withhold(JOIN_STREAMS, post);
    until(stop).await;
    Ok(tally(&[pressure]))
}

async fn flood(world: &World, stop: Stopped) -> anyhow::Result<Attacked> {
    let mut floods = Vec::new();
    for _ in 0..FLOOD_CONNECTIONS {
        let mut connection = world.hostile.http2(HERE).await?;
        connection.settled().await?;
        let list = request(&Method::GET, MAPS, Some(&world.flooder));
        floods.push(connection.flood(FLOOD_STREAMS, list));
    }
    until(stop).await;
    Ok(tally(&floods))
}

async fn unread(world: &World, stop: Stopped) -> anyhow::Result<Attacked> {
    let mut connection = world.hostile.http2(HERE).await?;
    let mut lists = Vec::new();
    for _ in 0..UNREAD_STREAMS {
        let list = request(&Method::GET, MAPS, Some(&world.flooder));
        lists.push(connection.send(list).await?);
    }
    let answers = join_all(lists).await;
    let mut attacked = Attacked { sent: UNREAD_STREAMS + SLOW_READERS, ..Attacked::default() };
    for answer in &answers {
        match answer {
            Ok(answer) => attacked.note(answer),
            Err(_) => attacked.broken += 1,
        }
    }
    let head = format!(
        "GET {MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        world.flooder
    );
    let mut slow = Vec::new();
    for _ in 0..SLOW_READERS {
        let mut stream = world.hostile.http1(head.as_bytes()).await?;
        let line = first_line(&mut stream).await?;
        attacked.answered += usize::from(line.contains(" 200 "));
        attacked.refused += usize::from(line.contains(" 429 "));
        slow.push(stream);
    }
    until(stop).await;
    Ok(attacked)
}

async fn watches(world: &World, stop: Stopped) -> anyhow::Result<Attacked> {
    let path = format!("{MAPS}?watch=1&labelSelector=a%3Db");
    let mut connection = world.hostile.http2(HERE).await?;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let watch = request(&Method::GET, &path, Some(&world.flooder));
        watches.push(connection.send(watch).await?);
    }
    let mut waiting: FuturesUnordered<_> = watches.into_iter().collect();
    let mut stop = std::pin::pin!(until(stop));
    let mut attacked = Attacked { sent: WATCHES, ..Attacked::default() };
    // Their streams stay open for as long as the answers are kept.
    let mut answers = Vec::new();
    loop {
        tokio::select! {
            () = &mut stop => return Ok(attacked),
            Some(answer) = waiting.next() => match answer {
                Ok(answer) => {
                    attacked.note(&answer);
                    answers.push(answer);
                }
                Err(_) => attacked.broken += 1,
            },
        }
    }
}

async fn connections(world: &World, stop: Stopped) -> anyhow::Result<Attacked> {
    let mut attacked = Attacked { sent: CONNECTIONS, ..Attacked::default() };
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        match world.hostile.plain_http2(ELSEWHERE).await {
            Ok(mut connection) => {
                // It may have had to go for a later one by now.
                let _ = connection.send(request(&Method::GET, "/healthz", None)).await;
                idle.push(connection);
                attacked.answered += 1;
            }
            Err(_) => attacked.broken += 1,
        }
    }
    until(stop).await;
    Ok(attacked)
}

fn tally(pressures: &[Pressure]) -> Attacked {
    let mut attacked = Attacked::default();
    for tally in pressures.iter().map(Pressure::tally) {
        attacked.sent += tally.sent;
        attacked.answered += tally.of(200);
        attacked.refused += tally.of(429);
        attacked.without_retry_after += tally.without_retry_after;
        attacked.broken += tally.broken;
    }
    attacked
}
