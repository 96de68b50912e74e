//! One module a loop: what was observed, what is wanted and the time become actions with reasons.
//!
//! Nothing here does anything. `tombolo-controller` and `tombolo-agent` look, call a function of this
//! crate, and carry out what it returns; the tests call the same functions with made-up worlds. Start
//! reading at [`leases`], the first and smallest loop; for an agent at [`instances`] and [`agent`].

pub mod agent;
pub mod claim;
pub mod explaining;
pub mod foreign;
pub mod instances;
pub mod leader;
pub mod leases;
pub mod lighthouse;
pub mod links;
pub mod machines;
mod monotonic;
pub mod placing;
pub mod reach;
pub mod rehearsal;
pub mod sites;
pub mod supervision;

pub use monotonic::Monotonic;
