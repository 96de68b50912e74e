//! Messages that wait to be sent, the oldest first: [`Outbox`]. While the server takes them they are in memory;
//! once it does not, they go to files, so that a reboot while the agent is cut off loses none. Which of them
//! goes when there are too many is decided in [`Ledger`].
//!
//! A file is `NUMBER-SAMPLES.msg`: the checksum of the message, and the message as it will be sent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tombolo_leaf::{Ledger, Piece};

/// Below the agent's folder.
const FOLDER: &str = "metrics";
const ENDING: &str = "msg";
/// What a file has before the message.
const CHECKSUM_BYTES: usize = 4;
/// In memory while the server answers: of two sendings or three. The rest goes to the disk.
const MEMORY_BYTES_MAX: u64 = 128 << 10;

/// The body of one request.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) body: Bytes,
    pub(super) samples: u64,
}

/// What is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) bytes: u64,
    pub(super) samples: u64,
    /// Samples that were let go of since the start.
    pub(super) dropped: u64,
}

#[derive(Debug)]
pub(super) struct Outbox {
    folder: PathBuf,
    inner: Mutex<Inner>,
    arrived: Notify,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    /// Those that are in no file.
    memory: BTreeMap<u64, Message>,
    /// Whether the server took the last message.
    is_taking: bool,
}

impl Outbox {
    /// With what an earlier run has left.
    pub(super) async fn open(folder: &Path, bytes_max: u64) -> Outbox {
        let folder = folder.join(FOLDER);
        let path = folder.clone();
        let found = tokio::task::spawn_blocking(move || found(&path)).await.unwrap_or_default();
        let (ledger, too_much) = Ledger::open(bytes_max, found);
        let inner = Inner { ledger, memory: BTreeMap::new(), is_taking: true };
        let outbox = Outbox { folder, inner: Mutex::new(inner), arrived: Notify::new() };
        outbox.remove(too_much).await;
        outbox
    }

    pub(super) fn state(&self) -> State {
        let inner = self.lock();
        let Inner { ledger, .. } = &*inner;
        State { bytes: ledger.bytes(), samples: ledger.samples(), dropped: ledger.dropped() }
    }

    pub(super) async fn put(&self, messages: Vec<Message>) {
        for message in messages {
            let (bytes, samples) = (message.body.len() as u64, message.samples);
            let gone = {
                let mut inner = self.lock();
                let (number, gone) = inner.ledger.add(bytes, samples);
                inner.memory.insert(number, message);
                for piece in &gone {
                    inner.memory.remove(&piece.number);
                }
                gone
            };
            self.remove(gone).await;
        }
        let must_save = {
            let inner = self.lock();
            let bytes: u64 = inner.memory.values().map(|message| message.body.len() as u64).sum();
            !inner.is_taking || bytes > MEMORY_BYTES_MAX
        };
        if must_save {
            self.save().await;
        }
        self.arrived.notify_one();
    }

    /// The message to send next; waits until there is one.
    pub(super) async fn next(&self) -> (u64, Message) {
        loop {
            let arrived = self.arrived.notified();
            let oldest = {
                let inner = self.lock();
                inner.ledger.oldest().map(|piece| (piece, inner.memory.get(&piece.number).cloned()))
            };
            match oldest {
                None => arrived.await,
                Some((piece, Some(message))) => return (piece.number, message),
                Some((piece, None)) => {
                    let path = self.path(&piece);
                    let read = tokio::task::spawn_blocking(move || read(&path)).await;
                    match read.ok().flatten() {
                        Some(body) => {
                            return (piece.number, Message { body, samples: piece.samples });
                        }
                        None => {
                            tracing::warn!(?piece, "a message of metrics is damaged or gone");
                            self.lock().ledger.lost(piece.number);
                            self.remove(vec![piece]).await;
                        }
                    }
                }
            }
        }
    }

    /// The server has it, or will never take it.
    pub(super) async fn done(&self, number: u64) {
        let file = {
            let mut inner = self.lock();
            inner.is_taking = true;
            let piece = inner.ledger.done(number);
            let was_in_memory = inner.memory.remove(&number).is_some();
            piece.filter(|_| !was_in_memory)
        };
        self.remove(file.into_iter().collect()).await;
    }

    /// The server did not take it now.
    pub(super) async fn not_taken(&self) {
        self.lock().is_taking = false;
        self.save().await;
    }

