//! Rules for names: of objects, components, labels, devices and environment variables. Called by
//! [`crate::validate`]; every rule answers with a clause that says what would be right.

use crate::invalid::shown;

const LABEL_CHARS_MAX: usize = 63;
const SUBDOMAIN_CHARS_MAX: usize = 253;

/// A DNS label (RFC 1123): the name of a component, which becomes part of host names.
pub fn label(name: &str) -> Result<(), String> {
    if name.len() > LABEL_CHARS_MAX {
        return Err(format!("is {} characters long, {LABEL_CHARS_MAX} at most", name.len()));
    }
    if is_label(name) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not a name: lower-case letters, digits and '-', a letter or digit at both \
         ends{}",
        mended(name, |letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
    ))
}

/// DNS labels joined by dots: the name of an object.
pub fn subdomain(name: &str) -> Result<(), String> {
    if name.len() > SUBDOMAIN_CHARS_MAX {
        return Err(format!("is {} characters long, {SUBDOMAIN_CHARS_MAX} at most", name.len()));
    }
    if is_subdomain(name) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not a name: lower-case letters, digits, '-' and '.', a letter or digit at both \
         ends{}",
        mended(name, |letter| letter.is_ascii_lowercase()
            || letter.is_ascii_digit()
            || letter == '.')
    ))
}

/// The key of a label or taint, or the name of a device: `name` or `prefix.example/name`.
pub fn qualified(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let prefix_fits = prefix.is_none_or(|prefix| subdomain(prefix).is_ok());
    if prefix_fits && !name.is_empty() && is_label_text(name) {
        return Ok(());
    }
    Err(format!(
        "{} is not a key: letters, digits, '-', '_' and '.' (63 at most, a letter or digit at \
         both ends), with a prefix such as \"example.org/\" if wanted",
        shown(key)
    ))
}

/// The value of a label: like the name part of a key, and it may be empty.
pub fn label_value(value: &str) -> Result<(), String> {
    if is_label_text(value) {
        return Ok(());
    }
    Err(format!(
        "{} is not a label value: letters, digits, '-', '_' and '.', 63 at most, a letter or \
         digit at both ends",
        shown(value)
    ))
}

/// The name of an environment variable.
pub fn environment_variable(name: &str) -> Result<(), String> {
    let starts_well = name.chars().next().is_some_and(|first| !first.is_ascii_digit());
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    if starts_well && name.chars().all(fits) {
        return Ok(());
    }
    Err(format!(
        "{} is not a variable name: letters, digits, '_', '-' and '.', not starting with a digit",
        shown(name)
    ))
}

/// An absolute path inside a workload, without `..`.
pub fn absolute_path(path: &str) -> Result<(), String> {
    let climbs = path.split('/').any(|part| part == "..");
    if path.starts_with('/') && !climbs && !path.contains('\0') {
        return Ok(());
    }
    Err(format!("{} is not an absolute path: it starts with '/' and has no '..'", shown(path)))
}

