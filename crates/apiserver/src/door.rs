//! What a running server keeps in memory about those who come in: who signs for them, who failed,
//! which start of an agent holds which node, and which controllers were heard. Held by [`crate::Api`]; used by
//! [`crate::joining`], [`crate::agents`] and [`crate::lighthouse`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tombolo_identity::Authority;
use tombolo_identity::clones::{Beat, Seats};
use tombolo_identity::nonce::Sealer;
use tombolo_plan::lighthouse::Memory;

use crate::status::Failure;
use crate::throttle::Throttle;

#[derive(Debug)]
pub(crate) struct Door {
    /// Not there on a server that lets nobody join.
    pub(crate) authority: OnceLock<Arc<Authority>>,
    pub(crate) sealer: Sealer,
    throttle: Mutex<Throttle>,
    seats: Mutex<BTreeMap<String, Seats>>,
    lighthouse: Mutex<Memory>,
    started: Instant,
}

impl Door {
    pub(crate) fn open() -> Result<Door, Failure> {
        let sealer = Sealer::generate().map_err(|error| Failure::internal(error.to_string()))?;
        Ok(Door {
            authority: OnceLock::new(),
            sealer,
            throttle: Mutex::default(),
            seats: Mutex::default(),
            lighthouse: Mutex::default(),
            started: Instant::now(),
        })
    }

    /// Since the server started; no clock that somebody sets has a part in it.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn throttle(&self) -> MutexGuard<'_, Throttle> {
        // A panic while the lock was held cannot leave a count half changed.
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which controllers were heard, and when.
    pub(crate) fn lighthouse(&self) -> MutexGuard<'_, Memory> {
        self.lighthouse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat of `node`; an empty instance is a good-bye.
    pub(crate) fn beat(&self, node: &str, instance: &str) -> Beat {
        let mut all = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let seats = all.entry(node.to_owned()).or_default();
        if instance.is_empty() {
            seats.release();
            return Beat::Kept;
        }
        seats.beat(instance)
    }

    /// A node that joined anew, or is gone, has no past.
    pub(crate) fn forget(&self, node: &str) {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
    }
}
