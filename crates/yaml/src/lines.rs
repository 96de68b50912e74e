//! Lines and columns of a text. Used by whoever shows a place to people.

use crate::node::Span;

/// A place as people count: from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// Where the lines of a text begin.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<u32>,
    /// The characters before each block of the text, so that a place far behind in a long line need
    /// not be counted from its beginning; empty where every character is one byte.
    blocks: Vec<u32>,
}

/// Bytes that are counted for one place at the most.
const BLOCK: usize = 1024;

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Lines<'a> {
        let after = text.match_indices('\n').map(|(index, _)| offset(index + 1));
        let starts = std::iter::once(0).chain(after).collect();
        let blocks = text.as_bytes().chunks(BLOCK).scan(0, |before, block| {
            let own = characters(block);
            *before += own;
            Some(*before - own)
        });
        let blocks = if text.is_ascii() { Vec::new() } else { blocks.collect() };
        Lines { text, starts, blocks }
    }

    /// The place of a byte; the end of the text for one beyond it.
    pub fn position(&self, byte: u32) -> Position {
        let line = self.line_index(byte);
        let start = self.starts[line] as usize;
        let end = self.boundary(byte as usize).max(start);
        let column = self.characters_before(end) - self.characters_before(start);
        Position { line: offset(line + 1), column: column + 1 }
    }

    /// The line, counted from 1, without its break; nothing when there is no such line.
    pub fn line(&self, number: u32) -> Option<&'a str> {
        let index = (number as usize).checked_sub(1)?;
        let start = *self.starts.get(index)? as usize;
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| *next as usize);
        Some(self.text[start..end].trim_end_matches(['\n', '\r']))
    }

    /// Where a line, counted from 1, begins.
    pub fn start(&self, number: u32) -> Option<u32> {
        self.starts.get((number as usize).checked_sub(1)?).copied()
    }

    /// The byte of a place in characters, as parsers report it: line from 1, column from 0.
    pub fn byte(&self, line: usize, column: usize) -> u32 {
        let index = line.saturating_sub(1).min(self.starts.len() - 1);
        let start = self.starts[index] as usize;
        let within = self.text[start..].char_indices().nth(column);
        within.map_or(offset(self.text.len()), |(bytes, _)| offset(start + bytes))
    }

    /// The part of a span on the line where it begins.
    pub fn on_first_line(&self, span: Span) -> Span {
        let line = self.line_index(span.start);
        let start = self.starts[line];
        let length = self.line(offset(line + 1)).map_or(0, str::len);
        Span::new(span.start, span.end.min(start + offset(length)).max(span.start))
    }

    fn characters_before(&self, end: usize) -> u32 {
        match self.blocks.get(end / BLOCK) {
            Some(before) => before + characters(&self.text.as_bytes()[end - end % BLOCK..end]),
            None if self.blocks.is_empty() => offset(end),
            // The end of a text that fills its last block.
            None => offset(self.text.chars().count()),
        }
    }

    fn line_index(&self, byte: u32) -> usize {
        self.starts.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    fn boundary(&self, byte: usize) -> usize {
        let mut end = byte.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        end
    }
}

/// Characters that begin in a stretch of bytes.
fn characters(bytes: &[u8]) -> u32 {
    offset(bytes.iter().filter(|byte| (**byte & 0b1100_0000) != 0b1000_0000).count())
}

/// Texts are bounded far below this, see [`crate::Limits::bytes`].
pub(crate) fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, byte: u32, line: u32, column: u32) {
        assert_eq!(Lines::new(text).position(byte), Position { line, column }, "{text:?} {byte}");
    }

    #[test]
    fn counts_characters_not_bytes() {
        check("ä: b\nc", 0, 1, 1);
        check("ä: b\nc", 2, 1, 2);
        check("ä: b\nc", 6, 2, 1);
        check("ä: b\nc", 99, 2, 2);
        check("", 0, 1, 1);
        // In the middle of a character: the place of the character.
        check("ä", 1, 1, 1);
    }

    #[test]
    fn counts_the_same_over_many_blocks() {
        for text in ["ä€x".repeat(2000), "x".repeat(5000), "ä".repeat(BLOCK)] {
            let text = format!("first\n{text}\nlast");
            for (index, (byte, letter)) in text.char_indices().enumerate().skip(6) {
                if letter == '\n' {
                    break;
                }
                check(&text, offset(byte), 2, offset(index - 5));
            }
            check(&text, offset(text.len()), 3, 5);
        }
        check(&"ä".repeat(BLOCK), offset(2 * BLOCK), 1, offset(BLOCK + 1));
    }

    #[test]
    fn gives_lines_without_their_break() {
        let lines = Lines::new("a\r\nb\n");
        assert_eq!(lines.line(1), Some("a"));
        assert_eq!(lines.line(2), Some("b"));
        assert_eq!(lines.line(3), Some(""));
        assert_eq!(lines.line(4), None);
        assert_eq!(lines.line(0), None);
    }
}
