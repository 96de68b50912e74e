//! STAMP (RFC 8762): the packets of a sender and of a reflector, open and authenticated, and the options
//! of RFC 8972 behind them. The crate `probe` sends and receives them; whoever else speaks STAMP can be
//! at the other end.
//!
//! A reflector answers with as many octets as it was sent ([`reflect`]), so that nobody can use it to send more
//! than he has. Nothing that is received is trusted: whatever is too short, or carries a wrong code, is refused.

mod clock;
mod mac;
mod options;
mod packet;
mod reflect;

pub use clock::{ErrorEstimate, Format, Timestamp};
pub use mac::Key;
pub use options::{Extension, Extensions};
pub use packet::{Answer, Mode, Refusal, Request};
pub use reflect::{Sessions, Sight, reflect};

/// Where a reflector listens if nothing else is said (RFC 8762, 4.1).
pub const PORT: u16 = 862;

#[cfg(test)]
mod tests;
