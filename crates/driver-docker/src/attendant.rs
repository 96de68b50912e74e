//! The task that attends to one instance: it alone starts, stops and removes it, one order after the
//! other, and waits for the ends that it has asked for. It is called in by the [`crate::board`] with its
//! first order and leaves when nothing is left to do. Start at [`attend`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tombolo_driver::{Error, InstanceId, Origin, Result, Spec, State};

use crate::look::{Doing, Seen};
use crate::stop::Ends;
use crate::{Inner, list, network, start, stop};

/// How long a start may take before the caller is told that it is on its way.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where an image must be pulled: most that fail do so within this.
const PULL_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) type Answer = oneshot::Sender<Result<()>>;

#[derive(Debug)]
pub(crate) enum Order {
    Start {
        spec: Box<Spec>,
        answer: Answer,
    },
    Stop {
        grace: Duration,
        answer: Answer,
    },
    Remove {
        answer: Answer,
    },
    /// What a look has found of the instance.
    Look {
        seen: Vec<Arc<Seen>>,
    },
}

struct Attendant {
    inner: Arc<Inner>,
    id: InstanceId,
    /// One at most.
    start: JoinSet<Result<()>>,
    starting: Option<Starting>,
    ends: Ends,
}

/// A start that is under way.
struct Starting {
    origin: Origin,
    /// Nothing once the caller was told that it is on its way.
    answer: Option<Answer>,
    patience: Instant,
}

/// What has happened to an attendant that waited.
enum Event {
    Ordered(Order),
    Started(std::result::Result<Result<()>, JoinError>),
    OutOfPatience,
    Ended,
    Dismissed,
}

/// Carries out the orders until there are none, and nothing is under way.
pub(crate) async fn attend(inner: Arc<Inner>, id: InstanceId, mut orders: mpsc::Receiver<Order>) {
    let start = JoinSet::new();
    let mut attendant = Attendant { inner, id, start, starting: None, ends: Ends::default() };
    loop {
        match attendant.wait(&mut orders).await {
            Event::Ordered(order) => attendant.carry_out(order).await,
            Event::Started(joined) => attendant.started(joined),
            Event::OutOfPatience => attendant.answer(Ok(())),
            Event::Ended => (),
            Event::Dismissed => return,
        }
        let idle = attendant.starting.is_none() && attendant.ends.is_empty();
        if idle && attendant.inner.board.leave(&attendant.id, &mut orders) {
            break;
        }
    }
    // Whoever had the way to this attendant a moment ago may have used it since.
    while let Some(order) = orders.recv().await {
        attendant.inner.board.order(&attendant.inner, &attendant.id, order).await;
    }
}

impl Attendant {
    async fn wait(&mut self, orders: &mut mpsc::Receiver<Order>) -> Event {
        let starting = self.starting.as_ref().filter(|starting| starting.answer.is_some());
        let patience = starting.map(|starting| starting.patience);
        let out_of_patience = async {
            match patience {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = orders.recv() => order.map_or(Event::Dismissed, Event::Ordered),
            Some(joined) = self.start.join_next() => Event::Started(joined),
            () = out_of_patience => Event::OutOfPatience,
            () = self.ends.next() => Event::Ended,
        }
    }

    async fn carry_out(&mut self, order: Order) {
        // If nobody waits for an answer any more, the next look tells what came of it.
        match order {
            // It is on its way already.
            Order::Start { answer, .. } if self.starting.is_some() => _ = answer.send(Ok(())),
            Order::Start { spec, answer } => self.start(*spec, answer).await,
            Order::Stop { grace, answer } => {
                self.give_up_starting().await;
                let ends = &mut self.ends;
                _ = answer.send(stop::stop(&self.inner, &self.id, grace, ends).await);
            }
            Order::Remove { answer } => {
                self.give_up_starting().await;
                _ = answer.send(self.remove().await);
            }
            Order::Look { seen } => self.ends.see_to(&self.inner, &seen),
        }
    }

    async fn start(&mut self, spec: Spec, answer: Answer) {
        let origin = spec.origin.clone();
        match self.begin(spec).await {
            Ok(Some(patience)) => {
                let patience = Instant::now() + patience;
                self.starting = Some(Starting { origin, answer: Some(answer), patience });
            }
            Ok(None) => _ = answer.send(Ok(())),
            Err(error) => _ = answer.send(Err(error)),
        }
    }

    /// Begins a start, and says for how long its caller waits; nothing if there is nothing to start.
    async fn begin(&mut self, spec: Spec) -> Result<Option<Duration>> {
        let inner = &self.inner;
        let docker = inner.connection.docker().await?;
        let seen = list::seen(inner, Some(&spec.id)).await?;
        self.ends.adopt(inner, &seen);
        let Some(start) = start::decide(&spec, inner, &seen)? else {
            inner.board.forget(&spec.id);
            return Ok(None);
        };
        inner.note_use()?;
        inner.keep_deadline(&spec.id, spec.deadline)?;
        let at_hand = start.has_images(&docker, inner).await?;
        let state = State::Starting { doing: "starting".to_owned() };
        inner.board.begin(&spec.id, Doing { origin: spec.origin.clone(), state });
        inner.wake();
        let inner = Arc::clone(inner);
        self.start.spawn(async move { start::start(&docker, &inner, &spec, start).await });
        Ok(Some(if at_hand { PATIENCE } else { PULL_PATIENCE }))
    }

    fn started(&mut self, joined: std::result::Result<Result<()>, JoinError>) {
        let result = joined.unwrap_or_else(|error| {
            Err(Error::Failed { doing: "finish".to_owned(), source: Arc::new(error) })
        });
        if let Some(starting) = &self.starting {
            let failed = |error: &Error| {
                let state = State::Failed(error.clone());
                Doing { origin: starting.origin.clone(), state }
            };
            self.inner.board.end(&self.id, result.as_ref().err().map(failed));
            self.inner.wake();
        }
        self.answer(result);
        self.starting = None;
    }

    /// Answers whoever waits for the start.
    fn answer(&mut self, result: Result<()>) {
        let answer = self.starting.as_mut().and_then(|starting| starting.answer.take());
        if let Some(answer) = answer {
            _ = answer.send(result);
        }
    }

    /// A start that is under way ends here: nobody waits for an image that nobody wants.
    async fn give_up_starting(&mut self) {
        if self.starting.is_none() {
            return;
        }
        self.start.shutdown().await;
        self.inner.board.end(&self.id, None);
        self.inner.wake();
        // Somebody wants it to end before it has begun.
        self.answer(Ok(()));
        self.starting = None;
    }

    async fn remove(&mut self) -> Result<()> {
        let inner = &self.inner;
        let docker = inner.connection.docker().await?;
        for seen in list::seen(inner, Some(&self.id)).await? {
            start::remove_container(&docker, inner, &seen.container).await?;
            self.ends.let_go(&seen.container);
        }
        inner.board.forget(&self.id);
        inner.keep_deadline(&self.id, None)?;
        network::sweep(&docker, inner).await?;
        inner.wake();
        Ok(())
    }
}
