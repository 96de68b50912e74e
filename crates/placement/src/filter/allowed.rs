//! What an instance asks for beyond its own walls, and the site that allows it or does not. The row
//! `allowed` of the table is made of these.

use std::collections::BTreeSet;

use tombolo_model::privilege::{self, Privilege};
use tombolo_model::run::Run;

use super::{Look, Mend};
use crate::ask::Ask;
use crate::words;

/// Whether it asks for anything, by whichever way it runs.
pub(super) fn asks_any(ask: &Ask<'_>) -> bool {
    ask.component.run.iter().any(|run| !privilege::asked(run).is_empty())
}

/// What each way asks for.
pub(super) fn asks(ask: &Ask<'_>) -> String {
    let each = |run: &Run| format!("{:?}", privilege::asked(run));
    ask.component.run.iter().map(each).collect()
}

/// What the way by which it would run here asks for and the site does not allow. A program that runs
/// here already was confined when it was started.
pub(super) fn missing(look: &Look<'_, '_>) -> BTreeSet<Privilege> {
    let engine = look.ask.engine_on(look.row());
    let way = engine.and_then(|engine| look.ask.run_on(engine));
    let Some(run) = way.and_then(|way| look.ask.component.run.get(way)) else {
        return BTreeSet::new();
    };
    let mut asked = privilege::asked(run);
    let confined = asked.contains(&Privilege::Process) && !asked.contains(&Privilege::Privileged);
    if confined && look.row().not_confining.is_some() && !look.stays() {
        asked.insert(Privilege::UnconfinedProcess);
    }
    asked.difference(&look.continuum.site_of(look.node).allow).copied().collect()
}

pub(super) fn wants(ask: &Ask<'_>) -> String {
    let asked: BTreeSet<Privilege> = ask.component.run.iter().flat_map(privilege::asked).collect();
    format!("a site that allows {}", listed(&asked))
}

pub(super) fn has(look: &Look<'_, '_>) -> String {
    let mut missing = missing(look);
    let unconfined = missing.remove(&Privilege::UnconfinedProcess);
    match (missing.is_empty(), look.row().not_confining.filter(|_| unconfined)) {
        (true, Some(why)) => why.to_owned(),
        (_, _) => format!("{} does not allow {}", look.site(), listed(&missing)),
    }
}

pub(super) fn mend(look: &Look<'_, '_>) -> Mend {
    let says = format!("if spec.allow of site {} named {}", look.site(), listed(&missing(look)));
    // Somebody has to judge it, and it is more than a label.
    super::rows::mend(2.5, says)
}

fn listed(privileges: &BTreeSet<Privilege>) -> String {
    words::list(&privileges.iter().map(ToString::to_string).collect::<Vec<_>>())
}
