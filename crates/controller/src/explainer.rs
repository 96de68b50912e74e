//! Explains decisions while the loops run: over the same copy of the world that they look at, with what the
//! placing loop remembers and by its clock. What is told is decided in [`tombolo_plan::explaining`]; here is
//! who waits for what, and how much at once. Called by the programs that serve; start at [`Explainer`].

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::sync::Semaphore;
use tombolo_model::explanation::{
    PlanAnswer, PlanRequest, Search, WhatIfAnswer, WhatIfRequest, WhyAnswer, WhyRequest,
};
use tombolo_model::{App, Shared, Trouble};
use tombolo_placement::select::{Limits, WORK_DEFAULT};
use tombolo_plan::explaining::{self, Seen};

use crate::board::Board;
use crate::mirror::Seeing;
use crate::world::World;

/// Each takes a processor for as long as it searches, and the loops need one too.
const AT_ONCE: usize = 2;
/// After so long a search gives up its place if somebody waits for one, and is answered with what it has found. With less,
/// large questions would not be answered well on a busy server; with more, those who wait would be sent away
/// by the door before their turn.
const TURN: Duration = Duration::from_secs(5);
/// More would wait longer than their clients do.
const WAITING_MAX: usize = 64;
/// A longer search would keep others from theirs.
pub const SEARCH_TIME_MAX: Duration = Duration::from_secs(60);
/// The limit of a search whose request names none.
const SEARCH_TIME_DEFAULT: Duration = Duration::from_secs(10);
/// A server that has just started has not seen everything yet.
const SEEING_TIME_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether the copy of the world has come so far. Nothing tells when.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Whether the caller may read the Apps of a namespace.
pub type MayRead = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Cheap to clone; all clones share their bounds.
#[derive(Clone, Debug)]
pub struct Explainer {
    board: Board,
    places: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unexplained {
    /// The copy of the world is not complete, or is not as new as what was asked about.
    NotYet,
    TooMany,
    /// The search that is asked for takes longer than [`SEARCH_TIME_MAX`].
    TooLong,
    /// Of what was asked about, something does not exist or cannot be used.
    Trouble(Trouble),
    /// Our own fault.
    Failed,
}

/// Held while a client waits for its answer. When it is dropped, the search ends soon after.
struct Asked(Arc<()>);

impl Explainer {
    /// Of the loops that write to this board.
    pub fn new(board: Board) -> Explainer {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let waiting = Arc::new(Semaphore::new(WAITING_MAX));
        Explainer { board, places, waiting }
    }

    /// Where Apps would be placed.
    pub async fn plan(
        &self,
        request: PlanRequest,
        may_read: MayRead,
    ) -> Result<PlanAnswer, Unexplained> {
        let search = request.search.clone();
        self.explain(search, move |seen, limits| {
            explaining::plan(seen, request, &*may_read, limits)
        })
        .await
    }

    /// What keeps components of an App off a node now.
    pub async fn why(&self, request: WhyRequest) -> Result<WhyAnswer, Unexplained> {
        self.explain(Search::default(), move |seen, _| explaining::why(&seen, &request)).await
    }

    /// What would follow from a supposition.
    pub async fn what_if(
        &self,
        request: WhatIfRequest,
        may_read: MayRead,
    ) -> Result<WhatIfAnswer, Unexplained> {
        let search = request.search.clone();
        self.explain(search, move |seen, limits| {
            explaining::what_if(seen, request, &*may_read, limits)
        })
        .await
    }

    /// Waits until the copy of the world has this version of an App or a later one: a client that has just
    /// written the App asks about what it wrote.
    pub async fn until_seen(&self, app: &App) -> Result<(), Unexplained> {
        let Some(asked) = version(app) else { return Ok(()) };
        let (namespace, name) = (app.namespace(), app.name_any());
        let is_it = |known: &&Shared<App>| {
            known.metadata.name.as_deref() == Some(&*name) && known.namespace() == namespace
        };
        self.until(|world| {
            let apps = world.apps.all();
            let known = apps.iter().find(is_it);
            known.is_some_and(|known| version(known).is_none_or(|known| known >= asked))
        })
        .await
    }

    /// Waits until every kind that places are chosen from has been listed.
    async fn until_listed(&self) -> Result<(), Unexplained> {
        let listed = |world: &World| {
            world.observed_sources().iter().all(|source| source.seeing() != Seeing::NotYet)
        };
        self.until(listed).await
    }

