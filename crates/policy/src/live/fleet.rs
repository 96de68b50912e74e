//! All policies of an installation while it runs: [`Fleet`]. Who is due, what several of them want of one component, and
//! the steps that are written down. Whether a step makes anything worse is asked of whoever places, see [`Rehearse`].

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_model::keys::{ANNOTATION_ACCEPT, ANNOTATION_DISMISS, SYSTEM_NAMESPACE};
use tombolo_model::policy::{Action, Policy, PolicyStep, StepState};
use tombolo_model::{App, AppId, Shared};

use super::watch::{Answers, News, Wanted, Watch, time};
use super::world::{Resolved, Unresolved, World};
use crate::arbiter::Arbiter;
use crate::remedy::{change, patched};
use crate::template::Templates;

/// Steps of one look. Each is tried out before it is written down, which takes a moment; the others come up again.
const STEPS_MAX: usize = 64;

/// Namespace and name of a policy.
pub type Key = (String, String);

/// A step that would be written down.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub step: PolicyStep,
    /// The App as it would be, where the step changes it.
    pub app: Option<App>,
    /// Who leaves which node, where the step moves something.
    pub leaves: Option<(AppId, String, String)>,
}

/// Tries a step out: what it leads to, or why it would make things worse.
pub type Rehearse<'r> = &'r mut dyn FnMut(&Proposal) -> Result<String, String>;

/// What a look came to, for people.
#[derive(Clone, Debug, Default)]
pub struct Told(pub Vec<(Key, News)>);

#[derive(Debug, Default)]
pub struct Fleet {
    watches: BTreeMap<Key, Watch>,
    /// By namespace: names of components mean nothing beyond theirs.
    arbiters: BTreeMap<String, Arbiter>,
    templates: Templates,
}

impl Fleet {
    /// Brings the watches up to the objects. What the first look finds written down is remembered.
    pub fn sync(&mut self, policies: &[Shared<Policy>], world: &World<'_>, now_ms: i64) {
        let mut before = std::mem::take(&mut self.watches);
        let is_first = before.is_empty() && self.arbiters.is_empty();
        for policy in policies.iter().filter(|one| one.metadata.deletion_timestamp.is_none()) {
            let metadata = &policy.metadata;
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            let key = (part(&metadata.namespace), part(&metadata.name));
            let known = before.remove(&key).filter(|known| known.uid == metadata.uid);
            let watch = match known {
                Some(known) if known.generation == metadata.generation => known,
                // Its spec is another; what was done about it is not forgotten.
                known => {
                    let app = policy.spec.subject.app.as_deref();
                    let app = app.and_then(|name| world.app(&AppId::new(&key.0, name)));
                    let uid = app.and_then(|app| app.metadata.uid.as_deref());
                    let mut watch = Watch::new(policy, &self.templates, uid, now_ms);
                    if let Some(known) = known {
                        watch.steps = known.steps;
                        watch.version = known.version;
                    }
                    watch
                }
            };
            self.watches.insert(key, watch);
        }
        if is_first {
            self.recall();
        }
    }

    /// What components were changed lately, by whom: so that nobody undoes it at once after a restart.
    fn recall(&mut self) {
        let mut steps: Vec<(&Watch, &PolicyStep)> = self
            .watches
            .values()
            .flat_map(|watch| watch.steps.iter().map(move |step| (watch, step)))
            .filter(|(_, step)| matches!(step.state, StepState::Decided | StepState::Taken))
            .collect();
        steps.sort_by_key(|(_, step)| step.at.0);
        for (watch, step) in steps {
            let place = match (&step.app, &step.component, &step.node) {
                (Some(app), Some(component), _) => format!("app/{app}/{component}"),
                (_, _, Some(node)) => format!("node/{node}"),
                (_, _, None) => continue,
            };
            let arbiter = self.arbiters.entry(watch.namespace.clone()).or_default();
            let at_ms = step.at.0.as_millisecond();
            arbiter.recall(&place, (&watch.name, watch.severity), step.action, at_ms);
        }
    }

    pub fn watches(&self) -> impl Iterator<Item = (&Key, &Watch)> {
        self.watches.iter()
    }

