//! Values as YAML text: block style, the usual order of keys, quotes only where they are needed.
//! Called by every writer. What it writes reads back as the same value, with any YAML 1.1 or 1.2
//! reader: a text that one of them would take for a number, a date or a truth value is quoted.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Keys that people expect first, in this order; the others follow by name.
const FIRST: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "type",
    "serviceName",
    "channelName",
    "name",
    "namespace",
    "description",
    "image",
    "replicas",
    "onEach",
    "run",
    "selector",
    "template",
    "needs",
    "spec",
    "services",
];
/// Keys that people expect last: they are long, or written by a server.
const LAST: &[&str] = &["components", "policies", "manifests", "status", "data"];
/// A collection that fits in here may stand on the line of its key.
const LINE_CHARS_MAX: usize = 90;

/// How a mapping that fits on one line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `{cpu: 500m, memory: 256Mi}`, as our own files are written.
    Short,
    /// One line a key, as the files of the others are.
    Block,
}

/// Several values as documents of one file.
pub(crate) fn documents(values: &[Value], style: Style) -> String {
    let texts: Vec<String> = values.iter().map(|value| document(value, style)).collect();
    texts.join("---\n")
}

/// One value as a document, with a line break at the end.
pub(crate) fn document(value: &Value, style: Style) -> String {
    let mut emitter = Emitter { out: String::new(), style };
    match value {
        Value::Object(map) if !map.is_empty() => emitter.map(map, 0),
        Value::Array(items) if !items.is_empty() => emitter.list(items, 0),
        other => {
            emitter.scalar(other, 0);
            emitter.out.push('\n');
        }
    }
    emitter.out
}

struct Emitter {
    out: String,
    style: Style,
}

impl Emitter {
    /// A mapping in block style; the cursor is where its first key goes.
    fn map(&mut self, map: &Map<String, Value>, indent: usize) {
        for (index, (key, value)) in ordered(map).into_iter().enumerate() {
            if index > 0 {
                self.indent(indent);
            }
            self.out.push_str(&inline_text(key));
            self.out.push(':');
            self.value(value, indent);
        }
    }

    /// What follows the colon of a key.
    fn value(&mut self, value: &Value, indent: usize) {
        let column = self.out.len() - self.out.rfind('\n').map_or(0, |at| at + 1);
        if let Some(flow) = self.flow(value, LINE_CHARS_MAX.saturating_sub(column)) {
            let _ = writeln!(self.out, " {flow}");
            return;
        }
        match value {
            Value::Object(map) => {
                self.out.push('\n');
                self.indent(indent + 2);
                self.map(map, indent + 2);
            }
            Value::Array(items) => {
                self.out.push('\n');
                self.indent(indent);
                self.list(items, indent);
            }
            scalar => {
                self.out.push(' ');
                self.scalar(scalar, indent);
                self.out.push('\n');
            }
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.indent(indent);
            }
            self.out.push_str("- ");
            if let Some(flow) = self.flow(item, LINE_CHARS_MAX.saturating_sub(indent + 2)) {
                self.out.push_str(&flow);
                self.out.push('\n');
                continue;
            }
            match item {
                Value::Object(map) => self.map(map, indent + 2),
                Value::Array(items) => self.list(items, indent + 2),
                scalar => {
                    self.scalar(scalar, indent);
                    self.out.push('\n');
                }
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) => match block(text, indent + 2) {
                Some(block) => self.out.push_str(&block),
                None => self.out.push_str(&inline_text(text)),
            },
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => {
                let _ = write!(self.out, "{value}");
            }
            Value::Number(number) => self.out.push_str(&number_text(number)),
            Value::Array(_) => self.out.push_str("[]"),
            Value::Object(_) => self.out.push_str("{}"),
        }
    }

    /// A collection on one line, when it is flat, short and this style writes it so.
    fn flow(&self, value: &Value, room: usize) -> Option<String> {
        let text = match value {
            Value::Array(items) => {
                let parts: Option<Vec<String>> = items.iter().map(flow_scalar).collect();
                format!("[{}]", parts?.join(", "))
            }
            Value::Object(map) if map.is_empty() || self.style == Style::Short => {
                let parts: Option<Vec<String>> = ordered(map)
                    .into_iter()
                    .map(|(key, value)| {
                        Some(format!("{}: {}", inline_text(key), flow_scalar(value)?))
                    })
                    .collect();
                format!("{{{}}}", parts?.join(", "))
            }
            _ => return None,
        };
        // The empty ones have no other form.
        (text.len() <= room || text.len() == 2).then_some(text)
    }

    fn indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn ordered(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    let rank = |key: &str| {
        let first = FIRST.iter().position(|known| *known == key);
        let last = LAST.iter().position(|known| *known == key);
        match (first, last) {
            (Some(place), _) => place,
            (None, None) => FIRST.len(),
            (None, Some(place)) => FIRST.len() + 1 + place,
        }
    };
    entries.sort_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
    entries
}

