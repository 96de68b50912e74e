//! The agent of a node: it joins, keeps its certificate young and its Lease alive.
//!
//! `tombolo agent` calls [`run`]. Start reading at [`join`], then [`renewal`], which decides when a
//! certificate is renewed, and [`connection`], through which everything else reaches the server.

pub mod clock;
pub mod connection;
pub mod credentials;
mod error;
pub mod heartbeat;
pub mod join;
pub mod join_file;
pub mod machine;
pub mod renewal;
mod run;

pub use connection::Connection;
pub use error::Error;
pub use join_file::JoinFile;
pub use run::{Settings, run};
