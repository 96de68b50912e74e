//! Text that firmware, drivers and people left behind, made fit for a status. Called by every
//! module that publishes such text.

/// What makers leave in a field that they did not fill in, in lower case.
const PLACEHOLDERS: &[&str] = &[
    "",
    "0",
    "default string",
    "empty",
    "invalid",
    "n/a",
    "no enclosure",
    "none",
    "not applicable",
    "not available",
    "not specified",
    "o.e.m.",
    "oem",
    "product name",
    "system manufacturer",
    "system product name",
    "system version",
    "to be filled by o.e.m.",
    "undefined",
    "unknown",
    "xxxxxxxx",
];

/// One line without control characters and double spaces, of `chars_max` characters at most;
/// nothing if nothing is left.
pub(crate) fn line(text: &str, chars_max: usize) -> Option<String> {
    let visible: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let joined = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = joined.chars().take(chars_max).collect();
    let short = short.trim_end();
    (!short.is_empty()).then(|| short.to_owned())
}

/// The same, for a name that a maker may have left unfilled.
pub(crate) fn name(text: &str) -> Option<String> {
    line(text, 256).filter(|name| !PLACEHOLDERS.contains(&name.to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_short_line() {
        assert_eq!(name("ThinkPad\0  X1\n").as_deref(), Some("ThinkPad X1"));
        assert_eq!(name("x".repeat(1000).as_str()).map(|name| name.len()), Some(256));
    }

    #[test]
    fn what_a_maker_left_unfilled_is_no_name() {
        for text in ["", " \n", "To Be Filled By O.E.M.", "Default string", "None"] {
            assert_eq!(name(text), None, "{text:?}");
        }
    }
}
