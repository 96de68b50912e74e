//! A query as JSON, for programs that show it as a tree: the answer of `parse_query`.

use std::fmt::Write as _;

use super::ast::{At, Expr, Extension, Kind, Length, LengthOp, Moved, Selector, Side};
use super::format::format_plain;
use super::functions::{Function, More};
use super::value::{Escape, put_text};

/// The tree as JSON.
pub fn to_json(expr: &Expr) -> String {
    let mut out = String::new();
    put(&mut out, expr);
    out
}

fn put(out: &mut String, expr: &Expr) {
    match expr {
        Expr::Number { value, .. } => {
            let _ = write!(out, r#"{{"type":"numberLiteral","val":"{}"}}"#, format_plain(*value));
        }
        Expr::Text { value, .. } => {
            out.push_str(r#"{"type":"stringLiteral","val":"#);
            text(out, value);
            out.push('}');
        }
        Expr::Vector(selector) => {
            out.push_str(r#"{"type":"vectorSelector","#);
            put_selector(out, selector);
            out.push('}');
        }
        Expr::Matrix(matrix) => {
            out.push_str(r#"{"type":"matrixSelector","#);
            put_selector(out, &matrix.selector);
            put_length(out, "range", Some(&matrix.range));
            out.push('}');
        }
        Expr::Subquery(subquery) => {
            out.push_str(r#"{"type":"subquery","expr":"#);
            put(out, &subquery.expr);
            put_length(out, "range", Some(&subquery.range));
            put_length(out, "step", subquery.step.as_ref());
            out.push(',');
            put_moved(out, &subquery.moved);
            out.push('}');
        }
        Expr::Aggregate(aggregate) => {
            let (op, without) = (aggregate.op.name(), aggregate.without);
            let _ = write!(out, r#"{{"type":"aggregation","op":"{op}","without":{without},"#);
            out.push_str(r#""expr":"#);
            put(out, &aggregate.expr);
            out.push_str(r#","param":"#);
            match &aggregate.parameter {
                Some(parameter) => put(out, parameter),
                None => out.push_str("null"),
            }
            out.push_str(r#","grouping":"#);
            texts(out, &aggregate.grouping);
            out.push('}');
        }
        Expr::Binary(binary) => put_binary(out, binary),
        Expr::Call(call) => {
            out.push_str(r#"{"type":"call","func":"#);
            put_function(out, call.function);
            out.push_str(r#","args":["#);
            for (number, argument) in call.arguments.iter().enumerate() {
                out.push_str(if number == 0 { "" } else { "," });
                put(out, argument);
            }
            out.push_str("]}");
        }
        Expr::Negative { expr, negate, .. } => {
            let sign = if *negate { "-" } else { "+" };
            let _ = write!(out, r#"{{"type":"unaryExpr","op":"{sign}","expr":"#);
            put(out, expr);
            out.push('}');
        }
        Expr::Paren { expr, .. } => {
            out.push_str(r#"{"type":"parenExpr","expr":"#);
            put(out, expr);
            out.push('}');
        }
    }
}

fn put_binary(out: &mut String, binary: &super::ast::Binary) {
    out.push_str(r#"{"type":"binaryExpr","op":"#);
    text(out, binary.op.sign());
    let _ = write!(out, r#","bool":{},"lhs":"#, binary.returns_bool);
    put(out, &binary.left);
    out.push_str(r#","rhs":"#);
    put(out, &binary.right);
    out.push_str(r#","matching":"#);
    let vectors = [&binary.left, &binary.right].iter().all(|side| side.kind() == Kind::Vector);
    if vectors {
        let matching = &binary.matching;
        let card = match matching.side {
            _ if binary.op.is_set() => "many-to-many",
            Side::OneToOne => "one-to-one",
            Side::ManyToOne => "many-to-one",
            Side::OneToMany => "one-to-many",
        };
        let _ = write!(out, r#"{{"card":"{card}","on":{},"labels":"#, matching.on);
        texts(out, &matching.labels);
        out.push_str(r#","include":"#);
        texts(out, &matching.include);
        let fill = |value: Option<f64>| value.map_or("null".to_owned(), format_plain);
        let (left, right) = (fill(matching.fill_left), fill(matching.fill_right));
        let _ = write!(out, r#","fillValues":{{"lhs":{left},"rhs":{right}}}}}"#);
    } else {
        out.push_str("null");
    }
    out.push('}');
}

fn put_function(out: &mut String, function: &Function) {
    let word = |kind: &Kind| match kind {
        Kind::Scalar => r#""scalar""#,
        Kind::Text => r#""string""#,
        Kind::Vector => r#""vector""#,
        Kind::Matrix => r#""matrix""#,
    };
    let takes: Vec<&str> = function.takes.iter().map(word).collect();
    let more = match function.more {
        More::None => 0,
        More::UpTo(more) => more as i64,
        More::Any => -1,
    };
    let (name, gives) = (function.name, word(&function.gives));
    let _ = write!(
        out,
        r#"{{"name":"{name}","argTypes":[{}],"variadic":{more},"returnType":{gives}}}"#,
        takes.join(",")
    );
}

fn put_selector(out: &mut String, selector: &Selector) {
    out.push_str(r#""name":"#);
    text(out, selector.name.as_deref().unwrap_or_default());
    out.push_str(r#","matchers":["#);
    for (number, matcher) in selector.matchers.iter().enumerate() {
        out.push_str(if number == 0 { r#"{"name":"# } else { r#",{"name":"# });
        text(out, &matcher.name);
        out.push_str(r#","value":"#);
        text(out, &matcher.value);
        let _ = write!(out, r#","type":"{}"}}"#, matcher.op.sign());
    }
    let anchored = selector.extension == Extension::Anchored;
    let smoothed = selector.extension == Extension::Smoothed;
    let _ = write!(out, r#"],"anchored":{anchored},"smoothed":{smoothed},"#);
    put_moved(out, &selector.moved);
}

fn put_moved(out: &mut String, moved: &Moved) {
    let (timestamp, edge) = match moved.at {
        None => ("null".to_owned(), "null"),
        Some(At::Time { ms }) => (ms.to_string(), "null"),
        Some(At::Start) => ("null".to_owned(), r#""start""#),
        Some(At::End) => ("null".to_owned(), r#""end""#),
    };
    let _ = write!(out, r#""timestamp":{timestamp},"startOrEnd":{edge}"#);
    put_length(out, "offset", moved.offset.as_ref());
}

/// In milliseconds, and as an expression where it is more than a number.
fn put_length(out: &mut String, name: &str, length: Option<&Length>) {
    let ms = match length {
        Some(Length::Seconds(seconds)) => (seconds * 1000.0).round() as i64,
        Some(_) | None => 0,
    };
    let _ = write!(out, r#","{name}":{ms},"{name}Expr":"#);
    match length {
        Some(Length::Seconds(_)) | None => out.push_str("null"),
        Some(other) => put_length_tree(out, other),
    }
}

fn put_length_tree(out: &mut String, length: &Length) {
    let (op, both) = match length {
        Length::Seconds(seconds) => {
            let value = format_plain(*seconds);
            let _ = write!(out, r#"{{"type":"numberLiteral","val":"{value}","duration":true}}"#);
            return;
        }
        Length::Step => ("step", None),
        Length::Range => ("range", None),
        Length::Negative(inner) => {
            out.push_str(r#"{"type":"durationExpr","op":"-","wrapped":false,"lhs":null,"rhs":"#);
            put_length_tree(out, inner);
            out.push('}');
            return;
        }
        Length::Both(op, both, _) => {
            let op = match op {
                LengthOp::Add => "+",
                LengthOp::Sub => "-",
                LengthOp::Mul => "*",
                LengthOp::Div => "/",
                LengthOp::Mod => "%",
                LengthOp::Pow => "^",
                LengthOp::Min => "min_of",
                LengthOp::Max => "max_of",
            };
            (op, Some(both))
        }
    };
    let _ = write!(out, r#"{{"type":"durationExpr","op":"{op}","wrapped":false,"lhs":"#);
    match both {
        Some(both) => put_length_tree(out, &both.0),
        None => out.push_str("null"),
    }
    out.push_str(r#","rhs":"#);
    match both {
        Some(both) => put_length_tree(out, &both.1),
        None => out.push_str("null"),
    }
    out.push('}');
}

fn texts(out: &mut String, all: &[String]) {
    out.push('[');
    for (number, one) in all.iter().enumerate() {
        out.push_str(if number == 0 { "" } else { "," });
        text(out, one);
    }
    out.push(']');
}

fn text(out: &mut String, text: &str) {
    put_text(out, text, Escape::Html);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promql::parse;

    #[test]
    fn a_tree_is_json_that_says_what_was_parsed() {
        let text = "sum by (a) (rate(x{b=~\"c\"}[5m] offset 1m)) / on (a) group_left 2 * -y[1h:]";
        assert!(parse(text).is_err());
        let text =
            "topk(3, rate(x{b=~\"c\"}[5m] offset 1m)) / on (a) group_left () (y @ end()) < 2";
        let json: serde_json::Value =
            serde_json::from_str(&to_json(&parse(text).unwrap())).unwrap();
        assert_eq!(json["type"], "binaryExpr");
        assert_eq!(json["matching"], serde_json::Value::Null);
        let left = &json["lhs"];
        assert_eq!(left["matching"]["card"], "many-to-one");
        assert_eq!(left["lhs"]["param"]["val"], "3");
        let range = &left["lhs"]["expr"]["args"][0];
        assert_eq!((&range["range"], &range["offset"]), (&300_000.into(), &60_000.into()));
        assert_eq!(range["matchers"][0]["type"], "=~");
        assert_eq!(left["rhs"]["expr"]["startOrEnd"], "end");
    }
}
