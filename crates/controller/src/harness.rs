//! Runs the loops: wakes each when something that it reads has changed or its time has come, never
//! too often; writes down how it fares; starts it again when it panics or hangs, and tells people.
//! A loop is a [`Loop`]; [`crate::run`] hands all of them to [`Harness::start`].

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use tombolo_model::Reason;
use tombolo_model::event::{News, Tone};
use tombolo_model::keys::SYSTEM_NAMESPACE;
use tombolo_plan::Monotonic;
use tombolo_plan::supervision::{LOOK_TIME_MAX, Next, Pace, Phase, Report, Said, next_look};

use crate::board::Board;
use crate::clock::Clock;
use crate::event::Teller;
use crate::mirror::{Seeing, Source};
use crate::report::failure;
use crate::world::World;

/// An Event about a dead loop must not keep the loop dead.
pub(crate) const TELL_TIME_MAX: Duration = Duration::from_secs(5);

/// What looks, decides and acts, again and again. A loop that dies is made anew by [`Loop::start`]: what
/// it remembered is gone, as after a restart of the process.
pub(crate) trait Loop: Sized + Send {
    const NAME: &'static str;
    const PACE: Pace;

    /// What it looks at. A change there wakes it, and it does not look before all of it has been
    /// listed once: half a world would look like an empty one.
    fn reads(world: &World) -> Vec<&dyn Source>;

    fn start(context: Context) -> Self;

    /// Looks, decides, acts; once. Takes no hint of what changed, and does not retry. An error means
    /// that it could not look.
    fn look(&mut self, now: Monotonic) -> impl Future<Output = Result<Report, kube::Error>> + Send;
}

/// What every loop is given.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) world: World,
    pub(crate) clock: Clock,
    pub(crate) teller: Teller,
}

/// Called with the name of a loop before each of its looks. Tests panic in it.
pub type BeforeLook = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Ready when everything is to stop.
pub(crate) type Stop = futures::future::Shared<BoxFuture<'static, ()>>;

/// What all loops of a process share.
#[derive(Clone)]
pub(crate) struct Harness {
    pub(crate) board: Board,
    pub(crate) world: World,
    pub(crate) before_look: BeforeLook,
    pub(crate) stop: Stop,
}

impl fmt::Debug for Harness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Harness").field("board", &self.board).finish_non_exhaustive()
    }
}

/// Why a loop has to be made anew.
struct Hung;

impl Harness {
    /// Gives a loop a task of its own, and a client under its own name.
    pub(crate) fn start<L: Loop + 'static>(
        &self,
        tasks: &mut JoinSet<()>,
        client: &impl Fn(&'static str) -> Client,
    ) {
        tasks.spawn(self.clone().supervise::<L>(client(L::NAME)));
    }

    /// Runs a loop until everything stops, however often the loop dies in between.
    async fn supervise<L: Loop>(self, client: Client) {
        let woken = Arc::new(Notify::new());
        for source in L::reads(&self.world) {
            source.wake(&woken);
        }
        let life = || self.live::<L>(client.clone(), &woken);
        revive(&self.board, &client, L::NAME, life, &self.stop).await;
    }

    /// One life of a loop: ends well only when everything stops.
    async fn live<L: Loop>(&self, client: Client, woken: &Notify) -> Result<(), Hung> {
        let clock = self.board.clock();
        let since = clock.now();
        self.board.change(L::NAME, |record| record.phase = Phase::Listing { since });
        let sources = L::reads(&self.world);
        while sources.iter().any(|source| source.seeing() == Seeing::NotYet) {
            tokio::select! {
                () = self.stop.clone() => return Ok(()),
                () = woken.notified() => (),
            }
        }
        let (world, teller) = (self.world.clone(), self.board.teller().clone());
        let mut own = L::start(Context { client, world, clock, teller });
        let mut next = Next { earliest: clock.now(), wake_at: clock.now() };
        loop {
            tokio::select! {
                biased;
                () = self.stop.clone() => return Ok(()),
                () = clock.sleep_until(next.wake_at) => (),
                () = woken.notified() => {
                    next.wake_at = next.wake_at.min(next.earliest);
                    continue;
                }
            }
            next = self.look(&mut own).await?;
        }
    }

