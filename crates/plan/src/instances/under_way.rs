//! What an agent is doing to its instances, and what came of it: which actions begin now, how often each
//! start was tried, and what a look makes of both. Called by `tombolo_agent::converge` around
//! [`super::plan`]; start at [`UnderWay::observe`].

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_model::{Blame, Engine, Reason};

use crate::Monotonic;

use super::{Action, Id, Observed, Problem, Retry, Seen, Verb};

/// More at once would be a load of its own on a small machine; the next look goes on.
pub const ACTIONS_AT_ONCE_MAX: usize = 32;
/// After a stop or a removal that failed. Starts have pauses of their own, see [`super::BACKOFF_MIN`].
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Lost with the process: what an engine holds is then all that is known.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    doing: BTreeMap<Id, Verb>,
    starts: BTreeMap<Id, Starts>,
    /// Stops and removals that failed a moment ago.
    resting: BTreeMap<Id, Monotonic>,
}

#[derive(Clone, Debug, Default)]
struct Starts {
    count: u64,
    /// How many have failed, one after the other.
    failures: u64,
    /// Why the last one failed, unless it did not.
    failed: Option<(Retry, Problem)>,
}

impl Retry {
    /// What comes of trying a start again that failed for this reason.
    pub fn after(engine: Engine, reason: Reason) -> Retry {
        match engine {
            // Elsewhere a try has its price: a container is made before it fails, an image is pulled.
            Engine::Host if reason.blames() == Blame::Node => Retry::Soon,
            Engine::Host | Engine::Docker | Engine::Kubernetes => Retry::Later,
        }
    }
}

impl UnderWay {
    /// Puts what is under way, and starts that failed before the engine had anything to show, over what
    /// the engines say.
    pub fn observe(&mut self, mut engines_say: Observed, now: Monotonic) -> Observed {
        self.resting.retain(|_, until| *until > now);
        for (id, starts) in &self.starts {
            let Some((retry, problem)) = &starts.failed else { continue };
            match engines_say.get(id) {
                None | Some(Seen::Exited { .. } | Seen::Failed { .. }) => {
                    let (at, retry, problem) = (starts.count, *retry, problem.clone());
                    engines_say.insert(id.clone(), Seen::Failed { at, retry, problem });
                }
                // The try has come to more than its answer said.
                Some(Seen::Starting { .. } | Seen::Running(_) | Seen::Stopping) => (),
            }
        }
        for (id, verb) in &self.doing {
            let seen = match (verb, engines_say.get(id)) {
                (Verb::Start, Some(Seen::Running(_))) => continue,
                (Verb::Start, _) => Seen::Starting { doing: "starting".to_owned() },
                (Verb::Stop { .. } | Verb::Remove, _) => Seen::Stopping,
            };
            engines_say.insert(id.clone(), seen);
        }
        for id in self.resting.keys() {
            engines_say.insert(id.clone(), Seen::Stopping);
        }
        engines_say
    }

    /// How often a start of the instance was begun. It tells two failures to start apart.
    pub fn starts(&self, id: &Id) -> u64 {
        self.starts.get(id).map_or(0, |starts| starts.count)
    }

    /// Whether something is being done to the instance, or was in vain a moment ago.
    pub fn is_busy(&self, id: &Id) -> bool {
        self.doing.contains_key(id) || self.resting.contains_key(id)
    }

    pub fn has_room(&self) -> bool {
        self.doing.len() + self.resting.len() < ACTIONS_AT_ONCE_MAX
    }

    pub fn begin(&mut self, action: &Action) {
        if action.verb == Verb::Start {
            self.starts.entry(action.id.clone()).or_default().count += 1;
        }
        self.doing.insert(action.id.clone(), action.verb);
    }

    pub fn ended(
        &mut self,
        id: &Id,
        verb: Verb,
        result: Result<(), (Retry, Problem)>,
        now: Monotonic,
    ) {
        self.doing.remove(id);
        match (verb, result) {
            (Verb::Start, result) => {
                let starts = self.starts.entry(id.clone()).or_default();
                starts.failures = if result.is_err() { starts.failures + 1 } else { 0 };
                starts.failed = result.err();
            }
            (Verb::Remove, Ok(())) => _ = self.starts.remove(id),
            (Verb::Stop { .. }, Ok(())) => (),
            (Verb::Stop { .. } | Verb::Remove, Err(_)) => {
                self.resting.insert(id.clone(), now + PAUSE_AFTER_FAILURE);
            }
        }
    }

    /// How many starts of an instance have failed, one after the other.
    pub fn failures(&self, id: &Id) -> u64 {
        self.starts.get(id).map_or(0, |starts| starts.failures)
    }

    /// An action has ended without saying which it was: all instances are looked at anew.
    pub fn lost_count(&mut self) {
        self.doing.clear();
    }

