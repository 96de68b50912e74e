//! Settles what several policies want of one component: the more severe one is heard, then the order of
//! [`RANKS`], then the name. A step that undoes another's waits, twice as long each time, so that two policies
//! that pull apart do not fight. Start at [`Arbiter::settle`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tombolo_model::policy::{Action, Severity};

use crate::Act;

/// Which step is heard when policies of one severity want different ones, the first before the last: safety,
/// then another place, then more, then a change, then less, then words.
pub const RANKS: &[Action] = &[
    Action::Quarantine,
    Action::Migrate,
    Action::Reallocation,
    Action::Redeploy,
    Action::Restart,
    Action::ScaleUp,
    Action::ScaleOut,
    Action::Patch,
    Action::ScaleDown,
    Action::ScaleIn,
    Action::Webhook,
    Action::Notify,
    Action::None,
];

/// How long the first step that would undo another's waits at least, and the last one at most.
const HOLD_MS: i64 = 300_000;
const HOLD_MS_MAX: i64 = 6 * 3_600_000;

/// Components whose last step is remembered.
const TARGETS_MAX: usize = 4096;

/// A step, and how much its policy matters.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    pub act: Act,
    pub severity: Severity,
}

/// What came of the wishes of a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    pub taken: Vec<Wish>,
    /// With the reason, which names the policy that was heard.
    pub refused: Vec<(Wish, String)>,
}

/// What steps do to a component; those of one group exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Effect {
    /// To another place, or started again.
    Move,
    More,
    Fewer,
    Larger,
    Smaller,
    Change,
}

fn effect(action: Action) -> Option<Effect> {
    match action {
        Action::None | Action::Notify | Action::Webhook => None,
        Action::Migrate
        | Action::Redeploy
        | Action::Reallocation
        | Action::Restart
        | Action::Quarantine => Some(Effect::Move),
        Action::ScaleUp => Some(Effect::More),
        Action::ScaleDown => Some(Effect::Fewer),
        Action::ScaleOut => Some(Effect::Larger),
        Action::ScaleIn => Some(Effect::Smaller),
        Action::Patch => Some(Effect::Change),
    }
}

fn undoes(effect: Effect, last: Effect) -> bool {
    matches!(
        (effect, last),
        (Effect::More, Effect::Fewer)
            | (Effect::Fewer, Effect::More)
            | (Effect::Larger, Effect::Smaller)
            | (Effect::Smaller, Effect::Larger)
    )
}

/// The last step for a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Last {
    at_ms: i64,
    policy: String,
    severity: Severity,
    effect: Effect,
    /// How many times in a row one policy has undone another's step.
    turns: u32,
}

/// What is remembered of the components that policies have changed. Fits into a status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arbiter(BTreeMap<String, Last>);

impl Arbiter {
    /// Of all wishes of one look, those that are fulfilled.
    pub fn settle(&mut self, mut wishes: Vec<Wish>, now: i64) -> Settled {
        let rank = |action: Action| RANKS.iter().position(|one| *one == action);
        wishes.sort_by(|a, b| {
            let key = |wish: &Wish| (std::cmp::Reverse(wish.severity), rank(wish.act.action));
            key(a).cmp(&key(b)).then_with(|| a.act.policy.cmp(&b.act.policy))
        });
        let mut settled = Settled::default();
        let mut heard: BTreeMap<String, String> = BTreeMap::new();
        for wish in wishes {
            let Some(effect) = effect(wish.act.action) else {
                settled.taken.push(wish);
                continue;
            };
            let place = place(&wish.act);
            if let Some(other) = heard.get(&place) {
                let why = format!("{other} is heard first: one step at a time for {place}");
                settled.refused.push((wish, why));
                continue;
            }
            match self.objection(&place, &wish, effect, now) {
                Some(why) => settled.refused.push((wish, why)),
                None => {
                    self.remember(&place, &wish, effect, now);
                    heard.insert(place, wish.act.policy.clone());
                    settled.taken.push(wish);
                }
            }
        }
        settled
    }

    /// What was done before this began to watch, the oldest first.
    pub fn recall(
        &mut self,
        place: &str,
        (policy, severity): (&str, Severity),
        action: Action,
        at_ms: i64,
    ) {
        let Some(effect) = effect(action) else { return };
        let turns = match self.0.get(place) {
            Some(last) if undoes(effect, last.effect) && last.policy != policy => {
                last.turns.saturating_add(1)
            }
            Some(last) => last.turns,
            None => 0,
        };
        let last = Last { at_ms, policy: policy.to_owned(), severity, effect, turns };
        self.0.insert(place.to_owned(), last);
    }

    /// Why a wish is not fulfilled: it would undo what another policy has just done.
    fn objection(&self, place: &str, wish: &Wish, effect: Effect, now: i64) -> Option<String> {
        let last = self.0.get(place)?;
        if !undoes(effect, last.effect) || last.policy == wish.act.policy {
            return None;
        }
        let until = last.at_ms.saturating_add(hold_ms(last.turns));
        // The more severe one need not wait for the first time.
        let first = wish.severity > last.severity && last.turns == 0;
        (now < until && !first).then(|| {
            format!(
                "it would undo the step of {} from {} s ago; the two pull apart, and it waits {} s more",
                last.policy,
                (now - last.at_ms) / 1000,
                (until - now) / 1000
            )
        })
    }

