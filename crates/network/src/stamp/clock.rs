//! Times as STAMP writes them, and how sure their clock is.

use std::time::Duration;

/// From 1900, where NTP counts from, to 1970.
const NTP_TO_UNIX_S: u64 = 2_208_988_800;
const NANOS: u64 = 1_000_000_000;

/// A time of day as it stands in a packet: 64 bits, in one of two formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    pub bits: u64,
    pub format: Format,
}

/// What the bits of a [`Timestamp`] mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Seconds since 1900 and a fraction of 2³², as in RFC 5905.
    #[default]
    Ntp,
    /// Seconds since 1970 and nanoseconds, as in IEEE 1588.
    Ptp,
}

impl Timestamp {
    /// The time of day, as so long since 1970. Beyond 2036 the seconds begin anew, as NTP has it.
    pub fn of_day(since_1970: Duration) -> Timestamp {
        let seconds = since_1970.as_secs().wrapping_add(NTP_TO_UNIX_S) & u64::from(u32::MAX);
        let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / NANOS;
        Timestamp { bits: seconds << 32 | fraction, format: Format::Ntp }
    }

    /// How much later this is than `earlier`, which the same machine wrote; `None` if it is not later,
    /// or more than half of the 136 years that the format can tell apart.
    pub fn since(self, earlier: Timestamp) -> Option<Duration> {
        if self.format != earlier.format {
            return None;
        }
        match self.format {
            Format::Ntp => {
                let passed = self.bits.wrapping_sub(earlier.bits);
                if passed >> 63 == 1 {
                    return None;
                }
                let nanos = ((passed & u64::from(u32::MAX)) * NANOS + (1 << 31)) >> 32;
                Some(Duration::from_secs(passed >> 32) + Duration::from_nanos(nanos))
            }
            Format::Ptp => {
                let whole = |stamp: Timestamp| {
                    let nanos = (stamp.bits & u64::from(u32::MAX)).min(NANOS - 1);
                    Duration::from_secs(stamp.bits >> 32) + Duration::from_nanos(nanos)
                };
                whole(self).checked_sub(whole(earlier))
            }
        }
    }
}

/// How sure the clock is, as RFC 8762 packs it into two octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// Whether the clock follows an outside source of time.
    pub synchronized: bool,
    pub format: Format,
    /// The error is `multiplier · 2^(scale − 32)` seconds.
    pub scale: u8,
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// What we say of our own clock: nobody has told us that it is right. The error is a second; a
    /// multiplier of nothing would be a packet to throw away.
    pub const UNKNOWN: ErrorEstimate =
        ErrorEstimate { synchronized: false, format: Format::Ntp, scale: 32, multiplier: 1 };

    pub(super) fn bits(self) -> u16 {
        let flags = u16::from(self.synchronized) << 15
            | u16::from(self.format == Format::Ptp) << 14
            | u16::from(self.scale & 0x3f) << 8;
        flags | u16::from(self.multiplier)
    }

    pub(super) fn of_bits(bits: u16) -> ErrorEstimate {
        let [high, multiplier] = bits.to_be_bytes();
        ErrorEstimate {
            synchronized: high & 0x80 != 0,
            format: if high & 0x40 == 0 { Format::Ntp } else { Format::Ptp },
            scale: high & 0x3f,
            multiplier,
        }
    }
}
