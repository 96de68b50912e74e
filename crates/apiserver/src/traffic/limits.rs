//! The bounds at the door, by name, so that an operator can set them and a test can reach them.

use std::time::Duration;

use crate::server::BODY_BYTES_MAX;

const MIB: usize = 1024 * 1024;

/// What one level of requests has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Requests of width one that are worked on at once.
    pub seats: usize,
    /// Requests that wait for a seat, of all flows and of one.
    pub waiting: usize,
    pub waiting_per_flow: usize,
}

/// What may be held for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub per_flow: usize,
    pub in_all: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub heartbeats: Share,
    pub administration: Share,
    pub agents: Share,
    pub users: Share,
    pub anonymous: Share,
    /// Of the seats of each level, those for requests that need nothing but a processor.
    pub reads: usize,
    /// Clients of each level whose plans and explanations are worked on at once, one of each client: whoever
    /// comes next has a seat. Who of them has a processor, and for how long, is for the explainer to say.
    pub searches: usize,
    /// Steps of heavy lists at once, on threads of their own, and those that wait for one.
    pub heavy: Share,
    /// Seats of a request to a facade, which makes several lists and perhaps a search.
    pub facade: usize,
    /// How long a request waits for a seat before it is told to come back.
    pub wait: Duration,
    /// Requests whose bodies have not arrived whole.
    pub bodies: Bound,
    /// The largest body that is taken, and how long one may take to arrive. More bytes than
    /// [`BODY_BYTES_MAX`] no handler reads.
    pub body_bytes_each: usize,
    pub body: Duration,
    pub body_bytes: Bound,
    pub watches: Bound,
    /// Bytes of answers that are not written yet.
    pub answer_bytes: Bound,
    pub answer_bytes_per_connection: usize,
    /// How long an answer may make no progress.
    pub write: Duration,
    /// Connections that have not authenticated: of one address, in all, and of loopback.
    pub strangers_per_address: usize,
    pub strangers: usize,
    pub strangers_of_loopback: usize,
    /// Requests of those who have not, until their answers are written, of one address and in all.
    pub strangers_asking: Bound,
    /// Connections that have: of one subject and in all.
    pub known_per_subject: usize,
    pub known: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // A thousand agents renew every ten seconds; each has one renewal under way.
            heartbeats: Share { seats: 256, waiting: 4096, waiting_per_flow: 8 },
            administration: Share { seats: 128, waiting: 4096, waiting_per_flow: 1024 },
            // A fleet that comes back at once lists at once.
            agents: Share { seats: 256, waiting: 8192, waiting_per_flow: 64 },
            // As many writers at once make the largest groups that the store commits in one sync.
            users: Share { seats: 256, waiting: 8192, waiting_per_flow: 512 },
            // A thousand machines behind one address may join at once.
            anonymous: Share { seats: 64, waiting: 2048, waiting_per_flow: 1024 },
            reads: (4 * processors()).max(8),
            searches: 16,
            // One processor is left to everything that is light.
            heavy: Share {
                seats: processors().saturating_sub(1).max(1),
                waiting: 65_536,
                waiting_per_flow: 4096,
            },
            // As wide as the widest list: each asks for several of them.
            facade: 16,
            wait: Duration::from_secs(15),
            bodies: Bound { per_flow: 256, in_all: 4096 },
            body_bytes_each: BODY_BYTES_MAX,
            body: Duration::from_secs(30),
            body_bytes: Bound { per_flow: 16 * MIB, in_all: 64 * MIB },
            watches: Bound { per_flow: 2000, in_all: 50_000 },
            answer_bytes: Bound { per_flow: 64 * MIB, in_all: 256 * MIB },
            answer_bytes_per_connection: 32 * MIB,
            write: Duration::from_secs(30),
            strangers_per_address: 512,
            strangers: 2048,
            strangers_of_loopback: 2048,
            // A thousand machines behind one address may join at once.
            strangers_asking: Bound { per_flow: 1200, in_all: 4800 },
            known_per_subject: 1024,
            known: 4096,
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A bound that can be set.
#[derive(Clone, Copy)]
pub struct Setting {
    pub name: &'static str,
    pub what: &'static str,
    place: fn(&mut Limits) -> &mut usize,
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Setting").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! settings {
    ($($name:literal, $what:literal, $($field:ident).+;)*) => {
        pub const SETTINGS: &[Setting] = &[
            $(Setting { name: $name, what: $what, place: |limits| &mut limits.$($field).+ },)*
        ];
    };
}