    /// Brings to the disk what is in memory. What cannot be written stays there.
    async fn save(&self) {
        let unsaved: Vec<(u64, Message)> = {
            let inner = self.lock();
            inner.memory.iter().map(|(number, message)| (*number, message.clone())).collect()
        };
        for (number, Message { body, samples }) in unsaved {
            let piece = Piece { number, bytes: body.len() as u64, samples };
            let (folder, path) = (self.folder.clone(), self.path(&piece));
            let written = tokio::task::spawn_blocking(move || write(&folder, &path, &body)).await;
            match written {
                Ok(Ok(())) => {
                    let sent_meanwhile = self.lock().memory.remove(&number).is_none();
                    if sent_meanwhile {
                        self.remove(vec![piece]).await;
                    }
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "metrics wait in memory, not on the disk");
                    break;
                }
                Err(_) => break,
            }
        }
    }

    async fn remove(&self, pieces: Vec<Piece>) {
        if pieces.is_empty() {
            return;
        }
        let paths: Vec<PathBuf> = pieces.iter().map(|piece| self.path(piece)).collect();
        let removing = tokio::task::spawn_blocking(move || {
            for path in paths {
                // It may have been in memory alone.
                let _ = fs::remove_file(path);
            }
        });
        let _ = removing.await;
    }

    fn path(&self, piece: &Piece) -> PathBuf {
        self.folder.join(format!("{:016x}-{:x}.{ENDING}", piece.number, piece.samples))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages of an earlier run. What is no message, or only half of one, is taken away.
fn found(folder: &Path) -> Vec<Piece> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.file_name();
        let piece = name.to_str().and_then(|name| {
            let (number, samples) =
                name.strip_suffix(ENDING)?.strip_suffix('.')?.split_once('-')?;
            let length = entry.metadata().ok()?.len();
            Some(Piece {
                number: u64::from_str_radix(number, 16).ok()?,
                samples: u64::from_str_radix(samples, 16).ok()?,
                bytes: length.checked_sub(CHECKSUM_BYTES as u64)?,
            })
        });
        match piece {
            Some(piece) => found.push(piece),
            None => drop(fs::remove_file(entry.path())),
        }
    }
    found
}

fn read(path: &Path) -> Option<Bytes> {
    let bytes = Bytes::from(fs::read(path).ok()?);
    let (checksum, body) = bytes.split_first_chunk::<CHECKSUM_BYTES>()?;
    (crc32fast::hash(body) == u32::from_le_bytes(*checksum)).then(|| bytes.slice(CHECKSUM_BYTES..))
}

/// Whole or not at all: a file that is being written has another name.
fn write(folder: &Path, path: &Path, body: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let unfinished = path.with_extension("new");
    let mut file = fs::File::create(&unfinished)?;
    file.write_all(&crc32fast::hash(body).to_le_bytes())?;
    file.write_all(body)?;
    file.sync_data()?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(byte: u8) -> Message {
        Message { body: Bytes::from(vec![byte; 100]), samples: 10 }
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder.join(FOLDER)).map_or(0, Iterator::count)
    }

    async fn next_byte(outbox: &Outbox) -> (u64, u8) {
        let (number, message) = outbox.next().await;
        (number, message.body[0])
    }

    #[tokio::test]
    async fn nothing_touches_the_disk_while_the_server_takes_all() {
        let data = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(data.path(), 1000).await;
        outbox.put(vec![message(1), message(2)]).await;
        let (number, byte) = next_byte(&outbox).await;
        outbox.done(number).await;
        assert_eq!((byte, next_byte(&outbox).await.1), (1, 2));
        assert_eq!(files(data.path()), 0);
    }

    #[tokio::test]
    async fn what_was_not_taken_outlives_the_agent_in_its_order() {
        let data = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(data.path(), 1000).await;
        outbox.put(vec![message(1), message(2)]).await;
        outbox.not_taken().await;
        outbox.put(vec![message(3)]).await;
        assert_eq!(files(data.path()), 3);
        drop(outbox);
        let outbox = Outbox::open(data.path(), 1000).await;
        outbox.put(vec![message(4)]).await;
        for expected in 1..=4 {
            let (number, byte) = next_byte(&outbox).await;
            assert_eq!(byte, expected);
            outbox.done(number).await;
        }
        assert_eq!(outbox.state(), State { bytes: 0, samples: 0, dropped: 0 });
        assert_eq!(files(data.path()), 0);
    }

    #[tokio::test]
    async fn a_full_outbox_lets_go_of_the_oldest_and_counts_its_samples() {
        let data = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(data.path(), 250).await;
        outbox.not_taken().await;
        outbox.put((1..=5).map(message).collect()).await;
        assert_eq!(outbox.state(), State { bytes: 200, samples: 20, dropped: 30 });
        assert_eq!(files(data.path()), 2);
        assert_eq!(next_byte(&outbox).await.1, 4);
    }

    #[tokio::test]
    async fn a_damaged_message_is_counted_as_lost_and_the_next_one_is_sent() {
        let data = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(data.path(), 1000).await;
        outbox.not_taken().await;
        outbox.put(vec![message(1), message(2)]).await;
        let path = outbox.path(&Piece { number: 0, bytes: 100, samples: 10 });
        let mut bytes = fs::read(&path).unwrap();
        bytes[50] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(next_byte(&outbox).await.1, 2);
        assert_eq!(outbox.state(), State { bytes: 100, samples: 10, dropped: 10 });
        fs::write(data.path().join(FOLDER).join("half.new"), "x").unwrap();
        Outbox::open(data.path(), 1000).await;
        assert_eq!(files(data.path()), 1);
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_keeps_messages_in_memory() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join(FOLDER), "no folder").unwrap();
        let outbox = Outbox::open(data.path(), 1000).await;
        outbox.put(vec![message(1)]).await;
        outbox.not_taken().await;
        assert_eq!(next_byte(&outbox).await.1, 1);
    }
}
