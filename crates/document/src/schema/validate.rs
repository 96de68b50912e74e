//! Checks a value against a [`Schema`]: the shape first, then the [`Rules`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Number, Value};
use tombolo_model::suggest::did_you_mean;

use tombolo_model::{Invalid, Problem};

use super::compare::{canonical, compare, equal, identity, is_multiple};
use super::findings::{Findings, describe, plural, quote, show};
use super::{Additional, Bound, EMBEDDED_FIELDS, ListKind, Path, Rules, Schema, Type, format};
use crate::number::is_whole;

/// Longer lists of allowed values are cut in messages.
const VALUES_SHOWN_MAX: usize = 12;

impl Schema {
    /// Everything that is wrong with `value`, up to
    /// [`FINDINGS_MAX`](super::FINDINGS_MAX). Unknown fields are not looked for here: they are
    /// dropped or reported before.
    pub fn validate(&self, value: &Value, path: &Path<'_>) -> Vec<Invalid> {
        let mut findings = Findings::default();
        self.check(value, path, &mut findings);
        findings.into_vec()
    }

    fn check(&self, value: &Value, path: &Path<'_>, findings: &mut Findings) {
        if findings.is_full() || (value.is_null() && self.takes_null()) {
            return;
        }
        if !self.takes_type_of(value) {
            let message = format!("expected {}, found {}", self.expected(), describe(value));
            findings.push(path, Problem::TypeInvalid, message);
            return;
        }
        self.rules.check(value, path, findings);
        match value {
            Value::Object(object) => self.check_object(object, path, findings),
            Value::Array(items) => self.check_items(items, path, findings),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
        }
    }

    /// A node without a type takes any JSON, null among it.
    fn takes_null(&self) -> bool {
        self.nullable || (self.type_.is_none() && !self.int_or_string)
    }

    fn takes_type_of(&self, value: &Value) -> bool {
        match self.type_ {
            Some(type_) => is_of_type(value, type_),
            None if self.int_or_string => {
                is_of_type(value, Type::Integer) || is_of_type(value, Type::String)
            }
            None => true,
        }
    }

    fn expected(&self) -> &'static str {
        match self.type_ {
            Some(type_) => with_article(type_),
            None => "an integer or a string",
        }
    }

    fn check_object(&self, object: &Map<String, Value>, path: &Path<'_>, findings: &mut Findings) {
        if self.embedded_resource {
            check_embedded(object, path, findings);
        }
        for (key, value) in object {
            let property = self.properties.get(key);
            match (property, &self.additional) {
                (Some(schema), _) => schema.check(value, &path.field(key), findings),
                (None, Additional::Each(schema)) => {
                    schema.check(value, &path.field(key), findings);
                }
                (None, Additional::Nothing | Additional::Anything) => (),
            }
        }
    }

    fn check_items(&self, items: &[Value], path: &Path<'_>, findings: &mut Findings) {
        if let Some(schema) = &self.items {
            for (index, item) in items.iter().enumerate() {
                schema.check(item, &path.index(index), findings);
            }
        }
        match &self.list {
            ListKind::Atomic => (),
            ListKind::Set => check_once(items.iter().map(canonical), path, findings, |index| {
                format!("is the same as item {index}: each value may be there only once")
            }),
            ListKind::Map(keys) => {
                let identities = items.iter().map(|item| identity(item, keys));
                check_once(identities, path, findings, |index| {
                    let keys = keys.join(", ");
                    format!("has the same {keys} as item {index}: no two items may share it")
                });
            }
        }
    }
}

impl Rules {
    fn check(&self, value: &Value, path: &Path<'_>, findings: &mut Findings) {
        if let Some(type_) = self.type_
            && !is_of_type(value, type_)
        {
            let message = format!("expected {}, found {}", with_article(type_), describe(value));
            findings.push(path, Problem::TypeInvalid, message);
        }
        if let Some(values) = &self.values
            && !values.iter().any(|allowed| equal(allowed, value))
        {
            findings.push(path, Problem::NotSupported, not_among(value, values));
        }
        match value {
            Value::Number(number) => self.check_number(number, path, findings),
            Value::String(text) => self.check_text(text, path, findings),
            Value::Array(items) => self.check_list(items, path, findings),
            Value::Object(object) => self.check_map(object, path, findings),
            Value::Null | Value::Bool(_) => (),
        }
        if let Some(name) = &self.format
            && let Some(expected) = format::mismatch(name, value)
        {
            let message = format!("{} is not {expected} (format {name})", show(value));
            findings.push(path, Problem::Invalid, message);
        }
        self.check_branches(value, path, findings);
    }

