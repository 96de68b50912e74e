//! Variables of compose files: `$NAME`, `${NAME:-default}` and their kin are filled in before
//! anything is read. Values come from `.env` only: a conversion must not depend on who runs it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tombolo_yaml::{Key, Node, Value};

use crate::fields::Field;
use crate::reader::Reader;

/// A default in a default in a default: nobody goes deeper.
const DEPTH_MAX: usize = 8;
/// Defaults cannot multiply, but values can be long.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// All texts of a file with variables in them, together: one long value can be used often.
const TOTAL_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) type Variables = BTreeMap<String, String>;

/// The document with its variables filled in; itself if it has none. Keys are left alone, as compose
/// does.
pub(super) fn document<'a>(
    field: &Field<'a>,
    variables: &Variables,
    reader: &mut Reader<'_>,
) -> Cow<'a, Node> {
    if !has_variables(field.node) {
        return Cow::Borrowed(field.node);
    }
    let mut bytes_left = Some(TOTAL_BYTES_MAX);
    Cow::Owned(filled(field, variables, &mut bytes_left, reader))
}

fn has_variables(node: &Node) -> bool {
    match &node.value {
        Value::String(text) => text.contains('$'),
        Value::List(items) => items.iter().any(has_variables),
        Value::Map(entries) => entries.iter().any(|(_, value)| has_variables(value)),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => false,
    }
}

/// Once nothing of `bytes_left` is left, texts stay as they are.
fn filled(
    field: &Field<'_>,
    variables: &Variables,
    bytes_left: &mut Option<usize>,
    reader: &mut Reader<'_>,
) -> Node {
    let node = field.node;
    match &node.value {
        Value::String(text) if text.contains('$') => {
            let Some(left) = *bytes_left else { return node.clone() };
            let mut filler = Filler { field, variables, reader, depth: 0 };
            let filled = filler.fill(text);
            *bytes_left = left.checked_sub(filled.len());
            if bytes_left.is_none() {
                let message = "the file grows too long with its variables";
                field
                    .error(reader, "too-large", message)
                    .expecting(format!("{TOTAL_BYTES_MAX} bytes at most"));
            }
            Node::new(Value::String(filled), node.span)
        }
        Value::List(items) => {
            let items = items.iter().enumerate().map(|(index, item)| {
                let path = field.path.index(index);
                let inner = Field { node: item, path, key_span: item.span };
                filled(&inner, variables, bytes_left, reader)
            });
            Node::new(Value::List(items.collect()), node.span)
        }
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value): &(Key, Node)| {
                let path = field.path.key(&key.text);
                let inner = Field { node: value, path, key_span: key.span };
                (key.clone(), filled(&inner, variables, bytes_left, reader))
            });
            Node::new(Value::Map(entries.collect()), node.span)
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
            node.clone()
        }
    }
}

struct Filler<'f, 'a, 'r> {
    field: &'f Field<'a>,
    variables: &'f Variables,
    reader: &'f mut Reader<'r>,
    depth: usize,
}

