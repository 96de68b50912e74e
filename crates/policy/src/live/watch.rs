//! One policy while the system runs: [`Watch`]. What is measured goes in, wishes and news come out, and what must not
//! be forgotten is in the status that it writes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use tombolo_model::condition::{self, ACHIEVABLE, ConditionStatus};
use tombolo_model::policy::{
    Action, Check, Mode, Policy, PolicyStatus, PolicyStep, Remediation, Severity, StepState,
};
use tombolo_series::Labels;

use super::World;
use crate::arbiter::Wish;
use crate::look::{Look, Question, Seen};
use crate::scale::{Measured, Reading, Remembered, Scaler, Spec};
use crate::template::Templates;
use crate::{
    Act, ChangeKind, Context, Machine, Memory, Outcome, Rule, Source, Target, Watched, compile,
    target,
};

/// Steps that a status keeps: the timeline of the policy. The oldest go first.
pub(super) const STEPS_MAX: usize = 32;

/// Time between two looks at what a number of instances follows.
const SCALING_INTERVAL_MS: i64 = 15_000;

/// After a step of a scaling that was refused, it is not tried again at once; twice as long each time.
const REFUSED_PAUSE_MS: i64 = 60_000;
const REFUSED_PAUSE_MS_MAX: i64 = 3_600_000;

/// Subjects for which it is remembered that nothing helps.
const HELPLESS_MAX: usize = 64;

const IN_VAIN: &str = "five steps in a row have not ended the violation";

/// What the questions of a policy are answered with, in their order.
pub type Answers = Vec<Result<Vec<Seen>, String>>;

/// What people are told.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    pub at_ms: i64,
    pub kind: NewsKind,
    pub target: Target,
    pub value: f64,
    pub limit: Option<f64>,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewsKind {
    Violated,
    Predicted,
    Resolved {
        after_ms: i64,
    },
    /// A person is asked.
    Suggested {
        id: String,
        action: Action,
    },
    /// Nothing helps.
    Helpless,
}

/// What comes of a look.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub wishes: Vec<Wanted>,
    pub news: Vec<News>,
}

/// A step that a policy wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub wish: Wish,
    /// The number of instances that is wanted, where the policy follows a load.
    pub replicas: Option<u32>,
}

/// A policy that is watched.
#[derive(Debug)]
pub struct Watch {
    pub namespace: String,
    pub name: String,
    pub(super) uid: Option<String>,
    pub(super) generation: Option<i64>,
    pub remediation: Option<Remediation>,
    pub severity: Severity,
    check: Check,
    pub(super) kind: Kind,
    pub(super) steps: Vec<PolicyStep>,
    /// Why nothing helps, by subject.
    pub(super) helpless: BTreeMap<String, String>,
    due_ms: i64,
    interval_ms: i64,
    /// Scaling: until when it waits, and how often it was refused in a row.
    refused: (i64, u32),
    /// What it was written down as last, and when.
    pub(super) written: Option<PolicyStatus>,
    pub(super) written_ms: i64,
    /// The version of the object after our own last write.
    pub(super) version: Option<String>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Rule(Box<Machine>),
    Scaling(Box<Following>),
    /// It is not watched, and why.
    Suspended(&'static str),
    Broken(String),
}

/// A number of instances that follows a load.
#[derive(Debug)]
pub(super) struct Following {
    pub scaler: Scaler,
    pub watched: Watched,
    pub seen: Option<Seeing>,
}

/// What the last look at a load came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seeing {
    pub blind: bool,
    pub reason: String,
}

