//! `assignments/NAME/log`, `/exec` and `/portforward`: what people and their tools ask for. A log is
//! plain text that flows; the other two are WebSockets. Start at [`answer`].

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::Method;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde_json::json;
use tombolo_model::errand::{ExecOptions, LogOptions, Port, Size, What};
use tombolo_model::{Reason, keys};

use super::carry::{self, Line, Wanted};
use super::splice::{Form, splice};
use super::websocket::Upgrade;
use crate::Gate;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::record::Record;
use crate::resources::{Unwritten, events, now};

/// Where they are asked for.
pub(crate) const PATHS: [&str; 3] = [
    "/apis/tombolo.dev/v1alpha1/namespaces/{namespace}/assignments/{name}/log",
    "/apis/tombolo.dev/v1alpha1/namespaces/{namespace}/assignments/{name}/exec",
    "/apis/tombolo.dev/v1alpha1/namespaces/{namespace}/assignments/{name}/portforward",
];

/// What a terminal is when nobody says how large it is.
const SIZE_DEFAULT: Size = Size { columns: 80, rows: 24 };
/// More of a command than this helps nobody who reads the record.
const COMMAND_CHARS_MAX: usize = 256;

pub(crate) async fn answer(
    gate: &Gate,
    caller: &Caller,
    parts: &mut Parts,
    namespace: &str,
    name: &str,
) -> Result<Response, Failure> {
    let parameters = parameters(parts.uri.query().unwrap_or_default())?;
    let client = caller.subject().name.as_str();
    let allowed = caller.still.clone();
    let wanted = |what| Wanted { client, namespace, name, what, allowed };
    let asked = parts.uri.path().rsplit('/').next().unwrap_or_default();
    let (what, form) = match asked {
        "log" if parts.method == Method::GET => {
            let line = carry::open(gate, wanted(What::Log(log_options(&parameters)?))).await?;
            return Ok(text_of(line));
        }
        "exec" => (What::Exec(exec_options(&parameters)?), Form::Channels),
        "portforward" => (What::PortForward(port(&parameters)?), Form::Raw),
        _ => {
            let message = format!("{} is not possible here", parts.method);
            return Err(Failure::new(405, "MethodNotAllowed", message));
        }
    };
    let upgrade = Upgrade::of(parts, form)?;
    let said = (headline(client, &what), sentence(client, &what));
    let line = carry::open(gate, wanted(what)).await?;
    if form == Form::Channels || gate.errands().is_news(&format!("{namespace}/{name}: {}", said.1))
    {
        record(gate, caller, (namespace, name), form, said).await?;
    }
    Ok(upgrade.accept(move |socket| splice(socket, line, form)))
}

fn text_of(line: Line) -> Response {
    let body = Body::from_stream(line.output());
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}

/// Every pair, in order: a command has a parameter for each of its words.
fn parameters(query: &str) -> Result<Vec<(String, String)>, Failure> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

fn log_options(parameters: &[(String, String)]) -> Result<LogOptions, Failure> {
    let mut options = LogOptions::default();
    for (key, value) in parameters {
        match key.as_str() {
            "follow" => options.follow = flag(key, value)?,
            "timestamps" => options.timestamps = flag(key, value)?,
            "previous" => options.previous = flag(key, value)?,
            "tailLines" => options.tail_lines = Some(number(key, value)?),
            "sinceSeconds" => options.since_seconds = Some(number(key, value)?),
            "sinceTime" => {
                value
                    .parse::<jiff::Timestamp>()
                    .map_err(|_| wrong(key, value, "a time such as 2026-06-01T12:00:00Z"))?;
                options.since_time = Some(value.clone());
            }
            "container" => options.part = Some(value.clone()).filter(|part| !part.is_empty()),
            // Others are ignored, as clients expect.
            _ => (),
        }
    }
    match options.follow && options.previous {
        true => Err(Failure::bad_request("what is over cannot be followed: follow and previous")),
        false => Ok(options),
    }
}

fn exec_options(parameters: &[(String, String)]) -> Result<ExecOptions, Failure> {
    let mut options = ExecOptions::default();
    let mut size = SIZE_DEFAULT;
    let mut terminal = false;
    for (key, value) in parameters {
        match key.as_str() {
            "command" => options.command.push(value.clone()),
            "stdin" => options.input = flag(key, value)?,
            "tty" => terminal = flag(key, value)?,
            "columns" => size.columns = number(key, value)?,
            "rows" => size.rows = number(key, value)?,
            "container" => options.part = Some(value.clone()).filter(|part| !part.is_empty()),
            // stdout and stderr come in any case.
            _ => (),
        }
    }
    options.terminal = terminal.then_some(size);
    match options.command.is_empty() {
        true => Err(Failure::bad_request("command: expected at least one")),
        false => Ok(options),
    }
}

fn port(parameters: &[(String, String)]) -> Result<Port, Failure> {
    let ports: Vec<&str> = parameters
        .iter()
        .filter(|(key, _)| key == "port")
        .map(|(_, value)| value.as_str())
        .collect();
    match ports.as_slice() {
        [one] => match number("port", one)? {
            0 => Err(wrong("port", one, "a number from 1 to 65535")),
            port => Ok(Port { port }),
        },
        [] | [_, _, ..] => Err(Failure::bad_request("port: expected one")),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| wrong(key, value, "a whole number"))
}

