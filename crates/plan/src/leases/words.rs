//! What is written about who is alive: reasons for programs, clauses for people, and which of them
//! are news.

use std::fmt;

use super::{Action, Ask, Kind, Member, Subject, Why};

impl Why {
    /// What the Ready condition becomes.
    pub fn ready(&self) -> bool {
        match self {
            Why::Heartbeat { .. } | Why::NodesReady { .. } => true,
            Why::HeartbeatLost { .. }
            | Why::LinkSilent { .. }
            | Why::NodeSilent { .. }
            | Why::NeverHeard
            | Why::Released
            | Why::NoNodeReady { .. } => false,
        }
    }

    /// Whether the condition of `member` has to be written. What siblings have found out is worth
    /// a word of its own; that they say nothing any more is not.
    pub(super) fn is_news_to(&self, member: &Member) -> bool {
        let closer = match self {
            Why::LinkSilent { .. } | Why::NodeSilent { .. } => true,
            Why::Heartbeat { .. }
            | Why::HeartbeatLost { .. }
            | Why::NeverHeard
            | Why::Released
            | Why::NodesReady { .. }
            | Why::NoNodeReady { .. } => false,
        };
        member.ready != Some(self.ready())
            || closer && member.reason.as_deref() != Some(self.reason())
    }

    /// The `reason` of the condition: one word, for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Why::Heartbeat { .. } => "Heartbeat",
            Why::HeartbeatLost { .. } => "HeartbeatLost",
            Why::LinkSilent { .. } => "LinkSilent",
            Why::NodeSilent { .. } => "NodeSilent",
            Why::NeverHeard => "NeverHeard",
            Why::Released => "Released",
            Why::NodesReady { .. } => "NodesReady",
            Why::NoNodeReady { .. } => "NoNodeReady",
        }
    }
}

/// The `message` of the condition: a clause, for people.
impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Heartbeat { holder: Some(holder) } => write!(out, "heartbeat from {holder}"),
            Why::Heartbeat { holder: None } => write!(out, "heartbeat received"),
            Why::HeartbeatLost { silent, duration } => write!(
                out,
                "no heartbeat for {} s, lease lasts {} s",
                silent.as_secs(),
                duration.as_secs()
            ),
            Why::LinkSilent { silent, sibling } => write!(
                out,
                "no heartbeat for {} s, but {sibling} still reaches the machine: its link or its \
                 agent is down",
                silent.as_secs()
            ),
            Why::NodeSilent { silent, sibling } => write!(
                out,
                "no heartbeat for {} s, and {sibling} does not reach the machine either",
                silent.as_secs()
            ),
            Why::NeverHeard => write!(out, "has never sent a heartbeat"),
            Why::Released => write!(out, "has given up its lease, as at a shutdown"),
            Why::NodesReady { ready, all } => write!(out, "{ready} of {all} nodes ready"),
            Why::NoNodeReady { all } => write!(out, "none of its nodes is ready, of {all}"),
        }
    }
}

impl Kind {
    /// The kind as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Site => "Site",
            Kind::Node => "Node",
        }
    }
}

impl Action {
    /// The `reason` of the Event, such as `NodeNotReady`.
    pub fn event_reason(&self) -> &'static str {
        match (self.subject.kind, self.why.ready()) {
            (Kind::Site, true) => "SiteReady",
            (Kind::Site, false) => "SiteNotReady",
            (Kind::Node, true) => "NodeReady",
            (Kind::Node, false) => "NodeNotReady",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.kind.as_str(), self.name)
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.probe {
            Some(probe) => write!(out, "ask Node {} whether it reaches {probe}", self.node),
            None => write!(out, "ask Node {} no longer", self.node),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let becomes = if self.why.ready() { "Ready" } else { "NotReady" };
        write!(out, "{} becomes {becomes}: {}", self.subject, self.why)
    }
}
