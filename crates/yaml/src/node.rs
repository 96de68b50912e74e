//! The tree: nodes, their values and their places in the text. Made by [`crate::documents`].

use serde_json::Number;

use crate::weight::{Weight, weigh};

/// What a value counts for beside its text, see [`Node::weight`].
const NODE_BYTES: usize = 16;

/// A stretch of the text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// From here to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end.max(self.start) }
    }

    /// The stretch as a range to cut the text with.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end.max(self.start) as usize
    }
}

/// A value and the place where it stands. What an alias unfolds to stands where the anchor is.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub value: Value,
    pub span: Span,
    /// The text of a scalar that is no string: quantities must not go through a float.
    raw: Option<Box<str>>,
    quoted: bool,
}

/// What a node is. A map keeps the order of the text; its keys differ from each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub text: String,
    pub span: Span,
    quoted: bool,
}

impl Key {
    /// A key as if it had been written without quotes.
    pub fn new(text: impl Into<String>, span: Span) -> Key {
        Key { text: text.into(), span, quoted: false }
    }

    pub(crate) fn quoted(text: String, span: Span) -> Key {
        Key { text, span, quoted: true }
    }

    /// Whether it was written in quotes, and so surely means itself.
    pub(crate) fn is_quoted(&self) -> bool {
        self.quoted
    }
}

impl Node {
    /// A node that comes from somewhere else than a text, or stands for one.
    pub fn new(value: Value, span: Span) -> Node {
        let raw = match &value {
            Value::Null => Some("null".into()),
            Value::Bool(value) => Some(value.to_string().into()),
            Value::Int(value) => Some(value.to_string().into()),
            Value::Float(value) => Some(value.to_string().into()),
            Value::String(_) | Value::List(_) | Value::Map(_) => None,
        };
        Node { value, span, raw, quoted: false }
    }

    pub(crate) fn plain(value: Value, span: Span, raw: &str) -> Node {
        let raw = match value {
            Value::String(_) => None,
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::List(_)
            | Value::Map(_) => Some(raw.into()),
        };
        Node { value, span, raw, quoted: false }
    }

    pub(crate) fn quoted(text: String, span: Span) -> Node {
        Node { value: Value::String(text), span, raw: None, quoted: true }
    }

    /// A scalar as it was written: `0.5`, `200Mb`, `1_000`, `null`. Nothing for a list or a map.
    pub fn raw(&self) -> Option<&str> {
        match (&self.value, &self.raw) {
            (Value::String(text), _) => Some(text),
            (Value::List(_) | Value::Map(_), _) => None,
            (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_), raw) => raw.as_deref(),
        }
    }

    /// A scalar as a key, as it was written; nothing for null, a list or a map.
    pub(crate) fn into_key(self) -> Option<Key> {
        let text = match self.value {
            Value::String(text) => text,
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => String::from(self.raw?),
            Value::Null | Value::List(_) | Value::Map(_) => return None,
        };
        Some(Key { text, span: self.span, quoted: self.quoted })
    }

    /// Whether a text was written in quotes or as a block, and so surely was meant as a text.
    pub fn is_quoted(&self) -> bool {
        self.quoted
    }

    /// The value of a key; nothing if there is none, or this is no map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, node)| node)
    }

    /// A key and its value.
    pub fn entry(&self, key: &str) -> Option<(&Key, &Node)> {
        let entries = self.as_map()?;
        entries.iter().find(|(found, _)| found.text == key).map(|(key, node)| (key, node))
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::List(_)
            | Value::Map(_) => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Map(_) => None,
        }
    }

    pub fn as_map(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::List(_) => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    pub fn is_scalar(&self) -> bool {
        !matches!(self.value, Value::List(_) | Value::Map(_))
    }

    /// About how many bytes a copy takes: those of its texts, and a few for each value in it.
    pub fn weight(&self) -> usize {
        let Weight { nodes, bytes, .. } = weigh(self);
        bytes.saturating_add(nodes.saturating_mul(NODE_BYTES))
    }

    /// Moves it, with all that is in it, as if `bytes` more stood before its text.
    pub fn move_by(&mut self, bytes: u32) {
        let further = |span: Span| {
            Span::new(span.start.saturating_add(bytes), span.end.saturating_add(bytes))
        };
        let mut waiting = vec![self];
        while let Some(node) = waiting.pop() {
            node.span = further(node.span);
            match &mut node.value {
                Value::List(items) => waiting.extend(items),
                Value::Map(entries) => {
                    for (key, value) in entries {
                        key.span = further(key.span);
                        waiting.push(value);
                    }
                }
                Value::Null
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_)
                | Value::String(_) => (),
            }
        }
    }

    /// How a message names it.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a truth value",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::String(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// The same value without places. A number that JSON has no way to write becomes its text.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::Number((*value).into()),
            Value::Float(value) => self.float_to_json(*value),
            Value::String(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(entries) => Json::Object(
                entries.iter().map(|(key, node)| (key.text.clone(), node.to_json())).collect(),
            ),
        }
    }

    fn float_to_json(&self, value: f64) -> serde_json::Value {
        // A whole number beyond the signed range is a float here, but not in JSON.
        let unsigned = self.raw.as_deref().and_then(|raw| raw.parse::<u64>().ok());
        match unsigned.map(Number::from).or_else(|| Number::from_f64(value)) {
            Some(number) => serde_json::Value::Number(number),
            None => serde_json::Value::String(self.raw().unwrap_or_default().to_owned()),
        }
    }
}
