//! What redb's header says, byte by byte, and which damage to it can be put right. A pure function
//! of the bytes; `slots` reads and writes them. Start at [`read`].
//!
//! redb gives each of the two slots a checksum, but none to what is around them, and it looks at
//! only one of the slots. With two bytes damaged, it would open the older commit without a word.
//!
//! - **Bytes that are the same in every store** are put right.
//! - **A slot whose checksum would be right if one byte were another** is put right: that another
//!   slot differs by one byte and fits its own checksum of 128 bits does not happen.
//! - **The slot that counts** is never half written, because redb makes a slot count only after
//!   that slot is on disk. A wrong checksum that one byte does not explain is damage.
//! - **The other slot** is half written where the power went out during a commit, and only there.
//!   After an orderly end, a wrong checksum is damage here too.
//! - **The length of the file** is what the header says after an orderly end. Otherwise redb works
//!   it out anew.

use std::ops::Range;

use crate::checksum::{COVERED, checksum};

pub(crate) const HEADER_BYTES: usize = 320;
pub(crate) const FLAGS_AT: usize = 9;
pub(crate) const PRIMARY_FLAG: u8 = 1;
/// Set while the file is open for writing.
const OPEN_FLAG: u8 = 2;
const TWO_PHASES_FLAG: u8 = 4;

const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const PAGE_BYTES: u64 = 4096;
/// What redb 4 takes for pages of 4 KiB.
const REGION_PAGES: u64 = 1 << 20;
const FULL_REGIONS: Range<usize> = 24..28;
const TRAILING_PAGES: Range<usize> = 28..32;
const SLOTS: [Range<usize>; 2] = [64..192, 192..320];
/// In a slot.
const TRANSACTION: Range<usize> = 104..112;

/// The bytes around the slots that no store of ours has otherwise.
const SAME_IN_ALL: [(Range<usize>, &[u8]); 5] = [
    (10..12, &[0; 2]),
    (12..16, &[0, 0x10, 0, 0]),
    (16..20, &[0; 4]),
    (20..24, &[0, 0, 0x10, 0]),
    (32..64, &[0; 32]),
];

pub(crate) type Bytes = [u8; HEADER_BYTES];

/// A header of which every byte has been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) bytes: Bytes,
    /// The commit that does not count, if it is complete as far as the header can tell.
    other: Option<u64>,
    counting: u64,
}

impl Header {
    pub(crate) fn flags(&self) -> u8 {
        self.bytes[FLAGS_AT]
    }

    /// The number of the commit that does not count, if it is the newer one.
    pub(crate) fn newer(&self) -> Option<u64> {
        self.other.filter(|other| *other > self.counting)
    }

    /// Whether the file was closed in order, so that no commit was under way.
    pub(crate) fn was_closed(&self) -> bool {
        was_closed(&self.bytes)
    }
}

/// Puts right what can be, and says what else is wrong. `length` is that of the whole file.
pub(crate) fn read(found: &Bytes, length: u64) -> Result<Header, String> {
    let mut bytes = *found;
    if !bytes.starts_with(MAGIC) {
        return Err("its file does not begin as one of redb does".to_owned());
    }
    for (range, right) in SAME_IN_ALL {
        bytes[range].copy_from_slice(right);
    }
    bytes[FLAGS_AT] &= PRIMARY_FLAG | OPEN_FLAG | TWO_PHASES_FLAG;
    let closed = was_closed(&bytes);
    if closed {
        // While redb compacts the file it commits in one phase; it never ends so.
        bytes[FLAGS_AT] |= TWO_PHASES_FLAG;
    }
    let primary = usize::from(bytes[FLAGS_AT] & PRIMARY_FLAG);
    let [counting, other] =
        [SLOTS[primary].clone(), SLOTS[primary ^ 1].clone()].map(|range| slot(&mut bytes[range]));
    let Some(counting) = counting else {
        return Err("the header's account of the last commit is wrong".to_owned());
    };
    if closed && other.is_none() {
        return Err("the header's account of the commit before the last is wrong".to_owned());
    }
    if closed && length_of(&bytes) != length {
        return Err(format!(
            "its file has {length} bytes, and its header says {}",
            length_of(&bytes)
        ));
    }
    Ok(Header { bytes, other, counting })
}

fn was_closed(bytes: &Bytes) -> bool {
    bytes[FLAGS_AT] & OPEN_FLAG == 0
}

fn length_of(bytes: &Bytes) -> u64 {
    let number = |range: Range<usize>| {
        u64::from(u32::from_le_bytes(bytes[range].try_into().expect("four bytes")))
    };
    (1 + number(FULL_REGIONS) * REGION_PAGES + number(TRAILING_PAGES)) * PAGE_BYTES
}

/// Puts a slot right if that takes one byte, and returns the number of its commit.
fn slot(bytes: &mut [u8]) -> Option<u64> {
    let (covered, sum) = bytes.split_at_mut(COVERED);
    let covered: &mut [u8; COVERED] = covered.try_into().expect("a slot has 128 bytes");
    let stored = u128::from_le_bytes((&*sum).try_into().expect("a checksum has 16 bytes"));
    let right = checksum(covered);
    let wrong_bytes = (stored ^ right).to_le_bytes().into_iter().filter(|byte| *byte != 0).count();
    match wrong_bytes {
        0 => (),
        1 => sum.copy_from_slice(&right.to_le_bytes()),
        _ => *covered = with_another_byte(covered, stored)?,
    }
    let number = covered[TRANSACTION].try_into().expect("eight bytes");
    Some(u64::from_le_bytes(number))
}

/// Tries every other value of every byte; those that one flipped bit leads to come first.
fn with_another_byte(covered: &[u8; COVERED], sum: u128) -> Option<[u8; COVERED]> {
    let mut tried = *covered;
    for change in (0..u8::BITS).map(|bit| 1 << bit).chain(1..=u8::MAX) {
        for at in 0..COVERED {
            tried[at] ^= change;
            if checksum(&tried) == sum {
                return Some(tried);
            }
            tried[at] = covered[at];
        }
    }
    None
}
