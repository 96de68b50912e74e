//! `tombolo wait`: follows objects until they are as wanted. `delete --wait` uses it too.

use std::{ops::ControlFlow, time::Duration};

use serde_json::Value;
use tombolo_model::{
    AppPhase, Reason,
    condition::{self, AVAILABLE, DEGRADED, READY},
    keys, suggest,
};

use super::selection::{self, CHUNK_SIZE, name_of, namespace_of};
use crate::{
    args::WaitArgs,
    catalogue::Resource,
    connection::{Connection, JSON},
    failure::{Exit, Failure},
    follow::{self, Change, Followed},
    moment,
    output::{Progress, note},
    shell::Shell,
    target,
};

/// What to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Condition {
        kind: String,
        status: String,
    },
    /// A field; without a value it only has to be there.
    Field {
        path: Vec<Step>,
        value: Option<String>,
    },
    Create,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The object that is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) resource: &'a Resource,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// If known: another object of the same name is not this one.
    pub(super) uid: Option<&'a str>,
}

pub(super) async fn run(shell: &mut Shell, args: &WaitArgs) -> Result<Exit, Failure> {
    let goal = parse_goal(&args.goal)?;
    let targets = target::parse(&args.what)?;
    for target in &targets {
        args.selection.refuse_with_names(&target.names)?;
        if target.names.is_empty() && !args.selection.is_narrowed() && !args.all {
            return Err(Failure::usage(format!("which {}?", target.kind))
                .hint("name them, select them with -l, or take all with --all"));
        }
    }
    let connection = match goal {
        // With its namespace, everything in it is gone.
        Goal::Delete => shell.connect_anywhere().await?,
        Goal::Condition { .. } | Goal::Field { .. } | Goal::Create => shell.connect().await?,
    };
    let started = moment::monotonic();
    let mut count = 0;
    for target in &targets {
        let resource = connection.resource(&target.kind).await?;
        check_condition(&goal, &resource)?;
        for (namespace, name) in names(&connection, args, &resource, &target.names).await? {
            let subject =
                Subject { resource: &resource, namespace: &namespace, name: &name, uid: None };
            let left = args.timeout.saturating_sub(started.elapsed());
            until(&connection, &subject, &goal, left).await?;
            shell.out.line(&format!("{} {}", resource.label(&name), met(&goal)))?;
            shell.out.flush()?;
            count += 1;
        }
    }
    match (count, &goal) {
        (0, Goal::Delete) => note("nothing matches, so there is nothing to wait for"),
        (0, _) => {
            return Err(Failure::new(
                Exit::NotFound,
                "nothing matches, so there is nothing to wait for",
            ));
        }
        (_, _) => (),
    }
    Ok(Exit::Ok)
}

/// The conditions that our kinds have.
const CONDITIONS: &[&str] = &[
    READY,
    AVAILABLE,
    DEGRADED,
    condition::PLACED,
    condition::APPLIED,
    condition::PROGRESSING,
    condition::CLONED,
    condition::UP,
    condition::DISK_PRESSURE,
    condition::CONFINING,
];

/// Nobody waits for ever for a condition that is only misspelt.
fn check_condition(goal: &Goal, resource: &Resource) -> Result<(), Failure> {
    let Goal::Condition { kind, .. } = goal else { return Ok(()) };
    let is_known = CONDITIONS.iter().any(|known| known.eq_ignore_ascii_case(kind));
    if is_known || resource.group != keys::GROUP {
        return Ok(());
    }
    match suggest::nearest(kind, CONDITIONS.iter().copied()) {
        Some(meant) => Err(Failure::usage(format!("there is no condition {kind:?}"))
            .hint(format!("did you mean --for=condition={meant}?"))),
        // Another program may have set one of its own.
        None => Ok(()),
    }
}

fn met(goal: &Goal) -> &'static str {
    match goal {
        Goal::Condition { .. } | Goal::Field { .. } => "condition met",
        Goal::Create => "is there",
        Goal::Delete => "is gone",
    }
}