fn flag(key: &str, value: &str) -> Result<bool, Failure> {
    match value {
        "" | "true" | "1" | "t" | "True" => Ok(true),
        "false" | "0" | "f" | "False" => Ok(false),
        _ => Err(wrong(key, value, "true or false")),
    }
}

fn wrong(key: &str, found: &str, expected: &str) -> Failure {
    Failure::bad_request(format!("{key}: found {found:?}, expected {expected}"))
}

/// What somebody does, for the Event: everybody may read it, and the arguments of a command may hold
/// what is not for everybody.
fn headline(client: &str, what: &What) -> String {
    match what {
        What::Exec(options) => {
            let program = options.command.first().map(String::as_str).unwrap_or_default();
            let short: String = program.chars().take(COMMAND_CHARS_MAX).collect();
            format!("{client} runs a command in it: {short}")
        }
        What::Log(_) | What::PortForward(_) => sentence(client, what),
    }
}

/// What somebody does, for the audit record.
fn sentence(client: &str, what: &What) -> String {
    match what {
        What::Log(_) => format!("{client} reads the log"),
        What::Exec(options) => {
            let command = options.command.join(" ");
            let short: String = command.chars().take(COMMAND_CHARS_MAX).collect();
            let cut = if short.len() < command.len() { " …" } else { "" };
            format!("{client} runs a command in it: {short}{cut}")
        }
        What::PortForward(Port { port }) => format!("{client} connects to its port {port}"),
    }
}

/// An Event for people who wonder about the instance, and with it a row in the audit record.
async fn record(
    gate: &Gate,
    caller: &Caller,
    (namespace, name): (&str, &str),
    form: Form,
    (headline, sentence): (String, String),
) -> Result<(), Failure> {
    let (verb, reason) = match form {
        Form::Channels => ("exec", Reason::Exec),
        Form::Raw => ("portforward", Reason::PortForward),
    };
    let now = now();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"generateName": format!("{name}.")},
        "involvedObject": {"apiVersion": keys::API_VERSION, "kind": "Assignment",
            "namespace": namespace, "name": name},
        "type": "Normal", "reason": reason.word(), "message": headline, "count": 1,
        "source": {"component": "tombolo"}, "firstTimestamp": now, "lastTimestamp": now,
    });
    let record = Record {
        what: sentence,
        object: format!("{}/assignments/{namespace}/{name}", keys::GROUP),
        ..Record::new(caller.subject(), verb)
    };
    match gate.resources().create(&events(namespace), &event, &record).await {
        Ok(_) => Ok(()),
        Err(Unwritten::Refused(failure)) => Err(failure),
        Err(Unwritten::Raced) => {
            let message = format!("assignments.tombolo.dev {name:?} not found");
            Err(Failure::new(404, "NotFound", message))
        }
    }
}

fn decode(text: &str) -> Result<String, Failure> {
    let spaced = text.replace('+', " ");
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(Failure::bad_request("the query string is not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(query: &str) -> Result<LogOptions, String> {
        log_options(&parameters(query).unwrap()).map_err(|failure| failure.message)
    }

    #[test]
    fn a_log_is_asked_for_in_the_words_of_kubernetes() {
        let options = log("follow=true&tailLines=5&sinceSeconds=60&timestamps=1&pretty=x").unwrap();
        let wanted = LogOptions {
            follow: true,
            tail_lines: Some(5),
            since_seconds: Some(60),
            timestamps: true,
            ..LogOptions::default()
        };
        assert_eq!(options, wanted);
        assert_eq!(log(""), Ok(LogOptions::default()));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert_eq!(
            log("tailLines=many").unwrap_err(),
            r#"tailLines: found "many", expected a whole number"#
        );
        assert!(log("sinceTime=yesterday").unwrap_err().contains("expected a time"));
        assert!(log("follow&previous").unwrap_err().contains("cannot be followed"));
        let port = |query: &str| port(&parameters(query).unwrap()).map_err(|wrong| wrong.message);
        assert_eq!(port("port=8080"), Ok(Port { port: 8080 }));
        assert!(port("port=0").unwrap_err().contains("1 to 65535"));
        assert!(port("port=70000").is_err() && port("").is_err() && port("port=1&port=2").is_err());
    }

    #[test]
    fn a_command_keeps_its_words_and_their_order() {
        let query = "command=sh&command=-c&command=echo%20a%26b&stdin=true&tty=true&columns=100";
        let options = exec_options(&parameters(query).unwrap()).unwrap();
        assert_eq!(options.command, ["sh", "-c", "echo a&b"]);
        assert!(options.input);
        assert_eq!(options.terminal, Some(Size { columns: 100, rows: 24 }));
        assert!(exec_options(&[]).is_err());
    }

    #[test]
    fn the_arguments_of_a_command_are_for_the_audit_record_alone() {
        let query = "command=psql&command=postgres%3A%2F%2Fanna%3Ahunter2%40db";
        let what = What::Exec(exec_options(&parameters(query).unwrap()).unwrap());
        assert_eq!(headline("anna", &what), "anna runs a command in it: psql");
        assert!(sentence("anna", &what).contains("hunter2"));
    }
}
