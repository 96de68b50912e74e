//! A sealed file of any length, written and read in pieces, so that memory stays small. This is the
//! STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption and its
//! Nonce-Reuse Misuse-Resistance, 2015): pieces cannot be changed, swapped, left out or added, and a
//! file that is cut off is not taken for a shorter one.
//!
//! | bytes | what |
//! |---|---|
//! | 16 | `tombolo sealed 1` |
//! | 32 | salt, drawn for this file |
//! | 16 | derived from the key and the salt, to tell a wrong key from damage |
//! | … | pieces of 65,536 bytes and a tag of 16 each; the last one may be shorter |
//!
//! Each file has a key of its own, derived from the operator's and the salt, so that a counter can be
//! the nonce: eleven bytes that count the pieces, and one that is 1 for the last piece alone.

use std::io::{self, Read, Write};

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

use crate::{Error, KEY_BYTES, Key, TAG_BYTES, cipher, random};

const MAGIC: &[u8; 16] = b"tombolo sealed 1";
const SALT_BYTES: usize = 32;
const CHECK_BYTES: usize = 16;
const PIECE_BYTES: usize = 64 * 1024;
/// What the key of a file and its check are derived under.
const OF_FILE: &[u8] = b"tombolo.dev sealed file 1";
const OF_CHECK: &[u8] = b"tombolo.dev sealed file 1 check";

/// Seals what is written to it. Without [`Writer::finish`], what it has written cannot be read.
#[derive(Debug)]
pub struct Writer<W> {
    inner: W,
    pieces: Pieces,
    /// What is not sealed yet; at most a piece.
    waiting: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(mut inner: W, key: &Key) -> Result<Writer<W>, Error> {
        let salt = random::<SALT_BYTES>()?;
        inner.write_all(MAGIC)?;
        inner.write_all(&salt)?;
        inner.write_all(&key.derive::<CHECK_BYTES>(&salt, OF_CHECK))?;
        Ok(Writer { inner, pieces: Pieces::new(key, &salt), waiting: Vec::new() })
    }

    /// Where the sealed bytes go.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Marks the end.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal(Last::Yes)?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    fn seal(&mut self, last: Last) -> io::Result<()> {
        self.pieces.seal(&mut self.waiting, last);
        self.inner.write_all(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full piece goes out only when more comes: the last one is marked, and may be a full one.
        if self.waiting.len() == PIECE_BYTES && !bytes.is_empty() {
            self.seal(Last::No)?;
        }
        let length = bytes.len().min(PIECE_BYTES - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    /// A piece that is not full stays: where pieces end says nothing of who wrote when.
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Opens what a [`Writer`] has sealed. Gives nothing that is not authentic; an error at its end says
/// that what came before is not all of it.
#[derive(Debug)]
pub struct Reader<R> {
    inner: R,
    pieces: Pieces,
    opened: Vec<u8>,
    /// How much of `opened` has been given.
    given: usize,
    /// Sealed bytes that are read already: the beginning of the next piece.
    ahead: Vec<u8>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    pub fn new(mut inner: R, key: &Key) -> Result<Reader<R>, Error> {
        let mut magic = [0; MAGIC.len()];
        match inner.read_exact(&mut magic) {
            Ok(()) if magic == *MAGIC => (),
            Ok(()) => return Err(Error::NotSealed),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Error::NotSealed);
            }
            Err(error) => return Err(error.into()),
        }
        let mut salt = [0; SALT_BYTES];
        let mut check = [0; CHECK_BYTES];
        inner.read_exact(&mut salt).and_then(|()| inner.read_exact(&mut check)).map_err(
            |error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Error::Damaged,
                _ => Error::Io(error),
            },
        )?;
        if key.derive::<CHECK_BYTES>(&salt, OF_CHECK) != check {
            return Err(Error::OtherKey);
        }
        Ok(Reader {
            inner,
            pieces: Pieces::new(key, &salt),
            opened: Vec::new(),
            given: 0,
            ahead: Vec::new(),
            ended: false,
        })
    }

