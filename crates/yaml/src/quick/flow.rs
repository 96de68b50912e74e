//! Lists and mappings in brackets for the quick way, on one line or, as JSON has them, on many.

use super::{Bracket, KEY_BYTES_MAX, Scanner};
use crate::lines::offset;
use crate::node::Span;
use crate::scalar;

/// What may come next within brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// An entry or, right behind the opening bracket, the closing one.
    EntryOrEnd,
    Entry,
    /// The value of a key.
    Value,
    /// A comma or the closing bracket.
    Separator,
}

impl<'a> Scanner<'a> {
    /// A collection in brackets that begins here, and the place behind it. Its further lines stand
    /// right of `indent`.
    pub(super) fn flow(&mut self, start: usize, indent: Option<usize>) -> Option<usize> {
        let mut open: Vec<Bracket> = Vec::new();
        let mut next = Next::Value;
        let mut at = start;
        loop {
            at = self.skip_breaks(at, indent)?;
            let byte = self.byte(at)?;
            let within = open.last().copied();
            let takes_value = match next {
                Next::Value => true,
                Next::Entry | Next::EntryOrEnd => within == Some(Bracket::Square),
                Next::Separator => false,
            };
            let takes_end = matches!(next, Next::Separator | Next::EntryOrEnd);
            match (byte, within) {
                (b'{' | b'[', _) if takes_value => {
                    let bracket = match byte {
                        b'{' => Bracket::Brace,
                        _ => Bracket::Square,
                    };
                    self.go_deeper(bracket, one(at))?;
                    open.push(bracket);
                    next = Next::EntryOrEnd;
                    at += 1;
                }
                (b'}', Some(Bracket::Brace)) | (b']', Some(Bracket::Square)) if takes_end => {
                    self.tree.close(one(at)).ok()?;
                    open.pop();
                    next = Next::Separator;
                    at += 1;
                    if open.is_empty() {
                        return Some(at);
                    }
                }
                (b',', _) if next == Next::Separator => {
                    next = Next::Entry;
                    at += 1;
                }
                (_, _) if takes_value => {
                    at = self.flow_value(at)?;
                    next = Next::Separator;
                }
                (_, _) if next == Next::Separator => return None,
                (_, _) => {
                    at = self.flow_key(at)?;
                    next = Next::Value;
                }
            }
        }
    }

    fn flow_value(&mut self, at: usize) -> Option<usize> {
        let stretch = match self.byte(at)? {
            b'"' | b'\'' => self.quoted(at)?,
            _ => self.stretch(at, self.flow_plain(at)?)?,
        };
        let end = stretch.end;
        if self.byte(end) == Some(b':') {
            return None;
        }
        self.tree.add(stretch.into_node(), 0).ok()?;
        Some(end)
    }

    /// A key, and the place of its value, which is on the same line.
    fn flow_key(&mut self, at: usize) -> Option<usize> {
        let stretch = match self.byte(at)? {
            b'"' | b'\'' => self.quoted(at)?,
            _ => self.stretch(at, self.flow_plain(at)?)?,
        };
        let colon = stretch.end;
        let key = stretch.into_key();
        // Only a key in quotes may have its value right behind the colon.
        if self.byte(colon) != Some(b':') || !(key.is_quoted() || self.is_blank(colon + 1)) {
            return None;
        }
        if key.text.len() > KEY_BYTES_MAX || (!key.is_quoted() && scalar::is_null(&key.text)) {
            return None;
        }
        self.tree.add_key(key).ok()?;
        let value = self.skip_blanks(colon + 1);
        (self.byte(value) != Some(b'\n')).then_some(value)
    }

    /// The end of a plain text in brackets.
    fn flow_plain(&self, start: usize) -> Option<usize> {
        if !self.begins_plain(start) {
            return None;
        }
        let mut end = start;
        let mut at = start;
        loop {
            match self.byte(at)? {
                b'\n' | b',' | b']' | b'}' => return Some(end),
                b'[' | b'{' => return None,
                b' ' => (),
                b'#' if at > end => return None,
                b':' => match self.byte(at + 1)? {
                    b' ' if at == end => return Some(end),
                    b' ' | b'\n' | b',' | b'[' | b']' | b'{' | b'}' => return None,
                    _ => end = at + 1,
                },
                _ => end = at + 1,
            }
            at += 1;
        }
    }

    /// Over blanks and line breaks to what comes next, if its line stands right of `indent`.
    fn skip_breaks(&self, at: usize, indent: Option<usize>) -> Option<usize> {
        let mut line = None;
        let mut at = self.skip_blanks(at);
        while self.byte(at) == Some(b'\n') {
            line = Some(at + 1);
            at = self.skip_blanks(at + 1);
        }
        let Some(line) = line else { return Some(at) };
        let column = at - line;
        let stands_right = match indent {
            Some(indent) => column > indent,
            // There a line may be the mark of a document.
            None => column > 0 || !matches!(self.byte(at), Some(b'-' | b'.')),
        };
        stands_right.then_some(at)
    }
}

/// The span of a bracket.
fn one(at: usize) -> Span {
    Span::new(offset(at), offset(at + 1))
}
