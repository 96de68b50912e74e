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
    scaled_to(count, BYTES, 10, Round::Up).0
}

/// What is there of it: rounded down, so that it is there.
pub(crate) fn bytes_left(count: u64) -> String {
    scaled_to(count, BYTES, 10, Round::Down).0
}

/// What is needed, rounded up, and what is there, rounded down; with more digits where one of them would read
/// as the larger that is not.
pub(crate) fn bytes_both(need: u64, left: u64) -> (String, String) {
    for parts in [10, 100, 1_000] {
        let (need_text, need_shown) = scaled_to(need, BYTES, parts, Round::Up);
        let (left_text, left_shown) = scaled_to(left, BYTES, parts, Round::Down);
        if need.cmp(&left) == need_shown.cmp(&left_shown) {
            return (need_text, left_text);
        }
    }
    (format!("{} bytes", grouped(need)), format!("{} bytes", grouped(left)))
}

/// `10Mbps`, `2.5Gbps`.
pub(crate) fn rate(bits: u64) -> String {
    format!("{}bps", scaled_to(bits, RATES, 10, Round::Up).0)
}

/// What is there of it: rounded down, so that it is there.
pub(crate) fn rate_left(bits: u64) -> String {
    format!("{}bps", scaled_to(bits, RATES, 10, Round::Down).0)
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

/// How many of a unit make the next one, and what the units are called.
#[derive(Clone, Copy)]
struct Units {
    step: u64,
    names: [&'static str; 7],
}

const BYTES: Units = Units { step: 1024, names: ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] };
const RATES: Units = Units { step: 1000, names: ["", "K", "M", "G", "T", "P", "E"] };

#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

/// In the largest unit that is not more than the amount, to so many parts of it (10 for one digit after the
/// point). The text, and what it says in parts of the smallest unit.
fn scaled_to(count: u64, units: Units, parts: u128, round: Round) -> (String, u128) {
    let mut size: u64 = 1;
    let mut unit = units.names[0];
    for larger in units.names.iter().skip(1) {
        let Some(next) = size.checked_mul(units.step).filter(|next| *next <= count) else { break };
        (size, unit) = (next, larger);
    }
    let (text, shown) = in_parts(count, size, parts, round);
    // In thousandths, whatever the parts.
    (format!("{text}{unit}"), shown * u128::from(size) * (1_000 / parts))
}

/// With one digit after the point, rounded up; none when it would be 0.
fn tenths(count: u64, size: u64) -> String {
    in_parts(count, size, 10, Round::Up).0
}

fn in_parts(count: u64, size: u64, parts: u128, round: Round) -> (String, u128) {
    let (count, size) = (u128::from(count) * parts, u128::from(size.max(1)));
    let shown = match round {
        Round::Up => count.div_ceil(size),
        Round::Down => count / size,
    };
    let digits = usize::try_from(parts.ilog10()).unwrap_or(1);
    let text = match (shown / parts, shown % parts) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => format!("{whole}.{rest:0digits$}").trim_end_matches('0').to_owned(),
    };
    (text, shown)
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
        assert_eq!([rate(2_550_000_000), rate_left(2_590_000_000)], ["2.6Gbps", "2.5Gbps"]);
        assert_eq!([grouped(7), grouped(1_000), grouped(300_042)], ["7", "1,000", "300,042"]);
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(any_of(&["a", "b", "c", "d", "e", "f"]), "a, b, c, d or 2 more");
    }

    #[test]
    fn what_is_not_enough_never_reads_as_enough() {
        const GIB: u64 = 1 << 30;
        assert_eq!((bytes(6 * GIB), bytes_left(6 * GIB - 1)), ("6Gi".into(), "5.9Gi".into()));
        let both = |need: u64, left: u64| {
            let (need, left) = bytes_both(need, left);
            format!("{need} of {left}")
        };
        assert_eq!(both(6 * GIB, 6 * GIB - 1), "6Gi of 5.9Gi");
        assert_eq!(both(6 * GIB, 6 * GIB), "6Gi of 6Gi");
        // There is more than is needed, only not in pieces that fit.
        assert_eq!(both(6 * GIB + (50 << 20), 6 * GIB + (80 << 20)), "6.05Gi of 6.07Gi");
        assert_eq!(both(GIB + 1, GIB + 2), "1,073,741,825 bytes of 1,073,741,826 bytes");
        assert_eq!(bytes_left(1023), "1023");
    }
}
