//! An App as our own files say it: everything but what the server writes.

use serde_json::{Map, Value, json};
use tombolo_model::{App, keys};

use super::emit::{self, Style};
use super::unsaid::{Unsaid, note};
use super::{Written, put};

pub(super) fn write(app: &App) -> Written {
    let mut spec = serde_json::to_value(&app.spec).unwrap_or_default();
    without_defaults(&mut spec);
    let mut metadata = Map::new();
    put(&mut metadata, "name", app.metadata.name.clone());
    put(&mut metadata, "namespace", app.metadata.namespace.clone());
    let texts = |map: &Option<std::collections::BTreeMap<String, String>>| {
        map.as_ref().filter(|map| !map.is_empty()).map(|map| json!(map))
    };
    put(&mut metadata, "labels", texts(&app.metadata.labels));
    put(&mut metadata, "annotations", texts(&app.metadata.annotations));
    let document =
        json!({"apiVersion": keys::API_VERSION, "kind": "App", "metadata": metadata, "spec": spec});
    let notes: Vec<Unsaid> =
        app.status.as_ref().map(|_| note("status", "a file")).into_iter().collect();
    Written { text: emit::document(&document, Style::Short), notes }
}

/// What holds anyway need not be written.
fn without_defaults(spec: &mut Value) {
    let lists = [
        ("connects", "protocol", "tcp"),
        ("expose", "protocol", "tcp"),
        ("places", "operator", "In"),
    ];
    for component in spec["components"].as_array_mut().into_iter().flatten() {
        for (list, key, default) in lists {
            for entry in component[list].as_array_mut().into_iter().flatten() {
                if let Some(entry) = entry.as_object_mut()
                    && entry.get(key).and_then(Value::as_str) == Some(default)
                {
                    entry.remove(key);
                }
            }
            // Indexing has put a null where there was nothing.
            if let Some(map) = component.as_object_mut()
                && map.get(list).is_some_and(Value::is_null)
            {
                map.remove(list);
            }
        }
    }
}
