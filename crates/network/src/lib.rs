//! What probes say of a network, as pure functions and values: no socket, no clock, no chance. Times come in as what
//! has passed since some start that the caller picks, on a clock that nobody can set.
//!
//! From a packet to a placement: [`stamp`] makes and reads the packets; a [`Window`] sums up the probes of one pair; a
//! [`track`] notices when they change;
//! [`bandwidth`] reads a train of packets; [`coordinates`] estimates the pairs that nobody probes; [`probing`] says
//! whom to probe next, within a budget; [`status`] says when a changed link is worth writing down; [`graph`] has
//! degrees, ways and betweenness. [`witness`] finds who lies about a pair, and [`evidence`] tells a dead link from a
//! dead node and from a dead agent.
//!
//! The crate `probe` sends and receives. Start reading at [`probing::plan`].

pub mod bandwidth;
pub mod coordinates;
pub mod evidence;
pub mod figure;
pub mod graph;
pub mod probing;
pub mod stamp;
pub mod status;
pub mod track;
pub mod window;
pub mod witness;

pub use figure::{Figure, Kind};
pub use window::{Summary, Window};
