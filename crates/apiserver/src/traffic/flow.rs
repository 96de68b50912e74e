//! What a request is to the door: its level, its flow, how its body comes and how wide it is. Pure.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use http::Method;
use tombolo_identity::token::SYSTEM_NAMESPACE;
use tombolo_identity::{Remit, Role, Subject};
use tombolo_model::keys;

use crate::request::{Path, Target};

/// An answer of this size is one seat wider than a small one.
const ANSWER_BYTES_PER_SEAT: usize = 1024 * 1024;
/// A body of this size is: as a tree it takes ten times the memory, and time to check.
const BODY_BYTES_PER_SEAT: usize = 64 * 1024;
/// No answer is wider, so that a level never works for one list alone.
const ANSWER_SEATS_MAX: usize = 16;

/// Whose share of the server a request takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    Subject(Arc<str>),
    /// Somebody whom we do not know, by where they are.
    Address(IpAddr),
}

impl Flow {
    pub(crate) fn of(subject: &Subject, address: IpAddr) -> Flow {
        match subject.role {
            Role::Anonymous => Flow::Address(network(address)),
            Role::Guest
            | Role::User
            | Role::Manager
            | Role::Admin
            | Role::Agent(_)
            | Role::System => Flow::Subject(subject.name.as_str().into()),
        }
    }
}

/// The address of somebody who may have many: a host is commonly given a /64 of IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) if address.is_loopback() => IpAddr::V6(address),
        IpAddr::V6(address) => {
            let first_half = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(first_half))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Takes no seat: it costs next to nothing, and must be answered when nothing else is.
    Exempt,
    Heartbeats,
    Administration,
    Agents,
    Users,
    Anonymous,
}

pub(crate) fn level(subject: &Subject, path: &Path) -> Level {
    match (&subject.role, path) {
        (_, Path::Health) | (Role::System, _) => Level::Exempt,
        (Role::Agent(remit), Path::Resource(target)) if is_own_lease(target, remit) => {
            Level::Heartbeats
        }
        (Role::Admin, _) => Level::Administration,
        (Role::Agent(_), _) => Level::Agents,
        (Role::Guest | Role::User | Role::Manager, _) => Level::Users,
        (Role::Anonymous, _) => Level::Anonymous,
    }
}

fn is_own_lease(target: &Target, remit: &Remit) -> bool {
    target.group == "coordination.k8s.io"
        && target.resource == "leases"
        && target.subresource.is_none()
        && target.namespace.as_deref() == Some(SYSTEM_NAMESPACE)
        && target.name.as_ref().is_some_and(|name| *name == remit.lease())
}

/// Paths of ours below `/tombolo` that search for places.
const SEARCHES: &[&str] = &["plan", "why", "what-if"];

/// What a request needs most while it is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// A processor and nothing else. More of these at once than there are processors only keep
    /// everybody waiting, in particular those who have a seat of another level.
    Reading,
    /// A processor for as long as a search takes, which may be a minute: few at once, and nothing else waits
    /// behind them.
    Searching,
    /// It waits for the disk, or for somebody else.
    Other,
}

pub(crate) fn work(method: &Method, path: &Path) -> Work {
    match path {
        Path::Own(operation) if SEARCHES.contains(&operation.as_str()) => Work::Searching,
        // Routes beside the protocol may wait for an agent.
        Path::Own(_) | Path::Unknown => Work::Other,
        Path::Health
        | Path::Version
        | Path::CoreVersions
        | Path::Groups
        | Path::Group(_)
        | Path::Resources { .. }
        | Path::OpenApiV2
        | Path::OpenApiV3Index
        | Path::OpenApiV3 { .. }
        | Path::Resource(_) => match *method == Method::GET || *method == Method::HEAD {
            true => Work::Reading,
            false => Work::Other,
        },
    }
}

/// How the body of a request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It arrives whole before a handler hears of the request.
    Whole,
    /// The handler reads it as it comes, or waits for somebody else; it holds no seat meanwhile.
    Flowing,
}

pub(crate) fn arrival(path: &Path) -> Arrival {
    match path {
        Path::Own(operation) if matches!(operation.as_str(), "restore" | "backup" | "errands") => {
            Arrival::Flowing
        }
        Path::Resource(target)
            if target.group == keys::GROUP
                && matches!(
                    target.subresource.as_deref(),
                    Some("log" | "exec" | "portforward")
                ) =>
        {
            Arrival::Flowing
        }
        Path::Health
        | Path::Version
        | Path::CoreVersions
        | Path::Groups
        | Path::Group(_)
        | Path::Resources { .. }
        | Path::OpenApiV2
        | Path::OpenApiV3Index
        | Path::OpenApiV3 { .. }
        | Path::Resource(_)
        | Path::Own(_)
        | Path::Unknown => Arrival::Whole,
    }
}

/// How many seats a request takes, by the size of its body and what its answer is expected to have.
pub(crate) fn width(body_bytes: usize, answer_bytes: usize) -> usize {
    let answer = (answer_bytes / ANSWER_BYTES_PER_SEAT).min(ANSWER_SEATS_MAX);
    1 + body_bytes / BODY_BYTES_PER_SEAT + answer
}