async fn names(
    connection: &Connection,
    args: &WaitArgs,
    resource: &Resource,
    names: &[String],
) -> Result<Vec<(String, String)>, Failure> {
    if !names.is_empty() {
        let name = |name: &String| (connection.namespace.clone(), name.clone());
        return Ok(names.iter().map(name).collect());
    }
    let path = args.selection.collection(resource, connection);
    let query = args.selection.query();
    let list = selection::list(connection, &path, &query, JSON, CHUNK_SIZE).await?;
    let items = selection::items(resource, list);
    Ok(items.iter().map(|one| (namespace_of(one).to_owned(), name_of(one).to_owned())).collect())
}

/// Waits for one object. When the time is up, says how far it is.
pub(super) async fn until(
    connection: &Connection,
    subject: &Subject<'_>,
    goal: &Goal,
    limit: Duration,
) -> Result<(), Failure> {
    let progress = Progress::new();
    let mut last = None;
    let waited = {
        let waiting = observe(connection, subject, goal, |object| {
            let label = subject.resource.label(subject.name);
            progress.say(&format!("waiting for {label}: {}", standing(object)));
            last = object.cloned();
        });
        tokio::time::timeout(limit, waiting).await
    };
    match waited {
        Ok(result) => result,
        Err(_) => Err(too_late(subject, goal, last.as_ref())),
    }
}

/// Looks, then follows, and tells `see` of every state; returns when the goal is met.
async fn observe(
    connection: &Connection,
    subject: &Subject<'_>,
    goal: &Goal,
    mut see: impl FnMut(Option<&Value>),
) -> Result<(), Failure> {
    let collection = subject.resource.collection(Some(subject.namespace));
    loop {
        let query = follow_query(subject);
        let list = selection::list(connection, &collection, &query, JSON, CHUNK_SIZE).await?;
        let resource_version = selection::list_revision(&list);
        let object = selection::items(subject.resource, list).pop();
        see(object.as_ref());
        match judge(goal, object.as_ref(), subject.uid) {
            Verdict::Met => return Ok(()),
            Verdict::NotYet => (),
            Verdict::InVain => return Err(in_vain(subject, object.as_ref())),
            Verdict::Never => {
                let label = subject.resource.label(subject.name);
                let missing = Failure::new(Exit::NotFound, format!("{label} is not there"))
                    .hint("--for=create waits until it is");
                let path = subject.resource.object(subject.namespace, subject.name);
                return Err(connection.elsewhere(&path, missing).await);
            }
        }
        let from = selection::following(&collection, subject.name, resource_version, JSON);
        let followed = follow::follow(connection, from, |change, object| {
            let object = (change != Change::Deleted).then_some(object);
            see(object.as_ref());
            match judge(goal, object.as_ref(), subject.uid) {
                Verdict::Met => Ok(ControlFlow::Break(())),
                Verdict::NotYet => Ok(ControlFlow::Continue(())),
                Verdict::InVain => Err(in_vain(subject, object.as_ref())),
                Verdict::Never => {
                    let label = subject.resource.label(subject.name);
                    let message = format!("{label} was deleted while it was waited for");
                    Err(Failure::new(Exit::NotFound, message)
                        .hint("apply it again, or wait with --for=delete for its end"))
                }
            }
        })
        .await?;
        if followed == Followed::Enough {
            return Ok(());
        }
    }
}

fn follow_query(subject: &Subject<'_>) -> crate::connection::Query {
    crate::connection::Query::default()
        .with("fieldSelector", format!("metadata.name={}", subject.name))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Met,
    NotYet,
    /// Something is wrong that no waiting mends.
    InVain,
    /// There is no object to become anything, or no more.
    Never,
}

fn judge(goal: &Goal, object: Option<&Value>, uid: Option<&str>) -> Verdict {
    let is_met = match (goal, object) {
        (Goal::Delete, None) => true,
        (Goal::Delete, Some(object)) => {
            uid.is_some_and(|uid| object["metadata"]["uid"].as_str() != Some(uid))
        }
        (Goal::Create, object) => object.is_some(),
        (Goal::Condition { .. } | Goal::Field { .. }, None) => return Verdict::Never,
        (Goal::Condition { kind, status }, Some(object)) => has_condition(object, kind, status),
        (Goal::Field { path, value }, Some(object)) => has_field(object, path, value.as_deref()),
    };
    match (is_met, goal, object) {
        (true, _, _) => Verdict::Met,
        (false, Goal::Condition { .. } | Goal::Field { .. }, Some(object))
            if is_stuck(object) && is_of_success(goal) =>
        {
            Verdict::InVain
        }
        (false, _, _) => Verdict::NotYet,
    }
}

