//! Who is alive: a Site or Node whose Lease is no longer renewed becomes NotReady, and Ready again
//! with the next renewal. Called by `tombolo_controller::leases`; start reading at [`plan`].
//!
//! The times written inside a Lease are never read, because they come from another machine's
//! clock. All that counts is whether the Lease has changed since the last look, and for how long
//! by our own [`Monotonic`] clock it has not. So a clock that is set forward, back, or to 1970, here
//! or there, changes nothing; and a process that has just started knows nothing and waits for one
//! full lease before it calls anyone silent.
//!
//! A Node has a Lease of its own, or its Site has one agent for all Nodes: then the Lease of the Site
//! speaks for each of them ([`Voice`]), and only what is wrong with a single Node is said on it.

mod siblings;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Monotonic;

/// How long a Lease lasts that does not say, and how long we wait for a first one.
pub const LEASE_DURATION_DEFAULT: Duration = Duration::from_secs(40);

/// A Lease that claims to last longer is taken at this: a typing error must not keep a dead machine
/// Ready for a year.
pub const LEASE_DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The loop looks at least this often, so that [`plan`] can tell a silent machine from a time in
/// which nobody was listening.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Site,
    Node,
}

/// A Site or Node by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    pub kind: Kind,
    pub name: String,
}

/// What was seen of one Site or Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its Ready condition; `None` if it has none yet or it says Unknown.
    pub ready: Option<bool>,
    /// The reason in its Ready condition.
    pub reason: Option<String>,
    /// Where a Node was last reached.
    pub address: Option<String>,
    /// The Site that a Node belongs to.
    pub site: Option<String>,
    /// Who speaks for a Node; a Site speaks for itself.
    pub voice: Voice,
    pub lease: Option<Lease>,
}

/// Whose Lease says that a Site or Node lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Voice {
    #[default]
    Own,
    /// That of the Site, whose agent stands for all its Nodes. A Lease of the Node's own, left from
    /// earlier times, counts for nothing. The agent may say that this one Node is down, and why.
    OfSite { down: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Any text that differs after each renewal. It is compared and never read.
    pub version: String,
    /// `None` if the Lease does not say.
    pub duration_seconds: Option<u32>,
    pub holder: Holder,
    /// When its holder says that it renewed it: compared and never read.
    pub renewed: String,
    /// The silent siblings that its holder is asked about, as `node=address` with commas between.
    pub probe: Option<String>,
    /// Which siblings the holder reaches.
    pub answers: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    Named(String),
    Unnamed,
    /// The last holder has cleared the name: it left in good order and will not renew.
    Released,
}

pub type Observed = BTreeMap<Subject, Member>;

/// What one look leaves for the next. Lost with the process, and that is right: see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    looked_at: Option<Monotonic>,
    heard: BTreeMap<Subject, Heard>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Heard {
    /// The Lease as it was at the last look that found one.
    version: Option<String>,
    renewed: String,
    probe: Option<String>,
    /// When this version was first seen.
    at: Monotonic,
    duration: Duration,
    /// Whether we saw the Lease change, and did not just find it there.
    renewed_since: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One for each Site or Node whose Ready condition has to change, Sites first, by name.
    pub actions: Vec<Action>,
    pub asks: Vec<Ask>,
    pub memory: Memory,
    /// When to look again if nothing changes before.
    pub wake_at: Monotonic,
}

/// Writes the Ready condition of `subject` and an Event that says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub subject: Subject,
    pub why: Why,
}

/// Puts on the Lease of `node` which of its silent siblings it should try to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub node: String,
    /// `None` takes the question back.
    pub probe: Option<String>,
}

/// Why a Ready condition changes. The reason decides the condition, so that the two cannot differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Heartbeat {
        holder: Option<String>,
    },
    HeartbeatLost {
        silent: Duration,
        duration: Duration,
    },
    /// As before, but a sibling of the site still reaches the machine.
    LinkSilent {
        silent: Duration,
        sibling: String,
    },
    /// No sibling that was asked reaches it either.
    NodeSilent {
        silent: Duration,
        sibling: String,
    },
    NeverHeard,
    Released,
    /// The agent of its Site is heard, and says that this Node is down.
    SaidDown {
        why: String,
    },
    NodesReady {
        ready: usize,
        all: usize,
    },
    NoNodeReady {
        all: usize,
    },
}

