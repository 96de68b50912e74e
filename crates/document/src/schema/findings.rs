//! A bounded list of what is wrong, and the words in which a value is shown.

use serde_json::Value;

use tombolo_model::{Invalid, Problem};

use super::Path;

/// More would not help a person, and an answer must not grow with its question.
pub const FINDINGS_MAX: usize = 50;

/// Longer texts are cut in messages.
const SHOWN_CHARS_MAX: usize = 60;

/// Collects findings up to a limit; whoever walks a value stops when it [`is_full`](Self::is_full).
#[derive(Debug)]
pub struct Findings {
    list: Vec<Invalid>,
    max: usize,
}

impl Default for Findings {
    fn default() -> Findings {
        Findings::up_to(FINDINGS_MAX)
    }
}

impl Findings {
    pub fn up_to(max: usize) -> Findings {
        Findings { list: Vec::new(), max }
    }

    pub fn push(&mut self, path: &Path<'_>, problem: Problem, message: impl Into<String>) {
        if !self.is_full() {
            let field = path.to_string();
            self.list.push(Invalid { field, problem, message: message.into() });
        }
    }

    pub fn extend(&mut self, more: Vec<Invalid>) {
        let room = self.max.saturating_sub(self.list.len());
        self.list.extend(more.into_iter().take(room));
    }

    pub fn is_full(&self) -> bool {
        self.list.len() >= self.max
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn into_vec(self) -> Vec<Invalid> {
        self.list
    }
}

/// `the string "abc"`, `a list of 2 items`: short whatever the value is.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", quote(text)),
        Value::Array(items) if items.len() == 1 => "a list of 1 item".to_owned(),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A scalar as JSON, cut when it is long; anything bigger in words.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => describe(value),
    }
}

pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((cut, _)) => format!("{:?}", format!("{}…", &text[..cut])),
        None => format!("{text:?}"),
    }
}

/// `1 item`, `3 items`.
pub(crate) fn plural(count: u64, word: &str) -> String {
    match (count, word) {
        (1, _) => format!("1 {word}"),
        (_, "entry") => format!("{count} entries"),
        (_, _) => format!("{count} {word}s"),
    }
}
