//! May this machine join, and may that agent still act? Plain decisions: what was found out and the
//! time come in, a plan or a reason comes out.
//!
//! The apiserver asks [`join`] at `/tombolo/join`, and [`standing`] at a renewal and at every
//! request of an agent.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::Remit;
use crate::token::{Token, TokenHash};

/// A join token lives no longer than this, whatever its record says.
pub const TOKEN_LIFE_MAX: Duration = Duration::from_secs(60 * 60);

/// Who asks to join.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    pub token: &'a Token,
    pub sought: Sought<'a>,
    /// What tells its machine from others.
    pub machine: &'a str,
    /// What tells its key from others.
    pub key: &'a str,
}

/// What a machine wants to stand for, at the site of its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought<'a> {
    Node(&'a str),
    /// Every node of the site.
    Site,
}

/// What a join token lets its holder stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StandsFor {
    #[default]
    Node,
    Site,
}

/// What is kept of a join token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub hash: TokenHash,
    pub site: String,
    pub stands_for: StandsFor,
    pub created: Timestamp,
    pub expires: Timestamp,
    pub used: Option<Used>,
}

/// Who has used a join token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The name of the node; of the site, if the token is for the agent of a whole site.
    pub by: String,
    /// While the joining is under way: what tells the key of that machine from others.
    pub key: Option<String>,
}

/// What is known of the agent of a node or of a whole site, as its Node or Site has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub site: String,
    /// The machine that joined last; none if people have made the object and nobody has joined.
    pub machine: Option<String>,
    /// The key that acts for it. A site has such a key only if it has an agent of its own.
    pub key: Option<String>,
    pub revoked: bool,
    /// Whether it was heard lately.
    pub alive: bool,
    /// Instances that were found to be copies.
    pub quarantined: Vec<String>,
}

impl Known {
    /// Whether an agent has joined that may act.
    pub fn has_agent(&self) -> bool {
        self.key.is_some() && !self.revoked
    }
}

#[derive(Clone, Debug)]
pub struct Observed {
    pub record: Option<Record>,
    pub site: Option<Known>,
    /// The node that is sought.
    pub node: Option<Known>,
    /// One of the site's nodes that has an agent of its own; looked for if the whole site is sought.
    pub joined_node: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinPlan {
    pub remit: Remit,
    pub make_site: bool,
    pub how: How,
}

/// In what way a machine joins. The reason goes to the event and the audit record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// There was no such node or site.
    New,
    /// People have made the node or site, and now its agent is there.
    Expected,
    /// The same machine with a new key: it was set up anew.
    Reinstalled,
    /// Another machine in the place of a machine that is silent.
    Replaced { machine: String },
    /// The same question again: the first answer was lost on its way.
    Again,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the join token is not known here: it was removed, or belongs to another server")]
    UnknownToken,
    #[error("the join token has been used by {by}: each is good for one machine")]
    Used { by: Remit },
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
    #[error(
        "site {site:?} has an agent that is alive on another machine: revoke that agent first if this \
         one is to take its place"
    )]
    SiteTaken { site: String },
    #[error(
        "the join token is for the agent of all of site {site:?}, and this agent stands for one node: \
         ask for a token for a node"
    )]
    ForSite { site: String },
    #[error(
        "the join token is for a node of site {site:?}, and this agent stands for a whole site: ask \
         for a token with --whole-site"
    )]
    ForNode { site: String },
    #[error(
        "site {site:?} has one agent for all its nodes: this node needs none, or revoke that agent \
         first"
    )]
    SiteHasAgent { site: String },
    #[error(
        "node {node:?} of site {site:?} has an agent of its own: an agent of the whole site can join \
         when none of its nodes has"
    )]
    NodesHaveAgents { site: String, node: String },
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
    #[error("the certificate of {of} was revoked; join again with a new token")]
    Revoked { of: Remit },
    #[error("{of} has joined anew with another key; this one is worth nothing any more")]
    Replaced { of: Remit },
    #[error(
        "this agent uses the identity of {of}, which is alive elsewhere: its data folder is a copy; \
         remove the folder and join under another name"
    )]
    Quarantined { of: Remit },
    #[error(
        "site {site:?} has one agent for all its nodes now, and that of node {node:?} is none of them"
    )]
    SiteHasAgent { site: String, node: String },
}

