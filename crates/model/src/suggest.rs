//! The nearest right name for a wrong one. Called wherever a message can say "did you mean".

/// Longer input is no slip of the finger, and comparing it would cost time without end.
const COMPARED_CHARS_MAX: usize = 64;

/// More than any kind has fields; a user's schema may have any number.
const COMPARED_NAMES_MAX: usize = 512;

/// The allowed name that `wrong` was most likely meant to be, if any is near enough.
///
/// Upper and lower case, `-` and `_` do not count as differences. Of two equally near names the
/// first one wins, so that the same question always has the same answer.
pub fn nearest<'a>(wrong: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.is_empty() || wrong.chars().count() > COMPARED_CHARS_MAX {
        return None;
    }
    let plain_wrong = plain(wrong);
    let mut best: Option<(usize, &str)> = None;
    for candidate in allowed.into_iter().take(COMPARED_NAMES_MAX) {
        if candidate.len() > COMPARED_CHARS_MAX {
            continue;
        }
        let plain_candidate = plain(candidate);
        let most = distance_max(&plain_wrong, &plain_candidate);
        // Names of other lengths are at least so far away; most need not be compared at all.
        if plain_wrong.chars().count().abs_diff(plain_candidate.chars().count()) > most {
            continue;
        }
        let distance = strsim::osa_distance(&plain_wrong, &plain_candidate);
        if distance > most {
            continue;
        }
        match best {
            Some((least, _)) if least <= distance => (),
            Some(_) | None => best = Some((distance, candidate)),
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// ` (did you mean "memory"?)`, or nothing when no allowed name is near; to end a message with.
pub fn did_you_mean<'a>(wrong: &str, allowed: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(wrong, allowed) {
        Some(name) => format!(" (did you mean {name:?}?)"),
        None => String::new(),
    }
}

/// `"a", "b" or "c"`: the way messages list what is allowed.
pub fn one_of<'a>(allowed: impl IntoIterator<Item = &'a str>) -> String {
    let mut quoted: Vec<String> = allowed.into_iter().map(quoted).collect();
    match quoted.pop() {
        None => "nothing".to_owned(),
        Some(last) if quoted.is_empty() => last,
        Some(last) => format!("{} or {last}", quoted.join(", ")),
    }
}

/// Names may come from a text and be of any length; a message shows the beginning.
fn quoted(name: &str) -> String {
    match name.char_indices().nth(COMPARED_CHARS_MAX) {
        Some((end, _)) => format!("{:?}", format!("{}…", &name[..end])),
        None => format!("{name:?}"),
    }
}

/// A third of the letters may be wrong; a short name must be nearly right, or every short word
/// would be near every other.
fn distance_max(wrong: &str, candidate: &str) -> usize {
    let shorter = wrong.chars().count().min(candidate.chars().count());
    match shorter {
        0..=1 => 0,
        2..=5 => 1,
        6..=8 => 2,
        _ => 3,
    }
}

fn plain(name: &str) -> String {
    let letters = name.chars().filter(|letter| !matches!(letter, '-' | '_'));
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wrong: &str, expected: Option<&str>) {
        let allowed = ["components", "memory", "cpu", "connects", "arch", "onEach", "expose"];
        assert_eq!(nearest(wrong, allowed), expected, "for {wrong:?}");
    }

    #[test]
    fn finds_the_name_behind_a_slip_of_the_finger() {
        check("component", Some("components"));
        check("memroy", Some("memory"));
        check("Memory", Some("memory"));
        check("on_each", Some("onEach"));
        check("cpus", Some("cpu"));
        check("exposes", Some("expose"));
    }

    #[test]
    fn stays_silent_when_nothing_is_near() {
        check("zebra", None);
        check("", None);
        check("go", None);
        check(&"a".repeat(10_000), None);
    }

    #[test]
    fn lists_what_is_allowed_as_a_person_would() {
        assert_eq!(one_of([]), "nothing");
        assert_eq!(one_of(["a"]), r#""a""#);
        assert_eq!(one_of(["a", "b", "c"]), r#""a", "b" or "c""#);
        assert!(one_of(["a", &"b".repeat(10_000)]).len() < 100);
    }
}
