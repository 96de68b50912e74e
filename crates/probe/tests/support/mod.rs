//! Network namespaces with pairs of virtual links between them, and programs that a machine may not have.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Notes that a test did not run, and why: on its output, and in the list at the end of `make test`.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("SKIPPED {test}: {reason}");
    let Ok(path) = std::env::var("TOMBOLO_SKIPS") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "SKIPPED {test}: {reason}").unwrap();
}

/// Several namespaces, gone with this value.
pub(crate) struct Net {
    /// So that tests that run at once do not meet.
    prefix: String,
    names: Vec<&'static str>,
}

impl Net {
    /// Namespaces in a row, each linked to the next; `None`, and noted, where this machine cannot make any.
    pub(crate) fn row(test: &str, names: &[&'static str]) -> Option<Net> {
        let prefix = format!("tp{}{}", std::process::id(), &test[..test.len().min(3)]);
        let mut net = Net { prefix, names: Vec::new() };
        for name in names {
            if !works(&["ip", "netns", "add", &net.full(name)]) {
                skip(test, "no network namespaces: this takes root and iproute2");
                return None;
            }
            net.names.push(name);
            net.run(name, "ip link set lo up");
        }
        for (index, pair) in names.windows(2).enumerate() {
            let [left, right] = [&pair[0], &pair[1]];
            let link = format!(
                "ip link add r{index} type veth peer name l{index} netns {}",
                net.full(right),
            );
            net.run(left, &link);
            for (name, side, host) in [(left, "r", 1), (right, "l", 2)] {
                net.run(name, &format!("ip addr add 10.77.{index}.{host}/24 dev {side}{index}"));
                net.run(name, &format!("ip link set {side}{index} up"));
            }
        }
        Some(net)
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Runs a command in a namespace; it has to work.
    pub(crate) fn run(&self, name: &str, command: &str) {
        assert!(self.tries(name, command), "{command} in {name}");
    }

    /// Whether a command works in a namespace.
    pub(crate) fn tries(&self, name: &str, command: &str) -> bool {
        let full = self.full(name);
        let words = ["ip", "netns", "exec", &full].into_iter().chain(command.split(' '));
        works(&words.collect::<Vec<_>>())
    }

    /// A socket of a namespace. A thread of its own goes there, so that the test stays where it is.
    pub(crate) fn socket(&self, name: &str, address: Ipv4Addr) -> UdpSocket {
        let path = format!("/var/run/netns/{}", self.full(name));
        let made = std::thread::spawn(move || {
            let space = std::fs::File::open(path).unwrap();
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            UdpSocket::bind(SocketAddr::from((address, 0))).unwrap()
        });
        made.join().unwrap()
    }

    /// The same for programs that do it without waiting.
    pub(crate) fn tokio_socket(&self, name: &str, address: Ipv4Addr) -> tokio::net::UdpSocket {
        let socket = self.socket(name, address);
        socket.set_nonblocking(true).unwrap();
        tokio::net::UdpSocket::from_std(socket).unwrap()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            works(&["ip", "netns", "del", &self.full(name)]);
        }
    }
}

fn works(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Another project's STAMP, if `scripts/stamp-suite.sh` has built it; otherwise the test is noted as skipped.
pub(crate) fn stamp_suite(test: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let program = cache.map(|cache| cache.join("tombolo/bin/stamp-suite"));
    let program = program.filter(|program| program.is_file());
    if program.is_none() {
        skip(test, "no stamp-suite; scripts/stamp-suite.sh builds it");
    }
    program
}
