//! Did you mean …? For field names and allowed values.

use strsim::damerau_levenshtein;

/// Longer words are not compared: the work grows with the product of both lengths.
const WORD_CHARS_MAX: usize = 64;

/// More candidates than any kind has fields; beyond it a suggestion is not worth the work.
const CANDIDATES_MAX: usize = 512;

/// The candidate that `word` is most likely a slip of, if one is near enough.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_CHARS_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= WORD_CHARS_MAX)
        .map(|candidate| (damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= slips_allowed(word, candidate))
        .min()
        .map(|(_, candidate)| candidate)
}

/// `; did you mean "x"?` or nothing, for the end of a message.
pub(crate) fn suggestion<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    match nearest(word, candidates) {
        Some(candidate) => format!("; did you mean {candidate:?}?"),
        None => String::new(),
    }
}

/// None in the shortest words, beside letter case; then one for each three characters.
fn slips_allowed(word: &str, candidate: &str) -> usize {
    word.chars().count().min(candidate.chars().count()) / 3
}