    pub fn get(&self, key: &Key) -> Option<&Watch> {
        self.watches.get(key)
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Watch> {
        self.watches.get_mut(key)
    }

    /// Those whose time has come.
    pub fn due(&self, now_ms: i64) -> Vec<Key> {
        let due = self.watches.iter().filter(|(_, watch)| watch.is_watched());
        due.filter(|(_, watch)| watch.is_due(now_ms)).map(|(key, _)| key.clone()).collect()
    }

    /// When the next one is due.
    pub fn wake_ms(&self) -> Option<i64> {
        let watched = self.watches.values().filter(|watch| watch.is_watched());
        watched.map(Watch::due_ms).min()
    }

    /// Takes what was seen, and settles what is wanted. Steps that are taken are written down, and are done once that
    /// is on the disk.
    pub fn take(
        &mut self,
        seen: Vec<(Key, Answers)>,
        answered: Vec<(Key, Answered)>,
        world: &World<'_>,
        now_ms: i64,
        rehearse: Rehearse<'_>,
    ) -> Told {
        let mut told = Told::default();
        let mut wanted: BTreeMap<String, Vec<(Key, Wanted)>> = BTreeMap::new();
        for (key, answers) in seen {
            let Some(watch) = self.watches.get_mut(&key) else { continue };
            let taken = watch.take(answers, world, now_ms);
            told.0.extend(taken.news.into_iter().map(|news| (key.clone(), news)));
            let all = taken.wishes.into_iter().map(|wish| (key.clone(), wish));
            wanted.entry(key.0.clone()).or_default().extend(all);
        }
        for (key, answered) in answered {
            let Some(watch) = self.watches.get_mut(&key) else { continue };
            let accepted: Vec<&str> = answered.accepted.iter().map(String::as_str).collect();
            let dismissed: Vec<&str> = answered.dismissed.iter().map(String::as_str).collect();
            let all = watch.answer(&accepted, &dismissed, now_ms);
            let all = all.into_iter().map(|wish| (key.clone(), wish));
            wanted.entry(key.0.clone()).or_default().extend(all);
        }
        let mut room = STEPS_MAX;
        for (namespace, wanted) in wanted {
            self.settle(&namespace, wanted, world, now_ms, &mut room, rehearse, &mut told);
        }
        told
    }

    #[expect(clippy::too_many_arguments, reason = "one call, and each is another thing")]
    fn settle(
        &mut self,
        namespace: &str,
        wanted: Vec<(Key, Wanted)>,
        world: &World<'_>,
        now_ms: i64,
        room: &mut usize,
        rehearse: Rehearse<'_>,
        told: &mut Told,
    ) {
        let replicas: BTreeMap<String, u32> = wanted
            .iter()
            .filter_map(|(key, wanted)| Some((key.1.clone(), wanted.replicas?)))
            .collect();
        let wishes = wanted.into_iter().map(|(_, wanted)| wanted.wish).collect();
        let arbiter = self.arbiters.entry(namespace.to_owned()).or_default();
        let settled = arbiter.settle(wishes, now_ms);
        let key = |policy: &str| (namespace.to_owned(), policy.to_owned());
        for (wish, _) in &settled.refused {
            if let Some(watch) = self.watches.get_mut(&key(&wish.act.policy)) {
                watch.take_back(&wish.act);
            }
        }
        for wish in settled.taken {
            let key = key(&wish.act.policy);
            let Some(watch) = self.watches.get_mut(&key) else { continue };
            if *room == 0 {
                watch.take_back(&wish.act);
                continue;
            }
            *room -= 1;
            let wanted = Wanted { replicas: replicas.get(&key.1).copied(), wish };
            let act = &wanted.wish.act;
            let proposed = proposal(watch, &wanted, world, now_ms);
            let tried = match proposed {
                Ok(proposal) => match rehearse(&proposal) {
                    Ok(leads) => Ok((proposal.step, leads)),
                    Err(why) => Err((proposal.step, why)),
                },
                Err(Unresolved::Past(_)) => {
                    watch.take_back(act);
                    continue;
                }
                Err(Unresolved::Unclear(why)) => Err((step(watch, act, now_ms), why)),
            };
            match tried {
                Ok((step, leads)) => {
                    let why = match leads.is_empty() {
                        true => act.reason.clone(),
                        false => format!("{}; {leads}", act.reason),
                    };
                    watch.decide(PolicyStep { message: Some(why), ..step });
                }
                Err((step, why)) => {
                    let step = PolicyStep { state: StepState::Refused, message: Some(why), ..step };
                    let news = watch.refuse(act, step);
                    told.0.extend(news.map(|news| (key, news)));
                }
            }
        }
    }
}

/// What a person said to suggestions of a policy, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    pub accepted: Vec<String>,
    pub dismissed: Vec<String>,
}

impl Answered {
    /// From the annotations of a policy; nothing if nobody has answered.
    pub fn of(policy: &Policy) -> Option<Self> {
        let annotations = policy.metadata.annotations.as_ref()?;
        let list = |key: &str| -> Vec<String> {
            let text = annotations.get(key).map(String::as_str).unwrap_or_default();
            text.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect()
        };
        let own = Self { accepted: list(ANNOTATION_ACCEPT), dismissed: list(ANNOTATION_DISMISS) };
        let is_there = annotations.contains_key(ANNOTATION_ACCEPT)
            || annotations.contains_key(ANNOTATION_DISMISS);
        is_there.then_some(own)
    }
}

