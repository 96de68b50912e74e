//! Instances that take connections from elsewhere although nobody wants that. A program of the host
//! listens where it likes; what can be done is to tell it where, and to say when it does not keep to
//! that. Called by the driver at each look; start at [`Listeners::note`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::SystemTime;

use tombolo_driver::{Instance, InstanceId, PublishedPort, State};
use tombolo_model::phrase::first_few;
use tombolo_model::ports::Transport;

/// A program that opens many is told of these alone.
const NAMED_MAX: usize = 4;
/// How the kernel writes that a TCP socket listens.
const LISTENS: &str = "0A";

/// So many looks find out whose a socket is. Between reading the table of the kernel and the open files of
/// a process, the process may have handed its socket on to a child; a few looks later it is found there.
const LOOKS_MAX: u8 = 3;

/// Whose the sockets are that were seen before, by their numbers. To find that out, the open files of all
/// our instances are read, so it is not done again for a socket that belongs to none of them.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    owners: BTreeMap<u64, InstanceId>,
    /// Sockets that none of our instances had open, and in how many looks.
    strangers: BTreeMap<u64, u8>,
    /// The instances among which the strangers were looked for, each with the time of its start.
    asked: BTreeSet<(InstanceId, SystemTime)>,
}

/// A socket that takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

impl Listeners {
    /// Says so on each instance that listens to more than it should. UDP is left out: there a program
    /// that only asks looks the same as one that answers.
    pub(crate) fn note(
        &mut self,
        instances: &mut [Instance],
        members: &dyn Fn(&InstanceId) -> Vec<u32>,
    ) {
        let runs = |instance: &&mut Instance| matches!(instance.state, State::Running(_));
        let mut running: Vec<&mut Instance> = instances.iter_mut().filter(runs).collect();
        if running.is_empty() {
            return;
        }
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
        let open: Vec<Socket> =
            tables.iter().flatten().flat_map(|table| sockets(table)).filter(is_open).collect();
        let all: BTreeSet<u64> = open.iter().map(|socket| socket.inode).collect();
        self.find_owners(&running, &all, members);
        for instance in &mut running {
            let own = |socket: &&Socket| self.owners.get(&socket.inode) == Some(&instance.id);
            let State::Running(state) = &instance.state else { continue };
            let own: Vec<Socket> = open.iter().filter(own).copied().collect();
            let note = note(&own, &state.ports);
            instance.notes.extend(note);
        }
    }

    fn find_owners(
        &mut self,
        running: &[&mut Instance],
        open: &BTreeSet<u64>,
        members: &dyn Fn(&InstanceId) -> Vec<u32>,
    ) {
        let run = |instance: &&mut Instance| match &instance.state {
            State::Running(running) => Some((instance.id.clone(), running.since)),
            State::Starting { .. } | State::Stopping(_) => None,
            State::Exited(_) | State::Failed(_) => None,
        };
        let asked: BTreeSet<_> = running.iter().filter_map(run).collect();
        if !asked.is_subset(&self.asked) {
            // A program may listen before it counts as running: what was a stranger then may be its own.
            self.strangers.clear();
        }
        self.asked = asked;
        self.owners.retain(|inode, _| open.contains(inode));
        self.strangers.retain(|inode, _| open.contains(inode));
        let settled = |inode: &u64| {
            let looks = self.strangers.get(inode);
            self.owners.contains_key(inode) || looks.is_some_and(|looks| *looks >= LOOKS_MAX)
        };
        if open.iter().all(settled) {
            return;
        }
        for instance in running {
            let own = members(&instance.id).into_iter().flat_map(open_sockets);
            let own = own.filter(|inode| open.contains(inode));
            self.owners.extend(own.map(|inode| (inode, instance.id.clone())));
        }
        self.strangers.retain(|inode, _| !self.owners.contains_key(inode));
        for inode in open.iter().filter(|inode| !self.owners.contains_key(inode)) {
            let looks = self.strangers.entry(*inode).or_default();
            *looks = looks.saturating_add(1);
        }
    }
}

/// What is to be said of an instance with these sockets, all of them open to others, and these ports.
fn note(sockets: &[Socket], ports: &[PublishedPort]) -> Option<String> {
    let wanted = |socket: &Socket| {
        ports.iter().any(|port| {
            let same = port.published == Some(socket.port);
            let tcp = port.protocol.transport() == Transport::Tcp;
            // A program that speaks both protocols writes an address of IPv4 as one of IPv6.
            same && tcp && port.on.is_none_or(|on| on == socket.address.to_canonical())
        })
    };
    let places: BTreeSet<String> = sockets
        .iter()
        .filter(|socket| !wanted(socket))
        .map(|socket| match socket.address {
            IpAddr::V4(address) => format!("{address}:{}", socket.port),
            IpAddr::V6(address) => format!("[{address}]:{}", socket.port),
        })
        .collect();
    (!places.is_empty()).then(|| {
        let places = first_few(places, NAMED_MAX);
        format!(
            "it listens on {places}, which is open to more than it should be: let it listen on \
             $(ADDRESS)"
        )
    })
}

fn is_open(socket: &Socket) -> bool {
    !socket.address.to_canonical().is_loopback()
}

/// The numbers of the sockets that a process has open, as far as we may see them.
fn open_sockets(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// The sockets of a table of the kernel that listen.
fn sockets(table: &str) -> Vec<Socket> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, port) = fields.get(1)?.split_once(':')?;
        let listens = *fields.get(3)? == LISTENS;
        let socket = Socket {
            address: address_of(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
            inode: fields.get(9)?.parse().ok()?,
        };
        listens.then_some(socket)
    };
    table.lines().filter_map(row).collect()
}

