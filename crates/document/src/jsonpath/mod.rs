//! The part of JSONPath that printer columns, scale paths and selectable fields are written in.
//!
//! [`Path::parse`] once, when a kind is registered; [`Path::find`] for every object. Called by
//! `table`, `selector` and the scale subresource.
//!
//! ```text
//! .spec.replicas            a field; the first dot may be left out, and `$` may stand before it
//! .metadata.labels['a.b']   a field whose name has dots; or .metadata.labels.a\.b
//! .spec.ports[0]            an element; negative numbers count from the end
//! .spec.ports[*].name       every element of a list, or every value of an object
//! .status.conditions[?(@.type=="Ready")].status     the elements that pass a test
//! ```

mod parse;

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

/// A longer path is a mistake or an attack.
pub const PATH_BYTES_MAX: usize = 1024;

/// A path that is well formed.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    source: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the path {path:?} is wrong at character {at}: {problem}")]
    Syntax { path: String, at: usize, problem: String },
    #[error("the path has {bytes} bytes; at most {PATH_BYTES_MAX} are allowed")]
    TooLong { bytes: usize },
    #[error("cannot write to {path}: only a path of plain field names can be written to")]
    ReadOnly { path: String },
    #[error("cannot write to {path}: {field:?} is reached through something that is not an object")]
    NotAnObject { path: String, field: String },
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Every,
    Where(Test),
}

/// `?(@.a.b == "c")`; without a comparison, that the field is there.
#[derive(Clone, Debug, PartialEq)]
struct Test {
    fields: Vec<String>,
    comparison: Option<(Operator, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    LessOrEqual,
    GreaterOrEqual,
    Less,
    Greater,
}

impl Path {
    pub fn parse(source: &str) -> Result<Path, Error> {
        if source.len() > PATH_BYTES_MAX {
            return Err(Error::TooLong { bytes: source.len() });
        }
        Ok(Path { source: source.to_owned(), steps: parse::steps(source)? })
    }

    /// Everything in `object` that the path leads to; nothing when it leads nowhere.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found
    }

    /// The first thing that the path leads to; a `null` counts as nothing.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.find(object).into_iter().find(|value| !value.is_null())
    }

    /// Writes `value` where the path leads, and the objects on the way to it that are missing.
    pub fn set(&self, object: &mut Value, value: Value) -> Result<(), Error> {
        let mut place = object;
        for step in &self.steps {
            let Step::Field(field) = step else {
                return Err(Error::ReadOnly { path: self.source.clone() });
            };
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            let Value::Object(fields) = place else {
                return Err(Error::NotAnObject { path: self.source.clone(), field: field.clone() });
            };
            place = fields.entry(field.clone()).or_insert(Value::Null);
        }
        *place = value;
        Ok(())
    }

    /// Whether the path is of plain field names, so that it leads to one place at most.
    pub fn is_plain(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Field(_)))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.source)
    }
}

/// A value as a person reads it in a column: strings without quotes, lists and objects as JSON.
pub fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Cow::Owned(value.to_string())
        }
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Step::Field(name) => value.get(name).into_iter().collect(),
            Step::Index(index) => element(value, *index).into_iter().collect(),
            Step::Every => children(value),
            Step::Where(test) => {
                children(value).into_iter().filter(|child| test.passes(child)).collect()
            }
        }
    }
}

fn element(value: &Value, index: i64) -> Option<&Value> {
    let elements = value.as_array()?;
    let magnitude = usize::try_from(index.unsigned_abs()).ok()?;
    let position = if index < 0 { elements.len().checked_sub(magnitude)? } else { magnitude };
    elements.get(position)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

impl Test {
    fn passes(&self, value: &Value) -> bool {
        let mut found = Some(value);
        for field in &self.fields {
            found = found.and_then(|value| value.get(field));
        }
        match (&self.comparison, found) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some((operator, wanted)), Some(found)) => operator.holds(found, wanted),
        }
    }
}

