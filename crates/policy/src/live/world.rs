//! What runs where, as far as policies ask: [`World`]. Names on violations become Apps, components and nodes
//! here, and conditions that need no samples get their values.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::app::Placement;
use tombolo_model::characteristics::{Device, DeviceStatus};
use tombolo_model::condition::{self, ConditionStatus, READY};
use tombolo_model::link::EndKind;
use tombolo_model::policy::{Check, LinkCheck, Subject};
use tombolo_model::{App, AppId, Link, Node, Shared};
use tombolo_series::{Labels, Matcher};

use crate::compile::{Fact, millis};
use crate::look::Seen;
use crate::remedy::only_component;
use crate::subject::matchers;
use crate::{Act, Context, Rule, Source};

/// The label by which facts tell the instances of a component apart: it stays when an instance moves, so that what was
/// tried for it is not forgotten.
const REPLICA: &str = "tombolo_replica";

/// Subjects of one policy that are looked at without samples.
const SEEN_MAX: usize = 10_000;

/// Whether the needs of a component still hold on a node, as whoever places says.
pub type NeedsHold<'w> = &'w dyn Fn(&AppId, &str, &str) -> Option<bool>;

/// What is looked at beside samples.
#[derive(Clone)]
pub struct World<'w> {
    apps: BTreeMap<AppId, &'w App>,
    nodes: BTreeMap<&'w str, &'w Node>,
    links: &'w [Shared<Link>],
    needs_hold: NeedsHold<'w>,
}

impl std::fmt::Debug for World<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "World({} apps, {} nodes)", self.apps.len(), self.nodes.len())
    }
}

/// Whom a step is about, by names that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    pub app: Option<AppId>,
    pub component: Option<String>,
    /// Where the instance is that is meant.
    pub node: Option<String>,
}

/// Why nobody is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// It was so, and is not any more: what was measured is old.
    Past(String),
    /// The violation does not say enough.
    Unclear(String),
}

impl<'w> World<'w> {
    pub fn new(
        apps: &'w [Shared<App>],
        nodes: &'w [Shared<Node>],
        links: &'w [Shared<Link>],
        needs_hold: NeedsHold<'w>,
    ) -> Self {
        let apps = apps.iter().map(|app| (AppId::of(app), app.as_ref())).collect();
        let name = |node: &'w Shared<Node>| node.metadata.name.as_deref().unwrap_or_default();
        let nodes = nodes.iter().map(|node| (name(node), node.as_ref())).collect();
        Self { apps, nodes, links, needs_hold }
    }

