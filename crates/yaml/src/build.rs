//! Text becomes a tree. The way in is [`documents`]: a text of plain form is read by the quick way
//! (`quick.rs`), any other by the events of the parser.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, Tag};

use crate::lines::{Lines, offset};
use crate::node::{Node, Span};
use crate::problem::Problem;
use crate::scalar::{self, Style};
use crate::tree::{Stop, Tree};
use crate::{quick, syntax};

/// How much is read. Beyond any of these a [`Problem`] says so and reading ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the text; also of all text that aliases unfold to.
    pub bytes: usize,
    /// Collections within collections. Whoever walks the tree by recursion needs this much stack.
    pub depth: usize,
    /// Nodes of all documents together, those that aliases unfold to included.
    pub nodes: usize,
    /// About what they take in memory, as a tree and once more as JSON: a mapping of one entry takes thirty times
    /// as much as its text.
    pub memory: usize,
    /// Uses of anchors.
    pub aliases: usize,
    pub documents: usize,
    /// Errors that are told, and as many warnings; the rest is counted.
    pub problems: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Several times the largest request that an API server takes.
            bytes: 8 << 20,
            depth: 100,
            // More than that no text has that an API server takes.
            nodes: 400_000,
            // No text makes its reader grow by more than 64 MB. What people write takes ten to fifteen times its
            // length, so that this is beyond every request that an API server takes.
            memory: 52 << 20,
            aliases: 10_000,
            documents: 10_000,
            problems: 100,
        }
    }
}

/// Reads a text of YAML documents (JSON is one). Empty documents are left out; after a broken one
/// reading goes on with the next.
pub fn documents(text: &str, limits: &Limits) -> (Vec<Node>, Vec<Problem>) {
    if text.len() > limits.bytes {
        let message =
            format!("the text is {} bytes long, {} are read at most", text.len(), limits.bytes);
        return (Vec::new(), vec![Problem::error("too-large", Span::default(), message)]);
    }
    match quick::documents(text, limits) {
        Some(nodes) => (nodes, Vec::new()),
        None => by_events(text, limits),
    }
}

/// What [`documents`] gives must not depend on the way that it took. Says so if it does, for the
/// tests that try many texts; true as well for a text that has one way only.
pub fn both_ways_agree(text: &str, limits: &Limits) -> bool {
    match quick::documents(text, limits) {
        Some(nodes) => by_events(text, limits) == (nodes, Vec::new()),
        None => true,
    }
}

/// The way that any text can take.
pub(crate) fn by_events(text: &str, limits: &Limits) -> (Vec<Node>, Vec<Problem>) {
    let mut options = granit_parser::options! {
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    options.set_emit_comments(false);
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut builder = Builder { lines: Lines::new(text), tree: Tree::new(limits) };
    loop {
        match parser.next_event() {
            None => break,
            Some(Ok((Event::StreamEnd, _))) => break,
            Some(Ok((event, span))) => match builder.take(event, span) {
                Ok(()) => (),
                Err(Stop::Document) => {
                    builder.tree.abandon();
                    if !matches!(parser.proceed_next_document(), Ok(true)) {
                        break;
                    }
                }
                Err(Stop::All) => break,
            },
            Some(Err(error)) => {
                builder.tree.problems.push(syntax::problem(&error, text, &builder.lines));
                builder.tree.abandon();
                if builder.tree.problems.is_full()
                    || !matches!(parser.proceed_next_document(), Ok(true))
                {
                    break;
                }
            }
        }
    }
    builder.tree.finish()
}

struct Builder<'a> {
    lines: Lines<'a>,
    tree: Tree<'a>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, at: granit_parser::Span) -> Result<(), Stop> {
        let span = self.span(at);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(text, style, tag.as_deref(), span);
                self.tree.add(node, anchor)?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "seq", span);
                self.tree.open_list(opening(span, style), anchor)?;
            }
            Event::MappingStart(style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "map", span);
                self.tree.open_map(opening(span, style), anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.tree.close(span)?,
            Event::Alias(id) => self.tree.unfold(id, span)?,
            Event::DocumentStart(_, _) => self.tree.begin_document(span)?,
            Event::DocumentEnd => self.tree.end_document(),
            // Metadata, switched off or without meaning here.
            _ => (),
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Node {
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            _ => Style::Quoted,
        };
        let Some(tag) = tag else { return scalar::node(text, style, span) };
        match tag.core_suffix() {
            Some("str") => scalar::node(text, Style::Quoted, span),
            Some("int" | "float" | "bool" | "null") => scalar::node(text, Style::Plain, span),
            Some(_) | None => {
                self.refuse_tag(Some(tag), "str", span);
                scalar::node(text, Style::Quoted, span)
            }
        }
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, allowed: &str, span: Span) {
        let Some(tag) = tag else { return };
        // "!" alone asks for no more than not to guess.
        if tag.core_suffix() == Some(allowed) || tag.original() == "!" {
            return;
        }
        let message = format!("the tag {:?} means nothing here and is passed over", tag.original());
        self.tree.problems.push(Problem::warning("unknown-tag", span, message));
    }

    fn span(&self, at: granit_parser::Span) -> Span {
        let byte = |marker: granit_parser::Marker| match marker.byte_offset() {
            Some(bytes) => offset(bytes),
            None => self.lines.byte(marker.line(), marker.col()),
        };
        Span::new(byte(at.start), byte(at.end))
    }
}

/// A block collection has no mark of its own: it reaches from its first to its last child.
fn opening(span: Span, style: StructureStyle) -> Span {
    match style {
        StructureStyle::Block => Span::new(span.start, span.start),
        StructureStyle::Flow => span,
    }
}

#[cfg(test)]
mod tests;