/// The kernel writes an address as words of 32 bits, each in the order of the machine.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tombolo_driver::{LOOPBACK, Origin, Running};
    use tombolo_model::component::Protocol;

    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1\n\
        1: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 2 1\n\
        2: 0700000A:1F92 0700000A:9999 01 00000000:00000000 00:00000000 00000000 0 0 3 1\n";

    #[test]
    fn a_table_of_the_kernel_is_read() {
        let found = sockets(TABLE);
        let shown: Vec<String> =
            found.iter().map(|one| format!("{}:{} {}", one.address, one.port, one.inode)).collect();
        assert_eq!(shown, ["127.0.0.1:8080 1", "0.0.0.0:8081 2"]);
        assert_eq!(found.iter().filter(|one| is_open(one)).count(), 1);
        let six = |text: &str| address_of(text).unwrap().to_string();
        assert_eq!(six("00000000000000000000000001000000"), "::1");
        assert_eq!(six("00000000000000000000000000000000"), "::");
        let mapped = address_of("0000000000000000FFFF00000100007F").unwrap();
        assert!(!is_open(&Socket { address: mapped, port: 1, inode: 1 }));
    }

    #[test]
    fn what_is_open_to_more_than_it_should_be_is_told() {
        let socket =
            |address: &str, port| Socket { address: address.parse().unwrap(), port, inode: 1 };
        let port = |published, on: Option<IpAddr>| PublishedPort {
            port: 80,
            protocol: Protocol::Http,
            published: Some(published),
            on,
        };
        let everywhere = [socket("0.0.0.0", 8080)];
        assert_eq!(note(&everywhere, &[port(8080, None)]), None, "it is public");
        let told = "it listens on 0.0.0.0:8080, which is open to more than it should be: let it listen \
                    on $(ADDRESS)";
        assert_eq!(note(&everywhere, &[port(8080, Some(LOOPBACK))]).as_deref(), Some(told));
        assert_eq!(note(&everywhere, &[]).as_deref(), Some(told), "nobody knows of the port");
        let node: IpAddr = "10.0.0.7".parse().unwrap();
        assert_eq!(note(&[socket("10.0.0.7", 8080)], &[port(8080, Some(node))]), None);
        let both = [socket("::ffff:10.0.0.7", 8080)];
        assert_eq!(note(&both, &[port(8080, Some(node))]), None, "it is the same address");
        assert!(note(&everywhere, &[port(8080, Some(node))]).is_some());
        let many: Vec<Socket> = (1..=6).map(|port| socket("::", port)).collect();
        assert!(note(&many, &[]).unwrap().contains("[::]:4 and 2 more, which"));
    }

    /// An instance that runs, or one that is still being started.
    fn instance(id: &str, runs: bool) -> Instance {
        let running = Running {
            name: String::new(),
            pid: None,
            since: SystemTime::UNIX_EPOCH,
            addresses: Vec::new(),
            ports: Vec::new(),
        };
        Instance {
            id: id.parse().unwrap(),
            origin: Origin::default(),
            state: match runs {
                true => State::Running(running),
                false => State::Starting { doing: "starting".to_owned() },
            },
            restarts: 0,
            last_exit: None,
            notes: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn everywhere() -> (TcpListener, String) {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let place = format!("0.0.0.0:{}", listener.local_addr().unwrap().port());
        (listener, place)
    }

    /// The processes of `a` are those of this test, and `b` has none.
    fn members(id: &InstanceId) -> Vec<u32> {
        match id.assignment() {
            "a" => vec![std::process::id()],
            _ => Vec::new(),
        }
    }

    fn is_told(instance: &Instance, place: &str) -> bool {
        instance.notes.iter().any(|note| note.contains(place))
    }

    #[test]
    fn a_socket_of_an_instance_is_found_and_that_of_another_program_is_not_taken_for_it() {
        let (_listener, place) = everywhere();
        let mut listeners = Listeners::default();
        for _ in 0..2 {
            let mut all = [instance("a.1", true), instance("b.1", true)];
            listeners.note(&mut all, &members);
            assert!(is_told(&all[0], &place), "{:?}", all[0].notes);
            assert!(all[1].notes.is_empty(), "{:?}", all[1].notes);
        }
    }

    #[test]
    fn a_program_that_listens_before_it_counts_as_running_is_told_when_it_does() {
        let (_listener, place) = everywhere();
        let mut listeners = Listeners::default();
        for _ in 0..2 * LOOKS_MAX {
            let mut all = [instance("a.1", false), instance("b.1", true)];
            listeners.note(&mut all, &members);
            assert!(!is_told(&all[0], &place), "nobody says anything of a program that starts");
        }
        let mut all = [instance("a.1", true), instance("b.1", true)];
        listeners.note(&mut all, &members);
        assert!(is_told(&all[0], &place), "{:?}", all[0].notes);
    }

    #[test]
    fn a_socket_that_is_handed_on_during_a_look_is_found_by_the_next() {
        let (_listener, place) = everywhere();
        let mut listeners = Listeners::default();
        let nobody = |_: &InstanceId| Vec::new();
        let mut all = [instance("a.1", true)];
        listeners.note(&mut all, &nobody);
        assert!(!is_told(&all[0], &place));
        listeners.note(&mut all, &members);
        assert!(is_told(&all[0], &place), "{:?}", all[0].notes);
    }
}
