//! Network interfaces: their kind, speed, state and addresses. Called by [`crate::characterise`];
//! start reading at [`read`].
//!
//! What engines make for their containers (one end of a pair, a bridge without a wire) is left
//! out: it comes and goes with every workload, and is no way to the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use tombolo_model::BitRate;
use tombolo_model::characteristics::Interface;

use crate::root::Root;

const NET: &str = "/sys/class/net";
const INTERFACES_MAX: usize = 64;
const ADDRESSES_MAX: usize = 16;
/// Lines of the routing table that are looked at; a router with the whole Internet has more.
const ROUTES_MAX: usize = 8192;

/// The interfaces, and the addresses at which the machine is reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    pub interfaces: Vec<Interface>,
    /// Without prefix; the addresses of the default route come first.
    pub addresses: Vec<String>,
}

/// One line of the routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub interface: String,
    pub network: u32,
    pub prefix: u32,
    pub direct: bool,
}

/// Addresses of each interface, with the length of the prefix.
type Addresses = BTreeMap<String, Vec<String>>;

pub fn read(root: &Root) -> Network {
    let text = |path: &str| root.read(path).present().unwrap_or_default();
    let routes = parse_routes(&text("/proc/net/route"));
    let local = parse_local_addresses(&text("/proc/net/fib_trie"));
    let mut addresses = attributed(&local, &routes);
    for (interface, address) in parse_inet6(&text("/proc/net/if_inet6")) {
        addresses.entry(interface).or_default().push(address);
    }
    let everywhere: BTreeSet<&str> = routes
        .iter()
        .filter(|route| route.prefix == 0)
        .map(|route| route.interface.as_str())
        .collect();
    let mut interfaces: Vec<Interface> = root
        .list(NET)
        .iter()
        .filter_map(|name| interface(root, name, &addresses, &everywhere))
        .collect();
    interfaces.truncate(INTERFACES_MAX);
    let reached = reached(&interfaces, &everywhere);
    Network { interfaces, addresses: reached }
}

fn interface(
    root: &Root,
    name: &str,
    addresses: &Addresses,
    everywhere: &BTreeSet<&str>,
) -> Option<Interface> {
    let folder = format!("{NET}/{name}");
    let kind = kind(root, name)?;
    let mut addresses = addresses.get(name).cloned().unwrap_or_default();
    addresses.sort();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    let wired = || {
        let ports = root.list(&format!("{folder}/brif"));
        ports.iter().any(|port| root.exists(&format!("{NET}/{port}/device")))
    };
    let ours = match kind {
        "virtual" => !addresses.is_empty() && everywhere.contains(name),
        "bridge" => everywhere.contains(name) || wired(),
        _ => true,
    };
    if !ours {
        return None;
    }
    // Tunnels do not know whether the other side is there: their state is unknown while they work.
    let state = root.text(&format!("{folder}/operstate")).unwrap_or_default();
    let carrier = root.text(&format!("{folder}/carrier")).as_deref() == Some("1");
    let megabits: Option<u64> = root.number(&format!("{folder}/speed"));
    let megabits = megabits.filter(|speed| (1..=10_000_000).contains(speed));
    Some(Interface {
        name: name.chars().take(64).collect(),
        kind: Some(kind.to_owned()),
        speed: megabits.map(|megabits| BitRate::from_bps(megabits * 1_000_000)),
        addresses,
        up: state == "up" || (state == "unknown" && carrier),
    })
}

/// Nothing for what is no interface, and for the loopback interface.
fn kind(root: &Root, name: &str) -> Option<&'static str> {
    let folder = format!("{NET}/{name}");
    let has = |part: &str| root.exists(&format!("{folder}/{part}"));
    let link = root.link(&folder).unwrap_or_default();
    // 1: Ethernet and all that looks like it; 772: loopback.
    let wire: u32 = root.number(&format!("{folder}/type"))?;
    if wire == 772 {
        return None;
    }
    let uevent = root.read(&format!("{folder}/uevent")).present().unwrap_or_default();
    let told = uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
    let kind = match told {
        Some("wlan") => "wifi",
        Some("wwan") => "cellular",
        Some("bridge") => "bridge",
        Some("bond") => "bond",
        Some("vlan") => "vlan",
        Some("wireguard") => "wireguard",
        _ if has("wireless") || has("phy80211") => "wifi",
        _ if name.starts_with("wwan") => "cellular",
        _ if has("bridge") => "bridge",
        _ if has("bonding") => "bond",
        _ if has("tun_flags") => "tunnel",
        _ if wire == 280 => "can",
        _ if wire == 32 => "infiniband",
        _ if link.contains("/virtual/") || !has("device") => "virtual",
        _ => "ethernet",
    };
    Some(kind)
}

