//! Instances that take connections from elsewhere although nobody wants that. A program of the host
//! listens where it likes; what can be done is to tell it where, and to say when it does not keep to
//! that. Called by the driver at each look; start at [`Listeners::note`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tombolo_driver::{Instance, InstanceId, PublishedPort, State};
use tombolo_model::ports::Transport;

/// A program that opens many is told of these alone.
const NAMED_MAX: usize = 4;
/// How the kernel writes that a TCP socket listens.
const LISTENS: &str = "0A";

/// Whose the sockets are that were seen before, by their numbers. What belongs to none of our instances
/// is not looked for again: to find that out, all their open files are read.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    known: BTreeMap<u64, Option<InstanceId>>,
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
        self.known.retain(|inode, _| all.contains(inode));
        if all.iter().any(|inode| !self.known.contains_key(inode)) {
            let ids = running.iter().map(|instance| &instance.id);
            let found: BTreeMap<u64, &InstanceId> = ids
                .flat_map(|id| members(id).into_iter().flat_map(open_sockets).map(move |s| (s, id)))
                .collect();
            for inode in all {
                let owner = found.get(&inode).map(|id| (*id).clone());
                self.known.entry(inode).or_insert(owner);
            }
        }
        for instance in &mut running {
            let own = |socket: &&Socket| {
                self.known.get(&socket.inode).and_then(Option::as_ref) == Some(&instance.id)
            };
            let State::Running(state) = &instance.state else { continue };
            let own: Vec<Socket> = open.iter().filter(own).copied().collect();
            let note = note(&own, &state.ports);
            instance.notes.extend(note);
        }
    }
}

/// What is to be said of an instance with these sockets, all of them open to others, and these ports.
fn note(sockets: &[Socket], ports: &[PublishedPort]) -> Option<String> {
    let wanted = |socket: &Socket| {
        ports.iter().any(|port| {
            let same = port.published == Some(socket.port);
            let tcp = port.protocol.transport() == Transport::Tcp;
            same && tcp && port.on.is_none_or(|on| on == socket.address)
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
    let more = places.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = places.into_iter().take(NAMED_MAX).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| {
        format!(
            "it listens on {}{more}, which is open to more than it should be: let it listen on \
             $(ADDRESS)",
            named.join(", ")
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

/// Those of a table of the kernel that listen.
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
        assert!(note(&everywhere, &[port(8080, Some(node))]).is_some());
        let many: Vec<Socket> = (1..=6).map(|port| socket("::", port)).collect();
        assert!(note(&many, &[]).unwrap().contains("[::]:4 and 2 more, which"));
    }

    /// This very test as an instance: it has the socket, and the kernel says so.
    #[test]
    fn a_socket_of_an_instance_is_found_and_that_of_another_program_is_not_taken_for_it() {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let place = format!("0.0.0.0:{}", listener.local_addr().unwrap().port());
        let running = Running {
            name: String::new(),
            pid: None,
            since: std::time::SystemTime::UNIX_EPOCH,
            addresses: Vec::new(),
            ports: Vec::new(),
        };
        let instance = |id: &str| Instance {
            id: id.parse().unwrap(),
            origin: Origin::default(),
            state: State::Running(running.clone()),
            restarts: 0,
            last_exit: None,
            notes: Vec::new(),
            parts: Vec::new(),
        };
        let own = std::process::id();
        let members = |id: &InstanceId| match id.assignment() {
            "a" => vec![own],
            _ => Vec::new(),
        };
        let mut listeners = Listeners::default();
        for _ in 0..2 {
            let mut all = [instance("a.1"), instance("b.1")];
            listeners.note(&mut all, &members);
            assert!(all[0].notes.iter().any(|note| note.contains(&place)), "{:?}", all[0].notes);
            assert!(all[1].notes.is_empty(), "{:?}", all[1].notes);
        }
    }
}
