//! Fills in `{{…}}`, as ICOS does: variables, the subject's selector and list, `subject.appName` and the
//! like. A placeholder that nothing fills is a problem at its place.

use std::collections::BTreeMap;

use tombolo_model::suggest;

use crate::Problem;

/// A text that is filled in, and where each piece of it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// Where a piece begins here, and where in the source.
    pieces: Vec<(usize, usize)>,
    source: String,
}

impl Rendered {
    /// A problem at a byte of the rendered text, told at its place in the source.
    pub(crate) fn problem(&self, path: &str, byte: usize, message: &str) -> Problem {
        let piece = self.pieces.iter().rev().find(|(here, _)| *here <= byte);
        let (here, there) = piece.copied().unwrap_or_default();
        let next = self.pieces.iter().map(|(_, there)| *there).find(|at| *at > there);
        let place = (there + byte.saturating_sub(here)).min(next.unwrap_or(self.source.len()));
        Problem::at(path, &self.source, place, message)
    }
}

/// A placeholder: from, to, and the name in it.
struct Found<'a> {
    from: usize,
    to: usize,
    name: &'a str,
    /// Written apart, `{ {name} }`, as some descriptors have it.
    apart: bool,
}

/// The names of all placeholders of a text, in order.
pub fn placeholders(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(found) = next(text, at) {
        names.push(found.name);
        at = found.to;
    }
    names
}

/// Fills in a text. `path` is the field that it stands in.
pub fn render(
    text: &str,
    values: &BTreeMap<String, String>,
    path: &str,
) -> Result<Rendered, Problem> {
    let mut rendered =
        Rendered { text: String::new(), pieces: vec![(0, 0)], source: text.to_owned() };
    let mut at = 0;
    while let Some(found) = next(text, at) {
        let name = found.name;
        rendered.text.push_str(&text[at..found.from]);
        let value = match values.get(name) {
            Some(value) => value,
            // In PromQL nothing else looks like this, but the text need not be meant as one of ours.
            None if found.apart => {
                rendered.text.push_str(&text[found.from..found.to]);
                at = found.to;
                continue;
            }
            None => {
                let known = values.keys().map(String::as_str);
                let meant = suggest::did_you_mean(name, known);
                let message = format!("the variable {name:?} has no value{meant}");
                return Err(Problem::at(path, text, found.from, message));
            }
        };
        if in_quotes(&rendered.text) && value.contains(['"', '\\', '\n']) {
            let message = format!("the value of {name:?} would end or change the text around it");
            return Err(Problem::at(path, text, found.from, message));
        }
        // `{{{` is a brace and a placeholder; Jinja wants a blank between, and PromQL takes one.
        rendered.pieces.push((rendered.text.len(), found.from));
        rendered.text.push_str(value);
        rendered.pieces.push((rendered.text.len(), found.to));
        at = found.to;
    }
    if let Some(open) = text[at..].find("{{") {
        let message = "\"{{\" is not closed by \"}}\" with a name between";
        return Err(Problem::at(path, text, at + open, message));
    }
    rendered.text.push_str(&text[at..]);
    Ok(rendered)
}

fn in_quotes(text: &str) -> bool {
    let mut inside = false;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            _ => (),
        }
    }
    inside
}

fn next(text: &str, start: usize) -> Option<Found<'_>> {
    let bytes = text.as_bytes();
    let mut from = start;
    while from < bytes.len() {
        if bytes[from] == b'{'
            && let Some(found) = placeholder(text, from)
        {
            return Some(found);
        }
        from += 1;
    }
    None
}

fn placeholder(text: &str, from: usize) -> Option<Found<'_>> {
    let rest = text[from + 1..].trim_start();
    let apart = rest.len() != text.len() - from - 1;
    let inner = rest.strip_prefix('{')?.trim_start();
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))?;
    let (name, rest) = inner.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start().strip_prefix('}')?;
    let after = rest.trim_start();
    let closed_apart = after.len() != rest.len();
    let after = after.strip_prefix('}')?;
    Some(Found { from, to: text.len() - after.len(), name, apart: apart || closed_apart })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let values =
            [("sel", "a=\"b\""), ("max", "0.8"), ("bad", "x\"y"), ("subject.appName", "s")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let found = render(text, &values, "condition.expr");
        let found = found.map(|rendered| rendered.text).map_err(|problem| problem.to_string());
        assert_eq!(found.as_deref(), expected.map_err(str::to_owned).as_ref().copied(), "{text}");
    }

    #[test]
    fn placeholders_are_filled_in_as_icos_does() {
        check("up{ {{sel}} } > {{ max }}", Ok("up{ a=\"b\" } > 0.8"));
        check("up{{{sel}}}", Ok("up{a=\"b\"}"));
        check("up{x=\"1\",{{sel}}}", Ok("up{x=\"1\",a=\"b\"}"));
        check("up{ { {sel} } }", Ok("up{ a=\"b\" }"));
        check("up{a=\"{{subject.appName}}\"}", Ok("up{a=\"s\"}"));
        check("up{a=\"b\"}", Ok("up{a=\"b\"}"));
    }

    #[test]
    fn what_is_not_filled_in_is_told_at_its_place() {
        check(
            "up\n > {{maxx}}",
            Err("condition.expr:2:4: the variable \"maxx\" has no value (did you mean \"max\"?)"),
        );
        check(
            "up{a=\"{{bad}}\"}",
            Err("condition.expr:1:7: the value of \"bad\" would end or change the text around it"),
        );
        check(
            "up > {{max",
            Err("condition.expr:1:6: \"{{\" is not closed by \"}}\" with a name between"),
        );
    }

    #[test]
    fn a_fault_in_a_rendered_text_is_told_in_the_source() {
        let values = [("sel".to_owned(), "a=\"bbbbbbbbbb\"".to_owned())].into();
        let rendered = render("up{ {{sel}} } > nope(", &values, "expr").unwrap();
        let byte = rendered.text.find("nope").unwrap();
        assert_eq!(rendered.problem("expr", byte, "no").to_string(), "expr:1:17: no");
    }
}
