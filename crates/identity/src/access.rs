//! May this subject do that? The apiserver asks once for every request, before anything else.
//!
//! The answer is looked up in [`table`], which is the only place with rules; what no row allows is
//! denied. A [`Permit`] is the proof of a yes, and functions that change something ask for a Permit.

use std::fmt;

use crate::subject::{RoleName, Subject};
use crate::token::SYSTEM_NAMESPACE;
use crate::{Remit, Role};

pub mod document;
pub mod table;

use table::{Class, Extent, Members, RULES, Rule};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// `*`, as `kubectl auth can-i '*' '*'` asks.
    Every,
    /// A verb that we do not serve; only roles that may do everything may use it.
    Other,
}

/// What a request wants, in the words of the protocol. Empty texts mean "none", as they do there.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub verb: Verb,
    pub target: Target<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Resource(Resource<'a>),
    /// A path that names no resource, such as `/healthz`.
    Path(&'a str),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Resource<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// Empty for cluster-scoped kinds and for requests over all namespaces.
    pub namespace: &'a str,
    /// Empty for list, watch, create and deletecollection.
    pub name: &'a str,
    /// The site that the object belongs to: the `spec.site` of an Assignment, or the one that the
    /// selector of a list asks for; of an Event, that of the Assignment it is about; of a Secret or
    /// ConfigMap, one with an Assignment that names it. For the agent of a whole site also that of a
    /// Node, and of an Event about one. Only agents need it; empty if not known.
    pub site: &'a str,
    /// The node that the object is, or that an Event is about. Only agents need it as well.
    pub node: &'a str,
}

/// Proof that the subject may do what it asked. Only [`authorize`] makes one, so that a function
/// that takes a `Permit` cannot be reached without a check.
#[derive(Clone, Debug)]
pub struct Permit {
    subject: Subject,
    verb: Verb,
    target: String,
}

/// A refusal. Its text is for the caller who is refused: who, what, where, and who could.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    message: String,
    anonymous: bool,
}

/// What a subject may do in a namespace, as `SelfSubjectRulesReview` lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub resources: Vec<ResourceRule>,
    pub paths: Vec<PathRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRule {
    pub verbs: Vec<&'static str>,
    pub groups: Vec<&'static str>,
    pub resources: Vec<&'static str>,
    /// Empty means every name.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    pub verbs: Vec<&'static str>,
    pub paths: Vec<&'static str>,
}

pub fn authorize(subject: &Subject, attributes: &Attributes<'_>) -> Result<Permit, Denied> {
    let class = Class::of(attributes);
    let allowed = RULES.iter().any(|rule| {
        rule.covers(subject.role.name(), class, attributes.verb)
            && rule.extent.contains(subject, &attributes.target)
    });
    if allowed {
        return Ok(Permit {
            subject: subject.clone(),
            verb: attributes.verb,
            target: attributes.target.to_string(),
        });
    }
    Err(Denied {
        message: refusal(subject, attributes, class),
        anonymous: subject.role == Role::Anonymous,
    })
}

/// Rows that hold only for objects of an agent's site are left out: that form cannot say them.
pub fn rules(subject: &Subject, namespace: &str) -> Rules {
    let mut rules = Rules::default();
    for rule in RULES.iter().filter(|rule| rule.roles.contains(&subject.role.name())) {
        let names = match (rule.extent, &subject.role) {
            (Extent::Anywhere, _) => Vec::new(),
            (Extent::OwnNamespace, _) if owns(subject, namespace) => Vec::new(),
            (Extent::OwnLease, Role::Agent(remit)) => vec![remit.lease()],
            (Extent::OwnNode, Role::Agent(Remit::Node { node, .. })) => vec![node.clone()],
            (
                Extent::OwnNamespace
                | Extent::OwnSite
                | Extent::NamedBySite
                | Extent::OwnNode
                | Extent::OwnLease,
                _,
            ) => continue,
        };
        let verbs: Vec<&str> = match rule.verbs.contains(&Verb::Every) {
            true => vec!["*"],
            false => rule.verbs.iter().map(|verb| verb.as_str()).collect(),
        };
        for class in rule.classes {
            match class.members() {
                Members::Resources { resources: [], .. } => (),
                Members::Resources { group, resources } => rules.resources.push(ResourceRule {
                    verbs: verbs.clone(),
                    groups: vec![group],
                    resources: resources.to_vec(),
                    names: names.clone(),
                }),
                Members::Paths(paths) => {
                    rules.paths.push(PathRule { verbs: verbs.clone(), paths: paths.to_vec() });
                }
            }
        }
    }
    rules
}

impl Permit {
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// What it holds for, in words, for the audit record.
    pub fn target(&self) -> &str {
        &self.target
    }
}

impl Denied {
    /// Whether it might help to sign in: 401 instead of 403.
    pub fn is_anonymous(&self) -> bool {
        self.anonymous
    }
}

