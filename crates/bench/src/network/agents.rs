//! What it costs that a continuum measures itself: a thousand agents at a hundred sites in virtual time, with the
//! choices that real agents and the real loop make, and no sockets. Start at [`run`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_model::{Link, Node, Probing, Shared, Site};
use tombolo_network::probing::{self, Metering, Peer, Purses};
use tombolo_network::track::{Seen, Track, worth_telling};
use tombolo_plan::Monotonic;
use tombolo_plan::links::{Action, Memory, Observed, plan};

use super::matrix::{self, Dice, Matrix};
use crate::numbers::rounded;

const SITES: usize = 100;
const NODES_OF_A_SITE: usize = 10;
/// Long enough for all agents to have joined the ring and for two turns of it.
const SECONDS: u64 = 40 * 60;
/// What is quiet begins when everybody has neighbours.
const QUIET_AFTER: u64 = 15 * 60;
/// Delays of one pair differ by so much of themselves from probe to probe.
const NOISE: f64 = 0.03;

struct Agent {
    peers: BTreeMap<String, Known>,
    purses: Purses,
    told: BTreeMap<String, Seen>,
    told_at: Duration,
}

struct Known {
    index: usize,
    site: String,
    track: Track,
    sent: Option<Duration>,
}

pub(super) fn run() -> anyhow::Result<Value> {
    let delays = matrix::generate(SITES * NODES_OF_A_SITE, 2);
    let mut observed = continuum()?;
    let mut memory = Memory::default();
    let mut agents: BTreeMap<String, Agent> = BTreeMap::new();
    let mut dice = Dice::new(3);
    let before = resident_mb()?;
    let mut counts = Counts::default();
    let mut wake_at = Monotonic::from_start(Duration::ZERO);
    let mut is_news = true;
    for second in 0..SECONDS {
        let (now, is_quiet) = (Duration::from_secs(second), second >= QUIET_AFTER);
        let clock = Monotonic::from_start(now);
        let began = Instant::now();
        let reports = agents.iter_mut().filter_map(|(name, agent)| {
            let octets = probe(agent, index_of(name), &delays, now, &mut dice);
            counts.probe_octets += if is_quiet { octets } else { 0 };
            Some((name.clone(), tell(agent, now)?))
        });
        let reports: Vec<(String, Value)> = reports.collect();
        counts.agents += began.elapsed();
        for (name, report) in reports {
            counts.report_octets += if is_quiet { report.to_string().len() as u64 } else { 0 };
            is_news |= take(&mut observed, &name, report)?;
        }
        if !is_news && clock < wake_at {
            continue;
        }
        let began = Instant::now();
        let time = Time(Timestamp::from_second(1_000_000 + i64::try_from(second)?)?);
        let planned = plan(&observed, memory, clock, &time);
        memory = planned.memory;
        wake_at = planned.wake_at.unwrap_or(clock + Duration::from_secs(60));
        if is_quiet {
            counts.looks += 1;
            counts.loop_time += began.elapsed();
        }
        is_news = !planned.actions.is_empty();
        for action in planned.actions {
            let written = matches!(action, Action::Write { .. });
            counts.writes += u64::from(is_quiet && written);
            carry_out(&mut observed, &mut agents, action, now)?;
        }
    }
    Ok(counts.told(observed.links.len(), resident_mb()? - before))
}

/// What was counted, of what is quiet.
#[derive(Default)]
struct Counts {
    probe_octets: u64,
    report_octets: u64,
    looks: u64,
    writes: u64,
    loop_time: Duration,
    /// Of all agents together, from the start on.
    agents: Duration,
}

impl Counts {
    fn told(&self, links: usize, megabytes: f64) -> Value {
        let nodes = float((SITES * NODES_OF_A_SITE) as u64);
        let quiet = float(SECONDS - QUIET_AFTER);
        let kilobits = |octets: u64| rounded(float(octets) * 8.0 / quiet / nodes / 1000.0);
        let per_agent = self.agents.as_secs_f64() / nodes / float(SECONDS);
        json!({
            "nodes": SITES * NODES_OF_A_SITE, "sites": SITES, "links": links,
            "probes_kbit_a_second_and_node": kilobits(self.probe_octets),
            "reports_kbit_a_second_and_node": kilobits(self.report_octets),
            "agent_percent_of_a_core": rounded(100.0 * per_agent),
            "loop_percent_of_a_core": rounded(100.0 * self.loop_time.as_secs_f64() / quiet),
            "loop_looks": self.looks,
            "loop_ms_a_look": rounded(1000.0 * self.loop_time.as_secs_f64() / float(self.looks.max(1))),
            "link_writes_a_minute_and_link":
                rounded(float(self.writes) * 60.0 / quiet / float(links.max(1) as u64)),
            "mb_of_agents_and_loop": rounded(megabytes),
        })
    }
}

fn name_of(index: usize) -> String {
    format!("s{:02}n{}", index / NODES_OF_A_SITE, index % NODES_OF_A_SITE)
}

fn index_of(name: &str) -> usize {
    let (site, node) = name[1..].split_once('n').unwrap_or_default();
    let number = |text: &str| text.parse().unwrap_or(0);
    number(site) * NODES_OF_A_SITE + number(node)
}

fn continuum() -> anyhow::Result<Observed> {
    let mut observed = Observed::default();
    let kind = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": kind, "metadata": {"name": name},
            "spec": spec})
    };
    for site in 0..SITES {
        let spec = json!({"engine": "host", "probePort": 7072});
        let site: Site = serde_json::from_value(kind("Site", &format!("s{site:02}"), spec))?;
        observed.sites.push(Shared::from(site));
    }
    for index in 0..SITES * NODES_OF_A_SITE {
        let spec = json!({"site": format!("s{:02}", index / NODES_OF_A_SITE)});
        let mut node = kind("Node", &name_of(index), spec);
        node["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "message": "",
            "reason": "Heartbeat", "lastTransitionTime": "1970-01-01T00:00:00Z"}]});
        observed.nodes.push(Shared::from(serde_json::from_value::<Node>(node)?));
    }
    Ok(observed)
}

