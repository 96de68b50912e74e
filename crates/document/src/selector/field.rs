//! Field selectors: `metadata.name=web,spec.node!=edge-1`. A comma, an equals sign or a backslash
//! in a value is written with a backslash before it.

use std::fmt;

use serde_json::Value;
use tombolo_model::suggest::did_you_mean;

use super::{Error, REQUIREMENTS_MAX, check_length, shown, syntax};
use crate::jsonpath::{self, Path};

/// Every kind can be selected by these.
const ALWAYS: &[&str] = &["metadata.name", "metadata.namespace"];

/// All requirements must hold; none selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    field: String,
    path: Path,
    comparison: Comparison,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Comparison {
    Equal,
    NotEqual,
}

impl FieldSelector {
    /// `kind` is for the message; `selectable` are the fields beside name and namespace.
    pub fn parse(
        selector: &str,
        kind: &str,
        selectable: &[String],
    ) -> Result<FieldSelector, Error> {
        check_length("field", selector)?;
        let mut requirements = Vec::new();
        for (start, term) in terms(selector) {
            if requirements.len() == REQUIREMENTS_MAX {
                let problem = format!("a selector has at most {REQUIREMENTS_MAX} requirements");
                return Err(syntax("field", selector, start, problem));
            }
            let (field, comparison, value) = split(term)
                .map_err(|(offset, problem)| syntax("field", selector, start + offset, problem))?;
            let allowed = ALWAYS.contains(&field) || selectable.iter().any(|name| name == field);
            if !allowed {
                return Err(unknown_field(selector, field, kind, selectable));
            }
            let path = Path::parse(field)
                .map_err(|error| syntax("field", selector, start, error.to_string()))?;
            requirements.push(Requirement { field: field.to_owned(), path, comparison, value });
        }
        requirements.sort_by(|a, b| {
            (&a.field, a.comparison, &a.value).cmp(&(&b.field, b.comparison, &b.value))
        });
        Ok(FieldSelector { requirements })
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that `field` must have, if the selector says so: a list by `metadata.name` need
    /// look at one object only.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|wanted| wanted.field == field && wanted.comparison == Comparison::Equal)
            .map(|wanted| wanted.value.as_str())
    }

    /// Whether `object` passes. A field that is missing counts as empty.
    pub fn matches(&self, object: &Value) -> bool {
        self.requirements.iter().all(|requirement| {
            let found = requirement.path.first(object).map(jsonpath::text).unwrap_or_default();
            match requirement.comparison {
                Comparison::Equal => found == requirement.value,
                Comparison::NotEqual => found != requirement.value,
            }
        })
    }
}

impl fmt::Display for FieldSelector {
    /// In the canonical form: sorted by field.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let sign = match requirement.comparison {
                Comparison::Equal => "=",
                Comparison::NotEqual => "!=",
            };
            write!(formatter, "{comma}{}{sign}{}", requirement.field, escape(&requirement.value))?;
        }
        Ok(())
    }
}

/// The terms between commas that are not escaped, each with its place; empty ones are left out.
fn terms(selector: &str) -> Vec<(usize, &str)> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (position, character) in selector.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push((start, &selector[start..position]));
                start = position + 1;
            }
            _ => (),
        }
    }
    terms.push((start, &selector[start..]));
    terms.retain(|(_, term)| !term.is_empty());
    terms
}

/// The field, the sign and the value of one term; or what is wrong, and at which byte of it.
fn split(term: &str) -> Result<(&str, Comparison, String), (usize, String)> {
    let Some(position) = term.find(['=', '!']) else {
        return Err((0, format!("{term:?} has no =, == or != in it")));
    };
    let (field, rest) = term.split_at(position);
    for (sign, comparison) in
        [("!=", Comparison::NotEqual), ("==", Comparison::Equal), ("=", Comparison::Equal)]
    {
        if let Some(value) = rest.strip_prefix(sign) {
            let value_start = position + sign.len();
            let value = unescape(value)
                .map_err(|(offset, problem)| (value_start + offset, problem.to_owned()))?;
            return Ok((field.trim(), comparison, value));
        }
    }
    Err((position, "expected =, == or !=, found a lone !".to_owned()))
}

fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

fn unescape(value: &str) -> Result<String, (usize, &'static str)> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.char_indices();
    while let Some((position, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, escaped @ ('\\' | ',' | '='))) => plain.push(escaped),
                _ => return Err((position, r"a backslash stands before `,`, `=` or `\` only")),
            },
            '=' => return Err((position, r"an equals sign in a value is written `\=`")),
            _ => plain.push(character),
        }
    }
    Ok(plain)
}

