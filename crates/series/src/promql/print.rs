//! A query as text again, laid out as Prometheus lays it out: [`format`].

use std::fmt::Write as _;

use super::ast::{At, Expr, Extension, Length, LengthOp, Matching, Moved, Selector, Side};
use super::format::format_plain;
use crate::labels::{NAME, is_plain_name};

/// Longer expressions are split over several lines.
const LINE_MAX: usize = 100;

/// The query, its parts on lines of their own where one line would be too long.
pub fn format(expr: &Expr) -> String {
    pretty(expr, 0)
}

fn pretty(expr: &Expr, level: usize) -> String {
    let indent = "  ".repeat(level);
    let line = one_line(expr);
    if let Expr::Negative { expr, negate, .. } = expr {
        let sign = if *negate { "-" } else { "+" };
        return format!("{indent}{sign}{}", pretty(expr, level).trim());
    }
    if line.len() <= LINE_MAX {
        // A subquery is not indented, there as here.
        let indent = if matches!(expr, Expr::Subquery(_)) { "" } else { &indent };
        return format!("{indent}{line}");
    }
    match expr {
        Expr::Aggregate(aggregate) => {
            let parameter = aggregate.parameter.as_ref();
            let parameter =
                parameter.map_or_else(String::new, |p| format!("{},\n", pretty(p, level + 1)));
            let head = aggregate_head(aggregate);
            let inner = pretty(&aggregate.expr, level + 1);
            format!("{indent}{head}(\n{parameter}{inner}\n{indent})")
        }
        Expr::Binary(binary) => {
            let (left, right) = (pretty(&binary.left, level + 1), pretty(&binary.right, level + 1));
            format!("{left}\n{indent}{}\n{right}", operator(binary))
        }
        Expr::Call(call) => {
            let arguments: Vec<String> =
                call.arguments.iter().map(|argument| pretty(argument, level + 1)).collect();
            format!("{indent}{}(\n{}\n{indent})", call.function.name, arguments.join(",\n"))
        }
        Expr::Paren { expr, .. } => {
            format!("{indent}(\n{}\n{indent})", pretty(expr, level + 1))
        }
        Expr::Subquery(subquery) => {
            format!("{}{}", pretty(&subquery.expr, level), subquery_suffix(subquery))
        }
        Expr::Number { .. }
        | Expr::Text { .. }
        | Expr::Vector(_)
        | Expr::Matrix(_)
        | Expr::Negative { .. } => format!("{indent}{line}"),
    }
}

fn one_line(expr: &Expr) -> String {
    match expr {
        Expr::Number { value, .. } => format_plain(*value),
        Expr::Text { value, .. } => quoted(value),
        Expr::Vector(selector) => {
            let (at, offset) = moved(&selector.moved);
            format!("{}{at}{}{offset}", series(selector), extension(selector.extension))
        }
        Expr::Matrix(matrix) => {
            let (at, offset) = moved(&matrix.selector.moved);
            let (of, range) = (series(&matrix.selector), length(&matrix.range));
            format!("{of}[{range}]{}{at}{offset}", extension(matrix.selector.extension))
        }
        Expr::Subquery(subquery) => {
            format!("{}{}", one_line(&subquery.expr), subquery_suffix(subquery))
        }
        Expr::Aggregate(aggregate) => {
            let parameter = aggregate.parameter.as_ref();
            let parameter = parameter.map_or_else(String::new, |p| format!("{}, ", one_line(p)));
            format!("{}({parameter}{})", aggregate_head(aggregate), one_line(&aggregate.expr))
        }
        Expr::Binary(binary) => {
            let (left, right) = (one_line(&binary.left), one_line(&binary.right));
            format!("{left} {} {right}", operator(binary))
        }
        Expr::Call(call) => {
            let arguments: Vec<String> = call.arguments.iter().map(one_line).collect();
            format!("{}({})", call.function.name, arguments.join(", "))
        }
        Expr::Negative { expr, negate, .. } => {
            format!("{}{}", if *negate { "-" } else { "+" }, one_line(expr))
        }
        Expr::Paren { expr, .. } => format!("({})", one_line(expr)),
    }
}

