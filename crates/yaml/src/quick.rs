//! The quick way through a text of plain form: mappings and lists by indentation, values on one line,
//! texts in quotes, literal blocks, brackets. That is what people and tools write nearly always, and
//! it takes a fifth of the time that the parser's events take. Called by [`crate::documents`].
//!
//! It never judges. Whatever it does not know for sure (anchors, tags, texts over several lines, tabs,
//! deep nesting, anything that may be wrong) makes it give up with `None`, and the parser reads the
//! text from its beginning. So it must only ever be right, and the tests hold it against the parser.
//! Start with [`Scanner::line`]; brackets are in `flow.rs`, texts in `text.rs`.

mod flow;
mod text;

use crate::build::Limits;
use crate::lines::offset;
use crate::node::{Key, Node, Span};
use crate::scalar::{self, Style};
use crate::tree::Tree;

use text::Token;

/// The parser takes no key that is longer than about a thousand characters.
const KEY_BYTES_MAX: usize = 1000;

/// The documents of a text, or nothing if the parser must read it.
pub(crate) fn documents(text: &str, limits: &Limits) -> Option<Vec<Node>> {
    if !text::is_tame(text) {
        return None;
    }
    let mut scanner = Scanner {
        text,
        at: 0,
        line_start: 0,
        tree: Tree::new(limits),
        // The parser counts levels in its own way; far from the bound the two cannot differ.
        depth_max: limits.depth / 2,
        levels: Vec::new(),
        in_document: false,
    };
    while scanner.at < text.len() {
        scanner.line()?;
    }
    scanner.end_document()?;
    let (nodes, problems) = scanner.tree.finish();
    problems.is_empty().then_some(nodes)
}

struct Scanner<'a> {
    text: &'a str,
    /// The next byte to be read: between two calls, the beginning of a line.
    at: usize,
    line_start: usize,
    tree: Tree<'a>,
    depth_max: usize,
    /// The block collections that are open, outermost first.
    levels: Vec<Level>,
    in_document: bool,
}

/// A block collection that is open.
struct Level {
    indent: usize,
    kind: Kind,
    /// Set behind a key or a dash with nothing on its line: where the null would stand if nothing
    /// comes below either.
    waits: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    List,
    /// A list whose dashes stand below their key, not right of it.
    FlushList,
}

impl<'a> Scanner<'a> {
    fn line(&mut self) -> Option<()> {
        self.line_start = self.at;
        let content = self.skip_blanks(self.at);
        match self.byte(content) {
            None => {
                self.at = content;
                return Some(());
            }
            Some(b'\n' | b'#') => {
                self.at = self.next_line(content);
                return Some(());
            }
            Some(_) => (),
        }
        let indent = content - self.line_start;
        if indent == 0 && self.rest(content).starts_with("---") {
            return self.begin_document(content);
        }
        if indent == 0 && self.rest(content).starts_with("...") {
            return None;
        }
        while self.levels.last().is_some_and(|level| level.indent > indent) {
            self.close()?;
        }
        match self.is_entry(content) {
            true => self.entry_line(content, indent),
            false => self.key_line(content, indent),
        }
    }

    /// At `---`.
    fn begin_document(&mut self, at: usize) -> Option<()> {
        let end = at + "---".len();
        if !matches!(self.byte(end), None | Some(b'\n')) {
            return None;
        }
        self.end_document()?;
        self.in_document = true;
        self.tree.begin_document(Span::default()).ok()?;
        self.at = self.next_line(end);
        Some(())
    }

    fn end_document(&mut self) -> Option<()> {
        while !self.levels.is_empty() {
            self.close()?;
        }
        self.tree.end_document();
        Some(())
    }

    /// Before the value of a document.
    fn begin_value(&mut self) -> Option<()> {
        if self.tree.has_root() {
            return None;
        }
        if !self.in_document {
            self.in_document = true;
            self.tree.begin_document(Span::default()).ok()?;
        }
        Some(())
    }

    /// A line that begins with a dash.
    fn entry_line(&mut self, at: usize, indent: usize) -> Option<()> {
        match self.levels.last_mut() {
            None => {
                self.begin_value()?;
                self.open(Kind::List, indent, at)?;
            }
            Some(level) if level.indent == indent && level.kind == Kind::Map => {
                level.waits.take()?;
                // The parser lets such a list begin with its first entry.
                let first = self.skip_blanks(at + 1);
                if self.is_end(first) {
                    return None;
                }
                self.open(Kind::FlushList, indent, first)?;
            }
            Some(level) if level.indent == indent => self.fill_in()?,
            Some(level) => {
                level.waits.take()?;
                self.open(Kind::List, indent, at)?;
            }
        }
        self.entry(at)
    }

    /// A line that begins with a key, or is none of ours.
    fn key_line(&mut self, at: usize, indent: usize) -> Option<()> {
        if self.levels.is_empty() && matches!(self.byte(at), Some(b'{' | b'[')) {
            return self.root_in_brackets(at, indent);
        }
        match self.levels.last_mut() {
            None => {
                self.begin_value()?;
                self.open(Kind::Map, indent, at)?;
            }
            Some(level) if level.indent == indent => {
                let kind = level.kind;
                self.fill_in()?;
                match kind {
                    Kind::Map => (),
                    Kind::FlushList => self.close()?,
                    Kind::List => return None,
                }
            }
            Some(level) => {
                level.waits.take()?;
                self.open(Kind::Map, indent, at)?;
            }
        }
        match self.token(at)? {
            Token::Key { key, colon } => self.pair(key, colon),
            Token::Scalar { .. } | Token::Flow | Token::Block => None,
        }
    }

