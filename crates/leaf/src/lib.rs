//! What an agent measures, and when it sends that: readings become samples under the names of the field.
//! Called by the agent, which reads files and engines and sends; here is no file, no clock and no net.
//!
//! [`METRICS`] is the table of all names. [`machine`] turns the texts of `/proc` into samples of
//! node_exporter, [`workload`] what an engine says into those of cAdvisor, [`facts`] what a machine is into
//! those of ICOS and ACCORDION. A [`Gathering`] collects them until they are sent, a [`Ledger`] knows what
//! waits and lets go of the oldest, and a [`Pace`] says when the next message may go.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts become floats on every page: that is what a sample is"
)]

pub mod facts;
mod gathering;
mod ledger;
pub mod machine;
mod measured;
mod metric;
mod pace;
pub mod power;
pub mod workload;

pub use gathering::{Gathering, SAMPLES_MAX};
pub use ledger::{Ledger, Piece};
pub use measured::Measured;
pub use metric::{Kind, METRICS, Metric};
pub use pace::Pace;
