//! What is wrong with the input, in a sentence. Returned by everything that reads Sites, Nodes,
//! Links and Apps; nothing panics on what people write.

use std::fmt;

use crate::id::AppId;

/// One thing that is wrong with the input. The rest of the input is used all the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    pub about: About,
    pub kind: TroubleKind,
    /// What is wrong, a clause.
    pub says: String,
}

/// What a trouble is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    App(AppId),
    Component(String),
    Continuum,
    Link(String),
    Node(String),
    /// A Node that has no name to call it by.
    NamelessNode,
    /// The optimisation problem as a whole.
    Problem,
    Site(String),
    /// A Site that has no name to call it by.
    NamelessSite,
    /// A file of Sites, Nodes and Links.
    Topology,
}

/// What a program can make of it: the exit code of a command, the status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    /// What it is about was asked for by its name and does not exist.
    NotFound,
    /// What it is about is there and cannot be used as it is.
    Unusable,
}

impl Trouble {
    /// Something cannot be used as it is.
    pub fn new(about: About, says: impl Into<String>) -> Trouble {
        Trouble { about, kind: TroubleKind::Unusable, says: says.into() }
    }

    /// Somebody asked for it by name, and there is none.
    pub fn not_found(about: About) -> Trouble {
        Trouble { about, kind: TroubleKind::NotFound, says: "does not exist".to_owned() }
    }

    pub fn is_about_app(&self, id: &AppId) -> bool {
        matches!(&self.about, About::App(about) if about == id)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.about, self.says)
    }
}

impl fmt::Display for About {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            About::App(id) => write!(out, "app {id}"),
            About::Component(name) => write!(out, "component {name}"),
            About::Continuum => out.write_str("continuum"),
            About::Link(name) => write!(out, "link {name}"),
            About::Node(name) => write!(out, "node {name}"),
            About::NamelessNode => out.write_str("node"),
            About::Problem => out.write_str("problem"),
            About::Site(name) => write!(out, "site {name}"),
            About::NamelessSite => out.write_str("site"),
            About::Topology => out.write_str("topology"),
        }
    }
}
