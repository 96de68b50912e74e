//! When refusals are told: not at once, and those of one flow one after the other. Pure; the layer waits.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::flow::Flow;

/// How long a client that has too much waits to hear it at least; it is to wait for a second anyway.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Between two refusals of one flow. A refusal costs next to nothing, but a client may have thousands of
/// requests under way, and another one for each that is refused.
const SPACING: Duration = Duration::from_millis(5);
/// Clients do not wait for ever.
const PAUSE_MAX: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// When the last refusal of a flow is told; only of those whose is still to come, and some more.
    last: BTreeMap<Flow, Instant>,
    /// With how many flows it is time to forget those whose refusals were told.
    forget_at: usize,
}

impl Refusals {
    pub(crate) fn next(&mut self, flow: &Flow, now: Instant) -> Instant {
        if self.last.len() >= self.forget_at {
            self.last.retain(|_, last| *last > now);
            self.forget_at = (2 * self.last.len()).max(1024);
        }
        let soonest = now + PAUSE_MIN;
        let after_last = self.last.get(flow).map_or(soonest, |last| *last + SPACING);
        let at = after_last.clamp(soonest, now + PAUSE_MAX);
        self.last.insert(flow.clone(), at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_one_flow_are_told_one_after_the_other() {
        let mut refusals = Refusals::default();
        let (anna, bert) = (Flow::Subject("anna".into()), Flow::Subject("bert".into()));
        let now = Instant::now();
        let mut after = |flow, now_ms| {
            let at = refusals.next(flow, now + Duration::from_millis(now_ms));
            (at - now).as_millis()
        };
        assert_eq!([after(&anna, 0), after(&anna, 0), after(&anna, 0)], [500, 505, 510]);
        assert_eq!(after(&bert, 0), 500, "not after those of somebody else");
        assert_eq!(after(&anna, 100), 600, "what was told later is not before");
        let last = (0..10_000).map(|_| after(&anna, 100)).max();
        assert_eq!(last, Some(15_100), "nobody waits for ever");
    }

    #[test]
    fn who_was_told_is_forgotten() {
        let mut refusals = Refusals::default();
        let now = Instant::now();
        for number in 0..10_000_u32 {
            let flow = Flow::Subject(number.to_string().into());
            refusals.next(&flow, now + Duration::from_secs(1) * number);
        }
        assert!(refusals.last.len() <= 1024, "{}", refusals.last.len());
    }
}
