//! The Kubernetes protocol over the store.
//!
//! Start reading at [`kinds`]: everything that the server serves is a [`kinds::Kind`], and every
//! kind, ours, a core one or a user's, comes from a document in the CustomResourceDefinition form.
//! Then [`server`]: the way of a request to its handler.

pub mod accept;
pub mod admit;
mod agents;
mod answer;
mod authenticate;
mod bootstrap;
pub mod builtin;
mod client;
mod core_kinds;
pub mod crd;
pub mod decode;
pub mod discovery;
pub mod encode;
pub mod garbage;
mod gather;
pub mod guard;
mod gzip;
pub mod health;
pub mod kinds;
mod listing;
mod metadata;
mod metrics;
pub mod object;
pub mod openapi;
mod own_kinds;
mod own_paths;
mod read;
pub mod registry;
mod remove;
pub mod request;
pub mod restore;
mod review;
#[cfg(test)]
mod sample;
mod scale;
mod scope;
mod select;
pub mod serve;
pub mod server;
pub mod status;
pub mod table;
mod time;
pub mod traffic;
mod view;
mod watch;
mod write;

pub use server::Api;
