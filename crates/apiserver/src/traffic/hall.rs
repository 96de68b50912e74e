//! The seats of a level and those who wait for them: [`Fair`] decides, and here they are woken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::fair::{Fair, Ticket, Verdict};
use super::flow::Flow;
use super::limits::Share;
use super::lock;

/// The seats of one level and those who wait for them.
#[derive(Debug)]
pub(super) struct Hall(Mutex<Waiters>);

#[derive(Debug)]
struct Waiters {
    fair: Fair,
    calls: BTreeMap<Ticket, oneshot::Sender<Called>>,
}

#[derive(Debug)]
enum Called {
    Start,
    Dropped,
}

impl Waiters {
    fn call(&mut self, tickets: &[Ticket], called: fn() -> Called) {
        for ticket in tickets {
            if let Some(call) = self.calls.remove(ticket) {
                // The receiver is there: it takes itself off the list before it goes.
                let _ = call.send(called());
            }
        }
    }
}

impl Hall {
    pub(super) fn new(share: Share) -> Hall {
        Hall::of(Fair::new(share))
    }

    /// With one seat for each flow.
    pub(super) fn one_for_each(share: Share) -> Hall {
        Hall::of(Fair::one_for_each(share))
    }

    fn of(fair: Fair) -> Hall {
        Hall(Mutex::new(Waiters { fair, calls: BTreeMap::new() }))
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        lock(&self.0).calls.len()
    }

    /// A seat, at once or after a wait; nothing if the flow has too many waiting or the time is up.
    pub(super) async fn enter(
        self: &Arc<Hall>,
        flow: &Flow,
        width: usize,
        wait: Duration,
    ) -> Option<Seat> {
        let seat = Seat { hall: self.clone(), flow: flow.clone(), width };
        let mut waiting = {
            let mut waiters = lock(&self.0);
            match waiters.fair.arrive(flow, width) {
                Verdict::Start => return Some(seat),
                Verdict::Refuse => {
                    seat.forget();
                    return None;
                }
                Verdict::Wait { ticket, dropped, started } => {
                    waiters.call(dropped.as_slice(), || Called::Dropped);
                    let (call, called) = oneshot::channel();
                    waiters.calls.insert(ticket, call);
                    waiters.call(&started, || Called::Start);
                    Waiting { seat: Some(seat), ticket, called }
                }
            }
        };
        match tokio::time::timeout(wait, &mut waiting.called).await {
            Ok(Ok(Called::Start)) => waiting.seat.take(),
            Ok(Ok(Called::Dropped)) => {
                if let Some(seat) = waiting.seat.take() {
                    seat.forget();
                }
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

/// A request in the queue.
#[derive(Debug)]
struct Waiting {
    /// What it is given when its turn comes.
    seat: Option<Seat>,
    ticket: Ticket,
    called: oneshot::Receiver<Called>,
}

impl Drop for Waiting {
    /// Its client went away, or its time is up; or its turn came in the same moment.
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let mut waiters = lock(&seat.hall.0);
        match self.called.try_recv() {
            Ok(Called::Start) => {
                drop(waiters);
                drop(seat);
            }
            Ok(Called::Dropped) => {
                drop(waiters);
                seat.forget();
            }
            Err(_) => {
                waiters.calls.remove(&self.ticket);
                let started = waiters.fair.give_up(self.ticket);
                waiters.call(&started, || Called::Start);
                drop(waiters);
                seat.forget();
            }
        }
    }
}

/// The right to be worked on, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    hall: Arc<Hall>,
    flow: Flow,
    /// Zero once there is nothing to give back.
    width: usize,
}

impl Seat {
    /// It was never had.
    fn forget(mut self) {
        self.width = 0;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.width == 0 {
            return;
        }
        let mut waiters = lock(&self.hall.0);
        let started = waiters.fair.leave(&self.flow, self.width);
        waiters.call(&started, || Called::Start);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::poll_immediate;

    use super::*;

    /// Its client goes away, or its time is up: neither is one of those who wait any more.
    #[tokio::test]
    async fn who_waits_no_longer_takes_up_no_place() {
        let hall = Arc::new(Hall::new(Share { seats: 1, waiting: 4, waiting_per_flow: 2 }));
        let (anna, patience) = (Flow::Subject("anna".into()), Duration::from_secs(60));
        let seat = hall.enter(&anna, 1, patience).await.expect("the first has a seat");
        for _ in 0..5 {
            let waits = Box::pin(hall.enter(&anna, 1, patience));
            assert!(poll_immediate(waits).await.is_none(), "it waits, until it is dropped");
            let late = Box::pin(hall.enter(&anna, 1, Duration::from_millis(1)));
            assert!(late.await.is_none(), "its time is up");
        }
        assert_eq!(hall.waiting(), 0);
        let mut next = Box::pin(hall.enter(&anna, 1, patience));
        assert!(poll_immediate(&mut next).await.is_none(), "it is not refused");
        drop(seat);
        assert!(next.await.is_some());
    }
}