fn unknown_field(selector: &str, field: &str, kind: &str, selectable: &[String]) -> Error {
    let allowed: Vec<&str> =
        ALWAYS.iter().copied().chain(selectable.iter().map(String::as_str)).collect();
    let nearest = did_you_mean(field, allowed.iter().copied());
    Error::UnknownField {
        selector: shown(selector),
        field: shown(field),
        kind: kind.to_owned(),
        nearest,
        allowed: allowed.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn selectable() -> Vec<String> {
        ["spec.node", "spec.replicas", "spec.text"].map(str::to_owned).to_vec()
    }

    /// The canonical form of the selector, then which of three sample objects it selects.
    #[track_caller]
    fn check(selector: &str, expect: Expect) {
        let samples = [
            json!({"metadata": {"name": "a", "namespace": "x"}, "spec": {"node": "n1", "replicas": 3}}),
            json!({"metadata": {"name": "b", "namespace": "x"}, "spec": {"node": "n2", "text": r"1=1, \o/"}}),
            json!({"metadata": {"name": "c", "namespace": "y"}}),
        ];
        expect.assert_eq(&match FieldSelector::parse(selector, "App", &selectable()) {
            Ok(selector) => {
                let selected: Vec<&str> = samples
                    .iter()
                    .filter(|object| selector.matches(object))
                    .filter_map(|object| object["metadata"]["name"].as_str())
                    .collect();
                format!("{selector} -> {}", selected.join(" "))
            }
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn selects_by_fields() {
        check("", expect![" -> a b c"]);
        check("metadata.name=a", expect!["metadata.name=a -> a"]);
        check("metadata.name==a", expect!["metadata.name=a -> a"]);
        check(
            "spec.node!=n1,metadata.namespace=x",
            expect!["metadata.namespace=x,spec.node!=n1 -> b"],
        );
        check("spec.replicas=3", expect!["spec.replicas=3 -> a"]);
        check("spec.node=", expect!["spec.node= -> c"]);
        check(r"spec.text=1\=1\, \\o/", expect![[r#"spec.text=1\=1\, \\o/ -> b"#]]);
        check("metadata.name=a,", expect!["metadata.name=a -> a"]);
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        check(
            "spec.nodes=n1",
            expect![[
                r#"the field selector "spec.nodes=n1" names the field "spec.nodes", which App cannot be selected by (did you mean "spec.node"?); these can be used: metadata.name, metadata.namespace, spec.node, spec.replicas, spec.text"#
            ]],
        );
        check(
            "status.phase=Running",
            expect![[
                r#"the field selector "status.phase=Running" names the field "status.phase", which App cannot be selected by; these can be used: metadata.name, metadata.namespace, spec.node, spec.replicas, spec.text"#
            ]],
        );
        check(
            "metadata.name",
            expect![[
                r#"the field selector "metadata.name" is wrong at character 1: "metadata.name" has no =, == or != in it"#
            ]],
        );
        check(
            "metadata.name=a,spec.node!n1",
            expect![[
                r#"the field selector "metadata.name=a,spec.node!n1" is wrong at character 26: expected =, == or !=, found a lone !"#
            ]],
        );
        check(
            "spec.text=1=1",
            expect![[
                r#"the field selector "spec.text=1=1" is wrong at character 12: an equals sign in a value is written `\=`"#
            ]],
        );
        check(
            r"metadata.name=a,spec.text=1\n",
            expect![[
                r#"the field selector "metadata.name=a,spec.text=1\\n" is wrong at character 28: a backslash stands before `,`, `=` or `\` only"#
            ]],
        );
        check(
            r"spec.text=1\",
            expect![[
                r#"the field selector "spec.text=1\\" is wrong at character 12: a backslash stands before `,`, `=` or `\` only"#
            ]],
        );
        check(
            "=a",
            expect![[
                r#"the field selector "=a" names the field "", which App cannot be selected by; these can be used: metadata.name, metadata.namespace, spec.node, spec.replicas, spec.text"#
            ]],
        );
    }

    #[test]
    fn tells_the_one_name_that_it_asks_for() {
        let parse = |text| FieldSelector::parse(text, "App", &[]).unwrap();
        assert_eq!(
            parse("metadata.namespace=x,metadata.name=a").required("metadata.name"),
            Some("a")
        );
        assert_eq!(parse("metadata.name!=a").required("metadata.name"), None);
    }

    proptest! {
        #[test]
        fn never_panics_and_what_it_prints_means_the_same(
            any in ".{0,64}",
            good in r"((spec\.node|metadata\.name)(=|==|!=)([a-z]|\\\\|\\,|\\=){0,4},){0,4}",
            value in ".{0,16}",
        ) {
            let value = format!("spec.text={}", escape(&value));
            for text in [any, good, value] {
                if let Ok(selector) = FieldSelector::parse(&text, "App", &selectable()) {
                    let printed = selector.to_string();
                    let again = FieldSelector::parse(&printed, "App", &selectable()).unwrap();
                    prop_assert_eq!(again, selector);
                }
            }
        }
    }
}
