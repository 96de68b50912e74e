//! Services that run to their end: others wait with `service_completed_successfully` for them. An
//! instance of a component runs for ever, so such a service becomes a part of the first one that waits
//! for it, in one compose project. Called by [`super`].

use std::collections::BTreeMap;

use crate::compose::service::Service;

/// A service that runs to its end, and the one that it belongs to, by their numbers.
pub(super) fn places(services: &[Service<'_>]) -> BTreeMap<usize, usize> {
    let mut places = BTreeMap::new();
    for (waiting, service) in services.iter().enumerate() {
        for call in service.calls.iter().filter(|call| call.until_done) {
            let awaited = services.iter().position(|other| other.key == call.key);
            if let Some(awaited) = awaited.filter(|awaited| *awaited != waiting) {
                places.entry(awaited).or_insert(waiting);
            }
        }
    }
    // Those that wait for each other in a circle never run; none of them is a part of another.
    let circles: Vec<usize> =
        places.keys().copied().filter(|one| places.contains_key(&place(&places, *one))).collect();
    places.retain(|one, _| !circles.contains(one));
    places
}

/// The service that stands for one, which is mostly itself.
pub(super) fn place(places: &BTreeMap<usize, usize>, service: usize) -> usize {
    let mut at = service;
    // As many steps as there are places lead to the end, or round a circle.
    for _ in 0..=places.len() {
        match places.get(&at) {
            Some(next) => at = *next,
            None => break,
        }
    }
    at
}

/// The services that run to their end as a part of this one, in the order of the text.
pub(super) fn before(places: &BTreeMap<usize, usize>, service: usize) -> Vec<usize> {
    places.keys().copied().filter(|one| place(places, *one) == service).collect()
}
