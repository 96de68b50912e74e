//! What a request asks for, read from its method, path and query; nothing is looked up here.
//!
//! The handlers in [`crate::read`], [`crate::write`] and [`crate::remove`] get what is read here.

use std::collections::BTreeMap;

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use tombolo_identity::Verb;

use crate::restore::Access;
use crate::status::{Failure, Invalid, Problem};

/// Longer paths name nothing that we serve.
const PATH_BYTES_MAX: usize = 4096;

/// A path of the protocol. Paths of facades and the console are not among these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    Health,
    Version,
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: the other groups.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    Resources {
        group: String,
        version: String,
    },
    OpenApiV2,
    OpenApiV3Index,
    OpenApiV3 {
        group: String,
        version: String,
    },
    Resource(Target),
    /// `/tombolo/…`: what the Kubernetes protocol has no word for.
    Own(String),
    Unknown,
}

/// A collection, an object, or a subresource of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Target {
    /// Whether it is a way into a running instance.
    pub fn is_session(&self) -> bool {
        matches!(self.subresource.as_deref(), Some("exec" | "portforward"))
    }
}

/// What a method means at a target; `None` if it means nothing there.
pub fn verb(method: &Method, target: &Target, query: &Query) -> Option<Verb> {
    match (method.as_str(), target.name.is_some()) {
        // Clients open a WebSocket with GET, and what they do with it is no reading.
        ("GET" | "POST", true) if target.is_session() => Some(Verb::Create),
        ("GET", _) if query.watch => Some(Verb::Watch),
        ("GET", true) => Some(Verb::Get),
        ("GET", false) => Some(Verb::List),
        ("POST", _) => Some(Verb::Create),
        ("PUT", true) => Some(Verb::Update),
        ("PATCH", true) => Some(Verb::Patch),
        ("DELETE", true) => Some(Verb::Delete),
        ("DELETE", false) => Some(Verb::DeleteCollection),
        _ => None,
    }
}

