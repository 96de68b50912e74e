//! The write-ahead log: what a record is, and how records lie in a file, each with its length and checksum.
//! [`Segment`] appends them, [`read`] reads a whole file back. A copy of the head (a checkpoint) is such a
//! file too.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tombolo_series::{Labels, Sample};

use crate::wire::protobuf::{Fields, put_varint};
use crate::wire::{Metadata, MetricKind};

const MAGIC: &[u8; 8] = b"TOMWAL01";

/// Magic and epoch.
const HEADER_BYTES: usize = 16;

/// Length and checksum.
const FRAME_BYTES: usize = 8;

/// A batch of a sender at its bounds is smaller. A length beyond it is a damaged one.
const RECORD_BYTES_MAX: usize = 64 << 20;

const SERIES: u8 = 1;
const SAMPLES: u8 = 2;
const METADATA: u8 = 3;
const CHUNKS: u8 = 4;

/// A record that is being written.
#[derive(Debug)]
pub(super) struct Record {
    bytes: Vec<u8>,
}

impl Record {
    fn new(kind: u8) -> Self {
        Self { bytes: vec![kind] }
    }

    pub(super) fn series() -> Self {
        Self::new(SERIES)
    }

    pub(super) fn samples() -> Self {
        Self::new(SAMPLES)
    }

    pub(super) fn metadata() -> Self {
        Self::new(METADATA)
    }

    pub(super) fn chunks() -> Self {
        Self::new(CHUNKS)
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    fn blob(&mut self, bytes: &[u8]) {
        put_varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn add_series(&mut self, id: u32, source: &str, labels: &Labels) {
        put_varint(&mut self.bytes, u64::from(id));
        self.text(source);
        put_varint(&mut self.bytes, labels.pairs().len() as u64);
        for (name, value) in labels.iter() {
            self.text(name);
            self.text(value);
        }
    }

    pub(super) fn add_samples(&mut self, id: u32, samples: &[Sample]) {
        put_varint(&mut self.bytes, u64::from(id));
        put_varint(&mut self.bytes, samples.len() as u64);
        let mut before = 0_i64;
        for sample in samples {
            let step = sample.at_ms.wrapping_sub(before);
            put_varint(&mut self.bytes, ((step << 1) ^ (step >> 63)).cast_unsigned());
            // Most floats end in zeros: turned round they are short numbers.
            put_varint(&mut self.bytes, sample.value.to_bits().swap_bytes());
            before = sample.at_ms;
        }
    }

    pub(super) fn add_metadata(&mut self, told: &Metadata) {
        put_varint(&mut self.bytes, told.kind as u64);
        self.text(&told.metric);
        self.text(&told.help);
        self.text(&told.unit);
    }

    pub(super) fn add_chunks<B: AsRef<[u8]>>(&mut self, id: u32, chunks: &[B]) {
        put_varint(&mut self.bytes, u64::from(id));
        put_varint(&mut self.bytes, chunks.len() as u64);
        for chunk in chunks {
            self.blob(chunk.as_ref());
        }
    }

    /// Appends the record as it lies in a file, unless it holds nothing.
    pub(super) fn frame(&self, out: &mut Vec<u8>) {
        if self.bytes.len() == 1 {
            return;
        }
        let length = u32::try_from(self.bytes.len()).expect("a record is bounded by its batch");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(&self.bytes).to_le_bytes());
        out.extend_from_slice(&self.bytes);
    }
}

/// What a record says, one thing after the other.
#[derive(Debug)]
pub(super) enum Entry<'a> {
    Series { id: u32, source: &'a str, labels: Labels },
    Sample { id: u32, sample: Sample },
    Metadata(Metadata),
    Chunk { id: u32, bytes: &'a [u8] },
}

/// Calls back with everything in the payload of a record. Nothing if it is no record: its checksum was
/// right, so that a program has written it that knows more.
pub(super) fn entries<'a>(payload: &'a [u8], mut each: impl FnMut(Entry<'a>)) -> Option<()> {
    let (kind, rest) = payload.split_first()?;
    let mut reader = Reader(Fields(rest));
    while !reader.0.0.is_empty() {
        match *kind {
            SERIES => {
                let (id, source) = (reader.id()?, reader.text()?);
                let pairs = reader.number()?;
                let mut labels = Vec::new();
                for _ in 0..pairs {
                    labels.push((reader.text()?, reader.text()?));
                }
                each(Entry::Series { id, source, labels: Labels::new(labels) });
            }
            SAMPLES => {
                let (id, count) = (reader.id()?, reader.number()?);
                let mut at_ms = 0_i64;
                for _ in 0..count {
                    let step = reader.number()?;
                    let step = (step >> 1).cast_signed() ^ -((step & 1).cast_signed());
                    at_ms = at_ms.wrapping_add(step);
                    let value = f64::from_bits(reader.number()?.swap_bytes());
                    each(Entry::Sample { id, sample: Sample { at_ms, value } });
                }
            }
            METADATA => {
                let kind = MetricKind::of_number(reader.number()?);
                let (metric, help, unit) = (reader.text()?, reader.text()?, reader.text()?);
                let (metric, help, unit) = (metric.to_owned(), help.to_owned(), unit.to_owned());
                each(Entry::Metadata(Metadata { metric, kind, help, unit }));
            }
            CHUNKS => {
                let (id, count) = (reader.id()?, reader.number()?);
                for _ in 0..count {
                    each(Entry::Chunk { id, bytes: reader.blob()? });
                }
            }
            _ => return None,
        }
    }
    Some(())
}

struct Reader<'a>(Fields<'a>);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        self.0.varint().ok()
    }

    fn id(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn blob(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.0.split_at_checked(length)?;
        self.0.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.blob()?).ok()
    }
}

