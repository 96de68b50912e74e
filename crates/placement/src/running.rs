//! What runs now, as the placement loop reads it from Assignments. Input of [`crate::plan()`].

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::needs::Resources;
use tombolo_model::ports::NodePort;
use tombolo_model::{AppId, Engine};

/// An instance that was given a place before.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Nothing for an instance on its way out: it takes room, and no plan speaks of it.
    pub app: Option<AppId>,
    pub component: String,
    pub replica: u32,
    pub node: String,
    pub engine: Engine,
    /// What it was given; the needs of its component when left out.
    pub resources: Option<Resources>,
    /// The ports of the node that it has; those that its component must have when left out.
    pub ports: Option<BTreeSet<NodePort>>,
    pub hold: Hold,
}

/// Whether a running instance still counts as being where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It runs there, or is believed to: a silent node whose instances are waited for.
    Held,
    /// It is given up: its node is dead, or has been silent for too long.
    Lost,
}

/// A component was found in violation of a policy on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    pub app: AppId,
    pub component: String,
    pub node: String,
    /// In seconds of the clock that also gives [`Options::now`](crate::Options::now).
    pub at: u64,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not there again, for a while; afterwards as `Penalise`.
    Exclude,
    /// Rather not there, less and less so.
    Penalise,
}

/// All that runs, by App, component and replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster<'c> {
    by_instance: BTreeMap<(Option<&'c AppId>, &'c str, u32), &'c Running>,
}

impl<'c> Roster<'c> {
    /// Of two entries for one instance the one that is held counts, then the first by node.
    pub(crate) fn of(running: &'c [Running]) -> Roster<'c> {
        let mut sorted: Vec<&Running> = running.iter().collect();
        sorted.sort_by_key(|one| (one.hold == Hold::Held, std::cmp::Reverse(one.node.as_str())));
        let keyed = sorted
            .into_iter()
            .map(|one| ((one.app.as_ref(), one.component.as_str(), one.replica), one));
        Roster { by_instance: keyed.collect() }
    }

    pub(crate) fn get(&self, app: &AppId, component: &str, replica: u32) -> Option<&'c Running> {
        self.by_instance.get(&(Some(app), component, replica)).copied()
    }

    /// The instances of a component that are held.
    pub(crate) fn held<'r>(
        &'r self,
        app: &'r AppId,
        component: &'r str,
    ) -> impl Iterator<Item = &'c Running> + 'r {
        let range =
            self.by_instance.range((Some(app), component, 0)..=(Some(app), component, u32::MAX));
        range.map(|(_, one)| *one).filter(|one| one.hold == Hold::Held)
    }

    pub(crate) fn of_app<'r>(&'r self, app: &'r AppId) -> impl Iterator<Item = &'c Running> + 'r {
        self.by_instance
            .range((Some(app), "", 0)..)
            .map(|(_, one)| *one)
            .take_while(move |one| one.app.as_ref() == Some(app))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'c Running> + '_ {
        self.by_instance.values().copied()
    }
}
