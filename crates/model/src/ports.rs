//! Ports of a node that an instance must have and that no other instance there can have at the same
//! time. The placer counts them, the agent asks for them before it lets two revisions run side by side,
//! and the drivers take them. Start at [`fixed`].

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::component::{Expose, Protocol};
use crate::named::named;
use crate::run::{Process, Run, Way};

named! {
    /// What carries a protocol; ports of different transports have nothing to do with each other.
    pub enum Transport {
        Tcp = "tcp",
        Udp = "udp",
    }
}

impl Protocol {
    pub fn transport(self) -> Transport {
        match self {
            Protocol::Tcp | Protocol::Http | Protocol::Https => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
        }
    }
}

/// A port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePort {
    pub transport: Transport,
    pub number: u16,
}

/// `8080/tcp`, as engines write it.
impl fmt::Display for NodePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.transport)
    }
}

impl FromStr for NodePort {
    type Err = String;

    fn from_str(text: &str) -> Result<NodePort, String> {
        let parts = text.split_once('/').and_then(|(number, word)| {
            let transport = Transport::ALL.iter().find(|known| known.as_str() == word);
            Some(NodePort { transport: *transport?, number: number.parse().ok()? })
        });
        parts.ok_or_else(|| format!("{text:?} is no port such as 8080/tcp"))
    }
}

/// A port that a program listens on.
#[derive(Clone, Copy, Debug)]
pub struct Listening<'a> {
    pub port: u16,
    pub protocol: Protocol,
    /// What is said of it, if others may reach it.
    pub expose: Option<&'a Expose>,
}

/// The ports that are listened on, and those that are exposed, which need not be named twice. The
/// program's own order is kept: its first port is the one that `PORT` stands for.
pub fn listening<'a>(listened: &[u16], exposed: &'a [Expose]) -> Vec<Listening<'a>> {
    let of = |expose: &'a Expose| Listening {
        port: expose.port,
        protocol: expose.protocol,
        expose: Some(expose),
    };
    let mut ports: Vec<Listening<'a>> = Vec::new();
    for port in listened {
        let before = ports.len();
        ports.extend(exposed.iter().filter(|expose| expose.port == *port).map(of));
        if ports.len() == before {
            ports.push(Listening { port: *port, protocol: Protocol::default(), expose: None });
        }
    }
    ports.extend(exposed.iter().filter(|expose| !listened.contains(&expose.port)).map(of));
    ports
}

/// Whether a text of a process asks for the port that it is to listen on in place of `port`.
pub fn asks_for(text: &str, port: u16, is_first: bool) -> bool {
    text.contains(&format!("$(PORT_{port})")) || (is_first && text.contains("$(PORT)"))
}

/// The ports of its node that an instance must have if it runs this way. `hidden` are texts of its
/// environment that are not in the document; where nobody knows them, it answers with a yes: a program
/// that may take any port is not bound to one.
pub fn fixed(
    way: Way<'_>,
    exposed: &[Expose],
    hidden: &dyn Fn(u16, bool) -> bool,
) -> BTreeSet<NodePort> {
    let on_node = |listening: &Listening<'_>, number: u16| NodePort {
        transport: listening.protocol.transport(),
        number,
    };
    match way {
        Way::Process(process) => {
            let ports = listening(&process.ports, exposed);
            let first = ports.first().map(|first| first.port);
            let number = |one: &Listening<'_>| match takes_any(process, one.port, first, hidden) {
                true => one.expose?.published,
                false => Some(one.port),
            };
            ports.iter().filter_map(|one| Some(on_node(one, number(one)?))).collect()
        }
        Way::Container(container) => {
            let ports = listening(&container.ports, exposed);
            ports.iter().filter_map(|one| Some(on_node(one, one.expose?.published?))).collect()
        }
        Way::Compose(project) => of_project(project),
        // Its cluster publishes what is to be reached.
        Way::Manifests(_) => BTreeSet::new(),
    }
}

/// What the document alone says of [`fixed`]: texts of Secrets are not known.
pub fn stated(run: &Run, exposed: &[Expose]) -> BTreeSet<NodePort> {
    let secret = run.process.as_ref().is_some_and(|process| !process.secret_env.is_empty());
    run.way().map(|way| fixed(way, exposed, &|_, _| secret)).unwrap_or_default()
}

