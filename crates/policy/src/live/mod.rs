//! Policies while the system runs: [`Fleet`] holds a [`Watch`] for each, and a look goes through [`Fleet::take`]. Called
//! by the loop of `tombolo_controller`, which asks and acts; here is no clock and no reach.
//!
//! A decision is a write of a status: the steps in it say in full what they lead to ([`tombolo_model::policy::PolicyStep`]).
//! Whoever carries one out a second time changes nothing more, so that a process may end at any moment.

mod carried;
mod fleet;
mod status;
mod watch;
mod world;

pub use carried::{Carried, of_apps};
pub use fleet::{Answered, Fleet, Key, Proposal, Rehearse, Told};
pub use status::figures;
pub use watch::{Answers, News, NewsKind, Watch};
pub use world::{NeedsHold, Resolved, Unresolved, World};