    fn check_number(&self, number: &Number, path: &Path<'_>, findings: &mut Findings) {
        if let Some(Bound { value: least, exclusive }) = &self.minimum {
            let (fits, words) = match exclusive {
                true => (compare(number, least) == Ordering::Greater, "greater than"),
                false => (compare(number, least) != Ordering::Less, "at least"),
            };
            if !fits {
                let message = format!("{number} is too small: it must be {words} {least}");
                findings.push(path, Problem::Invalid, message);
            }
        }
        if let Some(Bound { value: most, exclusive }) = &self.maximum {
            let (fits, words) = match exclusive {
                true => (compare(number, most) == Ordering::Less, "less than"),
                false => (compare(number, most) != Ordering::Greater, "at most"),
            };
            if !fits {
                let message = format!("{number} is too large: it must be {words} {most}");
                findings.push(path, Problem::Invalid, message);
            }
        }
        if let Some(step) = &self.multiple_of
            && !is_multiple(number, step)
        {
            let message = format!("{number} is not a multiple of {step}");
            findings.push(path, Problem::Invalid, message);
        }
    }

    fn check_text(&self, text: &str, path: &Path<'_>, findings: &mut Findings) {
        if self.length_min.is_some() || self.length_max.is_some() {
            let range = (self.length_min, self.length_max);
            check_count(text.chars().count(), "character", range, path, findings);
        }
        if let Some(pattern) = &self.pattern
            && !pattern.regex.is_match(text)
        {
            let message =
                format!("{} does not match the pattern {}", quote(text), quote(&pattern.source));
            findings.push(path, Problem::Invalid, message);
        }
    }

    fn check_list(&self, items: &[Value], path: &Path<'_>, findings: &mut Findings) {
        check_count(items.len(), "item", (self.items_min, self.items_max), path, findings);
        if let Some(rules) = &self.items {
            for (index, item) in items.iter().enumerate() {
                if findings.is_full() {
                    return;
                }
                rules.check(item, &path.index(index), findings);
            }
        }
    }

    fn check_map(&self, object: &Map<String, Value>, path: &Path<'_>, findings: &mut Findings) {
        let range = (self.properties_min, self.properties_max);
        check_count(object.len(), "entry", range, path, findings);
        for name in self.required.iter().filter(|name| !object.contains_key(*name)) {
            findings.push(&path.field(name), Problem::Required, "a value is required");
        }
        for (name, rules) in &self.properties {
            if let Some(value) = object.get(name) {
                rules.check(value, &path.field(name), findings);
            }
        }
    }

    fn check_branches(&self, value: &Value, path: &Path<'_>, findings: &mut Findings) {
        for rules in &self.all_of {
            rules.check(value, path, findings);
        }
        if !self.any_of.is_empty() && !self.any_of.iter().any(|rules| rules.admits(value)) {
            misfit("anyOf", &self.any_of, value, path, findings);
        }
        if !self.one_of.is_empty() {
            let fitting = self.one_of.iter().filter(|rules| rules.admits(value)).count();
            match fitting {
                0 => misfit("oneOf", &self.one_of, value, path, findings),
                1 => (),
                _ => {
                    let message = format!(
                        "{fitting} of the {} forms (oneOf) fit, exactly one must",
                        self.one_of.len()
                    );
                    findings.push(path, Problem::Invalid, message);
                }
            }
        }
        if let Some(rules) = &self.not
            && rules.admits(value)
        {
            let message = format!("{} is of a form that is not allowed (not)", describe(value));
            findings.push(path, Problem::Invalid, message);
        }
    }

