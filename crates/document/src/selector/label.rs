//! Label selectors: `app=web, tier!=db, zone in (a, b), stage notin (test), gpu, !spot, cores>4`.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::{Error, REQUIREMENTS_MAX, check_length, syntax};

/// All requirements must hold; none selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// In the order of their keys, so that selectors that mean the same print the same.
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    pub key: String,
    pub rule: Rule,
}

/// As everywhere in Kubernetes, an object without the label passes `NotEqual` and `NotIn`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Exists,
    Absent,
    Equal(String),
    NotEqual(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    pub fn parse(selector: &str) -> Result<LabelSelector, Error> {
        check_length("label", selector)?;
        let mut parser = Parser { selector, position: 0 };
        let mut requirements = parser.requirements()?;
        requirements.sort();
        Ok(LabelSelector { requirements })
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the labels of `object` (the whole object) pass.
    pub fn matches(&self, object: &Value) -> bool {
        if self.is_empty() {
            return true;
        }
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        self.matches_labels(|key| labels?.get(key)?.as_str())
    }

    /// The same, for labels kept in any way.
    pub fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.rule.admits(label(&requirement.key)))
    }
}

impl Rule {
    fn admits(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Rule::Exists => value.is_some(),
            Rule::Absent => value.is_none(),
            Rule::Equal(wanted) => value == Some(wanted),
            Rule::NotEqual(unwanted) => value != Some(unwanted),
            Rule::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            Rule::NotIn(unwanted) => !value.is_some_and(|value| unwanted.contains(value)),
            Rule::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Rule::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl fmt::Display for LabelSelector {
    /// In the canonical form: sorted by key, without spaces that are not needed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.rule {
            Rule::Exists => write!(formatter, "{key}"),
            Rule::Absent => write!(formatter, "!{key}"),
            Rule::Equal(value) => write!(formatter, "{key}={value}"),
            Rule::NotEqual(value) => write!(formatter, "{key}!={value}"),
            Rule::In(values) => write!(formatter, "{key} in ({})", listed(values)),
            Rule::NotIn(values) => write!(formatter, "{key} notin ({})", listed(values)),
            Rule::GreaterThan(bound) => write!(formatter, "{key}>{bound}"),
            Rule::LessThan(bound) => write!(formatter, "{key}<{bound}"),
        }
    }
}

fn listed(values: &BTreeSet<String>) -> String {
    // `()` holds no value at all; the empty value alone is `(,)`.
    if values.len() == 1 && values.contains("") {
        return ",".to_owned();
    }
    values.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

struct Parser<'a> {
    selector: &'a str,
    /// In bytes, always at the start of a character.
    position: usize,
}

impl<'a> Parser<'a> {
    fn requirements(&mut self) -> Result<Vec<Requirement>, Error> {
        let mut requirements = Vec::new();
        self.spaces();
        while self.position < self.selector.len() {
            if requirements.len() == REQUIREMENTS_MAX {
                let problem = format!("a selector has at most {REQUIREMENTS_MAX} requirements");
                return Err(self.error(self.position, problem));
            }
            requirements.push(self.requirement()?);
            self.spaces();
            if !self.take(",") {
                break;
            }
            self.spaces();
            if self.position == self.selector.len() {
                return Err(self.error(self.position, "expected a label key after the comma"));
            }
        }
        if self.position < self.selector.len() {
            return Err(self.error(
                self.position,
                format!("expected a comma or the end, found {:?}", self.shown_next()),
            ));
        }
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let absent = self.take("!");
        self.spaces();
        let start = self.position;
        let key = self.word();
        check_key(key).map_err(|problem| self.error(start, problem))?;
        let rule = if absent { Rule::Absent } else { self.rule()? };
        Ok(Requirement { key: key.to_owned(), rule })
    }

    fn rule(&mut self) -> Result<Rule, Error> {
        self.spaces();
        let start = self.position;
        if start == self.selector.len() || self.rest().starts_with(',') {
            return Ok(Rule::Exists);
        }
        if self.take("!=") {
            return Ok(Rule::NotEqual(self.value()?));
        }
        if self.take("==") || self.take("=") {
            return Ok(Rule::Equal(self.value()?));
        }
        if self.take(">") {
            return Ok(Rule::GreaterThan(self.number()?));
        }
        if self.take("<") {
            return Ok(Rule::LessThan(self.number()?));
        }
        match self.word() {
            "in" => Ok(Rule::In(self.values()?)),
            "notin" => Ok(Rule::NotIn(self.values()?)),
            other => {
                let found = if other.is_empty() { self.shown_next() } else { other.to_owned() };
                Err(self.error(
                    start,
                    format!(
                        "expected one of =, ==, !=, in, notin, <, > or a comma, found {found:?}"
                    ),
                ))
            }
        }
    }

