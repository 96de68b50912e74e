//! Names of other components in the environment and the command line of one: `http://store:8080`,
//! `store.shop.svc.cluster.local`, `DB_HOST=store`. Called by the readers of compose files and of
//! Kubernetes manifests, in whose formats nothing else says who calls whom.

use std::collections::BTreeMap;

use tombolo_model::component::{Connection, Protocol};
use tombolo_model::run::Container;

/// Longer texts are files, not addresses.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// As many as a component may have. One more is enough to be told; each is held against all others.
const CONNECTIONS_MAX: usize = 64;

/// How the names of variables end that hold no host.
const NO_HOSTS: &[&str] = &[
    "USER", "USERNAME", "LOGIN", "OWNER", "PASS", "PASSWD", "PASSWORD", "SECRET", "TOKEN", "KEY",
    "DB", "DATABASE", "SCHEMA", "BUCKET", "TOPIC", "QUEUE", "REALM", "NAME",
];

/// What answers to a host name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Host {
    /// The component behind the name.
    pub(crate) component: String,
    /// The port that is called, and the one that the component listens on.
    pub(crate) ports: Vec<(u16, u16)>,
}

/// A text in which others may be named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'t> {
    /// The variable that has the text as its value; nothing for a word of a command line.
    pub(crate) variable: Option<&'t str>,
    pub(crate) text: &'t str,
}

/// What the environment and the command line of a container say.
pub(crate) fn said_by(container: &Container) -> impl Iterator<Item = Said<'_>> {
    let variables = container.env.iter().map(|(name, text)| Said { variable: Some(name), text });
    let words = container.command.iter().chain(&container.args);
    variables.chain(words.map(|text| Said { variable: None, text }))
}

/// The components that the texts name, each with the port where one is named; in order of the
/// texts, without repetition.
pub(crate) fn connections<'t>(
    said: impl Iterator<Item = Said<'t>>,
    hosts: &BTreeMap<String, Host>,
    own_name: &str,
) -> Vec<Connection> {
    let mut found: Vec<Connection> = Vec::new();
    for Said { variable, text } in said.filter(|said| said.text.len() <= TEXT_BYTES_MAX) {
        let may_be_a_host = !variable.is_some_and(names_something_else);
        for mention in mentions(text) {
            let is_whole = mention.host.len() == text.trim().len();
            let is_certain = mention.is_address || (is_whole && may_be_a_host);
            if !is_certain {
                continue;
            }
            let Some(host) = lookup(mention.host, hosts) else { continue };
            if host.component == own_name {
                continue;
            }
            if found.len() > CONNECTIONS_MAX {
                return found;
            }
            let port = match (mention.port, host.ports.as_slice()) {
                (Some(called), ports) => {
                    let listens = ports.iter().find(|(from, _)| *from == called);
                    Some(listens.map_or(called, |(_, to)| *to))
                }
                (None, [(_, only)]) => Some(*only),
                (None, _) => None,
            };
            let to = host.component.clone();
            let connection =
                Connection { to, port, protocol: mention.protocol, ..Connection::default() };
            add(&mut found, connection);
        }
    }
    found
}

/// The text with each port that a Service of a cluster would lead on to another replaced by that other:
/// elsewhere nothing stands between the two. Nothing if there is no such port.
pub(crate) fn as_they_listen(text: &str, hosts: &BTreeMap<String, Host>) -> Option<String> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for mention in mentions(text).into_iter().filter(|mention| mention.is_address) {
        let Some(host) = lookup(mention.host, hosts) else { continue };
        let implied = match mention.protocol {
            Protocol::Http => 80,
            Protocol::Https => 443,
            Protocol::Tcp | Protocol::Udp => 0,
        };
        let called = mention.port.unwrap_or(implied);
        let way = host.ports.iter().find(|(from, to)| *from == called && from != to);
        let Some((_, listens)) = way else { continue };
        out.push_str(&text[done..mention.end]);
        out.push_str(&format!(":{listens}"));
        done = match mention.port {
            Some(_) => mention.end + 1 + digits(&text[mention.end + 1..]),
            None => mention.end,
        };
    }
    out.push_str(&text[done..]);
    (done > 0).then_some(out)
}

/// How many digits a text begins with.
fn digits(text: &str) -> usize {
    text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len())
}

/// Adds a connection unless it is there; one without a port says less than one with it.
pub(crate) fn add(found: &mut Vec<Connection>, connection: Connection) {
    let same_way = |known: &&mut Connection| known.to == connection.to;
    match found.iter_mut().filter(same_way).find(|known| {
        known.port == connection.port || known.port.is_none() || connection.port.is_none()
    }) {
        Some(known) if known.port.is_none() => *known = connection,
        Some(_) => (),
        None => found.push(connection),
    }
}

/// Whether the variable holds the name of a user, a database and the like. Those are often called as
/// the component is that uses them, and `POSTGRES_USER=gitea` calls nobody.
fn names_something_else(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    let is_host = ["HOSTNAME", "HOST_NAME"].iter().any(|end| variable.ends_with(end));
    !is_host && NO_HOSTS.iter().any(|end| variable.ends_with(end))
}

