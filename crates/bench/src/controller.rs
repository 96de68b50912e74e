//! `tombolo bench controller`: what a control plane with thousands of nodes and Apps takes in memory
//! and processor, and how long many new Apps wait for their places. The agents are played by
//! [`crowd`]; start at [`run`].

mod crowd;
mod things;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::{TICKS_A_SECOND, mib_of, number, ticks};
use crate::numbers::{percentile_ms, rounded};
use crate::server::Server;
use crowd::{Crew, Crowd};

/// How large the world is in which is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) apps: usize,
}

pub(crate) const APPS_USUAL: usize = 1600;
/// More Apps that are applied at once.
const AT_ONCE: usize = 400;
/// Apps that are added one after the other. One alone takes a few ticks of the kernel's clock.
const ADDED: usize = 10;
/// In which the server does nothing but hear its agents.
const QUIET: Duration = Duration::from_secs(30);
/// Between two Apps that are added: what the first one left to do is done by then.
const PAUSE: Duration = Duration::from_secs(3);
/// For all Apps of the world to come up. More would only tell later that something is wrong.
const FILL_TIME_MAX: Duration = Duration::from_secs(1800);
const WAIT_MAX: Duration = Duration::from_secs(300);

pub(crate) async fn run(dir: &Path, size: Size) -> anyhow::Result<Value> {
    let server = Server::start_with(&dir.join("server"), &["--no-agent"]).await?;
    let crew = Crew::open(&server.door()?).await?;
    crew.ask_all(things::sites(size.nodes)).await?;
    crew.ask_all(things::nodes(size.nodes)).await?;
    crew.ask_all(things::node_statuses(size.nodes)).await?;
    crew.ask_all(things::leases(size.nodes)).await?;
    let crowd = Crowd::start(&server, size.nodes).await?;
    crowd.wait("nodes", WAIT_MAX, |seen| seen.ready_nodes() == size.nodes).await?;

    let started = Instant::now();
    crew.ask_all(things::apps(0..size.apps)).await?;
    crowd.wait("Apps", FILL_TIME_MAX, |seen| seen.running() == size.apps).await?;
    let filled = started.elapsed();

    tokio::time::sleep(QUIET).await;
    let quiet = Spent::in_time(&server, QUIET).await?;
    let resident = server.resident_mb()?;
    let mut one = add_one_by_one(&server, &crew, &crowd, size.apps, &quiet).await?;
    let many = add_at_once(&crew, &crowd, size.apps + ADDED).await?;
    Ok(json!({
        "bench": "controller", "nodes": size.nodes, "apps": size.apps,
        "assignments": size.apps * things::COMPONENTS,
        "filled_s": rounded(filled.as_secs_f64()),
        "rss_mb": rounded(resident),
        "rss_most_mb": rounded(mib_of(&format!("/proc/{}/status", server.process_id()), "VmHWM:")?),
        "quiet_cpu_percent": rounded(quiet.share() * 100.0),
        "one_app_cpu_ms": rounded(one.cpu_ms), "one_app_up_p50_ms": percentile_ms(&mut one.up, 50),
        "at_once": AT_ONCE,
        "at_once_accepted_s": rounded(many.accepted.as_secs_f64()),
        "at_once_placed_s": rounded(many.placed.as_secs_f64()),
        "at_once_up_s": rounded(many.up.as_secs_f64()),
    }))
}

/// Processor time of the server over a time.
struct Spent {
    ticks: u64,
    time: Duration,
}

impl Spent {
    async fn in_time(server: &Server, time: Duration) -> anyhow::Result<Spent> {
        let (before, started) = (ticks(server.process_id())?, Instant::now());
        tokio::time::sleep(time).await;
        Ok(Spent { ticks: ticks(server.process_id())? - before, time: started.elapsed() })
    }

    fn seconds(&self) -> f64 {
        number(self.ticks) / TICKS_A_SECOND
    }

    /// Of one core.
    fn share(&self) -> f64 {
        self.seconds() / self.time.as_secs_f64()
    }
}

struct One {
    /// Without what the server would have done anyway.
    cpu_ms: f64,
    up: Vec<Duration>,
}

async fn add_one_by_one(
    server: &Server,
    crew: &Crew,
    crowd: &Crowd,
    first: usize,
    quiet: &Spent,
) -> anyhow::Result<One> {
    let (before, started) = (ticks(server.process_id())?, Instant::now());
    let mut up = Vec::new();
    for app in first..first + ADDED {
        let began = Instant::now();
        crew.ask_all(things::apps(app..app + 1)).await?;
        crowd.wait("an App", WAIT_MAX, |seen| seen.running() == app + 1).await?;
        up.push(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    let ticks = ticks(server.process_id())? - before;
    let spent = Spent { ticks, time: started.elapsed() };
    let more = spent.seconds() - quiet.share() * spent.time.as_secs_f64();
    Ok(One { cpu_ms: more * 1000.0 / number(ADDED as u64), up })
}

/// From the first request: when all were accepted, when all had their places and the Assignments that
/// carry them out, and when all were known to be up.
struct Many {
    accepted: Duration,
    placed: Duration,
    up: Duration,
}

async fn add_at_once(crew: &Crew, crowd: &Crowd, first: usize) -> anyhow::Result<Many> {
    let all = first + AT_ONCE;
    let started = Instant::now();
    let accept = async {
        crew.ask_all(things::apps(first..all)).await?;
        anyhow::Ok(started.elapsed())
    };
    let place = async {
        crowd.wait("places", WAIT_MAX, |seen| seen.placed() == all).await?;
        anyhow::Ok(started.elapsed())
    };
    let (accepted, placed) = futures::future::try_join(accept, place).await?;
    crowd.wait("Apps", WAIT_MAX, |seen| seen.running() == all).await?;
    Ok(Many { accepted, placed, up: started.elapsed() })
}
