//! Builds the tree from the events of the parser, with a stack of its own instead of recursion, so
//! that no text can exhaust the program's. The way in is [`documents`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, Tag};

use crate::lines::{Lines, offset};
use crate::mapping::{self, RawKey};
use crate::node::{Key, Node, Span, Value};
use crate::problem::Problem;
use crate::weight::{Weight, weigh};
use crate::{scalar, syntax};

/// How much is read. Beyond any of these a [`Problem`] says so and reading ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the text; also of all text that aliases unfold to.
    pub bytes: usize,
    /// Collections within collections. Whoever walks the tree by recursion needs this much stack.
    pub depth: usize,
    /// Nodes of all documents together, those that aliases unfold to included.
    pub nodes: usize,
    /// Uses of anchors.
    pub aliases: usize,
    pub documents: usize,
    /// Problems told; the rest is counted.
    pub problems: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Several times the largest request that an API server takes.
            bytes: 8 << 20,
            depth: 100,
            // At some hundred bytes each, this bounds the memory of one text.
            nodes: 400_000,
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
    let mut options = granit_parser::options! {
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    options.set_emit_comments(false);
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut builder = Builder::new(text, limits);
    loop {
        match parser.next_event() {
            None => break,
            Some(Ok((Event::StreamEnd, _))) => break,
            Some(Ok((event, span))) => match builder.take(event, span) {
                Ok(()) => (),
                Err(Stop::Document) => {
                    builder.abandon();
                    if !matches!(parser.proceed_next_document(), Ok(true)) {
                        break;
                    }
                }
                Err(Stop::All) => break,
            },
            Some(Err(error)) => {
                builder.problems.push(syntax::problem(&error, text, &builder.lines));
                builder.abandon();
                if builder.is_full() || !matches!(parser.proceed_next_document(), Ok(true)) {
                    break;
                }
            }
        }
    }
    builder.finish()
}

/// What a broken bound ends.
enum Stop {
    Document,
    All,
}

struct Builder<'a> {
    lines: Lines<'a>,
    limits: &'a Limits,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    root: Option<Node>,
    nodes: Vec<Node>,
    problems: Vec<Problem>,
    node_count: usize,
    alias_count: usize,
    unfolded_bytes: usize,
    document_count: usize,
}

/// A collection that is not at its end yet.
struct Frame {
    within: Within,
    span: Span,
    anchor: usize,
}

enum Within {
    List(Vec<Node>),
    Map { entries: Vec<(RawKey, Node)>, key: NextKey },
}

/// What stands before the value that comes next.
enum NextKey {
    Awaited,
    Read(RawKey),
    /// No key that a map could have; its value is passed over.
    Unusable,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str, limits: &'a Limits) -> Builder<'a> {
        Builder {
            lines: Lines::new(text),
            limits,
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            root: None,
            nodes: Vec::new(),
            problems: Vec::new(),
            node_count: 0,
            alias_count: 0,
            unfolded_bytes: 0,
            document_count: 0,
        }
    }