    fn root_in_brackets(&mut self, at: usize, indent: usize) -> Option<()> {
        self.begin_value()?;
        // At the margin a bracket may close at the margin.
        let end = (indent == 0).then(|| self.flow(at, None)).flatten()?;
        self.at = self.rest_of_line(end)?;
        Some(())
    }

    /// At a dash; the innermost level is its list.
    fn entry(&mut self, dash: usize) -> Option<()> {
        let content = self.skip_blanks(dash + 1);
        if self.is_end(content) {
            // Behind blanks the parser has the null elsewhere.
            if content > dash + 1 {
                return None;
            }
            self.levels.last_mut()?.waits = Some(dash + 1);
            self.at = self.next_line(content);
            return Some(());
        }
        let indent = content - self.line_start;
        if self.is_entry(content) {
            self.open(Kind::List, indent, content)?;
            // As deep as the levels are, and they are bounded.
            return self.entry(content);
        }
        match self.token(content)? {
            Token::Key { key, colon } => {
                self.open(Kind::Map, indent, content)?;
                self.pair(key, colon)
            }
            token => self.value(token, content),
        }
    }

    /// A key and what stands behind its colon.
    fn pair(&mut self, key: Key, colon: usize) -> Option<()> {
        if key.text.len() > KEY_BYTES_MAX || (!key.is_quoted() && scalar::is_null(&key.text)) {
            return None;
        }
        self.tree.add_key(key).ok()?;
        let content = self.skip_blanks(colon + 1);
        if self.is_end(content) {
            self.levels.last_mut()?.waits = Some(colon);
            self.at = self.next_line(content);
            return Some(());
        }
        match self.is_entry(content) {
            true => None,
            false => {
                let token = self.token(content)?;
                self.value(token, content)
            }
        }
    }

    /// The value of the innermost level, to the end of its line.
    fn value(&mut self, token: Token, at: usize) -> Option<()> {
        let indent = self.levels.last()?.indent;
        match token {
            Token::Key { .. } => return None,
            Token::Scalar { node, end } => {
                self.tree.add(node, 0).ok()?;
                self.at = self.rest_of_line(end)?;
            }
            Token::Flow => {
                let end = self.flow(at, Some(indent))?;
                self.at = self.rest_of_line(end)?;
            }
            Token::Block => {
                let (node, next) = self.block(at, indent)?;
                self.tree.add(node, 0).ok()?;
                self.at = next;
            }
        }
        Some(())
    }

    fn open(&mut self, kind: Kind, indent: usize, at: usize) -> Option<()> {
        let span = Span::new(offset(at), offset(at));
        self.go_deeper(
            match kind {
                Kind::Map => Bracket::Brace,
                Kind::List | Kind::FlushList => Bracket::Square,
            },
            span,
        )?;
        self.levels.push(Level { indent, kind, waits: None });
        Some(())
    }

    fn go_deeper(&mut self, bracket: Bracket, span: Span) -> Option<()> {
        if self.tree.depth() >= self.depth_max {
            return None;
        }
        match bracket {
            Bracket::Brace => self.tree.open_map(span, 0).ok(),
            Bracket::Square => self.tree.open_list(span, 0).ok(),
        }
    }

    fn close(&mut self) -> Option<()> {
        self.fill_in()?;
        self.levels.pop();
        self.tree.close(Span::default()).ok()
    }

    /// Nothing came for a key or a dash without a value: that is null.
    fn fill_in(&mut self) -> Option<()> {
        let Some(at) = self.levels.last_mut()?.waits.take() else { return Some(()) };
        let span = Span::new(offset(at), offset(at));
        self.tree.add(scalar::node("~".into(), Style::Plain, span), 0).ok()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn rest(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or_default()
    }

    fn skip_blanks(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| **byte == b' ').count()
    }

    /// The beginning of the line after this one.
    fn next_line(&self, at: usize) -> usize {
        self.rest(at).find('\n').map_or(self.text.len(), |length| at + length + 1)
    }

    /// Whether nothing more comes on this line; `at` stands behind a blank or at a line break.
    fn is_end(&self, at: usize) -> bool {
        matches!(self.byte(at), None | Some(b'\n' | b'#'))
    }

    /// The next line, if nothing but a comment stands behind a value.
    fn rest_of_line(&self, end: usize) -> Option<usize> {
        let content = self.skip_blanks(end);
        match self.byte(content) {
            Some(b'#') if content == end => None,
            None | Some(b'\n' | b'#') => Some(self.next_line(content)),
            Some(_) => None,
        }
    }

    /// Whether a dash with a blank behind it stands here.
    fn is_entry(&self, at: usize) -> bool {
        self.byte(at) == Some(b'-') && self.is_blank(at + 1)
    }

    fn is_blank(&self, at: usize) -> bool {
        matches!(self.byte(at), None | Some(b' ' | b'\n'))
    }
}

/// What a collection is written with in brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Brace,
    Square,
}

#[cfg(test)]
mod tests;
