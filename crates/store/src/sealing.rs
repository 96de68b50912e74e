//! Which objects lie on disk sealed, and with which key. The store knows no kinds: its caller names
//! the beginnings of their keys. `record` seals and opens, `database` sees that the key is the right one.

use tombolo_seal::Key;

/// Objects in memory and in backups are as they were written; only the store's file has them sealed.
#[derive(Clone, Debug)]
pub struct Sealing {
    /// Lies elsewhere than in the store's file.
    pub key: Key,
    /// An object is sealed if its key begins like one of these.
    pub prefixes: &'static [&'static str],
}

impl Sealing {
    pub(crate) fn covers(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }
}

/// What is to be done about the key when a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// Everything is written anew: the store is from before the key.
    Reseal,
    NoKey,
    OtherKey,
}

/// Both are fingerprints: of the key that the store was sealed with, and of the one that is there.
pub(crate) fn step(sealed_with: Option<u64>, given: Option<u64>) -> Step {
    match (sealed_with, given) {
        (None, None) => Step::Nothing,
        (None, Some(_)) => Step::Reseal,
        (Some(_), None) => Step::NoKey,
        (Some(sealed_with), Some(given)) if sealed_with == given => Step::Nothing,
        (Some(_), Some(_)) => Step::OtherKey,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_opens_with_its_own_key_and_an_old_one_is_sealed_once() {
        assert_eq!(step(None, None), Step::Nothing);
        assert_eq!(step(None, Some(1)), Step::Reseal);
        assert_eq!(step(Some(1), Some(1)), Step::Nothing);
        assert_eq!(step(Some(1), Some(2)), Step::OtherKey);
        assert_eq!(step(Some(1), None), Step::NoKey);
    }
}
