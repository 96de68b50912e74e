//! Binds an expression to a subject: every selector in it gets the subject's labels. And takes the comparison
//! off its end, so that the value is known where nothing is violated.

use std::ops::Range;

use tombolo_series::promql::{Expr, Op, Place, Selector};

/// The expression with `labels`, such as `app="shop"`, in all of its selectors.
pub(super) fn with_labels(text: &str, expr: &Expr, labels: &str) -> String {
    if labels.is_empty() {
        return text.to_owned();
    }
    let mut selectors = Vec::new();
    collect(expr, &mut selectors);
    selectors.sort_unstable_by_key(|selector| std::cmp::Reverse(selector.place.start));
    let mut bound = text.to_owned();
    for selector in selectors {
        let Place { start, end } = selector.place;
        let name = selector.name.as_ref().map_or(0, String::len);
        // Between the name and the brace there may be blanks, and nothing else.
        match text[start + name..end].find(|c: char| !c.is_whitespace()) {
            Some(blanks) if text[start + name + blanks..].starts_with('{') => {
                let inside = start + name + blanks + 1;
                let is_empty = text[inside..].trim_start().starts_with('}');
                let comma = if is_empty { "" } else { "," };
                bound.insert_str(inside, &format!("{labels}{comma}"));
            }
            _ => bound.insert_str(start + name, &format!("{{{labels}}}")),
        }
    }
    bound
}

fn collect<'a>(expr: &'a Expr, found: &mut Vec<&'a Selector>) {
    match expr {
        Expr::Number { .. } | Expr::Text { .. } => (),
        Expr::Vector(selector) => found.push(selector),
        Expr::Matrix(matrix) => found.push(&matrix.selector),
        Expr::Subquery(subquery) => collect(&subquery.expr, found),
        Expr::Aggregate(aggregate) => {
            collect(&aggregate.expr, found);
            if let Some(parameter) = &aggregate.parameter {
                collect(parameter, found);
            }
        }
        Expr::Binary(binary) => {
            collect(&binary.left, found);
            collect(&binary.right, found);
        }
        Expr::Call(call) => {
            // The second argument of `info` names labels to take over and not series.
            let own = if call.function.name == "info" { 1 } else { call.arguments.len() };
            call.arguments.iter().take(own).for_each(|argument| collect(argument, found));
        }
        Expr::Negative { expr, .. } | Expr::Paren { expr, .. } => collect(expr, found),
    }
}

/// `up == 0` as the place of `up`, and `== 0`.
pub(super) fn comparison(expr: &Expr) -> Option<(Range<usize>, (Op, f64))> {
    match expr {
        Expr::Paren { expr, .. } => comparison(expr),
        Expr::Binary(binary) if binary.op.is_comparison() && !binary.returns_bool => {
            let limit = number(&binary.right)?;
            let place = binary.left.place();
            Some((place.start..place.end, (binary.op, limit)))
        }
        _ => None,
    }
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Number { value, .. } => Some(*value),
        Expr::Paren { expr, .. } => number(expr),
        Expr::Negative { expr, negate, .. } => {
            number(expr).map(|value| if *negate { -value } else { value })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tombolo_series::promql::parse;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let bound = with_labels(text, &parse(text).unwrap(), "a=\"b\"");
        assert_eq!(bound, expected);
        assert!(parse(&bound).is_ok(), "{bound}");
    }

    #[test]
    fn every_selector_is_bound_to_the_subject() {
        check("up", "up{a=\"b\"}");
        check("up{}", "up{a=\"b\"}");
        check("up {x=\"{\"} offset 5m", "up {a=\"b\",x=\"{\"} offset 5m");
        check("{__name__=\"up\"}", "{a=\"b\",__name__=\"up\"}");
        check(
            "sum(rate(x{y=\"1\"}[5m])) by (z) / on(z) quantile(scalar(w), max_over_time(v[5m:1m]))",
            "sum(rate(x{a=\"b\",y=\"1\"}[5m])) by (z) / on(z) \
             quantile(scalar(w{a=\"b\"}), max_over_time(v{a=\"b\"}[5m:1m]))",
        );
        check("-up + (1)", "-up{a=\"b\"} + (1)");
    }

    proptest! {
        #[test]
        fn no_selector_is_left_out(
            names in proptest::collection::vec("[a-z]{1,4}_x(\\{\\}|\\{q=\"[{}a]{0,3}\"\\})?", 1..6),
        ) {
            let text = names.join(" + ");
            let bound = with_labels(&text, &parse(&text).unwrap(), "a=\"b\"");
            let mut selectors = Vec::new();
            let expr = parse(&bound).unwrap();
            collect(&expr, &mut selectors);
            prop_assert_eq!(selectors.len(), names.len());
            let bound = |selector: &&Selector| {
                selector.matchers.iter().any(|one| &*one.name == "a" && &*one.value == "b")
            };
            prop_assert!(selectors.iter().all(bound));
        }
    }

    #[test]
    fn a_comparison_is_taken_off_the_end() {
        let split = |text: &str| {
            comparison(&parse(text).unwrap()).map(|(left, test)| (text[left].to_owned(), test))
        };
        assert_eq!(split("sum(up) >= -2"), Some(("sum(up)".to_owned(), (Op::GreaterEqual, -2.0))));
        assert_eq!(split("(up == (0))"), Some(("up".to_owned(), (Op::Equal, 0.0))));
        assert_eq!(split("up > bool 1"), None);
        assert_eq!(split("up > down"), None);
        assert_eq!(split("up"), None);
    }
}
