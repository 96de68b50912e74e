//! Reads the [`Rules`] of a node, and of the branches of `allOf`, `anyOf`, `oneOf` and `not`.

use std::collections::BTreeMap;

use regex::RegexBuilder;
use serde_json::Value;

use tombolo_model::Problem;

use super::compare::numbers_in_order;
use super::compile::Compiler;
use super::findings::quote;
use super::keywords::Place;
use super::read::At;
use super::{Additional, Bound, Path, Pattern, Rules, Schema};

/// Enough for every pattern met so far, and little enough that thousands of them fit in memory.
const PATTERN_PROGRAM_BYTES_MAX: usize = 1 << 20;

const PATTERN_BYTES_MAX: usize = 8 << 10;

/// Which way a bound bounds.
#[derive(Clone, Copy)]
enum End {
    Lower,
    Upper,
}

impl Compiler {
    /// The rules said at `at` about a value of the shape `schema`.
    pub(super) fn rules(&mut self, at: At<'_>, schema: &Schema) -> Rules {
        if self.flag(at, "uniqueItems") {
            let message = "true is not allowed, because it compares each item with each other: \
                           use x-kubernetes-list-type: set";
            self.findings.push(&at.path.field("uniqueItems"), Problem::Forbidden, message);
        }
        let rules = Rules {
            required: self.names(at, "required"),
            values: self.values(at),
            minimum: self.bound(at, End::Lower),
            maximum: self.bound(at, End::Upper),
            multiple_of: self.number(at, "multipleOf"),
            length_min: self.count(at, "minLength"),
            length_max: self.count(at, "maxLength"),
            pattern: self.pattern(at),
            format: self.text(at, "format").map(str::to_owned),
            items_min: self.count(at, "minItems"),
            items_max: self.count(at, "maxItems"),
            properties_min: self.count(at, "minProperties"),
            properties_max: self.count(at, "maxProperties"),
            all_of: self.branches(at, "allOf", schema),
            any_of: self.branches(at, "anyOf", schema),
            one_of: self.branches(at, "oneOf", schema),
            not: self.negation(at, schema),
            ..Rules::default()
        };
        self.check_ranges(at, &rules);
        rules
    }

    fn branches(&mut self, at: At<'_>, name: &str, schema: &Schema) -> Vec<Rules> {
        let path = at.path.field(name);
        self.list(at, name)
            .iter()
            .enumerate()
            .map(|(index, value)| self.branch(value, &path.index(index), at.depth + 1, schema))
            .collect()
    }

    fn negation(&mut self, at: At<'_>, schema: &Schema) -> Option<Box<Rules>> {
        let path = at.path.field("not");
        let value = at.get("not")?;
        Some(Box::new(self.branch(value, &path, at.depth + 1, schema)))
    }

    /// `schema` is the shape that the branch restricts.
    fn branch(&mut self, value: &Value, path: &Path<'_>, depth: usize, schema: &Schema) -> Rules {
        let Some(at) = self.enter(value, path, depth) else { return Rules::default() };
        self.check_keywords(at, |place| place == Place::Anywhere);
        let mut rules = self.rules(at, schema);
        rules.type_ = self.type_keyword(at);
        if rules.type_.is_some() && !schema.int_or_string {
            let message = "not allowed here: the type is said outside of allOf, anyOf, oneOf and \
                           not, except for an x-kubernetes-int-or-string";
            self.findings.push(&path.field("type"), Problem::Forbidden, message);
        }
        rules.properties = self.branch_properties(at, schema);
        rules.items = self.branch_items(at, schema);
        rules
    }

