//! Who makes a request: a name, a role, and how we know.
//!
//! Made from a certificate ([`crate::tls`]), from a token ([`crate::token`]) or in process;
//! read by [`crate::access`] and by the audit record.

use std::fmt;

use crate::{Error, Remit};

/// In certificates, what goes before the role in the organization: `tombolo:role:admin`.
pub const ROLE_PREFIX: &str = "tombolo:role:";
/// In certificates, what goes before the namespace in the organizational unit.
const NAMESPACE_PREFIX: &str = "tombolo:namespace:";
/// Under which a review says the namespace of a user, among what Kubernetes has no field for.
pub const EXTRA_NAMESPACE: &str = "tombolo.dev/namespace";
/// In certificates, what goes before `SITE/NODE` in the common name of an agent.
const AGENT_PREFIX: &str = "tombolo:agent:";
/// In certificates, what goes before `SITE` in the common name of the agent of a whole site.
const SITE_AGENT_PREFIX: &str = "tombolo:site-agent:";
/// Prefixes that only we give out, so that nobody passes for an agent or a loop in the audit record.
const RESERVED_PREFIXES: &[&str] = &["tombolo:", "system:"];
/// Names of nodes may be as long as names of resources.
const NAME_BYTES_MAX: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub name: String,
    pub role: Role,
    /// The one namespace in which a [`Role::User`] writes.
    pub namespace: Option<String>,
    pub via: Via,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nobody has signed in.
    Anonymous,
    Guest,
    User,
    Manager,
    Admin,
    /// The agent of one node or of a whole site, bound to what it stands for.
    Agent(Remit),
    /// The loops that run in the server's own process.
    System,
}

/// A role without its particulars: a column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleName {
    Anonymous,
    Guest,
    User,
    Manager,
    Admin,
    /// The agent of one node.
    Agent,
    /// The agent of all nodes of a site.
    SiteAgent,
    System,
}

/// How we know who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    Nothing,
    Certificate,
    Token,
    /// A loop handed the router directly; no socket was involved.
    InProcess,
}

/// A subject as the fields of a certificate, in the way that Kubernetes reads them: the common
/// name is the user, organizations are groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateName {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub units: Vec<String>,
}

impl Subject {
    pub fn anonymous() -> Subject {
        Subject {
            name: "system:anonymous".into(),
            role: Role::Anonymous,
            namespace: None,
            via: Via::Nothing,
        }
    }

    /// A loop of the server's own process, such as `liveness`.
    pub fn system(loop_name: &str) -> Subject {
        Subject {
            name: format!("tombolo:system:{loop_name}"),
            role: Role::System,
            namespace: None,
            via: Via::InProcess,
        }
    }

    /// The holder of `admin.token`.
    pub fn first_admin() -> Subject {
        Subject { name: "admin".into(), role: Role::Admin, namespace: None, via: Via::Token }
    }

    /// The agent of one node.
    pub fn agent(site: &str, node: &str) -> Result<Subject, Error> {
        Subject::of_agent(Remit::Node { site: site.into(), node: node.into() })
    }

    /// The agent of all nodes of a site.
    pub fn site_agent(site: &str) -> Result<Subject, Error> {
        Subject::of_agent(Remit::Site { site: site.into() })
    }

    /// The agent that stands for `remit`.
    pub fn of_agent(remit: Remit) -> Result<Subject, Error> {
        check_part("site", remit.site())?;
        let name = match &remit {
            Remit::Node { site, node } => {
                check_part("node", node)?;
                format!("{AGENT_PREFIX}{site}/{node}")
            }
            Remit::Site { site } => format!("{SITE_AGENT_PREFIX}{site}"),
        };
        Ok(Subject { name, role: Role::Agent(remit), namespace: None, via: Via::Certificate })
    }

    /// A person or program with a role that can be given out.
    pub fn person(
        name: &str,
        role: Role,
        namespace: Option<String>,
        via: Via,
    ) -> Result<Subject, Error> {
        check_person(name)?;
        let wrong = |problem| Error::Name { what: "role", name: role.to_string(), problem };
        match (&role, &namespace) {
            (Role::Guest | Role::Manager | Role::Admin, None) => (),
            (Role::Guest | Role::Manager | Role::Admin, Some(_)) => {
                return Err(wrong("it holds everywhere and takes no namespace"));
            }
            (Role::User, None) => return Err(wrong("it needs the namespace in which it holds")),
            (Role::User, Some(namespace)) => check_part("namespace", namespace)?,
            (Role::Anonymous | Role::Agent(_) | Role::System, _) => {
                return Err(wrong("it is not given to people"));
            }
        }
        Ok(Subject { name: name.into(), role, namespace, via })
    }

