//! The formats of strings and numbers that are checked. A format that is not in the table says
//! something to people and to other programs, and nothing here.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{Span, Timestamp, civil::Date};
use serde_json::Value;

/// One row: the name, what a value of the format is called, and the check.
struct Format {
    name: &'static str,
    expected: &'static str,
    fits: fn(&str) -> bool,
}

const FORMATS: &[Format] = &[
    Format { name: "byte", expected: "base64", fits: |text| STANDARD.decode(text).is_ok() },
    Format { name: "cidr", expected: "a network such as 10.0.0.0/8", fits: is_network },
    Format { name: "date", expected: "a date such as 2030-01-31", fits: is_date },
    Format { name: "date-time", expected: TIME_EXPECTED, fits: is_time },
    Format { name: "datetime", expected: TIME_EXPECTED, fits: is_time },
    Format { name: "duration", expected: "a duration such as 1h30m", fits: is_duration },
    Format { name: "email", expected: "an email address", fits: is_email },
    Format { name: "hostname", expected: "a host name", fits: is_hostname },
    Format { name: "ipv4", expected: "an IPv4 address", fits: is_ipv4 },
    Format { name: "ipv6", expected: "an IPv6 address", fits: is_ipv6 },
    Format { name: "mac", expected: "a MAC address such as 02:00:5e:10:00:01", fits: is_mac },
    Format { name: "uri", expected: "a URI such as https://example.org/", fits: is_uri },
    Format { name: "uuid", expected: "a UUID", fits: is_uuid },
];

const TIME_EXPECTED: &str = "a time such as 2030-01-31T12:00:00Z";

/// What the value should have been, if it is not.
pub(super) fn mismatch(name: &str, value: &Value) -> Option<&'static str> {
    match (name, value) {
        ("int32", Value::Number(number)) => {
            let fits = match number.as_i64() {
                Some(integer) => i32::try_from(integer).is_ok(),
                None => number.as_f64().is_some_and(|float| {
                    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
                }),
            };
            (!fits).then_some("a number of 32 bits, from -2147483648 to 2147483647")
        }
        // Whatever is less than 2^63 as a float is so as an integer.
        ("int64", Value::Number(number)) if !number.is_i64() => {
            let fits = number.as_f64().is_some_and(|float| float.abs() < 9.223_372_036_854_776e18);
            (!fits).then_some("a number of 64 bits")
        }
        (_, Value::String(text)) => {
            let format = FORMATS.iter().find(|format| format.name == name)?;
            (!(format.fits)(text)).then_some(format.expected)
        }
        _ => None,
    }
}

fn is_time(text: &str) -> bool {
    // The parser also takes a space for the T, and a zone in brackets.
    let separated = matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    separated && !text.contains('[') && text.parse::<Timestamp>().is_ok()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

fn is_duration(text: &str) -> bool {
    text == "0" || text.parse::<Span>().is_ok()
}

fn is_email(text: &str) -> bool {
    match text.rsplit_once('@') {
        Some((person, host)) => {
            !person.is_empty() && !text.contains(char::is_whitespace) && is_hostname(host)
        }
        None => false,
    }
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits_max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= bits_max)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let pairs: Vec<&str> = text.split(separator).collect();
    matches!(pairs.len(), 6 | 8)
        && pairs.iter().all(|pair| pair.len() == 2 && u8::from_str_radix(pair, 16).is_ok())
}

fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return false;
    }
    let scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    text.starts_with('/') || text.split_once(':').is_some_and(|(before, _)| scheme(before))
}

fn is_uuid(text: &str) -> bool {
    let dashed = text.len() == 36;
    let fits = |(at, byte): (usize, u8)| match dashed && matches!(at, 8 | 13 | 18 | 23) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    (dashed || text.len() == 32) && text.bytes().enumerate().all(fits)
}
