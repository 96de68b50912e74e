//! Which machine this is, and which start of the agent.

use std::fs;
use std::net::{IpAddr, UdpSocket};

use tombolo_identity::Error;

use crate::credentials::Folder;

/// Where Linux keeps the id that its installation drew.
const MACHINE_ID: &str = "/etc/machine-id";
/// Kept in the data folder on a machine that has no id of its own.
const OWN_ID: &str = "machine";
const ID_BYTES_MAX: usize = 64;

/// What tells this machine from others, for as long as it is not set up anew.
pub fn id(folder: &Folder) -> Result<String, crate::Error> {
    if let Some(id) = fs::read_to_string(MACHINE_ID).ok().as_deref().and_then(usable) {
        return Ok(id);
    }
    if let Some(id) = folder.read(OWN_ID)?.as_deref().and_then(usable) {
        return Ok(id);
    }
    let id = random_hex()?;
    folder.write(OWN_ID, &id)?;
    Ok(id)
}

/// Which start this is. Never written to the data folder: a copy of the folder must not have the same.
pub fn instance(machine: &str) -> Result<String, crate::Error> {
    Ok(format!("{machine}.{}", &random_hex()?[..12]))
}

/// The name under which the machine joins if none is given.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let allowed = |character: &char| character.is_ascii_alphanumeric() || "-.".contains(*character);
    let name: String = name.chars().filter(allowed).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// The address, if a program of this machine can listen on it; nothing for a name, or for an address that
/// another machine forwards to this one.
pub(crate) fn own_address(address: &str) -> Option<IpAddr> {
    let address = address.parse().ok()?;
    UdpSocket::bind((address, 0)).is_ok().then_some(address)
}

fn usable(text: &str) -> Option<String> {
    let id = text.trim();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let fits = !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(allowed);
    // An image for many machines says this until each has drawn its own.
    (fits && id != "uninitialized").then(|| id.to_owned())
}

pub(crate) fn random_hex() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Cryptography {
        doing: "draw random bytes",
        source: error.to_string().into(),
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_only_if_it_tells_machines_apart() {
        assert_eq!(usable(" 4f2a\n").as_deref(), Some("4f2a"));
        assert_eq!(usable("uninitialized\n"), None);
        assert_eq!(usable(""), None);
        assert_eq!(usable("a b"), None);
        assert_eq!(usable(&"a".repeat(65)), None);
    }

    #[test]
    fn only_what_can_be_listened_on_is_an_address_of_this_machine() {
        assert_eq!(own_address("127.0.0.1"), Some(IpAddr::from([127, 0, 0, 1])));
        assert_eq!(own_address("192.0.2.7"), None, "nobody has an address of the documentation");
        assert_eq!(own_address("crane.example"), None);
    }

    #[test]
    fn two_starts_of_one_machine_differ() {
        assert_ne!(instance("m").unwrap(), instance("m").unwrap());
    }
}
