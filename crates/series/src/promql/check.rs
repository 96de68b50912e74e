//! What a tree must be to be a query: types of operands and arguments.

use super::ast::{Binary, Call, Expr, Kind, Selector, Side};
use super::functions::More;
use super::parse::{Fault, fault};
use super::token::{Aggregation, Op, Place};
use crate::labels::NAME;

pub(super) fn check(expr: &Expr) -> Result<(), Fault> {
    match expr {
        Expr::Number { .. } | Expr::Text { .. } => Ok(()),
        Expr::Vector(selector) => check_selector(selector),
        Expr::Matrix(matrix) => check_selector(&matrix.selector),
        Expr::Paren { expr, .. } => check(expr),
        Expr::Negative { expr, place, .. } => {
            check(expr)?;
            let kind = expr.kind();
            if matches!(kind, Kind::Scalar | Kind::Vector) {
                return Ok(());
            }
            let allowed =
                "unary expression only allowed on expressions of type scalar or instant vector";
            fault(*place, format!("{allowed}, got {:?}", kind.name()))
        }
        Expr::Subquery(subquery) => {
            check(&subquery.expr)?;
            let kind = subquery.expr.kind();
            if kind == Kind::Vector {
                return Ok(());
            }
            let short = match kind {
                Kind::Matrix => "matrix",
                other => other.name(),
            };
            fault(
                subquery.place,
                format!("subquery is only allowed on instant vector, got {short} instead"),
            )
        }
        Expr::Aggregate(aggregate) => {
            expect(&aggregate.expr, Kind::Vector, "aggregation expression")?;
            let Some(parameter) = &aggregate.parameter else { return Ok(()) };
            let wanted = match aggregate.op {
                Aggregation::CountValues => Kind::Text,
                _ => Kind::Scalar,
            };
            expect(parameter, wanted, "aggregation parameter")
        }
        Expr::Binary(binary) => check_binary(binary),
        Expr::Call(call) => check_call(call),
    }
}

fn expect(expr: &Expr, wanted: Kind, context: &str) -> Result<(), Fault> {
    check(expr)?;
    let kind = expr.kind();
    if kind == wanted {
        return Ok(());
    }
    fault(
        expr.place(),
        format!("expected type {} in {context}, got {}", wanted.name(), kind.name()),
    )
}

fn check_selector(selector: &Selector) -> Result<(), Fault> {
    if let Some(name) = &selector.name {
        let before = &selector.matchers[..selector.matchers.len() - 1];
        if let Some(second) = before.iter().find(|matcher| *matcher.name == *NAME) {
            let problem =
                format!("metric name must not be set twice: {name:?} or {:?}", second.value);
            return fault(selector.place, problem);
        }
        return Ok(());
    }
    if selector.matchers.iter().any(|matcher| !matcher.matches("")) {
        return Ok(());
    }
    fault(selector.place, "vector selector must contain at least one non-empty matcher")
}

fn check_binary(binary: &Binary) -> Result<(), Fault> {
    check(&binary.left)?;
    check(&binary.right)?;
    let (op, matching) = (binary.op, &binary.matching);
    let (left, right) = (binary.left.kind(), binary.right.kind());
    let between = Place { start: binary.left.place().end + 1, end: binary.right.place().start };
    if binary.returns_bool && !op.is_comparison() {
        return fault(between, "bool modifier can only be used on comparison operators");
    }
    let scalars = left == Kind::Scalar && right == Kind::Scalar;
    if op.is_comparison() && !binary.returns_bool && scalars {
        return fault(between, "comparisons between scalars must use BOOL modifier");
    }
    if matching.on
        && let Some(twice) = matching.labels.iter().find(|label| matching.include.contains(label))
    {
        return fault(
            between,
            format!("label {twice:?} must not occur in ON and GROUP clause at once"),
        );
    }
    for (side, kind) in [(&binary.left, left), (&binary.right, right)] {
        if !matches!(kind, Kind::Scalar | Kind::Vector) {
            let problem = "binary expression must contain only scalar and instant vector types";
            return fault(side.place(), problem);
        }
    }
    let filled = matching.fill_left.is_some() || matching.fill_right.is_some();
    if left != Kind::Vector || right != Kind::Vector {
        if !matching.labels.is_empty() {
            return fault(binary.place, "vector matching only allowed between instant vectors");
        }
        if filled {
            return fault(
                binary.place,
                "filling in missing series only allowed between instant vectors",
            );
        }
        if op.is_set() {
            let problem =
                format!("set operator {:?} not allowed in binary scalar expression", op.sign());
            return fault(binary.place, problem);
        }
        if scalars && matches!(op, Op::TrimUpper | Op::TrimLower) {
            let problem = format!("operator {:?} not allowed for Scalar operations", op.sign());
            return fault(binary.place, problem);
        }
    } else if op.is_set() {
        if matching.side != Side::OneToOne {
            return fault(
                binary.place,
                format!("no grouping allowed for {:?} operation", op.sign()),
            );
        }
        if filled {
            return fault(binary.place, "filling in missing series not allowed for set operators");
        }
    }
    Ok(())
}

fn check_call(call: &Call) -> Result<(), Fault> {
    let (name, takes, got) = (call.function.name, call.function.takes, call.arguments.len());
    let count = takes.len();
    let problem = match call.function.more {
        More::None if got != count => Some(format!("expected {count} argument(s)")),
        More::None => None,
        More::UpTo(_) | More::Any if got + 1 < count => {
            Some(format!("expected at least {} argument(s)", count - 1))
        }
        More::UpTo(more) if got > count - 1 + more => {
            Some(format!("expected at most {} argument(s)", count - 1 + more))
        }
        More::UpTo(_) | More::Any => None,
    };
    if let Some(problem) = problem {
        return fault(call.place, format!("{problem} in call to {name:?}, got {got}"));
    }
    for (number, argument) in call.arguments.iter().enumerate() {
        if name == "info" && number == 1 {
            check_info(argument)?;
            continue;
        }
        check(argument)?;
        let (kind, wanted) = (argument.kind(), takes[number.min(count - 1)]);
        if kind != wanted {
            let (wanted, kind) = (wanted.name(), kind.name());
            let problem =
                format!("expected type {wanted} in call to function {name:?}, got {kind}");
            return fault(argument.place(), problem);
        }
    }
    Ok(())
}

/// The second argument of `info` is no vector, but conditions on labels.
fn check_info(argument: &Expr) -> Result<(), Fault> {
    match argument {
        Expr::Vector(selector) if selector.name.is_some() => {
            fault(argument.place(), "expected label selectors only, got vector selector instead")
        }
        Expr::Vector(_) => Ok(()),
        _ => fault(argument.place(), "expected label selectors only"),
    }
}
