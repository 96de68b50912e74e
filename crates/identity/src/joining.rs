//! May this machine join, and may that agent still act? Plain decisions: what was found out and the
//! time come in, a plan or a reason comes out.
//!
//! The apiserver asks [`join`] at `/tombolo/join`, and [`standing`] at a renewal and at every
//! request of an agent.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::token::{Token, TokenHash};

/// A join token lives no longer than this, whatever its record says.
pub const TOKEN_LIFE_MAX: Duration = Duration::from_secs(60 * 60);

/// Who asks to join.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    pub token: &'a Token,
    pub node: &'a str,
    /// What tells its machine from others.
    pub machine: &'a str,
    /// What tells its key from others.
    pub key: &'a str,
}

/// What is kept of a join token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub hash: TokenHash,
    pub site: String,
    pub created: Timestamp,
    pub expires: Timestamp,
    pub used: Option<Used>,
}

/// Who has used a join token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub node: String,
    /// While the joining is under way: what tells the key of that machine from others.
    pub key: Option<String>,
}

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub site: String,
    /// The machine that joined last; none if people have made the node and nobody has joined.
    pub machine: Option<String>,
    /// The one key that acts for it.
    pub key: Option<String>,
    pub revoked: bool,
    /// Whether it was heard lately.
    pub alive: bool,
    /// Instances that were found to be copies.
    pub quarantined: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Observed {
    pub record: Option<Record>,
    pub site_exists: bool,
    pub node: Option<Known>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub site: String,
    pub make_site: bool,
    pub how: How,
}

/// In what way a machine joins. The reason goes to the event and the audit record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// There was no such node.
    New,
    /// People have made the node, and now its machine is there.
    Expected,
    /// The same machine with a new key: it was set up anew.
    Reinstalled,
    /// Another machine in the place of one that is silent.
    Replaced { machine: String },
    /// The same question again: the first answer was lost on its way.
    Again,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the join token is not known here: it was removed, or belongs to another server")]
    UnknownToken,
    #[error("the join token has been used by node {by:?}: each is good for one machine")]
    Used { by: String },
    #[error("the join token expired at {at}: ask for a new one")]
    Expired { at: Timestamp },
    #[error(
        "node {node:?} belongs to site {belongs:?} and the token is for site {site:?}: choose \
         another name, or remove that node first"
    )]
    WrongSite { node: String, belongs: String, site: String },
    #[error(
        "node {node:?} is alive on another machine: choose another name, or remove that node first"
    )]
    NameTaken { node: String },
}

/// Why an agent with a certificate may not act any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fallen {
    #[error("node {node:?} is not known any more: it was removed; join again with a new token")]
    NodeGone { node: String },
    #[error("site {site:?} is not known any more: it was removed; join again with a new token")]
    SiteGone { site: String },
    #[error("node {node:?} belongs to site {belongs:?} now; join again with a token for it")]
    Moved { node: String, belongs: String },
    #[error("the certificate of node {node:?} was revoked; join again with a new token")]
    Revoked { node: String },
    #[error("node {node:?} has joined anew with another key; this one is worth nothing any more")]
    Replaced { node: String },
    #[error(
        "this agent uses the identity of node {node:?}, which is alive elsewhere: its data folder \
         is a copy; remove the folder and join under another name"
    )]
    Quarantined { node: String },
}

pub fn join(
    applicant: &Applicant<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Result<Plan, Refused> {
    let record = observed.record.as_ref().filter(|record| record.hash == applicant.token.hash());
    let record = record.ok_or(Refused::UnknownToken)?;
    let end = record.created.saturating_add(TOKEN_LIFE_MAX).unwrap_or(Timestamp::MAX);
    let at = record.expires.min(end);
    if at <= now {
        return Err(Refused::Expired { at });
    }
    let plan = |how| Plan { site: record.site.clone(), make_site: !observed.site_exists, how };
    if let Some(used) = &record.used {
        let ours = used.node == applicant.node;
        let is_written = observed.node.as_ref().is_some_and(|known| {
            known.key.as_deref() == Some(applicant.key) && known.site == record.site
        });
        if ours && is_written {
            return Ok(plan(How::Again));
        }
        // The machine that has used it may go on where its joining broke off.
        if !ours || used.key.as_deref() != Some(applicant.key) {
            return Err(Refused::Used { by: used.node.clone() });
        }
    }
    let Some(known) = &observed.node else { return Ok(plan(How::New)) };
    let node = || applicant.node.to_owned();
    if known.site != record.site {
        let (belongs, site) = (known.site.clone(), record.site.clone());
        return Err(Refused::WrongSite { node: node(), belongs, site });
    }
    match &known.machine {
        None => Ok(plan(How::Expected)),
        Some(machine) if machine == applicant.machine => Ok(plan(How::Reinstalled)),
        Some(_) if known.alive => Err(Refused::NameTaken { node: node() }),
        Some(machine) => Ok(plan(How::Replaced { machine: machine.clone() })),
    }
}

/// An agent as it comes with a request.
#[derive(Clone, Copy, Debug)]
pub struct Bearer<'a> {
    pub site: &'a str,
    pub node: &'a str,
    /// The key of its certificate; none in process, where there is no certificate.
    pub key: Option<&'a str>,
    /// Which start of the agent this is, as far as it says.
    pub instance: Option<&'a str>,
}

/// Whether the agent still stands for its node. What it may do is in the table.
pub fn standing(
    bearer: &Bearer<'_>,
    known: Option<&Known>,
    site_exists: bool,
) -> Result<(), Fallen> {
    let node = || bearer.node.to_owned();
    let known = known.ok_or_else(|| Fallen::NodeGone { node: node() })?;
    if known.site != bearer.site {
        return Err(Fallen::Moved { node: node(), belongs: known.site.clone() });
    }
    if !site_exists {
        return Err(Fallen::SiteGone { site: bearer.site.to_owned() });
    }
    if known.revoked {
        return Err(Fallen::Revoked { node: node() });
    }
    if bearer.key.is_some_and(|key| known.key.as_deref() != Some(key)) {
        return Err(Fallen::Replaced { node: node() });
    }
    let copy = |instance: &str| known.quarantined.iter().any(|known| known == instance);
    match bearer.instance.is_some_and(copy) {
        true => Err(Fallen::Quarantined { node: node() }),
        false => Ok(()),
    }
}

impl fmt::Display for How {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::New => write!(out, "joined as a new node"),
            How::Expected => write!(out, "joined as the node that was made for it"),
            How::Reinstalled => write!(out, "was set up anew and joined; what it runs is kept"),
            How::Replaced { machine } => {
                write!(out, "joined in the place of machine {machine}, which was silent")
            }
            How::Again => write!(out, "asked again; the first answer was lost"),
        }
    }
}

#[cfg(test)]
mod tests;
