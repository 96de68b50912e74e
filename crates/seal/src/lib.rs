//! What must not lie on a disk in clear is sealed here, with AES-256-GCM: nobody reads it without the
//! key, and nobody changes it unnoticed.
//!
//! [`Key::seal`] is for a small thing that is read whole: a record of the store, the Secrets in the cache
//! of an agent. [`Writer`] and [`Reader`] are for a file of any length: a backup. Start at [`Key`].

mod stream;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

pub use crate::stream::{Reader, Writer};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// What a sealed thing is longer than the thing: a nonce before it and a tag behind it.
pub const OVERHEAD_BYTES: usize = NONCE_LEN + TAG_BYTES;

const TAG_BYTES: usize = 16;
/// What a fingerprint is derived under; nothing else may be.
const FINGERPRINT: &[u8] = b"tombolo.dev fingerprint 1";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it holds no key: a key is 32 bytes as base64, 44 characters in one line")]
    NoKey,
    #[error("it was encrypted with another key")]
    OtherKey,
    #[error("it is not encrypted")]
    NotSealed,
    #[error("it was changed after it was encrypted, or it is cut off")]
    Damaged,
    #[error("cannot draw random bytes")]
    Random(#[source] std::io::Error),
    #[error("cannot read or write it")]
    Io(#[from] std::io::Error),
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        match error {
            Error::Io(error) => error,
            Error::NoKey
            | Error::OtherKey
            | Error::NotSealed
            | Error::Damaged
            | Error::Random(_) => std::io::Error::other(error),
        }
    }
}

/// Seals and opens. Clones are the same key.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; KEY_BYTES],
    cipher: LessSafeKey,
}

impl Key {
    pub fn new(bytes: [u8; KEY_BYTES]) -> Key {
        Key { bytes, cipher: cipher(&bytes) }
    }

    pub fn generate() -> Result<Key, Error> {
        random().map(Key::new)
    }

    /// The text of a key file.
    pub fn parse(text: &str) -> Result<Key, Error> {
        let bytes = BASE64.decode(text.trim()).map_err(|_| Error::NoKey)?;
        Ok(Key::new(bytes.try_into().map_err(|_| Error::NoKey)?))
    }

    /// The text for a key file. Whoever has it has the key.
    pub fn reveal(&self) -> String {
        format!("{}\n", BASE64.encode(self.bytes))
    }

    /// Tells keys apart and gives nothing of them away: for a wrong key to be called wrong, and not
    /// what it cannot open damaged.
    pub fn fingerprint(&self) -> u64 {
        u64::from_le_bytes(self.derive(b"", FINGERPRINT))
    }

    /// The nonce, then the sealed bytes. It opens only with the same `context`: what it is, and where
    /// it belongs.
    ///
    /// The nonce is drawn: a counter could go back with a disk that is set back, and would then be used
    /// twice. Drawn ones are safe for four billion things a key (NIST SP 800-38D, 8.3).
    pub fn seal(&self, context: &[u8], mut bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let nonce = random::<NONCE_LEN>()?;
        let unique = Nonce::assume_unique_for_key(nonce);
        self.cipher
            .seal_in_place_append_tag(unique, Aad::from(context), &mut bytes)
            .expect("AES-GCM takes anything up to 64 GiB");
        Ok([nonce.as_slice(), &bytes].concat())
    }

    /// `None` if it was sealed with another key or in another context, or was changed since.
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.cipher.open_in_place(nonce, Aad::from(context), &mut rest).ok()?.len();
        rest.truncate(length);
        Some(rest)
    }

    /// Other bytes for each salt and each purpose, which say nothing of the key (HKDF, RFC 5869).
    fn derive<const N: usize>(&self, salt: &[u8], purpose: &[u8]) -> [u8; N] {
        let mut out = [0; N];
        let purposes = [purpose];
        Salt::new(HKDF_SHA256, salt)
            .extract(&self.bytes)
            .expand(&purposes, Length(N))
            .and_then(|derived| derived.fill(&mut out))
            .expect("it is far shorter than HKDF allows");
        out
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn cipher(bytes: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, bytes);
    LessSafeKey::new(key.expect("it has the length of a key"))
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Random(std::io::Error::other(error.to_string())))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_with_the_same_key_in_the_same_context_only() {
        let key = Key::new([7; 32]);
        let sealed = key.seal(b"here", b"hunter2".to_vec()).expect("sealed");
        assert_eq!(sealed.len(), b"hunter2".len() + OVERHEAD_BYTES);
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(key.open(b"here", &sealed).as_deref(), Some(b"hunter2".as_slice()));
        assert_eq!(key.open(b"there", &sealed), None);
        assert_eq!(Key::new([8; 32]).open(b"here", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(key.open(b"here", &changed), None, "changed at {at}");
            assert_eq!(key.open(b"here", &sealed[..at]), None, "cut at {at}");
        }
        let again = key.seal(b"here", b"hunter2".to_vec()).expect("sealed");
        assert_ne!(sealed, again, "no nonce twice");
    }

    #[test]
    fn a_key_file_is_read_as_it_was_written_and_nothing_else_is_a_key() {
        let key = Key::generate().expect("random");
        let read = Key::parse(&key.reveal()).expect("a key");
        assert_eq!(read.fingerprint(), key.fingerprint());
        assert_ne!(Key::generate().expect("random").fingerprint(), key.fingerprint());
        for text in ["", "hunter2", "AAAA", &format!("{0}{0}", key.reveal().trim())] {
            assert!(Key::parse(text).is_err(), "{text}");
        }
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}
