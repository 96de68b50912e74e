//! What the core kinds promise beyond their schemas, as Kubernetes checks it. Pure; [`crate::admit`] calls
//! it for every write.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::object::text;
use crate::status::{Invalid, Problem};

/// All values of a ConfigMap or a Secret together, as in Kubernetes: clients count on it.
const VALUES_BYTES_MAX: usize = 1024 * 1024;

const KEY_CHARS_MAX: usize = 253;

/// Of each text of an Event in the form of `events.k8s.io`.
const EVENT_WORD_CHARS_MAX: usize = 128;

/// Of the sentence in such an Event.
const EVENT_MESSAGE_BYTES_MAX: usize = 1024;

/// What of an Event stays as it was written, under the names in which it is stored.
const EVENT_FIXED: &[&str] = &[
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// Group, kind, and what is wrong with an object of it.
type Row = (&'static str, &'static str, fn(&Value) -> Vec<Invalid>);

pub(crate) fn problems(kind: &Kind, live: Option<&Value>, object: &Value) -> Vec<Invalid> {
    if kind.is("events.k8s.io", "Event") {
        return event_of_events(kind, live, object);
    }
    let rows: [Row; 4] = [
        ("", "ConfigMap", config_map),
        ("", "Secret", secret),
        ("coordination.k8s.io", "Lease", lease),
        ("", "Event", event),
    ];
    let row = rows.iter().find(|(group, name, _)| kind.is(group, name));
    row.map(|(_, _, check)| check(object)).unwrap_or_default()
}

fn config_map(object: &Value) -> Vec<Invalid> {
    let mut problems = Vec::new();
    let (texts, binaries) = (entries(object, "data"), entries(object, "binaryData"));
    for (field, key) in keys(&texts, "data").chain(keys(&binaries, "binaryData")) {
        problems.extend(key_problem(&field, key));
        if field.starts_with("data[") && binaries.contains_key(key) {
            let message = format!("{key:?}: duplicate of key present in binaryData");
            problems.push(Invalid::new(field, Problem::Invalid, message));
        }
    }
    let of_texts: usize = texts.values().filter_map(|value| Some(value.as_str()?.len())).sum();
    let of_binaries: usize = binaries.values().map(|value| decoded(value).len()).sum();
    problems.extend(size_problem("", of_texts + of_binaries));
    problems
}

fn keys<'a>(
    entries: &'a Map<String, Value>,
    field: &'a str,
) -> impl Iterator<Item = (String, &'a str)> {
    entries.keys().map(move |key| (format!("{field}[{key}]"), key.as_str()))
}

fn key_problem(field: &str, key: &str) -> Option<Invalid> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let message = match () {
        () if key.len() > KEY_CHARS_MAX => {
            format!("must be no more than {KEY_CHARS_MAX} characters")
        }
        () if key.is_empty() || !key.chars().all(fits) => {
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'".to_owned()
        }
        () if key == "." || key == ".." => format!("must not be '{key}'"),
        () if key.starts_with("..") => "must not start with '..'".to_owned(),
        () => return None,
    };
    Some(Invalid::new(field, Problem::Invalid, format!("{key:?}: {message}")))
}

fn size_problem(field: &str, bytes: usize) -> Option<Invalid> {
    let message = format!("may not be more than {VALUES_BYTES_MAX} bytes; found {bytes} in all");
    let problem = Invalid::new(field, Problem::TooLong, message);
    (bytes > VALUES_BYTES_MAX).then_some(problem)
}

/// What a Secret of a type must have: the entries of each list, and the check of the value.
struct SecretType {
    name: &'static str,
    /// All of these must be there.
    all: &'static [&'static str],
    /// One of these at least.
    any: &'static [&'static str],
    value: ValueRule,
}

#[derive(Clone, Copy, PartialEq)]
enum ValueRule {
    Anything,
    NotEmpty,
    Json,
}

