//! A name for the machine that stays the same over restarts, reinstalled agents and renamings.
//! Called by [`crate::characterise`].
//!
//! What the machine has of its own (its machine-id, its board's number) is a secret by its manual:
//! who knows it can recognise the machine elsewhere. So only a hash of it goes out, and one that is
//! of no use outside Tombolo.

use sha2::{Digest, Sha256};

use crate::root::Root;

/// Goes into every hash, so that ours are like nobody else's.
const SALT: &[u8] = b"tombolo.dev node uuid 1\0";

/// Where the name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the machine-id that the system was given when it was installed.
    MachineId,
    /// From the number of the board.
    Board,
    /// From what the caller has kept.
    Kept,
    /// Just thrown. The caller keeps it, else the machine would have another name next time.
    Generated,
    /// There is none: the kernel did not even give random bytes.
    Missing,
}

/// What machines have of their own, the best first.
const OWN: &[(&str, Source)] = &[
    ("/etc/machine-id", Source::MachineId),
    ("/var/lib/dbus/machine-id", Source::MachineId),
    ("/sys/class/dmi/id/product_uuid", Source::Board),
    ("/proc/device-tree/serial-number", Source::Board),
    ("/sys/firmware/devicetree/base/serial-number", Source::Board),
];

/// Once a caller has kept a generated one, it stays: a machine-id that turns up later must not make
/// it another machine.
pub fn read(root: &Root, kept: Option<&str>) -> (Option<String>, Source) {
    if let Some(kept) = kept {
        return (Some(kept.to_owned()), Source::Kept);
    }
    let own = OWN.iter().find_map(|(path, source)| {
        let text = root.text(path).filter(|text| tells_apart(text))?;
        Some((Some(derived(&text)), *source))
    });
    if let Some(own) = own {
        return own;
    }
    match root.text("/proc/sys/kernel/random/uuid") {
        Some(random) => (crate::clean::line(&random, 36), Source::Generated),
        None => (None, Source::Missing),
    }
}

/// A UUID of version 8, which is the version for private ways of hashing.
pub fn derived(secret: &str) -> String {
    let hash =
        Sha256::new().chain_update(SALT).chain_update(secret.trim().to_lowercase()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Whether a text can be one machine's own: not what images and makers put in its place.
fn tells_apart(text: &str) -> bool {
    let mut digits = text.chars().filter(char::is_ascii_hexdigit);
    let first = digits.next();
    let differs = digits.any(|digit| Some(digit) != first);
    let placeholder = text.starts_with("uninitialized")
        || text.eq_ignore_ascii_case("03000200-0400-0500-0006-000700080009");
    text.len() >= 8 && differs && !placeholder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_cannot_be_seen_in_the_name() {
        let secret = "5b1e0c9d7a2f4468b3d0e1f2a3948576";
        let name = derived(secret);
        assert_eq!(name, derived(&format!("{}\n", secret.to_uppercase())));
        assert_ne!(name, derived("5b1e0c9d7a2f4468b3d0e1f2a3948577"));
        assert!(!name.replace('-', "").contains(&secret[..8]));
        // The agents of a running continuum know each other by it: it must never change.
        assert_eq!(name, "d6174a9e-9f8d-89e8-8d6e-9c8f24fdf4c2");
    }

    #[test]
    fn what_is_the_same_on_many_machines_is_not_taken() {
        for text in [
            "uninitialized",
            "00000000000000000000000000000000",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
            "03000200-0400-0500-0006-000700080009",
            "",
            "0",
        ] {
            assert!(!tells_apart(text), "{text:?}");
        }
        assert!(tells_apart("5b1e0c9d7a2f4468b3d0e1f2a3948576"));
        assert!(tells_apart("10000000e3a1b2c3"));
    }
}
