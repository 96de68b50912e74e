//! Room for requests: when there is none, a client is told to come back, at once. Heartbeats and
//! administration have room of their own, so that an overloaded server can still be kept alive
//! and mended.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tombolo_identity::{Role, Subject};

use crate::request::Path;
use crate::status::Failure;

/// How many requests of each class may be under way at once. A watch counts until it is set up.
const HEARTBEATS_MAX: usize = 256;
const ADMINISTRATION_MAX: usize = 64;
const OTHERS_MAX: usize = 512;

#[derive(Debug)]
pub(crate) struct Traffic {
    heartbeats: Arc<Semaphore>,
    administration: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            heartbeats: Arc::new(Semaphore::new(HEARTBEATS_MAX)),
            administration: Arc::new(Semaphore::new(ADMINISTRATION_MAX)),
            others: Arc::new(Semaphore::new(OTHERS_MAX)),
        }
    }
}

/// A place that a request holds until it is answered; the server's own loops need none.
#[derive(Debug)]
pub(crate) struct Room(
    #[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>,
);

impl Traffic {
    pub(crate) fn enter(&self, subject: &Subject, path: &Path) -> Result<Room, Failure> {
        // Everybody's room first, so that the reserved room is still there when that is full.
        let reserved = match class(subject, path) {
            Class::Own => return Ok(Room(None)),
            Class::Heartbeat => Some(&self.heartbeats),
            Class::Administration => Some(&self.administration),
            Class::Other => None,
        };
        let try_enter = |room: &Arc<Semaphore>| room.clone().try_acquire_owned().ok();
        match try_enter(&self.others).or_else(|| reserved.and_then(try_enter)) {
            Some(place) => Ok(Room(Some(place))),
            None => Err(Failure::too_many("the server is busy; try again in a second", 1)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Own,
    Heartbeat,
    Administration,
    Other,
}

fn class(subject: &Subject, path: &Path) -> Class {
    let is_lease = matches!(path, Path::Resource(target) if target.resource == "leases");
    match subject.role {
        Role::System => Class::Own,
        _ if is_lease || *path == Path::Health => Class::Heartbeat,
        Role::Admin => Class::Administration,
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Agent { .. } => {
            Class::Other
        }
    }
}
