//! What `Store` asks of the writer thread.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::Result;
use crate::amend::Amend;
use crate::backup::Backup;
use crate::object::{Object, Write};

pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) writes: Vec<Write>,
    pub(crate) bytes: usize,
    pub(crate) reply: Reply<Vec<Arc<Object>>>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Commit(Call),
    Compact { revision: u64, reply: Reply<()> },
    Restore { backup: Backup, amend: Amend, reply: Reply<u64> },
    Audit { after: u64, limit: usize, reply: Reply<Vec<(u64, Bytes)>> },
}