    async fn until(&self, holds: impl Fn(&World) -> bool) -> Result<(), Unexplained> {
        let clock = self.board.clock();
        let end = clock.now() + SEEING_TIME_MAX;
        while !self.board.world().is_some_and(|world| holds(&world)) {
            if clock.now() >= end {
                return Err(Unexplained::NotYet);
            }
            clock.sleep_until(clock.now() + LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Runs off the reactor, few at once. The world is looked at when the turn has come.
    async fn explain<T: Send + 'static>(
        &self,
        search: Search,
        explain: impl FnOnce(Seen, &Limits<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Unexplained> {
        let time_limit = search.time_limit_ms.map(Duration::from_millis);
        if time_limit.is_some_and(|limit| limit > SEARCH_TIME_MAX) {
            return Err(Unexplained::TooLong);
        }
        let waiting = self.waiting.clone().try_acquire_owned();
        let waiting = waiting.map_err(|_| Unexplained::TooMany)?;
        let place = self.places.clone().acquire_owned().await.map_err(|_| Unexplained::Failed)?;
        drop(waiting);
        self.until_listed().await?;
        let world = self.board.world().ok_or(Unexplained::NotYet)?;
        let clock = self.board.clock();
        let asked = Asked(Arc::new(()));
        let turns = self.waiting.clone();
        let still = Arc::downgrade(&asked.0);
        let work = tokio::task::spawn_blocking(move || {
            let _place = place;
            let started = clock.now();
            let seen = Seen { observed: world.observed(), memory: world.memory(), now: started };
            let within = time_limit.unwrap_or(SEARCH_TIME_DEFAULT);
            let stop = || {
                let spent = clock.now().since(started);
                still.strong_count() == 0
                    || spent >= within
                    || (spent >= TURN && turns.available_permits() < WAITING_MAX)
            };
            let work = if time_limit.is_some() { u64::MAX } else { WORK_DEFAULT };
            let limits = Limits { work, stop: &stop, seed: search.seed, ..Limits::default() };
            explain(seen, &limits)
        });
        let explained = joined(work).await;
        drop(asked);
        explained?.map_err(Unexplained::Trouble)
    }
}

impl fmt::Display for Unexplained {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unexplained::NotYet => {
                out.write_str("the server has not seen everything yet; try again in a moment")
            }
            Unexplained::TooMany => {
                out.write_str("too many explanations are asked for at once; try again in a moment")
            }
            Unexplained::TooLong => {
                write!(out, "a search of the server takes at most {} s", SEARCH_TIME_MAX.as_secs())
            }
            Unexplained::Trouble(trouble) => write!(out, "{trouble}"),
            Unexplained::Failed => out.write_str("the server failed; see its log"),
        }
    }
}

/// A panic while explaining is told to nobody but the log: the next question may be answered.
async fn joined<T>(
    work: impl Future<Output = Result<T, tokio::task::JoinError>>,
) -> Result<T, Unexplained> {
    work.await.map_err(|error| {
        tracing::error!(%error, "an explanation failed");
        Unexplained::Failed
    })
}

fn version(app: &App) -> Option<u64> {
    app.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::Clock;

    /// Far beyond what any test waits for.
    const LOOKS_MAX: usize = 60_000;

    fn explainer() -> Explainer {
        let board = Board::new(Clock::start());
        let world = World::new(Arc::new(crate::NoSamples));
        world.apps.seen();
        world.assignments.seen();
        world.sites.seen();
        world.nodes.seen();
        world.links.seen();
        world.policies.seen();
        board.show(&world);
        Explainer::new(board)
    }

    /// A question whose answer would take for ever: it searches until it is told to stop, and gives how long
    /// that was.
    async fn endless(explainer: &Explainer, begun: mpsc::UnboundedSender<()>) -> Duration {
        let clock = explainer.board.clock();
        let search = Search { time_limit_ms: Some(60_000), ..Search::default() };
        let answer = explainer.explain(search, move |seen, limits| {
            begun.send(()).unwrap();
            for _ in 0..LOOKS_MAX {
                if (limits.stop)() {
                    return Ok(clock.now().since(seen.now));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            panic!("nobody told it to stop");
        });
        answer.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn two_clients_in_a_loop_keep_a_third_waiting_for_one_turn() {
        let explainer = explainer();
        let (begun, mut beginnings) = mpsc::unbounded_channel();
        let rounds = Arc::new(AtomicUsize::new(0));
        let clients = [0, 1].map(|_| {
            let (explainer, begun, rounds) = (explainer.clone(), begun.clone(), rounds.clone());
            tokio::spawn(async move {
                loop {
                    endless(&explainer, begun.clone()).await;
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        beginnings.recv().await.unwrap();
        beginnings.recv().await.unwrap();
        tokio::time::advance(TURN * 2).await;
        assert_eq!(rounds.load(Ordering::SeqCst), 0, "nobody waits, so nobody gives up a place");

        let third = {
            let explainer = explainer.clone();
            tokio::spawn(async move { explainer.explain(Search::default(), |_, _| Ok(())).await })
        };
        assert_eq!(third.await.unwrap(), Ok(()));
        // Its place was given up, and not left behind by a search that broke down.
        while rounds.load(Ordering::SeqCst) == 0 {
            assert!(!clients.iter().any(|client| client.is_finished()));
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_has_its_turn_before_it_gives_way() {
        let explainer = explainer();
        let (begun, mut beginnings) = mpsc::unbounded_channel();
        let ask = || {
            let (explainer, begun) = (explainer.clone(), begun.clone());
            tokio::spawn(async move { endless(&explainer, begun).await })
        };
        let first = [ask(), ask()];
        beginnings.recv().await.unwrap();
        beginnings.recv().await.unwrap();
        let third = ask();
        while explainer.waiting.available_permits() == WAITING_MAX {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(TURN - Duration::from_millis(1)).await;
        assert!(beginnings.try_recv().is_err() && !first.iter().any(|one| one.is_finished()));
        tokio::time::advance(Duration::from_millis(1)).await;
        beginnings.recv().await.unwrap();
        let [one, other] = first;
        let ended = tokio::select! { spent = one => spent, spent = other => spent };
        assert_eq!(ended.unwrap(), TURN);
        third.abort();
    }
}