/// Whether the goal is that all is well: who waits for trouble does not mind trouble.
fn is_of_success(goal: &Goal) -> bool {
    match goal {
        Goal::Condition { kind, status } => {
            let is = |known: &str| kind.eq_ignore_ascii_case(known);
            status.eq_ignore_ascii_case("True") && (is(READY) || is(AVAILABLE))
        }
        Goal::Field { value, .. } => value.as_deref() == Some(AppPhase::Running.as_str()),
        Goal::Create | Goal::Delete => false,
    }
}

/// Whether the object says of its present spec that something is wrong which outlasts all waiting.
fn is_stuck(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let degraded = conditions.into_iter().flatten().find(|found| found["type"] == DEGRADED);
    let reason = degraded.and_then(|degraded| Reason::of(degraded["reason"].as_str()?));
    has_condition(object, DEGRADED, "True") && reason.is_some_and(Reason::outlasts_waiting)
}

/// A condition counts only if it is about the present spec: right after a change, the old
/// `Ready` still stands there.
fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        let is_named = |value: &Value, name: &str| {
            value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(name))
        };
        is_named(&condition["type"], kind)
            && is_named(&condition["status"], status)
            && is_current(object, &condition["observedGeneration"])
    }) && is_current(object, &object["status"]["observedGeneration"])
}

fn has_field(object: &Value, path: &[Step], value: Option<&str>) -> bool {
    // The status as a whole may still be about an older spec.
    let of_status = path.first() == Some(&Step::Key("status".to_owned()));
    if of_status && !is_current(object, &object["status"]["observedGeneration"]) {
        return false;
    }
    let found = path.iter().try_fold(object, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    });
    match (found, value) {
        (None | Some(Value::Null), _) => false,
        (Some(_), None) => true,
        (Some(Value::String(text)), Some(value)) => text == value,
        // As text: a person types `3`, be it a number there or not.
        (Some(other), Some(value)) => format!("{other}") == value,
    }
}

fn is_current(object: &Value, observed: &Value) -> bool {
    match (observed.as_i64(), object["metadata"]["generation"].as_i64()) {
        (Some(observed), Some(generation)) => observed >= generation,
        (None, _) | (_, None) => true,
    }
}

/// How far the object is, in a few words.
fn standing(object: Option<&Value>) -> String {
    let Some(object) = object else {
        return "not there".to_owned();
    };
    let status = &object["status"];
    let ready = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let phase = text(&status["phase"]);
    let message = ready.and_then(|ready| text(&ready["message"]).or(text(&ready["reason"])));
    match (phase, message) {
        (Some(phase), Some(message)) => format!("{phase}, {message}"),
        (Some(phase), None) => phase,
        (None, Some(message)) => message,
        (None, None) => "it is there, without a status that says more".to_owned(),
    }
}

fn in_vain(subject: &Subject<'_>, object: Option<&Value>) -> Failure {
    let label = subject.resource.label(subject.name);
    let standing = standing(object);
    Failure::failed(format!("{label} needs a change before it can be as wanted: {standing}"))
        .hint(format!("`tombolo describe {label}` shows more"))
}

fn too_late(subject: &Subject<'_>, goal: &Goal, last: Option<&Value>) -> Failure {
    let label = subject.resource.label(subject.name);
    let standing = standing(last);
    let unplaceable = last.is_some_and(|object| object["status"]["phase"] == "Unplaceable");
    match (goal, unplaceable) {
        (Goal::Condition { .. } | Goal::Field { .. }, true) => {
            Failure::new(Exit::NotPlaced, format!("{label} is {standing}")).hint(format!(
                "`tombolo why {} --node NODE` says all that keeps it off a node",
                subject.name
            ))
        }
        (_, _) => Failure::new(
            Exit::Timeout,
            format!("time is up, and {label} is not as wanted: {standing}"),
        )
        .hint(format!("`tombolo describe {label}` shows more; --timeout waits longer")),
    }
}