    fn admits(&self, value: &Value) -> bool {
        let mut findings = Findings::up_to(1);
        self.check(value, &Path::ROOT, &mut findings);
        findings.is_empty()
    }
}

/// None of the branches fits. The one that comes nearest tells what is missing.
fn misfit(
    keyword: &str,
    branches: &[Rules],
    value: &Value,
    path: &Path<'_>,
    findings: &mut Findings,
) {
    let attempts = branches.iter().map(|rules| {
        let mut attempt = Findings::default();
        rules.check(value, path, &mut attempt);
        attempt
    });
    let Some(nearest) = attempts.min_by_key(Findings::len) else { return };
    let reasons: Vec<String> = nearest
        .into_vec()
        .into_iter()
        .take(3)
        .map(|Invalid { field, message, .. }| format!("{field}: {message}"))
        .collect();
    let reasons = reasons.join("; ");
    let message = format!(
        "none of the {} forms ({keyword}) fits; for the nearest, {reasons}",
        branches.len()
    );
    findings.push(path, Problem::Invalid, message);
}

fn check_embedded(object: &Map<String, Value>, path: &Path<'_>, findings: &mut Findings) {
    for name in EMBEDDED_FIELDS.iter().filter(|name| **name != "metadata") {
        let path = path.field(name);
        match object.get(*name) {
            Some(Value::String(text)) if !text.is_empty() => (),
            Some(Value::String(_)) | None => {
                findings.push(&path, Problem::Required, "a value is required");
            }
            Some(other) => {
                let message = format!("expected a string, found {}", describe(other));
                findings.push(&path, Problem::TypeInvalid, message);
            }
        }
    }
    if let Some(metadata) = object.get("metadata").filter(|metadata| !metadata.is_object()) {
        let message = format!("expected an object, found {}", describe(metadata));
        findings.push(&path.field("metadata"), Problem::TypeInvalid, message);
    }
}

/// Tells of each item whose identity an earlier one has too.
fn check_once(
    identities: impl Iterator<Item = String>,
    path: &Path<'_>,
    findings: &mut Findings,
    message: impl Fn(usize) -> String,
) {
    let mut first = BTreeMap::new();
    for (index, identity) in identities.enumerate() {
        match first.entry(identity) {
            Entry::Vacant(entry) => {
                entry.insert(index);
            }
            Entry::Occupied(entry) => {
                findings.push(&path.index(index), Problem::Duplicate, message(*entry.get()));
            }
        }
    }
}

fn check_count(
    count: usize,
    word: &str,
    (min, max): (Option<u64>, Option<u64>),
    path: &Path<'_>,
    findings: &mut Findings,
) {
    let count = count as u64;
    if let Some(min) = min.filter(|min| count < *min) {
        let message = format!("has {}, at least {min} needed", plural(count, word));
        findings.push(path, Problem::Invalid, message);
    }
    if let Some(max) = max.filter(|max| count > *max) {
        let problem = match word {
            "character" => Problem::TooLong,
            _ => Problem::TooMany,
        };
        findings.push(path, problem, format!("has {}, at most {max} allowed", plural(count, word)));
    }
}

fn not_among(value: &Value, allowed: &[Value]) -> String {
    let mut names: Vec<String> = allowed.iter().take(VALUES_SHOWN_MAX).map(show).collect();
    if allowed.len() > VALUES_SHOWN_MAX {
        names.push("…".to_owned());
    }
    let hint = match value {
        Value::String(text) => did_you_mean(text, allowed.iter().filter_map(Value::as_str)),
        _ => String::new(),
    };
    format!("{} is not supported, use one of {}{hint}", show(value), names.join(", "))
}

fn is_of_type(value: &Value, type_: Type) -> bool {
    match type_ {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        // 3.0 is a whole number to JSON.
        Type::Integer => value
            .as_number()
            .is_some_and(|number| number.is_i64() || number.as_f64().is_some_and(is_whole)),
    }
}

fn with_article(type_: Type) -> &'static str {
    match type_ {
        Type::Object => "an object",
        Type::Array => "a list",
        Type::String => "a string",
        Type::Integer => "an integer",
        Type::Number => "a number",
        Type::Boolean => "true or false",
    }
}
