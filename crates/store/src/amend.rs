//! What a restore does beside taking the objects of a backup. The store knows no kinds: whoever restores
//! says what must not come back, by what is there now. Called by the writer, before anything changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::object::{Draft, Object, Write};
use crate::{Error, Expect, Result};

/// The objects of a store by their keys.
pub type Objects = BTreeMap<Arc<str>, Arc<Object>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amendment {
    /// Keys that the backup has and the store shall not.
    pub left_out: BTreeSet<Arc<str>>,
    /// Written in place of what the backup has under these keys, if anything.
    pub put: BTreeMap<Arc<str>, Draft>,
}

/// What is there now, what the backup has; an `Err` is the reason why nothing is restored.
type Decide = dyn FnOnce(&Objects, &[Object]) -> Result<Amendment, String> + Send;

/// Decides about a restore while nobody else writes.
pub struct Amend(Box<Decide>);

impl Amend {
    pub fn new(
        decide: impl FnOnce(&Objects, &[Object]) -> Result<Amendment, String> + Send + 'static,
    ) -> Amend {
        Amend(Box::new(decide))
    }

    /// Takes the backup as it is.
    pub fn nothing() -> Amend {
        Amend::new(|_, _| Ok(Amendment::default()))
    }

    pub(crate) fn decide(self, live: &Objects, backup: &[Object]) -> Result<Amendment> {
        let amendment = self.0(live, backup).map_err(|why| Error::RestoreRefused { why })?;
        for (key, draft) in &amendment.put {
            Write::put(key.clone(), Expect::Any, draft.clone()).check()?;
        }
        Ok(amendment)
    }

    /// Decided already, for a store that has nothing.
    pub(crate) fn decided_for_nothing(self, backup: &[Object]) -> Result<Amend> {
        let amendment = self.decide(&Objects::new(), backup)?;
        Ok(Amend::new(|_, _| Ok(amendment)))
    }
}

impl fmt::Debug for Amend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Amend(…)")
    }
}
