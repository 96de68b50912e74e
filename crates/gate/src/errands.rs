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
/// More would be a load on a small machine: each is a connection and perhaps a process.
const OF_AN_AGENT_MAX: usize = 128;
/// Enough for the log of every component of a large App at once.
const OF_A_CLIENT_MAX: usize = 128;
/// Each holds two connections and a few frames.
const OF_ALL_MAX: usize = 1024;
/// A browser opens many connections to one port; one record of them does for so long.
const RECORD_LASTS: Duration = Duration::from_secs(5 * 60);
/// So many are remembered; what is forgotten is recorded again.
const RECORDS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Errands {
    held: Mutex<Held>,
    /// Counts the agents that came.
    came: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Held {
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
    #[error("the server carries {OF_ALL_MAX} logs, commands and connections already")]
    All,
    #[error("the agent of {0} carries {OF_AN_AGENT_MAX} logs, commands and connections already")]
    Agent(Remit),
    #[error("you have {OF_A_CLIENT_MAX} logs, commands and connections open already")]
    Client,
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

/// One of those that are under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    errands: Arc<Errands>,
    whose: [Whose; 3],
}

impl Default for Errands {
    fn default() -> Errands {
        Errands { held: Mutex::default(), came: watch::Sender::new(0) }
    }
}

impl Errands {
    /// This agent waits here from now on. One that waited before for the same is sent
    /// away: it is the same agent, whose old connection nobody has missed yet.
    pub(crate) fn listen(self: &Arc<Self>, agent: &Remit) -> (Seat, mpsc::Receiver<Errand>) {
        let (errands, receiver) = mpsc::channel(AHEAD);
        let mut held = self.held();
        held.number += 1;
        let number = held.number;
        held.listeners.insert(agent.clone(), Listener { number, errands });
        drop(held);
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
                let sender = self.held().listeners.get(agent).map(|found| found.errands.clone());
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
        self.held().waiting.insert(id.to_owned(), waiting);
        Expected { errands: self.clone(), id: id.to_owned(), answer }
    }

    /// Hands over the answer to whoever waits for it. Only the agent that was asked can answer, and
    /// once; whether an errand of somebody else exists it is not told.
    pub(crate) fn answer(&self, id: &str, agent: &Remit, answer: Answer) -> Result<(), Answer> {
        let mut held = self.held();
        if held.waiting.get(id).is_none_or(|waiting| waiting.agent != *agent) {
            return Err(answer);
        }
        match held.waiting.remove(id) {
            Some(waiting) => waiting.answer.send(answer),
            None => Err(answer),
        }
    }

    pub(crate) fn enter(self: &Arc<Self>, agent: &Remit, client: &str) -> Result<Place, Full> {
        let whose = [Whose::All, Whose::Agent(agent.clone()), Whose::Client(client.to_owned())];
        let mut held = self.held();
        let count = |whose: &Whose| held.under_way.get(whose).copied().unwrap_or(0);
        for one in &whose {
            match one {
                Whose::All if count(one) >= OF_ALL_MAX => return Err(Full::All),
                Whose::Agent(agent) if count(one) >= OF_AN_AGENT_MAX => {
                    return Err(Full::Agent(agent.clone()));
                }
                Whose::Client(_) if count(one) >= OF_A_CLIENT_MAX => return Err(Full::Client),
                Whose::All | Whose::Agent(_) | Whose::Client(_) => (),
            }
        }
        for one in &whose {
            *held.under_way.entry(one.clone()).or_default() += 1;
        }
        drop(held);
        Ok(Place { errands: self.clone(), whose })
    }

    /// Whether this is to be recorded: it was not a moment ago.
    pub(crate) fn is_news(&self, said: &str) -> bool {
        let now = Instant::now();
        let recorded = &mut self.held().recorded;
        recorded.retain(|_, at| now.duration_since(*at) < RECORD_LASTS);
        if recorded.contains_key(said) {
            return false;
        }
        if recorded.len() < RECORDS_MAX {
            recorded.insert(said.to_owned(), now);
        }
        true
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic while the lock was held cannot leave an entry half changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut held = self.errands.held();
        // A younger connection of the same agent keeps its place.
        if held.listeners.get(&self.agent).is_some_and(|found| found.number == self.number) {
            held.listeners.remove(&self.agent);
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.errands.held().waiting.remove(&self.id);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.errands.held();
        for one in &self.whose {
            if let Some(count) = held.under_way.get_mut(one) {
                *count -= 1;
            }
        }
        held.under_way.retain(|_, count| *count > 0);
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
        assert!(errands.held().waiting.is_empty());
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
        let waits = errands.listener(&of("crane"), Duration::from_secs(3));
        let comes = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            errands.listen(&of("crane"))
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

    #[test]
    fn there_is_room_for_so_many_of_one_client_and_again_when_some_have_gone() {
        let errands = Arc::new(Errands::default());
        let node = |number: usize| format!("n{}", number / 2);
        let mut places: Vec<Place> = (0..OF_A_CLIENT_MAX)
            .map(|one| errands.enter(&of(&node(one)), "anna").unwrap())
            .collect();
        assert_eq!(errands.enter(&of("n0"), "anna").unwrap_err(), Full::Client);
        assert!(errands.enter(&of("n0"), "berta").is_ok());
        places.pop();
        assert!(errands.enter(&of("n0"), "anna").is_ok());
        drop(places);
        assert!(errands.held().under_way.is_empty());
    }
}
