//! A continuum and an App made up from a seed, as whole objects: sites on the map with links that
//! follow distance, machines of the kinds one finds there, and components that talk in chains, fans
//! and meshes. Written out by `tombolo sim instance`; the tests plan over them. Start reading at
//! [`instance`].

mod app;
mod land;

use tombolo_model::{App, Link, Node, Site};
use tombolo_solver::select::Dice;

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub sites: usize,
    pub nodes: usize,
    pub components: usize,
    pub seed: u64,
}

/// More sites than this would have more links than anyone can read.
pub const SITES_MAX: usize = 10_000;
pub const NODES_MAX: usize = 200_000;
pub const COMPONENTS_MAX: usize = 512;

/// What was made up.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    pub sites: Vec<Site>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub app: App,
}

/// Makes it up: equal shapes give equal instances. Numbers that are too small or too large are
/// taken at the nearest that will do. There is a place for most of the Apps, not for all.
pub fn instance(shape: &Shape) -> Instance {
    let sites = shape.sites.clamp(1, SITES_MAX);
    let nodes = shape.nodes.clamp(1, NODES_MAX).max(sites);
    let components = shape.components.clamp(1, COMPONENTS_MAX);
    let mut dice = Dice::new(shape.seed);
    let land = land::make(sites, nodes, &mut dice);
    let app = app::make(components, &land, shape.seed, &mut dice);
    Instance { sites: land.sites, nodes: land.nodes, links: land.links, app }
}

#[cfg(test)]
mod tests;
