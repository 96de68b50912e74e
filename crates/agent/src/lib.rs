//! The agent of a node: it joins, keeps its certificate young and its Lease alive, and runs what is
//! assigned to it.
//!
//! `tombolo agent` calls [`run()`], `tombolo up` [`run_beside`]. The one half keeps the way to the
//! server: start at `live`, then [`join`] and [`connection`]; what is decided there is in
//! `tombolo_plan::agent::link`. The other half works: start at [`converge`], which is fed by `feed` and
//! [`cache`]; what is decided there is in `tombolo_plan::instances`. What somebody wants from a
//! running instance now is in `errands`.

pub mod cache;
pub mod clock;
pub mod connection;
pub mod converge;
pub mod credentials;
pub mod desired;
pub mod engines;
mod errands;
mod error;
mod feed;
mod health;
pub mod heartbeat;
pub mod issue;
pub mod join;
pub mod join_file;
mod kept;
pub mod leaf;
mod lighthouse;
mod live;
mod load;
pub mod machine;
mod machines;
pub mod nearby;
mod node;
mod observe;
pub mod offer;
pub mod orders;
mod peer_files;
mod probing;
pub mod removal;
pub mod report;
mod run;
pub mod siblings;
pub mod tell;
mod work;

pub use connection::Connection;
pub use error::Error;
pub use join_file::JoinFile;
pub use lighthouse::Lighthouse;
pub use node::{cannot_confine, examine};
pub use offer::Offer;
pub use run::{Beside, Settings, join_only, run, run_beside, run_site, run_with};