pub fn parse_path(path: &str) -> Path {
    if path.len() > PATH_BYTES_MAX {
        return Path::Unknown;
    }
    let Some(segments) = decode_segments(path) else { return Path::Unknown };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Path::Health,
        ["version"] => Path::Version,
        ["api"] => Path::CoreVersions,
        ["apis"] => Path::Groups,
        ["apis", group] => Path::Group((*group).to_owned()),
        ["api", version] => {
            Path::Resources { group: String::new(), version: (*version).to_owned() }
        }
        ["apis", group, version] => {
            Path::Resources { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        ["openapi", "v2"] => Path::OpenApiV2,
        ["openapi", "v3"] => Path::OpenApiV3Index,
        ["openapi", "v3", "api", version] => {
            Path::OpenApiV3 { group: String::new(), version: (*version).to_owned() }
        }
        ["openapi", "v3", "apis", group, version] => {
            Path::OpenApiV3 { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        // Where Prometheus looks for it.
        ["metrics"] => Path::Own("metrics".to_owned()),
        ["tombolo", operation] => Path::Own((*operation).to_owned()),
        _ => Path::Unknown,
    }
}

/// `/api/v1/watch/…`, as old clients ask for a watch, in the form of today.
pub(crate) fn modern(uri: &Uri) -> Option<Uri> {
    let segments: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let (before, rest) = match segments.as_slice() {
        ["api", _, "watch", rest @ ..] => (2, rest),
        ["apis", _, _, "watch", rest @ ..] => (3, rest),
        _ => return None,
    };
    if rest.is_empty() {
        return None;
    }
    let path = [&segments[..before], rest].concat().join("/");
    let query = uri.query().map(|query| format!("{query}&")).unwrap_or_default();
    format!("/{path}?{query}watch=true").parse().ok()
}

/// Segments decoded one by one, so that an encoded slash cannot make a path longer.
fn decode_segments(path: &str) -> Option<Vec<String>> {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| {
            let decoded = percent_decode_str(segment).decode_utf8().ok()?;
            (!decoded.contains(['/', '\0'])).then(|| decoded.into_owned())
        })
        .collect()
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Path {
    let mut target =
        Target { group: group.to_owned(), version: version.to_owned(), ..Target::default() };
    let own = |text: &str| Some(text.to_owned());
    let rest = match rest {
        // A namespace is an object too: these are its subresources, not a kind inside of it.
        ["namespaces", name, subresource @ ("status" | "finalize")] => {
            target.resource = "namespaces".to_owned();
            target.name = own(name);
            target.subresource = own(subresource);
            return Path::Resource(target);
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
            target.namespace = own(namespace);
            rest
        }
        rest => rest,
    };
    match rest {
        [resource] => target.resource = (*resource).to_owned(),
        [resource, name] => {
            target.resource = (*resource).to_owned();
            target.name = own(name);
        }
        [resource, name, subresource] => {
            target.resource = (*resource).to_owned();
            target.name = own(name);
            target.subresource = own(subresource);
        }
        _ => return Path::Unknown,
    }
    Path::Resource(target)
}

/// How a list may relate to the revision that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionMatch {
    NotOlderThan,
    Exact,
}

/// What to do about fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// What happens to the objects that an object owns when it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The query parameters that the protocol knows; others are ignored, as clients expect.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub limit: Option<usize>,
    pub continue_: Option<String>,
    pub resource_version: Option<u64>,
    pub resource_version_match: Option<RevisionMatch>,
    pub watch: bool,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
    pub field_manager: Option<String>,
    pub field_validation: Option<FieldValidation>,
    pub dry_run: bool,
    pub force: bool,
    pub include_object: Option<String>,
    pub propagation: Option<Propagation>,
    pub verbose: bool,
    pub after: Option<u64>,
    /// Of a restore.
    pub access: Option<Access>,
}

impl Query {
    /// `method` tells which options the parameters are, for the message about a wrong one.
    pub fn parse(method: &Method, text: &str) -> Result<Query, Failure> {
        let options = options_of(method);
        let values: BTreeMap<String, String> = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(key)?, decode(value)?))
            })
            .collect::<Result<_, Failure>>()?;
        let get = |key: &str| values.get(key).filter(|value| !value.is_empty()).cloned();
        let watch = flag(&values, "watch")?.unwrap_or(false);
        // The time that a client allows is its own to keep; one that cannot be read is a mistake all the same.
        if let Some(text) = get("timeout").filter(|text| !watch && !is_duration(text)) {
            let message = format!(
                "invalid timeout specified in the request URL: {text:?}; give one such as 30s"
            );
            return Err(Failure::bad_request(message));
        }

        Ok(Query {
            label_selector: get("labelSelector"),
            field_selector: get("fieldSelector"),
            limit: number(&values, "limit")?
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|limit| *limit > 0),
            continue_: get("continue"),
            resource_version: number(&values, "resourceVersion")?,
            resource_version_match: choice(
                options,
                &values,
                "resourceVersionMatch",
                &[("NotOlderThan", RevisionMatch::NotOlderThan), ("Exact", RevisionMatch::Exact)],
            )?,
            watch,
            bookmarks: flag(&values, "allowWatchBookmarks")?.unwrap_or(false),
            send_initial_events: flag(&values, "sendInitialEvents")?,
            timeout_seconds: number(&values, "timeoutSeconds")?,
            field_manager: get("fieldManager"),
            field_validation: choice(
                options,
                &values,
                "fieldValidation",
                &[
                    ("Ignore", FieldValidation::Ignore),
                    ("Warn", FieldValidation::Warn),
                    ("Strict", FieldValidation::Strict),
                ],
            )?,
            dry_run: choice(options, &values, "dryRun", &[("All", true)])?.unwrap_or(false),
            force: flag(&values, "force")?.unwrap_or(false),
            include_object: get("includeObject"),
            propagation: match values.get("propagationPolicy") {
                Some(text) if !text.is_empty() => Some(Propagation::parse(text)?),
                _ => None,
            },
            verbose: values.contains_key("verbose"),
            after: number(&values, "after")?,
            access: choice("", &values, "access", Access::CHOICES)?,
        })
    }
}

/// What Kubernetes calls the parameters of a request of this method.
fn options_of(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "CreateOptions",
        "PUT" => "UpdateOptions",
        "PATCH" => "PatchOptions",
        "DELETE" => "DeleteOptions",
        _ => "ListOptions",
    }
}

impl Propagation {
    pub fn parse(text: &str) -> Result<Propagation, Failure> {
        let rows = [
            ("Background", Propagation::Background),
            ("Foreground", Propagation::Foreground),
            ("Orphan", Propagation::Orphan),
        ];
        one_of("DeleteOptions", "propagationPolicy", text, &rows)
    }
}

pub(crate) fn decode(text: &str) -> Result<String, Failure> {
    let spaced = text.replace('+', " ");
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(Failure::bad_request("the query string is not UTF-8")),
    }
}

fn number(values: &BTreeMap<String, String>, key: &str) -> Result<Option<u64>, Failure> {
    match values.get(key).map(String::as_str) {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!("{key}: found {text:?}, expected a whole number"))
        }),
    }
}

/// As Go writes durations: `30s`, `1h2m`, `1.5m`, `0`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 7] = ["ns", "us", "µs", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest.is_empty() || rest == "0" {
        return rest == "0";
    }
    let begins = |letter: char| letter.is_ascii_digit() || letter == '.';
    while !rest.is_empty() {
        let (number, tail) =
            rest.split_at(rest.find(|letter| !begins(letter)).unwrap_or(rest.len()));
        let (unit, tail) = tail.split_at(tail.find(begins).unwrap_or(tail.len()));
        if number.parse::<f64>().is_err() || !UNITS.contains(&unit) {
            return false;
        }
        rest = tail;
    }
    true
}