/// `condition=Ready`, `condition=Ready=False`, `phase=Running`, `jsonpath={.a.b}=c`, …
pub(super) fn parse_goal(text: &str) -> Result<Goal, Failure> {
    let wrong = |what: &str| {
        Failure::usage(format!("--for={text}: {what}"))
            .hint("for example condition=Ready, phase=Running, delete; `tombolo wait --help`")
    };
    match text.split_once('=') {
        None if text == "delete" => Ok(Goal::Delete),
        None if text == "create" => Ok(Goal::Create),
        Some(("condition", rest)) => {
            let (kind, status) = rest.split_once('=').unwrap_or((rest, "True"));
            match kind.is_empty() || status.is_empty() {
                true => Err(wrong("a condition has a type, and perhaps a status")),
                false => Ok(Goal::Condition { kind: kind.to_owned(), status: status.to_owned() }),
            }
        }
        Some(("phase", phase)) if !phase.is_empty() => {
            let path = ["status", "phase"].map(|key| Step::Key(key.to_owned())).to_vec();
            Ok(Goal::Field { path, value: Some(phase.to_owned()) })
        }
        Some(("jsonpath", rest)) => {
            let (path, value) = split_path(rest).ok_or_else(|| wrong("write {.path}=value"))?;
            let path = parse_path(path).ok_or_else(|| wrong("this is not a path"))?;
            Ok(Goal::Field { path, value: value.map(str::to_owned) })
        }
        None | Some(_) => Err(wrong("this is not something that can be waited for")),
    }
}

/// The path in its braces, and what stands behind the `=`. Quotes around either do no harm.
fn split_path(text: &str) -> Option<(&str, Option<&str>)> {
    let quotes = ['\'', '"'];
    let text = text.trim_matches(quotes);
    let (path, rest) = match text.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => text.split_at(text.find('=').unwrap_or(text.len())),
    };
    match rest.trim_start_matches(quotes) {
        "" => Some((path, None)),
        rest => Some((path, Some(rest.strip_prefix('=')?.trim_matches(quotes)))),
    }
}