impl Watch {
    /// From the object: its spec, and what its status remembers.
    pub fn new(policy: &Policy, templates: &Templates, app_uid: Option<&str>, now_ms: i64) -> Self {
        let metadata = &policy.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let watched = Watched::of_policy(&name, &policy.spec);
        let status = policy.status.as_ref();
        // What was remembered of another spec says nothing of this one.
        let same = status.is_some_and(|status| status.observed_generation == metadata.generation);
        let memory = status.filter(|_| same).and_then(|status| status.memory.clone());
        let kind = kind(watched, templates, app_uid, memory);
        let interval_ms = match &kind {
            Kind::Rule(machine) => machine.rule().interval_ms,
            Kind::Scaling(_) | Kind::Suspended(_) | Kind::Broken(_) => SCALING_INTERVAL_MS,
        };
        let steps = status.map(|status| status.steps.clone()).unwrap_or_default();
        let mut watch = Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name,
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            remediation: policy.spec.remediation.clone(),
            severity: policy.spec.severity.unwrap_or(Severity::Warning),
            check: policy.spec.condition.clone(),
            kind,
            steps,
            helpless: status.filter(|_| same).map(helpless).unwrap_or_default(),
            due_ms: now_ms,
            interval_ms,
            refused: (0, 0),
            written: status.cloned(),
            written_ms: now_ms,
            version: None,
        };
        if same {
            // After a restart of a server with many policies they do not all come in one look.
            watch.due_ms = now_ms + watch.spread();
        }
        watch
    }

    /// A part of the interval, the same for the same policy.
    fn spread(&self) -> i64 {
        let labels = Labels::new([("namespace", &self.namespace), ("name", &self.name)]);
        let interval = u64::try_from(self.interval_ms.max(1)).unwrap_or(1);
        i64::try_from(labels.hash64() % interval).unwrap_or_default()
    }

    pub fn due_ms(&self) -> i64 {
        self.due_ms
    }

    /// Its time has come, or a clock was set back and it would wait for that time once more.
    pub fn is_due(&self, now_ms: i64) -> bool {
        self.due_ms <= now_ms || self.due_ms - now_ms > 2 * self.interval_ms
    }

    /// A look was taken, whether or not anything came of it. The next one keeps the rhythm.
    pub(super) fn looked(&mut self, now_ms: i64) {
        let next = self.due_ms + self.interval_ms;
        let is_near = next > now_ms && next - now_ms <= self.interval_ms;
        self.due_ms = if is_near { next } else { now_ms + self.interval_ms };
    }

    pub fn is_watched(&self) -> bool {
        matches!(self.kind, Kind::Rule(_) | Kind::Scaling(_))
    }

    pub fn mode(&self) -> Mode {
        match &self.kind {
            Kind::Rule(machine) => machine.rule().mode,
            Kind::Scaling(following) => following.watched.mode,
            Kind::Suspended(_) | Kind::Broken(_) => Mode::Watch,
        }
    }

    /// What has to be asked for a look, in the order in which [`Watch::take`] wants the answers.
    pub fn questions(&self) -> Vec<Question> {
        match &self.kind {
            Kind::Rule(machine) => {
                let rule = machine.rule();
                let Source::Query { text, expr } = &rule.source else { return Vec::new() };
                let own = Question { text: text.clone(), expr: expr.clone() };
                let trend = rule.trend.as_ref();
                let trend =
                    trend.map(|one| Question { text: one.text.clone(), expr: one.expr.clone() });
                std::iter::once(own).chain(trend).collect()
            }
            Kind::Scaling(following) => {
                let spec = following.scaler.spec();
                let metrics = spec.metrics.iter().map(|one| (&one.text, &one.expr));
                let steps = spec.steps.iter().map(|one| (&one.text, &one.expr));
                let question = |(text, expr): (&String, &std::sync::Arc<_>)| Question {
                    text: text.clone(),
                    expr: std::sync::Arc::clone(expr),
                };
                metrics.chain(steps).map(question).collect()
            }
            Kind::Suspended(_) | Kind::Broken(_) => Vec::new(),
        }
    }

    /// Takes a look in.
    pub fn take(&mut self, answers: Answers, world: &World<'_>, now_ms: i64) -> Taken {
        self.looked(now_ms);
        let (namespace, severity) = (self.namespace.clone(), self.severity);
        match &mut self.kind {
            Kind::Rule(machine) => {
                let facts = world.facts(&namespace, machine.rule(), &self.check, now_ms);
                let look = look(answers, facts, machine.rule(), now_ms);
                let stepped = machine.step(&look);
                outcomes(machine, &mut self.steps);
                let mut taken = Taken::default();
                for change in &stepped.changes {
                    let rule = machine.rule();
                    let target = target(&change.labels, &rule.subject, &rule.vocabulary);
                    let subject = target.to_string();
                    let kind = match change.kind {
                        ChangeKind::Pending | ChangeKind::Lost => continue,
                        ChangeKind::Firing => NewsKind::Violated,
                        ChangeKind::Predicted => NewsKind::Predicted,
                        ChangeKind::Resolved { after_ms } => {
                            self.helpless.remove(&subject);
                            NewsKind::Resolved { after_ms }
                        }
                        ChangeKind::CannotBeMet => {
                            // Why a step was refused says more.
                            if self.helpless.contains_key(&subject) {
                                continue;
                            }
                            self.helpless.insert(subject, IN_VAIN.to_owned());
                            NewsKind::Helpless
                        }
                    };
                    let is_vain = kind == NewsKind::Helpless;
                    let why = if is_vain { IN_VAIN.to_owned() } else { String::new() };
                    let (at_ms, value, limit) = (change.at_ms, change.value, change.limit);
                    taken.news.push(News { at_ms, kind, target, value, limit, why });
                }
                for act in stepped.acts {
                    if act.mode == Mode::Suggest {
                        taken.news.extend(asked(machine, &act));
                    } else {
                        taken.wishes.push(Wanted { wish: Wish { act, severity }, replicas: None });
                    }
                }
                taken
            }
            Kind::Scaling(following) => {
                let wanted = following.take(&namespace, &answers, world, now_ms);
                let waits = now_ms < self.refused.0;
                let wanted = wanted.filter(|_| !waits && following.watched.mode == Mode::Enforce);
                let wishes = wanted.map(|(act, replicas)| Wanted {
                    wish: Wish { act, severity },
                    replicas: Some(replicas),
                });
                Taken { wishes: wishes.into_iter().collect(), news: Vec::new() }
            }
            Kind::Suspended(_) | Kind::Broken(_) => Taken::default(),
        }
    }

    /// A person answers suggestions.
    pub fn answer(&mut self, accepted: &[&str], dismissed: &[&str], now_ms: i64) -> Vec<Wanted> {
        let Kind::Rule(machine) = &mut self.kind else { return Vec::new() };
        let severity = self.severity;
        for id in dismissed {
            machine.dismiss(id, now_ms);
        }
        let accepted = accepted.iter().filter_map(|id| machine.accept(id, now_ms));
        accepted.map(|act| Wanted { wish: Wish { act, severity }, replicas: None }).collect()
    }

    /// Another policy is heard first, or what was measured is old: it was no try.
    pub fn take_back(&mut self, act: &Act) {
        match &mut self.kind {
            Kind::Rule(machine) => machine.take_back(act),
            Kind::Scaling(_) => self.pause(act.at_ms),
            Kind::Suspended(_) | Kind::Broken(_) => (),
        }
    }

    fn pause(&mut self, now_ms: i64) {
        let (_, times) = self.refused;
        let pause = REFUSED_PAUSE_MS.saturating_mul(1 << times.min(16)).min(REFUSED_PAUSE_MS_MAX);
        self.refused = (now_ms + pause, times.saturating_add(1));
    }

    /// Writes down a step that will be taken.
    pub fn decide(&mut self, step: PolicyStep) {
        self.refused = (0, 0);
        self.helpless.remove(&step.subject);
        self.push(step);
    }

    /// Writes down why a step is not taken, once for the same reason. Gives what people hear of it.
    pub fn refuse(&mut self, act: &Act, step: PolicyStep) -> Option<News> {
        if let Kind::Scaling(_) = &self.kind {
            self.pause(act.at_ms);
        }
        let why = step.message.clone().unwrap_or_default();
        let subject = act.target.to_string();
        let known = self.helpless.contains_key(&subject);
        if self.helpless.len() < HELPLESS_MAX {
            self.helpless.insert(subject, why.clone());
        }
        if known {
            return None;
        }
        self.push(step);
        Some(News {
            at_ms: act.at_ms,
            kind: NewsKind::Helpless,
            target: act.target.clone(),
            value: act.value,
            limit: act.limit,
            why,
        })
    }

    fn push(&mut self, step: PolicyStep) {
        self.steps.push(step);
        // What is not carried out yet must not fall off the end.
        while self.steps.len() > STEPS_MAX {
            let over = self.steps.iter().position(|step| step.state != StepState::Decided);
            self.steps.remove(over.unwrap_or(0));
        }
    }

    /// Steps that are on the disk and not carried out.
    pub fn durable(&self) -> impl Iterator<Item = &PolicyStep> {
        let written = self.written.as_ref().map_or(&[][..], |status| &status.steps);
        let open = self.steps.iter().filter(|step| step.state == StepState::Decided);
        open.filter(|step| written.iter().any(|one| one.id == step.id))
    }

    /// Whether all that was decided is on the disk.
    pub fn is_durable(&self) -> bool {
        self.durable().count()
            == self.steps.iter().filter(|s| s.state == StepState::Decided).count()
    }

    /// The version of the object after our own last write.
    pub fn version(&self) -> Option<String> {
        self.version.clone()
    }

    /// A step came to its end.
    pub fn close(&mut self, id: &str, state: StepState, message: Option<String>) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.id == id) {
            step.state = state;
            step.message = message.or(step.message.take());
        }
    }

    /// A name for the next step.
    pub fn step_id(&self, now_ms: i64) -> String {
        let same = |n: &u32| {
            let id = format!("{now_ms:x}-{n}");
            self.steps.iter().any(|step| step.id == id)
        };
        let free = (0..).find(|n| !same(n)).unwrap_or_default();
        format!("{now_ms:x}-{free}")
    }
}

