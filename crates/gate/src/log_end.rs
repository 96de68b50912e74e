//! The end of a log, in bounded memory. Filled by [`crate::Caller::log`].

use std::collections::VecDeque;

/// What is kept of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub text: String,
    /// Nothing before it had to go.
    pub is_whole: bool,
}

/// Takes a log piece by piece and keeps its last bytes.
#[derive(Debug)]
pub(crate) struct LogEnd {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    dropped_last: Option<u8>,
}

impl LogEnd {
    pub(crate) fn new(bytes_max: usize) -> LogEnd {
        LogEnd { bytes: VecDeque::new(), bytes_max, dropped_last: None }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.bytes.extend(piece);
        let surplus = self.bytes.len().saturating_sub(self.bytes_max);
        self.dropped_last = self.bytes.drain(..surplus).next_back().or(self.dropped_last);
    }

    /// Begins with a whole line, unless the last line alone is too long: then it is the end of that.
    /// What is no text is replaced.
    pub(crate) fn finish(self) -> Log {
        let is_whole = self.dropped_last.is_none();
        let begins_a_line = self.dropped_last.is_none_or(|byte| byte == b'\n');
        let bytes = Vec::from(self.bytes);
        let next_line = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let start = match next_line {
            Some(next) if !begins_a_line && next < bytes.len() => next,
            Some(_) | None => 0,
        };
        Log { text: String::from_utf8_lossy(&bytes[start..]).into_owned(), is_whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], bytes_max: usize, text: &str, is_whole: bool) {
        let mut end = LogEnd::new(bytes_max);
        for piece in pieces {
            end.push(piece.as_bytes());
            assert!(end.bytes.len() <= bytes_max);
        }
        assert_eq!(end.finish(), Log { text: text.to_owned(), is_whole });
    }

    #[test]
    fn a_log_that_fits_is_whole() {
        check(&[], 8, "", true);
        check(&["one\n", "two\n"], 8, "one\ntwo\n", true);
    }

    #[test]
    fn the_newest_lines_are_kept_and_each_is_whole() {
        check(&["one\ntwo\nthree\n"], 12, "two\nthree\n", false);
        check(&["on", "e\ntw", "o\nthr", "ee\n"], 11, "two\nthree\n", false);
        check(&["one\ntwo\nthree\n"], 10, "two\nthree\n", false);
        check(&["one\ntwo\nthree\n", ""], 10, "two\nthree\n", false);
        check(&["one\ntwo\nthree\n"], 9, "three\n", false);
        check(&["one\ntwo\nthr"], 6, "thr", false);
    }

    #[test]
    fn of_a_line_that_is_too_long_the_end_is_kept() {
        check(&["one\nabcdefgh\n"], 4, "fgh\n", false);
        check(&["one\nabcdefgh"], 4, "efgh", false);
    }
}
