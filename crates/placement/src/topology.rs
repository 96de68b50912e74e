//! What a file says of a continuum. The native form needs no reader: it is Site, Node and Link
//! documents. Readers of other forms are in the facades of the projects that write them.

use tombolo_model::{Link, Node, Site, Trouble};

/// Sites, nodes and links from a file, and what of it could not be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    pub sites: Vec<Site>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub troubles: Vec<Trouble>,
}
