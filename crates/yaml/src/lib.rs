//! YAML or JSON text becomes a tree whose every node knows where it stands, so that whoever finds
//! fault with a value can show the place. Called by the descriptor readers.
//!
//! Everything is bounded ([`Limits`]): size, depth, nodes, and what aliases may unfold to. The tree
//! is built without recursion; whatever is wrong is told as a [`Problem`], and reading goes on with
//! the next document. Start with [`documents`] and [`Node`].
//!
//! Plain scalars are read by the core schema of YAML 1.2, as Kubernetes' tools read them where the
//! two differ: `0644` is octal and `1_000` a number. `yes`, `no`, `on` and `off` are texts; whoever
//! expects a truth value from them says so, see [`Node::raw`].

mod build;
mod lines;
mod mapping;
mod node;
mod problem;
mod quick;
mod scalar;
mod syntax;
mod tree;
mod weight;

pub use build::{Limits, both_ways_agree, documents};
pub use lines::{Lines, Position};
pub use node::{Key, Node, Span, Value};
pub use problem::{Mend, Problem, Severity};
