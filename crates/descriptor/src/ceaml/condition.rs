//! The condition of a workflow scenario, such as `component_cpu > 80% or qoe_metric < 3`, as an
//! expression that a policy can watch. Called by [`super::workflow`].

use tombolo_model::policy::Check;

/// Longer operators first, so that `>=` is not read as `>`.
const COMPARISONS: &[&str] = &[">=", "<=", "==", "!=", ">", "<"];

/// What may follow the number. The number stays as it is: a metric is compared in its own unit.
const UNITS: &[(&str, &str)] = &[
    ("%", "percent"),
    ("ms", "milliseconds"),
    ("s", "seconds"),
    ("mb", "megabytes"),
    ("gb", "gigabytes"),
    ("mbps", "megabits a second"),
];

/// Longer conditions are no conditions, and the expression would outgrow its field.
const CLAUSES_MAX: usize = 16;

/// A condition that can be watched.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) check: Check,
    /// The units that the metrics are taken to be in, such as `component_cpu in percent`.
    pub(super) units: Vec<String>,
}

/// One comparison of a metric with a number.
struct Clause<'a> {
    metric: &'a str,
    comparison: &'static str,
    number: &'a str,
    unit: Option<&'static str>,
}

/// The condition as a check, or why it is none.
pub(super) fn parse(text: &str) -> Result<Condition, String> {
    let (words, joins): (Vec<&str>, Vec<&str>) = split(text);
    if words.len() > CLAUSES_MAX {
        return Err(format!("it has {} parts, {CLAUSES_MAX} at most can be watched", words.len()));
    }
    let clauses: Vec<Clause<'_>> =
        words.iter().map(|word| clause(word)).collect::<Result<_, _>>()?;
    let units = clauses
        .iter()
        .filter_map(|clause| clause.unit.map(|unit| format!("{} in {unit}", clause.metric)));
    let check = match clauses.as_slice() {
        [only] => Check {
            expr: Some(selected(only.metric)),
            violated_if: Some(format!("{} {}", only.comparison, only.number)),
            ..Check::default()
        },
        many => Check { expr: Some(joined(many, &joins)), ..Check::default() },
    };
    Ok(Condition { check, units: units.collect() })
}

/// The parts between `and` and `or`, and those words.
fn split(text: &str) -> (Vec<&str>, Vec<&str>) {
    let mut parts = Vec::new();
    let mut joins = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for word in text.split(' ') {
        let end = at + word.len();
        if word.eq_ignore_ascii_case("or") || word.eq_ignore_ascii_case("and") {
            parts.push(text[start..at].trim());
            joins.push(&text[at..end]);
            start = end;
        }
        at = end + 1;
    }
    parts.push(text[start..].trim());
    (parts, joins)
}

fn clause(text: &str) -> Result<Clause<'_>, String> {
    let found = COMPARISONS
        .iter()
        .filter_map(|comparison| text.find(comparison).map(|at| (at, *comparison)))
        .min_by_key(|(at, comparison)| (*at, std::cmp::Reverse(comparison.len())));
    let Some((at, comparison)) = found else {
        return Err(format!("{text:?} compares no metric with a number"));
    };
    let metric = text[..at].trim();
    let operand = text[at + comparison.len()..].trim();
    if !is_metric(metric) {
        return Err(format!("{metric:?} is not the name of a metric"));
    }
    let digits = operand.find(|c: char| !(c.is_ascii_digit() || ".+-".contains(c)));
    let (number, unit) = operand.split_at(digits.unwrap_or(operand.len()));
    if !number.parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(format!("{operand:?} is not a number"));
    }
    let unit = unit.trim();
    let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match (unit, known) {
        ("", _) => Ok(Clause { metric, comparison, number, unit: None }),
        (_, Some((_, words))) => Ok(Clause { metric, comparison, number, unit: Some(words) }),
        (unit, None) => Err(format!("{unit:?} is not a unit that can be compared")),
    }
}

fn is_metric(name: &str) -> bool {
    let begins =
        name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    begins && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn selected(metric: &str) -> String {
    format!("{metric}{{{{{{subject_label_selector}}}}}}")
}

/// Any result of the whole is a violation, so each part carries its comparison.
fn joined(clauses: &[Clause<'_>], joins: &[&str]) -> String {
    let mut expression = String::new();
    for (index, clause) in clauses.iter().enumerate() {
        if let Some(join) = index.checked_sub(1).and_then(|before| joins.get(before)) {
            let join = join.to_ascii_lowercase();
            expression.push_str(&format!(" {join} on ({{{{subject_label_list}}}}) "));
        }
        let Clause { metric, comparison, number, unit: _ } = clause;
        expression.push_str(&format!("({} {comparison} {number})", selected(metric)));
    }
    expression
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(conditions: &[&str], expected: Expect) {
        let answers = conditions.iter().map(|text| match parse(text) {
            Ok(Condition { check, units }) => {
                let expr = check.expr.unwrap_or_default();
                let violated = check.violated_if.map(|v| format!(" violated if {v}"));
                format!("{expr}{} {units:?}\n", violated.unwrap_or_default())
            }
            Err(why) => format!("no: {why}\n"),
        });
        expected.assert_eq(&answers.collect::<String>());
    }

    #[test]
    fn a_comparison_becomes_a_check() {
        check(
            &["qoe < 3", "players>=100", "component_cpu > 80%", "link_latency <= 30 ms"],
            expect![[r#"
                qoe{{{subject_label_selector}}} violated if < 3 []
                players{{{subject_label_selector}}} violated if >= 100 []
                component_cpu{{{subject_label_selector}}} violated if > 80 ["component_cpu in percent"]
                link_latency{{{subject_label_selector}}} violated if <= 30 ["link_latency in milliseconds"]
            "#]],
        );
    }

    #[test]
    fn several_comparisons_become_one_expression() {
        check(
            &["cpu > 80% or memory > 70%", "a > 1 AND b < 2"],
            expect![[r#"
                (cpu{{{subject_label_selector}}} > 80) or on ({{subject_label_list}}) (memory{{{subject_label_selector}}} > 70) ["cpu in percent", "memory in percent"]
                (a{{{subject_label_selector}}} > 1) and on ({{subject_label_list}}) (b{{{subject_label_selector}}} < 2) []
            "#]],
        );
    }

    #[test]
    fn what_compares_no_metric_is_told() {
        check(
            &["status == failed", "ten players far away", "", "a > 1 or", "2 > 1", "a > 5 apples"],
            expect![[r#"
                no: "failed" is not a number
                no: "ten players far away" compares no metric with a number
                no: "" compares no metric with a number
                no: "" compares no metric with a number
                no: "2" is not the name of a metric
                no: "apples" is not a unit that can be compared
            "#]],
        );
    }
}