fn aggregate_head(aggregate: &super::ast::Aggregate) -> String {
    let grouping = names(&aggregate.grouping);
    match (aggregate.without, aggregate.grouping.is_empty()) {
        (true, _) => format!("{} without ({grouping}) ", aggregate.op.name()),
        (false, false) => format!("{} by ({grouping}) ", aggregate.op.name()),
        (false, true) => aggregate.op.name().to_owned(),
    }
}

fn operator(binary: &super::ast::Binary) -> String {
    let returns_bool = if binary.returns_bool { " bool" } else { "" };
    format!("{}{returns_bool}{}", binary.op.sign(), matching(&binary.matching))
}

fn matching(matching: &Matching) -> String {
    let mut out = String::new();
    let side = match matching.side {
        Side::ManyToOne => Some("left"),
        Side::OneToMany => Some("right"),
        Side::OneToOne => None,
    };
    if !matching.labels.is_empty() || matching.on || side.is_some() {
        let tag = if matching.on { "on" } else { "ignoring" };
        let _ = write!(out, " {tag} ({})", names(&matching.labels));
    }
    if let Some(side) = side {
        let _ = write!(out, " group_{side} ({})", names(&matching.include));
    }
    match (matching.fill_left, matching.fill_right) {
        (Some(left), Some(right)) if left.to_bits() == right.to_bits() => {
            let _ = write!(out, " fill ({})", format_plain(left));
        }
        (left, right) => {
            for (side, value) in [("left", left), ("right", right)] {
                if let Some(value) = value {
                    let _ = write!(out, " fill_{side} ({})", format_plain(value));
                }
            }
        }
    }
    out
}

fn series(selector: &Selector) -> String {
    let name = selector.name.as_deref().unwrap_or_default();
    let is_name = |matcher: &&crate::Matcher| {
        *matcher.name == *NAME
            && matcher.op == crate::Op::Equal
            && *matcher.value == *name
            && !name.is_empty()
    };
    let others = selector.matchers.iter().filter(|matcher| !is_name(matcher));
    let mut texts: Vec<String> = others
        .map(|matcher| {
            let name = names(&[matcher.name.to_string()]);
            format!("{name}{}{}", matcher.op.sign(), quoted(&matcher.value))
        })
        .collect();
    texts.sort_unstable();
    if texts.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", texts.join(",")) }
}

fn extension(extension: Extension) -> &'static str {
    match extension {
        Extension::None => "",
        Extension::Anchored => " anchored",
        Extension::Smoothed => " smoothed",
    }
}

fn moved(moved: &Moved) -> (String, String) {
    let at = match moved.at {
        None => String::new(),
        Some(At::Time { ms }) => format!(" @ {:.3}", ms as f64 / 1000.0),
        Some(At::Start) => " @ start()".to_owned(),
        Some(At::End) => " @ end()".to_owned(),
    };
    let offset = match &moved.offset {
        None | Some(Length::Seconds(0.0)) => String::new(),
        Some(offset) => format!(" offset {}", bound_by(offset, UNARY)),
    };
    (at, offset)
}

fn subquery_suffix(subquery: &super::ast::Subquery) -> String {
    let step = subquery.step.as_ref().map(length).unwrap_or_default();
    let (at, offset) = moved(&subquery.moved);
    format!("[{}:{step}]{at}{offset}", length(&subquery.range))
}

fn length(of: &Length) -> String {
    match of {
        Length::Seconds(seconds) => duration(*seconds),
        Length::Step => "step()".to_owned(),
        Length::Range => "range()".to_owned(),
        Length::Negative(inner) => format!("-{}", bound_by(inner, UNARY + 1)),
        Length::Both(LengthOp::Min, both, _) => {
            format!("min_of({}, {})", length(&both.0), length(&both.1))
        }
        Length::Both(LengthOp::Max, both, _) => {
            format!("max_of({}, {})", length(&both.0), length(&both.1))
        }
        Length::Both(op, both, _) => {
            let (sign, binds) = arithmetic(*op);
            // Of equals the first is worked out first, but for powers.
            let (left, right) = match op {
                LengthOp::Pow => (binds + 1, binds),
                _ => (binds, binds + 1),
            };
            format!("{} {sign} {}", bound_by(&both.0, left), bound_by(&both.1, right))
        }
    }
}

