//! Whether silent siblings of the site can still be reached from here. The question comes in the
//! answer to a heartbeat, and what was found goes along with the next one. Called by
//! [`crate::heartbeat`]; start at [`Siblings::look`].

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use futures::future::join_all;

/// How long a sibling may take to answer. They are near.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Any port will do: a machine that is alive answers, if only by saying that nobody listens there.
const PROBE_PORT: u16 = 9;
/// No more siblings than this are tried.
const PROBES_MAX: usize = 16;

/// What this node has found out about its siblings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    /// Whom we were asked about, and where they were reached.
    asked: BTreeMap<String, String>,
    reached: BTreeMap<String, bool>,
}

impl Siblings {
    /// Tries to reach the siblings that the question names, as `node=address` with commas between.
    /// Whether there is anything new to tell.
    pub(crate) async fn look(&mut self, question: &str) -> bool {
        let asked = question.split(',').filter_map(|one| one.split_once('=')).take(PROBES_MAX);
        let asked = asked.map(|(node, address)| (node.to_owned(), address.to_owned()));
        let asked: BTreeMap<String, String> = asked.collect();
        let tried = asked.iter().map(async |(node, address)| (node.clone(), reach(address).await));
        let reached = join_all(tried).await.into_iter().collect();
        let after = Siblings { asked, reached };
        let news = *self != after;
        *self = after;
        news
    }

    /// What goes into the Lease; nothing if nobody asks.
    pub(crate) fn answer(&self) -> Option<String> {
        let word = |reached: bool| if reached { "yes" } else { "no" };
        let said = self.reached.iter().map(|(node, reached)| format!("{node}={}", word(*reached)));
        let said = said.collect::<Vec<_>>().join(",");
        Some(said).filter(|said| !said.is_empty())
    }
}

/// Whether a machine answers at all.
async fn reach(address: &str) -> bool {
    let connect = tokio::net::TcpStream::connect((address, PROBE_PORT));
    match tokio::time::timeout(PROBE_TIMEOUT, connect).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
        }
        Err(_late) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_machine_on_which_nobody_listens_is_alive() {
        let mut siblings = Siblings::default();
        assert!(!siblings.look("").await, "nobody asks");
        assert!(siblings.look("lift=127.0.0.1").await);
        assert_eq!(siblings.answer().as_deref(), Some("lift=yes"));
        assert!(!siblings.look("lift=127.0.0.1").await, "it has been told");
        assert!(siblings.look("lift=no such host").await);
        assert_eq!(siblings.answer().as_deref(), Some("lift=no"));
        assert!(siblings.look("").await);
        assert_eq!(siblings.answer(), None);
    }
}
