//! Texts for the quick way: plain, in quotes, as a literal block.

use std::borrow::Cow;

use super::Scanner;
use crate::lines::offset;
use crate::node::{Key, Node, Span};
use crate::scalar::{self, Style};

/// What stands at a place of a line.
pub(super) enum Token {
    Key {
        key: Key,
        colon: usize,
    },
    Scalar {
        node: Node,
        end: usize,
    },
    /// An opening bracket.
    Flow,
    /// The mark of a block of text.
    Block,
}

/// Whether a text has only characters that mean the same everywhere: no tabs, no other control
/// characters, no breaks but `\n`, no marks of byte order.
pub(super) fn is_tame(text: &str) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\n') || byte == 0x7f;
    if text.bytes().fold(false, |found, byte| found | is_control(byte)) {
        return false;
    }
    let is_tame = |letter: char| match letter {
        '\0'..='\x7f' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' => false,
        '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => true,
        _ => false,
    };
    text.is_ascii() || text.chars().all(is_tame)
}

/// A stretch of text that is a scalar, or the key before a colon.
pub(super) struct Stretch<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) style: Style,
    pub(super) span: Span,
    pub(super) end: usize,
}

impl Stretch<'_> {
    pub(super) fn into_node(self) -> Node {
        scalar::node(self.text, self.style, self.span)
    }

    pub(super) fn into_key(self) -> Key {
        match self.style {
            Style::Plain => Key::new(self.text, self.span),
            Style::Quoted => Key::quoted(self.text.into_owned(), self.span),
        }
    }
}

impl<'a> Scanner<'a> {
    /// What stands here, outside of brackets.
    pub(super) fn token(&self, at: usize) -> Option<Token> {
        let stretch = match self.byte(at)? {
            b'[' | b'{' => return Some(Token::Flow),
            b'|' => return Some(Token::Block),
            b'"' | b'\'' => self.quoted(at)?,
            _ if self.begins_plain(at) => self.plain(at)?,
            _ => return None,
        };
        let end = stretch.end;
        Some(match self.byte(end) == Some(b':') && self.is_blank(end + 1) {
            true => Token::Key { key: stretch.into_key(), colon: end },
            false => Token::Scalar { node: stretch.into_node(), end },
        })
    }

    /// Whether a plain text may begin here, in brackets or not.
    pub(super) fn begins_plain(&self, at: usize) -> bool {
        match self.byte(at) {
            Some(b'-') => matches!(
                self.byte(at + 1),
                Some(b'-' | b'_' | b'.' | b'/' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
            ),
            Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | 0x80..) => true,
            Some(b'_' | b'.' | b'/' | b'$' | b'(' | b'~' | b'+' | b'=' | b'<' | b'^' | b'\\') => {
                true
            }
            Some(_) | None => false,
        }
    }

    /// A plain text outside of brackets: to the end of the line, a comment, or the colon of a key.
    fn plain(&self, start: usize) -> Option<Stretch<'a>> {
        let mut end = start;
        let mut at = start;
        loop {
            match self.byte(at) {
                None | Some(b'\n') => break,
                Some(b' ') => (),
                Some(b'#') if at > end => break,
                // With a blank before the colon it is nothing that people write.
                Some(b':') if self.is_blank(at + 1) => match at == end {
                    true => break,
                    false => return None,
                },
                Some(_) => end = at + 1,
            }
            at += 1;
        }
        self.stretch(start, end)
    }

    pub(super) fn stretch(&self, start: usize, end: usize) -> Option<Stretch<'a>> {
        let text = Cow::Borrowed(self.text.get(start..end)?);
        let span = Span::new(offset(start), offset(end));
        Some(Stretch { text, style: Style::Plain, span, end })
    }

    /// A text in quotes that ends on its line.
    pub(super) fn quoted(&self, start: usize) -> Option<Stretch<'a>> {
        let quote = self.byte(start)?;
        let mut text = Cow::Borrowed("");
        let mut from = start + 1;
        let end = loop {
            let rest = self.text.as_bytes().get(from..)?;
            let stops = |byte: &u8| *byte == quote || matches!(byte, b'\n' | b'\\');
            let stop = from + rest.iter().position(stops)?;
            let before = self.text.get(from..stop)?;
            match text.is_empty() {
                true => text = Cow::Borrowed(before),
                false => text.to_mut().push_str(before),
            }
            let (letter, length) = match (quote, self.byte(stop)?, self.byte(stop + 1)) {
                (_, b'\n', _) => return None,
                (b'\'', b'\'', Some(b'\'')) => ('\'', 2),
                (b'\'', b'\\', _) => ('\\', 1),
                (_, b'\\', escaped) => (unescaped(escaped?)?, 2),
                (_, _, _) => break stop + 1,
            };
            text.to_mut().push(letter);
            from = stop + length;
        };
        let span = Span::new(offset(start), offset(end));
        Some(Stretch { text, style: Style::Quoted, span, end })
    }

    /// A literal block below a level with this indentation, and the line behind it.
    pub(super) fn block(&self, start: usize, indent: usize) -> Option<(Node, usize)> {
        let (strips, header_end) = match self.byte(start + 1) {
            Some(b'-') => (true, start + 2),
            _ => (false, start + 1),
        };
        if self.byte(header_end) != Some(b'\n') {
            return None;
        }
        let mut text = String::new();
        let mut blank_lines = 0;
        let mut block_indent = None;
        let mut begin = 0;
        let mut line = header_end + 1;
        let end = loop {
            let content = self.skip_blanks(line);
            let found = content - line;
            match self.byte(content) {
                None if found == 0 => break content,
                Some(b'\n') if found == 0 => {
                    blank_lines += 1;
                    line = content + 1;
                    continue;
                }
                None | Some(b'\n') => return None,
                Some(_) => (),
            }
            if found < *block_indent.get_or_insert(found) || found <= indent {
                // What stands between the two is wrong, or a comment that only looks right.
                match found <= indent {
                    true => break content,
                    false => return None,
                }
            }
            if begin == 0 {
                begin = line + found;
            }
            text.extend(std::iter::repeat_n('\n', blank_lines));
            blank_lines = 0;
            let next = self.next_line(content);
            let whole = self.text.get(line + block_indent?..next)?;
            if !whole.ends_with('\n') {
                return None;
            }
            text.push_str(whole);
            line = next;
        };
        if strips {
            text.pop();
        }
        let span = Span::new(offset(begin), offset(end));
        (begin > 0).then(|| (scalar::node(text.into(), Style::Quoted, span), line))
    }
}

fn unescaped(letter: u8) -> Option<char> {
    match letter {
        b'"' | b'\\' | b'/' => Some(char::from(letter)),
        b'n' => Some('\n'),
        b't' => Some('\t'),
        b'r' => Some('\r'),
        _ => None,
    }
}