fn flag(values: &BTreeMap<String, String>, key: &str) -> Result<Option<bool>, Failure> {
    match values.get(key).map(String::as_str) {
        None => Ok(None),
        Some("" | "true" | "1" | "t" | "True") => Ok(Some(true)),
        Some("false" | "0" | "f" | "False") => Ok(Some(false)),
        Some(text) => {
            Err(Failure::bad_request(format!("{key}: found {text:?}, expected true or false")))
        }
    }
}

fn choice<T: Copy>(
    options: &str,
    values: &BTreeMap<String, String>,
    key: &str,
    rows: &[(&str, T)],
) -> Result<Option<T>, Failure> {
    match values.get(key).map(String::as_str) {
        None | Some("") => Ok(None),
        Some(text) => one_of(options, key, text, rows).map(Some),
    }
}

/// `options` are those of Kubernetes that the parameter belongs to; of a parameter of ours, none.
fn one_of<T: Copy>(options: &str, key: &str, text: &str, rows: &[(&str, T)]) -> Result<T, Failure> {
    match rows.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(*value),
        None => {
            if options.is_empty() {
                let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
                let message = format!("{key}: found {text:?}, expected {}", names.join(" or "));
                return Err(Failure::bad_request(message));
            }
            let names: Vec<String> = rows.iter().map(|(name, _)| format!("{name:?}")).collect();
            let message = format!("{text:?}: supported values: {}", names.join(", "));
            let problem = Invalid::new(key, Problem::NotSupported, message);
            Err(Failure::invalid_options(options, &[problem]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &str) {
        let text = match parse_path(path) {
            Path::Resource(target) => {
                let show = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
                format!(
                    "{}/{} {} ns={} name={} sub={}",
                    target.group,
                    target.version,
                    target.resource,
                    show(target.namespace),
                    show(target.name),
                    show(target.subresource)
                )
            }
            other => format!("{other:?}"),
        };
        assert_eq!(text, expected, "{path}");
    }

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        check("/api/v1/configmaps", "/v1 configmaps ns=- name=- sub=-");
        check("/api/v1/namespaces/a/configmaps", "/v1 configmaps ns=a name=- sub=-");
        check("/api/v1/namespaces/a/configmaps/b", "/v1 configmaps ns=a name=b sub=-");
        check("/apis/g.io/v1/things/b/status", "g.io/v1 things ns=- name=b sub=status");
        check("/apis/g.io/v1/namespaces/a/things/b/scale", "g.io/v1 things ns=a name=b sub=scale");
    }

    #[test]
    fn the_old_form_of_a_watch_is_rewritten() {
        let check = |old: &str, expected: Option<&str>| {
            let found = modern(&old.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected, "{old}");
        };
        check("/api/v1/watch/configmaps", Some("/api/v1/configmaps?watch=true"));
        check(
            "/apis/g.io/v1/watch/namespaces/a/things/b?timeoutSeconds=1",
            Some("/apis/g.io/v1/namespaces/a/things/b?timeoutSeconds=1&watch=true"),
        );
        check("/api/v1/watch", None);
        check("/api/v1/namespaces/watch/configmaps", None);
    }

    #[test]
    fn a_namespace_is_an_object_too() {
        check("/api/v1/namespaces", "/v1 namespaces ns=- name=- sub=-");
        check("/api/v1/namespaces/a", "/v1 namespaces ns=- name=a sub=-");
        check("/api/v1/namespaces/a/status", "/v1 namespaces ns=- name=a sub=status");
        check("/api/v1/namespaces/a/finalize", "/v1 namespaces ns=- name=a sub=finalize");
    }

    #[test]
    fn an_encoded_slash_does_not_reach_another_object() {
        check("/api/v1/namespaces/a%2Fsecrets/configmaps", "Unknown");
        check("/api/v1/namespaces/%ff/configmaps", "Unknown");
        check("/apis/g/v/a/b/c/d/e", "Unknown");
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_allowed() {
        let fails = |text: &str| Query::parse(&Method::PATCH, text).expect_err("wrong").message;
        assert_eq!(fails("limit=many"), r#"limit: found "many", expected a whole number"#);
        assert_eq!(
            fails("timeout=soon"),
            r#"invalid timeout specified in the request URL: "soon"; give one such as 30s"#
        );
        for fine in ["timeout=30s", "timeout=1h2.5m", "timeout=0", "timeout=soon&watch=1"] {
            assert!(Query::parse(&Method::GET, fine).is_ok(), "{fine}");
        }
        for wrong in ["timeout=30", "timeout=s", "timeout=1.2.3s", "timeout=1d", "timeout=-"] {
            assert!(Query::parse(&Method::GET, wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            fails("fieldValidation=Loose"),
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loose": supported values: "Ignore", "Warn", "Strict""#
        );
        assert_eq!(
            fails("dryRun=Some"),
            r#"PatchOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: "Some": supported values: "All""#
        );
        assert_eq!(fails("watch=perhaps"), r#"watch: found "perhaps", expected true or false"#);
    }
}
