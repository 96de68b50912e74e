//! What a plain scalar is. Called by the tree builder for every scalar without quotes.

use std::borrow::Cow;

use crate::node::{Node, Span, Value};

/// Whether a scalar may be a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// In quotes, or as a block.
    Quoted,
}

/// A scalar without a tag.
pub(crate) fn node(text: Cow<'_, str>, style: Style, span: Span) -> Node {
    match style {
        Style::Plain => Node::plain(plain(&text), span, &text),
        Style::Quoted => Node::quoted(text.into_owned(), span),
    }
}

/// Reads a plain scalar by the core schema, with the two habits of Kubernetes' tools that people
/// rely on: `0644` is octal, and `1_000` a number.
pub(crate) fn plain(text: &str) -> Value {
    match text.as_bytes() {
        [] | [b'~' | b'n' | b'N', ..] if is_null(text) => Value::Null,
        [b't' | b'T', ..] if matches!(text, "true" | "True" | "TRUE") => Value::Bool(true),
        [b'f' | b'F', ..] if matches!(text, "false" | "False" | "FALSE") => Value::Bool(false),
        [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => number(text).unwrap_or_else(|| text_of(text)),
        [_, ..] | [] => text_of(text),
    }
}

/// Whether a plain scalar is null.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn text_of(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn number(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        [_, ..] | [] => (false, text),
    };
    if let Some(special) = special_float(text, digits, negative) {
        return Some(Value::Float(special));
    }
    if !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if let Some(value) = whole(digits, negative) {
        return Some(Value::Int(value));
    }
    match is_decimal(digits) {
        true => text.parse().ok().map(Value::Float),
        false => None,
    }
}

fn special_float(text: &str, digits: &str, negative: bool) -> Option<f64> {
    match (digits, text) {
        (".inf" | ".Inf" | ".INF", _) if negative => Some(f64::NEG_INFINITY),
        (".inf" | ".Inf" | ".INF", _) => Some(f64::INFINITY),
        (_, ".nan" | ".NaN" | ".NAN") => Some(f64::NAN),
        (_, _) => None,
    }
}

fn whole(digits: &str, negative: bool) -> Option<i64> {
    let (radix, body) = match digits.as_bytes() {
        [b'0', b'x', _, ..] => (16, &digits[2..]),
        [b'0', b'o', _, ..] => (8, &digits[2..]),
        [b'0', _, ..] if digits.bytes().all(|byte| matches!(byte, b'0'..=b'7' | b'_')) => {
            (8, digits)
        }
        [_, ..] | [] => (10, digits),
    };
    let magnitude = match body.contains('_') {
        true if body.starts_with('_') || body.ends_with('_') => return None,
        true => u64::from_str_radix(&body.replace('_', ""), radix).ok()?,
        // `from_str_radix` takes a second sign; a scalar with two is a text.
        false if body.starts_with(['+', '-']) => return None,
        false => u64::from_str_radix(body, radix).ok()?,
    };
    match negative {
        true => 0i64.checked_sub_unsigned(magnitude),
        false => i64::try_from(magnitude).ok(),
    }
}

/// `12`, `1.`, `.5`, `1.5e-3`: digits with at most one point and one exponent.
fn is_decimal(digits: &str) -> bool {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, part)) => {
            all_digits(whole) && all_digits(part) && !(whole.is_empty() && part.is_empty())
        }
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    mantissa_fits && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(plain(text), expected, "for {text:?}");
    }

    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    #[test]
    fn reads_the_words_of_the_core_schema_and_no_others() {
        check("", Value::Null);
        check("~", Value::Null);
        check("null", Value::Null);
        check("nULL", text("nULL"));
        check("true", Value::Bool(true));
        check("FALSE", Value::Bool(false));
        for word in ["yes", "no", "on", "off", "y", "n"] {
            check(word, text(word));
        }
    }

    #[test]
    fn reads_whole_numbers_as_kubernetes_tools_do() {
        check("0", Value::Int(0));
        check("-12", Value::Int(-12));
        check("+7", Value::Int(7));
        check("0644", Value::Int(0o644));
        check("0o17", Value::Int(15));
        check("0x1F", Value::Int(31));
        check("1_000", Value::Int(1000));
        check("-9223372036854775808", Value::Int(i64::MIN));
        check("18446744073709551615", Value::Float(18_446_744_073_709_551_615.0));
        check("089", Value::Int(89));
    }

    #[test]
    fn reads_decimals() {
        check("0.5", Value::Float(0.5));
        check(".5", Value::Float(0.5));
        check("1.", Value::Float(1.0));
        check("1e3", Value::Float(1000.0));
        check("-.inf", Value::Float(f64::NEG_INFINITY));
        assert!(matches!(plain(".nan"), Value::Float(value) if value.is_nan()));
    }

    #[test]
    fn leaves_what_only_looks_like_a_number_as_text() {
        for word in
            ["-", "+", ".", "--1", "-+1", "1.2.3", "1e", "200Mb", "12:30", "0x", "1__", "_1", "inf"]
        {
            check(word, text(word));
        }
    }
}