    async fn look<L: Loop>(&self, own: &mut L) -> Result<Next, Hung> {
        let clock = self.board.clock();
        let began = clock.now();
        self.board.change(L::NAME, |record| record.phase = Phase::Looking { since: began });
        (self.before_look)(L::NAME);
        let looked = tokio::time::timeout(LOOK_TIME_MAX, own.look(began)).await;
        let report = looked.map_err(|_late| Hung)?.unwrap_or_else(|error| {
            let failed = vec![failure("look", &error)];
            Report { failed, ..Report::default() }
        });
        let now = clock.now();
        let next = next_look(&report, &L::PACE, began, now);
        let said = self.board.change(L::NAME, |record| {
            record.note_look(&report, now.since(began), now, next);
            record.note_failures(&report.failed)
        });
        said.iter().for_each(|said| log(L::NAME, said));
        Ok(next)
    }
}

/// How the API says that what a loop has seen is old by now.
const LOST_RACE: &str = "the object has been modified";

fn log(name: &'static str, said: &Said) {
    match said {
        // Somebody else was quicker, as happens every day. Should it go on, that is told.
        Said::Failed { what } if what.contains(LOST_RACE) => {
            tracing::info!(
                name,
                failed = what,
                "somebody was quicker; the next look decides again"
            );
        }
        Said::Failed { what } => {
            tracing::warn!(name, failed = what, "failed; the next look decides again");
        }
        Said::Still { what, looks } => tracing::warn!(name, failed = what, looks, "fails still"),
        Said::Over { what, looks } => {
            tracing::info!(name, failed = what, looks, "does not fail any more");
        }
    }
}

/// Keeps something going that follows the API by itself, without looks: started again whenever it
/// panics. Comes back when it ends by itself.
pub async fn keep<F: Future<Output = ()>>(
    board: &Board,
    client: &Client,
    name: &'static str,
    make: impl Fn() -> F,
) {
    let life = || async {
        board.change(name, |record| record.phase = Phase::Serving);
        make().await;
        Ok(())
    };
    let never: Stop = std::future::pending().boxed().shared();
    revive(board, client, name, life, &never).await;
}

/// Lets something live again and again until it ends by itself. A look that is under way when
/// everything stops comes to its end first.
async fn revive<F>(
    board: &Board,
    client: &Client,
    name: &'static str,
    life: impl Fn() -> F,
    stop: &Stop,
) where
    F: Future<Output = Result<(), Hung>>,
{
    loop {
        // What a panic leaves half done is dropped with the loop; mirrors and board, which stay, are
        // changed in single steps.
        let lived = AssertUnwindSafe(async { life().await }).catch_unwind().await;
        let why = match lived {
            Ok(Ok(())) => return,
            Ok(Err(Hung)) => format!("a look took more than {} s", LOOK_TIME_MAX.as_secs()),
            Err(panic) => format!("it panicked: {}", said(panic.as_ref())),
        };
        let clock = board.clock();
        let now = clock.now();
        let until = board.note_death(name, why.clone(), now);
        let rest = until.since(now);
        tracing::error!(name, why, ?rest, "a loop has died; it starts again");
        tell(board, client, (Tone::Warning, Reason::LoopDied), name, why).await;
        tokio::select! {
            () = stop.clone() => return,
            () = clock.sleep_until(until) => (),
        }
    }
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// An Event about the system's namespace: a loop is no object of its own.
pub(crate) async fn tell(
    board: &Board,
    client: &Client,
    (tone, reason): (Tone, Reason),
    name: &str,
    why: String,
) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        name: Some(SYSTEM_NAMESPACE.to_owned()),
        ..ObjectReference::default()
    };
    let message = reason.says(&[("loop", name.to_owned()), ("why", why)]);
    let news = News { component: "tombolo-harness", about, tone, reason, message: &message };
    let written = board.teller().tell(client, &news);
    if !matches!(tokio::time::timeout(TELL_TIME_MAX, written).await, Ok(Ok(()))) {
        tracing::warn!(name, %reason, "no Event about a loop could be written");
    }
}
