//! Who is served when, and what is held for whom. See ADR 8 for the design.
//!
//! The decisions are in [`fair`], [`ledger`], [`roster`] and [`flow`], as plain data. This file keeps
//! them behind locks and hands out guards that give back what they stand for: a [`Seat`] (with [`hall`] and
//! [`place`]), a [`Charge`], a [`Connection`]. [`layer`] is the way of a request through them; [`crate::serve`] brings connections.

mod fair;
pub(crate) mod flow;
mod hall;
mod layer;
mod ledger;
mod limits;
mod metered;
mod place;
mod refusals;
mod roster;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::flow::{Flow, Level, Work};
use self::hall::{Hall, Seat};
pub(crate) use self::ledger::Good;
use self::ledger::{Account, ConnectionId, Ledger};
pub use self::limits::{Bound, Limits, SETTINGS, Setting, Share};
pub(crate) use self::metered::{Prepaid, Progress};
pub(crate) use self::place::{Place, Turn, Wanted};
use self::refusals::Refusals;
use self::roster::Roster;
use crate::status::Failure;

/// After which time a client that was refused may try again.
const RETRY_AFTER_SECONDS: u32 = 1;
/// So many requests at once a browser brings on one connection, or a proxy.
const ASKING_FEW: usize = 16;
/// Collections whose last answer was smaller are as wide as any other request.
const SIZE_REMEMBERED_MIN: usize = 1024 * 1024;

#[derive(Debug)]
pub struct Traffic {
    limits: Limits,
    halls: BTreeMap<(Level, Work), Arc<Hall>>,
    heavy: Arc<Hall>,
    ledger: Mutex<Ledger>,
    connections: Mutex<Connections>,
    /// How large the last answers of large collections were.
    sizes: Mutex<BTreeMap<String, usize>>,
    refusals: Mutex<Refusals>,
}

#[derive(Debug)]
struct Connections {
    roster: Roster,
    /// Dropping one tells its connection to end.
    evictions: BTreeMap<ConnectionId, oneshot::Sender<()>>,
}

impl Traffic {
    pub fn new(limits: Limits) -> Arc<Traffic> {
        let hall = |share| Arc::new(Hall::new(share));
        let levels = [
            (Level::Heartbeats, limits.heartbeats),
            (Level::Administration, limits.administration),
            (Level::Agents, limits.agents),
            (Level::Users, limits.users),
            (Level::Anonymous, limits.anonymous),
        ];
        let halls = levels.into_iter().flat_map(|(level, share)| {
            let reading = Share { seats: limits.reads.min(share.seats), ..share };
            let searching = Share { seats: limits.searches, ..share };
            [
                ((level, Work::Reading), hall(reading)),
                ((level, Work::Searching), Arc::new(Hall::one_for_each(searching))),
                ((level, Work::Other), hall(share)),
            ]
        });
        Arc::new(Traffic {
            limits,
            halls: halls.collect(),
            heavy: hall(limits.heavy),
            ledger: Mutex::new(Ledger::new(&limits)),
            connections: Mutex::new(Connections {
                roster: Roster::new(limits),
                evictions: BTreeMap::new(),
            }),
            sizes: Mutex::default(),
            refusals: Mutex::default(),
        })
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes in a connection. The receiver ends when it has to make room for another one.
    pub(crate) fn connect(
        self: &Arc<Traffic>,
        address: IpAddr,
    ) -> (Connection, oneshot::Receiver<()>) {
        let (eviction, evicted) = oneshot::channel();
        let mut connections = lock(&self.connections);
        let arrived = connections.roster.arrive(address);
        if let Some(id) = arrived.evicted {
            connections.evictions.remove(&id);
        }
        connections.evictions.insert(arrived.id, eviction);
        let inner = Connected {
            traffic: self.clone(),
            id: arrived.id,
            address,
            vouched: AtomicBool::new(false),
            asking: AtomicUsize::new(0),
        };
        (Connection(Arc::new(inner)), evicted)
    }

    /// A seat in the hall of a level; nothing for what needs none.
    async fn enter(&self, wanted: &Wanted) -> Result<Option<Seat>, Failure> {
        let Wanted { level, work, flow, width } = wanted;
        let Some(hall) = self.halls.get(&(*level, *work)) else { return Ok(None) };
        let seat = hall.enter(flow, *width, self.limits.wait).await;
        seat.map(Some).ok_or_else(|| too_many("requests"))
    }

    /// The right to do one step of something heavy. The steps of different flows take turns.
    pub(crate) async fn turn(&self, flow: &Flow) -> Result<Turn, Failure> {
        let seat = self.heavy.enter(flow, 1, self.limits.wait).await;
        seat.map(|seat| Turn { _seat: seat }).ok_or_else(|| too_many("large lists and watches"))
    }

    /// When a refusal of this flow is told.
    fn refusal_at(&self, flow: &Flow) -> Instant {
        lock(&self.refusals).next(flow, Instant::now())
    }

    fn expected_bytes(&self, collection: &str) -> usize {
        lock(&self.sizes).get(collection).copied().unwrap_or(0)
    }

    /// Remembers how large an answer was, for the width of the next request for the same.
    pub(crate) fn remember(&self, collection: String, bytes: usize) {
        let mut sizes = lock(&self.sizes);
        if bytes < SIZE_REMEMBERED_MIN {
            sizes.remove(&collection);
        } else {
            sizes.insert(collection, bytes);
        }
    }
}

/// Who pays for what is held for a request; among the extensions of every request from a socket.
#[derive(Clone, Debug)]
pub(crate) struct Payer {
    traffic: Arc<Traffic>,
    account: Account,
}

impl Payer {
    pub(crate) fn take(&self, good: Good, amount: usize) -> Result<Charge, Failure> {
        let taken = lock(&self.traffic.ledger).take(&self.account, good, amount);
        taken.map_err(|_| too_many(of(good)))?;
        Ok(Charge { payer: self.clone(), good, amount })
    }
}

/// Something that is held for a client and given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    payer: Payer,
    good: Good,
    amount: usize,
}