/// A file that records are appended to.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    pub(super) bytes: u64,
}

impl Segment {
    pub(super) fn create(path: &Path, epoch: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&epoch.to_le_bytes());
        file.write_all(&header)?;
        Ok(Self { file, bytes: header.len() as u64 })
    }

    /// Frames, as [`Record::frame`] makes them.
    pub(super) fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.write_all(frames)?;
        self.bytes += frames.len() as u64;
        Ok(())
    }

    /// What was appended is on the disk when this comes back.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// How a file was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    /// Bytes of records whose checksum is another: damage, if they are not the last ones.
    pub(super) damaged: u64,
    /// The last record was not written whole, as a crash leaves it.
    pub(super) torn: bool,
}

/// What is read of a file.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// Comes first. Segments of one epoch share the numbers of series.
    Epoch(u64),
    Record(&'a [u8]),
}

/// Reads a file record by record; never more than one of them is in memory. A record that is damaged is
/// passed over.
pub(super) fn read(path: &Path, mut each: impl FnMut(Piece<'_>)) -> io::Result<Read> {
    let file = File::open(path)?;
    let mut left = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut read = Read::default();
    let mut header = [0; HEADER_BYTES];
    if left < HEADER_BYTES as u64 {
        read.torn = true;
        return Ok(read);
    }
    reader.read_exact(&mut header)?;
    left -= HEADER_BYTES as u64;
    if !header.starts_with(MAGIC) {
        read.damaged = left;
        return Ok(read);
    }
    each(Piece::Epoch(u64::from_le_bytes(std::array::from_fn(|n| header[8 + n]))));
    let mut payload = Vec::new();
    while left > 0 {
        let mut frame = [0; FRAME_BYTES];
        if left < FRAME_BYTES as u64 {
            read.torn = true;
            break;
        }
        reader.read_exact(&mut frame)?;
        left -= FRAME_BYTES as u64;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| frame[at + n]));
        let length = word(0);
        if u64::from(length) > left || length as usize > RECORD_BYTES_MAX || length == 0 {
            // Of the last record a crash may leave anything; one that lies about its length hides all
            // that follow.
            read.torn = true;
            read.damaged += if length as usize > RECORD_BYTES_MAX { left } else { 0 };
            break;
        }
        payload.resize(length as usize, 0);
        reader.read_exact(&mut payload)?;
        left -= u64::from(length);
        if crc32fast::hash(&payload) == word(4) {
            each(Piece::Record(&payload));
        } else if left == 0 {
            read.torn = true;
        } else {
            read.damaged += u64::from(length);
        }
    }
    Ok(read)
}

/// A name of a file of the log, and its number.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.log"))
}

pub(super) fn checkpoint_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.checkpoint"))
}

/// The files in the folder of the log.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// In order.
    pub(super) segments: Vec<u64>,
    pub(super) checkpoints: Vec<u64>,
    pub(super) unfinished: Vec<PathBuf>,
}

impl Files {
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let mut files = Self::default();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
            match (path.extension().and_then(|e| e.to_str()), number) {
                (Some("log"), Some(number)) => files.segments.push(number),
                (Some("checkpoint"), Some(number)) => files.checkpoints.push(number),
                (Some("new"), _) => files.unfinished.push(path),
                (Some(_) | None, _) => {}
            }
        }
        files.segments.sort_unstable();
        files.checkpoints.sort_unstable();
        Ok(files)
    }
}

/// Makes what was renamed or removed in a folder last.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_frames() -> Vec<u8> {
        let mut frames = Vec::new();
        let mut series = Record::series();
        series.add_series(7, "agent", &Labels::new([("__name__", "up"), ("job", "a")]));
        series.frame(&mut frames);
        let mut samples = Record::samples();
        samples.add_samples(7, &[Sample::new(-5, 1.5), Sample::stale(10)]);
        samples.frame(&mut frames);
        frames
    }

    fn words(entry: Entry<'_>) -> String {
        match entry {
            Entry::Series { id, source, labels } => format!("{id} {source} {labels}"),
            Entry::Sample { id, sample } => format!("{id} {} {}", sample.at_ms, sample.value),
            Entry::Metadata(told) => format!("{told:?}"),
            Entry::Chunk { id, bytes } => format!("{id} {bytes:?}"),
        }
    }

    fn told(path: &Path) -> (Vec<String>, Read) {
        let mut told = Vec::new();
        let read = read(path, |piece| match piece {
            Piece::Epoch(epoch) => assert_eq!(epoch, 3),
            Piece::Record(payload) => entries(payload, |entry| told.push(words(entry))).unwrap(),
        });
        (told, read.unwrap())
    }

    #[test]
    fn records_come_back_and_a_torn_one_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.log");
        let mut segment = Segment::create(&path, 3).unwrap();
        segment.append(&some_frames()).unwrap();
        segment.sync().unwrap();
        let whole = ["7 agent {__name__=\"up\", job=\"a\"}", "7 -5 1.5", "7 10 NaN"];
        assert_eq!(told(&path), (whole.map(str::to_owned).to_vec(), Read::default()));
        let bytes = std::fs::read(&path).unwrap();
        for length in HEADER_BYTES + 40..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let (entries, read) = told(&path);
            assert_eq!((entries.len(), read.damaged), (1, 0), "{length}");
        }
    }

    #[test]
    fn a_flipped_byte_in_the_middle_is_passed_over_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.log");
        let mut segment = Segment::create(&path, 3).unwrap();
        segment.append(&some_frames()).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEADER_BYTES + FRAME_BYTES + 3] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let (entries, read) = told(&path);
        assert_eq!(entries, ["7 -5 1.5", "7 10 NaN"]);
        assert!(read.damaged > 0 && !read.torn);
    }
}
