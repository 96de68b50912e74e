//! What an agent decides beside which instances to start and stop, for which see [`crate::instances`]:
//! how it keeps its link to the server, what it makes of a silence, what it tells and when it asks
//! again. Called by the shells of `tombolo_agent`; start reading at [`link`].

pub mod health;
pub mod link;
pub mod pace;
pub mod pauses;
pub mod restored;
pub mod silence;
pub mod telling;