fn lookup<'h>(host: &str, hosts: &'h BTreeMap<String, Host>) -> Option<&'h Host> {
    if let Some(found) = hosts.get(host) {
        return Some(found);
    }
    let (name, rest) = host.split_once('.')?;
    let mut parts = rest.split('.');
    let _namespace = parts.next()?;
    let is_service = matches!(parts.next(), None | Some("svc"));
    is_service.then(|| hosts.get(name)).flatten()
}

#[derive(Debug, PartialEq)]
struct Mention<'t> {
    host: &'t str,
    /// Where the host ends in the text.
    end: usize,
    port: Option<u16>,
    protocol: Protocol,
    /// It has a port, a scheme or a domain, so that no word of a sentence looks like it.
    is_address: bool,
}

/// Every run of letters, digits, dots and dashes in a text may be a host name.
fn mentions(text: &str) -> Vec<Mention<'_>> {
    let in_host =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let Some(start) = rest.find(in_host).map(|start| at + start) else { break };
        let end =
            text[start..].find(|letter| !in_host(letter)).map_or(text.len(), |end| start + end);
        at = end;
        let before = &text[..start];
        let after = text[end..].strip_prefix(':').unwrap_or_default();
        let port = after[..digits(after)].parse::<u16>().ok().filter(|port| *port > 0);
        let protocol = match before {
            before if before.ends_with("https://") => Protocol::Https,
            before if before.ends_with("http://") => Protocol::Http,
            _ => Protocol::Tcp,
        };
        // In `postgres://gitea:word@store/db` the user stands where a host would.
        let authority = text[end..].split(['/', ' ', '"', '\'', ',']).next().unwrap_or_default();
        let is_user = before.ends_with("://") && authority.contains('@');
        let has_scheme = before.ends_with("://") || before.ends_with('@');
        let host = &text[start..end];
        let is_address = !is_user && (port.is_some() || has_scheme || host.contains(".svc"));
        found.push(Mention { host, end, port, protocol, is_address });
    }
    found
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expected: Expect) {
        let host = |component: &str, ports: &[(u16, u16)]| Host {
            component: component.to_owned(),
            ports: ports.to_vec(),
        };
        let hosts = BTreeMap::from([
            ("store".to_owned(), host("store", &[(5432, 5432)])),
            ("web-svc".to_owned(), host("web", &[(80, 8080), (443, 8443)])),
            ("own".to_owned(), host("own", &[(1, 1)])),
        ]);
        // `NAME=value` is a variable, anything else a word of the command line.
        let said = texts.iter().map(|text| match text.split_once('=') {
            Some((variable, text)) => Said { variable: Some(variable), text },
            None => Said { variable: None, text },
        });
        let lines = connections(said, &hosts, "own").into_iter().map(|connection| {
            let port = connection.port.map_or("any port".to_owned(), |port| port.to_string());
            format!("{} {port} {}\n", connection.to, connection.protocol)
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn finds_addresses_in_any_text() {
        check(
            &["http://web-svc:80/x"],
            expect![[r#"
            web 8080 http
        "#]],
        );
        check(
            &["postgres://user:word@store/db"],
            expect![[r#"
            store 5432 tcp
        "#]],
        );
        check(
            &["store.shop.svc.cluster.local", "a,web-svc:9,web-svc:443"],
            expect![[r#"
            store 5432 tcp
            web 9 tcp
            web 8443 tcp
        "#]],
        );
    }

    #[test]
    fn a_port_of_a_service_becomes_the_one_behind_it() {
        let host = Host { component: "web".to_owned(), ports: vec![(80, 8080), (443, 443)] };
        let hosts = BTreeMap::from([("web".to_owned(), host)]);
        let told = |text| as_they_listen(text, &hosts);
        assert_eq!(told("http://web:80/x,web:080").as_deref(), Some("http://web:8080/x,web:8080"));
        assert_eq!(told("at http://web/").as_deref(), Some("at http://web:8080/"));
        assert_eq!(told("http://web.shop.svc:80").as_deref(), Some("http://web.shop.svc:8080"));
        for text in ["https://web/", "web:443", "web", "http://other:80", "web:8080", ""] {
            assert_eq!(told(text), None, "{text}");
        }
    }

    #[test]
    fn a_bare_name_counts_only_when_it_is_the_whole_value() {
        check(
            &["store"],
            expect![[r#"
            store 5432 tcp
        "#]],
        );
        check(&["keeps things in store for you", "own:1", "store-2:80", "restore"], expect![""]);
    }

    #[test]
    fn names_of_users_databases_and_passwords_call_nobody() {
        check(
            &["POSTGRES_USER=store", "POSTGRES_DB=store", "password=store", "BUCKET_NAME=store"],
            expect![""],
        );
        check(
            &["DATABASE_URL=postgres://store:store@web-svc:80/store"],
            expect![[r#"
            web 8080 tcp
        "#]],
        );
        check(
            &["DB_HOSTNAME=store"],
            expect![[r#"
            store 5432 tcp
        "#]],
        );
    }

    #[test]
    fn a_name_with_its_port_says_more_than_without() {
        check(
            &["web-svc", "web-svc:80"],
            expect![[r#"
            web 8080 tcp
        "#]],
        );
    }
}
