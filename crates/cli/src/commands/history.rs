//! What an App was before our shell changed it, so that `tombolo rollout undo` can make it so again.
//!
//! Kept in a ConfigMap beside the App, which goes with it. Every command that changes an App calls [`keep`].
//! Changes of other clients are not seen by it; but what they left is kept by the next command of ours.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::selection::{name_of, namespace_of};
use crate::{
    catalogue,
    connection::{Connection, Query},
    failure::Failure,
    moment, output,
};

/// More would be for an archive, such as the repository that the files come from.
const KEPT_MAX: usize = 10;
/// A ConfigMap holds a mebibyte.
const KEPT_BYTES_MAX: usize = 512 * 1024;
const MANAGER: &str = "tombolo-rollout";

/// What an App was, and when it was replaced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) spec: Value,
    pub(super) replaced_at: String,
}

/// By the generation of the App.
pub(super) type History = BTreeMap<i64, Kept>;

/// Keeps what the App was, if it is something else now. The change itself is done: that this fails is told,
/// and is no failure of the command.
pub(super) async fn keep(connection: &Connection, before: &Value, after: &Value) {
    if before["kind"] != "App"
        || before["metadata"]["generation"] == after["metadata"]["generation"]
    {
        return;
    }
    if let Err(failure) = add(connection, before).await {
        let name = name_of(before);
        output::note(&format!(
            "what app {name} was cannot be kept for `tombolo rollout undo`: {}",
            failure.message
        ));
    }
}

async fn add(connection: &Connection, before: &Value) -> Result<(), Failure> {
    let Some(generation) = before["metadata"]["generation"].as_i64() else { return Ok(()) };
    let (namespace, name) = (namespace_of(before), name_of(before));
    let mut history = read(connection, namespace, name).await?;
    let replaced_at = moment::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    history.insert(generation, Kept { spec: before["spec"].clone(), replaced_at });
    let path = path(namespace, name);
    let query = Query::default().with("fieldManager", MANAGER).with("force", "true");
    connection.apply(&query.after(&path), &document(before, &history)).await.map(drop)
}

pub(super) async fn read(
    connection: &Connection,
    namespace: &str,
    app: &str,
) -> Result<History, Failure> {
    let found = connection.find(&path(namespace, app)).await?;
    Ok(found.map(|found| parse(&found)).unwrap_or_default())
}

fn path(namespace: &str, app: &str) -> String {
    catalogue::known("ConfigMap").object(namespace, &config_map(app))
}

/// A name with a dot in it is none that a person gives to a ConfigMap of his own by chance.
fn config_map(app: &str) -> String {
    format!("{app}.rollout")
}

/// What cannot be read was not written by us and counts as not there.
fn parse(found: &Value) -> History {
    let data = found["data"].as_object().into_iter().flatten();
    data.filter_map(|(generation, text)| {
        let mut kept: Value = serde_json::from_str(text.as_str()?).ok()?;
        let replaced_at = kept["replacedAt"].as_str().unwrap_or_default().to_owned();
        let spec = kept.get_mut("spec").map(Value::take)?;
        Some((generation.parse().ok()?, Kept { spec, replaced_at }))
    })
    .collect()
}

fn document(app: &Value, history: &History) -> Value {
    let mut room = KEPT_BYTES_MAX;
    let mut data = serde_json::Map::new();
    for (generation, kept) in history.iter().rev().take(KEPT_MAX) {
        let text = json!({"replacedAt": kept.replaced_at, "spec": kept.spec}).to_string();
        let Some(left) = room.checked_sub(text.len()) else { break };
        room = left;
        data.insert(generation.to_string(), text.into());
    }
    let (name, namespace) = (name_of(app), namespace_of(app));
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {
            "name": config_map(name), "namespace": namespace,
            "ownerReferences": [{
                "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "name": name,
                "uid": app["metadata"]["uid"],
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Kept {
        Kept { spec: json!({"description": text}), replaced_at: "2030-01-31T12:00:00Z".to_owned() }
    }

    fn app() -> Value {
        json!({"metadata": {"name": "shop", "namespace": "lab", "uid": "u"}})
    }

    #[test]
    fn what_is_written_is_read_again() {
        let history = History::from([(3, kept("a")), (12, kept("b"))]);
        let document = document(&app(), &history);
        assert_eq!(parse(&document), history);
        assert_eq!(document["metadata"]["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn the_latest_are_kept_and_no_more_than_fit() {
        let history: History = (1..=30).map(|generation| (generation, kept("a"))).collect();
        let left: Vec<i64> = parse(&document(&app(), &history)).into_keys().collect();
        assert_eq!(left, (21..=30).collect::<Vec<i64>>());
        let large = kept(&"x".repeat(KEPT_BYTES_MAX / 2));
        let history: History = (1..=5).map(|generation| (generation, large.clone())).collect();
        assert_eq!(parse(&document(&app(), &history)).into_keys().collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn what_others_wrote_there_is_left_out() {
        let strange = json!({"data": {"readme": "hello", "3": "{}", "4": "[1"}});
        assert!(parse(&strange).is_empty());
    }
}
