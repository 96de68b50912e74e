//! The tree while it grows: collections that are open, anchors, and what all of it may cost. Both
//! readers of text build with it, the one over the parser's events (`build.rs`) and the quick one
//! (`quick.rs`). It has a stack of its own instead of recursion, so that no text can exhaust the
//! program's.

use std::collections::BTreeMap;

use crate::build::Limits;
use crate::mapping;
use crate::node::{Key, Node, Span, Value};
use crate::problem::{Problem, Problems};
use crate::weight::{Weight, memory_of, memory_of_key, weigh};

/// What a broken bound ends.
#[derive(Debug)]
pub(crate) enum Stop {
    Document,
    All,
}

#[derive(Debug)]
pub(crate) struct Tree<'a> {
    limits: &'a Limits,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    root: Option<Node>,
    nodes: Vec<Node>,
    pub(crate) problems: Problems,
    node_count: usize,
    memory: usize,
    alias_count: usize,
    unfolded_bytes: usize,
    document_count: usize,
}

/// A collection that is not at its end yet.
#[derive(Debug)]
struct Frame {
    within: Within,
    span: Span,
    anchor: usize,
}

#[derive(Debug)]
enum Within {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, key: NextKey },
}

/// What stands before the value that comes next.
#[derive(Debug)]
enum NextKey {
    Awaited,
    Read(Key),
    /// No key that a map could have; its value is passed over.
    Unusable,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Tree<'a> {
        Tree {
            limits,
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            root: None,
            nodes: Vec::new(),
            problems: Problems::new(limits.problems),
            node_count: 0,
            memory: 0,
            alias_count: 0,
            unfolded_bytes: 0,
            document_count: 0,
        }
    }

    pub(crate) fn begin_document(&mut self, span: Span) -> Result<(), Stop> {
        self.document_count += 1;
        if self.document_count > self.limits.documents {
            let most = self.limits.documents;
            let message = format!("more than {most} documents are not read");
            self.problems.push(Problem::error("too-many-documents", span, message));
            return Err(Stop::All);
        }
        Ok(())
    }

    pub(crate) fn end_document(&mut self) {
        if let Some(root) = self.root.take()
            && !root.is_null()
        {
            self.nodes.push(root);
        }
        self.anchors.clear();
    }

    /// Whether the document has its value.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Collections that are open.
    pub(crate) fn depth(&self) -> usize {
        self.stack.len()
    }

    pub(crate) fn open_list(&mut self, span: Span, anchor: usize) -> Result<(), Stop> {
        self.open(Within::List(Vec::new()), span, anchor)
    }

    pub(crate) fn open_map(&mut self, span: Span, anchor: usize) -> Result<(), Stop> {
        self.open(Within::Map { entries: Vec::new(), key: NextKey::Awaited }, span, anchor)
    }

    fn open(&mut self, within: Within, span: Span, anchor: usize) -> Result<(), Stop> {
        self.count(1, span)?;
        if self.stack.len() >= self.limits.depth {
            self.problems.push(too_deep(span, self.limits.depth));
            return Err(Stop::Document);
        }
        self.stack.push(Frame { within, span, anchor });
        Ok(())
    }

    /// Ends the innermost collection; an empty `end` says that it ends with its last child.
    pub(crate) fn close(&mut self, end: Span) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        // The end of a flow collection is its bracket; that of a block lies somewhere behind it.
        let span = match end.end > end.start {
            true => frame.span.to(end),
            false => frame.span,
        };
        let value = match frame.within {
            Within::List(mut items) => {
                // Room for more is most of what a short list takes.
                items.shrink_to_fit();
                Value::List(items)
            }
            Within::Map { entries, .. } => {
                let mut entries = mapping::finish(entries, &mut self.problems);
                entries.shrink_to_fit();
                Value::Map(entries)
            }
        };
        let node = Node::new(value, span);
        self.hold(memory_of(&node), span)?;
        self.anchor(frame.anchor, &node)?;
        self.place(node);
        Ok(())
    }

    /// Counts a node and puts it where the innermost collection, or the document, waits for one.
    pub(crate) fn add(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        self.count(1, node.span)?;
        self.hold(memory_of(&node), node.span)?;
        self.anchor(anchor, &node)?;
        self.place(node);
        Ok(())
    }

    /// Counts a key and keeps it for the value that comes next, like [`Tree::add`] in a map whose
    /// next key is awaited.
    pub(crate) fn add_key(&mut self, next: Key) -> Result<(), Stop> {
        self.count(1, next.span)?;
        self.hold(memory_of_key(&next), next.span)?;
        if let Some(Frame { within: Within::Map { key, .. }, span, .. }) = self.stack.last_mut() {
            span.end = span.end.max(next.span.end);
            *key = NextKey::Read(next);
        }
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

    fn anchor(&mut self, id: usize, node: &Node) -> Result<(), Stop> {
        if id == 0 {
            return Ok(());
        }
        // The copy is paid for like any other, or anchors within anchors would be free.
        self.pay_for(node, node.span)?;
        self.anchors.insert(id, node.clone());
        Ok(())
    }

    pub(crate) fn unfold(&mut self, id: usize, span: Span) -> Result<(), Stop> {
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
        let Weight { nodes, bytes, memory, height } = weigh(node);
        self.unfolded_bytes += bytes;
        if self.unfolded_bytes > self.limits.bytes {
            let most = self.limits.bytes;
            let message = format!("the aliases unfold to more than {most} bytes");
            self.problems.push(Problem::error("too-many-aliases", span, message));
            return Err(Stop::All);
        }
        self.count(nodes, span)?;
        self.hold(memory, span)?;
        Ok(height)
    }

    fn hold(&mut self, bytes: usize, span: Span) -> Result<(), Stop> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > self.limits.memory {
            let most = self.limits.memory >> 20;
            let message =
                format!("the values take more memory than is given to one text ({most} MB)");
            let problem = Problem::error("too-many-values", span, message);
            self.problems.push(problem.expecting("several shorter texts"));
            return Err(Stop::All);
        }
        Ok(())
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

    pub(crate) fn abandon(&mut self) {
        self.stack.clear();
        self.anchors.clear();
        self.root = None;
    }

    pub(crate) fn finish(self) -> (Vec<Node>, Vec<Problem>) {
        (self.nodes, self.problems.finish())
    }
}

fn key_of(node: Node, problems: &mut Problems) -> NextKey {
    let (span, kind) = (node.span, node.kind());
    match node.into_key() {
        Some(key) => NextKey::Read(key),
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
