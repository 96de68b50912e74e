//! A floor on a 0–100 score, by name or by number.

use std::fmt;
use std::str::FromStr;

use super::{Error, Words, in_json};
use crate::suggest;

/// What `low` asks of a score.
pub const LEVEL_LOW: u8 = 0;
/// What `medium` asks of a score.
pub const LEVEL_MEDIUM: u8 = 34;
/// What `high` asks of a score.
pub const LEVEL_HIGH: u8 = 67;

const WORDS: Words =
    Words { what: "a level", allowed: "low, medium, high, or a score from 0 to 100" };
const NAMED: &[(&str, u8)] = &[("low", LEVEL_LOW), ("medium", LEVEL_MEDIUM), ("high", LEVEL_HIGH)];

/// The least score that will do: `low` (0), `medium` (34), `high` (67), or a number up to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

in_json!(Level, "level");

impl Level {
    pub const LOW: Level = Level(LEVEL_LOW);
    pub const MEDIUM: Level = Level(LEVEL_MEDIUM);
    pub const HIGH: Level = Level(LEVEL_HIGH);

    /// The level that asks for `score`; nothing above 100.
    pub fn from_score(score: u8) -> Option<Level> {
        (score <= 100).then_some(Level(score))
    }

    pub fn score(self) -> u8 {
        self.0
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(text: &str) -> Result<Level, Error> {
        let word = text.trim().to_lowercase();
        if let Some((_, score)) = NAMED.iter().find(|(name, _)| *name == word) {
            return Ok(Level(*score));
        }
        match word.parse::<f64>() {
            // `as` cuts nothing off: the value is whole and in range.
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and 0..=100")]
            Ok(score) if (0.0..=100.0).contains(&score) && score.fract() == 0.0 =>
            {
                #[expect(clippy::cast_sign_loss, reason = "checked to be 0 or more")]
                Ok(Level(score as u8))
            }
            Ok(_) => Err(WORDS.error(text, "", None)),
            Err(_) => {
                let meant = suggest::nearest(&word, NAMED.iter().map(|(name, _)| *name));
                Err(WORDS.error(text, "", meant.map(str::to_owned)))
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMED.iter().find(|(_, score)| *score == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}