    fn next_piece(&mut self) -> io::Result<()> {
        const SEALED_BYTES: usize = PIECE_BYTES + TAG_BYTES;
        let mut sealed = std::mem::take(&mut self.ahead);
        // One byte more tells whether this is the last piece.
        let wanted = (SEALED_BYTES + 1 - sealed.len()) as u64;
        self.inner.by_ref().take(wanted).read_to_end(&mut sealed)?;
        let last = if sealed.len() > SEALED_BYTES { Last::No } else { Last::Yes };
        self.ahead = sealed.split_off(sealed.len().min(SEALED_BYTES));
        self.pieces
            .open(&mut sealed, last)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, Error::Damaged))?;
        self.ended = last == Last::Yes;
        self.opened = sealed;
        self.given = 0;
        Ok(())
    }
}

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.opened.len() {
            if self.ended || out.is_empty() {
                return Ok(0);
            }
            self.next_piece()?;
        }
        let length = out.len().min(self.opened.len() - self.given);
        out[..length].copy_from_slice(&self.opened[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}

impl Reader<()> {
    /// Whether a file with this beginning is one of a [`Writer`]'s.
    pub fn is_sealed(beginning: &[u8]) -> bool {
        beginning.starts_with(MAGIC)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    No,
    Yes,
}

/// Counts the pieces of a file, each of which is sealed or opened once.
#[derive(Debug)]
struct Pieces {
    cipher: LessSafeKey,
    count: u64,
}

impl Pieces {
    fn new(key: &Key, salt: &[u8]) -> Pieces {
        Pieces { cipher: cipher(&key.derive::<KEY_BYTES>(salt, OF_FILE)), count: 0 }
    }

    fn seal(&mut self, bytes: &mut Vec<u8>, last: Last) {
        let nonce = self.nonce(last);
        self.cipher
            .seal_in_place_append_tag(nonce, Aad::empty(), bytes)
            .expect("a piece is far shorter than AES-GCM allows");
    }

    fn open(&mut self, bytes: &mut Vec<u8>, last: Last) -> Option<()> {
        let nonce = self.nonce(last);
        let length = self.cipher.open_in_place(nonce, Aad::empty(), bytes).ok()?.len();
        bytes.truncate(length);
        Some(())
    }

    fn nonce(&mut self, last: Last) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[3..11].copy_from_slice(&self.count.to_be_bytes());
        nonce[11] = u8::from(last == Last::Yes);
        self.count += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_BYTES: usize = MAGIC.len() + SALT_BYTES + CHECK_BYTES;
    const SEALED_BYTES: usize = PIECE_BYTES + TAG_BYTES;

    fn key() -> Key {
        Key::new([7; 32])
    }

    fn sealed(plain: &[u8]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &key()).expect("begun");
        writer.write_all(plain).expect("written");
        writer.finish().expect("finished")
    }

    fn opened(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut reader = Reader::new(bytes, &key()).map_err(|error| error.to_string())?;
        let mut plain = Vec::new();
        reader.read_to_end(&mut plain).map_err(|error| error.to_string())?;
        Ok(plain)
    }

    fn plain(length: usize) -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at % 251).expect("small")).collect()
    }

    #[test]
    fn comes_back_whole_whatever_its_length() {
        for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let plain = plain(length);
            let (first, second) = (sealed(&plain), sealed(&plain));
            assert_eq!(opened(&first).as_ref(), Ok(&plain), "{length}");
            assert_ne!(first, second, "no salt twice");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_is_noticed() {
        let whole = sealed(&plain(2 * PIECE_BYTES + 100));
        let edges = [HEAD_BYTES, HEAD_BYTES + SEALED_BYTES, HEAD_BYTES + 2 * SEALED_BYTES];
        let cuts = edges.iter().flat_map(|edge| [edge - 1, *edge, edge + 1, edge + 17]);
        for cut in cuts.chain([0, 15, 16, 20, whole.len() - 1]) {
            assert!(opened(&whole[..cut]).is_err(), "cut at {cut}");
        }
        let mut writer = Writer::new(Vec::new(), &key()).expect("begun");
        writer.write_all(&plain(3 * PIECE_BYTES)).expect("written");
        assert!(opened(&writer.inner).is_err(), "nobody has finished it");
    }

    #[test]
    fn pieces_that_are_changed_swapped_left_out_or_added_are_noticed() {
        let whole = sealed(&plain(3 * PIECE_BYTES));
        let piece = |number: usize| {
            let at = HEAD_BYTES + number * SEALED_BYTES;
            &whole[at..at + SEALED_BYTES]
        };
        let head = &whole[..HEAD_BYTES];
        assert!(opened(&[head, piece(0), piece(1), piece(2)].concat()).is_ok());
        for forged in [
            [head, piece(1), piece(0), piece(2)].concat(),
            [head, piece(0), piece(2)].concat(),
            [head, piece(0), piece(1), piece(1), piece(2)].concat(),
            [head, piece(0), piece(1), piece(2), b"more"].concat(),
            [head, piece(0), piece(1), piece(2), piece(2)].concat(),
        ] {
            assert!(opened(&forged).is_err());
        }
        for at in [0, 16, 50, HEAD_BYTES, HEAD_BYTES + SEALED_BYTES, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(opened(&changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_wrong_key_is_called_so_and_so_is_what_is_not_sealed() {
        let whole = sealed(b"hunter2");
        let error = Reader::new(&*whole, &Key::new([8; 32])).expect_err("another key");
        assert!(matches!(error, Error::OtherKey), "{error}");
        let error = Reader::new(&b"tombolo backup 1 and so on"[..], &key()).expect_err("plain");
        assert!(matches!(error, Error::NotSealed), "{error}");
        assert!(Reader::is_sealed(&whole) && !Reader::is_sealed(b"tombolo backup 1"));
    }
}
