//! Names that an App asks for and that nothing has: `there is no node "edge7" (did you mean "edge-7"?)`. That
//! is the first cause of what has no place, whatever else its nodes lack. Called by [`super::conflict`] and
//! [`super::pair`].

use tombolo_model::needs::{PlaceKey, PlaceOperator};
use tombolo_model::suggest::did_you_mean;

use crate::ask::{Ask, Slot};
use crate::continuum::Continuum;

/// More slips of the pen in one list are not read by anybody.
const NAMED_MAX: usize = 4;

/// What an instance asks for by a name that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    pub sentences: Vec<String>,
    /// Needs, by the names of their rows, of which no alternative exists.
    pub needs: Vec<&'static str>,
}

pub(super) fn of(continuum: &Continuum<'_>, ask: &Ask<'_>) -> Unknown {
    let has_node = |name: &str| continuum.node_index(name).is_some();
    let has_site = |name: &str| continuum.sites.iter().any(|site| site.name == name);
    let is_site = |name: &str| continuum.sites.iter().any(|site| same(site.name, name));
    let nodes: Vec<&str> = ask.needs.nodes.iter().map(String::as_str).collect();
    let sites: Vec<&str> = ask.needs.sites.iter().map(String::as_str).collect();
    let (places, all_of_sites) = places(ask);
    let mut unknown = Unknown::default();
    let mut look = |need, kind, wanted: &[&str], exists: &dyn Fn(&str) -> bool| {
        let missing: Vec<&str> = wanted.iter().copied().filter(|name| !exists(name)).collect();
        let told = missing.iter().take(NAMED_MAX).map(|name| sentence(continuum, kind, name));
        unknown.sentences.extend(told);
        if !missing.is_empty() && missing.len() == wanted.len() {
            unknown.needs.push(need);
        }
    };
    look("nodes", "node", &nodes, &has_node);
    look("sites", "site", &sites, &has_site);
    look("places", "site", &places, &is_site);
    // A need that could be met elsewhere has more to say.
    unknown.needs.retain(|need| *need != "places" || all_of_sites);
    unknown
}

/// Sites that the instance may be at by the places of its component, and whether these are all the places.
fn places<'a>(ask: &Ask<'a>) -> (Vec<&'a str>, bool) {
    match ask.slot {
        Slot::Place(PlaceKey::Site, value) => (vec![value], true),
        Slot::AnyPlace => {
            let allowed = ask.component.places.iter();
            let allowed = allowed.filter(|place| place.operator == PlaceOperator::In);
            let all_of_sites = allowed.clone().all(|place| place.by == PlaceKey::Site);
            let of_sites = allowed.filter(|place| place.by == PlaceKey::Site);
            (of_sites.flat_map(|place| &place.values).map(String::as_str).collect(), all_of_sites)
        }
        Slot::Place(..) | Slot::Alike | Slot::Label(..) => (Vec::new(), false),
    }
}

fn sentence(continuum: &Continuum<'_>, kind: &str, name: &str) -> String {
    let near = match kind {
        "node" => did_you_mean(name, continuum.nodes.iter().map(|node| node.name)),
        _ => did_you_mean(name, continuum.sites.iter().map(|site| site.name)),
    };
    format!("there is no {kind} {name:?}{near}")
}

/// As places are compared.
fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}