    fn value(&mut self) -> Result<String, Error> {
        self.spaces();
        let start = self.position;
        let value = self.word();
        check_value(value).map_err(|problem| self.error(start, problem))?;
        Ok(value.to_owned())
    }

    fn number(&mut self) -> Result<i64, Error> {
        self.spaces();
        let start = self.position;
        let word = self.word();
        word.parse().map_err(|_| {
            self.error(start, format!("< and > compare whole numbers, found {word:?}"))
        })
    }

    fn values(&mut self) -> Result<BTreeSet<String>, Error> {
        self.spaces();
        let start = self.position;
        if !self.take("(") {
            let problem = "expected a list of values in parentheses, such as (a, b)";
            return Err(self.error(start, problem));
        }
        self.spaces();
        if self.rest().starts_with(')') {
            return Err(self.error(start, "the list must hold at least one value"));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            self.spaces();
            if self.take(")") {
                return Ok(values);
            }
            if self.position == self.selector.len() {
                return Err(self.error(start, "this parenthesis is never closed"));
            }
            if !self.take(",") {
                let problem = format!("expected a comma or `)`, found {:?}", self.shown_next());
                return Err(self.error(self.position, problem));
            }
        }
    }

    /// Up to the next space or sign; may be empty.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end =
            rest.find(|c: char| c.is_whitespace() || "=!,()<>".contains(c)).unwrap_or(rest.len());
        self.position += end;
        &rest[..end]
    }

    fn rest(&self) -> &'a str {
        &self.selector[self.position..]
    }

    fn take(&mut self, expected: &str) -> bool {
        let there = self.rest().starts_with(expected);
        if there {
            self.position += expected.len();
        }
        there
    }

    fn spaces(&mut self) {
        self.position = self.selector.len() - self.rest().trim_start().len();
    }

    fn shown_next(&self) -> String {
        self.rest().chars().take(1).collect()
    }

    fn error(&self, position: usize, problem: impl Into<String>) -> Error {
        syntax("label", self.selector, position, problem.into())
    }
}

/// A key is a name of 63 characters, which a DNS domain and a slash may precede.
fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err("expected a label key".to_owned());
    }
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let domain_is_good = domain.is_none_or(|domain| {
        domain.len() <= 253
            && domain.split('.').all(|part| {
                is_alphanumeric_at_both_ends(part)
                    && part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            })
    });
    if domain_is_good && is_label_name(name) {
        return Ok(());
    }
    Err(format!(
        "{key:?} is not a label key: it takes 1 to 63 letters, digits, `-`, `_` or `.`, with a \
         letter or digit at both ends, and may begin with a lower-case domain and a slash \
         (example.com/name)"
    ))
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_label_name(value) {
        return Ok(());
    }
    Err(format!(
        "{value:?} is not a label value: it takes up to 63 letters, digits, `-`, `_` or `.`, with \
         a letter or digit at both ends"
    ))
}