    /// Groups as `SelfSubjectReview` and `TokenReview` show them.
    pub fn groups(&self) -> Vec<String> {
        match self.role {
            Role::Anonymous => vec!["system:unauthenticated".into()],
            Role::Guest
            | Role::User
            | Role::Manager
            | Role::Admin
            | Role::Agent(_)
            | Role::System => {
                vec![format!("{ROLE_PREFIX}{}", self.role), "system:authenticated".into()]
            }
        }
    }

    pub fn to_certificate_name(&self) -> CertificateName {
        CertificateName {
            common_name: self.name.clone(),
            organizations: vec![format!("{ROLE_PREFIX}{}", self.role)],
            units: self.namespace.iter().map(|name| format!("{NAMESPACE_PREFIX}{name}")).collect(),
        }
    }

    /// Reads back what [`Subject::to_certificate_name`] wrote. Groups that are not ours are passed
    /// over; two roles at once are refused, since either choice could surprise.
    pub fn from_certificate_name(name: &CertificateName) -> Result<Subject, Error> {
        let refused = |problem: String| Error::Refused { what: "client certificate", problem };
        let roles: Vec<&str> =
            name.organizations.iter().filter_map(|group| group.strip_prefix(ROLE_PREFIX)).collect();
        let [role] = roles[..] else {
            return Err(refused(format!("it names {} roles instead of one", roles.len())));
        };
        let no_agent = || refused("its name is not that of an agent".into());
        if role == RoleName::Agent.as_str() {
            let place = name.common_name.strip_prefix(AGENT_PREFIX);
            let (site, node) =
                place.and_then(|place| place.split_once('/')).ok_or_else(no_agent)?;
            return Subject::agent(site, node);
        }
        if role == RoleName::SiteAgent.as_str() {
            let site = name.common_name.strip_prefix(SITE_AGENT_PREFIX).ok_or_else(no_agent)?;
            return Subject::site_agent(site);
        }
        let role = Role::parse(role).ok_or_else(|| refused(format!("no role {role:?} exists")))?;
        let mut namespaces =
            name.units.iter().filter_map(|unit| unit.strip_prefix(NAMESPACE_PREFIX));
        let namespace = namespaces.next().map(str::to_owned);
        if namespaces.next().is_some() {
            return Err(refused("it names more than one namespace".into()));
        }
        Subject::person(&name.common_name, role, namespace, Via::Certificate)
    }
}

impl Role {
    /// The roles that can be given to people. The others come about only by how a request arrives.
    pub fn parse(text: &str) -> Option<Role> {
        match text {
            "guest" => Some(Role::Guest),
            "user" => Some(Role::User),
            "manager" => Some(Role::Manager),
            "admin" => Some(Role::Admin),
            _ => None,
        }
    }

    pub fn name(&self) -> RoleName {
        match self {
            Role::Anonymous => RoleName::Anonymous,
            Role::Guest => RoleName::Guest,
            Role::User => RoleName::User,
            Role::Manager => RoleName::Manager,
            Role::Admin => RoleName::Admin,
            Role::Agent(Remit::Node { .. }) => RoleName::Agent,
            Role::Agent(Remit::Site { .. }) => RoleName::SiteAgent,
            Role::System => RoleName::System,
        }
    }
}

impl RoleName {
    pub const ALL: &'static [RoleName] = &[
        RoleName::Anonymous,
        RoleName::Guest,
        RoleName::User,
        RoleName::Manager,
        RoleName::Admin,
        RoleName::Agent,
        RoleName::SiteAgent,
        RoleName::System,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RoleName::Anonymous => "anonymous",
            RoleName::Guest => "guest",
            RoleName::User => "user",
            RoleName::Manager => "manager",
            RoleName::Admin => "admin",
            RoleName::Agent => "agent",
            RoleName::SiteAgent => "site-agent",
            RoleName::System => "system",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name().as_str())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => {
                write!(formatter, "{} ({} of namespace {namespace:?})", self.name, self.role)
            }
            None => write!(formatter, "{} ({})", self.name, self.role),
        }
    }
}

