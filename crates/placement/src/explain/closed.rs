//! Nodes that would do and are closed: `site s08 is silent since 2024-01-01 10:32 UTC`. That is the first
//! cause of what has no place there, before anything that its App asks for. Called by
//! [`super::conflict`].

use tombolo_model::reason::Blame;
use tombolo_model::{Condition, Reason};

use crate::continuum::Continuum;
use crate::filter::{Asked, Look};

/// What keeps all of these nodes closed, by one of the needs that are taken for granted; `looks` are at
/// the nodes and not empty. `None` if that need is about no door: there is no engine, say.
pub(super) fn sentence(asked: Asked, looks: &[Look<'_, '_>]) -> Option<String> {
    let first = looks.first()?;
    let site = first.row().site;
    let of_one_site = looks.iter().all(|look| look.row().site == site);
    let row = first.continuum.site_of(first.node);
    let whole = of_one_site
        && match asked.need.name {
            "ready" => is_silent(first.continuum, site),
            "cordon" => row.object.spec.unschedulable,
            "taints" => !row.object.spec.taints.is_empty() && first.row().own_taints().is_empty(),
            _ => false,
        };
    let says = match asked.need.name {
        "ready" if whole => silence(row.not_ready.or_else(|| last(looks))),
        "ready" => silence(first.row().not_ready),
        "cordon" | "taints" => (asked.need.has)(first, asked.number),
        _ => return None,
    };
    Some(match (whole, looks.len()) {
        (true, _) => format!("site {} {says}", row.name),
        (false, 1) => format!("node {} {says}", first.row().name),
        (false, count) => {
            format!("none of {count} nodes that would do is open: node {} {says}", first.row().name)
        }
    })
}

/// Whether not one node of the site is ready.
fn is_silent(continuum: &Continuum<'_>, site: u32) -> bool {
    continuum.nodes.iter().filter(|node| node.site == site).all(|node| node.not_ready.is_some())
}

/// What the node says that fell silent last: with it the site was.
fn last<'a>(looks: &[Look<'_, 'a>]) -> Option<&'a Condition> {
    let said = looks.iter().filter_map(|look| look.row().not_ready);
    said.max_by_key(|ready| ready.last_transition_time.0)
}

/// `is silent since 2024-01-01 10:32 UTC: no heartbeat for 60 s`.
fn silence(ready: Option<&Condition>) -> String {
    let Some(ready) = ready else { return "is not ready".to_owned() };
    let is_of_the_network =
        Reason::of(&ready.reason).is_some_and(|reason| reason.blames() == Blame::Network);
    let is = if is_of_the_network { "is silent" } else { "is not ready" };
    let at = ready.last_transition_time.0;
    // A supposition has no time.
    let since = match at.as_second() > 0 {
        true => format!(" since {}", at.strftime("%Y-%m-%d %H:%M UTC")),
        false => String::new(),
    };
    match ready.message.is_empty() {
        true => format!("{is}{since}"),
        false => format!("{is}{since}: {}", ready.message),
    }
}
