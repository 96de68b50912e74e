//! Phrases that many messages share, so that they read the same wherever they are said.

/// `web/0, web/1 and 7 more`: the first few of many, so that a message stays readable.
#[must_use]
pub fn first_few(all: impl IntoIterator<Item: AsRef<str>>, max: usize) -> String {
    first_few_joined(all, max, ", ", " and ")
}

/// The same with other words: `between` stands between two of them, `last` before the rest, which is
/// counted.
#[must_use]
pub fn first_few_joined(
    all: impl IntoIterator<Item: AsRef<str>>,
    max: usize,
    between: &str,
    last: &str,
) -> String {
    let mut text = String::new();
    let mut more = 0_usize;
    for (at, item) in all.into_iter().enumerate() {
        if at >= max {
            more += 1;
            continue;
        }
        if at > 0 {
            text.push_str(between);
        }
        text.push_str(item.as_ref());
    }
    match more {
        0 => text,
        more => format!("{text}{last}{more} more"),
    }
}

/// An error with its causes, the outermost first: `cannot join: connection refused`.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_counted() {
        assert_eq!(first_few(Vec::<String>::new(), 2), "");
        assert_eq!(first_few(["a", "b"], 2), "a, b");
        assert_eq!(first_few(["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(first_few_joined(["a", "b", "c"], 2, "; ", "; and "), "a; b; and 1 more");
    }

    #[test]
    fn an_error_is_told_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("outside")]
        struct Outer(#[source] std::fmt::Error);
        let text = with_causes(&Outer(std::fmt::Error));
        assert_eq!(text, format!("outside: {}", std::fmt::Error));
    }
}