fn kind(
    watched: Watched,
    templates: &Templates,
    app_uid: Option<&str>,
    memory: Option<serde_json::Value>,
) -> Kind {
    if watched.suspended {
        return Kind::Suspended("it is suspended");
    }
    // Only an expression that asks for the uid of the App is held to it: what users measure says names.
    let asks = watched.condition.expr.as_deref().is_some_and(|expr| expr.contains("appInstance"));
    let app_instance = app_uid.filter(|_| asks).map(str::to_owned);
    let context = Context { app_instance, ..Context::default() };
    let told = |problems: Vec<crate::Problem>| {
        Kind::Broken(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    if watched.scaling.is_some() {
        return match Spec::compile(&watched, &context) {
            Ok(spec) => {
                let memory =
                    memory.and_then(|value| serde_json::from_value::<Remembered>(value).ok());
                let scaler = Scaler::new(spec, memory);
                Kind::Scaling(Box::new(Following { scaler, watched, seen: None }))
            }
            Err(problems) => told(problems),
        };
    }
    match compile(&watched, templates, &context) {
        Ok(rule) => {
            let memory = memory.and_then(|value| serde_json::from_value::<Memory>(value).ok());
            Kind::Rule(Box::new(Machine::new(rule, memory)))
        }
        Err(problems) => told(problems),
    }
}

/// It was said before that nothing helps; it is not said again after a restart.
fn helpless(status: &PolicyStatus) -> BTreeMap<String, String> {
    let told = condition::find(&status.conditions, ACHIEVABLE);
    let told = told.filter(|told| told.status == ConditionStatus::False);
    let refused = |told: &tombolo_model::Condition| {
        let steps = status.violations.iter();
        steps.map(|one| (one.subject.clone(), told.message.clone())).collect()
    };
    told.map(refused).unwrap_or_default()
}

/// What is seen: facts where the world tells, what was measured otherwise. Of those whose silence is looked for,
/// samples and the world both tell.
fn look(answers: Answers, facts: Option<Vec<Seen>>, rule: &Rule, at_ms: i64) -> Look {
    let mut look = Look { at_ms, ..Look::default() };
    let is_measured = facts.is_none() || rule.condition.is_any();
    look.seen.extend(facts.into_iter().flatten());
    for (number, answer) in answers.into_iter().enumerate().filter(|_| is_measured) {
        match (number, answer) {
            (0, Ok(seen)) => look.seen.extend(seen),
            (_, Ok(ahead)) => look.ahead.extend(ahead),
            (_, Err(failure)) => look.failure = look.failure.or(Some(failure)),
        }
    }
    look
}

/// What came of steps: whether the violation ended.
fn outcomes(machine: &Machine, steps: &mut [PolicyStep]) {
    let rule = machine.rule();
    let open = |step: &&mut PolicyStep| step.outcome.is_none() && step.state != StepState::Refused;
    for step in steps.iter_mut().filter(open) {
        let at_ms = step.at.0.as_millisecond();
        let is_it = |past: &&crate::Past| {
            // A status says times to the second.
            let subject = target(&past.labels, &rule.subject, &rule.vocabulary).to_string();
            past.at_ms / 1000 == at_ms.div_euclid(1000) && subject == step.subject
        };
        let Some(past) = machine.past().iter().find(is_it) else { continue };
        step.outcome = match past.outcome {
            Outcome::Open => None,
            Outcome::Ended { after_ms } => {
                Some(format!("the violation ended after {} s", after_ms / 1000))
            }
            Outcome::InVain => Some("the violation lasted".to_owned()),
        };
    }
}

fn asked(machine: &Machine, act: &Act) -> Option<News> {
    let is_it = |one: &&crate::Suggestion| one.at_ms == act.at_ms && one.labels == act.labels;
    let suggestion = machine.suggestions().iter().find(is_it)?;
    Some(News {
        at_ms: act.at_ms,
        kind: NewsKind::Suggested { id: suggestion.id.clone(), action: act.action },
        target: act.target.clone(),
        value: act.value,
        limit: act.limit,
        why: act.reason.clone(),
    })
}

impl Following {
    /// The number that is wanted, if it is another than there is.
    fn take(
        &mut self,
        namespace: &str,
        answers: &[Result<Vec<Seen>, String>],
        world: &World<'_>,
        now_ms: i64,
    ) -> Option<(Act, u32)> {
        let words = crate::Vocabulary::default();
        let target = target(&Labels::empty(), &self.watched.subject, &words);
        let mut act = Act {
            at_ms: now_ms,
            policy: self.watched.name.clone(),
            labels: Labels::empty(),
            target,
            action: Action::None,
            value: f64::NAN,
            limit: None,
            early: false,
            tries: 0,
            mode: self.watched.mode,
            reason: String::new(),
        };
        let (id, name) = world.component(namespace, &act).ok()?;
        let app = world.app(&id)?;
        let component = app.spec.components.iter().find(|one| one.name == name)?;
        let current = component.replicas.unwrap_or(1);
        let metrics = self.scaler.spec().metrics.len();
        let measured = |answer: &Result<Vec<Seen>, String>| {
            let seen = answer.as_ref().ok()?;
            let values: Vec<f64> = seen.iter().map(|one| one.value).collect();
            Measured::of(&values)
        };
        let mut all: Vec<Option<Measured>> = answers.iter().map(measured).collect();
        let steps = all.split_off(metrics.min(all.len()));
        let blind = all.iter().chain(&steps).all(Option::is_none);
        let reading = Reading { at_ms: now_ms, metrics: all, steps };
        let first = reading.metrics.iter().chain(&reading.steps).flatten().next();
        act.value = first.map_or(f64::NAN, |measured| measured.sum);
        let decision = self.scaler.step(current, &reading);
        self.seen = Some(Seeing { blind, reason: decision.reason.clone() });
        act.target.component = Some(name.clone());
        let is_more = decision.replicas > current;
        act.action = if is_more { Action::ScaleUp } else { Action::ScaleDown };
        act.reason = format!("{current} to {}: {}", decision.replicas, decision.reason);
        (decision.replicas != current).then_some((act, decision.replicas))
    }
}

pub(super) fn time(ms: i64) -> Time {
    Time(Timestamp::from_millisecond(ms).unwrap_or_default())
}