impl Charge {
    fn grow(&mut self, amount: usize) -> Result<(), Failure> {
        let Payer { traffic, account } = &self.payer;
        let taken = lock(&traffic.ledger).take(account, self.good, amount);
        taken.map_err(|_| too_many(of(self.good)))?;
        self.amount += amount;
        Ok(())
    }

    /// A part of it, or what is left, to be given back on its own.
    fn split(&mut self, amount: usize) -> Charge {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Charge { payer: self.payer.clone(), good: self.good, amount }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.amount > 0 {
            let Payer { traffic, account } = &self.payer;
            lock(&traffic.ledger).give_back(account, self.good, self.amount);
        }
    }
}

/// A connection; it is off the roster when the last clone is gone.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Connected>);

#[derive(Debug)]
struct Connected {
    traffic: Arc<Traffic>,
    id: ConnectionId,
    address: IpAddr,
    vouched: AtomicBool,
    /// Requests of strangers on it, until their answers are written.
    asking: AtomicUsize,
}

impl Connection {
    /// Somebody whom we know uses it.
    fn vouch(&self, flow: &Flow) -> Result<(), Failure> {
        if self.0.vouched.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut connections = lock(&self.0.traffic.connections);
        let vouched = connections.roster.vouch(self.0.id, flow);
        if let Some(evicted) = vouched.map_err(|_| too_many("connections"))? {
            connections.evictions.remove(&evicted);
        }
        drop(connections);
        self.0.vouched.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// What a request of somebody who has not signed in holds until its answer is written.
#[derive(Debug)]
pub(crate) struct Asking {
    connection: Connection,
    _charge: Option<Charge>,
}

impl Asking {
    /// Takes in one more request of a stranger; nothing if its connection has to end. The protocol holds some
    /// kilobytes for each request that is not answered or whose answer is not read, and a connection may have
    /// a thousand. Who brings a few to an address that has too many already is not whom that is held against.
    pub(super) fn begin(connection: &Connection, flow: &Flow) -> Option<Asking> {
        let (traffic, id) = (connection.0.traffic.clone(), connection.0.id);
        let payer = Payer { traffic, account: Account { flow: flow.clone(), connection: id } };
        let charge = payer.take(Good::Strangers, 1).ok();
        let asking = connection.0.asking.fetch_add(1, Ordering::Relaxed) + 1;
        let begun = Asking { connection: connection.clone(), _charge: charge };
        (begun._charge.is_some() || asking <= ASKING_FEW).then_some(begun)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.connection.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    /// Ends it, whatever is under way on it.
    fn end(&self) {
        lock(&self.0.traffic.connections).evictions.remove(&self.0.id);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut connections = lock(&self.traffic.connections);
        connections.roster.leave(self.id);
        connections.evictions.remove(&self.id);
    }
}

fn of(good: Good) -> &'static str {
    match good {
        Good::Bodies => "requests that are still arriving",
        Good::BodyBytes => "bytes of requests",
        Good::Watches => "watches",
        Good::AnswerBytes => "answers that were not read yet",
        Good::Strangers => "requests",
    }
}

fn too_many(what: &str) -> Failure {
    let message = format!("too many {what} of this client at once; try again in a second");
    Failure::too_many(message, RETRY_AFTER_SECONDS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held cannot leave a count half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
