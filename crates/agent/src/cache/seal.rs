//! AES-256-GCM around the Secrets of the cache.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{Context, SHA256};

use crate::Error;

const SALT: &[u8] = b"tombolo.dev agent cache 1\0";

pub(super) struct Key(LessSafeKey);

impl Key {
    pub(super) fn new(agent_key: &str, machine: &str) -> Key {
        let mut digest = Context::new(&SHA256);
        digest.update(SALT);
        digest.update(machine.as_bytes());
        digest.update(b"\0");
        digest.update(agent_key.as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, digest.finish().as_ref());
        Key(LessSafeKey::new(key.expect("SHA-256 has the length of the key")))
    }

    /// The nonce, then the sealed bytes.
    pub(super) fn seal(&self, mut bytes: Vec<u8>) -> Result<String, Error> {
        let failed = |doing, problem: String| {
            Error::Identity(tombolo_identity::Error::Cryptography { doing, source: problem.into() })
        };
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)
            .map_err(|error| failed("draw random bytes", error.to_string()))?;
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_in_place_append_tag(unique, Aad::from(SALT), &mut bytes)
            .map_err(|error| failed("seal the secrets", error.to_string()))?;
        Ok(BASE64.encode([nonce.as_slice(), &bytes].concat()))
    }

    /// `None` if it was sealed with another key, or changed since.
    pub(super) fn open(&self, sealed: &str) -> Option<Vec<u8>> {
        let bytes = BASE64.decode(sealed).ok()?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.0.open_in_place(nonce, Aad::from(SALT), &mut rest).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_with_the_same_key_on_the_same_machine_only() {
        let sealed = Key::new("key", "machine").seal(b"hunter2".to_vec()).unwrap();
        assert!(!sealed.contains("hunter2"));
        assert_eq!(Key::new("key", "machine").open(&sealed).unwrap(), b"hunter2");
        assert_eq!(Key::new("key", "other").open(&sealed), None);
        assert_eq!(Key::new("other", "machine").open(&sealed), None);
        assert_eq!(Key::new("key", "machine").open("not sealed"), None);
        let again = Key::new("key", "machine").seal(b"hunter2".to_vec()).unwrap();
        assert_ne!(sealed, again, "no nonce twice");
    }
}