/// Sends what is due; the octets of it on the wire.
fn probe(agent: &mut Agent, own: usize, delays: &Matrix, now: Duration, dice: &mut Dice) -> u64 {
    let wishes = agent.peers.iter().map(|(name, known)| {
        let matter = known.track.is_unsure().then_some(probing::Matter::Violated);
        let link = known.site.clone();
        (
            name.clone(),
            Peer { link, matter, is_neighbour: true, probed: known.sent, ..Peer::default() },
        )
    });
    let planned = probing::plan(&wishes.collect(), &agent.purses, now);
    agent.purses = planned.purses;
    let mut octets = 0;
    for probe in planned.probes {
        octets += u64::from(probe.octets);
        let Some(known) = agent.peers.get_mut(&probe.peer) else { continue };
        let ms = delays.rtt(own, known.index) * (1.0 + NOISE * dice.normal().abs());
        known.sent = Some(now);
        known.track.note(now, Some(Duration::from_secs_f64(ms / 1000.0)));
    }
    octets
}

/// A report, if one is worth it.
fn tell(agent: &mut Agent, now: Duration) -> Option<Value> {
    let seen: BTreeMap<String, Seen> =
        agent.peers.iter().map(|(name, known)| (name.clone(), known.track.seen(now))).collect();
    let pairs: Vec<(Option<Seen>, Seen)> =
        seen.iter().map(|(name, seen)| (agent.told.get(name).copied(), *seen)).collect();
    if !worth_telling(&pairs, now.saturating_sub(agent.told_at)) {
        return None;
    }
    let micros = |time: Duration| format!("{}us", time.as_micros());
    let found: Vec<Value> = seen
        .iter()
        .filter_map(|(node, seen)| {
            let delays = seen.delays?;
            Some(json!({"node": node, "p50": micros(delays.p50), "p95": micros(delays.p95),
                "jitter": micros(delays.jitter), "spread": micros(delays.spread),
                "probes": seen.probes, "answered": seen.answered,
                "age": format!("{}s", seen.age?.as_secs())}))
        })
        .collect();
    (agent.told, agent.told_at) = (seen, now);
    agent.told.retain(|_, seen| seen.probes > 0);
    let at = Timestamp::from_second(1_000_000 + i64::try_from(now.as_secs()).ok()?).ok()?;
    Some(json!({"address": "10.0.0.1:7072", "measuredAt": at.to_string(), "found": found}))
}

fn take(observed: &mut Observed, name: &str, report: Value) -> anyhow::Result<bool> {
    let probing = observed.probings.iter_mut().find(|it| it.metadata.name.as_deref() == Some(name));
    let probing = probing.context("an agent reports without an order")?;
    probing.status = Some(serde_json::from_value(report)?);
    Ok(true)
}

fn carry_out(
    observed: &mut Observed,
    agents: &mut BTreeMap<String, Agent>,
    action: Action,
    now: Duration,
) -> anyhow::Result<()> {
    match action {
        Action::Order { node, spec, .. } => {
            let agent = agents.entry(node.clone()).or_insert_with(|| Agent {
                peers: BTreeMap::new(),
                purses: Purses::new([], now),
                told: BTreeMap::new(),
                told_at: now,
            });
            let mut before = std::mem::take(&mut agent.peers);
            for peer in &spec.peers {
                let known = before.remove(&peer.node).unwrap_or_else(|| Known {
                    index: index_of(&peer.node),
                    site: peer.site.clone(),
                    track: Track::default(),
                    sent: None,
                });
                agent.peers.insert(peer.node.clone(), known);
            }
            agent.told.retain(|peer, _| agent.peers.contains_key(peer));
            let links = agent.peers.values().map(|peer| (peer.site.as_str(), Metering::Free));
            agent.purses.lead(links, now);
            let probings = &mut observed.probings;
            match probings.iter_mut().find(|it| it.metadata.name.as_ref() == Some(&node)) {
                Some(known) => known.spec = *spec,
                None => {
                    let mut made = Probing::new(&node, *spec);
                    // It answers from the start.
                    made.status =
                        Some(serde_json::from_value(json!({"address": "10.0.0.1:7072"}))?);
                    probings.push(Shared::from(made));
                }
            }
        }
        Action::Make { link, spec } => {
            let mut made = Link::new(&link, *spec);
            made.metadata.labels = Some(BTreeMap::from([(
                tombolo_model::keys::LABEL_MANAGED.to_owned(),
                tombolo_model::link::MADE_BY_PROBES.to_owned(),
            )]));
            observed.links.push(Shared::from(made));
        }
        Action::Write { link, status, .. } => {
            let links = &mut observed.links;
            let link = links.iter_mut().find(|it| it.metadata.name.as_ref() == Some(&link));
            link.context("a status of no link")?.status = Some(*status);
        }
        Action::Withdraw { .. } | Action::Remove { .. } | Action::Judge { .. } => {
            anyhow::bail!("nobody has gone and nobody lies: {action}")
        }
    }
    Ok(())
}

/// Of this process.
fn resident_mb() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(float(kib.context("no VmRSS")?) / 1024.0)
}

#[expect(clippy::cast_precision_loss, reason = "a count for people")]
fn float(count: u64) -> f64 {
    count as f64
}
