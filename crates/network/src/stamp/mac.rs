//! HMAC-SHA-256, cut to sixteen octets, as the authenticated packets carry it (RFC 2104, RFC 4868).

use sha2::{Digest as _, Sha256};

/// Octets of a code in a packet.
pub(super) const CODE: usize = 16;
const BLOCK: usize = 64;

/// The secret that two ends share.
#[derive(Clone)]
pub struct Key {
    inner: [u8; BLOCK],
    outer: [u8; BLOCK],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(…)")
    }
}

impl Key {
    pub fn new(secret: &[u8]) -> Key {
        let mut block = [0; BLOCK];
        if secret.len() > BLOCK {
            block[..32].copy_from_slice(&Sha256::digest(secret));
        } else {
            block[..secret.len()].copy_from_slice(secret);
        }
        Key { inner: block.map(|octet| octet ^ 0x36), outer: block.map(|octet| octet ^ 0x5c) }
    }

    pub(super) fn code(&self, parts: &[&[u8]]) -> [u8; CODE] {
        let mut inner = Sha256::new_with_prefix(self.inner);
        for part in parts {
            inner.update(part);
        }
        let whole = Sha256::new_with_prefix(self.outer).chain_update(inner.finalize()).finalize();
        let mut code = [0; CODE];
        code.copy_from_slice(&whole[..CODE]);
        code
    }

    /// Takes the same time whichever octet is wrong.
    pub(super) fn holds(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        let right = self.code(parts);
        let differ = right.iter().zip(code).fold(0, |differ, (a, b)| differ | (a ^ b));
        code.len() == CODE && differ == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    #[test]
    fn the_codes_are_those_of_rfc_4231() {
        let short = Key::new(b"Jefe").code(&[b"what do ya want ", b"for nothing?"]);
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c7");
        let long = Key::new(&[0xaa; 131]);
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&long.code(&[text])), "60e431591ee0b67f0d8a26aacbf5b77f");
        assert!(long.holds(&[text], &long.code(&[text])));
        assert!(!long.holds(&[text], &[0; CODE]));
        assert!(!long.holds(&[text], &[]));
    }
}