fn step(watch: &Watch, act: &crate::Act, now_ms: i64) -> PolicyStep {
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    PolicyStep {
        id: watch.step_id(now_ms),
        at: time(now_ms),
        action: act.action,
        state: StepState::Decided,
        subject: act.target.to_string(),
        value: finite(act.value),
        threshold: act.limit.and_then(finite),
        app: None,
        component: None,
        node: None,
        generation: None,
        set: None,
        message: None,
        outcome: None,
    }
}

/// What a wish comes to: the step in full, as it is written down.
fn proposal(
    watch: &Watch,
    wanted: &Wanted,
    world: &World<'_>,
    now_ms: i64,
) -> Result<Proposal, Unresolved> {
    let act = &wanted.wish.act;
    let step = step(watch, act, now_ms);
    match act.action {
        Action::None | Action::Notify | Action::Webhook => {
            let app = act.target.app.clone();
            let (component, node) = (act.target.component.clone(), act.target.node.clone());
            let step = PolicyStep { app, component, node, ..step };
            Ok(Proposal { step, app: None, leaves: None })
        }
        Action::Quarantine => quarantine(watch, act, world, step),
        Action::Migrate | Action::Redeploy | Action::Reallocation => {
            let Resolved { app, component, node } = world.instance(&watch.namespace, act)?;
            let (Some(id), Some(component), Some(node)) = (app, component, node) else {
                let why = "it runs on no node of ours".to_owned();
                return Err(Unresolved::Unclear(why));
            };
            let step = PolicyStep {
                app: Some(id.name().to_owned()),
                component: Some(component.clone()),
                node: Some(node.clone()),
                ..step
            };
            Ok(Proposal { step, app: None, leaves: Some((id, component, node)) })
        }
        Action::ScaleUp
        | Action::ScaleDown
        | Action::ScaleOut
        | Action::ScaleIn
        | Action::Patch
        | Action::Restart => changed(watch, wanted, world, step),
    }
}

fn quarantine(
    watch: &Watch,
    act: &crate::Act,
    world: &World<'_>,
    step: PolicyStep,
) -> Result<Proposal, Unresolved> {
    if watch.namespace != SYSTEM_NAMESPACE {
        return Err(Unresolved::Unclear(format!(
            "machines are put into quarantine by policies of the namespace {SYSTEM_NAMESPACE} alone, where those who \
             look after machines write"
        )));
    }
    let named = act.target.node.as_deref();
    let node = named.or(Some(act.labels.get("node")).filter(|node| !node.is_empty()));
    let node = node.ok_or_else(|| Unresolved::Unclear("it names no machine".to_owned()))?;
    match world.node(node) {
        Some(known) if known.spec.unschedulable && !known.spec.taints.is_empty() => {
            Err(Unresolved::Past(format!("{node} is in quarantine")))
        }
        Some(_) => {
            let step = PolicyStep { node: Some(node.to_owned()), ..step };
            Ok(Proposal { step, app: None, leaves: None })
        }
        None => Err(Unresolved::Past(format!("there is no node {node}"))),
    }
}

/// A step that changes a component.
fn changed(
    watch: &Watch,
    wanted: &Wanted,
    world: &World<'_>,
    step: PolicyStep,
) -> Result<Proposal, Unresolved> {
    let act = &wanted.wish.act;
    let (id, name) = world.component(&watch.namespace, act)?;
    let unclear = Unresolved::Unclear;
    let Some(app) = world.app(&id) else { return Err(unclear("there is no such App".to_owned())) };
    let at = app.spec.components.iter().position(|one| one.name == name);
    let Some(at) = at else { return Err(unclear("there is no such component".to_owned())) };
    let remediation = watch.remediation.as_ref();
    let set = match (act.action, wanted.replicas) {
        (Action::Restart, _) => json!({"restartedAt": step.at}),
        (_, Some(replicas)) if app.spec.components[at].on_each.is_none() => {
            json!({"replicas": replicas})
        }
        (action, _) => {
            let mut spec = app.spec.clone();
            change(&mut spec, &name, action, remediation).map_err(unclear)?;
            let component = &spec.components[at];
            let needs = component.needs.as_ref();
            match action {
                Action::ScaleUp | Action::ScaleDown => json!({"replicas": component.replicas}),
                Action::ScaleOut | Action::ScaleIn => json!({"needs": {
                    "cpu": needs.and_then(|needs| needs.cpu),
                    "memory": needs.and_then(|needs| needs.memory),
                }}),
                _ => remediation.and_then(|one| one.patch.clone()).unwrap_or(Value::Null),
            }
        }
    };
    let mut wanted = app.clone();
    wanted.spec.components[at] = patched(&app.spec.components[at], &set).map_err(unclear)?;
    if wanted.spec == app.spec {
        return Err(Unresolved::Past("it is so already".to_owned()));
    }
    let step = PolicyStep {
        app: Some(id.name().to_owned()),
        component: Some(name),
        generation: app.metadata.generation,
        set: Some(set),
        ..step
    };
    Ok(Proposal { step, app: Some(wanted), leaves: None })
}
