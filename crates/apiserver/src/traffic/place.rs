//! Where a request is while the server works on it: in a seat of its level, or at its turn on the threads
//! for heavy steps.

use std::sync::{Arc, Mutex};

use super::flow::{Flow, Level, Work};
use super::hall::Seat;
use super::{Traffic, lock};
use crate::status::Failure;

/// The right to do one heavy step.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(super) _seat: Seat,
}

impl Turn {
    /// Runs the step on a thread where nothing else waits for it.
    pub(crate) async fn work<T: Send + 'static>(
        self,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let done = tokio::task::spawn_blocking(move || {
            let _turn = self;
            step()
        });
        done.await.map_err(|error| Failure::internal(format!("a heavy step failed: {error}")))
    }
}

/// The seat of a request while its handler works; among the request's extensions. A handler that
/// finds its work heavy leaves the seat while it waits for its turns: otherwise the heavy requests of
/// one flow would sit on all seats of a level and wait for each other, and light requests with them.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Taken>);

/// Which seat a request needs.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub level: Level,
    pub work: Work,
    pub flow: Flow,
    pub width: usize,
}

#[derive(Debug)]
struct Taken {
    traffic: Arc<Traffic>,
    wanted: Wanted,
    state: Mutex<Seated>,
}

#[derive(Debug)]
enum Seated {
    On {
        _seat: Option<Seat>,
    },
    /// While heavy work waits for its turns.
    Away,
    /// The request is answered; nothing that is left of it takes a seat again.
    Done,
}

impl Place {
    pub(super) async fn take(traffic: &Arc<Traffic>, wanted: Wanted) -> Result<Place, Failure> {
        let seat = traffic.enter(&wanted).await?;
        // Most requests are worked on without a pause. Without this one, each would have its seat and
        // be done with it in one go; none would ever wait for a seat, and who sends thousands would
        // have them worked on in the order in which they came, before those of others.
        tokio::task::yield_now().await;
        let state = Mutex::new(Seated::On { _seat: seat });
        Ok(Place(Arc::new(Taken { traffic: traffic.clone(), wanted, state })))
    }

    pub(crate) fn leave(&self) {
        self.change(Seated::Away);
    }

    pub(crate) async fn take_again(&self) -> Result<(), Failure> {
        let seat = self.0.traffic.enter(&self.0.wanted).await?;
        self.change(Seated::On { _seat: seat });
        Ok(())
    }

    pub(super) fn end(&self) {
        self.change(Seated::Done);
    }

    fn change(&self, to: Seated) {
        let mut state = lock(&self.0.state);
        let given_up = match *state {
            Seated::On { .. } | Seated::Away => std::mem::replace(&mut *state, to),
            Seated::Done => to,
        };
        drop(state);
        drop(given_up);
    }
}
