//! Addresses: of machines, of nets, of pages.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::rc::Rc;

use super::{Row, arguments, failed};
use crate::budget::Budget;
use crate::value::{Evaluated, Value};

pub(super) const ROWS: &[Row] = &[
    ("ip", "string", "ip", |v, _| made(v, |text| parse_ip(text).map(Value::Ip), "an IP address")),
    ("isIP", "string", "bool", |v, _| is(v, |text| parse_ip(text).is_some())),
    ("ip.isCanonical", "string", "bool", is_canonical),
    ("family", "ip . ", "int", |v, _| of_ip(v, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 }))),
    ("isUnspecified", "ip . ", "bool", |v, _| of_ip(v, |ip| Value::Bool(ip.is_unspecified()))),
    ("isLoopback", "ip . ", "bool", |v, _| of_ip(v, |ip| Value::Bool(ip.is_loopback()))),
    ("isLinkLocalMulticast", "ip . ", "bool", |v, _| {
        of_ip(v, |ip| Value::Bool(is_local_multicast(ip)))
    }),
    ("isLinkLocalUnicast", "ip . ", "bool", |v, _| {
        of_ip(v, |ip| Value::Bool(is_local_unicast(ip)))
    }),
    ("isGlobalUnicast", "ip . ", "bool", |v, _| of_ip(v, |ip| Value::Bool(is_global_unicast(ip)))),
    ("cidr", "string", "cidr", |v, _| {
        made(v, |text| Cidr::parse(text).map(Value::Cidr), "a network address")
    }),
    ("isCIDR", "string", "bool", |v, _| is(v, |text| Cidr::parse(text).is_some())),
    ("containsIP", "cidr . string", "bool", contains),
    ("containsIP", "cidr . ip", "bool", contains),
    ("containsCIDR", "cidr . string", "bool", contains_net),
    ("containsCIDR", "cidr . cidr", "bool", contains_net),
    ("ip", "cidr . ", "ip", |v, _| of_net(v, |net| Value::Ip(net.address))),
    ("prefixLength", "cidr . ", "int", |v, _| of_net(v, |net| Value::Int(i64::from(net.length)))),
    ("masked", "cidr . ", "cidr", |v, _| of_net(v, |net| Value::Cidr(net.masked()))),
    ("url", "string", "url", |v, b| {
        spend(v, b)?;
        made(v, |text| Url::parse(text).map(|url| Value::Url(Rc::new(url))), "a URL")
    }),
    ("isURL", "string", "bool", |v, b| {
        spend(v, b)?;
        is(v, |text| Url::parse(text).is_some())
    }),
    ("getScheme", "url . ", "string", |v, _| of_url(v, |url| Value::text(url.scheme.as_str()))),
    ("getHost", "url . ", "string", |v, _| of_url(v, |url| Value::text(url.host()))),
    ("getHostname", "url . ", "string", |v, _| of_url(v, |url| Value::text(url.hostname.as_str()))),
    ("getPort", "url . ", "string", |v, _| of_url(v, |url| Value::text(url.port.as_str()))),
    ("getEscapedPath", "url . ", "string", |v, _| of_url(v, |url| Value::text(url.path.as_str()))),
    ("getQuery", "url . ", "map(string, list(string))", |v, _| of_url(v, Url::query)),
];

fn spend(values: &[Value<'_>], budget: &mut Budget) -> Result<(), crate::error::EvalError> {
    match values.first() {
        Some(Value::String(text)) => budget.make(text.len()),
        _ => Ok(()),
    }
}

fn made<'a>(
    values: &[Value<'a>],
    parse: fn(&str) -> Option<Value<'a>>,
    what: &str,
) -> Evaluated<'a> {
    arguments!(values, [Value::String(text)]);
    parse(text).map_or_else(|| failed(format!("{:?} is not {what}", shortened(text))), Ok)
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

fn is<'a>(values: &[Value<'a>], test: fn(&str) -> bool) -> Evaluated<'a> {
    arguments!(values, [Value::String(text)]);
    Ok(Value::Bool(test(text)))
}

/// No zones, and no IPv4 address within one of IPv6.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    match ip {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => None,
        ip => Some(ip),
    }
}

fn is_canonical<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    arguments!(values, [Value::String(text)]);
    match parse_ip(text) {
        Some(ip) => Ok(Value::Bool(ip.to_string() == **text)),
        None => failed(format!("{:?} is not an IP address", shortened(text))),
    }
}

fn of_ip<'a>(values: &[Value<'a>], run: fn(IpAddr) -> Value<'a>) -> Evaluated<'a> {
    arguments!(values, [Value::Ip(ip)]);
    Ok(run(*ip))
}

fn is_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    !is_broadcast
        && !ip.is_unspecified()
        && !ip.is_loopback()
        && !ip.is_multicast()
        && !is_local_unicast(ip)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    length: u8,
}

