//! Numbers as Kubernetes reads them: a float without a fraction is the integer that it is, and an integer
//! that no 64 bits hold is a float. The handlers call [`normalise`] for every body.

use serde_json::{Number, Value};

/// Up to here, floats count one by one; 2^53 could be its neighbour.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

pub fn normalise(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(better) = better(number) {
                *number = better;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(object) => object.values_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::String(_) => (),
    }
}

/// Whether a float is an integer to Kubernetes.
pub(crate) fn is_whole(float: f64) -> bool {
    float.fract() == 0.0 && float.abs() <= WHOLE_MAX
}

fn better(number: &Number) -> Option<Number> {
    if number.is_i64() {
        return None;
    }
    let float = number.as_f64()?;
    match number.is_u64() {
        true => Number::from_f64(float),
        // Written without a fraction, it reads as an integer of any size.
        false if is_whole(float) => format!("{float:.0}").parse::<i64>().ok().map(Number::from),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_become_integers_and_too_large_ones_floats() {
        let mut value: Value = serde_json::from_str(
            r#"[2.0, 1e3, -0.0, 1.5, 9223372036854775807, 9223372036854775808, 1e17, {"a": 4.0}]"#,
        )
        .unwrap();
        normalise(&mut value);
        let text = "[2,1000,0,1.5,9223372036854775807,9.223372036854776e+18,1e+17,{\"a\":4}]";
        assert_eq!(value.to_string(), text);
        assert!(value[5].is_f64() && value[6].is_f64(), "they are no integers: {value}");
        assert_eq!(value[0], json!(2));
    }
}