const SECRET_TYPES: &[SecretType] = &[
    SecretType {
        name: "kubernetes.io/tls",
        all: &["tls.crt", "tls.key"],
        any: &[],
        value: ValueRule::Anything,
    },
    SecretType {
        name: "kubernetes.io/basic-auth",
        all: &[],
        any: &["username", "password"],
        value: ValueRule::Anything,
    },
    SecretType {
        name: "kubernetes.io/ssh-auth",
        all: &["ssh-privatekey"],
        any: &[],
        value: ValueRule::NotEmpty,
    },
    SecretType {
        name: "kubernetes.io/dockercfg",
        all: &[".dockercfg"],
        any: &[],
        value: ValueRule::Json,
    },
    SecretType {
        name: "kubernetes.io/dockerconfigjson",
        all: &[".dockerconfigjson"],
        any: &[],
        value: ValueRule::Json,
    },
];

fn secret(object: &Value) -> Vec<Invalid> {
    let mut problems = Vec::new();
    let mut values: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let (coded, plain) = (entries(object, "data"), entries(object, "stringData"));
    values.extend(coded.iter().map(|(key, value)| (key.as_str(), decoded(value))));
    let plain = plain.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    values.extend(plain.map(|(key, text)| (key, text.as_bytes().to_vec())));
    for key in values.keys() {
        problems.extend(key_problem(&format!("data[{key}]"), key));
    }
    problems.extend(size_problem("data", values.values().map(Vec::len).sum()));
    let type_ = object["type"].as_str().unwrap_or_default();
    if let Some(row) = SECRET_TYPES.iter().find(|row| row.name == type_) {
        problems.extend(row.problems(&values));
    }
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    if type_ == "kubernetes.io/service-account-token"
        && object["metadata"]["annotations"][ACCOUNT].as_str().unwrap_or_default().is_empty()
    {
        let field = format!("metadata.annotations[{ACCOUNT}]");
        problems.push(Invalid::new(field, Problem::Required, ""));
    }
    problems
}

impl SecretType {
    fn problems(&self, values: &BTreeMap<&str, Vec<u8>>) -> Vec<Invalid> {
        let field = |key: &str| format!("data[{key}]");
        let why = format!("a Secret of type {} has it", self.name);
        let missing = |key: &&str| Invalid::new(field(key), Problem::Required, why.clone());
        let mut problems = Vec::new();
        if !self.any.is_empty() && !self.any.iter().any(|key| values.contains_key(key)) {
            problems.extend(self.any.iter().map(missing));
        }
        for key in self.all {
            let fits = values.get(key).map(|value| match self.value {
                ValueRule::Anything => true,
                ValueRule::NotEmpty => !value.is_empty(),
                ValueRule::Json => serde_json::from_slice::<Value>(value).is_ok(),
            });
            match fits {
                Some(true) => (),
                Some(false) if self.value == ValueRule::Json => {
                    let message = "\"<secret contents redacted>\": this is not JSON";
                    problems.push(Invalid::new(field(key), Problem::Invalid, message));
                }
                Some(false) | None => problems.push(missing(key)),
            }
        }
        problems
    }
}

fn lease(object: &Value) -> Vec<Invalid> {
    let rows = [
        ("leaseDurationSeconds", 1, "greater than 0"),
        ("leaseTransitions", 0, "greater than or equal to 0"),
    ];
    let check = |(field, least, words): (&str, i64, &str)| {
        let found = object["spec"][field].as_i64().filter(|found| *found < least)?;
        let message = format!("{found}: must be {words}");
        Some(Invalid::new(format!("spec.{field}"), Problem::Invalid, message))
    };
    rows.into_iter().filter_map(check).collect()
}