impl Cidr {
    fn parse(text: &str) -> Option<Cidr> {
        let (address, length) = text.split_once('/')?;
        let address = parse_ip(address)?;
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let written_short = length == "0" || !length.starts_with('0');
        let length: u8 = (digits && written_short).then(|| length.parse().ok()).flatten()?;
        (length <= if address.is_ipv4() { 32 } else { 128 }).then_some(Cidr { address, length })
    }

    fn masked(self) -> Cidr {
        let bits = |all: u32| u32::from(self.length).min(all);
        let address = match self.address {
            IpAddr::V4(four) => {
                let mask = u32::MAX.checked_shl(32 - bits(32)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(four) & mask))
            }
            IpAddr::V6(six) => {
                let mask = u128::MAX.checked_shl(128 - bits(128)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(six) & mask))
            }
        };
        Cidr { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        same_family && Cidr { address, ..self }.masked() == self.masked()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

fn of_net<'a>(values: &[Value<'a>], run: fn(Cidr) -> Value<'a>) -> Evaluated<'a> {
    arguments!(values, [Value::Cidr(net)]);
    Ok(run(*net))
}

fn contains<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Cidr(net), Value::Ip(ip)] => Ok(Value::Bool(net.contains(*ip))),
        [Value::Cidr(net), Value::String(text)] => match parse_ip(text) {
            Some(ip) => Ok(Value::Bool(net.contains(ip))),
            None => failed(format!("{:?} is not an IP address", shortened(text))),
        },
        _ => failed("unexpected arguments"),
    }
}

fn contains_net<'a>(values: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let (net, inner) = match values {
        [Value::Cidr(net), Value::Cidr(inner)] => (net, *inner),
        [Value::Cidr(net), Value::String(text)] => match Cidr::parse(text) {
            Some(inner) => (net, inner),
            None => return failed(format!("{:?} is not a network address", shortened(text))),
        },
        _ => return failed("unexpected arguments"),
    };
    Ok(Value::Bool(inner.length >= net.length && net.contains(inner.address)))
}

/// An absolute URL, or a path from the root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    hostname: String,
    port: String,
    path: String,
    query: String,
    is_six: bool,
}

impl Url {
    fn parse(text: &str) -> Option<Url> {
        let bad = |letter: char| letter.is_control() || letter == '\u{7f}';
        if text.is_empty() || text.contains(bad) || !escapes_are_whole(text) {
            return None;
        }
        let before_fragment = text.split_once('#').map_or(text, |(before, _)| before);
        let (rest, query) = before_fragment.split_once('?').unwrap_or((before_fragment, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ if rest.starts_with('/') => (String::new(), rest),
            _ => return None,
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            _ => ("", rest),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (hostname, port, is_six) = match host.strip_prefix('[') {
            Some(six) => {
                let (address, port) = six.split_once(']')?;
                let port = if port.is_empty() { "" } else { port.strip_prefix(':')? };
                (address, port, true)
            }
            None => {
                let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
                (name, port, false)
            }
        };
        if !port.bytes().all(|byte| byte.is_ascii_digit())
            || hostname.contains([' ', '<', '>', '"', '^'])
        {
            return None;
        }
        let (hostname, port, query) = (hostname.to_owned(), port.to_owned(), query.to_owned());
        Some(Url { scheme, hostname, port, path: escaped(path), query, is_six })
    }

    fn host(&self) -> String {
        let name = if self.is_six { format!("[{}]", self.hostname) } else { self.hostname.clone() };
        if self.port.is_empty() { name } else { format!("{name}:{}", self.port) }
    }

    fn query<'a>(&self) -> Value<'a> {
        let mut entries: Vec<(String, Vec<Value<'_>>)> = Vec::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (unescaped(key), Value::text(unescaped(value)));
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => entries.push((key, vec![value])),
            }
        }
        let entries =
            entries.into_iter().map(|(key, values)| (Value::text(key), Value::list(values)));
        Value::Map(crate::value::Map::Made(entries.collect()))
    }
}

fn is_scheme(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text.chars().all(fits)
}

fn escapes_are_whole(text: &str) -> bool {
    let mut parts = text.split('%').skip(1);
    parts.all(|part| {
        let bytes = part.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

/// What may not stand in a path is written as the code of its bytes.
fn escaped(path: &str) -> String {
    let mut text = String::new();
    for letter in path.chars() {
        if letter.is_ascii_alphanumeric() || "$&+,/:;=@%-_.~!*'()[]".contains(letter) {
            text.push(letter);
            continue;
        }
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(letter) = rest.chars().next() {
        let code =
            rest.strip_prefix('%').and_then(|rest| u8::from_str_radix(rest.get(..2)?, 16).ok());
        match (letter, code) {
            ('%', Some(code)) => {
                bytes.push(code);
                rest = &rest[3..];
                continue;
            }
            ('+', _) => bytes.push(b' '),
            (letter, _) => bytes.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = &rest[letter.len_utf8()..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn of_url<'a>(values: &[Value<'a>], run: fn(&Url) -> Value<'a>) -> Evaluated<'a> {
    arguments!(values, [Value::Url(url)]);
    Ok(run(url))
}

pub(super) fn is_uri(text: &str) -> bool {
    Url::parse(text).is_some()
}
