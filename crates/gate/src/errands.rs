//! Errands for agents: somebody asks for a log, a command or a port of an instance; its agent, which
//! dials out only, fetches it. Here is what a running server holds about them, all of it in memory:
//! which agents wait for errands, who waits for an answer, and how many are under way.
//!
//! Called for the subresources of an Assignment, and for the agents at `/tombolo/errands`. Start at [`carry::open`], which sends an errand; `docs/adr/0004-errands.md` has the
//! whole way.

pub(crate) mod carry;
pub(crate) mod listen;
mod splice;
pub(crate) mod subresource;
mod websocket;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tombolo_identity::Remit;
use tombolo_model::errand::Errand;

/// Errands that an agent has not taken yet.
const AHEAD: usize = 16;
/// How many errands may be under way.
#[derive(Clone, Copy, Debug)]
struct Limits {
    of_an_agent: usize,
    of_a_client: usize,
    of_all: usize,
    /// What was recorded a moment ago; what is forgotten is recorded again.
    records: usize,
}

const LIMITS: Limits = Limits {
    // More would be a load on a small machine: each is a connection and perhaps a process.
    of_an_agent: 128,
    // Enough for the log of every component of a large App at once.
    of_a_client: 128,
    // Each holds two connections and a few frames.
    of_all: 1024,
    records: 1024,
};
/// A browser opens many connections to one port; one record of them does for so long.
const RECORD_LASTS: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
pub(crate) struct Errands {
    limits: Limits,
    book: Mutex<Book>,
    /// Counts the agents that came.
    came: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Book {
    listeners: BTreeMap<Remit, Listener>,
    waiting: BTreeMap<String, Waiting>,
    under_way: BTreeMap<Whose, usize>,
    recorded: BTreeMap<String, Instant>,
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    All,
    Agent(Remit),
    Client(String),
}

#[derive(Debug)]
struct Listener {
    number: u64,
    errands: mpsc::Sender<Errand>,
}

#[derive(Debug)]
struct Waiting {
    agent: Remit,
    answer: oneshot::Sender<Answer>,
}

/// What an agent answers with: frames both ways.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) from_agent: Body,
    pub(crate) to_agent: mpsc::Sender<Bytes>,
}

/// There are as many as there may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    #[error("the server carries {0} logs, commands and connections already")]
    All(usize),
    #[error("the agent of {0} carries {1} logs, commands and connections already")]
    Agent(Remit, usize),
    #[error("you have {0} logs, commands and connections open already")]
    Client(usize),
}

/// An agent that waits for errands, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    errands: Arc<Errands>,
    agent: Remit,
    number: u64,
}

/// Somebody who waits for an answer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Expected {
    errands: Arc<Errands>,
    id: String,
    pub(crate) answer: oneshot::Receiver<Answer>,
}

/// An errand that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    errands: Arc<Errands>,
    whose: [Whose; 3],
}

impl Default for Errands {
    fn default() -> Errands {
        Errands::within(LIMITS)
    }
}

impl Errands {
    fn within(limits: Limits) -> Errands {
        Errands { limits, book: Mutex::default(), came: watch::Sender::new(0) }
    }

    /// This agent waits here from now on. One that waited before for the same is sent
    /// away: it is the same agent, whose old connection nobody has missed yet.
    pub(crate) fn listen(self: &Arc<Self>, agent: &Remit) -> (Seat, mpsc::Receiver<Errand>) {
        let (errands, receiver) = mpsc::channel(AHEAD);
        let mut book = self.book();
        book.number += 1;
        let number = book.number;
        book.listeners.insert(agent.clone(), Listener { number, errands });
        drop(book);
        self.came.send_modify(|count| *count += 1);
        (Seat { errands: self.clone(), agent: agent.clone(), number }, receiver)
    }

