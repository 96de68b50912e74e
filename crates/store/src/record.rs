//! How a version of an object lies on disk and in backups. `database` and `backup` write and read
//! it. Little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | format: 1 plain, 2 sealed |
//! | 1 | kind: 1 created, 2 updated, 3 deleted |
//! | 8 | revision |
//! | 8 | revision of the version before this one; 0 if the key was new |
//! | 4 | where the revision stands in the value |
//! | 4 | length of the key |
//! | 4 | length of the value |
//! | … | key, UTF-8 |
//! | … | value; sealed, with everything before it but its length as the context |
//! | 4 | CRC-32 of everything before |

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tombolo_seal::OVERHEAD_BYTES;

use crate::Sealing;
use crate::object::{KEY_BYTES_MAX, Kind, Object, VALUE_BYTES_MAX, decimal_digits};

const PLAIN: u8 = 1;
const SEALED: u8 = 2;
const HEAD_BYTES: usize = 30;
/// The head without the length of the value.
const CONTEXT_HEAD_BYTES: usize = 26;
const CRC_BYTES: usize = 4;
/// The stamp is at most this much longer than the draft.
const REVISION_DIGITS_MAX: usize = 20;
/// No valid record is longer; a length beyond it is damage, and nothing is allocated for it.
pub(crate) const RECORD_BYTES_MAX: usize =
    HEAD_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX + REVISION_DIGITS_MAX + OVERHEAD_BYTES + CRC_BYTES;

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) previous: u64,
    pub(crate) object: Object,
}

/// Sealed if the sealing covers its key. Fails only where the machine has no random bytes to give.
pub(crate) fn encode(
    kind: Kind,
    previous: u64,
    object: &Object,
    sealing: Option<&Sealing>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let sealing = sealing.filter(|sealing| sealing.covers(&object.key));
    let start = out.len();
    out.reserve(HEAD_BYTES + object.key.len() + object.bytes.len() + OVERHEAD_BYTES + CRC_BYTES);
    out.push(if sealing.is_some() { SEALED } else { PLAIN });
    out.push(match kind {
        Kind::Created => 1,
        Kind::Updated => 2,
        Kind::Deleted => 3,
    });
    out.extend_from_slice(&object.revision.to_le_bytes());
    out.extend_from_slice(&previous.to_le_bytes());
    out.extend_from_slice(&object.revision_at.to_le_bytes());
    out.extend_from_slice(&length(object.key.len()));
    let value = match sealing {
        None => object.bytes.clone(),
        Some(sealing) => {
            let context = [&out[start..], object.key.as_bytes()].concat();
            let sealed = sealing.key.seal(&context, object.bytes.to_vec());
            Bytes::from(sealed.map_err(io::Error::other)?)
        }
    };
    out.extend_from_slice(&length(value.len()));
    out.extend_from_slice(object.key.as_bytes());
    out.extend_from_slice(&value);
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// The error says what is wrong with the bytes, for the message of whoever read them.
pub(crate) fn decode(bytes: &[u8], sealing: Option<&Sealing>) -> Result<Record, &'static str> {
    if bytes.len() < HEAD_BYTES + CRC_BYTES || bytes.len() > RECORD_BYTES_MAX {
        return Err("its length is impossible");
    }
    let (body, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
    if crc32fast::hash(body).to_le_bytes() != crc {
        return Err("its checksum does not match");
    }
    let kind = match body[1] {
        1 => Kind::Created,
        2 => Kind::Updated,
        3 => Kind::Deleted,
        _ => return Err("its kind is unknown"),
    };
    let revision = read_u64(body, 2);
    let revision_at = read_u32(body, 18);
    let key_end = HEAD_BYTES + read_u32(body, 22) as usize;
    if key_end + read_u32(body, 26) as usize != body.len() {
        return Err("its lengths do not add up");
    }
    let key = str::from_utf8(&body[HEAD_BYTES..key_end]).map_err(|_| "its key is not UTF-8")?;
    let value = match (body[0], sealing) {
        (PLAIN, _) => Bytes::copy_from_slice(&body[key_end..]),
        (SEALED, Some(sealing)) => {
            let context = [&body[..CONTEXT_HEAD_BYTES], key.as_bytes()].concat();
            let opened = sealing.key.open(&context, &body[key_end..]);
            Bytes::from(opened.ok_or("it is sealed, and the key does not open it")?)
        }
        (SEALED, None) => return Err("it is sealed, and there is no key"),
        _ => return Err("its format is unknown"),
    };
    let stamp_end = revision_at as usize + decimal_digits(revision);
    if value.get(revision_at as usize..stamp_end) != Some(revision.to_string().as_bytes()) {
        return Err("its value does not carry its revision");
    }
    let object = Object { key: Arc::from(key), revision, bytes: value, revision_at };
    Ok(Record { kind, previous: read_u64(body, 10), object })
}

/// A note of the audit record: its bytes, then a CRC-32 of the revision and the bytes.
pub(crate) fn encode_note(revision: u64, note: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(note.len() + CRC_BYTES);
    out.extend_from_slice(note);
    out.extend_from_slice(&note_crc(revision, note));
    out
}

pub(crate) fn decode_note(revision: u64, bytes: &[u8]) -> Result<Bytes, &'static str> {
    let Some(at) = bytes.len().checked_sub(CRC_BYTES) else {
        return Err("its length is impossible");
    };
    let (note, crc) = bytes.split_at(at);
    if note_crc(revision, note) != crc {
        return Err("its checksum does not match");
    }
    Ok(Bytes::copy_from_slice(note))
}

fn note_crc(revision: u64, note: &[u8]) -> [u8; CRC_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.to_le_bytes());
    hasher.update(note);
    hasher.finalize().to_le_bytes()
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("keys and values were bounded at the edge").to_le_bytes()
}

/// `at` must lie within the head, which [`decode`] has checked to be there.
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