/// Routes beside the protocol whose handlers list all Apps, Assignments and Nodes, and may search.
const FACADES: [&str; 5] =
    ["/matchmake", "/jobmanager/", "/api/v3/deployment", "/api/v3/resource", "/characterization"];

/// Whether one small request makes the server do as much as several large lists.
pub(crate) fn is_facade(path: &str) -> bool {
    FACADES.iter().any(|facade| path.starts_with(facade))
}

/// Whether a request asks for metrics, which takes a processor as a search for places does.
pub(crate) fn is_metrics_query(path: &str) -> bool {
    path.starts_with("/prometheus/") && path != "/prometheus/api/v1/write"
}

/// Under what the size of the last answer to a list is remembered.
pub(crate) fn collection(Target { group, resource, namespace, .. }: &Target) -> String {
    format!("{group}/{resource}/{}", namespace.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::parse_path;

    #[track_caller]
    fn check(subject: &Subject, path: &str, expected: Level) {
        assert_eq!(level(subject, &parse_path(path)), expected, "{subject} at {path}");
    }

    fn person(role: Role) -> Subject {
        let namespace = (role == Role::User).then(|| "shop".to_owned());
        Subject::person("anna", role, namespace, tombolo_identity::Via::Token).unwrap()
    }

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tombolo-system/leases";

    #[test]
    fn only_an_agents_own_lease_is_a_heartbeat() {
        let agent = Subject::agent("north", "crane").unwrap();
        check(&agent, &format!("{LEASES}/node-crane"), Level::Heartbeats);
        check(&agent, &format!("{LEASES}/site-north"), Level::Agents);
        check(&agent, &format!("{LEASES}/node-heron"), Level::Agents);
        check(&agent, LEASES, Level::Agents);
        let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/node-crane";
        check(&agent, elsewhere, Level::Agents);
        let of_site = Subject::site_agent("north").unwrap();
        check(&of_site, &format!("{LEASES}/site-north"), Level::Heartbeats);
        check(&of_site, &format!("{LEASES}/node-crane"), Level::Agents);
        check(&of_site, &format!("{LEASES}/site-south"), Level::Agents);
        check(&person(Role::User), &format!("{LEASES}/node-crane"), Level::Users);
        check(&person(Role::Manager), &format!("{LEASES}/node-crane"), Level::Users);
        check(&Subject::anonymous(), &format!("{LEASES}/node-crane"), Level::Anonymous);
    }

    #[test]
    fn everybody_else_is_known_by_their_role() {
        check(&Subject::anonymous(), "/readyz", Level::Exempt);
        check(&Subject::anonymous(), "/tombolo/join", Level::Anonymous);
        check(&person(Role::Admin), "/api/v1/namespaces", Level::Administration);
        check(&Subject::system("liveness"), "/api/v1/namespaces", Level::Exempt);
        check(&Subject::agent("north", "crane").unwrap(), "/tombolo/renew", Level::Agents);
        check(&person(Role::Guest), "/api", Level::Users);
    }

    #[test]
    fn strangers_are_told_apart_by_network_and_others_by_name() {
        let of = |subject: &Subject, address: &str| Flow::of(subject, address.parse().unwrap());
        let stranger = Subject::anonymous();
        assert_eq!(of(&stranger, "2001:db8::1"), of(&stranger, "2001:db8::2"));
        assert_ne!(of(&stranger, "2001:db8::1"), of(&stranger, "2001:db8:0:1::1"));
        assert_ne!(of(&stranger, "10.0.0.1"), of(&stranger, "10.0.0.2"));
        assert_eq!(of(&stranger, "::ffff:10.0.0.1"), of(&stranger, "10.0.0.1"));
        let anna = person(Role::User);
        assert_eq!(of(&anna, "10.0.0.1"), of(&anna, "10.0.0.2"));
    }

    #[test]
    fn what_is_large_is_wide() {
        assert_eq!(width(0, 0), 1);
        assert_eq!(width(3 * 1024 * 1024, 0), 49);
        assert_eq!(width(0, 16 * 1024 * 1024), 17);
        assert_eq!(width(0, 500 * 1024 * 1024), 17);
    }

    #[test]
    fn a_facade_is_wide_and_the_protocol_is_not() {
        for path in ["/matchmake", "/jobmanager/jobs/", "/api/v3/deployment/"] {
            assert!(is_facade(path), "{path}");
        }
        for path in ["/api/v1/namespaces", "/tombolo/join", "/readyz", "/api/v3/healthcheck"] {
            assert!(!is_facade(path), "{path}");
        }
    }

    #[test]
    fn asking_for_metrics_is_a_search_and_writing_them_is_not() {
        assert!(is_metrics_query("/prometheus/api/v1/query_range"));
        assert!(!is_metrics_query("/prometheus/api/v1/write"));
        assert!(!is_metrics_query("/tombolo/loops"));
    }

    #[test]
    fn what_flows_is_not_waited_for() {
        let flows = |path: &str| arrival(&parse_path(path)) == Arrival::Flowing;
        let assignment = "/apis/tombolo.dev/v1alpha1/namespaces/shop/assignments/a";
        assert!(flows(&format!("{assignment}/exec")));
        assert!(flows("/tombolo/restore"));
        assert!(!flows(assignment));
        assert!(!flows("/tombolo/join"));
        assert!(!flows("/some/facade"));
    }
}
