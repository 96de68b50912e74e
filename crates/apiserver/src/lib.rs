//! The Kubernetes protocol over the store.
//!
//! Start reading at [`kinds`]: everything that the server serves is a [`kinds::Kind`], and every
//! kind, ours, a core one or a user's, comes from a document in the CustomResourceDefinition form.

pub mod accept;
pub mod builtin;
pub mod crd;
pub mod decode;
pub mod discovery;
pub mod jsonpath;
pub mod kinds;
pub mod openapi;
pub mod protobuf;
pub mod selector;
pub mod apply;
pub mod builtin;
pub mod crd;
pub mod decode;
pub mod kinds;
pub mod patch;
pub mod schema;
pub mod serve;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;

#[cfg(test)]
mod sample;