/// How tightly a sign before a duration binds, and what is no calculation at all.
const UNARY: u8 = 4;

/// With parentheses if it binds less tightly than this.
fn bound_by(of: &Length, least: u8) -> String {
    let binds = match of {
        Length::Both(LengthOp::Min | LengthOp::Max, ..) | Length::Step | Length::Range => u8::MAX,
        Length::Both(op, ..) => arithmetic(*op).1,
        Length::Negative(_) => UNARY,
        Length::Seconds(seconds) if *seconds < 0.0 => UNARY,
        Length::Seconds(_) => u8::MAX,
    };
    if binds < least { format!("({})", length(of)) } else { length(of) }
}

fn arithmetic(op: LengthOp) -> (&'static str, u8) {
    match op {
        LengthOp::Add => ("+", 1),
        LengthOp::Sub => ("-", 1),
        LengthOp::Mul => ("*", 2),
        LengthOp::Div => ("/", 2),
        LengthOp::Mod => ("%", 2),
        LengthOp::Pow => ("^", 3),
        LengthOp::Min => ("min_of", UNARY),
        LengthOp::Max => ("max_of", UNARY),
    }
}

/// Seconds as PromQL writes a duration: `1h30m`.
pub fn duration(seconds: f64) -> String {
    let mut ms = (seconds.abs() * 1000.0).round() as u64;
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut out = String::from(if seconds < 0.0 { "-" } else { "" });
    // Only whole ones of the long units, as Prometheus writes them.
    let units: [(&str, u64, bool); 7] = [
        ("y", 365 * 86_400_000, true),
        ("w", 7 * 86_400_000, true),
        ("d", 86_400_000, false),
        ("h", 3_600_000, false),
        ("m", 60_000, false),
        ("s", 1000, false),
        ("ms", 1, false),
    ];
    for (unit, size, exact) in units {
        if exact && !ms.is_multiple_of(size) || ms < size {
            continue;
        }
        let _ = write!(out, "{}{unit}", ms / size);
        ms %= size;
    }
    out
}

fn names(names: &[String]) -> String {
    let name = |name: &String| if is_plain_name(name) { name.clone() } else { quoted(name) };
    names.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// As Go quotes a text.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promql::parse;

    #[track_caller]
    fn check(text: &str, formatted: &str) {
        let expr = parse(text).unwrap();
        assert_eq!(format(&expr), formatted);
        let again = parse(&format(&expr)).unwrap();
        assert_eq!(format(&again), formatted, "what was formatted stays as it is");
    }

    #[test]
    fn a_short_query_is_one_line() {
        check(
            "sum by(b,a)(rate( x{c!='d',b=\"e\"}[90s] ))",
            "sum by (b, a) (rate(x{b=\"e\",c!=\"d\"}[1m30s]))",
        );
        check("-a + on(b) group_left(c) d offset -1h", "-a + on (b) group_left (c) d offset -1h");
        check("{\"a.b\"} @ 5", "{__name__=\"a.b\"} @ 5.000");
        check(
            "topk(3, a[1d:5m] @ end())".replace("topk(3, ", "max_over_time(").as_str(),
            "max_over_time(a[1d:5m] @ end())",
        );
        check("1 > bool 0.5", "1 > bool 0.5");
    }

    #[test]
    fn a_calculated_duration_keeps_its_meaning() {
        check("a[(1m + 2m) * 3s]", "a[(1m + 2m) * 3s]");
        check("a[1m + 2m + 3m]", "a[1m + 2m + 3m]");
        check("a[1m - (2m - 3m)]", "a[1m - (2m - 3m)]");
        check("a offset (1m + 30s)", "a offset (1m + 30s)");
        check("a offset -(1m + 30s)", "a offset -(1m + 30s)");
    }

    #[test]
    fn a_long_query_is_split_at_its_parts() {
        let long = "a".repeat(60);
        check(&format!("sum({long}) / sum(b{long})"), &format!("  sum({long})\n/\n  sum(b{long})"));
        check(
            &format!("ceil(sum without(x) ({long} / b{long}))"),
            &format!("ceil(\n  sum without (x) (\n      {long}\n    /\n      b{long}\n  )\n)"),
        );
    }
}
