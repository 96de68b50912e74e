//! `$(NAME)` in commands and variables of a pod, as the kubelet expands it, and the way back.

use std::collections::BTreeMap;

/// Fills in what is known; a reference to anything else stays as it is, and `$$` is `$`. Nothing if it
/// would become longer than `bytes_max`: values within values within values grow without end.
pub(crate) fn expand(
    text: &str,
    env: &BTreeMap<String, String>,
    bytes_max: usize,
) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if out.len() > bytes_max {
            return None;
        }
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let reference = rest.strip_prefix('(').and_then(|inside| inside.split_once(')'));
        match reference {
            Some((name, after)) => {
                match env.get(name) {
                    Some(value) => out.push_str(value),
                    None => {
                        out.push_str("$(");
                        out.push_str(name);
                        out.push(')');
                    }
                }
                rest = after;
            }
            None => out.push('$'),
        }
    }
    out.push_str(rest);
    (out.len() <= bytes_max).then_some(out)
}

/// The text that [`expand`] leaves as it is here.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        out.push(letter);
        if letter == '$' && matches!(letters.peek(), Some('$' | '(')) {
            out.push('$');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let env = BTreeMap::from([("HOST".to_owned(), "db".to_owned())]);
        let expand = |text: &str| expand(text, &env, 100).unwrap();
        assert_eq!(expand(text), expected, "for {text:?}");
        assert_eq!(expand(&escape(text)), text, "escaping {text:?}");
    }

    #[test]
    fn fills_in_what_is_known_and_leaves_the_rest() {
        check("http://$(HOST):5432", "http://db:5432");
        check("$(OTHER) costs 5$", "$(OTHER) costs 5$");
        check("$$(HOST)", "$(HOST)");
        check("$(HOST", "$(HOST");
        check("$$$(HOST)$", "$db$");
    }

    #[test]
    fn stops_where_it_becomes_too_long() {
        let env = BTreeMap::from([("LONG".to_owned(), "x".repeat(10))]);
        assert_eq!(expand("$(LONG)", &env, 10), Some("x".repeat(10)));
        assert_eq!(expand("$(LONG)", &env, 9), None);
        assert_eq!(expand("$(LONG)$(LONG)", &env, 19), None);
    }
}
