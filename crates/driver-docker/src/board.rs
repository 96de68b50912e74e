//! What is being done for which instance, and by which attendant: the one thing that attendants share with
//! each other and with the looks. Nothing is waited for while it is locked. Start at [`Board::order`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tombolo_driver::InstanceId;

use crate::attendant::{self, Order};
use crate::look::{Doing, Seen};
use crate::{Inner, locked, stop};

/// Orders that wait for one attendant: the agent gives one at a time, and a look leaves one more.
const ORDERS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    attendants: BTreeMap<InstanceId, Attendance>,
    under_way: UnderWay,
    /// The driver is gone, and nobody attends to anything any more.
    closed: bool,
}

#[derive(Debug)]
struct Attendance {
    orders: mpsc::Sender<Order>,
    task: AbortHandle,
}

/// Starts under way, and those that failed before there was a container to tell of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay {
    pub(crate) by_id: BTreeMap<InstanceId, Doing>,
    /// Counts beginnings and ends, not the words in between.
    pub(crate) changes: u64,
}

/// Where an order for an instance goes.
enum Way {
    /// It has a new attendant, which has the order already.
    Given,
    To(mpsc::Sender<Order>, Order),
    Closed,
}

impl Board {
    /// Hands an order to the attendant of an instance, which is called in if there is none. Returns when
    /// the order has arrived; it is lost only if the driver is gone.
    pub(crate) async fn order(&self, inner: &Arc<Inner>, id: &InstanceId, mut order: Order) {
        loop {
            match self.way(inner, id, order) {
                Way::Given | Way::Closed => return,
                Way::To(orders, waiting) => match orders.send(waiting).await {
                    Ok(()) => return,
                    // The attendant has just left.
                    Err(mpsc::error::SendError(back)) => order = back,
                },
            }
        }
    }

    fn way(&self, inner: &Arc<Inner>, id: &InstanceId, order: Order) -> Way {
        let mut content = self.content();
        if content.closed {
            return Way::Closed;
        }
        if let Some(attendance) = content.attendants.get(id)
            && !attendance.orders.is_closed()
        {
            return Way::To(attendance.orders.clone(), order);
        }
        let (orders, arriving) = mpsc::channel(ORDERS_MAX);
        orders.try_send(order).expect("a new channel is empty");
        let task = tokio::spawn(attendant::attend(Arc::clone(inner), id.clone(), arriving));
        let attendance = Attendance { orders, task: task.abort_handle() };
        content.attendants.insert(id.clone(), attendance);
        Way::Given
    }

    /// Shows what a look has found to the attendants, and calls one in for what is ending and has none:
    /// an earlier agent has begun to stop it.
    pub(crate) fn show(&self, inner: &Arc<Inner>, seen: &[Arc<Seen>]) {
        let mut by_id: BTreeMap<&InstanceId, Vec<Arc<Seen>>> = BTreeMap::new();
        for one in seen {
            if let Some(id) = &one.tag.id {
                by_id.entry(id).or_default().push(Arc::clone(one));
            }
        }
        let attended: Vec<InstanceId> = self.content().attendants.keys().cloned().collect();
        let ending = by_id.iter().filter(|(_, seen)| seen.iter().any(|one| stop::is_ending(one)));
        let ending: Vec<InstanceId> = ending.map(|(id, _)| (*id).clone()).collect();
        for id in attended.iter().chain(ending.iter().filter(|id| !attended.contains(id))) {
            let order = Order::Look { seen: by_id.get(id).cloned().unwrap_or_default() };
            match self.way(inner, id, order) {
                Way::Given | Way::Closed => (),
                // One that has much to do is shown the next look.
                Way::To(orders, order) => _ = orders.try_send(order),
            }
        }
    }

    /// Whether the attendant of an instance may go: it was given no more orders. Those that are just on
    /// their way come back to whoever gave them.
    pub(crate) fn leave(&self, id: &InstanceId, orders: &mut mpsc::Receiver<Order>) -> bool {
        let mut content = self.content();
        if !orders.is_empty() {
            return false;
        }
        content.attendants.remove(id);
        orders.close();
        true
    }

    /// Dismisses all attendants, with all that they are doing.
    pub(crate) fn close(&self) {
        let mut content = self.content();
        content.closed = true;
        for (_, attendance) in std::mem::take(&mut content.attendants) {
            attendance.task.abort();
        }
    }

    pub(crate) fn under_way(&self) -> UnderWay {
        self.content().under_way.clone()
    }

    /// Says how far something is that has begun before.
    pub(crate) fn say(&self, id: &InstanceId, doing: Doing) {
        self.content().under_way.by_id.insert(id.clone(), doing);
    }

    pub(crate) fn begin(&self, id: &InstanceId, doing: Doing) {
        let under_way = &mut self.content().under_way;
        under_way.by_id.insert(id.clone(), doing);
        under_way.changes = under_way.changes.wrapping_add(1);
    }

    /// A start is over; `failed` says why, if it was in vain.
    pub(crate) fn end(&self, id: &InstanceId, failed: Option<Doing>) {
        let under_way = &mut self.content().under_way;
        match failed {
            Some(failed) => _ = under_way.by_id.insert(id.clone(), failed),
            None => _ = under_way.by_id.remove(id),
        }
        under_way.changes = under_way.changes.wrapping_add(1);
    }

    /// Nothing is being done for it, or in vain, any more.
    pub(crate) fn forget(&self, id: &InstanceId) {
        self.content().under_way.by_id.remove(id);
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        locked(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;
    use tombolo_driver::Error;

    use crate::{LogLimits, Options, open};

    use super::*;

    /// Without an engine every order is answered at once, so that an attendant leaves all the time.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_order_that_meets_an_attendant_on_its_way_out_is_carried_out() {
        let driver = open(Options {
            socket: "/there/is/no/engine.sock".into(),
            agent: "test".to_owned(),
            log: LogLimits::default(),
            guarded: None,
        });
        let orders = (0..600).map(|number: u32| {
            let inner = Arc::clone(&driver.inner);
            tokio::spawn(async move {
                let id: InstanceId = format!("a.{}", number % 3 + 1).parse().unwrap();
                let grace = Duration::ZERO;
                match number % 2 {
                    0 => inner.order(&id, |answer| Order::Stop { grace, answer }).await,
                    _ => inner.order(&id, |answer| Order::Remove { answer }).await,
                }
            })
        });
        for answer in join_all(orders).await {
            let answer = answer.unwrap();
            assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}");
        }
        // The last answer is given before its attendant leaves.
        while !driver.inner.board.content().attendants.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn when_the_driver_is_gone_an_order_is_answered_and_nobody_is_called_in() {
        let driver = open(Options {
            socket: "/there/is/no/engine.sock".into(),
            agent: "test".to_owned(),
            log: LogLimits::default(),
            guarded: None,
        });
        let inner = Arc::clone(&driver.inner);
        drop(driver);
        let id: InstanceId = "a.1".parse().unwrap();
        let answer = inner.order(&id, |answer| Order::Remove { answer }).await;
        assert!(matches!(answer, Err(Error::Failed { .. })), "{answer:?}");
        assert!(inner.board.content().attendants.is_empty());
    }
}