pub fn join(
    applicant: &Applicant<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Result<JoinPlan, Refused> {
    let record = observed.record.as_ref().filter(|record| record.hash == applicant.token.hash());
    let record = record.ok_or(Refused::UnknownToken)?;
    let end = record.created.saturating_add(TOKEN_LIFE_MAX).unwrap_or(Timestamp::MAX);
    let at = record.expires.min(end);
    if at <= now {
        return Err(Refused::Expired { at });
    }
    let remit = remit(applicant.sought, record)?;
    let known = match &remit {
        Remit::Node { .. } => observed.node.as_ref(),
        Remit::Site { .. } => observed.site.as_ref(),
    };
    let plan = |how| JoinPlan { remit: remit.clone(), make_site: observed.site.is_none(), how };
    if let Some(used) = &record.used {
        let ours = used.by == remit.name();
        let is_written = known.is_some_and(|known| {
            known.key.as_deref() == Some(applicant.key) && known.site == record.site
        });
        if ours && is_written {
            return Ok(plan(How::Again));
        }
        // The machine that has used it may go on where its joining broke off.
        if !ours || used.key.as_deref() != Some(applicant.key) {
            return Err(Refused::Used { by: record.user(&used.by) });
        }
    }
    alone(&remit, observed)?;
    let Some(known) = known else { return Ok(plan(How::New)) };
    if known.site != record.site {
        let (node, belongs) = (remit.name().to_owned(), known.site.clone());
        return Err(Refused::WrongSite { node, belongs, site: record.site.clone() });
    }
    match &known.machine {
        None => Ok(plan(How::Expected)),
        Some(machine) if machine == applicant.machine => Ok(plan(How::Reinstalled)),
        Some(_) if known.alive => Err(taken(remit)),
        Some(machine) => Ok(plan(How::Replaced { machine: machine.clone() })),
    }
}

/// What the applicant would stand for: what it seeks, if the token is for such.
fn remit(sought: Sought<'_>, record: &Record) -> Result<Remit, Refused> {
    let site = record.site.clone();
    match (sought, record.stands_for) {
        (Sought::Node(node), StandsFor::Node) => Ok(Remit::Node { site, node: node.into() }),
        (Sought::Site, StandsFor::Site) => Ok(Remit::Site { site }),
        (Sought::Node(_), StandsFor::Site) => Err(Refused::ForSite { site }),
        (Sought::Site, StandsFor::Node) => Err(Refused::ForNode { site }),
    }
}

/// Two agents never stand for one node: a site has one agent of its own, or its nodes have theirs.
fn alone(remit: &Remit, observed: &Observed) -> Result<(), Refused> {
    let site = || remit.site().to_owned();
    match (remit, &observed.site, &observed.joined_node) {
        (Remit::Node { .. }, Some(known), _) if known.has_agent() => {
            Err(Refused::SiteHasAgent { site: site() })
        }
        (Remit::Site { .. }, _, Some(node)) => {
            Err(Refused::NodesHaveAgents { site: site(), node: node.clone() })
        }
        (Remit::Node { .. } | Remit::Site { .. }, _, _) => Ok(()),
    }
}

fn taken(remit: Remit) -> Refused {
    match remit {
        Remit::Node { node, .. } => Refused::NameTaken { node },
        Remit::Site { site } => Refused::SiteTaken { site },
    }
}

impl Record {
    /// Who has used it.
    fn user(&self, by: &str) -> Remit {
        match self.stands_for {
            StandsFor::Node => Remit::Node { site: self.site.clone(), node: by.to_owned() },
            StandsFor::Site => Remit::Site { site: by.to_owned() },
        }
    }
}

/// An agent as it comes with a request.
#[derive(Clone, Copy, Debug)]
pub struct Bearer<'a> {
    pub remit: &'a Remit,
    /// The key of its certificate; none in process, where there is no certificate.
    pub key: Option<&'a str>,
    /// Which start of the agent this is, as far as it says.
    pub instance: Option<&'a str>,
}

/// Whether the agent still stands for what it says: `node` is what is known of its node, if it is that
/// of one, and `site` of its site. What it may do is in the table.
pub fn standing(
    bearer: &Bearer<'_>,
    node: Option<&Known>,
    site: Option<&Known>,
) -> Result<(), Fallen> {
    let known = match bearer.remit {
        Remit::Node { node: name, .. } => {
            node.ok_or_else(|| Fallen::NodeGone { node: name.clone() })?
        }
        Remit::Site { site: name } => {
            site.ok_or_else(|| Fallen::SiteGone { site: name.clone() })?
        }
    };
    let own_site = || bearer.remit.site().to_owned();
    if known.site != bearer.remit.site() {
        let (node, belongs) = (bearer.remit.name().to_owned(), known.site.clone());
        return Err(Fallen::Moved { node, belongs });
    }
    let site = site.ok_or_else(|| Fallen::SiteGone { site: own_site() })?;
    let of = || bearer.remit.clone();
    if known.revoked {
        return Err(Fallen::Revoked { of: of() });
    }
    if bearer.key.is_some_and(|key| known.key.as_deref() != Some(key)) {
        return Err(Fallen::Replaced { of: of() });
    }
    match bearer.remit {
        Remit::Node { node, .. } if site.has_agent() => {
            return Err(Fallen::SiteHasAgent { site: own_site(), node: node.clone() });
        }
        Remit::Node { .. } | Remit::Site { .. } => (),
    }
    let copy = |instance: &str| known.quarantined.iter().any(|known| known == instance);
    match bearer.instance.is_some_and(copy) {
        true => Err(Fallen::Quarantined { of: of() }),
        false => Ok(()),
    }
}

/// How it came in, as a clause for people.
impl fmt::Display for JoinPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.remit {
            Remit::Node { .. } => "node",
            Remit::Site { .. } => "site",
        };
        match &self.how {
            How::New => write!(out, "joined as a new {what}"),
            How::Expected => write!(out, "joined as the {what} that was made for it"),
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
