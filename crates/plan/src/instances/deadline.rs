//! When instances are to end that must not outlive the link to the controller for long. What supervises
//! them keeps that time, also while the agent is dead or frozen; the agent puts it off after every
//! heartbeat that the controller has answered. Called by `tombolo_agent::converge`; start at [`keep`].

use std::time::Duration;

use tombolo_model::Engine;

use super::Wanted;

/// What an engine is told about the end of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When it is asked to end, since the machine has started.
    pub at: Duration,
    /// So long after the last word of the controller.
    pub after: Duration,
    pub grace: Duration,
}

/// When the agent last heard the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Counted from the start of the machine; nothing if it was not since the agent has started.
    pub since_boot: Option<Duration>,
    /// No agent counts as cut off before this.
    pub silent_after: Duration,
}

/// How far an instance is, as far as its deadline is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Starting,
    Running,
    /// Something is being done to it.
    Busy,
    Over,
}

/// Nothing if it may go on without end, or if nobody knows when the controller was heard.
pub fn of(wanted: &Wanted, heard: Heard) -> Option<Deadline> {
    let after = wanted.stop_when_cut_off?;
    // A rule that is shorter than the time between two heartbeats would end it in between.
    let at = heard.since_boot?.saturating_add(after.max(heard.silent_after));
    Some(Deadline { at, after, grace: wanted.grace })
}

/// What the engine is to be told about an instance, if it must be told. `told` is what it was told last;
/// nothing if it was not by this agent.
pub fn keep(
    wanted: &Wanted,
    heard: Heard,
    (engine, stage): (Engine, Stage),
    told: Option<Option<Deadline>>,
) -> Option<Option<Deadline>> {
    let has_one = match stage {
        Stage::Running => true,
        // A process is begun with its deadline, and is there at once; a container may wait long for its
        // image, and must not be over before it begins.
        Stage::Starting => engine != Engine::Host,
        Stage::Busy | Stage::Over => false,
    };
    // What an earlier agent has told the engine counts until the controller is heard.
    let unknown = wanted.stop_when_cut_off.is_some() && heard.since_boot.is_none();
    let deadline = of(wanted, heard);
    (has_one && !unknown && told != Some(deadline)).then_some(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(after: Option<u64>) -> Wanted {
        Wanted {
            revision: 1,
            app: "default/shop".to_owned(),
            component: "web".to_owned(),
            after: Vec::new(),
            exclusive: false,
            stopped: false,
            checked: false,
            grace: Duration::from_secs(1),
            stop_when_cut_off: after.map(Duration::from_secs),
            blocked: None,
            fallback: None,
        }
    }

    fn heard(seconds: Option<u64>) -> Heard {
        let silent_after = Duration::from_secs(30);
        Heard { since_boot: seconds.map(Duration::from_secs), silent_after }
    }

    fn ends_at(after: u64, at: u64) -> Option<Deadline> {
        let (at, after) = (Duration::from_secs(at), Duration::from_secs(after));
        Some(Deadline { at, after, grace: Duration::from_secs(1) })
    }

    #[test]
    fn it_ends_so_long_after_the_last_word_and_never_between_two_heartbeats() {
        let rows = [
            (Some(60), Some(100), ends_at(60, 160)),
            (Some(5), Some(100), ends_at(5, 130)),
            (Some(60), None, None),
            (None, Some(100), None),
        ];
        for (after, at, expected) in rows {
            assert_eq!(of(&wanted(after), heard(at)), expected, "{after:?} {at:?}");
        }
    }

    #[test]
    fn an_engine_is_told_what_it_does_not_know() {
        let later = ends_at(60, 160);
        let (host, docker) = (Engine::Host, Engine::Docker);
        let rows = [
            (Some(60), Some(100), host, Stage::Running, None, Some(later)),
            (Some(60), Some(100), host, Stage::Running, Some(ends_at(60, 150)), Some(later)),
            (Some(60), Some(100), host, Stage::Running, Some(later), None),
            (Some(60), Some(100), host, Stage::Starting, None, None),
            (Some(60), Some(100), docker, Stage::Starting, None, Some(later)),
            (Some(60), Some(100), host, Stage::Busy, None, None),
            (Some(60), Some(100), host, Stage::Over, None, None),
            // The rule was taken back.
            (None, Some(100), host, Stage::Running, Some(later), Some(None)),
            (None, None, host, Stage::Running, None, Some(None)),
            (Some(60), None, host, Stage::Running, None, None),
        ];
        for (after, at, engine, stage, told, expected) in rows {
            let found = keep(&wanted(after), heard(at), (engine, stage), told);
            assert_eq!(found, expected, "{after:?} {at:?} {engine:?} {stage:?} {told:?}");
        }
    }
}
