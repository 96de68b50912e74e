//! Is it an App that can be planned? The API server has validated it, a file perhaps nobody has.
//! Called by [`crate::compile`]; what is said here goes to the App's status.

use std::collections::BTreeSet;

use tombolo_model::component::Component;
use tombolo_model::{App, suggest};

use crate::ask::INSTANCES_MAX;

/// Of one App; the schema allows no more either.
const COMPONENTS_MAX: usize = 512;

/// Everything that keeps the App from being planned, a clause each.
pub(crate) fn troubles(app: &App) -> Vec<String> {
    let mut found = Vec::new();
    let components = &app.spec.components;
    if app.metadata.name.is_none() {
        found.push("it has no name".to_owned());
    }
    if components.is_empty() {
        found.push("it has no component".to_owned());
    }
    if components.len() > COMPONENTS_MAX {
        found.push(format!(
            "it has {} components, at most {COMPONENTS_MAX} are taken",
            components.len()
        ));
        return found;
    }
    let instances = components.iter().map(Component::count).fold(0, usize::saturating_add);
    if instances > INSTANCES_MAX {
        found.push(format!("it has {instances} instances, at most {INSTANCES_MAX} are taken"));
        return found;
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for component in components {
        if !names.insert(&component.name) {
            found.push(format!("two components are named {:?}", component.name));
        }
    }
    for component in components {
        let name = &component.name;
        if component.run.is_empty() {
            found.push(format!("component {name} has no way to run"));
        }
        for connection in component.connects.iter().filter(|connection| connection.app.is_none()) {
            check_known(name, "connects to", &connection.to, &names, &mut found);
        }
        let Some(affinity) = &component.affinity else { continue };
        if affinity.skew.is_some() && affinity.spread.is_none() {
            found.push(format!("component {name} has a skew, and is spread over nothing"));
        }
        for other in &affinity.with {
            check_known(name, "wants to be with", other, &names, &mut found);
            if affinity.apart.contains(other) && other != name {
                found.push(format!("component {name} wants to be with and apart from {other}"));
            }
        }
        for other in &affinity.apart {
            check_known(name, "wants to be apart from", other, &names, &mut found);
        }
    }
    check_numbers(app, &mut found);
    found
}

fn check_known(
    name: &str,
    relation: &str,
    other: &str,
    names: &BTreeSet<&str>,
    found: &mut Vec<String>,
) {
    if !names.contains(other) {
        let meant = suggest::did_you_mean(other, names.iter().copied());
        found.push(format!("component {name} {relation} {other:?}, which is not there{meant}"));
    }
}

fn check_numbers(app: &App, found: &mut Vec<String>) {
    let bad = |number: f64| !number.is_finite() || number < 0.0;
    if let Some(weights) = &app.spec.weights {
        let named = [
            ("performance", weights.performance),
            ("energy", weights.energy),
            ("security", weights.security),
            ("cost", weights.cost),
            ("resilience", weights.resilience),
            ("latency", weights.latency),
        ];
        for (name, weight) in named {
            if let Some(weight) = weight.filter(|weight| bad(*weight)) {
                found.push(format!("weight {name} is {weight}, it must be 0 or more"));
            }
        }
    }
    if let Some(limit) = app.spec.energy_limit.filter(|limit| bad(*limit)) {
        found.push(format!("the energy limit is {limit}, it must be 0 or more"));
    }
    for component in &app.spec.components {
        let near = component.needs.as_ref().and_then(|needs| needs.near.as_ref());
        if let Some(near) = near
            && (bad(near.distance_km_max)
                || !near.latitude.is_finite()
                || !near.longitude.is_finite())
        {
            found.push(format!(
                "component {} wants to be near a place that is none",
                component.name
            ));
        }
    }
}