/// Decides whose Ready condition changes. A Site with a Lease stands for itself; a Site without
/// one is Ready while any of its Nodes is. Carrying out the actions and planning again at the same
/// time gives no action.
pub fn plan(observed: &Observed, memory: &Memory, now: Monotonic) -> Plan {
    let unwatched = unwatched(memory.looked_at, now);
    let heard: BTreeMap<Subject, Heard> = observed
        .iter()
        .map(|(subject, member)| {
            let known = memory.heard.get(subject).map(|heard| heard.later(unwatched));
            (subject.clone(), listen(known, member.lease.as_ref(), now))
        })
        .collect();

    let mut own: BTreeMap<&Subject, Option<Why>> = observed
        .iter()
        .map(|(subject, member)| {
            let why = match (&member.voice, site_of(observed, member)) {
                (Voice::OfSite { down }, Some((site, of_site))) => {
                    let said = Said { lease: of_site.lease.as_ref(), ready: member.ready };
                    judge(&heard[site], said, now).map(|why| why.unless(down.as_deref()))
                }
                (Voice::Own | Voice::OfSite { .. }, _) => {
                    let said = Said { lease: member.lease.as_ref(), ready: member.ready };
                    judge(&heard[subject], said, now)
                }
            };
            (subject, why)
        })
        .collect();
    let circles = siblings::circles(observed, &own);
    for (subject, member) in observed {
        let circle = member.site.as_deref().and_then(|site| circles.get(site));
        let (Some(circle), Some(verdict)) = (circle, own.get_mut(subject)) else { continue };
        *verdict = verdict.take().map(|why| circle.refine(&subject.name, why));
    }
    let nodes = count_nodes(observed, &own);

    let mut actions = Vec::new();
    for (subject, member) in observed {
        let verdict = match nodes_to_follow(subject, member, &nodes) {
            Some(nodes) => nodes.judge(),
            None => own[subject].clone(),
        };
        match verdict {
            Some(why) if why.is_news_to(member) => {
                actions.push(Action { subject: subject.clone(), why });
            }
            Some(_) | None => (),
        }
    }
    let wake_at = heard
        .values()
        .map(|heard| heard.at + heard.duration)
        .filter(|deadline| *deadline > now)
        .fold(now + LOOK_EVERY, Monotonic::min);
    let asks = circles.values().flat_map(siblings::Circle::asks).collect();
    Plan { actions, asks, memory: Memory { looked_at: Some(now), heard }, wake_at }
}

/// For how long nobody looked, beyond what is usual. A process that was stopped, or cut off from its
/// API, for two minutes has not heard anyone for two minutes: that time is not held against them.
fn unwatched(looked_at: Option<Monotonic>, now: Monotonic) -> Duration {
    match looked_at {
        Some(looked_at) => now.since(looked_at).saturating_sub(LOOK_EVERY * 2),
        None => Duration::ZERO,
    }
}

fn listen(known: Option<Heard>, lease: Option<&Lease>, now: Monotonic) -> Heard {
    match (known, lease) {
        (None, None) => Heard {
            version: None,
            renewed: String::new(),
            probe: None,
            at: now,
            duration: LEASE_DURATION_DEFAULT,
            renewed_since: false,
        },
        (None, Some(lease)) => Heard::of(lease, now),
        (Some(heard), Some(lease)) if heard.version.as_ref() != Some(&lease.version) => {
            let version = Some(lease.version.clone());
            let probe = lease.probe.clone();
            // It was us who wrote to it: that is no sign of life.
            if heard.probe != lease.probe && heard.renewed == lease.renewed {
                return Heard { version, probe, ..heard };
            }
            Heard { renewed_since: true, ..Heard::of(lease, now) }
        }
        // A Lease that was deleted lasts as long as it would have: deleting is no sign of life,
        // and no sign of death either.
        (Some(heard), Some(_) | None) => heard,
    }
}

