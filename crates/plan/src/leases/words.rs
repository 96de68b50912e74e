//! What is written about who is alive: reasons for programs, clauses for people, and which of them
//! are news.

use std::fmt;
use std::time::Duration;

use tombolo_model::Reason;

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
            | Why::SaidDown { .. }
            | Why::NoNodeReady { .. } => false,
        }
    }

    /// The same of a single Node whose agent may have said that it is `down`: what does not live at all
    /// needs no other reason.
    pub(super) fn unless(self, down: Option<&str>) -> Why {
        match down {
            Some(why) if self.ready() => Why::SaidDown { why: why.to_owned() },
            Some(_) | None => self,
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
            | Why::SaidDown { .. }
            | Why::NodesReady { .. }
            | Why::NoNodeReady { .. } => false,
        };
        member.ready != Some(self.ready())
            || closer && member.reason.as_deref() != Some(self.reason().word())
    }

    /// The `reason` of the condition.
    pub fn reason(&self) -> Reason {
        match self {
            Why::Heartbeat { .. } => Reason::Heartbeat,
            Why::HeartbeatLost { .. } => Reason::HeartbeatLost,
            Why::LinkSilent { .. } => Reason::LinkSilent,
            Why::NodeSilent { .. } => Reason::NodeSilent,
            Why::NeverHeard => Reason::NeverHeard,
            Why::Released => Reason::Released,
            Why::SaidDown { .. } => Reason::SaidDown,
            Why::NodesReady { .. } => Reason::NodesReady,
            Why::NoNodeReady { .. } => Reason::NoNodeReady,
        }
    }

    /// What fills the blanks of its sentence.
    fn blanks(&self) -> Vec<(&'static str, String)> {
        let seconds = |time: &Duration| time.as_secs().to_string();
        match self {
            Why::Heartbeat { holder: Some(holder) } => vec![("from", format!("from {holder}"))],
            Why::Heartbeat { holder: None } => vec![("from", "received".to_owned())],
            Why::HeartbeatLost { silent, duration } => {
                vec![("silent", seconds(silent)), ("lease", seconds(duration))]
            }
            Why::LinkSilent { silent, sibling } | Why::NodeSilent { silent, sibling } => {
                vec![("silent", seconds(silent)), ("sibling", sibling.clone())]
            }
            Why::NeverHeard | Why::Released => Vec::new(),
            Why::SaidDown { why } => vec![("why", why.clone())],
            Why::NodesReady { ready, all } => {
                vec![("ready", ready.to_string()), ("all", all.to_string())]
            }
            Why::NoNodeReady { all } => vec![("all", all.to_string())],
        }
    }
}

/// The `message` of the condition: a clause, for people.
impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason().says(&self.blanks()))
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
    pub fn event_reason(&self) -> Reason {
        match (self.subject.kind, self.why.ready()) {
            (Kind::Site, true) => Reason::SiteReady,
            (Kind::Site, false) => Reason::SiteNotReady,
            (Kind::Node, true) => Reason::NodeReady,
            (Kind::Node, false) => Reason::NodeNotReady,
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