    pub fn app(&self, id: &AppId) -> Option<&'w App> {
        self.apps.get(id).copied()
    }

    pub fn node(&self, name: &str) -> Option<&'w Node> {
        self.nodes.get(name).copied()
    }

    /// Where a component runs.
    pub fn placements(&self, id: &AppId, component: &str) -> Vec<&'w Placement> {
        let status = self.app(id).and_then(|app| app.status.as_ref());
        let all = status.map_or(&[][..], |status| &status.placements);
        all.iter().filter(|at| at.component == component).collect()
    }

    /// The App and the component that a violation names.
    pub fn component(&self, namespace: &str, act: &Act) -> Result<(AppId, String), Unresolved> {
        let target = &act.target;
        let unclear = |why: String| Unresolved::Unclear(why);
        let name = target.app.as_deref();
        let name =
            name.ok_or_else(|| unclear("the violation does not say which App it is about".into()))?;
        let id = AppId::new(namespace, name);
        let Some(app) = self.app(&id) else {
            return Err(Unresolved::Past(format!("there is no App {name}")));
        };
        let component = only_component(&app.spec, target.component.as_deref()).map_err(unclear)?;
        if !app.spec.components.iter().any(|one| one.name == component) {
            return Err(Unresolved::Past(format!("{name} has no component {component}")));
        }
        Ok((id, component))
    }

    /// The instance that a violation means, by its node.
    pub fn instance(&self, namespace: &str, act: &Act) -> Result<Resolved, Unresolved> {
        let (id, component) = self.component(namespace, act)?;
        let all = self.placements(&id, &component);
        let resolved = |at: &Placement| Resolved {
            app: Some(id.clone()),
            component: Some(component.clone()),
            node: at.node.clone(),
        };
        let replica = act.labels.get(REPLICA);
        if let Some(at) = all.iter().find(|at| at.replica.to_string() == replica) {
            return Ok(resolved(at));
        }
        if let Some(name) = &act.target.instance
            && let Some(at) = all.iter().find(|at| at.assignment.as_ref() == Some(name))
        {
            return Ok(resolved(at));
        }
        let label = Some(act.labels.get("node")).filter(|node| !node.is_empty());
        let named = act.target.node.as_deref().or(label);
        if let Some(node) = named.filter(|node| self.nodes.contains_key(node)) {
            let found = all.iter().find(|at| at.node.as_deref() == Some(node));
            let gone = || Unresolved::Past(format!("{component} is no longer on {node}"));
            return found.map(|at| resolved(at)).ok_or_else(gone);
        }
        let nodes: BTreeSet<Option<&String>> = all.iter().map(|at| at.node.as_ref()).collect();
        match (all.first(), nodes.len()) {
            (None, _) => Err(Unresolved::Past(format!("{component} runs nowhere"))),
            (Some(at), 1) => Ok(resolved(at)),
            (Some(_), several) => Err(Unresolved::Unclear(format!(
                "{component} runs on {several} nodes, and the violation does not say on which it is: let the \
                 expression keep the label icos_host_name"
            ))),
        }
    }

    /// The values of a condition that needs no samples; nothing where samples have to tell.
    pub(super) fn facts(
        &self,
        namespace: &str,
        rule: &Rule,
        check: &Check,
        now_ms: i64,
    ) -> Option<Vec<Seen>> {
        match (&rule.source, check) {
            (Source::Fact(Fact::Placement), _) => Some(self.instances(namespace, rule, |one| {
                let node = one.at.node.as_deref()?;
                let holds = (self.needs_hold)(&one.id, &one.at.component, node)?;
                Some(if holds { 0.0 } else { 1.0 })
            })),
            (Source::Fact(Fact::Link(link)), _) => {
                Some(self.instances(namespace, rule, |one| self.link(&one, link)))
            }
            (Source::Query { .. }, check) if check.security.is_some() => {
                let score = |node: &Node| node.status.as_ref()?.security_score.map(f64::from);
                let scores = self.by_node(namespace, rule, score);
                (!scores.is_empty()).then_some(scores)
            }
            (Source::Query { .. }, Check { device: Some(path), .. }) => {
                // Who lists devices at all can be asked whether one is gone.
                let gone = |node: &Node| {
                    let has = &node.status.as_ref()?.characteristics.as_ref()?.devices;
                    let is_there = |one: &&Device| {
                        one.path.as_deref() == Some(path.as_str())
                            && one.status != Some(DeviceStatus::Detached)
                    };
                    let lists = has.iter().any(|one| one.path.is_some());
                    (lists && !has.iter().any(|one| is_there(&one))).then_some(1.0)
                };
                Some(self.by_node(namespace, rule, gone))
            }
            (Source::Query { .. }, Check { telemetry_lost: Some(after), .. }) => {
                let silent =
                    |node: &Node| silent_for(node, now_ms).filter(|ms| *ms >= millis(*after));
                Some(self.by_node(namespace, rule, |node| silent(node).map(|ms| ms as f64 / 1e3)))
            }
            (Source::Query { .. }, _) => None,
        }
    }

    /// By instance where a policy is about Apps, by node otherwise.
    fn by_node(&self, ns: &str, rule: &Rule, value: impl Fn(&Node) -> Option<f64>) -> Vec<Seen> {
        if rule.subject.app.is_some() {
            return self.instances(ns, rule, |one| value(self.node(one.at.node.as_deref()?)?));
        }
        let Some(wanted) = wanted(rule) else { return Vec::new() };
        let words = &rule.vocabulary;
        let each = self.nodes.iter().filter_map(|(name, node)| {
            let pairs = [(&*words.node, *name), (&*words.site, node.spec.site.as_str())];
            let labels = Labels::new(pairs);
            (is_meant(&wanted, &labels)).then_some(())?;
            Some(Seen { value: value(node)?, labels })
        });
        each.take(SEEN_MAX).collect()
    }

    fn instances(
        &self,
        namespace: &str,
        rule: &Rule,
        value: impl Fn(One<'w>) -> Option<f64>,
    ) -> Vec<Seen> {
        let Some(wanted) = wanted(rule) else { return Vec::new() };
        let words = &rule.vocabulary;
        let mut seen = Vec::new();
        for (id, app) in self.of_namespace(namespace, &rule.subject) {
            let status = app.status.as_ref();
            for at in status.map_or(&[][..], |status| &status.placements) {
                let node = at.node.as_deref().unwrap_or_default();
                let names = [
                    (&*words.app, id.name()),
                    (&*words.component, at.component.as_str()),
                    (&*words.instance, at.assignment.as_deref().unwrap_or_default()),
                    (&*words.node, node),
                    (&*words.site, at.site.as_str()),
                ];
                if seen.len() >= SEEN_MAX || !is_meant(&wanted, &Labels::new(names)) {
                    continue;
                }
                let one = One { id: id.clone(), at };
                let replica = at.replica.to_string();
                let labels = [names[0], names[1], (REPLICA, replica.as_str())];
                seen.extend(value(one).map(|value| Seen { labels: Labels::new(labels), value }));
            }
        }
        seen
    }

    fn of_namespace(&self, namespace: &str, subject: &Subject) -> Vec<(AppId, &'w App)> {
        let named = subject.app.as_deref().map(|name| AppId::new(namespace, name));
        if let Some((id, app)) = named.and_then(|id| Some((id.clone(), self.app(&id)?))) {
            return vec![(id, app)];
        }
        let all = self.apps.iter().filter(|(id, _)| id.namespace() == namespace);
        all.map(|(id, app)| (id.clone(), *app)).collect()
    }

    /// The worst way to the instances of the other component.
    fn link(&self, one: &One<'w>, check: &LinkCheck) -> Option<f64> {
        let from = one.at.node.as_deref()?;
        let others = self.placements(&one.id, &check.to);
        let far = others.iter().filter_map(|at| self.way(from, at.node.as_deref()?, check));
        far.reduce(f64::max)
    }

    fn way(&self, from: &str, to: &str, check: &LinkCheck) -> Option<f64> {
        if from == to {
            return Some(0.0);
        }
        let site = |node: &str| self.node(node).map(|node| node.spec.site.as_str());
        let between = |kind: EndKind, a: &str, b: &str| {
            let links = self.links.iter().filter(move |link| {
                let ends: Vec<(EndKind, &str)> =
                    link.spec.ends.iter().map(|end| (end.kind, end.name.as_str())).collect();
                let forth = ends == [(kind, a), (kind, b)];
                forth || (!link.spec.one_way && ends == [(kind, b), (kind, a)])
            });
            let far = links.filter_map(|link| {
                let quality = link.quality();
                let late = quality.latency.map(|latency| latency.micros() as f64);
                let wide = quality.bandwidth.map(|wide| wide.bps() as f64);
                Fact::of_link(check, late, wide)
            });
            far.reduce(f64::min)
        };
        let direct = between(EndKind::Node, from, to);
        direct.or_else(|| match (site(from)?, site(to)?) {
            (one, other) if one == other => Some(0.0),
            (one, other) => between(EndKind::Site, one, other),
        })
    }
}

struct One<'w> {
    id: AppId,
    at: &'w Placement,
}

fn wanted(rule: &Rule) -> Option<Vec<Matcher>> {
    let context = Context { vocabulary: rule.vocabulary.clone(), ..Context::default() };
    matchers(&rule.subject, &context).ok()
}

fn is_meant(wanted: &[Matcher], labels: &Labels) -> bool {
    wanted.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)))
}

/// For how long a node has not been Ready.
fn silent_for(node: &Node, now_ms: i64) -> Option<i64> {
    let conditions = node.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = condition::find(conditions, READY)?;
    let since = ready.last_transition_time.0.as_millisecond();
    (ready.status != ConditionStatus::True).then(|| (now_ms - since).max(0))
}
