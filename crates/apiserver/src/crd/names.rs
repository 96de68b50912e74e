//! The names that a definition may give: groups, plurals, kinds and versions.

use crate::status::Problem;
use tombolo_document::schema::{Findings, Path};

/// The form of a name, with the words for it.
pub(super) struct Form {
    pub(super) expected: &'static str,
    pub(super) fits: fn(&str) -> bool,
}

pub(super) const LABEL: Form = Form {
    expected: "a name of at most 63 lower-case letters, digits and hyphens that begins with a \
               letter and ends with a letter or digit",
    fits: is_label,
};

pub(super) const KIND: Form = Form {
    expected: "a name in CamelCase of at most 63 letters and digits that begins with a letter",
    fits: |name| is_label(&name.to_ascii_lowercase()),
};

pub(super) const GROUP: Form =
    Form { expected: "a domain with at least one dot, such as example.org", fits: is_group };

pub(super) fn check(name: &str, form: &Form, path: &Path<'_>, findings: &mut Findings) {
    if name.is_empty() {
        findings.push(path, Problem::Required, format!("expected {}", form.expected));
    } else if !(form.fits)(name) {
        findings.push(path, Problem::Invalid, format!("{name:?} is not {}", form.expected));
    }
}

fn is_label(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.ends_with('-')
}

fn is_group(group: &str) -> bool {
    let part = |part: &str| {
        (1..=63).contains(&part.len())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    group.len() <= 253 && group.contains('.') && group.split('.').all(part)
}
