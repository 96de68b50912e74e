//! Follows a collection: what changes after a list, without gap, across broken connections.
//!
//! Called by everything with `--watch` and by `wait`.

use std::{ops::ControlFlow, pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::core::WatchEvent;
use serde_json::Value;

use crate::{
    connection::{Connection, Query},
    failure::{self, Exit, Failure},
    moment,
};

/// So many connections in a row may break without an event before we say so.
const ATTEMPTS_MAX: u32 = 6;
/// What the server answers when it has compacted a revision away.
const GONE: u16 = 410;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A watch that stood this long was a good one, even if nothing happened on it.
const HEALTHY_FOR: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}

/// How following came to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The callback had seen enough.
    Enough,
    /// The server no longer has the revision: list again, and follow from there.
    Expired,
}

/// A collection as seen in one form (objects or tables) from one revision on.
#[derive(Clone, Debug)]
pub(crate) struct From<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: Query,
    pub(crate) accept: &'a str,
    pub(crate) resource_version: String,
}

/// Calls `see` with every change until it breaks. Ends of a watch that the server made in good
/// order, and connections that broke, are taken up again where they ended.
pub(crate) async fn follow(
    connection: &Connection,
    from: From<'_>,
    mut see: impl FnMut(Change, Value) -> Result<ControlFlow<()>, Failure>,
) -> Result<Followed, Failure> {
    let mut resource_version = from.resource_version;
    let mut attempts = 0;
    loop {
        let opened = moment::monotonic();
        let query = from
            .query
            .clone()
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with("resourceVersion", &resource_version);
        let broken = match connection.watch(&query.after(from.path), from.accept).await {
            Err(failure) => failure,
            Ok(events) => {
                let mut events = pin!(events);
                loop {
                    let (change, object) = match events.next().await {
                        None => break closed(),
                        Some(Err(failure)) => break failure,
                        Some(Ok(WatchEvent::Added(object))) => (Change::Added, object),
                        Some(Ok(WatchEvent::Modified(object))) => (Change::Modified, object),
                        Some(Ok(WatchEvent::Deleted(object))) => (Change::Deleted, object),
                        Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                            resource_version = bookmark.metadata.resource_version;
                            attempts = 0;
                            continue;
                        }
                        Some(Ok(WatchEvent::Error(status))) if status.code == GONE => {
                            return Ok(Followed::Expired);
                        }
                        Some(Ok(WatchEvent::Error(status))) => break failure::of_status(&status),
                    };
                    if let Some(seen) = revision(&object) {
                        seen.clone_into(&mut resource_version);
                    }
                    attempts = 0;
                    if see(change, object)?.is_break() {
                        return Ok(Followed::Enough);
                    }
                }
            }
        };
        if opened.elapsed() >= HEALTHY_FOR {
            attempts = 0;
        }
        match what_next(&broken, attempts) {
            Next::GiveUp => return Err(broken),
            Next::Relist => return Ok(Followed::Expired),
            Next::Again(pause) => tokio::time::sleep(pause).await,
        }
        attempts += 1;
    }
}

/// The revision of an object, or of the one row of a table.
pub(crate) fn revision(object: &Value) -> Option<&str> {
    let own = object["metadata"]["resourceVersion"].as_str();
    let row = object["rows"][0]["object"]["metadata"]["resourceVersion"].as_str();
    row.or(own).filter(|version| !version.is_empty())
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    GiveUp,
    Relist,
    Again(Duration),
}

fn what_next(broken: &Failure, attempts: u32) -> Next {
    if broken.status == GONE {
        return Next::Relist;
    }
    let transient = match broken.exit {
        Exit::Unreachable | Exit::Timeout => true,
        Exit::Ok
        | Exit::Failed
        | Exit::Usage
        | Exit::NotFound
        | Exit::Conflict
        | Exit::Denied
        | Exit::NotPlaced
        | Exit::Command(_) => false,
    };
    match transient && attempts < ATTEMPTS_MAX {
        true => Next::Again(FIRST_PAUSE * 2_u32.saturating_pow(attempts)),
        false => Next::GiveUp,
    }
}

fn closed() -> Failure {
    Failure::new(Exit::Unreachable, "the server closed the watch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(exit: Exit, status: u16, attempts: u32, expected: Next) {
        let failure = Failure { status, ..Failure::new(exit, "x") };
        assert_eq!(what_next(&failure, attempts), expected);
    }

    #[test]
    fn a_broken_connection_is_tried_again_with_growing_pauses_and_then_told() {
        check(Exit::Unreachable, 0, 0, Next::Again(Duration::from_millis(200)));
        check(Exit::Timeout, 0, 3, Next::Again(Duration::from_millis(1_600)));
        check(Exit::Unreachable, 503, ATTEMPTS_MAX, Next::GiveUp);
    }

    #[test]
    fn a_compacted_revision_asks_for_a_fresh_list_and_a_refusal_ends_it() {
        check(Exit::Failed, 410, 0, Next::Relist);
        check(Exit::Denied, 403, 0, Next::GiveUp);
        check(Exit::Failed, 400, 0, Next::GiveUp);
    }

    #[test]
    fn the_revision_is_that_of_the_object_or_of_the_row() {
        use serde_json::json;
        let object = json!({"metadata": {"resourceVersion": "7"}});
        let table = json!({"metadata": {"resourceVersion": ""}, "rows": [{"object": object}]});
        assert_eq!(revision(&object), Some("7"));
        assert_eq!(revision(&table), Some("7"));
        assert_eq!(revision(&json!({})), None);
    }
}
