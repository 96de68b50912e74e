//! `tombolo edit`: an object in somebody's editor, and what was changed of it back to the server.
//!
//! Only what was changed is sent, with the revision that was looked at. If the object is another by then, the
//! change is sent again as long as nobody touched the same fields; else the text is kept in a file.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Map, Value};

use crate::{
    args::EditArgs,
    connection::{Connection, Query},
    failure::{Exit, Failure},
    output::{
        note,
        object::{without_managed_fields, yaml},
    },
    shell::Shell,
    target,
};

use super::history;

/// Whoever writes so often to one object is broken, and that is worth a message.
const TRIES_MAX: usize = 5;
const EDITOR: &str = "vi";
const MANAGER: &str = "tombolo-edit";

/// What an editor came back with.
#[derive(Debug, PartialEq)]
enum Edited {
    Nothing,
    /// A merge patch.
    Change(Value),
    /// It cannot be sent, for this reason.
    Wrong(String),
}

pub(super) async fn run(shell: &mut Shell, args: &EditArgs) -> Result<Exit, Failure> {
    let targets = target::parse(&args.what)?;
    let [target] = targets.as_slice() else { return Err(only_one()) };
    let [name] = target.names.as_slice() else { return Err(only_one()) };
    let connection = shell.connect().await?;
    let resource = connection.resource(&target.kind).await?;
    let path = resource.object(&connection.namespace, name);
    let before = connection.get(&path).await?;
    let shown = shown(before.clone());
    let label = resource.label(name);

    let mut text = format!("{}{}", opening(&label, None), yaml(&shown)?);
    loop {
        let edited = in_editor(&text)?;
        let change = match judge(&shown, &text, &edited) {
            Edited::Nothing => {
                note("nothing was changed");
                return Ok(Exit::Ok);
            }
            Edited::Wrong(why) => {
                text = again(&label, &text, &edited, &why)?;
                continue;
            }
            Edited::Change(change) => change,
        };
        match send(&connection, &path, &shown, &before, change).await {
            Ok(after) => {
                history::keep(&connection, &before, &after).await;
                shell.out.line(&format!("{label} edited"))?;
                return Ok(Exit::Ok);
            }
            // The server has read it and says what is wrong with it.
            Err(failure) if matches!(failure.status, 400 | 422) => {
                text = again(&label, &text, &edited, &failure.message)?;
            }
            Err(failure) => return Err(kept(&edited, failure)),
        }
    }
}

fn only_one() -> Failure {
    Failure::usage("one object is edited at a time").hint("for example `tombolo edit app/web`")
}

/// Without what only the server writes.
fn shown(object: Value) -> Value {
    let mut object = without_managed_fields(object);
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    object
}

fn opening(label: &str, wrong: Option<&str>) -> String {
    let mut text = format!(
        "# {label}: save and leave to change it, leave without saving to change nothing.\n\
         # Lines at the top that begin with # are left out.\n"
    );
    for line in wrong.into_iter().flat_map(str::lines) {
        text.push_str(&format!("# error: {line}\n"));
    }
    text
}

/// The same text with the reasons on top. Who saves it as it was has given up.
fn again(label: &str, before: &str, edited: &str, why: &str) -> Result<String, Failure> {
    match body(before) == body(edited) && before.contains("\n# error: ") {
        true => Err(kept(edited, Failure::failed(format!("{label} was not changed: {why}")))),
        false => Ok(format!("{}{}", opening(label, Some(why)), body(edited))),
    }
}

/// Comments further down belong to whoever wrote them.
fn body(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest
}

fn judge(shown: &Value, before: &str, edited: &str) -> Edited {
    let text = body(edited);
    let is_first = !before.contains("\n# error: ");
    if text.trim().is_empty() || is_first && text == body(before) {
        return Edited::Nothing;
    }
    let value: Value = match serde_saphyr::from_str(text) {
        Ok(value) => value,
        Err(error) => return Edited::Wrong(format!("{}", error.without_snippet())),
    };
    for path in ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"] {
        if value.pointer(path) != shown.pointer(path) {
            let path = path[1..].replace('/', ".");
            return Edited::Wrong(format!("{path} cannot be changed: it would be another object"));
        }
    }
    match difference(shown, &value) {
        None => Edited::Nothing,
        Some(change) => Edited::Change(change),
    }
}

/// What makes one the other, as a merge patch.
fn difference(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut change = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        change.insert(key.clone(), Value::Null);
    }
    for (key, new) in to {
        let old = from.get(key);
        let changed = old.map_or_else(|| Some(new.clone()), |old| difference(old, new));
        change.extend(changed.map(|changed| (key.clone(), changed)));
    }
    (!change.is_empty()).then_some(Value::Object(change))
}

/// Whether somebody changed what the patch is to change.
fn overlaps(change: &Value, ours: Option<&Value>, theirs: Option<&Value>) -> bool {
    match (change, ours, theirs) {
        (Value::Object(change), Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            change.iter().any(|(key, inner)| overlaps(inner, ours.get(key), theirs.get(key)))
        }
        (_, ours, theirs) => ours != theirs,
    }
}

