//! What a machine is, how busy it is, and how safely it is set up. Called by the agent, which puts
//! the answers on its Node, and by `tombolo agent doctor`.
//!
//! Everything is read from files below a [`Root`]: nothing is run, nothing is written, nobody is
//! called over the network. Each module has functions that turn text into values, and a thin one
//! that reads the text. Start with [`characterise`], then [`security::TABLES`].

mod clean;
pub mod devices;
pub mod disks;
pub mod doctor;
pub mod engines;
pub mod gpus;
pub mod load;
pub mod machine;
pub mod memory;
pub mod network;
pub mod power;
pub mod processor;
pub mod root;
pub mod security;
pub mod system;
pub mod uuid;
pub mod virtualization;

pub use doctor::Doctor;
pub use load::{Load, Sampler};
pub use machine::{Ask, Machine, characterise};
pub use root::{Entry, EntryKind, Root, Seen};
