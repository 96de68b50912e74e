//! Numbers as Prometheus writes them, which is as Go writes them.

/// As in an answer of the HTTP API: shortest, with an exponent below 0.000001 and from 1e21 on.
pub fn format_value(value: f64) -> String {
    let size = value.abs();
    if value.is_finite() && size != 0.0 && !(1e-6..1e21).contains(&size) {
        return with_exponent(value);
    }
    format_plain(value)
}

/// Never with an exponent.
pub fn format_value_plainly(value: f64) -> String {
    format_plain(value)
}

/// Go's `f`.
pub(super) fn format_plain(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        format!("{value}")
    }
}

/// Go's `g`.
pub(super) fn format_short(value: f64) -> String {
    let size = value.abs();
    if value.is_finite() && size != 0.0 && !(1e-4..1e21).contains(&size) {
        return with_exponent(value);
    }
    format_plain(value)
}

/// As OpenMetrics writes the bound of a bucket: always a float.
pub(super) fn format_open_metrics(value: f64) -> String {
    let text = format_short(value);
    if value.is_finite() && !text.contains(['.', 'e']) { format!("{text}.0") } else { text }
}

/// `1.5e-07`: a sign and at least two digits.
fn with_exponent(value: f64) -> String {
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let texts: Vec<String> =
            [0.0, -0.0, 1.0, 0.1, 1e20, 1e21, 1.5e-7, -1e-6, f64::NAN, f64::NEG_INFINITY]
                .into_iter()
                .map(format_value)
                .collect();
        assert_eq!(
            texts.join(" "),
            "0 -0 1 0.1 100000000000000000000 1e+21 1.5e-07 -0.000001 NaN -Inf"
        );
        assert_eq!(format_open_metrics(1.0), "1.0");
        assert_eq!(format_open_metrics(0.5), "0.5");
    }
}
