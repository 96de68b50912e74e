//! Amounts as people say them, for explanations. Exact figures are in the quantities of the model;
//! here `6.2Gi` is better than `6657199308`.

use tombolo_model::phrase::first_few_joined;

/// `1.5`, `0.25`, `12`.
pub(crate) fn cpu(millis: u64) -> String {
    let (cores, rest) = (millis / 1000, millis % 1000);
    match rest {
        0 => cores.to_string(),
        _ => format!("{cores}.{rest:03}").trim_end_matches('0').to_owned(),
    }
}

/// `200Mi`, `6.2Gi`; rounded up, so that "needs less" is enough.
pub(crate) fn bytes(count: u64) -> String {
    scaled(count, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// `10Mbps`, `2.5Gbps`.
pub(crate) fn rate(bits: u64) -> String {
    format!("{}bps", scaled(bits, 1000, &["", "K", "M", "G", "T", "P", "E"]))
}

/// `20ms`, `1.5ms`, `2s`.
pub(crate) fn delay(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}us"),
        1_000..1_000_000 => format!("{}ms", tenths(micros, 1_000)),
        1_000_000.. => format!("{}s", tenths(micros, 1_000_000)),
    }
}

/// `10,000,000`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// `a`, `a or b`, `a, b or c`; a long list is cut.
pub(crate) fn any_of<T: std::fmt::Display>(parts: &[T]) -> String {
    const SHOWN: usize = 4;
    let all: Vec<String> = parts.iter().map(T::to_string).collect();
    match all.as_slice() {
        long if long.len() > SHOWN => first_few_joined(long, SHOWN, ", ", " or "),
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}

fn scaled(count: u64, step: u64, units: &[&str]) -> String {
    let mut size: u64 = 1;
    let mut unit = units.first().copied().unwrap_or_default();
    for larger in units.iter().skip(1) {
        let Some(next) = size.checked_mul(step).filter(|next| *next <= count) else { break };
        (size, unit) = (next, larger);
    }
    format!("{}{unit}", tenths(count, size))
}

/// With one digit after the point, rounded up; none when it would be 0.
fn tenths(count: u64, size: u64) -> String {
    let tenths = (u128::from(count) * 10).div_ceil(u128::from(size.max(1)));
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_amounts_as_people_do() {
        assert_eq!([cpu(0), cpu(1500), cpu(250), cpu(2000)], ["0", "1.5", "0.25", "2"]);
        assert_eq!(bytes(200 << 20), "200Mi");
        assert_eq!(bytes(7_756_066_816), "7.3Gi");
        assert_eq!(bytes(u64::MAX), "16Ei");
        assert_eq!(rate(2_500_000_000), "2.5Gbps");
        assert_eq!(
            [delay(900), delay(1500), delay(20_000), delay(2_000_000)],
            ["900us", "1.5ms", "20ms", "2s"]
        );
        assert_eq!([grouped(7), grouped(1_000), grouped(300_042)], ["7", "1,000", "300,042"]);
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(any_of(&["a", "b", "c", "d", "e", "f"]), "a, b, c, d or 2 more");
    }
}
