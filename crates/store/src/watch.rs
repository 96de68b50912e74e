//! A reader of the event log. Holds a cursor and nothing else: what it has not read yet lies in
//! the shared ring, so that a watcher that never comes back costs nothing but its place.
//! `apiserver` makes one for every watch request.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{Batch, Result, Shared};

#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    prefix: Arc<str>,
    cursor: u64,
    receiver: watch::Receiver<u64>,
}

impl Watch {
    pub(crate) fn start(shared: Arc<Shared>, prefix: &str, after: u64) -> Result<Watch> {
        let (prefix, receiver) = {
            let mut state = shared.write();
            state.readable(after)?;
            state.subscribe(prefix)
        };
        Ok(Watch { shared, prefix, cursor: after, receiver })
    }

    /// Waits for the next matching events; never returns an empty batch. A long backlog comes in
    /// pieces. Can be dropped while it waits, without losing an event: the cursor moves when the
    /// batch is handed over.
    ///
    /// Fails with `Compacted` once an event that this watch has not seen is forgotten; the
    /// caller must list again.
    pub async fn next(&mut self) -> Result<Batch> {
        loop {
            // Before looking: an event between the look and the wait must end the wait.
            self.receiver.borrow_and_update();
            let batch = self.now()?;
            if !batch.events.is_empty() {
                return Ok(batch);
            }
            self.receiver.changed().await.expect("the topic lives as long as its watches");
        }
    }

    /// What there is at this moment, which may be nothing. Either way everything that matches up
    /// to the batch's revision has been handed over, so that it can be sent as a bookmark.
    pub fn now(&mut self) -> Result<Batch> {
        let batch = self.shared.read().batch(&self.prefix, self.cursor)?;
        self.cursor = batch.revision;
        Ok(batch)
    }

    /// Everything that matches up to here has been handed over.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.write().unsubscribe(&self.prefix);
    }
}
