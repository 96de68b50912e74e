//! Sends and reflects the packets that measure a network. What the packets are, and what their times mean, is in the
//! crate `network`; here are the sockets and the clocks. Called by the agent: one [`Reflector`] each, and a
//! [`Prober`] for each peer that it probes. Start at [`Prober::delays`].

mod clock;
mod prober;
mod reflector;

pub use prober::{Delays, Echo, ProbeError, Prober, Train};
pub use reflector::{Counts, Reflector};
