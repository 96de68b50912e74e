//! Which series are meant: one condition on one label. Regular expressions match the whole value; those
//! that are a few words, or a word and anything after it, are answered without one.

use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

/// A pattern that compiles to more than this is refused: whoever asks is not to fill the memory.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// More words than this are looked up no faster than a regular expression reads them.
const WORDS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Equal,
    NotEqual,
    Matches,
    MatchesNot,
}

impl Op {
    pub fn sign(self) -> &'static str {
        match self {
            Op::Equal => "=",
            Op::NotEqual => "!=",
            Op::Matches => "=~",
            Op::MatchesNot => "!~",
        }
    }
}

/// A condition on a label. A label that is not there has the empty value.
#[derive(Clone, Debug)]
pub struct Matcher {
    pub name: Arc<str>,
    pub op: Op,
    pub value: Arc<str>,
    test: Test,
}

/// What the value is compared with, before a negation.
#[derive(Clone, Debug)]
enum Test {
    Word,
    /// Sorted.
    Words(Vec<Box<str>>),
    /// What comes first, and how many bytes at least come after it.
    Prefix(Box<str>, usize),
    Regex(Regex),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}")]
pub struct BadPattern {
    pub problem: String,
}

impl Matcher {
    pub fn new(name: &str, op: Op, value: &str) -> Result<Self, BadPattern> {
        let test = match op {
            Op::Equal | Op::NotEqual => Test::Word,
            Op::Matches | Op::MatchesNot => {
                plain_test(value).map_or_else(|| regex_test(value), Ok)?
            }
        };
        Ok(Self { name: Arc::from(name), op, value: Arc::from(value), test })
    }

    pub fn equal(name: &str, value: &str) -> Self {
        Self { name: Arc::from(name), op: Op::Equal, value: Arc::from(value), test: Test::Word }
    }

    pub fn matches(&self, value: &str) -> bool {
        let positive = match &self.test {
            Test::Word => *self.value == *value,
            Test::Words(words) => words.binary_search_by(|word| (**word).cmp(value)).is_ok(),
            Test::Prefix(prefix, more) => {
                value.strip_prefix(&**prefix).is_some_and(|rest| rest.len() >= *more)
            }
            Test::Regex(regex) => regex.is_match(value),
        };
        positive != self.is_negative()
    }

    pub fn is_negative(&self) -> bool {
        matches!(self.op, Op::NotEqual | Op::MatchesNot)
    }

    /// All values that can match, when they are few and known.
    pub(crate) fn words(&self) -> Option<Vec<&str>> {
        match (&self.test, self.is_negative()) {
            (Test::Word, false) => Some(vec![&self.value]),
            (Test::Words(words), false) => Some(words.iter().map(|word| &**word).collect()),
            (Test::Word | Test::Words(_) | Test::Prefix(..) | Test::Regex(_), _) => None,
        }
    }

    /// What every value that matches begins with.
    pub(crate) fn prefix(&self) -> &str {
        match (&self.test, self.is_negative()) {
            (Test::Prefix(prefix, _), false) => prefix,
            (Test::Word | Test::Words(_) | Test::Prefix(..) | Test::Regex(_), _) => "",
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.op, &self.value) == (&other.name, other.op, &other.value)
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{:?}", self.name, self.op.sign(), self.value)
    }
}

/// The pattern as it is meant: the whole value, and a dot is any character.
pub fn anchored(pattern: &str) -> String {
    format!("^(?s:{pattern})$")
}

/// Compiles a pattern within bounds.
pub fn compile(pattern: &str) -> Result<Regex, BadPattern> {
    RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build().map_err(|error| {
        // The library shows the pattern over several lines; its last line says what is wrong.
        let text = error.to_string();
        let problem = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        BadPattern { problem: problem.to_owned() }
    })
}

fn regex_test(pattern: &str) -> Result<Test, BadPattern> {
    // Alone as well, so that `)(` is not mended by what is put around it.
    compile(pattern)?;
    compile(&anchored(pattern)).map(Test::Regex)
}

/// A test without a regular expression, for a pattern that needs none.
fn plain_test(pattern: &str) -> Option<Test> {
    if let Some(prefix) = pattern.strip_suffix(".*").filter(|prefix| is_plain(prefix)) {
        return Some(Test::Prefix(prefix.into(), 0));
    }
    if let Some(prefix) = pattern.strip_suffix(".+").filter(|prefix| is_plain(prefix)) {
        return Some(Test::Prefix(prefix.into(), 1));
    }
    let inner =
        pattern.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(pattern);
    let mut words: Vec<Box<str>> = Vec::new();
    for word in inner.split('|') {
        if !is_plain(word) || words.len() == WORDS_MAX {
            return None;
        }
        words.push(word.into());
    }
    words.sort_unstable();
    words.dedup();
    Some(Test::Words(words))
}

fn is_plain(text: &str) -> bool {
    !text.contains(|c| r"\.+*?()[]{}^$|".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(op: Op, pattern: &str, yes: &[&str], no: &[&str]) {
        let matcher = Matcher::new("a", op, pattern).unwrap();
        for value in yes {
            assert!(matcher.matches(value), "{pattern} {value}");
        }
        for value in no {
            assert!(!matcher.matches(value), "{pattern} {value}");
        }
    }

    #[test]
    fn a_pattern_matches_the_whole_value() {
        check(Op::Matches, "a", &["a"], &["", "aa", "ba"]);
        check(Op::Matches, "a|bc|", &["a", "bc", ""], &["b", "abc"]);
        check(Op::Matches, "(a|b)", &["a", "b"], &["ab", "(a"]);
        check(Op::Matches, "a.*", &["a", "ab", "a\nb"], &["", "ba"]);
        check(Op::Matches, "a.+", &["ab"], &["a"]);
        check(Op::Matches, "a[0-9]+|b", &["a1", "a22", "b"], &["a", "a1x", "xb"]);
        check(Op::MatchesNot, "a.*", &["", "b"], &["a", "ab"]);
        check(Op::NotEqual, "", &["a"], &[""]);
        check(Op::Matches, ".*", &["", "a"], &[]);
        check(Op::Matches, ".+", &["a"], &[""]);
    }

    #[test]
    fn a_pattern_that_is_wrong_or_grows_is_refused() {
        assert!(Matcher::new("a", Op::Matches, "a(").is_err());
        assert!(Matcher::new("a", Op::Matches, ")(").is_err());
        assert!(Matcher::new("a", Op::Matches, "((a{200}){200}){200}").is_err());
    }
}
