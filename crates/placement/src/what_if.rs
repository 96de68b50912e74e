//! What if this failed, that were drained, those weights counted? The same plan over a changed copy
//! of the world; nothing else changes. Called by `tombolo what-if`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tombolo_model::app::Weights;
use tombolo_model::link::EndKind;
use tombolo_model::needs::{Taint, TaintEffect};
use tombolo_model::{
    About, App, AppId, Condition, Duration, FigureKind, Link, LinkStatus, Node, NodeStatus, Shared,
    Site, Trouble, keys,
};
use tombolo_solver::select::Limits;

use crate::compile::{Options, Scope};
use crate::continuum::Continuum;
use crate::plan::{self, Outcome, Plan, Step};
use crate::running::{Hold, Running};

/// Everything that a plan is made from. A change copies only the objects that it changes.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub sites: Vec<Shared<Site>>,
    pub nodes: Vec<Shared<Node>>,
    pub links: Vec<Shared<Link>>,
    pub apps: Vec<Shared<App>>,
    pub running: Vec<Running>,
}

/// One thing that is different.
#[derive(Clone, Debug, PartialEq)]
pub enum Supposition {
    FailSite(String),
    FailNode(String),
    DrainSite(String),
    DrainNode(String),
    LinkDown(String),
    /// It takes so long, whatever is declared or measured.
    LinkDelay(String, Duration),
    AddSite(Shared<Site>),
    AddNode(Shared<Node>),
    AddLink(Shared<Link>),
    /// In place of the weights of every App.
    Weights(Weights),
}

/// The plan that would follow, and how it differs from what runs.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    pub plan: Plan,
    pub differences: Vec<Difference>,
}

/// What would become of one instance that is not where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub app: AppId,
    pub component: String,
    pub replica: u32,
    /// The node it runs on; `None` if it does not run.
    pub from: Option<String>,
    /// The node it would run on; `None` if there is no place for it.
    pub to: Option<String>,
    pub why: String,
}

/// Plans over the changed world.
pub fn what_if(
    world: &World,
    changes: &[Supposition],
    options: &Options,
    limits: &Limits<'_>,
) -> Result<WhatIf, Trouble> {
    let mut changed = world.clone();
    let mut options = options.clone();
    for change in changes {
        changed.apply(change, &mut options)?;
    }
    let (continuum, troubles) = Continuum::of(&changed.sites, &changed.nodes, &changed.links);
    let plan = plan::plan(&continuum, &changed.apps, &changed.running, &options, limits);
    let mut plan = plan.map_err(|invalid| Trouble::new(About::Problem, invalid.to_string()))?;
    plan.troubles.extend(troubles);
    let differences = differences(world, &plan);
    Ok(WhatIf { plan, differences })
}

impl World {
    /// Makes one change, or says that what it names does not exist.
    pub fn apply(&mut self, change: &Supposition, options: &mut Options) -> Result<(), Trouble> {
        match change {
            Supposition::FailSite(name) => {
                site(&mut self.sites, name)?;
                let of_site = |node: &&mut Shared<Node>| node.spec.site == *name;
                let nodes: BTreeSet<String> = self
                    .nodes
                    .iter_mut()
                    .filter(of_site)
                    .filter_map(|node| {
                        fail(node);
                        node.metadata.name.clone()
                    })
                    .collect();
                self.lose(&nodes);
                self.cut(EndKind::Site, name);
            }
            Supposition::FailNode(name) => {
                fail(node(&mut self.nodes, name)?);
                self.lose(&BTreeSet::from([name.clone()]));
                self.cut(EndKind::Node, name);
            }
            Supposition::DrainSite(name) => {
                let site = site(&mut self.sites, name)?;
                site.spec.unschedulable = true;
                site.spec.taints.push(drain());
            }
            Supposition::DrainNode(name) => {
                let node = node(&mut self.nodes, name)?;
                node.spec.unschedulable = true;
                node.spec.taints.push(drain());
            }
            Supposition::LinkDown(name) => take_down(link(&mut self.links, name)?),
            Supposition::LinkDelay(name, latency) => {
                let link = link(&mut self.links, name)?;
                link.spec.declared.latency = None;
                let status = link.status.get_or_insert_with(LinkStatus::default);
                // As if probes had found it, so that it is the way between its ends.
                status.measured.latency = Some(*latency);
                (status.kind, status.spread) = (Some(FigureKind::Measured), None);
            }
            Supposition::AddSite(site) => self.sites.push(site.clone()),
            Supposition::AddNode(node) => self.nodes.push(node.clone()),
            Supposition::AddLink(link) => self.links.push(link.clone()),
            Supposition::Weights(weights) => {
                options.weights = Some(weights.clone());
                options.scope = Scope::All;
            }
        }
        Ok(())
    }