/// The Site of a Node.
fn site_of<'a>(observed: &'a Observed, member: &Member) -> Option<(&'a Subject, &'a Member)> {
    let name = member.site.clone()?;
    observed.get_key_value(&Subject { kind: Kind::Site, name })
}

/// What there is to judge a Site or Node by.
struct Said<'a> {
    /// That which speaks for it.
    lease: Option<&'a Lease>,
    /// Its own Ready condition.
    ready: Option<bool>,
}

/// What the Lease says, which has been heard like this; `None` if it does not say yet.
fn judge(heard: &Heard, said: Said<'_>, now: Monotonic) -> Option<Why> {
    let holder = said.lease.map(|lease| &lease.holder);
    if holder == Some(&Holder::Released) {
        return Some(Why::Released);
    }
    let silent = now.since(heard.at);
    if silent >= heard.duration {
        return Some(match heard.version {
            Some(_) => Why::HeartbeatLost { silent, duration: heard.duration },
            None => Why::NeverHeard,
        });
    }
    // A Lease that was there when we started may be an hour old. It keeps a Ready condition
    // alive until it lapses, and begins one, but it does not overrule a NotReady.
    let speaks = heard.version.is_some() && (heard.renewed_since || said.ready.is_none());
    speaks.then(|| Why::Heartbeat {
        holder: match holder {
            Some(Holder::Named(name)) => Some(name.clone()),
            Some(Holder::Unnamed | Holder::Released) | None => None,
        },
    })
}

/// The Nodes of one Site, counted by what they will be once this plan is carried out.
#[derive(Clone, Copy, Default)]
struct Nodes {
    all: usize,
    ready: usize,
    undecided: usize,
}

impl Nodes {
    fn judge(self) -> Option<Why> {
        match self {
            Nodes { ready: 1.., .. } => Some(Why::NodesReady { ready: self.ready, all: self.all }),
            Nodes { undecided: 1.., .. } => None,
            Nodes { all, .. } => Some(Why::NoNodeReady { all }),
        }
    }
}

fn count_nodes<'a>(
    observed: &'a Observed,
    own: &BTreeMap<&Subject, Option<Why>>,
) -> BTreeMap<&'a str, Nodes> {
    let mut sites: BTreeMap<&str, Nodes> = BTreeMap::new();
    for (subject, member) in observed {
        let (Kind::Node, Some(site)) = (subject.kind, &member.site) else { continue };
        let nodes = sites.entry(site).or_default();
        nodes.all += 1;
        match own[subject].as_ref().map(Why::ready).or(member.ready) {
            Some(true) => nodes.ready += 1,
            Some(false) => (),
            None => nodes.undecided += 1,
        }
    }
    sites
}

fn nodes_to_follow(
    subject: &Subject,
    member: &Member,
    nodes: &BTreeMap<&str, Nodes>,
) -> Option<Nodes> {
    match (subject.kind, &member.lease) {
        (Kind::Site, None) => nodes.get(subject.name.as_str()).copied(),
        (Kind::Site, Some(_)) | (Kind::Node, _) => None,
    }
}

impl Heard {
    fn of(lease: &Lease, now: Monotonic) -> Heard {
        Heard {
            version: Some(lease.version.clone()),
            renewed: lease.renewed.clone(),
            probe: lease.probe.clone(),
            at: now,
            duration: lease.duration(),
            renewed_since: false,
        }
    }

    fn later(&self, by: Duration) -> Heard {
        Heard { at: self.at + by, ..self.clone() }
    }
}

impl Lease {
    fn duration(&self) -> Duration {
        match self.duration_seconds {
            Some(0) | None => LEASE_DURATION_DEFAULT,
            Some(seconds) => Duration::from_secs(seconds.into()).min(LEASE_DURATION_MAX),
        }
    }
}

#[cfg(test)]
mod tests;
