//! Measures the network, where the site allows it: answers the probes of others, probes those that the controller
//! names, and tells what it found. Whom to probe when is decided by [`tombolo_network::probing`], what is worth telling
//! by [`tombolo_network::track`]. Started by [`crate::work`]; start at [`keep`].

mod answering;
mod order;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tombolo_model::keys::API_VERSION;
use tombolo_model::phrase::with_causes;
use tombolo_model::probing::{Found, Matter, ProbePeer};
use tombolo_network::probing::{self, Metering, Peer, Probe, Purses, What};
use tombolo_network::stamp::Mode;
use tombolo_network::track::{Seen, Track, worth_telling};
use tombolo_probe::{Delays, Echo, Prober};

use crate::clock::{self, Clock};
use crate::connection::{self, Connection};
use answering::Answering;
use order::Order;

/// Nobody waits longer for a look: what a purse could not pay a moment ago it may pay now.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A burst of answers is one look.
const LOOK_GAP_MIN: Duration = Duration::from_millis(50);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Candidates are measured anew if that was longer ago.
const LATELY: Duration = Duration::from_secs(60);
/// Rest after a report that was not taken.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Between two probes of one call. There is one.
const ONE_BY_ONE: Duration = Duration::from_millis(1);

/// Answers, probes and tells for ever. `place` is where others reach this machine.
pub(crate) async fn keep(
    connection: Connection,
    node: String,
    mut place: watch::Receiver<String>,
    clock: Clock,
) {
    let (sender, mut orders) = watch::channel(None);
    let following = order::follow(connection.clone(), node.clone(), sender);
    let mut following = std::pin::pin!(following);
    let mut work = Work::new(connection, node, clock);
    loop {
        let pause = work.look(&place.borrow_and_update().clone());
        let pause = tokio::time::sleep(pause.max(LOOK_GAP_MIN));
        tokio::select! {
            () = &mut following => return,
            Ok(()) = orders.changed() => {
                let order = orders.borrow_and_update().clone();
                work.take_order(order);
            }
            Ok(()) = place.changed() => (),
            Some(probed) = work.probes.join_next() => work.probed(probed.ok()),
            Some(told) = work.reports.join_next() => work.told(told.ok()),
            () = work.answering.ended() => (),
            () = pause => (),
        }
    }
}

/// A probe that has come back: of whom, when it was sent, and with what.
type Probed = (String, Duration, Option<(Prober, Delays)>);

/// What was told, if the server has taken it.
type Report = (BTreeMap<String, Seen>, Said, bool);

/// What a report says beside the figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    address: Option<SocketAddr>,
    problem: Option<String>,
}

/// What is known of a peer.
#[derive(Debug)]
struct Known {
    order: ProbePeer,
    address: SocketAddr,
    /// Away while a probe is under way.
    prober: Option<Prober>,
    is_away: bool,
    track: Track,
    /// Its machine says that nobody listens there.
    is_refused: bool,
    sent: Option<Duration>,
}

struct Work {
    connection: Connection,
    node: String,
    clock: Clock,
    order: Option<Order>,
    answering: Answering,
    peers: BTreeMap<String, Known>,
    purses: Purses,
    probes: JoinSet<Probed>,
    reports: JoinSet<Report>,
    told: BTreeMap<String, Seen>,
    told_at: Option<Duration>,
    said: Said,
    rests_until: Duration,
    sessions: u16,
}

impl Work {
    fn new(connection: Connection, node: String, clock: Clock) -> Work {
        Work {
            connection,
            node,
            clock,
            order: None,
            answering: Answering::default(),
            peers: BTreeMap::new(),
            purses: Purses::new([], clock.now().since_start()),
            probes: JoinSet::new(),
            reports: JoinSet::new(),
            told: BTreeMap::new(),
            told_at: None,
            said: Said::default(),
            rests_until: Duration::ZERO,
            sessions: 0,
        }
    }

    fn now(&self) -> Duration {
        self.clock.now().since_start()
    }

    /// Those that stay keep what is known of them.
    fn take_order(&mut self, order: Option<Order>) {
        let mut before = std::mem::take(&mut self.peers);
        for peer in order.iter().flat_map(|order| &order.peers) {
            let Ok(address) = peer.address.parse::<SocketAddr>() else { continue };
            let known = before.remove(&peer.node).filter(|known| known.address == address);
            let known = known.unwrap_or_else(|| Known {
                order: peer.clone(),
                address,
                prober: None,
                is_away: false,
                track: Track::default(),
                is_refused: false,
                sent: None,
            });
            self.peers.insert(peer.node.clone(), Known { order: peer.clone(), ..known });
        }
        self.told.retain(|peer, _| self.peers.contains_key(peer));
        let links = self.peers.values().map(|peer| (peer.order.site.as_str(), Metering::Free));
        self.purses.lead(links, self.clock.now().since_start());
        self.order = order;
    }

    /// Sends what is due, tells what is worth it, and says how long nothing else will be.
    fn look(&mut self, place: &str) -> Duration {
        let port = self.order.as_ref().and_then(|order| order.port);
        let now = self.now();
        self.answering.look(port, place, now);
        let plan = probing::plan(&self.wishes(now), &self.purses, now);
        self.purses = plan.purses;
        for probe in plan.probes {
            self.send(&probe, now);
        }
        if self.order.is_some() {
            self.tell(now);
        }
        plan.next.saturating_sub(now).min(LOOK_EVERY)
    }