    fn take(&mut self, event: Event<'_>, at: granit_parser::Span) -> Result<(), Stop> {
        let span = self.span(at);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, span)?;
                let node = self.scalar(text, style, tag.as_deref(), span);
                self.anchor(anchor, &node)?;
                self.place(node);
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "seq", span);
                self.open(Within::List(Vec::new()), span, anchor, style)?;
            }
            Event::MappingStart(style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "map", span);
                let entries = Vec::new();
                self.open(Within::Map { entries, key: NextKey::Awaited }, span, anchor, style)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            Event::Alias(id) => self.unfold(id, span)?,
            Event::DocumentStart(_, _) => self.begin_document(span)?,
            Event::DocumentEnd => self.end_document(),
            // Metadata, switched off or without meaning here.
            _ => (),
        }
        Ok(())
    }

    fn begin_document(&mut self, span: Span) -> Result<(), Stop> {
        self.document_count += 1;
        if self.document_count > self.limits.documents {
            let most = self.limits.documents;
            let message = format!("more than {most} documents are not read");
            self.problems.push(Problem::error("too-many-documents", span, message));
            return Err(Stop::All);
        }
        Ok(())
    }

    fn end_document(&mut self) {
        if let Some(root) = self.root.take()
            && !root.is_null()
        {
            self.nodes.push(root);
        }
        self.anchors.clear();
    }

    fn open(
        &mut self,
        within: Within,
        span: Span,
        anchor: usize,
        style: StructureStyle,
    ) -> Result<(), Stop> {
        self.count(1, span)?;
        if self.stack.len() >= self.limits.depth {
            self.problems.push(too_deep(span, self.limits.depth));
            return Err(Stop::Document);
        }
        // A block collection has no mark of its own: it reaches from its first to its last child.
        let span = match style {
            StructureStyle::Block => Span::new(span.start, span.start),
            StructureStyle::Flow => span,
        };
        self.stack.push(Frame { within, span, anchor });
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        // The end of a flow collection is its bracket; that of a block lies somewhere behind it.
        let span = match end.end > end.start {
            true => frame.span.to(end),
            false => frame.span,
        };
        let value = match frame.within {
            Within::List(items) => Value::List(items),
            Within::Map { entries, .. } => Value::Map(mapping::finish(entries, &mut self.problems)),
        };
        let node = Node::new(value, span);
        self.anchor(frame.anchor, &node)?;
        self.place(node);
        Ok(())
    }

    fn place(&mut self, node: Node) {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        frame.span.end = frame.span.end.max(node.span.end);
        match &mut frame.within {
            Within::List(items) => items.push(node),
            Within::Map { entries, key } => match std::mem::replace(key, NextKey::Awaited) {
                NextKey::Awaited => *key = key_of(node, &mut self.problems),
                NextKey::Read(key) => entries.push((key, node)),
                NextKey::Unusable => (),
            },
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Node {
        let plain = matches!(style, ScalarStyle::Plain);
        let Some(tag) = tag else {
            return match plain {
                true => Node::plain(scalar::plain(&text), span, &text),
                false => Node::quoted(text.into_owned(), span),
            };
        };
        match tag.core_suffix() {
            Some("str") => Node::quoted(text.into_owned(), span),
            Some("int" | "float" | "bool" | "null") => {
                Node::plain(scalar::plain(&text), span, &text)
            }
            Some(_) | None => {
                self.refuse_tag(Some(tag), "str", span);
                Node::quoted(text.into_owned(), span)
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
        self.problems.push(Problem::warning("unknown-tag", span, message));
    }

    fn anchor(&mut self, id: usize, node: &Node) -> Result<(), Stop> {
        if id == 0 {
            return Ok(());
        }
        // The copy is paid for like any other, or anchors within anchors would be free.
        self.pay_for(node, node.span)?;
        self.anchors.insert(id, node.clone());
        Ok(())
    }

    fn unfold(&mut self, id: usize, span: Span) -> Result<(), Stop> {
        self.alias_count += 1;
        if self.alias_count > self.limits.aliases {
            let most = self.limits.aliases;
            let message = format!("more than {most} aliases are not unfolded");
            self.problems.push(Problem::error("too-many-aliases", span, message));
            return Err(Stop::All);
        }
        let Some(node) = self.anchors.remove(&id) else {
            let message = "the alias stands within what it stands for";
            self.problems.push(Problem::error("alias-in-itself", span, message));
            return Err(Stop::Document);
        };
        let height = self.pay_for(&node, span)?;
        if self.stack.len() + height > self.limits.depth {
            self.problems.push(too_deep(span, self.limits.depth));
            return Err(Stop::Document);
        }
        self.place(node.clone());
        self.anchors.insert(id, node);
        Ok(())
    }

    /// Counts the nodes and the text of a copy; gives its height.
    fn pay_for(&mut self, node: &Node, span: Span) -> Result<usize, Stop> {
        let Weight { nodes, bytes, height } = weigh(node);
        self.unfolded_bytes += bytes;
        if self.unfolded_bytes > self.limits.bytes {
            let most = self.limits.bytes;
            let message = format!("the aliases unfold to more than {most} bytes");
            self.problems.push(Problem::error("too-many-aliases", span, message));
            return Err(Stop::All);
        }
        self.count(nodes, span)?;
        Ok(height)
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), Stop> {
        self.node_count += nodes;
        if self.node_count > self.limits.nodes {
            let most = self.limits.nodes;
            let message =
                format!("more than {most} values, unfolded aliases included, are not read");
            self.problems.push(Problem::error("too-many-values", span, message));
            return Err(Stop::All);
        }
        Ok(())
    }

    fn abandon(&mut self) {
        self.stack.clear();
        self.anchors.clear();
        self.root = None;
    }

    fn is_full(&self) -> bool {
        self.problems.len() > self.limits.problems
    }

    fn span(&self, at: granit_parser::Span) -> Span {
        let byte = |marker: granit_parser::Marker| match marker.byte_offset() {
            Some(bytes) => offset(bytes),
            None => self.lines.byte(marker.line(), marker.col()),
        };
        Span::new(byte(at.start), byte(at.end))
    }

    fn finish(mut self) -> (Vec<Node>, Vec<Problem>) {
        let most = self.limits.problems;
        if self.problems.len() > most {
            let more = self.problems.len() - most;
            self.problems.truncate(most);
            let last = self.problems.last().map(|problem| problem.span).unwrap_or_default();
            let message = format!("{more} more problems are not listed");
            self.problems.push(Problem::error("too-many-problems", last, message));
        }
        (self.nodes, self.problems)
    }
}

fn key_of(node: Node, problems: &mut Vec<Problem>) -> NextKey {
    let (span, quoted, kind) = (node.span, node.is_quoted(), node.kind());
    match node.into_raw() {
        Some(text) => NextKey::Read(RawKey { key: Key { text, span }, quoted }),
        None => {
            let message = format!("{kind} cannot be the key of a mapping");
            let problem = Problem::error("key-is-no-text", span, message);
            problems.push(problem.expecting("a text, in quotes if need be"));
            NextKey::Unusable
        }
    }
}

fn too_deep(span: Span, most: usize) -> Problem {
    Problem::error("too-deep", span, format!("more than {most} levels within each other"))
}

#[cfg(test)]
mod tests;