/// `.status.conditions[0].type`: keys and numbers, no wildcards and no filters.
fn parse_path(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (index, next) = after.split_once(']')?;
            let key = index.trim_matches(['\'', '"']);
            steps.push(match index.parse() {
                Ok(index) => Step::Index(index),
                Err(_) if key.len() + 2 == index.len() => Step::Key(key.to_owned()),
                Err(_) => return None,
            });
            rest = next;
            continue;
        }
        let after = rest.strip_prefix('.')?;
        let end = after.find(['.', '[']).unwrap_or(after.len());
        let (key, next) = after.split_at(end);
        match key.is_empty() || key.contains(['*', '?', '(', ' ', ']']) {
            true => return None,
            false => steps.push(Step::Key(key.to_owned())),
        }
        rest = next;
    }
    (!steps.is_empty()).then_some(steps)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn app() -> Value {
        json!({"metadata": {"generation": 2, "uid": "u1"}, "status": {
            "phase": "Running", "observedGeneration": 2, "replicas": 3,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2},
                           {"type": "Old", "status": "True", "observedGeneration": 1}]}})
    }

    #[track_caller]
    fn check(goal: &str, object: Option<Value>, expected: Verdict) {
        let goal = parse_goal(goal).expect("a goal");
        assert_eq!(judge(&goal, object.as_ref(), None), expected, "{goal:?}");
    }

    #[test]
    fn goals_are_judged_by_the_object() {
        check("condition=Ready", Some(app()), Verdict::Met);
        check("condition=ready=true", Some(app()), Verdict::Met);
        check("condition=Ready=False", Some(app()), Verdict::NotYet);
        check("condition=Old", Some(app()), Verdict::NotYet);
        check("phase=Running", Some(app()), Verdict::Met);
        check("phase=Stopped", Some(app()), Verdict::NotYet);
        check("jsonpath={.status.replicas}=3", Some(app()), Verdict::Met);
        check("jsonpath='{.status.conditions[0].type}'=Ready", Some(app()), Verdict::Met);
        check("jsonpath={.status['phase']}", Some(app()), Verdict::Met);
        check("jsonpath={.status.nothing}", Some(app()), Verdict::NotYet);
        check("delete", Some(app()), Verdict::NotYet);
        check("delete", None, Verdict::Met);
        check("create", None, Verdict::NotYet);
        check("create", Some(app()), Verdict::Met);
        check("phase=Running", None, Verdict::Never);
    }

    /// An App that is degraded for this reason.
    fn degraded(reason: &str) -> Value {
        json!({"metadata": {"generation": 2}, "status": {
            "phase": "Degraded", "observedGeneration": 2,
            "conditions": [{"type": "Degraded", "status": "True", "observedGeneration": 2,
                "reason": reason}]}})
    }

    #[test]
    fn nobody_waits_for_what_no_waiting_mends() {
        check("condition=Ready", Some(degraded("NoSuchImage")), Verdict::InVain);
        check("phase=Running", Some(degraded("CommandNotInImage")), Verdict::InVain);
        check("phase=Running", Some(degraded("PortTaken")), Verdict::NotYet);
        check("phase=Running", Some(degraded("CrashLoop")), Verdict::NotYet);
        check("condition=Degraded", Some(degraded("NoSuchImage")), Verdict::Met);
        check("condition=Degraded=False", Some(degraded("NoSuchImage")), Verdict::NotYet);
        check("delete", Some(degraded("NoSuchImage")), Verdict::NotYet);
        let mut mended = degraded("NoSuchImage");
        mended["metadata"]["generation"] = json!(3);
        check("condition=Ready", Some(mended), Verdict::NotYet);
    }

    #[test]
    fn a_condition_that_is_misspelt_is_not_waited_for() {
        let resource = crate::catalogue::known("App");
        let check = |text: &str| check_condition(&parse_goal(text).expect("a goal"), &resource);
        let failure = check("condition=Redy").expect_err("misspelt");
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.hint.as_deref(), Some("did you mean --for=condition=Ready?"));
        for fine in ["condition=ready", "condition=Synchronised", "phase=Running", "delete"] {
            assert!(check(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn a_status_about_an_older_spec_does_not_count() {
        let mut stale = app();
        stale["metadata"]["generation"] = json!(3);
        check("condition=Ready", Some(stale.clone()), Verdict::NotYet);
        check("phase=Running", Some(stale), Verdict::NotYet);
    }

    #[test]
    fn a_successor_of_the_same_name_means_that_the_first_is_gone() {
        assert_eq!(judge(&Goal::Delete, Some(&app()), Some("u0")), Verdict::Met);
        assert_eq!(judge(&Goal::Delete, Some(&app()), Some("u1")), Verdict::NotYet);
    }

    #[test]
    fn what_cannot_be_waited_for_is_a_usage_error() {
        for wrong in [
            "",
            "x",
            "condition=",
            "condition==x",
            "phase=",
            "jsonpath=",
            "jsonpath={.a",
            "jsonpath={.a[*].b}=c",
            "jsonpath={a}",
            "jsonpath={.a}x",
            "color=red",
        ] {
            let exit = parse_goal(wrong).err().map(|failure| failure.exit);
            assert_eq!(exit, Some(Exit::Usage), "{wrong}");
        }
    }

    #[track_caller]
    fn check_too_late(object: Option<Value>, expect: Expect) {
        let resource = crate::catalogue::known("App");
        let subject = Subject { resource: &resource, namespace: "n", name: "web", uid: None };
        let goal = parse_goal("phase=Running").expect("a goal");
        let failure = too_late(&subject, &goal, object.as_ref());
        expect.assert_eq(&format!("{} {}", failure.exit.code(), failure.message));
    }

    #[test]
    fn time_is_up_with_the_last_standing_and_unplaceable_is_told_apart() {
        check_too_late(None, expect!["7 time is up, and app/web is not as wanted: not there"]);
        check_too_late(
            Some(json!({"status": {"phase": "Deploying"}})),
            expect!["7 time is up, and app/web is not as wanted: Deploying"],
        );
        check_too_late(
            Some(json!({"status": {"phase": "Unplaceable", "conditions": [
                {"type": "Ready", "message": "0 of 3 nodes have a gpu"}]}})),
            expect!["8 app/web is Unplaceable, 0 of 3 nodes have a gpu"],
        );
    }
}