    fn wishes(&self, now: Duration) -> BTreeMap<String, Peer> {
        let known = self.peers.iter().filter(|(_, known)| !known.is_away);
        let peer = |known: &Known| Peer {
            link: known.order.site.clone(),
            matter: match known.track.is_unsure() {
                true => Some(probing::Matter::Violated),
                false => known.order.matter.map(matter),
            },
            is_neighbour: true,
            probed: known.sent,
            samples: known.track.since(now, LATELY),
            // Trains are sent when somebody asks for one: nobody can tell here whether a link is idle.
            is_idle: false,
            ..Peer::default()
        };
        known.map(|(name, known)| (name.clone(), peer(known))).collect()
    }

    fn send(&mut self, probe: &Probe, now: Duration) {
        let Some(known) = self.peers.get_mut(&probe.peer).filter(|_| probe.what == What::Latency)
        else {
            return;
        };
        (known.sent, known.is_away) = (Some(now), true);
        let (name, address, prober) = (probe.peer.clone(), known.address, known.prober.take());
        self.sessions = self.sessions % 0x7fff + 1;
        let session = self.sessions;
        self.probes.spawn(async move {
            let prober = match prober {
                Some(prober) => Ok(prober),
                None => Prober::open(address, Mode::Open, session).await,
            };
            let Ok(mut prober) = prober else { return (name, now, None) };
            let delays = prober.delays(1, ONE_BY_ONE).await.ok();
            (name, now, delays.map(|delays| (prober, delays)))
        });
    }

    fn probed(&mut self, probed: Option<Probed>) {
        let Some((name, sent, brought)) = probed else {
            // A task that panicked has not said which peer it was about.
            for known in self.peers.values_mut() {
                known.is_away = false;
            }
            return;
        };
        let Some(known) = self.peers.get_mut(&name) else { return };
        known.is_away = false;
        // A socket that failed says as much as silence: the way is not open from here.
        let delay = brought.as_ref().and_then(|(_, delays)| delays.latest);
        known.track.note(sent, delay);
        known.is_refused = brought.as_ref().is_some_and(|(_, delays)| delays.echo == Echo::Refused);
        known.prober = brought.map(|(prober, _)| prober);
    }

    fn tell(&mut self, now: Duration) {
        let said = Said { address: self.answering.address(), problem: self.answering.problem() };
        let seen: BTreeMap<String, Seen> =
            self.peers.iter().map(|(name, known)| (name.clone(), known.track.seen(now))).collect();
        let pairs: Vec<(Option<Seen>, Seen)> =
            seen.iter().map(|(name, seen)| (self.told.get(name).copied(), *seen)).collect();
        let ago = self.told_at.map_or(Duration::MAX, |at| now.saturating_sub(at));
        let is_due = said != self.said || self.told_at.is_none() || worth_telling(&pairs, ago);
        if !is_due || !self.reports.is_empty() || now < self.rests_until {
            return;
        }
        let path = format!("/apis/{API_VERSION}/probings/{}/status", self.node);
        let is_refused = |node: &str| self.peers.get(node).is_some_and(|known| known.is_refused);
        let change = report(&said, &seen, is_refused);
        let client = self.connection.client();
        self.reports.spawn(async move {
            let written = connection::patch_quietly(&client, &path, &change);
            let written = tokio::time::timeout(ANSWER_TIMEOUT, written).await;
            let is_taken = match written {
                Ok(Ok(_)) => true,
                Ok(Err(error)) => {
                    tracing::debug!(error = with_causes(&error), "a report is not taken");
                    false
                }
                Err(_late) => false,
            };
            (seen, said, is_taken)
        });
    }

    fn told(&mut self, report: Option<Report>) {
        let now = self.now();
        match report {
            Some((seen, said, true)) => {
                (self.told, self.said, self.told_at) = (seen, said, Some(now));
                // Of whom nothing is known nothing was told.
                self.told.retain(|_, seen| seen.probes > 0);
            }
            Some((_, _, false)) | None => self.rests_until = now + RETRY_AFTER,
        }
    }
}

fn matter(matter: Matter) -> probing::Matter {
    match matter {
        Matter::Violated => probing::Matter::Violated,
        Matter::Candidate => probing::Matter::Candidate,
        Matter::Connected => probing::Matter::Connected,
    }
}

/// The whole status: what it said and no longer says is gone with it.
fn report(said: &Said, seen: &BTreeMap<String, Seen>, is_refused: impl Fn(&str) -> bool) -> Value {
    let seen = seen.iter().filter(|(_, seen)| seen.probes > 0);
    let found: Vec<Found> =
        seen.map(|(node, seen)| Found { refused: is_refused(node), ..found(node, seen) }).collect();
    json!({"status": {
        "address": said.address.map(|address| address.to_string()),
        "problem": said.problem,
        "measuredAt": clock::time_of_day().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        "found": found,
    }})
}

fn found(node: &str, seen: &Seen) -> Found {
    let time = |time: Duration| {
        tombolo_model::Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    };
    Found {
        node: node.to_owned(),
        p50: seen.delays.map(|delays| time(delays.p50)),
        p95: seen.delays.map(|delays| time(delays.p95)),
        jitter: seen.delays.map(|delays| time(delays.jitter)),
        spread: seen.delays.map(|delays| time(delays.spread)),
        probes: seen.probes,
        answered: seen.answered,
        lost_in_a_row: seen.lost_in_a_row,
        age: seen.age.map(|age| tombolo_model::Duration::from_secs(age.as_secs())),
        refused: false,
    }
}

/// The address on which to answer: one of this machine, and no other.
fn own(place: &str, port: u16) -> Result<SocketAddr, String> {
    let own: Option<IpAddr> = crate::machine::own_address(place);
    own.map(|own| SocketAddr::new(own, port)).ok_or_else(|| {
        format!("others reach this machine at {place}, which is no address of its own: nobody can listen there")
    })
}

#[cfg(test)]
mod tests;
