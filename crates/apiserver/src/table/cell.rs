//! One cell of a table: how a printer column reads its value out of an object.
//!
//! A column is a JSONPath, or one of the three forms that [`Column::json_path`] describes:
//! `count(.data)`, `age(.lastTimestamp, .eventTime)`, `join(.kind, /, .name)`.

use jiff::Timestamp;
use serde_json::{Number, Value};

use super::age;
use crate::kinds::Column;
use tombolo_document::jsonpath::{self, Path};

const ARGUMENTS_MAX: usize = 16;
/// A cell is for a terminal; the whole value is in the object.
const CELL_CHARS_MAX: usize = 1024;

/// Why a column cannot be shown.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the column {column:?} cannot be shown")]
    Path {
        column: String,
        #[source]
        source: jsonpath::Error,
    },
    #[error("the column {column:?} has the type {found:?}; it can be {TYPES}")]
    Type { column: String, found: String },
    #[error("the column {column:?} is wrong: {problem}")]
    Form { column: String, problem: String },
}

const TYPES: &str = "string, integer, number, boolean or date";

#[derive(Clone, Debug)]
pub(super) enum Cell {
    Value { path: Path, shape: Shape },
    Count(Path),
    Age(Vec<Path>),
    Join(Vec<Piece>),
}

/// The column's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Integer,
    Number,
    Boolean,
    Date,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Path(Path),
}

impl Cell {
    pub(super) fn compile(column: &Column) -> Result<Cell, Error> {
        let path = |source: &str| {
            Path::parse(source)
                .map_err(|source| Error::Path { column: column.name.clone(), source })
        };
        let wrong = |problem: &str| Error::Form {
            column: column.name.clone(),
            problem: problem.to_owned(),
        };
        let Some((form, arguments)) = call(&column.json_path) else {
            return Ok(Cell::Value { path: path(&column.json_path)?, shape: Shape::of(column)? });
        };
        let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
        if arguments.len() > ARGUMENTS_MAX {
            return Err(wrong("it takes at most 16 arguments"));
        }
        match (form, arguments.as_slice()) {
            ("count", [source]) => Ok(Cell::Count(path(source)?)),
            ("count", _) => Err(wrong("count takes one path, such as count(.data)")),
            ("age", sources) => {
                let paths: Result<_, _> = sources.iter().map(|source| path(source)).collect();
                Ok(Cell::Age(paths?))
            }
            ("join", arguments) => {
                let mut pieces = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    pieces.push(if argument.starts_with('.') {
                        Piece::Path(path(argument)?)
                    } else {
                        Piece::Text((*argument).to_owned())
                    });
                }
                Ok(Cell::Join(pieces))
            }
            _ => Err(wrong("its form is not one of count(…), age(…) and join(…)")),
        }
    }

    pub(super) fn render(&self, object: &Value, now: Timestamp) -> Value {
        match self {
            Cell::Value { path, shape } => shape.render(&path.find(object), now),
            Cell::Count(path) => Value::from(match path.first(object) {
                Some(Value::Array(elements)) => elements.len(),
                Some(Value::Object(fields)) => fields.len(),
                Some(_) | None => 0,
            }),
            Cell::Age(paths) => match paths.iter().find_map(|path| path.first(object)) {
                Some(time) => date(time, now),
                None => Value::from("<unknown>"),
            },
            Cell::Join(pieces) => {
                let mut joined = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => joined.push_str(text),
                        Piece::Path(path) => {
                            joined.extend(path.first(object).map(jsonpath::text));
                        }
                    }
                }
                Value::from(shortened(joined))
            }
        }
    }
}

impl Shape {
    fn of(column: &Column) -> Result<Shape, Error> {
        match column.type_.as_str() {
            "string" => Ok(Shape::Text),
            "integer" => Ok(Shape::Integer),
            "number" => Ok(Shape::Number),
            "boolean" => Ok(Shape::Boolean),
            "date" => Ok(Shape::Date),
            other => Err(Error::Type { column: column.name.clone(), found: other.to_owned() }),
        }
    }

    /// What is missing or of another type is `null`, which kubectl shows as an empty cell.
    fn render(self, found: &[&Value], now: Timestamp) -> Value {
        let Some(first) = found.iter().copied().find(|value| !value.is_null()) else {
            return Value::Null;
        };
        match self {
            Shape::Text => {
                let texts: Vec<_> = found.iter().map(|value| jsonpath::text(value)).collect();
                Value::from(shortened(texts.join(",")))
            }
            Shape::Integer => integer(first).map_or(Value::Null, Value::from),
            Shape::Number => {
                first.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
            }
            Shape::Boolean => first.as_bool().map_or(Value::Null, Value::Bool),
            Shape::Date => date(first, now),
        }
    }
}

/// `count(.data)` is `count` and `.data`. A path never begins with a letter and ends with `)`.
fn call(source: &str) -> Option<(&str, &str)> {
    let (form, rest) = source.trim().split_once('(')?;
    let arguments = rest.strip_suffix(')')?;
    let is_name = !form.is_empty() && form.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_name.then_some((form, arguments))
}

fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let whole = value.as_f64()?.trunc();
        // The casts are exact in this range.
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        (whole.abs() < 9.0e15).then_some(whole as i64)
    })
}

fn date(value: &Value, now: Timestamp) -> Value {
    match value.as_str().map(str::parse::<Timestamp>) {
        Some(Ok(then)) => Value::from(age(then, now)),
        Some(Err(_)) => Value::from("<invalid>"),
        None => Value::Null,
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn column(type_: &str, json_path: &str) -> Column {
        Column {
            name: "Shown".to_owned(),
            type_: type_.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: json_path.to_owned(),
        }
    }

    /// The cell that a column of this type and path shows for one sample object.
    #[track_caller]
    fn check(type_: &str, json_path: &str, expect: Expect) {
        let sample = json!({
            "metadata": {"creationTimestamp": "2026-03-01T11:55:00Z"},
            "spec": {"replicas": 3, "share": 2.5, "on": true, "names": ["a", "b"], "map": {"k": 1}},
            "involvedObject": {"kind": "App", "name": "web"},
            "lastTimestamp": null, "eventTime": "2026-03-01T10:00:00.123456Z",
        });
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        expect.assert_eq(&match Cell::compile(&column(type_, json_path)) {
            Ok(cell) => cell.render(&sample, now).to_string(),
            Err(error) => match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        });
    }

    #[test]
    fn gives_each_type_its_json_type() {
        check("integer", ".spec.replicas", expect!["3"]);
        check("integer", ".spec.share", expect!["2"]);
        check("number", ".spec.replicas", expect!["3.0"]);
        check("boolean", ".spec.on", expect!["true"]);
        check("string", ".spec.replicas", expect![[r#""3""#]]);
        check("string", ".spec.names", expect![[r#""[\"a\",\"b\"]""#]]);
        check("string", ".spec.names[*]", expect![[r#""a,b""#]]);
        check("string", ".spec.map", expect![[r#""{\"k\":1}""#]]);
        check("date", ".metadata.creationTimestamp", expect![[r#""5m""#]]);
        check("date", ".involvedObject.name", expect![[r#""<invalid>""#]]);
    }

    #[test]
    fn leaves_a_cell_empty_when_there_is_nothing_of_that_type() {
        check("string", ".spec.absent", expect!["null"]);
        check("date", ".lastTimestamp", expect!["null"]);
        check("integer", ".involvedObject.name", expect!["null"]);
        check("boolean", ".spec.replicas", expect!["null"]);
    }

    #[test]
    fn counts_joins_and_tells_ages() {
        check("integer", "count(.spec.names)", expect!["2"]);
        check("integer", "count(.spec.map)", expect!["1"]);
        check("integer", "count(.data)", expect!["0"]);
        check(
            "string",
            "join(.involvedObject.kind, /, .involvedObject.name)",
            expect![[r#""App/web""#]],
        );
        check("string", "join(.absent, /)", expect![[r#""/""#]]);
        check("string", "age(.lastTimestamp, .eventTime)", expect![[r#""120m""#]]);
        check("string", "age(.lastTimestamp)", expect![[r#""<unknown>""#]]);
    }

    #[test]
    fn refuses_columns_that_it_cannot_show() {
        check(
            "string",
            ".spec[",
            expect![[
                r#"the column "Shown" cannot be shown: the path ".spec[" is wrong at character 7: expected a number, `*`, a name in quotes or a test such as ?(@.type=="Ready")"#
            ]],
        );
        check(
            "text",
            ".spec",
            expect![[
                r#"the column "Shown" has the type "text"; it can be string, integer, number, boolean or date"#
            ]],
        );
        check(
            "string",
            "count(.a, .b)",
            expect![[r#"the column "Shown" is wrong: count takes one path, such as count(.data)"#]],
        );
        check(
            "string",
            "sum(.a)",
            expect![[
                r#"the column "Shown" is wrong: its form is not one of count(…), age(…) and join(…)"#
            ]],
        );
        check(
            "string",
            "age(.a[)",
            expect![[
                r#"the column "Shown" cannot be shown: the path ".a[" is wrong at character 4: expected a number, `*`, a name in quotes or a test such as ?(@.type=="Ready")"#
            ]],
        );
    }

    #[test]
    fn cuts_a_cell_that_is_longer_than_a_terminal_needs() {
        let cell = Cell::compile(&column("string", ".x")).unwrap();
        let shown = cell.render(&json!({"x": "ä".repeat(5000)}), Timestamp::UNIX_EPOCH);
        assert_eq!(shown.as_str().unwrap().chars().count(), CELL_CHARS_MAX + 1);
    }

    proptest! {
        #[test]
        fn never_panics_on_any_column(any in ".{0,40}", near in "(count|join|age)[(),./ a\\[]{0,12}\\)") {
            for path in [any, near] {
                if let Ok(cell) = Cell::compile(&column("string", &path)) {
                    cell.render(&json!({"a": {"a": [1]}}), Timestamp::UNIX_EPOCH);
                }
            }
        }
    }
}
