//! `$(NAME)` in commands and variables of a pod, as the kubelet expands it, and the way back.

use std::collections::BTreeMap;

/// Fills in what is known; a reference to anything else stays as it is, and `$$` is `$`.
pub(crate) fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
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
    out
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
        assert_eq!(expand(text, &env), expected, "for {text:?}");
        assert_eq!(expand(&escape(text), &env), text, "escaping {text:?}");
    }

    #[test]
    fn fills_in_what_is_known_and_leaves_the_rest() {
        check("http://$(HOST):5432", "http://db:5432");
        check("$(OTHER) costs 5$", "$(OTHER) costs 5$");
        check("$$(HOST)", "$(HOST)");
        check("$(HOST", "$(HOST");
        check("$$$(HOST)$", "$db$");
    }
}
