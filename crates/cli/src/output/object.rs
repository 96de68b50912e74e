//! Objects as YAML and JSON, in the order in which people write them.

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::Value;

use crate::failure::Failure;

/// Serialises an object with `apiVersion`, `kind`, `metadata`, `spec` first and `status` last,
/// at whatever depth an object stands; all other keys by name.
struct Ordered<'a>(&'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let is_object = map.contains_key("apiVersion") && map.contains_key("kind");
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_by_key(|key| (if is_object { rank(key) } else { 0 }, *key));
                let mut entries = serializer.serialize_map(Some(map.len()))?;
                for key in keys {
                    entries.serialize_entry(key, &Ordered(&map[key]))?;
                }
                entries.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Ordered)),
            scalar => scalar.serialize(serializer),
        }
    }
}

fn rank(key: &str) -> u8 {
    match key {
        "apiVersion" => 0,
        "kind" => 1,
        "metadata" => 2,
        "spec" => 3,
        "status" => 5,
        _ => 4,
    }
}

pub(crate) fn yaml(value: &Value) -> Result<String, Failure> {
    let options = serde_saphyr::ser_options! {
        // Never fold: what a person copies out of here has to stay what it was.
        folded_wrap_chars: 1 << 20,
    };
    let mut text = serde_saphyr::to_string_with_options(&Ordered(value), options)
        .map_err(|error| Failure::failed(format!("cannot write this as YAML: {error}")))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

pub(crate) fn json(value: &Value) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(&Ordered(value))
        .map_err(|error| Failure::failed(format!("cannot write this as JSON: {error}")))?;
    text.push('\n');
    Ok(text)
}

/// On one line, for streams of objects.
pub(crate) fn json_line(value: &Value) -> Result<String, Failure> {
    let mut text = serde_json::to_string(&Ordered(value))
        .map_err(|error| Failure::failed(format!("cannot write this as JSON: {error}")))?;
    text.push('\n');
    Ok(text)
}

/// Metadata that says more about the server's bookkeeping than about the object.
pub(crate) fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "status": {"phase": "Running"}, "kind": "App", "data": {"b": 1, "a": "yes"},
            "spec": {"note": "two\nlines\n", "kind": "x", "size": "200Mi", "version": "1.10"},
            "metadata": {"name": "web"}, "apiVersion": "tombolo.dev/v1alpha1",
        })
    }

    #[test]
    fn yaml_keeps_the_order_of_a_manifest_and_quotes_what_is_ambiguous() {
        expect![[r#"
            apiVersion: tombolo.dev/v1alpha1
            kind: App
            metadata:
              name: web
            spec:
              kind: x
              note: |
                two
                lines
              size: 200Mi
              version: "1.10"
            data:
              a: "yes"
              b: 1
            status:
              phase: Running
        "#]]
        .assert_eq(&yaml(&object()).expect("serialisable"));
        let list = json!({"kind": "List", "apiVersion": "v1", "items": [object()]});
        assert!(
            yaml(&list).expect("serialisable").starts_with("apiVersion: v1\nkind: List\nitems:\n")
        );
    }

    #[test]
    fn yaml_comes_back_as_what_it_was() {
        let long = "word ".repeat(100);
        let tricky = json!({"a": ["1e3", "0x1", "null", "~", "on", "", " lead", "a: b", "#x",
            "-", "2026-01-01", "tab\there", "\u{1b}", long, "end\n\n", "\nbegin"], "n": [1, 1.5, null, true]});
        let text = yaml(&tricky).expect("serialisable");
        let back: Value = serde_saphyr::from_str(&text).expect("readable");
        assert_eq!(back, tricky);
    }

    #[test]
    fn json_has_the_same_order() {
        expect![[r#"
            {"apiVersion":"tombolo.dev/v1alpha1","kind":"App","metadata":{"name":"web"},"spec":{"kind":"x","note":"two\nlines\n","size":"200Mi","version":"1.10"},"data":{"a":"yes","b":1},"status":{"phase":"Running"}}
        "#]].assert_eq(&json_line(&object()).expect("serialisable"));
    }
}
