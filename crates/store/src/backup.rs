//! The backup file: written from memory while the store runs, verified as a whole before a
//! restore touches anything. Objects are in it as they are, also those that lie on disk sealed: whoever
//! writes a backup to a disk seals all of it. Little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 16 | `tombolo backup 1` |
//! | 8 | revision of the store |
//! | 8 | number of objects |
//! | 4 | CRC-32 of the above |
//! | 4 + … | for each object: length of the record, and the record (see `record`) |
//! | 4 | CRC-32 of everything before |

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

use crate::object::{Kind, Object};
use crate::record::{self, RECORD_BYTES_MAX};
use crate::{Error, Result};

const MAGIC: &[u8; 16] = b"tombolo backup 1";

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub revision: u64,
    pub objects: u64,
    pub bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Backup {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<Object>,
    bytes: u64,
}

impl Backup {
    pub(crate) fn summary(&self) -> Summary {
        Summary { revision: self.revision, objects: self.objects.len() as u64, bytes: self.bytes }
    }
}

/// Reads a backup to its end and says what it holds, or what is wrong with it.
pub fn verify_backup(reader: impl Read) -> Result<Summary> {
    Ok(read(reader)?.summary())
}

pub(crate) fn write(
    revision: u64,
    objects: &[Arc<Object>],
    writer: impl Write,
) -> io::Result<Summary> {
    let mut out = Summing::new(BufWriter::new(writer));
    out.write_all(MAGIC)?;
    out.write_all(&revision.to_le_bytes())?;
    out.write_all(&(objects.len() as u64).to_le_bytes())?;
    out.write_all(&out.crc())?;
    let mut bytes = Vec::new();
    for object in objects {
        bytes.clear();
        record::encode(Kind::Created, 0, object, None, &mut bytes)?;
        let length = u32::try_from(bytes.len()).expect("records are bounded");
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&bytes)?;
    }
    out.write_all(&out.crc())?;
    out.inner.flush()?;
    Ok(Summary { revision, objects: objects.len() as u64, bytes: out.count })
}

pub(crate) fn read(reader: impl Read) -> Result<Backup> {
    let mut input = Summing::new(BufReader::new(reader));
    if input.take::<16>()? != *MAGIC {
        return Err(bad("it does not begin like a backup"));
    }
    let revision = u64::from_le_bytes(input.take()?);
    let count = u64::from_le_bytes(input.take()?);
    input.check_crc("header")?;
    let mut objects: Vec<Object> = Vec::new();
    let mut bytes = Vec::new();
    for number in 1..=count {
        let length = u32::from_le_bytes(input.take()?) as usize;
        if length > RECORD_BYTES_MAX {
            return Err(bad(format!("object {number} of {count} has an impossible length")));
        }
        bytes.resize(length, 0);
        input.fill(&mut bytes)?;
        let record = record::decode(&bytes, None)
            .map_err(|what| bad(format!("object {number} of {count}: {what}")))?;
        if objects.last().is_some_and(|last| last.key >= record.object.key) {
            return Err(bad(format!("object {number} of {count} is out of order")));
        }
        if record.kind != Kind::Created || record.object.revision > revision {
            return Err(bad(format!("object {number} of {count} cannot be in a backup")));
        }
        objects.push(record.object);
    }
    input.check_crc("content")?;
    if input.inner.read(&mut [0]).map_err(unreadable)? != 0 {
        return Err(bad("something follows its end"));
    }
    Ok(Backup { revision, objects, bytes: input.count })
}

fn bad(what: impl Into<String>) -> Error {
    Error::BadBackup { what: what.into() }
}

fn unreadable(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => bad("it is cut off"),
        _ => Error::io("read the backup", error),
    }
}

/// Counts and sums what passes.
struct Summing<T> {
    inner: T,
    hasher: crc32fast::Hasher,
    count: u64,
}

impl<T> Summing<T> {
    fn new(inner: T) -> Summing<T> {
        Summing { inner, hasher: crc32fast::Hasher::new(), count: 0 }
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.count += bytes.len() as u64;
    }

    fn crc(&self) -> [u8; 4] {
        self.hasher.clone().finalize().to_le_bytes()
    }
}

impl<T: Write> Summing<T> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.pass(bytes);
        Ok(())
    }
}

impl<T: Read> Summing<T> {
    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        self.inner.read_exact(out).map_err(unreadable)?;
        self.pass(out);
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    fn check_crc(&mut self, of: &str) -> Result<()> {
        let expected = self.crc();
        if self.take::<4>()? != expected {
            return Err(bad(format!("the checksum of its {of} does not match")));
        }
        Ok(())
    }
}
