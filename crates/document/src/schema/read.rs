//! Reads single keywords of a schema; for `compile.rs` and `rules.rs`.

use serde_json::{Map, Number, Value};

use tombolo_model::Problem;

use super::Path;
use super::compile::Compiler;
use super::findings::describe;

/// The keywords of one node, and where it is.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) keywords: &'a Map<String, Value>,
    pub(super) path: &'a Path<'a>,
    pub(super) depth: usize,
}

impl<'a> At<'a> {
    /// A keyword that is null is as good as absent.
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.keywords.get(name).filter(|value| !value.is_null())
    }
}

/// A value of the wrong type is a finding and counts as absent.
impl Compiler {
    pub(super) fn text<'a>(&mut self, at: At<'a>, name: &str) -> Option<&'a str> {
        self.keyword(at, name, "a string", Value::as_str)
    }

    pub(super) fn flag(&mut self, at: At<'_>, name: &str) -> bool {
        self.keyword(at, name, "true or false", Value::as_bool).unwrap_or(false)
    }

    pub(super) fn count(&mut self, at: At<'_>, name: &str) -> Option<u64> {
        self.keyword(at, name, "a whole number that is not negative", Value::as_u64)
    }

    pub(super) fn number(&mut self, at: At<'_>, name: &str) -> Option<Number> {
        self.keyword(at, name, "a number", Value::as_number).cloned()
    }

    pub(super) fn object<'a>(&mut self, at: At<'a>, name: &str) -> Option<&'a Map<String, Value>> {
        self.keyword(at, name, "an object", Value::as_object)
    }

    pub(super) fn list<'a>(&mut self, at: At<'a>, name: &str) -> &'a [Value] {
        self.keyword(at, name, "a list", |value| value.as_array().map(Vec::as_slice))
            .unwrap_or_default()
    }

    /// A list of strings.
    pub(super) fn names(&mut self, at: At<'_>, name: &str) -> Vec<String> {
        let path = at.path.field(name);
        let mut names = Vec::new();
        for (index, value) in self.list(at, name).iter().enumerate() {
            match value.as_str() {
                Some(text) => names.push(text.to_owned()),
                None => {
                    let message = format!("expected a string, found {}", describe(value));
                    self.findings.push(&path.index(index), Problem::TypeInvalid, message);
                }
            }
        }
        names
    }

    fn keyword<'a, T>(
        &mut self,
        at: At<'a>,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = at.get(name)?;
        let found = read(value);
        if found.is_none() {
            let message = format!("expected {expected}, found {}", describe(value));
            self.findings.push(&at.path.field(name), Problem::TypeInvalid, message);
        }
        found
    }
}
