//! The real stack in a test, in one line: [`Tombolo::start`] runs the real binary on a free port,
//! with a data folder of its own, and gives a client, kubectl and the shell to talk to it.
//!
//! Called by the tests in `tests/`, one file for each client. A test that needs a program which
//! this machine does not have asks [`tools`] for it, and is listed as skipped.

mod api;
pub mod binary;
mod clock;
mod command;
pub mod docker;
pub mod parsers;
mod port;
mod registry;
pub mod rig;
mod server;
mod terminal;
pub mod tools;
mod wait;

pub use api::empty_api;
pub use clock::Clock;
pub use command::{Ran, Running};
pub use registry::Registry;
pub use rig::Rig;
pub use server::Tombolo;
pub use terminal::Terminal;
pub use wait::eventually;
