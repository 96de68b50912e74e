//! A Kubernetes quantity of seconds as a duration: `1` is a second, `15m` are 15 milliseconds,
//! `10e-3` ten. Called by [`super::channel`].

/// Suffixes of a quantity and what they are as a number and a unit of time.
const SUFFIXES: &[(&str, &str)] =
    &[("n", "ns"), ("u", "us"), ("m", "ms"), ("k", "e3s"), ("K", "e3s"), ("M", "e6s"), ("", "s")];

/// A quantity of seconds in the spelling of a duration. A text with a unit of time of its own (`20ms`,
/// `1s`) is no quantity, but what it means is plain, so it is taken as well.
pub(super) fn spelt(text: &str) -> String {
    let trimmed = text.trim();
    let end = trimmed.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |at| at + 1);
    let (number, suffix) = trimmed.split_at(end);
    match SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        Some((_, unit)) => format!("{number}{unit}"),
        None => trimmed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tombolo_model::Duration;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        let read = spelt(text).parse::<Duration>();
        assert_eq!(read.ok().map(Duration::micros), expected, "for {text:?}");
    }

    #[test]
    fn a_quantity_of_seconds_is_a_duration() {
        check("1", Some(1_000_000));
        check("0.5", Some(500_000));
        check("15m", Some(15_000));
        check("250u", Some(250));
        check("10e-3", Some(10_000));
        check("1E1", Some(10_000_000));
        check("2k", Some(2_000_000_000));
        check("0", Some(0));
    }

    #[test]
    fn a_unit_of_time_is_taken_as_well() {
        check("20ms", Some(20_000));
        check("1s", Some(1_000_000));
        check("5 s", Some(5_000_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        check("fast", None);
        check("20 parsecs", None);
        check("-1", None);
        check("", None);
    }
}