    /// The way to this agent, if it waits or comes within `patience`: one whose connection
    /// broke, or whose server was restarted, is back in a moment.
    pub(crate) async fn listener(
        &self,
        agent: &Remit,
        patience: Duration,
    ) -> Option<mpsc::Sender<Errand>> {
        let mut came = self.came.subscribe();
        let found = async {
            loop {
                came.borrow_and_update();
                let sender = self.book().listeners.get(agent).map(|found| found.errands.clone());
                if sender.is_some() || came.changed().await.is_err() {
                    return sender;
                }
            }
        };
        tokio::time::timeout(patience, found).await.ok().flatten()
    }

    pub(crate) fn expect(self: &Arc<Self>, id: &str, agent: &Remit) -> Expected {
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting { agent: agent.clone(), answer: sender };
        self.book().waiting.insert(id.to_owned(), waiting);
        Expected { errands: self.clone(), id: id.to_owned(), answer }
    }

    /// Hands over the answer to the request that waits for it. Only the agent that was asked can answer,
    /// and once; whether an errand of somebody else exists it is not told.
    pub(crate) fn answer(&self, id: &str, agent: &Remit, answer: Answer) -> Result<(), Answer> {
        let mut book = self.book();
        if book.waiting.get(id).is_none_or(|waiting| waiting.agent != *agent) {
            return Err(answer);
        }
        match book.waiting.remove(id) {
            Some(waiting) => waiting.answer.send(answer),
            None => Err(answer),
        }
    }

    pub(crate) fn enter(self: &Arc<Self>, agent: &Remit, client: &str) -> Result<Place, Full> {
        let whose = [Whose::All, Whose::Agent(agent.clone()), Whose::Client(client.to_owned())];
        let limits = self.limits;
        let mut book = self.book();
        let count = |whose: &Whose| book.under_way.get(whose).copied().unwrap_or(0);
        for one in &whose {
            match one {
                Whose::All if count(one) >= limits.of_all => return Err(Full::All(limits.of_all)),
                Whose::Agent(agent) if count(one) >= limits.of_an_agent => {
                    return Err(Full::Agent(agent.clone(), limits.of_an_agent));
                }
                Whose::Client(_) if count(one) >= limits.of_a_client => {
                    return Err(Full::Client(limits.of_a_client));
                }
                Whose::All | Whose::Agent(_) | Whose::Client(_) => (),
            }
        }
        for one in &whose {
            *book.under_way.entry(one.clone()).or_default() += 1;
        }
        drop(book);
        Ok(Place { errands: self.clone(), whose })
    }