/// An Event lives in the namespace of what it is about. With an `eventTime` it is of the newer form, which
/// asks for more.
fn event(object: &Value) -> Vec<Invalid> {
    let mut problems = Vec::new();
    let of = |field: &str| object[field].as_str().unwrap_or_default();
    let namespace = text(object, "namespace");
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let is_new = !of("eventTime").is_empty();
    let fits = match (about, is_new) {
        ("", false) => namespace == "default",
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (about, false) => about == namespace,
        (_, true) => true,
    };
    if !fits {
        let message = format!("{about:?}: does not match event.namespace, which is {namespace:?}");
        problems.push(Invalid::new("involvedObject.namespace", Problem::Invalid, message));
    }
    if !is_new {
        return problems;
    }
    for field in ["reportingComponent", "reportingInstance", "action", "reason"] {
        let found = of(field);
        if found.is_empty() {
            problems.push(Invalid::new(
                field,
                Problem::Required,
                "an event with an eventTime has it",
            ));
        } else if field != "reportingComponent" && found.len() > EVENT_WORD_CHARS_MAX {
            let message = format!("can have at most {EVENT_WORD_CHARS_MAX} characters");
            problems.push(Invalid::new(field, Problem::Invalid, message));
        }
    }
    if of("message").len() > EVENT_MESSAGE_BYTES_MAX {
        let message = format!("can have at most {EVENT_MESSAGE_BYTES_MAX} characters");
        problems.push(Invalid::new("message", Problem::Invalid, message));
    }
    problems
}

/// The newer group takes only the newer form, and of an Event that is there only its series may change.
/// The fields are named as they are stored, as Kubernetes names them.
fn event_of_events(kind: &Kind, live: Option<&Value>, object: &Value) -> Vec<Invalid> {
    let stored = kind.as_stored(object);
    let mut problems = event(&stored);
    for problem in problems.iter_mut().filter(|problem| problem.field == "reportingComponent") {
        problem.field = "reportingController".to_owned();
    }
    if live.is_none_or(|live| live["series"] != object["series"]) {
        problems.extend(series(&object["series"]));
    }
    let invalid = |field, message: &str| Invalid::new(field, Problem::Invalid, message);
    match live {
        Some(live) => {
            let live = kind.as_stored(live);
            let differs = |field: &&&str| !same(&live[**field], &stored[**field]);
            let changed = EVENT_FIXED.iter().filter(differs);
            problems.extend(changed.map(|field| invalid(*field, "field is immutable")));
        }
        None => {
            if stored["eventTime"].as_str().unwrap_or_default().is_empty() {
                problems.push(Invalid::new("eventTime", Problem::Required, ""));
            }
            if !matches!(stored["type"].as_str(), Some("Normal" | "Warning")) {
                let found = stored["type"].as_str().unwrap_or_default();
                let message = format!("has invalid value: {found}; Normal and Warning are allowed");
                problems.push(invalid("type", &message));
            }
            let older = ["firstTimestamp", "lastTimestamp", "count", "source"].into_iter();
            let set = older.filter(|field| !same(&stored[*field], &Value::Null));
            problems.extend(set.map(|field| invalid(field, "\"\": needs to be unset")));
        }
    }
    problems
}

/// Clients of typed languages write what is not set as nothing.
fn same(one: &Value, other: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Array(_) => false,
    };
    one == other || (is_nothing(one) && is_nothing(other))
}

fn series(series: &Value) -> Vec<Invalid> {
    let mut problems = Vec::new();
    if !series.is_object() {
        return problems;
    }
    if series["count"].as_i64().unwrap_or_default() < 2 {
        problems.push(Invalid::new("series.count", Problem::Invalid, "should be at least 2"));
    }
    if series["lastObservedTime"].as_str().unwrap_or_default().is_empty() {
        problems.push(Invalid::new("series.lastObservedTime", Problem::Required, ""));
    }
    problems
}

fn entries(object: &Value, field: &str) -> Map<String, Value> {
    object[field].as_object().cloned().unwrap_or_default()
}

/// The schema has seen to it that it is base64.
fn decoded(value: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}