impl Operator {
    fn holds(self, found: &Value, wanted: &Value) -> bool {
        let order = match (found, wanted) {
            (Value::String(found), Value::String(wanted)) => Some(found.cmp(wanted)),
            (Value::Number(found), Value::Number(wanted)) => {
                found.as_f64().zip(wanted.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
            }
            _ => None,
        };
        match self {
            Operator::Equal => order.map_or(found == wanted, std::cmp::Ordering::is_eq),
            Operator::NotEqual => order.map_or(found != wanted, std::cmp::Ordering::is_ne),
            Operator::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Operator::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
            Operator::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Operator::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What `path` finds in one sample object, one value a line, or why it cannot be read.
    #[track_caller]
    fn check(path: &str, expect: Expect) {
        let sample = json!({
            "metadata": {"labels": {"a.b/c": "dotted", "plain": "x"}},
            "spec": {"replicas": 3, "ports": [{"name": "http", "port": 80}, {"name": "tls", "port": 443}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Placed", "status": "False"},
            ], "nothing": null},
        });
        let shown = match Path::parse(path) {
            Ok(path) => {
                path.find(&sample).iter().map(|found| found.to_string() + "\n").collect::<String>()
            }
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn finds_fields_elements_and_all_children() {
        check(
            ".spec.replicas",
            expect![[r#"
            3
        "#]],
        );
        check(
            "spec.replicas",
            expect![[r#"
            3
        "#]],
        );
        check(
            "$.spec['replicas']",
            expect![[r#"
            3
        "#]],
        );
        check(
            ".spec.ports[1].name",
            expect![[r#"
            "tls"
        "#]],
        );
        check(
            ".spec.ports[-1].port",
            expect![[r#"
            443
        "#]],
        );
        check(
            ".spec.ports[*].name",
            expect![[r#"
            "http"
            "tls"
        "#]],
        );
        check(
            ".metadata.labels.*",
            expect![[r#"
            "dotted"
            "x"
        "#]],
        );
        check(
            ".metadata.labels['a.b/c']",
            expect![[r#"
            "dotted"
        "#]],
        );
        check(
            r".metadata.labels.a\.b/c",
            expect![[r#"
            "dotted"
        "#]],
        );
        check(
            ".status.nothing",
            expect![[r#"
            null
        "#]],
        );
    }

    #[test]
    fn finds_nothing_where_the_path_leads_nowhere() {
        check(".spec.absent.deeper", expect![""]);
        check(".spec.replicas.deeper", expect![""]);
        check(".spec.ports[7]", expect![""]);
        check(".spec.ports[-7]", expect![""]);
        check(".spec.ports[-9223372036854775808]", expect![""]);
        check(".spec[0]", expect![""]);
        check(".spec.replicas[*]", expect![""]);
    }

    #[test]
    fn filters_by_a_test() {
        check(
            r#".status.conditions[?(@.type=="Ready")].status"#,
            expect![[r#"
            "True"
        "#]],
        );
        check(
            ".status.conditions[?(@.type != 'Ready')].status",
            expect![[r#"
            "False"
        "#]],
        );
        check(
            ".spec.ports[?(@.port>=100)].name",
            expect![[r#"
            "tls"
        "#]],
        );
        check(
            ".spec.ports[?(@.port == 80.0)].name",
            expect![[r#"
            "http"
        "#]],
        );
        check(
            ".spec.ports[?(@['port'])].name",
            expect![[r#"
            "http"
            "tls"
        "#]],
        );
        check(".spec.ports[?(@.port < 'x')].name", expect![""]);
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        check(
            "",
            expect![[
                r#"the path "" is wrong at character 1: it is empty; write a path such as .spec.replicas"#
            ]],
        );
        check(
            "{.spec}",
            expect![[
                r#"the path "{.spec}" is wrong at character 1: write the path without the braces around it"#
            ]],
        );
        check(
            ".spec..x",
            expect![[
                r#"the path ".spec..x" is wrong at character 7: `..` (search at any depth) is not supported"#
            ]],
        );
        check(
            ".spec.",
            expect![[r#"the path ".spec." is wrong at character 7: expected a field name"#]],
        );
        check(
            ".spec[",
            expect![[
                r#"the path ".spec[" is wrong at character 7: expected a number, `*`, a name in quotes or a test such as ?(@.type=="Ready")"#
            ]],
        );
        check(
            ".spec[0",
            expect![[
                r#"the path ".spec[0" is wrong at character 8: expected `]`, but the path ends here"#
            ]],
        );
        check(
            ".spec[1-2]",
            expect![[
                r#"the path ".spec[1-2]" is wrong at character 7: "1-2" is not a whole number"#
            ]],
        );
        check(
            ".spec['a]",
            expect![[
                r#"the path ".spec['a]" is wrong at character 7: this quote is never closed"#
            ]],
        );
        check(
            ".spec[?(@.a==b)]",
            expect![[
                r#"the path ".spec[?(@.a==b)]" is wrong at character 14: expected text in quotes, a number, true or false"#
            ]],
        );
        check(
            ".spec x",
            expect![[
                r#"the path ".spec x" is wrong at character 6: expected `.` or `[`, found ' '"#
            ]],
        );
        check(&"x".repeat(2000), expect!["the path has 2000 bytes; at most 1024 are allowed"]);
        check(
            &".a".repeat(65),
            expect![[
                r#"the path ".a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a" is wrong at character 129: a path has at most 64 steps"#
            ]],
        );
    }

    #[track_caller]
    fn check_set(path: &str, mut object: Value, expect: Expect) {
        let path = Path::parse(path).unwrap();
        let shown = match path.set(&mut object, json!(5)) {
            Ok(()) => object.to_string(),
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn writes_through_plain_paths_only() {
        check_set(
            ".spec.replicas",
            json!({"spec": {"replicas": 1}}),
            expect![[r#"{"spec":{"replicas":5}}"#]],
        );
        check_set(
            ".spec.scale.replicas",
            json!({}),
            expect![[r#"{"spec":{"scale":{"replicas":5}}}"#]],
        );
        check_set(
            ".spec[0]",
            json!({}),
            expect!["cannot write to .spec[0]: only a path of plain field names can be written to"],
        );
        check_set(
            ".spec.a.b",
            json!({"spec": {"a": "text"}}),
            expect![[
                r#"cannot write to .spec.a.b: "b" is reached through something that is not an object"#
            ]],
        );
    }

    #[test]
    fn shows_scalars_without_quotes() {
        assert_eq!(text(&json!("x")), "x");
        assert_eq!(text(&json!(1.5)), "1.5");
        assert_eq!(text(&json!(true)), "true");
        assert_eq!(text(&json!(["a"])), r#"["a"]"#);
        assert_eq!(text(&json!(null)), "");
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(source in ".{0,64}", near in r#"[.\[\]'"a0@?()=<> *\\$-]{0,24}"#) {
            let object = json!({"a": [{"a": 0}, "0"], "0": {"a": null}});
            for source in [source, near] {
                if let Ok(path) = Path::parse(&source) {
                    path.find(&object);
                    let _ = path.set(&mut object.clone(), json!(1));
                }
            }
        }
    }
}