fn flow_scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("null".to_owned()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number_text(number)),
        Value::String(text) if text.contains('\n') => None,
        Value::String(text) => Some(inline_text(text)),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// JSON writes `1e300`, which YAML 1.1 takes for a text; with a point and a sign both agree.
fn number_text(number: &serde_json::Number) -> String {
    let text = number.to_string();
    let Some((digits, exponent)) = text.split_once(['e', 'E']) else { return text };
    let digits = if digits.contains('.') { digits.to_owned() } else { format!("{digits}.0") };
    match exponent.starts_with(['-', '+']) {
        true => format!("{digits}e{exponent}"),
        false => format!("{digits}e+{exponent}"),
    }
}

/// A text on one line: as it is when nobody can take it for anything else, else in quotes.
pub(crate) fn inline_text(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            letter if is_printable(letter) => quoted.push(letter),
            letter => {
                let _ = match u32::from(letter) {
                    code @ 0..=0xff => write!(quoted, "\\x{code:02x}"),
                    code @ 0x100..=0xffff => write!(quoted, "\\u{code:04x}"),
                    code => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Stricter than the YAML specification: only what no reader could get wrong.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let starts_well = first.is_ascii_alphanumeric() || b"/._".contains(first);
    if !starts_well
        || text.starts_with("...")
        || *last == b' '
        || text.contains(" #")
        || is_word_of_yaml(text)
    {
        return false;
    }
    let fits = |(at, byte): (usize, &u8)| match byte {
        // A colon ends a key when a blank, a bracket or nothing follows.
        b':' => bytes.get(at + 1).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'/'),
        byte => byte.is_ascii_alphanumeric() || b" _./@%+=~-()$*;<>^'?#!&|".contains(byte),
    };
    bytes.iter().enumerate().all(fits) && !looks_like_a_number(text)
}

fn is_word_of_yaml(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "nan", "inf",
    ];
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Whether some reader may see a number or a time: it begins like one, and has no letter that is
/// in none of them (`500m` has, `1e3`, `0x1F`, `0o17`, `12:30` and `2030-01-31` have not).
fn looks_like_a_number(text: &str) -> bool {
    let begins_so = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let in_numbers = |letter: char| {
        letter.is_ascii_digit() || "abcdefxoinftzABCDEFXOINFTZ._:+- ".contains(letter)
    };
    begins_so && text.chars().all(in_numbers)
}

fn is_printable(letter: char) -> bool {
    match letter {
        // Line and paragraph separators end a line for some, the byte order mark vanishes.
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{85}' => false,
        ' '..='\u{7e}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..='\u{10fffd}' => true,
        _ => false,
    }
}

/// A text of several lines as a literal block, when every line can stand there as it is.
fn block(text: &str, indent: usize) -> Option<String> {
    let body = text.trim_end_matches('\n');
    let lines_fit = body.lines().all(|line| {
        let blank = line.trim().is_empty();
        (line.is_empty() || !blank)
            && !line.starts_with('\t')
            && line.chars().all(|letter| is_printable(letter) || letter == '\t')
    });
    if !text.contains('\n') || body.is_empty() || body.contains('\r') || !lines_fit {
        return None;
    }
    let first = body.lines().find(|line| !line.is_empty())?;
    let mut out = String::from("|");
    if first.starts_with(' ') || body.starts_with('\n') {
        // The reader would take the blanks of the text for indentation.
        out.push('2');
    }
    let ends = text.len() - body.len();
    match ends {
        0 => out.push('-'),
        1 => (),
        _ => out.push('+'),
    }
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
    }
    // The caller ends the line, which is the first of the breaks that end the text.
    out.extend(std::iter::repeat_n('\n', ends.saturating_sub(1)));
    Some(out)
}
