//! ALTO as pure documents: RFC 7285, costs of several kinds at once (RFC 8189), and updates as a stream (RFC 8895).
//! The facade has the HTTP; this crate has what is in it. Start at [`Service`].
//!
//! A request is the body that came, and an answer is the document to send back or a [`Refusal`] with the code that
//! the RFC asks for. Where the maps come from, this crate does not know: whoever calls it makes PIDs of sites and
//! costs of links.

mod address;
mod costs;
mod names;
mod refusal;
mod request;
mod service;
mod updates;

pub use address::{Address, Prefix};
pub use costs::{CostType, Costs, Metric, Mode};
pub use names::{BadName, Pid, ResourceId};
pub use refusal::{Code, Refusal};
pub use service::{Maps, Service};
pub use updates::{Event, Stream, Wanted, apply, difference};

/// The media types of documents and of requests.
pub mod media {
    pub const DIRECTORY: &str = "application/alto-directory+json";
    pub const NETWORK_MAP: &str = "application/alto-networkmap+json";
    pub const NETWORK_MAP_FILTER: &str = "application/alto-networkmapfilter+json";
    pub const COST_MAP: &str = "application/alto-costmap+json";
    pub const COST_MAP_FILTER: &str = "application/alto-costmapfilter+json";
    pub const ENDPOINT_PROPERTIES: &str = "application/alto-endpointprop+json";
    pub const ENDPOINT_PROPERTIES_ASKED: &str = "application/alto-endpointpropparams+json";
    pub const ENDPOINT_COSTS: &str = "application/alto-endpointcost+json";
    pub const ENDPOINT_COSTS_ASKED: &str = "application/alto-endpointcostparams+json";
    pub const ERROR: &str = "application/alto-error+json";
    pub const UPDATES: &str = "text/event-stream";
    pub const UPDATES_ASKED: &str = "application/alto-updatestreamparams+json";
    pub const UPDATES_CONTROL: &str = "application/alto-updatestreamcontrol+json";
    pub const MERGE_PATCH: &str = "application/merge-patch+json";
}

#[cfg(test)]
mod tests;