fn check_person(name: &str) -> Result<(), Error> {
    let wrong = |problem| Error::Name { what: "user", name: name.into(), problem };
    if RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(wrong("names that begin with tombolo: or system: are kept for the system"));
    }
    // Certificates allow 64 characters in a common name; some programs hold to it.
    if name.is_empty() || name.len() > 64 {
        return Err(wrong("it must have 1 to 64 bytes"));
    }
    // Mail addresses are names too; a blank or control character would forge lines in records.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@+:".contains(&byte);
    if !name.bytes().all(allowed) {
        return Err(wrong("only letters, digits and - _ . @ + : are allowed"));
    }
    Ok(())
}

/// Names of resources: sites, nodes, namespaces.
fn check_part(what: &'static str, name: &str) -> Result<(), Error> {
    let wrong = |problem| Error::Name { what, name: name.into(), problem };
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(wrong("it must have 1 to 253 bytes"));
    }
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if !name.bytes().all(allowed) {
        return Err(wrong("only lower case letters, digits, - and . are allowed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    /// `"CN|O,O|OU,OU"`.
    #[track_caller]
    fn check(name: &str, expect: Expect) {
        let parts: Vec<&str> = name.split('|').collect();
        let list = |text: &str| {
            text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        let name = CertificateName {
            common_name: parts[0].into(),
            organizations: list(parts[1]),
            units: list(parts[2]),
        };
        expect.assert_eq(&match Subject::from_certificate_name(&name) {
            Ok(subject) => subject.to_string(),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn a_certificate_tells_the_user_and_the_role() {
        check("anna|tombolo:role:admin|", expect!["anna (admin)"]);
        check("anna|staff,tombolo:role:guest|third floor", expect!["anna (guest)"]);
        check(
            "anna|tombolo:role:user|tombolo:namespace:shop",
            expect![[r#"anna (user of namespace "shop")"#]],
        );
        check(
            "tombolo:agent:north/n1|tombolo:role:agent|",
            expect!["tombolo:agent:north/n1 (agent)"],
        );
        check(
            "tombolo:site-agent:north|tombolo:role:site-agent|",
            expect!["tombolo:site-agent:north (site-agent)"],
        );
    }

    #[test]
    fn a_certificate_without_one_clear_role_is_refused() {
        check(
            "anna||",
            expect!["the client certificate is refused: it names 0 roles instead of one"],
        );
        check(
            "anna|tombolo:role:guest,tombolo:role:admin|",
            expect!["the client certificate is refused: it names 2 roles instead of one"],
        );
        check(
            "anna|tombolo:role:system|",
            expect![[r#"the client certificate is refused: no role "system" exists"#]],
        );
        check(
            "anna|tombolo:role:user|",
            expect![[
                r#""user" cannot be the name of a role: it needs the namespace in which it holds"#
            ]],
        );
        check(
            "anna|tombolo:role:user|tombolo:namespace:a,tombolo:namespace:b",
            expect!["the client certificate is refused: it names more than one namespace"],
        );
    }

    #[test]
    fn nobody_passes_for_an_agent_or_a_loop() {
        check(
            "anna|tombolo:role:agent|",
            expect!["the client certificate is refused: its name is not that of an agent"],
        );
        check(
            "tombolo:agent:north/n1|tombolo:role:admin|",
            expect![[
                r#""tombolo:agent:north/n1" cannot be the name of a user: names that begin with tombolo: or system: are kept for the system"#
            ]],
        );
        check(
            "tombolo:agent:north/n1|tombolo:role:site-agent|",
            expect!["the client certificate is refused: its name is not that of an agent"],
        );
        check(
            "tombolo:site-agent:north|tombolo:role:agent|",
            expect!["the client certificate is refused: its name is not that of an agent"],
        );
        check(
            "tombolo:site-agent:north/n1|tombolo:role:site-agent|",
            expect![[
                r#""north/n1" cannot be the name of a site: only lower case letters, digits, - and . are allowed"#
            ]],
        );
        check(
            "tombolo:agent:/n1|tombolo:role:agent|",
            expect![[r#""" cannot be the name of a site: it must have 1 to 253 bytes"#]],
        );
        check(
            "tombolo:agent:a/b/c|tombolo:role:agent|",
            expect![[
                r#""b/c" cannot be the name of a node: only lower case letters, digits, - and . are allowed"#
            ]],
        );
    }

    proptest! {
        #[test]
        fn what_goes_into_a_certificate_comes_out_again(
            name in "[a-z][a-zA-Z0-9@._-]{0,40}", namespace in "[a-z0-9-]{1,63}",
        ) {
            let subject = Subject::person(&name, Role::User, Some(namespace), Via::Certificate);
            let subject = subject.unwrap();
            prop_assert_eq!(
                Subject::from_certificate_name(&subject.to_certificate_name()).unwrap(), subject);
        }
    }
}
