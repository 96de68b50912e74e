//! `label_replace` and `label_join`: they look at labels, and at no value.

use regex::Captures;

use super::{Error, Evaluator, Grid, Line, failed, merge};
use crate::labels::NAME;
use crate::matcher::compile;
use crate::promql::ast::{Call, Expr};

fn texts(call: &Call) -> Vec<&str> {
    call.arguments[1..]
        .iter()
        .map(|argument| match argument.bare() {
            Expr::Text { value, .. } => value.as_str(),
            _ => "",
        })
        .collect()
}

impl Evaluator<'_> {
    pub(super) fn label_replace(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let [target, template, source, pattern] = texts(call)[..] else {
            return failed("label_replace wants four texts");
        };
        let Ok(regex) = compile(&format!("^(?s:{pattern})$")) else {
            return failed(format!("invalid regular expression in label_replace(): {pattern}"));
        };
        // Bytes that are no text have become replacement characters.
        if target.is_empty() || target.contains(char::REPLACEMENT_CHARACTER) {
            return failed(format!("invalid destination label name in label_replace(): {target}"));
        }
        let mut lines = self.eval(&call.arguments[0], grid)?;
        for line in &mut lines {
            let captures = regex.captures(line.labels.get(source));
            if let Some(captures) = captures {
                let mut length = 0;
                expand(template, &captures, |part| length += part.len());
                self.take_label(target, length)?;
                let mut replaced = String::with_capacity(length);
                expand(template, &captures, |part| replaced.push_str(part));
                line.labels = line.labels.with(target, &replaced);
                line.drop_name &= target != NAME;
            }
        }
        merge(lines)
    }

    pub(super) fn label_join(&self, call: &Call, grid: &Grid) -> Result<Vec<Line>, Error> {
        let texts = texts(call);
        let [target, separator, sources @ ..] = &texts[..] else {
            return failed("label_join wants at least two texts");
        };
        if let Some(source) = sources.iter().find(|source| source.is_empty()) {
            return failed(format!("invalid source label name in label_join(): {source}"));
        }
        if target.is_empty() {
            return failed(format!("invalid destination label name in label_join(): {target}"));
        }
        let mut lines = self.eval(&call.arguments[0], grid)?;
        for line in &mut lines {
            let values: Vec<&str> = sources.iter().map(|source| line.labels.get(source)).collect();
            let between = separator.len() * values.len().saturating_sub(1);
            self.take_label(
                target,
                values.iter().map(|value| value.len()).sum::<usize>() + between,
            )?;
            line.labels = line.labels.with(target, &values.join(separator));
            line.drop_name &= *target != NAME;
        }
        merge(lines)
    }

    /// Room for a label that a query makes, asked for before the label is made.
    fn take_label(&self, name: &str, length: usize) -> Result<(), Error> {
        if length > VALUE_MAX {
            return failed(format!(
                "label {name:?} would get a value of {length} bytes; a query makes none over {VALUE_MAX}"
            ));
        }
        // A step is a number of eight bytes.
        self.budget.take_steps(((name.len() + length) / 8) as u64)?;
        Ok(())
    }
}

/// The longest value that a query gives to a label. Joined with itself a few times over, a label would
/// otherwise take all memory.
const VALUE_MAX: usize = 64 << 10;

/// `$1`, `${1}`, `$name` and `$$` as Go's regular expressions expand them, part by part.
fn expand(template: &str, captures: &Captures<'_>, mut put: impl FnMut(&str)) {
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        put(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix('$') {
            put("$");
            rest = tail;
            continue;
        }
        let braced = rest.starts_with('{');
        let start = &rest[usize::from(braced)..];
        let end = start.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(start.len());
        let (name, tail) = start.split_at(end);
        let closed = !braced || tail.starts_with('}');
        if name.is_empty() || !closed {
            // No name: the sign stands for itself.
            put("$");
            continue;
        }
        rest = &tail[usize::from(braced)..];
        let found = match name.parse::<usize>() {
            Ok(number) => captures.get(number),
            Err(_) => captures.name(name),
        };
        put(found.map_or("", |found| found.as_str()));
    }
    put(rest);
}