    fn remember(&mut self, place: &str, wish: &Wish, effect: Effect, now: i64) {
        let turns = match self.0.get(place) {
            Some(last) if undoes(effect, last.effect) && last.policy != wish.act.policy => {
                last.turns.saturating_add(1)
            }
            // Quiet for twice as long as it would have waited: forgiven.
            Some(last) if now - last.at_ms > 2 * hold_ms(last.turns) => 0,
            Some(last) => last.turns,
            None => 0,
        };
        let (policy, severity) = (wish.act.policy.clone(), wish.severity);
        self.0.insert(place.to_owned(), Last { at_ms: now, policy, severity, effect, turns });
        if self.0.len() > TARGETS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, last)| last.at_ms);
            if let Some(place) = oldest.map(|(place, _)| place.clone()) {
                self.0.remove(&place);
            }
        }
    }
}

fn hold_ms(turns: u32) -> i64 {
    HOLD_MS.saturating_mul(1 << turns.min(16)).min(HOLD_MS_MAX)
}

/// What a step is about: a component, or a machine.
fn place(act: &Act) -> String {
    let target = &act.target;
    match (&target.app, &target.component, act.action) {
        (_, _, Action::Quarantine) | (None, _, _) => {
            target.node.as_ref().map_or_else(|| target.to_string(), |node| format!("node/{node}"))
        }
        (Some(app), Some(component), _) => format!("app/{app}/{component}"),
        (Some(app), None, _) => format!("app/{app}"),
    }
}

#[cfg(test)]
mod tests {
    use tombolo_model::policy::Mode;
    use tombolo_series::Labels;

    use super::*;
    use crate::Target;

    fn wish(policy: &str, severity: Severity, action: Action) -> Wish {
        let text = |text: &str| Some(text.to_owned());
        let target = Target {
            app: text("shop"),
            component: text("web"),
            node: text("n"),
            ..Target::default()
        };
        let act = Act {
            at_ms: 0,
            policy: policy.to_owned(),
            labels: Labels::empty(),
            target,
            action,
            value: 1.0,
            limit: None,
            early: false,
            tries: 0,
            mode: Mode::Enforce,
            reason: String::new(),
        };
        Wish { act, severity }
    }

    fn names(settled: &Settled) -> (Vec<&str>, Vec<&str>) {
        let taken = settled.taken.iter().map(|wish| wish.act.policy.as_str());
        let refused = settled.refused.iter().map(|(wish, _)| wish.act.policy.as_str());
        (taken.collect(), refused.collect())
    }

    #[test]
    fn severity_is_heard_first_then_the_order_then_the_name() {
        use Severity::{Critical, Warning};
        let mut arbiter = Arbiter::default();
        let wishes = vec![
            wish("b", Warning, Action::ScaleUp),
            wish("a", Warning, Action::ScaleUp),
            wish("z", Critical, Action::ScaleDown),
            wish("told", Warning, Action::Notify),
        ];
        let settled = arbiter.settle(wishes, 0);
        assert_eq!(names(&settled), (vec!["z", "told"], vec!["a", "b"]));
        assert_eq!(settled.refused[0].1, "z is heard first: one step at a time for app/shop/web");
        let wishes =
            vec![wish("b", Warning, Action::ScaleDown), wish("a", Warning, Action::Migrate)];
        let settled = Arbiter::default().settle(wishes, 0);
        assert_eq!(names(&settled), (vec!["a"], vec!["b"]));
    }

    #[test]
    fn every_action_has_its_rank() {
        assert_eq!(RANKS.len(), Action::ALL.len());
        assert!(Action::ALL.iter().all(|action| RANKS.contains(action)));
    }

    #[test]
    fn a_machine_in_quarantine_and_a_component_are_two_things() {
        let mut arbiter = Arbiter::default();
        let wishes = vec![
            wish("q", Severity::Warning, Action::Quarantine),
            wish("up", Severity::Warning, Action::ScaleUp),
        ];
        assert_eq!(names(&arbiter.settle(wishes, 0)).0, ["q", "up"]);
    }

    /// Each sees its violation after the other's step, at every look.
    #[test]
    fn two_policies_that_pull_apart_do_not_fight() {
        for (more, fewer) in [
            (Severity::Warning, Severity::Warning),
            (Severity::Warning, Severity::Critical),
            (Severity::Critical, Severity::Warning),
        ] {
            let mut arbiter = Arbiter::default();
            let mut acts = Vec::new();
            let day = 24 * 3_600_000;
            for now in (0..day).step_by(15_000) {
                let wishes =
                    [wish("up", more, Action::ScaleUp), wish("down", fewer, Action::ScaleDown)];
                // Only the one whose turn it is sees a violation.
                let last = acts.last().map_or("down", |(_, name): &(i64, String)| name);
                let turn = if last == "down" { 0 } else { 1 };
                let settled = arbiter.settle(vec![wishes[turn].clone()], now);
                acts.extend(settled.taken.into_iter().map(|wish| (now, wish.act.policy)));
            }
            assert!(acts.len() <= 12, "{} steps in a day", acts.len());
            let late = acts.iter().filter(|(at, _)| *at > day / 2).count();
            assert!(late <= 3, "{late} steps in the second half");
        }
    }

    #[test]
    fn the_memory_comes_back_from_json() {
        let mut arbiter = Arbiter::default();
        arbiter.settle(vec![wish("up", Severity::Warning, Action::ScaleUp)], 5);
        let text = serde_json::to_string(&arbiter).unwrap();
        assert_eq!(serde_json::from_str::<Arbiter>(&text).unwrap(), arbiter);
        let down = wish("down", Severity::Warning, Action::ScaleDown);
        let settled = arbiter.settle(vec![down], 60_005);
        assert_eq!(
            settled.refused[0].1,
            "it would undo the step of up from 60 s ago; the two pull apart, and it waits 240 s more"
        );
    }
}
