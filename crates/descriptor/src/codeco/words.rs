//! The classes of a CodecoApp, by word, by the older words, or by the scale from 1 to 5. Called by
//! [`super::read`].

use tombolo_model::Level;
use tombolo_model::app::{Grade, Profile, Qos};

use crate::fields::Field;
use crate::reader::Reader;

/// Between medium and high; CODECO names a step there that we do not.
const GOOD: u8 = 50;

const QOS: &[(&str, Qos)] =
    &[("Gold", Qos::Gold), ("Silver", Qos::Silver), ("BestEffort", Qos::BestEffort)];
const QOS_OLDER: &[(&str, Qos)] =
    &[("High", Qos::Gold), ("Medium", Qos::Silver), ("Dev", Qos::BestEffort)];
const QOS_SCALE: [Qos; 5] = [Qos::BestEffort, Qos::Silver, Qos::Silver, Qos::Gold, Qos::Gold];

/// From the least to the most, as the scale counts them.
const STEPS: [Step; 5] = [Step::None, Step::Low, Step::Medium, Step::Good, Step::High];
const SECURITY: &[(&str, Step)] = &[
    ("High", Step::High),
    ("Good", Step::Good),
    ("Medium", Step::Medium),
    ("Low", Step::Low),
    ("None", Step::None),
];
const SECURITY_OLDER: &[(&str, Step)] = &[("Dev", Step::None)];
const COMPLIANCE: &[(&str, Step)] =
    &[("High", Step::High), ("Medium", Step::Medium), ("Low", Step::Low)];
const COMPLIANCE_OLDER: &[(&str, Step)] =
    &[("Compliant", Step::High), ("Non-Compliant", Step::None)];

const TOLERANCE: &[(&str, Grade)] =
    &[("High", Grade::High), ("Medium", Grade::Medium), ("Low", Grade::Low)];
const PROFILES: &[(&str, Profile)] = &[
    ("Greenness", Profile::Greenness),
    ("Resilience", Profile::Resilience),
    ("Performance", Profile::Performance),
    ("Balanced", Profile::Balanced),
];

/// A class of security or compliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    None,
    Low,
    Medium,
    Good,
    High,
}

pub(super) fn qos(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Qos> {
    match scale(field, reader)? {
        Scale::At(step) => Some(QOS_SCALE[step]),
        Scale::Word => word(field, QOS, QOS_OLDER, reader),
    }
}

pub(super) fn security(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Level> {
    level(field, SECURITY, SECURITY_OLDER, reader)
}

pub(super) fn compliance(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Level> {
    level(field, COMPLIANCE, COMPLIANCE_OLDER, reader)
}

/// By word, or as the share of failures in percent that is put up with.
pub(super) fn tolerance(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Grade> {
    let text = field.node.raw().unwrap_or_default();
    let share = match text.trim().trim_end_matches('%').trim().parse::<f64>() {
        Ok(share) => share,
        Err(_) => return word(field, TOLERANCE, &[], reader),
    };
    let grade = match share {
        share if share < 34.0 => Grade::Low,
        share if share < 67.0 => Grade::Medium,
        _ => Grade::High,
    };
    field.changed(reader, &format!("{text} of 100 is taken for {grade:?}", grade = grade.as_str()));
    Some(grade)
}

pub(super) fn profile(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Profile> {
    word(field, PROFILES, &[], reader)
}

/// A share in percent, with or without the sign.
pub(super) fn percent(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<f64> {
    let text = field.node.raw().unwrap_or_default().trim();
    if text.is_empty() && field.node.is_scalar() {
        return None;
    }
    match text.trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(share) if (0.0..=100.0).contains(&share) => Some(share),
        Ok(_) | Err(_) => {
            let message = format!("{text:?} is not a share in percent");
            field.error(reader, "invalid-value", message).expecting("a number from 0 to 100");
            None
        }
    }
}

fn level(
    field: &Field<'_>,
    words: &[(&str, Step)],
    older: &[(&str, Step)],
    reader: &mut Reader<'_>,
) -> Option<Level> {
    let step = match scale(field, reader)? {
        Scale::At(step) => STEPS[step],
        Scale::Word => word(field, words, older, reader)?,
    };
    match step {
        Step::None => {
            field.dropped(reader, "it asks for nothing");
            None
        }
        Step::Low => Some(Level::LOW),
        Step::Medium => Some(Level::MEDIUM),
        Step::Good => {
            let message = format!("\"Good\" lies between medium and high: a score of {GOOD}");
            field.changed(reader, &message);
            Level::from_score(GOOD)
        }
        Step::High => Some(Level::HIGH),
    }
}

/// How a class is given.
enum Scale {
    /// By a step of the scale, counted from 0.
    At(usize),
    Word,
}

/// Nothing when there is no value, or a number off the scale.
fn scale(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Scale> {
    let text = field.node.raw().unwrap_or_default().trim();
    if text.is_empty() && field.node.is_scalar() {
        return None;
    }
    let Ok(number) = text.parse::<f64>() else { return Some(Scale::Word) };
    let step = (1u8..=5).find(|step| f64::from(*step) == number);
    let Some(step) = step else {
        let message = format!("{text} is not on the scale");
        field.error(reader, "invalid-value", message).expecting("a number from 1 to 5");
        return None;
    };
    field.assumed(reader, "5 is taken for the highest of the scale from 1 to 5");
    Some(Scale::At(usize::from(step - 1)))
}

/// A word whatever its case, blanks and dashes. An older word is told, for its meaning is ours.
fn word<T: Copy>(
    field: &Field<'_>,
    words: &[(&str, T)],
    older: &[(&str, T)],
    reader: &mut Reader<'_>,
) -> Option<T> {
    let written = plain(field.node.raw().unwrap_or_default());
    if written.is_empty() && field.node.is_scalar() {
        return None;
    }
    let find = |table: &[(&str, T)]| {
        table.iter().find(|(name, _)| plain(name) == written).map(|(_, value)| *value)
    };
    if let Some(value) = find(words) {
        return Some(value);
    }
    if let Some(position) = older.iter().position(|(name, _)| plain(name) == written) {
        let rank = words.get(position).map_or("the least", |(name, _)| *name);
        field.changed(reader, &format!("a word of the older CodecoApp, taken for {rank}"));
        return find(older);
    }
    field.one_of(reader, words)
}

fn plain(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).flat_map(char::to_lowercase).collect()
}
