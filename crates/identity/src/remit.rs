//! What an agent stands for: one node, or all nodes of a site.
//!
//! Its certificate carries it ([`crate::subject`]), the table of rights asks it ([`crate::access`]),
//! and the gate, the door and the agent itself decide by it whose Assignments and errands are whose.

use std::fmt;

use tombolo_model::keys::{node_lease, site_lease};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remit {
    /// One machine, which is one node of a site.
    Node { site: String, node: String },
    /// A site whose machines have no agents of their own, such as a cluster: each of its nodes, now
    /// and later.
    Site { site: String },
}

impl Remit {
    pub fn site(&self) -> &str {
        match self {
            Remit::Node { site, .. } | Remit::Site { site } => site,
        }
    }

    /// The name under which the agent holds what names no node: its node, or its site.
    pub fn name(&self) -> &str {
        match self {
            Remit::Node { node, .. } => node,
            Remit::Site { site } => site,
        }
    }

    /// Whether the agent stands for `node` of `site`.
    pub fn covers(&self, site: &str, node: &str) -> bool {
        match self {
            Remit::Node { site: own, node: only } => own == site && only == node,
            Remit::Site { site: own } => own == site,
        }
    }

    /// The Lease whose renewals are the agent's heartbeats, and the only Lease that it may write: the
    /// word of one node is not the word of its site.
    pub fn lease(&self) -> String {
        match self {
            Remit::Node { node, .. } => node_lease(node),
            Remit::Site { site } => site_lease(site),
        }
    }
}

/// For sentences: `node "crane"`, `site "north"`.
impl fmt::Display for Remit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remit::Node { node, .. } => write!(out, "node {node:?}"),
            Remit::Site { site } => write!(out, "site {site:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_of_a_site_stands_for_each_of_its_nodes_and_for_no_other() {
        let site = Remit::Site { site: "north".into() };
        assert!(site.covers("north", "n1") && site.covers("north", "n2"));
        assert!(!site.covers("south", "n1"));
        let node = Remit::Node { site: "north".into(), node: "n1".into() };
        assert!(node.covers("north", "n1"));
        assert!(!node.covers("north", "n2") && !node.covers("south", "n1"));
    }
}
