//! What can go wrong with redb, and how to run it over bytes that may be damaged. `database` and
//! `slots` use it.

use std::cell::Cell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Once;

use crate::Error;

/// Why redb could not do what was asked.
#[derive(Debug)]
pub(crate) enum Trouble {
    Io(io::Error),
    Damaged(String),
}

impl Trouble {
    pub(crate) fn into_error(self, dir: &Path, doing: &str) -> Error {
        match self {
            Trouble::Io(error) if crate::error::is_full(&error) => Error::Full,
            Trouble::Io(error) => Error::io(format!("{doing} in {}", dir.display()), error),
            Trouble::Damaged(what) => Error::corrupt(dir, what),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        match error.kind() {
            // How redb and our reads say that the bytes are not what they should be.
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Trouble::Damaged(error.to_string())
            }
            _ => Trouble::Io(error),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Trouble
where
    E: RedbError,
{
    fn from(error: E) -> Trouble {
        match error.into() {
            redb::Error::Io(error) => Trouble::from(error),
            redb::Error::PreviousIo => Trouble::Io(io::Error::other("an earlier write failed")),
            error => Trouble::Damaged(error.to_string()),
        }
    }
}

/// The errors of redb, which have no trait in common.
pub(crate) trait RedbError {}
impl RedbError for redb::DatabaseError {}
impl RedbError for redb::TransactionError {}
impl RedbError for redb::TableError {}
impl RedbError for redb::StorageError {}
impl RedbError for redb::CommitError {}
impl RedbError for redb::CompactionError {}

/// Runs redb over bytes that may be damaged in any way. A panic there is one more finding, and
/// its message on stderr would look like a crash to whoever reads it, so it is kept back.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    QUIET_HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
    GUARDED.set(true);
    let result = std::panic::catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(false);
    match result {
        Ok(result) => result,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Trouble::Damaged(format!("its structure is broken: {text}")))
        }
    }
}

static QUIET_HOOK: Once = Once::new();

thread_local! {
    /// Whether this thread is inside [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}