fn is_label(name: &str) -> bool {
    let at_end =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    bytes.len() <= LABEL_CHARS_MAX
        && at_end(bytes.first())
        && at_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_subdomain(name: &str) -> bool {
    // Kubernetes bounds the whole, not each part; being stricter would reject its own objects.
    name.split('.').all(|part| {
        !part.is_empty()
            && part.split_at_checked(LABEL_CHARS_MAX).map_or_else(
                || is_label(part),
                |_| {
                    part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                        && !part.starts_with('-')
                        && !part.ends_with('-')
                },
            )
    })
}

fn is_label_text(text: &str) -> bool {
    let at_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LABEL_CHARS_MAX
        && at_end(bytes.first())
        && at_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// `; "my-app" would do` when the name can be mended by lower case and dashes.
fn mended(name: &str, fits: impl Fn(char) -> bool) -> String {
    let dashed: String = name
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| if fits(letter) { letter } else { '-' })
        .collect();
    let trimmed = dashed.trim_matches(['-', '.']);
    match is_subdomain(trimmed) {
        true => format!("; {trimmed:?} would do"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(rule: fn(&str) -> Result<(), String>, names: &[&str], expected: Expect) {
        let answers: Vec<String> = names
            .iter()
            .map(|name| match rule(name) {
                Ok(()) => format!("{name:?}: fine\n"),
                Err(why) => format!("{why}\n"),
            })
            .collect();
        expected.assert_eq(&answers.concat());
    }

    #[test]
    fn a_label_is_lower_case_and_says_how_to_become_so() {
        let long = "a".repeat(64);
        let names = ["web", "web-2", "2web", "Web_Server", "-web", "", "ü", "a.b", &long];
        check(
            label,
            &names,
            expect![[r#"
            "web": fine
            "web-2": fine
            "2web": fine
            "Web_Server" is not a name: lower-case letters, digits and '-', a letter or digit at both ends; "web-server" would do
            "-web" is not a name: lower-case letters, digits and '-', a letter or digit at both ends; "web" would do
            "" is not a name: lower-case letters, digits and '-', a letter or digit at both ends
            "ü" is not a name: lower-case letters, digits and '-', a letter or digit at both ends
            "a.b" is not a name: lower-case letters, digits and '-', a letter or digit at both ends; "a-b" would do
            is 64 characters long, 63 at most
        "#]],
        );
    }

    #[test]
    fn an_object_name_may_have_dots() {
        let long = "a".repeat(100);
        check(
            subdomain,
            &["a.b", "a..b", ".a", "A.b", "a-.b"],
            expect![[r#"
            "a.b": fine
            "a..b" is not a name: lower-case letters, digits, '-' and '.', a letter or digit at both ends
            ".a" is not a name: lower-case letters, digits, '-' and '.', a letter or digit at both ends; "a" would do
            "A.b" is not a name: lower-case letters, digits, '-' and '.', a letter or digit at both ends; "a.b" would do
            "a-.b" is not a name: lower-case letters, digits, '-' and '.', a letter or digit at both ends
        "#]],
        );
        assert_eq!(subdomain(&long), Ok(()));
    }

    #[test]
    fn a_key_may_have_a_prefix() {
        let names = ["robot", "squat.ai/video", "a/b/c", "/b", "a/", "Zone_1.x"];
        check(
            qualified,
            &names,
            expect![[r#"
            "robot": fine
            "squat.ai/video": fine
            "a/b/c" is not a key: letters, digits, '-', '_' and '.' (63 at most, a letter or digit at both ends), with a prefix such as "example.org/" if wanted
            "/b" is not a key: letters, digits, '-', '_' and '.' (63 at most, a letter or digit at both ends), with a prefix such as "example.org/" if wanted
            "a/" is not a key: letters, digits, '-', '_' and '.' (63 at most, a letter or digit at both ends), with a prefix such as "example.org/" if wanted
            "Zone_1.x": fine
        "#]],
        );
    }

    #[test]
    fn values_variables_and_paths_have_their_own_rules() {
        check(
            label_value,
            &["", "r1", "a b"],
            expect![[r#"
            "": fine
            "r1": fine
            "a b" is not a label value: letters, digits, '-', '_' and '.', 63 at most, a letter or digit at both ends
        "#]],
        );
        check(
            environment_variable,
            &["PATH", "1A", "", "A=B"],
            expect![[r#"
            "PATH": fine
            "1A" is not a variable name: letters, digits, '_', '-' and '.', not starting with a digit
            "" is not a variable name: letters, digits, '_', '-' and '.', not starting with a digit
            "A=B" is not a variable name: letters, digits, '_', '-' and '.', not starting with a digit
        "#]],
        );
        check(
            absolute_path,
            &["/data", "data", "/a/../b"],
            expect![[r#"
            "/data": fine
            "data" is not an absolute path: it starts with '/' and has no '..'
            "/a/../b" is not an absolute path: it starts with '/' and has no '..'
        "#]],
        );
    }
}