    fn lose(&mut self, nodes: &BTreeSet<String>) {
        for running in self.running.iter_mut().filter(|running| nodes.contains(&running.node)) {
            running.hold = Hold::Lost;
        }
    }

    fn cut(&mut self, kind: EndKind, name: &str) {
        for link in &mut self.links {
            if link.spec.ends.iter().any(|end| end.kind == kind && end.name == name) {
                take_down(link);
            }
        }
    }
}

fn site<'w>(sites: &'w mut [Shared<Site>], name: &str) -> Result<&'w mut Site, Trouble> {
    let found = sites.iter_mut().find(|site| site.metadata.name.as_deref() == Some(name));
    found.map(|site| &mut **site).ok_or_else(|| Trouble::not_found(About::Site(name.to_owned())))
}

fn node<'w>(nodes: &'w mut [Shared<Node>], name: &str) -> Result<&'w mut Node, Trouble> {
    let found = nodes.iter_mut().find(|node| node.metadata.name.as_deref() == Some(name));
    found.map(|node| &mut **node).ok_or_else(|| Trouble::not_found(About::Node(name.to_owned())))
}

fn link<'w>(links: &'w mut [Shared<Link>], name: &str) -> Result<&'w mut Link, Trouble> {
    let found = links.iter_mut().find(|link| link.metadata.name.as_deref() == Some(name));
    found.map(|link| &mut **link).ok_or_else(|| Trouble::not_found(About::Link(name.to_owned())))
}

fn drain() -> Taint {
    Taint { key: keys::TAINT_DRAIN.to_owned(), value: None, effect: TaintEffect::NoExecute }
}

fn fail(node: &mut Node) {
    let status = node.status.get_or_insert_with(NodeStatus::default);
    set_not_ready(&mut status.conditions);
}

fn take_down(link: &mut Link) {
    let status = link.status.get_or_insert_with(LinkStatus::default);
    set_not_ready(&mut status.conditions);
}

/// The time of a supposition does not matter; the first second will do.
fn set_not_ready(conditions: &mut Vec<Condition>) {
    conditions.retain(|condition| condition.kind != tombolo_model::condition::READY);
    let supposed = json!({
        "type": tombolo_model::condition::READY,
        "status": "False",
        "reason": "WhatIf",
        "message": "it is assumed to have failed",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    conditions.extend(serde_json::from_value::<Condition>(supposed));
}

fn differences(world: &World, plan: &Plan) -> Vec<Difference> {
    let before: BTreeMap<(&AppId, &str, u32), &Running> = world
        .running
        .iter()
        .filter_map(|running| {
            Some(((running.app.as_ref()?, running.component.as_str(), running.replica), running))
        })
        .collect();
    let mut found = Vec::new();
    for app in &plan.apps {
        for instance in &app.instances {
            let placement = &instance.placement;
            let was = before.get(&(&app.app, placement.component.as_str(), placement.replica));
            let from = was.map(|running| running.node.clone());
            let waits = matches!(instance.step, Step::Wait);
            if from == placement.node && !waits {
                continue;
            }
            let reason = placement.decision.as_ref().and_then(|decision| decision.reason.clone());
            found.push(Difference {
                app: app.app.clone(),
                component: placement.component.clone(),
                replica: placement.replica,
                from,
                to: placement.node.clone(),
                why: reason.unwrap_or_default(),
            });
        }
        for unplaced in &app.unplaced {
            let was = before.get(&(&app.app, unplaced.component.as_str(), unplaced.replica));
            let mut why = unplaced.reasons.join("; ");
            if app.outcome == Outcome::Kept {
                why.push_str("; the rest of the App stays as it is");
            }
            found.push(Difference {
                app: app.app.clone(),
                component: unplaced.component.clone(),
                replica: unplaced.replica,
                from: was.map(|running| running.node.clone()),
                to: None,
                why,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests;