    fn branch_properties(&mut self, at: At<'_>, schema: &Schema) -> BTreeMap<String, Rules> {
        let Some(properties) = self.object(at, "properties") else { return BTreeMap::new() };
        let path = at.path.field("properties");
        let anything = Schema { int_or_string: true, ..Schema::default() };
        let mut rules = BTreeMap::new();
        for (name, value) in properties {
            let path = path.key(name);
            let shape = match (schema.field(name), &schema.additional) {
                (Some(shape), _) => shape,
                (None, Additional::Anything) => &anything,
                (None, Additional::Nothing | Additional::Each(_)) => {
                    let message = "restricts a property that the schema outside does not have";
                    self.findings.push(&path, Problem::Required, message);
                    continue;
                }
            };
            rules.insert(name.clone(), self.branch(value, &path, at.depth + 1, shape));
        }
        rules
    }

    fn branch_items(&mut self, at: At<'_>, schema: &Schema) -> Option<Box<Rules>> {
        let value = at.get("items")?;
        let path = at.path.field("items");
        let Some(shape) = &schema.items else {
            let message = "restricts items that the schema outside does not have";
            self.findings.push(&path, Problem::Required, message);
            return None;
        };
        Some(Box::new(self.branch(value, &path, at.depth + 1, shape)))
    }

    fn values(&mut self, at: At<'_>) -> Option<Vec<Value>> {
        at.get("enum")?;
        let values = self.list(at, "enum").to_vec();
        if values.is_empty() {
            let message = "an enum needs at least one value";
            self.findings.push(&at.path.field("enum"), Problem::Invalid, message);
        }
        Some(values)
    }

    fn bound(&mut self, at: At<'_>, end: End) -> Option<Bound> {
        let (name, exclusive) = match end {
            End::Lower => ("minimum", "exclusiveMinimum"),
            End::Upper => ("maximum", "exclusiveMaximum"),
        };
        let exclusive = self.flag(at, exclusive);
        self.number(at, name).map(|value| Bound { value, exclusive })
    }

    fn pattern(&mut self, at: At<'_>) -> Option<Pattern> {
        let path = at.path.field("pattern");
        let source = self.text(at, "pattern")?;
        if source.len() > PATTERN_BYTES_MAX {
            let message = format!("a pattern has at most {PATTERN_BYTES_MAX} bytes");
            self.findings.push(&path, Problem::TooLong, message);
            return None;
        }
        match RegexBuilder::new(source).size_limit(PATTERN_PROGRAM_BYTES_MAX).build() {
            Ok(regex) => Some(Pattern { source: source.to_owned(), regex }),
            Err(error) => {
                // The last line says what is wrong; those above it draw where.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default();
                let reason = reason.strip_prefix("error: ").unwrap_or(reason).trim_end_matches('.');
                let message = format!("{} is not a regular expression: {reason}", quote(source));
                self.findings.push(&path, Problem::Invalid, message);
                None
            }
        }
    }

    /// A range that nothing fits in is a slip of whoever wrote it.
    fn check_ranges(&mut self, at: At<'_>, rules: &Rules) {
        let counts = [
            ("maxLength", "minLength", rules.length_min, rules.length_max),
            ("maxItems", "minItems", rules.items_min, rules.items_max),
            ("maxProperties", "minProperties", rules.properties_min, rules.properties_max),
        ];
        for (name, other, low, high) in counts {
            if let (Some(low), Some(high)) = (low, high)
                && high < low
            {
                let message = format!("{high} is less than the {other} of {low}");
                self.findings.push(&at.path.field(name), Problem::Invalid, message);
            }
        }
        if let (Some(low), Some(high)) = (&rules.minimum, &rules.maximum)
            && !numbers_in_order(&low.value, &high.value)
        {
            let message = format!("{} is less than the minimum of {}", high.value, low.value);
            self.findings.push(&at.path.field("maximum"), Problem::Invalid, message);
        }
        if let Some(step) = &rules.multiple_of
            && step.as_f64().is_none_or(|step| step <= 0.0)
        {
            let message = format!("{step} is not allowed: it must be greater than 0");
            self.findings.push(&at.path.field("multipleOf"), Problem::Invalid, message);
        }
    }
}