/// The addresses of interfaces that are up; a way to everywhere before the others.
fn reached(interfaces: &[Interface], everywhere: &BTreeSet<&str>) -> Vec<String> {
    let mut up: Vec<&Interface> = interfaces.iter().filter(|interface| interface.up).collect();
    up.sort_by_key(|interface| !everywhere.contains(interface.name.as_str()));
    let addresses = up.iter().flat_map(|interface| &interface.addresses);
    let bare = addresses.filter_map(|address| Some(address.split_once('/')?.0.to_owned()));
    bare.take(INTERFACES_MAX).collect()
}

/// Reads `/proc/net/route`. Its numbers are in the machine's own order.
pub fn parse_routes(text: &str) -> Vec<Route> {
    let lines = text.lines().skip(1).take(ROUTES_MAX);
    lines
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let interface = fields.next()?.to_owned();
            let number = |text: Option<&str>| {
                u32::from_str_radix(text?, 16)
                    .ok()
                    .map(|number| u32::from_be_bytes(number.to_ne_bytes()))
            };
            let network = number(fields.next())?;
            let gateway = number(fields.next())?;
            let mask = number(fields.nth(4))?;
            Some(Route { interface, network, prefix: mask.leading_ones(), direct: gateway == 0 })
        })
        .collect()
}

/// Reads `/proc/net/fib_trie`: an address is the machine's own if the line after it says so.
pub fn parse_local_addresses(text: &str) -> BTreeSet<Ipv4Addr> {
    let mut found = BTreeSet::new();
    let mut last = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.filter(|address| !address.is_loopback() && !address.is_link_local()));
        }
    }
    found
}

/// Reads `/proc/net/if_inet6`, without the addresses that only count on their own wire.
pub fn parse_inet6(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().take(ROUTES_MAX);
    lines
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [address, _, prefix, scope, _, interface] = fields[..] else { return None };
            // 00: counts everywhere. The others end at the wire or at the machine.
            if scope != "00" {
                return None;
            }
            let address = Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?);
            let prefix = u8::from_str_radix(prefix, 16).ok().filter(|prefix| *prefix <= 128)?;
            Some((interface.to_owned(), format!("{address}/{prefix}")))
        })
        .collect()
}

/// Each address belongs to the interface with the narrowest network around it.
fn attributed(local: &BTreeSet<Ipv4Addr>, routes: &[Route]) -> Addresses {
    let mut addresses = Addresses::new();
    for address in local {
        let number = u32::from(*address);
        let around = |route: &&Route| {
            let mask = u32::MAX.checked_shl(32 - route.prefix).unwrap_or(0);
            route.direct && route.prefix > 0 && number & mask == route.network & mask
        };
        if let Some(route) = routes.iter().filter(around).max_by_key(|route| route.prefix) {
            let with_prefix = format!("{address}/{}", route.prefix);
            addresses.entry(route.interface.clone()).or_default().push(with_prefix);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0
eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0
wg0 800200C0 00000000 0001 0 0 0 80FFFFFF 0 0 0
broken line
";

    #[test]
    #[cfg(target_endian = "little")]
    fn an_address_belongs_to_the_narrowest_network_around_it() {
        let routes = parse_routes(ROUTES);
        assert_eq!(routes.len(), 3);
        assert_eq!((routes[0].prefix, routes[0].direct), (0, false));
        let local = ["192.0.2.2", "192.0.2.200", "10.0.0.1"];
        let local = local.iter().map(|address| address.parse().unwrap()).collect();
        let found = attributed(&local, &routes);
        let expected = BTreeMap::from([
            ("eth0".to_owned(), vec!["192.0.2.2/24".to_owned()]),
            ("wg0".to_owned(), vec!["192.0.2.200/25".to_owned()]),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn only_own_addresses_are_taken_from_the_trie() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n  |-- 127.0.0.1\n    /32 host LOCAL\n  \
                    |-- 192.0.2.0\n    /24 link UNICAST\n  |-- 192.0.2.2\n    /32 host LOCAL\n  \
                    |-- 169.254.1.1\n    /32 host LOCAL\n  |-- 192.0.2.255\n    /32 link BROADCAST\n";
        let found: Vec<String> =
            parse_local_addresses(trie).iter().map(Ipv4Addr::to_string).collect();
        assert_eq!(found, ["192.0.2.2"]);
        assert!(parse_local_addresses("|-- x\n/32 host LOCAL\n").is_empty());
    }

    #[test]
    fn addresses_of_one_wire_are_left_out() {
        let text = "20010db8000000000000000000000002 04 40 00 82     eth0\n\
                    fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                    00000000000000000000000000000001 01 80 10 80       lo\n\
                    nonsense\nzz 04 40 00 82 eth1\n2 04 ff 00 82 eth1\n";
        let expected = [("eth0".to_owned(), "2001:db8::2/64".to_owned())];
        assert_eq!(parse_inet6(text), expected);
    }
}