    /// When something that rests may be tried again.
    pub fn wake_at(&self) -> Option<Monotonic> {
        self.resting.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Health, Why};
    use super::*;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_millis(millis))
    }

    fn id() -> Id {
        Id { assignment: "a".to_owned(), revision: 1 }
    }

    const STOP: Verb = Verb::Stop { grace: Duration::ZERO };

    fn begin(under_way: &mut UnderWay, verb: Verb) {
        under_way.begin(&Action { id: id(), verb, why: Why::Missing });
    }

    fn problem() -> Problem {
        Problem::new(Reason::Ended, "it has ended")
    }

    fn failed() -> Result<(), (Retry, Problem)> {
        Err((Retry::Soon, problem()))
    }

    /// What is observed of the one instance when the engine says `said` of it.
    fn look(under_way: &mut UnderWay, said: Option<Seen>, millis: u64) -> Option<Seen> {
        let said = said.map(|said| (id(), said)).into_iter().collect();
        under_way.observe(said, at(millis)).remove(&id())
    }

    fn starting() -> Seen {
        Seen::Starting { doing: "starting".to_owned() }
    }

    fn exited() -> Seen {
        Seen::Exited { at: 7, ordered: false, problem: problem() }
    }

    #[test]
    fn what_is_under_way_covers_what_the_engine_says() {
        let well = || Some(Seen::Running(Health::Well));
        let rows = [
            (Verb::Start, None, starting()),
            (Verb::Start, Some(exited()), starting()),
            (Verb::Start, well(), Seen::Running(Health::Well)),
            (STOP, well(), Seen::Stopping),
            (Verb::Remove, Some(exited()), Seen::Stopping),
        ];
        for (verb, said, expected) in rows {
            let mut under_way = UnderWay::default();
            begin(&mut under_way, verb);
            assert!(under_way.is_busy(&id()));
            assert_eq!(look(&mut under_way, said, 0), Some(expected), "{verb:?}");
        }
    }

    #[test]
    fn a_start_that_failed_is_told_until_the_engine_has_better_to_show() {
        let mut under_way = UnderWay::default();
        for count in 1..3 {
            begin(&mut under_way, Verb::Start);
            under_way.ended(&id(), Verb::Start, failed(), at(0));
            let expected = Seen::Failed { at: count, retry: Retry::Soon, problem: problem() };
            assert_eq!(look(&mut under_way, None, 0).as_ref(), Some(&expected));
            assert_eq!(look(&mut under_way, Some(exited()), 0), Some(expected));
        }
        let runs = Seen::Running(Health::Unknown);
        assert_eq!(look(&mut under_way, Some(runs.clone()), 0), Some(runs));
        assert_eq!(under_way.starts(&id()), 2);
        under_way.ended(&id(), Verb::Start, Ok(()), at(0));
        assert_eq!(look(&mut under_way, None, 0), None, "the last one did not fail");
        under_way.ended(&id(), Verb::Remove, Ok(()), at(0));
        assert_eq!(under_way.starts(&id()), 0);
    }

    #[test]
    fn a_stop_that_failed_rests_before_the_next() {
        for verb in [STOP, Verb::Remove] {
            let mut under_way = UnderWay::default();
            begin(&mut under_way, verb);
            under_way.ended(&id(), verb, failed(), at(500));
            assert_eq!(under_way.wake_at(), Some(at(1500)));
            assert_eq!(look(&mut under_way, Some(exited()), 1499), Some(Seen::Stopping));
            assert!(under_way.is_busy(&id()));
            assert_eq!(look(&mut under_way, Some(exited()), 1500), Some(exited()));
            assert!(!under_way.is_busy(&id()) && under_way.wake_at().is_none());
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_what_rests_takes_some() {
        let mut under_way = UnderWay::default();
        for number in 0..ACTIONS_AT_ONCE_MAX {
            assert!(under_way.has_room(), "{number}");
            let id = Id { assignment: "a".to_owned(), revision: number as u64 };
            under_way.begin(&Action { id, verb: STOP, why: Why::StopAsked });
        }
        assert!(!under_way.has_room());
        let first = Id { assignment: "a".to_owned(), revision: 0 };
        under_way.ended(&first, STOP, failed(), at(0));
        assert!(!under_way.has_room());
        under_way.observe(Observed::new(), at(1000));
        assert!(under_way.has_room());
        under_way.lost_count();
        assert!(!under_way.is_busy(&id()));
    }

    #[test]
    fn only_what_the_machine_has_in_the_way_of_a_process_is_tried_again_soon() {
        let rows = [
            (Engine::Host, Reason::PortTaken, Retry::Soon),
            (Engine::Host, Reason::NoSuchImage, Retry::Later),
            (Engine::Docker, Reason::PortTaken, Retry::Later),
        ];
        for (engine, reason, expected) in rows {
            assert_eq!(Retry::after(engine, reason), expected, "{engine:?} {reason}");
        }
    }

    #[test]
    fn failures_are_counted_until_a_start_succeeds() {
        let mut under_way = UnderWay::default();
        for count in 1..=3 {
            begin(&mut under_way, Verb::Start);
            under_way.ended(&id(), Verb::Start, failed(), at(count));
            assert_eq!(under_way.failures(&id()), count);
        }
        begin(&mut under_way, Verb::Start);
        under_way.ended(&id(), Verb::Start, Ok(()), at(4));
        assert_eq!(under_way.failures(&id()), 0);
    }
}
