//! The suffixes of Kubernetes quantities: decimal, binary, and parts of one. Used by the
//! quantities only.

use super::decimal::Scale;

/// Suffix, power of ten, power of two.
const SUFFIXES: &[(&str, i32, u32)] = &[
    ("n", -9, 0),
    ("u", -6, 0),
    ("m", -3, 0),
    ("", 0, 0),
    ("k", 3, 0),
    ("M", 6, 0),
    ("G", 9, 0),
    ("T", 12, 0),
    ("P", 15, 0),
    ("E", 18, 0),
    ("Ki", 0, 10),
    ("Mi", 0, 20),
    ("Gi", 0, 30),
    ("Ti", 0, 40),
    ("Pi", 0, 50),
    ("Ei", 0, 60),
];

/// The factor that a suffix stands for. `K` for `k` is not Kubernetes' and is taken all the same.
pub(super) fn scale(suffix: &str) -> Option<Scale> {
    let wanted = if suffix == "K" { "k" } else { suffix };
    let (_, ten, two) = SUFFIXES.iter().find(|(name, _, _)| *name == wanted)?;
    Some(Scale { ten: *ten, two: *two })
}

/// The suffix that differs from a wrong one by upper and lower case only, whole units first:
/// whoever writes `mi` means `Mi`.
pub(super) fn in_right_case(wrong: &str) -> Option<&'static str> {
    let names = SUFFIXES.iter().filter(|(_, ten, two)| *ten > 0 || *two > 0);
    names.map(|(name, _, _)| *name).find(|name| name.eq_ignore_ascii_case(wrong))
}

/// `value` with the largest suffix that keeps it exact; of two that do, the shorter text.
pub(super) fn exact(value: u64, with_binary: WithBinary) -> String {
    let mut best = value.to_string();
    if value == 0 {
        return best;
    }
    for (name, ten, two) in SUFFIXES {
        let unit = match (*ten, *two) {
            (1.., 0) => 10u64.checked_pow(ten.unsigned_abs()),
            (0, 1..) if with_binary == WithBinary::Yes => 1u64.checked_shl(*two),
            (_, _) => None,
        };
        let Some(unit) = unit else { continue };
        if !value.is_multiple_of(unit) {
            continue;
        }
        let text = format!("{}{name}", value / unit);
        if text.len() < best.len() {
            best = text;
        }
    }
    best
}

/// Whether `Ki` and its like may be used for writing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WithBinary {
    Yes,
    No,
}