impl Verb {
    pub const SERVED: &'static [Verb] = &[
        Verb::Get,
        Verb::List,
        Verb::Watch,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
        Verb::DeleteCollection,
    ];

    pub fn parse(text: &str) -> Verb {
        match text {
            "*" => Verb::Every,
            _ => Verb::SERVED
                .iter()
                .copied()
                .find(|verb| verb.as_str() == text)
                .unwrap_or(Verb::Other),
        }
    }

    /// For paths that name no resource.
    pub fn of_method(method: &str) -> Verb {
        match method {
            "GET" | "HEAD" | "OPTIONS" => Verb::Get,
            "POST" => Verb::Create,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" => Verb::Delete,
            _ => Verb::Other,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Every => "*",
            Verb::Other => "do that to",
        }
    }

    pub fn reads(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

impl Rule {
    fn covers(&self, role: RoleName, class: Class, verb: Verb) -> bool {
        self.roles.contains(&role) && self.classes.contains(&class) && self.verbs.contains(&verb)
    }
}

impl Extent {
    fn contains(self, subject: &Subject, target: &Target<'_>) -> bool {
        let resource = match target {
            Target::Path(_) => return self == Extent::Anywhere,
            Target::Resource(resource) => resource,
        };
        match (self, &subject.role) {
            (Extent::Anywhere, _) => true,
            (Extent::OwnNamespace, _) => owns(subject, resource.namespace),
            (Extent::OwnSite | Extent::NamedBySite, Role::Agent(remit)) => {
                resource.site == remit.site()
            }
            (Extent::OwnNode, Role::Agent(Remit::Node { node, .. })) => resource.node == node,
            (Extent::OwnLease, Role::Agent(remit)) => {
                resource.namespace == SYSTEM_NAMESPACE && remit.lease() == resource.name
            }
            (Extent::OwnSite | Extent::NamedBySite | Extent::OwnNode | Extent::OwnLease, _) => {
                false
            }
        }
    }
}

/// The system's namespace is nobody's own: its Secrets are the tokens of everybody.
fn owns(subject: &Subject, namespace: &str) -> bool {
    namespace != SYSTEM_NAMESPACE && subject.namespace.as_deref() == Some(namespace)
}

/// `anna (guest) may not delete apps.tombolo.dev "web" in namespace "shop"; that takes …: ask …`.
fn refusal(subject: &Subject, attributes: &Attributes<'_>, class: Class) -> String {
    let verb = match (attributes.verb, attributes.target) {
        (Verb::Get, Target::Path(_)) => "read",
        (_, Target::Path(_)) => "write to",
        (Verb::Every, Target::Resource(_)) => "do everything to",
        (other, Target::Resource(_)) => other.as_str(),
    };
    let (who, advice) = match subject.role {
        Role::Anonymous => {
            ("you have not signed in and".to_owned(), "send a bearer token or a client certificate")
        }
        Role::Guest | Role::User | Role::Manager | Role::Admin | Role::Agent(_) | Role::System => {
            (subject.to_string(), "ask an administrator for such a token")
        }
    };
    let takes = takes(attributes, class).join(" or ");
    format!("{who} may not {verb} {}; that takes the role {takes}: {advice}", attributes.target)
}

/// The roles, of those that are given out, for which some row allows this.
fn takes(attributes: &Attributes<'_>, class: Class) -> Vec<String> {
    let given = [RoleName::Guest, RoleName::User, RoleName::Manager, RoleName::Admin];
    let mut takes = Vec::new();
    for role in given {
        let mut rules = RULES.iter().filter(|rule| rule.covers(role, class, attributes.verb));
        let Some(rule) = rules.next() else { continue };
        match (rule.extent, attributes.target) {
            (Extent::OwnNamespace, Target::Resource(resource)) => match resource.namespace {
                SYSTEM_NAMESPACE => (),
                "" => takes.push(format!("{} within its own namespace", role.as_str())),
                namespace => takes.push(format!("{} of namespace {namespace:?}", role.as_str())),
            },
            (
                Extent::Anywhere
                | Extent::OwnSite
                | Extent::NamedBySite
                | Extent::OwnNode
                | Extent::OwnLease
                | Extent::OwnNamespace,
                _,
            ) => takes.push(role.as_str().to_owned()),
        }
    }
    takes
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = match self {
            Target::Path(path) => return write!(formatter, "the path {path:?}"),
            Target::Resource(resource) => resource,
        };
        formatter.write_str(resource.resource)?;
        if !resource.group.is_empty() {
            write!(formatter, ".{}", resource.group)?;
        }
        if !resource.subresource.is_empty() {
            write!(formatter, "/{}", resource.subresource)?;
        }
        if !resource.name.is_empty() {
            write!(formatter, " {:?}", resource.name)?;
        }
        match (resource.namespace, resource.resource) {
            // A namespace is in itself, as the protocol has it; that helps no reader.
            ("", _) | (_, "namespaces") => Ok(()),
            (namespace, _) => write!(formatter, " in namespace {namespace:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