settings! {
    "heartbeats", "renewals of agents' own Leases at once", heartbeats.seats;
    "administration", "requests of admins at once", administration.seats;
    "agents", "other requests of agents at once", agents.seats;
    "users", "requests of users, managers and guests at once", users.seats;
    "users-waiting-each", "requests of one user that wait", users.waiting_per_flow;
    "anonymous", "requests without a name at once, joining among them", anonymous.seats;
    "anonymous-waiting-each", "requests of one address without a name that wait", anonymous.waiting_per_flow;
    "reads", "requests of each kind that only read at once", reads;
    "searches", "clients of each level whose plans and explanations are worked on at once", searches;
    "heavy", "steps of large lists at once", heavy.seats;
    "heavy-waiting", "such steps that wait", heavy.waiting;
    "heavy-waiting-each", "such steps of one client that wait", heavy.waiting_per_flow;
    "facade", "seats of a request to a facade of another project", facade;
    "body-bytes-one", "bytes of one body; no handler reads more than usual", body_bytes_each;
    "bodies-each", "requests of one client whose bodies are still coming", bodies.per_flow;
    "bodies", "such requests in all", bodies.in_all;
    "body-bytes-each", "bytes of bodies held for one client", body_bytes.per_flow;
    "body-bytes", "bytes of bodies in all", body_bytes.in_all;
    "watches-each", "watches of one client", watches.per_flow;
    "watches", "watches in all", watches.in_all;
    "answer-bytes-each", "bytes of answers that one client has not read", answer_bytes.per_flow;
    "answer-bytes", "bytes of unread answers in all", answer_bytes.in_all;
    "answer-bytes-connection", "bytes of unread answers of one connection", answer_bytes_per_connection;
    "strangers-address", "connections of one address that have not signed in", strangers_per_address;
    "strangers", "connections that have not signed in", strangers;
    "strangers-loopback", "connections of this machine that have not signed in", strangers_of_loopback;
    "strangers-asking-address", "requests of one address that has not signed in, until they are answered", strangers_asking.per_flow;
    "strangers-asking", "such requests in all", strangers_asking.in_all;
    "connections-each", "connections of one client that has signed in", known_per_subject;
    "connections", "connections that have signed in", known;
}

/// Files that are not connections: the store, the listeners, what agents and loops of this process use.
const FILES_RESERVED: usize = 256;

impl Limits {
    /// The same with fewer connections, if the process cannot have so many files: a connection that
    /// cannot be taken shuts out whoever comes next.
    #[must_use]
    pub fn within_files(mut self, files: usize) -> Limits {
        let wanted = self.strangers + self.strangers_of_loopback + self.known;
        let room = files.saturating_sub(FILES_RESERVED).max(4);
        if wanted > room {
            let bounds = [
                &mut self.strangers,
                &mut self.strangers_of_loopback,
                &mut self.known,
                &mut self.strangers_per_address,
                &mut self.known_per_subject,
            ];
            for bound in bounds {
                *bound = (*bound * room / wanted).max(1);
            }
        }
        self
    }

    /// Sets a bound from `NAME=NUMBER`.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, number) =
            text.split_once('=').ok_or_else(|| format!("{text}: a limit is NAME=NUMBER"))?;
        let setting = SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            format!("{name}: there is no such limit; there are {}", names.join(", "))
        })?;
        let number: usize = number.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            format!("{number}: {name} ({}) is a whole number from 1", setting.what)
        })?;
        *(setting.place)(self) = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_set_by_name() {
        let mut limits = Limits::default();
        limits.set("users=7").unwrap();
        limits.set("answer-bytes-each=1048576").unwrap();
        assert_eq!((limits.users.seats, limits.answer_bytes.per_flow), (7, MIB));
    }

    #[test]
    fn connections_fit_into_the_files_that_a_process_may_have() {
        let connections = |files| {
            let limits = Limits::default().within_files(files);
            (limits.known, limits.known_per_subject, limits.strangers, limits.strangers_per_address)
        };
        assert_eq!(connections(65_536), (4096, 1024, 2048, 512));
        assert_eq!(connections(1280), (512, 128, 256, 64));
        assert_eq!(connections(0), (2, 1, 1, 1));
    }

    #[test]
    fn a_wrong_limit_is_told_what_is_allowed() {
        let mut limits = Limits::default();
        for (text, says) in [
            ("users", "NAME=NUMBER"),
            ("user=3", "there are heartbeats,"),
            ("users=0", "a whole number from 1"),
            ("users=many", "a whole number from 1"),
        ] {
            let problem = limits.set(text).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