async fn send(
    connection: &Connection,
    path: &str,
    ours: &Value,
    before: &Value,
    mut change: Value,
) -> Result<Value, Failure> {
    let query = Query::default().with("fieldManager", MANAGER).with("fieldValidation", "Strict");
    let path_and_query = query.after(path);
    let mut revision = before["metadata"]["resourceVersion"].clone();
    // It is the revision to stand on, not a change.
    if let Some(metadata) = change.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    let wanted = change.clone();
    for _ in 0..TRIES_MAX {
        change["metadata"]["resourceVersion"] = revision.clone();
        match connection.merge(&path_and_query, &change).await {
            Err(failure) if failure.exit == Exit::Conflict => (),
            answer => return answer,
        }
        let latest = connection.get(path).await?;
        if overlaps(&wanted, Some(ours), Some(&shown(latest.clone()))) {
            break;
        }
        revision = latest["metadata"]["resourceVersion"].clone();
    }
    Err(Failure::new(Exit::Conflict, "somebody changed the same fields meanwhile"))
}

/// The failure, with where the text is now: nobody writes it twice gladly.
fn kept(edited: &str, failure: Failure) -> Failure {
    let kept = || {
        let mut file = temporary()?;
        file.write_all(body(edited).as_bytes())?;
        file.keep().map_err(|error| error.error)
    };
    match kept() {
        Ok((_, path)) => failure.hint(format!(
            "your text is in {}; edit the object again, and take from it what you need",
            path.display()
        )),
        Err(error) => failure.hint(format!("your text is lost: {error}")),
    }
}

/// Readable by its owner alone: there may be a secret in it.
fn temporary() -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix("tombolo-edit-").suffix(".yaml").tempfile()
}

fn in_editor(text: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot keep a file: {error}"));
    let mut file = temporary().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    // Closed before the editor opens it: some write a new file in its place.
    let path: PathBuf = file.into_temp_path().keep().map_err(|error| failed(error.error))?;
    let edited = edit(&path);
    // Removed in any case; a text that is worth keeping is kept elsewhere.
    let _ = fs::remove_file(&path);
    edited
}

fn edit(path: &Path) -> Result<String, Failure> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| EDITOR.to_owned());
    // By a shell, because the variable may well have options in it.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(path)
        .status()
        .map_err(|error| Failure::failed(format!("cannot start {editor}: {error}")))?;
    if !status.success() {
        return Err(Failure::failed(format!("the editor {editor} failed; nothing was changed"))
            .hint("VISUAL or EDITOR says which editor to use"));
    }
    fs::read_to_string(path).map_err(|error| Failure::file(path, &error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn app() -> Value {
        json!({"apiVersion": "v", "kind": "App", "metadata": {"name": "web"},
            "spec": {"replicas": 1, "description": "x"}})
    }

    fn text(value: &Value) -> String {
        format!("{}{}", opening("app/web", None), yaml(value).expect("it can be written"))
    }

    #[track_caller]
    fn check(edited: &str, expected: &Edited) {
        assert_eq!(judge(&app(), &text(&app()), edited), *expected);
    }

    #[test]
    fn only_what_was_changed_is_sent() {
        let mut edited = app();
        edited["spec"] = json!({"replicas": 2, "labels": {"a": "b"}});
        let change = json!({"spec": {"replicas": 2, "labels": {"a": "b"}, "description": null}});
        check(&text(&edited), &Edited::Change(change));
    }

    #[test]
    fn nothing_new_and_nothing_at_all_change_nothing() {
        check(&text(&app()), &Edited::Nothing);
        check("", &Edited::Nothing);
        check("# only this\n\n", &Edited::Nothing);
        check(&text(&app()).replace("replicas: 1", "replicas:   1"), &Edited::Nothing);
    }

    #[test]
    fn what_cannot_be_sent_comes_back_with_its_reason() {
        let mut other = app();
        other["metadata"]["name"] = "api".into();
        let why = "metadata.name cannot be changed: it would be another object";
        check(&text(&other), &Edited::Wrong(why.to_owned()));
        let broken = text(&app()).replace("replicas: 1", "replicas: [1");
        assert!(matches!(judge(&app(), &text(&app()), &broken), Edited::Wrong(_)));
        let back = again("app/web", &text(&app()), &broken, why).expect("once more");
        assert!(back.contains("\n# error: metadata.name") && back.contains("[1"), "{back}");
        assert_eq!(body(&back), body(&broken));
    }

    #[test]
    fn saving_the_same_mistake_again_ends_it_and_keeps_the_text() {
        let wrong = format!("{}replicas: x\n", opening("app/web", Some("no")));
        let failure = again("app/web", &wrong, &wrong, "no").expect_err("given up");
        let hint = failure.hint.expect("it names a file");
        let path = hint.split_whitespace().find(|word| word.contains("tombolo-edit-"));
        let path = path.expect("a path").trim_end_matches(';');
        assert_eq!(fs::read_to_string(path).expect("it is there"), "replicas: x\n");
        fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn a_change_of_other_fields_does_not_get_in_the_way() {
        let change = json!({"spec": {"replicas": 2}});
        let check = |theirs: Value| overlaps(&change, Some(&app()), Some(&theirs));
        let mut theirs = app();
        theirs["spec"]["description"] = "y".into();
        assert!(!check(theirs));
        let mut theirs = app();
        theirs["spec"]["replicas"] = 7.into();
        assert!(check(theirs));
    }
}