    /// Whether this is to be recorded: it was not a moment ago.
    pub(crate) fn is_news(&self, said: &str) -> bool {
        let now = Instant::now();
        let recorded = &mut self.book().recorded;
        recorded.retain(|_, at| now.duration_since(*at) < RECORD_LASTS);
        if recorded.contains_key(said) {
            return false;
        }
        if recorded.len() < self.limits.records {
            recorded.insert(said.to_owned(), now);
        }
        true
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic while the lock was held cannot leave an entry half changed.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut book = self.errands.book();
        // A younger connection of the same agent keeps its place.
        if book.listeners.get(&self.agent).is_some_and(|found| found.number == self.number) {
            book.listeners.remove(&self.agent);
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.errands.book().waiting.remove(&self.id);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut book = self.errands.book();
        for one in &self.whose {
            if let Some(count) = book.under_way.get_mut(one) {
                *count -= 1;
            }
        }
        book.under_way.retain(|_, count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(node: &str) -> Remit {
        Remit::Node { site: "north".to_owned(), node: node.to_owned() }
    }

    fn answer() -> Answer {
        Answer { from_agent: Body::empty(), to_agent: mpsc::channel(1).0 }
    }

    #[test]
    fn only_the_agent_that_was_asked_may_answer_and_only_once() {
        let errands = Arc::new(Errands::default());
        let mut expected = errands.expect("e1", &of("crane"));
        assert!(errands.answer("e1", &of("thief"), answer()).is_err());
        assert!(errands.answer("e2", &of("crane"), answer()).is_err());
        assert!(expected.answer.try_recv().is_err(), "nothing has come yet");
        assert!(errands.answer("e1", &of("crane"), answer()).is_ok());
        assert!(errands.answer("e1", &of("crane"), answer()).is_err());
        assert!(expected.answer.try_recv().is_ok());
    }

    #[test]
    fn nobody_answers_who_does_not_wait_any_more() {
        let errands = Arc::new(Errands::default());
        drop(errands.expect("e1", &of("crane")));
        assert!(errands.answer("e1", &of("crane"), answer()).is_err());
        assert!(errands.book().waiting.is_empty());
    }

    #[tokio::test]
    async fn the_younger_connection_of_an_agent_counts_and_outlives_the_older() {
        let errands = Arc::new(Errands::default());
        let (old, mut old_receiver) = errands.listen(&of("crane"));
        let (_new, mut new_receiver) = errands.listen(&of("crane"));
        drop(old);
        assert!(old_receiver.recv().await.is_none(), "the old one is sent away");
        let sender = errands.listener(&of("crane"), Duration::ZERO).await.expect("it waits");
        let errand = Errand {
            id: "e1".to_owned(),
            assignment: "u1".to_owned(),
            what: tombolo_model::errand::What::Log(Default::default()),
        };
        sender.send(errand.clone()).await.expect("somebody listens");
        assert_eq!(new_receiver.recv().await, Some(errand));
        assert!(errands.listener(&of("other"), Duration::ZERO).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_comes_in_time_is_waited_for() {
        let errands = Arc::new(Errands::default());
        let crane = of("crane");
        let waits = errands.listener(&crane, Duration::from_secs(3));
        let comes = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            errands.listen(&crane)
        };
        let (found, _seat) = tokio::join!(waits, comes);
        assert!(found.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_is_news_again_after_a_while() {
        let errands = Errands::default();
        assert!(errands.is_news("anna to port 80"));
        assert!(!errands.is_news("anna to port 80"));
        assert!(errands.is_news("anna to port 81"));
        tokio::time::advance(RECORD_LASTS).await;
        assert!(errands.is_news("anna to port 80"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_remembered_is_news_each_time() {
        let errands = Errands::within(Limits { records: 1, ..LIMITS });
        assert!(errands.is_news("anna to port 80"));
        assert!(errands.is_news("anna to port 81") && errands.is_news("anna to port 81"));
        assert!(!errands.is_news("anna to port 80"));
    }

    /// Each pair is a node and a client; in the end who is refused, and again when one has gone.
    #[track_caller]
    fn check_full(limits: Limits, under_way: &[(&str, &str)], next: (&str, &str), full: &Full) {
        let errands = Arc::new(Errands::within(limits));
        let enter = |(node, client): (&str, &str)| errands.enter(&of(node), client);
        let mut places: Vec<Place> = under_way.iter().map(|one| enter(*one).unwrap()).collect();
        assert_eq!(enter(next).unwrap_err(), *full);
        // Nothing is left of what was refused.
        assert_eq!(enter(next).unwrap_err(), *full);
        places.pop();
        assert!(enter(next).is_ok());
        drop(places);
        assert!(errands.book().under_way.is_empty());
    }

    #[test]
    fn there_is_room_for_so_many_and_again_when_some_have_gone() {
        let limits = Limits { of_an_agent: 2, of_a_client: 3, of_all: 4, records: 1 };
        let two = [("n1", "anna"), ("n1", "berta")];
        check_full(limits, &two, ("n1", "carla"), &Full::Agent(of("n1"), 2));
        let three = [("n1", "anna"), ("n2", "anna"), ("n3", "anna")];
        check_full(limits, &three, ("n4", "anna"), &Full::Client(3));
        let four = [("n1", "anna"), ("n2", "anna"), ("n3", "berta"), ("n4", "berta")];
        check_full(limits, &four, ("n5", "carla"), &Full::All(4));
    }
}
