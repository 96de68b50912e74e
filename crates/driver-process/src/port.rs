//! Which ports of the machine an instance listens on, and whether they are free. A program that asks
//! for its port (see [`tombolo_driver::Process`]) gets a free one, the same at every start if that can be.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;

use tombolo_driver::{Error, InstanceId, Port, Process, PublishedPort, Result, Spec};
use tombolo_model::component::Protocol;

use crate::procfs;

/// Below those that the kernel gives to connections by itself, which begin at 32768.
const FREE: Range<u16> = 20_000..32_000;

/// The port of the machine for each port of the instance. `kept` are those of its last run, `taken` ports
/// that others were given and perhaps do not listen on yet.
pub(crate) fn choose(
    spec: &Spec,
    process: &Process,
    kept: &[PublishedPort],
    taken: &[u16],
) -> Result<Vec<PublishedPort>> {
    let mut chosen: Vec<PublishedPort> = Vec::new();
    for port in &spec.ports {
        let published = match (spec.takes_any(process, port.port), port.published) {
            (false, Some(published)) if published != port.port => {
                let what = format!(
                    "port {} cannot be published as {published}: a process listens on the machine's \
                     own ports; let its command take $(PORT_{})",
                    port.port, port.port
                );
                return Err(Error::Invalid { what });
            }
            (false, _) => check(port.port, port.protocol)?,
            (true, Some(published)) => check(published, port.protocol)?,
            (true, None) => {
                let given = chosen.iter().filter_map(|port| port.published);
                let taken: Vec<u16> = given.chain(taken.iter().copied()).collect();
                let last = kept.iter().find(|kept| kept.port == port.port);
                free(&spec.id, port, last.and_then(|kept| kept.published), &taken)?
            }
        };
        let (on, published) = (spec.opens_on(port.reach), Some(published));
        let (port, protocol) = (port.port, port.protocol);
        chosen.push(PublishedPort { port, protocol, published, on });
    }
    Ok(chosen)
}

/// The port itself, if nobody listens on it.
fn check(port: u16, protocol: Protocol) -> Result<u16> {
    match bind(port, protocol) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(Error::PortTaken { port, protocol, holder: holder(port, protocol) })
        }
        // Whatever else is the matter, the program itself may be allowed what we are not.
        Ok(()) | Err(_) => Ok(port),
    }
}

/// The last port again, or the first free port from a place that depends on the instance: two agents on
/// one machine should not try the same at the same time.
fn free(id: &InstanceId, port: &Port, last: Option<u16>, taken: &[u16]) -> Result<u16> {
    let mut hasher = DefaultHasher::new();
    (id, port.port).hash(&mut hasher);
    let length = u64::from(FREE.end - FREE.start);
    let offset = u16::try_from(hasher.finish() % length).unwrap_or(0);
    let begin = FREE.start + offset;
    let is_free =
        |candidate: &u16| !taken.contains(candidate) && bind(*candidate, port.protocol).is_ok();
    let candidates = last.into_iter().chain(begin..FREE.end).chain(FREE.start..begin);
    candidates.into_iter().find(is_free).ok_or_else(|| Error::PortTaken {
        port: port.port,
        protocol: port.protocol,
        holder: None,
    })
}

fn bind(port: u16, protocol: Protocol) -> io::Result<()> {
    match protocol {
        Protocol::Udp => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).map(drop),
        Protocol::Tcp | Protocol::Http | Protocol::Https => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).map(drop)
        }
    }
}

/// Who has the port, as far as we may know: `nginx (process 812)`.
fn holder(port: u16, protocol: Protocol) -> Option<String> {
    let (files, state) = match protocol {
        Protocol::Udp => (["/proc/net/udp", "/proc/net/udp6"], "07"),
        Protocol::Tcp | Protocol::Http | Protocol::Https => {
            (["/proc/net/tcp", "/proc/net/tcp6"], "0A")
        }
    };
    let tables = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let sockets: Vec<String> = tables.flat_map(|table| listening(&table, port, state)).collect();
    let holds = |pid: &u32| {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links
            .into_iter()
            .any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
    };
    let pid = procfs::all().into_iter().find(holds)?;
    Some(format!("{} (process {pid})", procfs::name(pid)?))
}

/// The sockets of a table that have the port and are in this state, as `/proc` names them.
fn listening(table: &str, port: u16, state: &str) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let matches = fields.get(1)?.ends_with(&wanted) && *fields.get(3)? == state;
        matches.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]"))).flatten()
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use tombolo_model::component::Reach;

    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told_with_its_holder() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = check(port, Protocol::Http).unwrap_err();
        let own = std::process::id();
        let shown = error.to_string();
        assert_eq!(error.reason(), "PortTaken");
        assert!(shown.ends_with(&format!("(process {own})")), "{shown}");
        assert!(check(port, Protocol::Udp).is_ok());
    }

    #[test]
    fn a_table_of_sockets_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1\n\
                     1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 4712 1\n";
        assert_eq!(listening(table, 8080, "0A"), ["socket:[4711]"]);
        assert!(listening(table, 8081, "0A").is_empty());
    }

    #[test]
    fn a_free_port_is_the_same_again() {
        let id: InstanceId = "a.1".parse().unwrap();
        let port = Port {
            port: 80,
            protocol: Protocol::Tcp,
            published: None,
            exposed: false,
            reach: Reach::Loopback,
        };
        let first = free(&id, &port, None, &[]).unwrap();
        assert!(FREE.contains(&first));
        assert_ne!(free(&id, &port, None, &[first]).unwrap(), first);
        assert_eq!(free(&id, &port, Some(first), &[]).unwrap(), first);
    }
}
