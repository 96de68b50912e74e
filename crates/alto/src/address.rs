//! Addresses and prefixes, and which prefix an address belongs to (RFC 7285, 10.4 and 11.2.2).

use std::fmt;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An endpoint, as `ipv4:192.0.2.1` or `ipv6:2001:db8::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub IpAddr);

/// Addresses that begin alike, as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    first: IpAddr,
    bits: u8,
}

/// How the family of an address is called.
pub(crate) fn family(address: &IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "ipv4",
        IpAddr::V6(_) => "ipv6",
    }
}

pub(crate) const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

impl Address {
    pub fn parse(text: &str) -> Option<Address> {
        let (family, address) = text.split_once(':')?;
        let address = match family {
            "ipv4" => IpAddr::V4(address.parse::<Ipv4Addr>().ok()?),
            "ipv6" => IpAddr::V6(address.parse::<Ipv6Addr>().ok()?),
            _ => return None,
        };
        Some(Address(address))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", family(&self.0), self.0)
    }
}

impl Prefix {
    /// A length beyond the address, or none, is no prefix. Bits behind the length are dropped, as RFC 7285 has them in
    /// its own examples.
    pub fn parse(text: &str) -> Option<Prefix> {
        let (address, bits) = text.split_once('/')?;
        let plain = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|b| b.is_ascii_digit());
        Prefix::new(address.parse().ok()?, bits.parse().ok().filter(|_| plain)?)
    }

    pub fn new(address: IpAddr, bits: u8) -> Option<Prefix> {
        let first = match address {
            IpAddr::V4(address) if bits <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some(Prefix { first, bits })
    }

    pub fn family(&self) -> &'static str {
        family(&self.first)
    }

    /// The longer, the more is known of who has it.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    pub fn holds(&self, address: &Address) -> bool {
        family(&self.first) == family(&address.0)
            && Prefix::new(address.0, self.bits).is_some_and(|prefix| prefix == *self)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.first, self.bits)
    }
}
