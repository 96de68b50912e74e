//! From the bytes of a request or an embedded file to a value, within bounds.
//!
//! The handlers call [`json`] for bodies and [`yaml`] for apply patches; whoever reads files calls
//! [`yaml_documents`]. JSON is read strictly: a key that is there twice is found and told with its
//! path, and the handler decides by `fieldValidation` whether that is an error or a warning.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use tombolo_document::schema::{Findings, Path};
use tombolo_model::{Invalid, Problem};
use tombolo_yaml::{Limits, Lines, Severity};

/// The JSON parser itself gives up at 128; everything that walks a value does so by recursion.
pub const DEPTH_MAX: usize = 100;

/// A body of a few megabytes can hold a node in two bytes; in memory each takes dozens.
pub const NODES_MAX: usize = 500_000;

/// What a body says.
#[derive(Clone, Debug)]
pub struct Decoded {
    pub value: Value,
    /// Keys that are there more than once; the last one counts.
    pub duplicates: Vec<Invalid>,
}

/// Why the bytes could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where; none when it is the whole that is wrong.
    pub position: Option<Position>,
    pub message: String,
}

/// A position in a text. Lines begin at 1; column 0 is the end of the line before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(Position { line, column }) => {
                write!(f, "line {line} column {column}: {}", self.message)
            }
            None => f.write_str(&self.message),
        }
    }
}

/// Reads one JSON value that fills the whole of `bytes`.
pub fn json(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let seen = RefCell::new(Seen { nodes: 0, duplicates: Findings::default() });
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Node { path: &Path::ROOT, depth: 0, seen: &seen }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| json_error(&error))?;
    Ok(Decoded { value, duplicates: seen.into_inner().duplicates.into_vec() })
}

/// Reads one YAML document. What looks like JSON is read as JSON first: clients send apply
/// patches so, and it is faster.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'{')
        && let Ok(decoded) = json(bytes)
    {
        return Ok(decoded);
    }
    let mut documents = yaml_documents(text(bytes)?)?;
    match (documents.pop(), documents.len()) {
        (Some(value), 0) => Ok(Decoded { value, duplicates: Vec::new() }),
        (None, _) => Err(without_position("the document is empty".to_owned())),
        (Some(_), more) => {
            Err(without_position(format!("expected one document, found {}", more + 1)))
        }
    }
}

/// Reads all documents of a YAML file, leaving out empty ones. The first error ends it; a key that
/// is there twice is one.
pub fn yaml_documents(text: &str) -> Result<Vec<Value>, DecodeError> {
    let limits = Limits { depth: DEPTH_MAX, nodes: NODES_MAX, ..Limits::default() };
    let (documents, problems) = tombolo_yaml::documents(text, &limits);
    match problems.iter().find(|problem| problem.severity == Severity::Error) {
        Some(problem) => Err(yaml_error(problem, text)),
        None => Ok(documents.iter().map(tombolo_yaml::Node::to_json).collect()),
    }
}

fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|error| {
        without_position(format!("the text is not UTF-8 from byte {} on", error.valid_up_to()))
    })
}

fn without_position(message: String) -> DecodeError {
    DecodeError { position: None, message }
}

fn json_error(error: &serde_json::Error) -> DecodeError {
    let text = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&suffix).unwrap_or(&text).to_owned();
    let position = Position { line: error.line() as u64, column: error.column() as u64 };
    DecodeError { position: Some(position), message }
}

fn yaml_error(problem: &tombolo_yaml::Problem, text: &str) -> DecodeError {
    let at = Lines::new(text).position(problem.span.start);
    if problem.code == "duplicate-key" {
        // In the words of Kubernetes first, which tools look for.
        let key = text.get(problem.span.range()).unwrap_or_default().trim_matches(['"', '\'']);
        let (line, column) = (at.line, at.column);
        return without_position(format!(
            "line {line}: key {key:?} already set in map (the second is at column {column}); remove or \
             rename one of the two"
        ));
    }
    let message = match &problem.expected {
        Some(expected) => format!("{}; expected {expected}", problem.message),
        None => problem.message.clone(),
    };
    DecodeError {
        position: Some(Position { line: at.line.into(), column: at.column.into() }),
        message,
    }
}

/// What was met so far, over all the nodes of a body.
struct Seen {
    nodes: usize,
    duplicates: Findings,
}

/// Reads one node, with its place and the counts.
#[derive(Clone, Copy)]
struct Node<'a> {
    path: &'a Path<'a>,
    depth: usize,
    seen: &'a RefCell<Seen>,
}

impl<'a> Node<'a> {
    fn below(self, path: &'a Path<'a>) -> Node<'a> {
        Node { path, depth: self.depth + 1, seen: self.seen }
    }

    fn deeper<E: serde::de::Error>(self) -> Result<(), E> {
        match self.depth < DEPTH_MAX {
            true => Ok(()),
            false => Err(E::custom(format_args!("nested deeper than {DEPTH_MAX} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let nodes = {
            let mut seen = self.seen.borrow_mut();
            seen.nodes += 1;
            seen.nodes
        };
        if nodes > NODES_MAX {
            return Err(D::Error::custom(format_args!("more than {NODES_MAX} values")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        match Number::from_f64(number) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(E::custom("infinity and NaN are not numbers here")),
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.deeper()?;
        let mut items = Vec::new();
        loop {
            let path = self.path.index(items.len());
            match access.next_element_seed(self.below(&path))? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let path = self.path.field(&key);
            let value = access.next_value_seed(self.below(&path))?;
            if object.contains_key(&key) {
                let message = "the field is there more than once; the last one counts";
                self.seen.borrow_mut().duplicates.push(&path, Problem::Duplicate, message);
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests;
