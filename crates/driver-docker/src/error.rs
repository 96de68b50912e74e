//! What the engine says when something fails, as what it means to the agent. The engine has one
//! status code for a hundred things; only its words tell them apart. Start with [`meaning`].

use std::sync::Arc;

use bollard::errors::Error as EngineError;
use tombolo_driver::{Error, InstanceId};
use tombolo_model::component::Protocol;

/// The words of an engine, as the cause behind an error of ours.
#[derive(Debug)]
pub(crate) struct Words(String);

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Words {}

pub(crate) fn words(text: &str) -> Arc<Words> {
    Arc::new(Words(text.to_owned()))
}

/// Whether the engine itself was not reached.
pub(crate) fn is_lost(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::SocketNotFoundError(_)
            | EngineError::HyperLegacyError { .. }
            | EngineError::HyperResponseError { .. }
            | EngineError::IOError { .. }
            | EngineError::RequestTimeoutError
    )
}

pub(crate) fn status(error: &EngineError) -> Option<u16> {
    match error {
        EngineError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// Whether a signal came too late: the container has ended or is gone.
pub(crate) fn is_not_running(error: &EngineError) -> bool {
    let EngineError::DockerResponseServerError { status_code, message } = error else {
        return false;
    };
    *status_code == 404 || message.contains("is not running")
}

/// Whether the engine has used up the addresses that it may give to networks.
pub(crate) fn is_out_of_addresses(error: &EngineError) -> bool {
    let words = ["non-overlapping IPv4 address pool", "address pools have been fully subnetted"];
    said(error).is_some_and(|text| words.iter().any(|words| text.contains(words)))
}

/// The version of the API that the engine would rather speak: `… Maximum supported API version is
/// 1.40`.
pub(crate) fn other_version(error: &EngineError) -> Option<usize> {
    let EngineError::DockerResponseServerError { status_code: 400, message } = error else {
        return None;
    };
    let (_, rest) = message.split_once("supported API version is 1.")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

pub(crate) fn told(doing: &str, error: EngineError) -> Error {
    match said(&error) {
        Some(text) => meaning(doing, text),
        None => Error::Failed { doing: doing.to_owned(), source: Arc::new(error) },
    }
}

/// An error of a command inside the instance `id`.
pub(crate) fn inside(id: &InstanceId, error: &Error) -> Option<Error> {
    let Error::Failed { source, .. } = error else { return None };
    let text = source.to_string();
    let stopped = text.contains("is not running") || text.contains("is paused");
    stopped.then(|| Error::NotRunning { id: id.clone() })
}

fn said(error: &EngineError) -> Option<&str> {
    match error {
        EngineError::DockerResponseServerError { message, .. } => Some(message),
        EngineError::DockerStreamError { error } => Some(error),
        EngineError::DockerContainerWaitError { error, .. } => Some(error),
        _ => None,
    }
}

type Reading = fn(&str, &str) -> Option<Error>;

/// What to look for in the engine's words, and what it means; the first row that knows counts.
const READINGS: &[Reading] = &[
    |doing, text| {
        text.contains("no space left on device")
            .then(|| Error::DiskFull { doing: doing.to_owned() })
    },
    |_, text| {
        let taken = ["port is already allocated", "address already in use"];
        let port = taken.iter().find_map(|words| port_before(text.split_once(words)?.0))?;
        let udp = text.contains("udp") && !text.contains("tcp");
        let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        Some(Error::PortTaken { port, protocol, holder: None })
    },
    |_, text| {
        let image = text.split_once("No such image: ")?.1;
        Some(Error::NoSuchImage { image: image.trim().to_owned() })
    },
    |_, text| {
        let user =
            after(text, "unable to find user ").or_else(|| after(text, "unable to find group "))?;
        Some(Error::NoSuchUser { user })
    },
    |_, text| {
        let path = after(text, "bind source path does not exist: ")?;
        Some(Error::Failed {
            doing: format!("mount {path}, which is not on the node"),
            source: words(text),
        })
    },
    |_, text| {
        let command = quoted(text.split_once("exec: ")?.1)?;
        let missing = ["executable file not found", "no such file or directory"];
        if missing.iter().any(|words| text.contains(words)) {
            return Some(Error::CommandNotInImage { command });
        }
        let refused = ["permission denied", "exec format error", "is a directory"];
        let refused = refused.iter().any(|words| text.contains(words));
        refused.then(|| Error::NotExecutable { command, source: words(text) })
    },
    |doing, text| {
        let short = ["cannot allocate memory", "resource temporarily unavailable"];
        short
            .iter()
            .any(|words| text.contains(words))
            .then(|| Error::Exhausted { doing: doing.to_owned(), source: words(text) })
    },
    |_, text| {
        let wrong = ["invalid reference format", "invalid mount config", "invalid containerPort"];
        let wrong = wrong.iter().any(|words| text.contains(words));
        wrong.then(|| Error::Invalid { what: text.to_owned() })
    },
];

/// What the engine's words mean, whether it said them just now or wrote them down for a container
/// that it could not start.
pub(crate) fn meaning(doing: &str, text: &str) -> Error {
    let known = READINGS.iter().find_map(|reading| reading(doing, text));
    known.unwrap_or_else(|| Error::Failed { doing: doing.to_owned(), source: words(text) })
}

/// Why an image could not be pulled.
pub(crate) fn of_pull(image: &str, error: EngineError) -> Error {
    const GONE: &[&str] = &["manifest unknown", "not found", "no matching manifest"];
    const DENIED: &[&str] = &["denied", "unauthorized", "authentication required", "forbidden"];
    const OUT_OF_REACH: &[&str] = &[
        "dial tcp",
        "lookup ",
        "no such host",
        "connection refused",
        "connection reset",
        "broken pipe",
        "timeout",
        "deadline exceeded",
        "unreachable",
        "EOF",
        "TLS handshake",
        "x509",
        "proxyconnect",
        "request canceled",
        "Bad Gateway",
        "Gateway Time-out",
        "Service Unavailable",
        "server misbehaving",
        "toomanyrequests",
    ];
    let doing = format!("pull {image}");
    let Some(text) = said(&error) else { return told(&doing, error) };
    let says = |any: &[&str]| any.iter().any(|words| text.contains(words));
    // The way there first: a proxy that is away is "not found", too.
    if says(OUT_OF_REACH) {
        return Error::ImageOutOfReach { image: image.to_owned(), source: words(text) };
    }
    // Registries that hide what we may not see deny what is not there.
    if says(DENIED) {
        return Error::ImageDenied { image: image.to_owned() };
    }
    if says(GONE) {
        return Error::NoSuchImage { image: image.to_owned() };
    }
    meaning(&doing, text)
}

/// The last port in `… 0.0.0.0:8080 failed: `.
fn port_before(text: &str) -> Option<u16> {
    let starts = text.rmatch_indices(':').map(|(at, _)| &text[at + 1..]);
    starts.into_iter().find_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

fn after(text: &str, words: &str) -> Option<String> {
    let rest = text.split_once(words)?.1;
    let end = rest.find([':', ',']).unwrap_or(rest.len());
    Some(rest[..end].trim().to_owned())
}

/// `"foo"` as it stands in front.
fn quoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?;
    Some(inner[..inner.find('"')?].to_owned())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Expect) {
        let error = meaning("start it", text);
        expected.assert_eq(&format!("{}: {error}", error.reason()));
    }

    #[track_caller]
    fn check_pull(text: &str, expected: &str) {
        let error = EngineError::DockerStreamError { error: text.to_owned() };
        assert_eq!(of_pull("web:1", error).reason(), expected, "{text}");
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let text = "driver failed programming external connectivity on endpoint a: Bind for \
                    0.0.0.0:8080 failed: port is already allocated";
        check(text, expect!["PortTaken: tcp port 8080 of the node is taken"]);
        let text = "Error starting userland proxy: listen udp4 0.0.0.0:53: bind: address already \
                    in use";
        check(text, expect!["PortTaken: udp port 53 of the node is taken"]);
    }

    #[test]
    fn a_command_that_is_not_there_is_told_from_one_that_may_not_run() {
        let text = "failed to create shim task: OCI runtime create failed: runc create failed: \
                    unable to start container process: exec: \"nope\": executable file not found \
                    in $PATH: unknown";
        check(text, expect![[r#"CommandNotInImage: command "nope" was not found in the image"#]]);
        let text = "OCI runtime create failed: exec: \"/etc/passwd\": permission denied: unknown";
        check(text, expect![[r#"NotExecutable: command "/etc/passwd" may not be executed"#]]);
    }

    #[test]
    fn what_lacks_on_the_machine_is_named() {
        let text = "write /data/x: no space left on device";
        check(text, expect!["DiskFull: disk is full: cannot start it"]);
        let text = "unable to find user bob: no matching entries in passwd file";
        check(text, expect![[r#"NoSuchUser: user "bob" does not exist on the node"#]]);
        let text = "invalid mount config for type \"bind\": bind source path does not exist: /nope";
        check(text, expect!["Failed: cannot mount /nope, which is not on the node"]);
        check(
            "No such image: web:1",
            expect!["NoSuchImage: image web:1 does not exist, neither here nor in its registry"],
        );
        check("something new", expect!["Failed: cannot start it"]);
    }

    #[test]
    fn a_registry_that_is_away_is_told_from_one_that_refuses() {
        check_pull(
            "Get \"https://r.example/v2/\": dial tcp: lookup r.example: no such host",
            "ImageOutOfReach",
        );
        let reset = "read tcp 127.0.0.1:50732->127.0.0.1:42949: read: connection reset by peer";
        check_pull(&format!("Get \"http://127.0.0.1:42949/v2/\": {reset}"), "ImageOutOfReach");
        check_pull("received unexpected HTTP status: 502 Bad Gateway", "ImageOutOfReach");
        check_pull("pull access denied for web, repository does not exist", "ImageDenied");
        check_pull("manifest for web:1 not found: manifest unknown", "NoSuchImage");
        check_pull("write /x: no space left on device", "DiskFull");
    }

    #[test]
    fn the_engine_says_which_version_it_speaks() {
        let refused = |message: &str| EngineError::DockerResponseServerError {
            status_code: 400,
            message: message.to_owned(),
        };
        let text = "client version 1.41 is too old. Minimum supported API version is 1.44, please \
                    upgrade your client to a newer version";
        assert_eq!(other_version(&refused(text)), Some(44));
        assert_eq!(other_version(&refused("nonsense")), None);
    }
}
