//! The key around the Secrets of the cache: made of the agent's own and the machine's id, so that a copied
//! folder does not open elsewhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{Context, SHA256};

use crate::Error;

const SALT: &[u8] = b"tombolo.dev agent cache 1\0";

pub(super) struct Key(tombolo_seal::Key);

impl Key {
    pub(super) fn new(agent_key: &str, machine: &str) -> Key {
        let mut digest = Context::new(&SHA256);
        digest.update(SALT);
        digest.update(machine.as_bytes());
        digest.update(b"\0");
        digest.update(agent_key.as_bytes());
        let bytes = digest.finish().as_ref().try_into();
        Key(tombolo_seal::Key::new(bytes.expect("SHA-256 has the length of the key")))
    }

    pub(super) fn seal(&self, bytes: Vec<u8>) -> Result<String, Error> {
        let sealed = self.0.seal(SALT, bytes).map_err(|error| {
            let doing = "seal the secrets";
            Error::Identity(tombolo_identity::Error::Cryptography { doing, source: error.into() })
        })?;
        Ok(BASE64.encode(sealed))
    }

    /// `None` if it was sealed with another key, or changed since.
    pub(super) fn open(&self, sealed: &str) -> Option<Vec<u8>> {
        self.0.open(SALT, &BASE64.decode(sealed).ok()?)
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
    }
}