fn takes_any(
    process: &Process,
    port: u16,
    first: Option<u16>,
    hidden: &dyn Fn(u16, bool) -> bool,
) -> bool {
    let is_first = first == Some(port);
    let mut texts = process.command.iter().chain(process.env.values());
    texts.any(|text| asks_for(text, port, is_first)) || hidden(port, is_first)
}

/// The ports of the node that a compose project names, `"8080:80/udp"` or `{published: 8080}`. Of a
/// range the engine may take any, and a service with a profile runs only when it is asked for.
fn of_project(project: &Value) -> BTreeSet<NodePort> {
    let services = project.get("services").and_then(Value::as_object).into_iter().flatten();
    let runs = |service: &&Value| match service.get("profiles") {
        Some(Value::Array(profiles)) => profiles.is_empty(),
        Some(_) => false,
        None => true,
    };
    let services = services.map(|(_, service)| service).filter(runs);
    let ports = services.filter_map(|service| service.get("ports")?.as_array()).flatten();
    ports.filter_map(of_entry).collect()
}

fn of_entry(entry: &Value) -> Option<NodePort> {
    let transport = |word: Option<&str>| match word.is_some_and(|w| w.eq_ignore_ascii_case("udp")) {
        true => Transport::Udp,
        false => Transport::Tcp,
    };
    let (word, number) = match entry {
        Value::String(text) => {
            let (ports, word) = match text.split_once('/') {
                Some((ports, word)) => (ports, Some(word)),
                None => (text.as_str(), None),
            };
            let mut words = ports.rsplit(':');
            words.next()?;
            (word, words.next()?.parse().ok()?)
        }
        entry => {
            let published = entry.get("published")?;
            let number = published.as_u64().and_then(|port| u16::try_from(port).ok());
            let number = number.or_else(|| published.as_str()?.parse().ok())?;
            (entry.get("protocol").and_then(Value::as_str), number)
        }
    };
    // Port 0 stands for any.
    (number != 0).then(|| NodePort { transport: transport(word), number })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The fixed ports of a way to run with these ports exposed, where nobody knows the Secrets.
    #[track_caller]
    fn check(run: Value, expose: Value, expected: &str) {
        let run: Run = serde_json::from_value(run).unwrap();
        let expose: Vec<Expose> = serde_json::from_value(expose).unwrap();
        let fixed: Vec<String> = stated(&run, &expose).iter().map(ToString::to_string).collect();
        assert_eq!(fixed.join(" "), expected);
    }

    #[test]
    fn a_container_must_have_what_it_publishes_and_nothing_else() {
        let expose = json!([
            {"port": 80, "published": 8080}, {"port": 53, "protocol": "udp", "published": 53},
            {"port": 81}
        ]);
        check(json!({"container": {"image": "web", "ports": [80, 90]}}), expose, "8080/tcp 53/udp");
    }

    #[test]
    fn a_process_must_have_the_ports_that_it_does_not_ask_for() {
        let process =
            |arguments: Value| json!({"process": {"command": arguments, "ports": [80, 81]}});
        check(process(json!(["web"])), json!([]), "80/tcp 81/tcp");
        check(process(json!(["web", "$(PORT)"])), json!([]), "81/tcp");
        let published = json!([{"port": 81, "published": 8081}]);
        check(process(json!(["web", "$(PORT)", "$(PORT_81)"])), published, "8081/tcp");
    }

    #[test]
    fn a_process_whose_secret_may_ask_for_a_port_is_not_bound_to_one() {
        let secret = json!({"process": {
            "command": ["web"], "ports": [80], "secretEnv": {"A": {"name": "a", "key": "b"}}
        }});
        check(secret, json!([]), "");
    }

    #[test]
    fn a_compose_project_must_have_the_ports_that_its_services_name() {
        let project = |ports: Value| json!({"compose": {"services": {"web": {"ports": ports}}}});
        check(
            project(json!(["80", "81:80", "127.0.0.1:82:80", "[::1]:53:53/udp"])),
            json!([]),
            "81/tcp 82/tcp 53/udp",
        );
        check(
            project(json!([{"target": 80, "published": 81}, {"target": 80}])),
            json!([]),
            "81/tcp",
        );
        check(
            project(json!([{"target": 80, "published": "82", "protocol": "udp"}])),
            json!([]),
            "82/udp",
        );
        check(project(json!([90, "8000-8002:80", "${PORT}:80", "0:80"])), json!([]), "");
        let asleep =
            json!({"compose": {"services": {"web": {"profiles": ["x"], "ports": ["1:1"]}}}});
        check(asleep, json!([]), "");
    }
}