fn is_label_name(name: &str) -> bool {
    name.len() <= 63
        && is_alphanumeric_at_both_ends(name)
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_alphanumeric_at_both_ends(text: &str) -> bool {
    let good = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    good(text.bytes().next()) && good(text.bytes().next_back())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The canonical form of the selector, then which of four sample objects it selects.
    #[track_caller]
    fn check(selector: &str, expect: Expect) {
        let samples = [
            ("web", json!({"metadata": {"labels": {"app": "web", "zone": "a", "cores": "8"}}})),
            ("db", json!({"metadata": {"labels": {"app": "db", "zone": "b", "cores": "many"}}})),
            ("empty", json!({"metadata": {"labels": {"app": "", "example.com/gpu": "yes"}}})),
            ("bare", json!({"metadata": {}})),
        ];
        expect.assert_eq(&match LabelSelector::parse(selector) {
            Ok(selector) => {
                let selected: Vec<&str> = samples
                    .iter()
                    .filter(|(_, object)| selector.matches(object))
                    .map(|(name, _)| *name)
                    .collect();
                format!("{selector} -> {}", selected.join(" "))
            }
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn selects_by_every_operator() {
        check("", expect![" -> web db empty bare"]);
        check("app=web", expect!["app=web -> web"]);
        check(" app == web ", expect!["app=web -> web"]);
        check("app=", expect!["app= -> empty"]);
        check("app!=web", expect!["app!=web -> db empty bare"]);
        check("zone in (a, b)", expect!["zone in (a,b) -> web db"]);
        check("zone in(a)", expect!["zone in (a) -> web"]);
        check("zone notin (a)", expect!["zone notin (a) -> db empty bare"]);
        check("app in (,)", expect!["app in (,) -> empty"]);
        check("zone", expect!["zone -> web db"]);
        check("!zone", expect!["!zone -> empty bare"]);
        check("! zone", expect!["!zone -> empty bare"]);
        check("cores>4", expect!["cores>4 -> web"]);
        check("cores < 9", expect!["cores<9 -> web"]);
        check("example.com/gpu", expect!["example.com/gpu -> empty"]);
        check(
            "zone,app=web, cores > 4 ,zone in (a,z)",
            expect!["app=web,cores>4,zone,zone in (a,z) -> web"],
        );
    }

    #[test]
    fn takes_operator_names_as_keys() {
        check("in in (a)", expect!["in in (a) -> "]);
        check("notin", expect!["notin -> "]);
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        check(
            "app=web,",
            expect![[
                r#"the label selector "app=web," is wrong at character 9: expected a label key after the comma"#
            ]],
        );
        check(
            ",app=web",
            expect![[
                r#"the label selector ",app=web" is wrong at character 1: expected a label key"#
            ]],
        );
        check(
            "app=web tier=db",
            expect![[
                r#"the label selector "app=web tier=db" is wrong at character 9: expected a comma or the end, found "t""#
            ]],
        );
        check(
            "app is web",
            expect![[
                r#"the label selector "app is web" is wrong at character 5: expected one of =, ==, !=, in, notin, <, > or a comma, found "is""#
            ]],
        );
        check(
            "app in",
            expect![[
                r#"the label selector "app in" is wrong at character 7: expected a list of values in parentheses, such as (a, b)"#
            ]],
        );
        check(
            "app in ()",
            expect![[
                r#"the label selector "app in ()" is wrong at character 8: the list must hold at least one value"#
            ]],
        );
        check(
            "app in (a",
            expect![[
                r#"the label selector "app in (a" is wrong at character 8: this parenthesis is never closed"#
            ]],
        );
        check(
            "app in (a b)",
            expect![[
                r#"the label selector "app in (a b)" is wrong at character 11: expected a comma or `)`, found "b""#
            ]],
        );
    }

    #[test]
    fn says_what_a_key_and_a_value_may_be() {
        check(
            "cores>many",
            expect![[
                r#"the label selector "cores>many" is wrong at character 7: < and > compare whole numbers, found "many""#
            ]],
        );
        check(
            "-app=web",
            expect![[
                r#"the label selector "-app=web" is wrong at character 1: "-app" is not a label key: it takes 1 to 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends, and may begin with a lower-case domain and a slash (example.com/name)"#
            ]],
        );
        check(
            "app=web!",
            expect![[
                r#"the label selector "app=web!" is wrong at character 8: expected a comma or the end, found "!""#
            ]],
        );
        check(
            "app=-x",
            expect![[
                r#"the label selector "app=-x" is wrong at character 5: "-x" is not a label value: it takes up to 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends"#
            ]],
        );
        check(
            "größe=1",
            expect![[
                r#"the label selector "größe=1" is wrong at character 1: "größe" is not a label key: it takes 1 to 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends, and may begin with a lower-case domain and a slash (example.com/name)"#
            ]],
        );
        check(
            "Bad.Domain/name",
            expect![[
                r#"the label selector "Bad.Domain/name" is wrong at character 1: "Bad.Domain/name" is not a label key: it takes 1 to 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends, and may begin with a lower-case domain and a slash (example.com/name)"#
            ]],
        );
        check(
            "(",
            expect![[r#"the label selector "(" is wrong at character 1: expected a label key"#]],
        );
        check(
            "!app=web",
            expect![[
                r#"the label selector "!app=web" is wrong at character 5: expected a comma or the end, found "=""#
            ]],
        );
    }

    #[test]
    fn refuses_more_than_its_limits() {
        check(
            &"a,".repeat(9000),
            expect!["the label selector has 18000 bytes; at most 16384 are allowed"],
        );
        let error = LabelSelector::parse(&"a,".repeat(200)).unwrap_err().to_string();
        assert!(error.ends_with("at most 128 requirements"), "{error}");
    }

    proptest! {
        #[test]
        fn never_panics_and_what_it_prints_means_the_same(
            any in ".{0,64}",
            near in "[a-c=!,()<> in1]{0,24}",
            good in r"((!?[a-z]{1,4}|[a-z]{1,3} (in|notin) \([a-z]{0,2},[a-z]{0,2}\)|[a-z]{1,3}(=|==|!=)[a-z]{0,2}|[a-z](<|>)-?[0-9]{1,3}), ?){0,5}z",
        ) {
            for text in [any, near, good] {
                if let Ok(selector) = LabelSelector::parse(&text) {
                    let printed = selector.to_string();
                    prop_assert_eq!(&LabelSelector::parse(&printed).unwrap(), &selector, "{}", printed);
                }
            }
        }
    }
}
