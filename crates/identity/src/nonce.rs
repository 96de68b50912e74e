//! Nonces: a number that the server has just given out, so that what is signed with it is fresh.
//!
//! Nothing is kept for each: a nonce is a time and a seal that only this process can make, so that a
//! flood of questions takes no memory and pushes nobody out. A nonce that is used twice within its life
//! does no harm: it only gives its holder the same right again.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::authority::fill_random;
use crate::token::to_hex;

/// Enough for the slowest link; a signature that is older is not fresh.
pub const NONCE_LIFE: Duration = Duration::from_secs(120);
/// Texts that are longer are not ours.
const TEXT_BYTES_MAX: usize = 128;

/// The seal of this process. Lost with it: an agent that comes too late asks again.
pub struct Sealer {
    key: [u8; 32],
}

impl Sealer {
    pub fn generate() -> Result<Sealer, Error> {
        let mut key = [0; 32];
        fill_random(&mut key)?;
        Ok(Sealer { key })
    }

    /// A nonce that is good from `now` on, which counts from the start of the process.
    pub fn seal(&self, now: Duration) -> String {
        let moment = now.as_secs();
        format!("{moment}-{}", self.seal_of(moment))
    }

    pub fn is_fresh(&self, nonce: &str, now: Duration) -> bool {
        if nonce.len() > TEXT_BYTES_MAX {
            return false;
        }
        let parts = nonce.split_once('-');
        let Some((moment, seal)) =
            parts.and_then(|(moment, seal)| Some((moment.parse().ok()?, seal)))
        else {
            return false;
        };
        let age = now.as_secs().checked_sub(moment);
        same(seal.as_bytes(), self.seal_of(moment).as_bytes())
            && age.is_some_and(|age| age <= NONCE_LIFE.as_secs())
    }

    /// HMAC-SHA-256 of the moment.
    fn seal_of(&self, moment: u64) -> String {
        let pad = |with: u8| {
            let mut block = [with; 64];
            for (byte, key) in block.iter_mut().zip(self.key) {
                *byte ^= key;
            }
            block
        };
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(moment.to_be_bytes());
        let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner.finalize());
        to_hex(&outer.finalize())
    }
}

/// Takes the same time wherever the difference is.
fn same(left: &[u8], right: &[u8]) -> bool {
    let difference = left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b));
    left.len() == right.len() && std::hint::black_box(difference) == 0
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Sealer(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_good_for_a_while_and_only_here() {
        let sealer = Sealer::generate().unwrap();
        let seconds = Duration::from_secs;
        let nonce = sealer.seal(seconds(100));
        assert!(sealer.is_fresh(&nonce, seconds(100)));
        assert!(sealer.is_fresh(&nonce, seconds(220)));
        assert!(!sealer.is_fresh(&nonce, seconds(221)));
        // From the future: of a process that has run for longer.
        assert!(!sealer.is_fresh(&nonce, seconds(99)));
        assert!(!Sealer::generate().unwrap().is_fresh(&nonce, seconds(100)));
    }

    #[test]
    fn what_was_not_sealed_is_not_fresh() {
        let sealer = Sealer::generate().unwrap();
        let nonce = sealer.seal(Duration::ZERO);
        let later = nonce.replacen("0-", "50-", 1);
        for text in ["", "-", "0-", "0", "x-y", &nonce[..nonce.len() - 1], &later] {
            assert!(!sealer.is_fresh(text, Duration::from_secs(1)), "{text}");
        }
        assert!(!sealer.is_fresh(&"9".repeat(1 << 20), Duration::ZERO));
    }
}
