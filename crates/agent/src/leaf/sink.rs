//! The way for other parts of the agent to what is sent: [`Sink`].

use std::sync::{Arc, Mutex, PoisonError};

use tombolo_leaf::Measured;

/// What may wait for the next reading. A part that pushes more than this in fifteen seconds measures too much.
const WAITING_MAX: usize = 10_000;

/// Takes samples and never waits; cheap to clone. They go out with the next message, in the agent's
/// certificate: the server puts `site` and `node` on them. Where nothing is measured, it takes nothing.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    /// Nothing where nobody would send it.
    held: Option<Arc<Mutex<Held>>>,
}

#[derive(Debug, Default)]
struct Held {
    waiting: Vec<Measured>,
    dropped: u64,
}

impl Sink {
    pub(crate) fn open() -> Sink {
        Sink { held: Some(Arc::default()) }
    }

    /// What takes nothing.
    pub fn closed() -> Sink {
        Sink::default()
    }

    /// Whether it is of use to measure at all.
    pub fn is_open(&self) -> bool {
        self.held.is_some()
    }

    /// Of one series each sample has a later time than the one before. What is too much is counted and
    /// dropped, the newest first.
    pub fn push(&self, measured: impl IntoIterator<Item = Measured>) {
        let Some(held) = &self.held else { return };
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        for one in measured {
            match held.waiting.len() < WAITING_MAX {
                true => held.waiting.push(one),
                false => held.dropped += 1,
            }
        }
    }

    pub(super) fn take(&self) -> Vec<Measured> {
        let held = self.held.as_ref().map(|held| held.lock());
        let held = held.map(|held| held.unwrap_or_else(PoisonError::into_inner));
        held.map(|mut held| std::mem::take(&mut held.waiting)).unwrap_or_default()
    }

    pub(super) fn dropped(&self) -> u64 {
        let held = self.held.as_ref().map(|held| held.lock());
        held.map_or(0, |held| held.unwrap_or_else(PoisonError::into_inner).dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_counts_what_it_drops() {
        let sink = Sink::open();
        let one = |at_ms| Measured::new(at_ms, "net_rtt_ms", &[("peer", "b")], 1.0);
        sink.clone().push((0..WAITING_MAX as i64 + 3).map(one));
        assert_eq!((sink.take().len(), sink.dropped()), (WAITING_MAX, 3));
        sink.push([one(1)]);
        assert_eq!(sink.take(), [one(1)]);
        assert_eq!(sink.take(), []);
    }

    #[test]
    fn a_closed_one_keeps_nothing() {
        let sink = Sink::closed();
        sink.push([Measured::new(0, "a", &[], 1.0)]);
        assert!(!sink.is_open());
        assert_eq!((sink.take(), sink.dropped()), (vec![], 0));
    }
}