impl Filler<'_, '_, '_> {
    fn fill(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some(inside) = rest.strip_prefix('{') {
                let Some(end) = closing(inside) else {
                    self.bad("a \"}\" is missing after \"${\"");
                    out.push_str("${");
                    rest = inside;
                    break;
                };
                let value = self.expression(&inside[..end]);
                out.push_str(&value);
                rest = &inside[end + 1..];
            } else {
                let end = name_end(rest);
                if end == 0 {
                    self.bad("a lone \"$\" must be written \"$$\"");
                    out.push('$');
                    continue;
                }
                let value = self.expression(&rest[..end]);
                out.push_str(&value);
                rest = &rest[end..];
            }
            if out.len() > TEXT_BYTES_MAX {
                self.bad("the text grows too long with its variables");
                return out;
            }
        }
        out.push_str(rest);
        out
    }

    /// What stands between the braces: a name, and perhaps an operator with a text.
    fn expression(&mut self, inside: &str) -> String {
        let (name, operation) = inside.split_at(name_end(inside));
        if name.is_empty() {
            self.bad(&format!("\"${{{inside}}}\" names no variable"));
            return String::new();
        }
        let value = self.variables.get(name);
        let filled = value.filter(|value| !value.is_empty());
        let operators = [":-", ":?", ":+", "-", "?", "+"];
        let operator = operators.iter().find(|operator| operation.starts_with(**operator));
        let argument = operator.map_or("", |operator| &operation[operator.len()..]);
        let counts = match operator {
            Some(operator) if operator.starts_with(':') => filled,
            Some(_) | None => value,
        };
        match (operator.map(|operator| operator.trim_start_matches(':')), counts) {
            (Some("+"), Some(_)) => self.nested(argument),
            (Some("+"), None) => String::new(),
            (_, Some(value)) => value.clone(),
            (Some("-"), None) => self.nested(argument),
            (Some("?"), None) => {
                let message = format!("the variable {name} must be set: {argument}");
                self.field
                    .error(self.reader, "variable-required", message)
                    .expecting(format!("a line {name}=… in .env"));
                String::new()
            }
            (None, None) if operation.is_empty() => {
                let what = format!("the variable {name} is not set in .env and taken as empty");
                self.field.warning(self.reader, "variable-empty", what).expecting(format!(
                    "a line {name}=… in .env; the shell's environment is not asked"
                ));
                String::new()
            }
            (_, None) => {
                self.bad(&format!("\"${{{inside}}}\" is no variable"));
                String::new()
            }
        }
    }

    fn nested(&mut self, text: &str) -> String {
        if self.depth >= DEPTH_MAX {
            self.bad("variables are nested too deeply");
            return String::new();
        }
        self.depth += 1;
        let filled = self.fill(text);
        self.depth -= 1;
        filled
    }

    fn bad(&mut self, message: &str) {
        self.field
            .error(self.reader, "invalid-variable", message)
            .expecting("$NAME, ${NAME}, ${NAME:-default}, ${NAME:?message} or ${NAME:+other}");
    }
}

/// Where the `}` is that closes this level.
fn closing(inside: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' if before == '$' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => (),
        }
        before = letter;
    }
    None
}

fn name_end(text: &str) -> usize {
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    match starts_well {
        true => text
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(text.len()),
        false => 0,
    }
}

/// The lines of an env file: `NAME=value`, comments, quotes, `export`. A line without `=` names a
/// variable of the surrounding shell, of which nothing is known here. A value may use what is `known`
/// and the lines above it; `field` is what the file is read for, where mistakes are told.
pub(super) fn env_file(
    text: &str,
    known: &Variables,
    field: &Field<'_>,
    reader: &mut Reader<'_>,
) -> Variables {
    let mut variables = Variables::new();
    // What the file itself says is nearer than what was known before.
    let mut seen = known.clone();
    let mut bytes_left = TOTAL_BYTES_MAX;
    for line in text.lines() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let value = match env_value(value.trim()) {
            Quoted::AsItIs(value) => value,
            Quoted::Filled(value) if !value.contains('$') => value,
            Quoted::Filled(value) => {
                let filled = Filler { field, variables: &seen, reader, depth: 0 }.fill(&value);
                let Some(left) = bytes_left.checked_sub(filled.len()) else {
                    let message = "the variables of the file grow too long";
                    let expected = format!("{TOTAL_BYTES_MAX} bytes at most");
                    field.error(reader, "too-large", message).expecting(expected);
                    return variables;
                };
                bytes_left = left;
                filled
            }
        };
        seen.insert(name.trim().to_owned(), value.clone());
        variables.insert(name.trim().to_owned(), value);
    }
    variables
}

/// A value, by whether variables in it count.
enum Quoted {
    Filled(String),
    /// It stands in single quotes.
    AsItIs(String),
}

fn env_value(value: &str) -> Quoted {
    let inside = |quote| value.strip_prefix(quote).and_then(|rest| rest.split_once(quote));
    if let Some((inside, _)) = inside('"') {
        return Quoted::Filled(inside.replace("\\n", "\n"));
    }
    if let Some((inside, _)) = inside('\'') {
        return Quoted::AsItIs(inside.to_owned());
    }
    let end = value.find(" #").unwrap_or(value.len());
    Quoted::Filled(value[..end].trim_end().to_owned())
}
