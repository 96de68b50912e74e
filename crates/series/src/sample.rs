//! One measured value, and how a series says that it has ended.

/// The NaN that Prometheus writes when a target or a series is gone: unlike a NaN that was measured, it
/// ends the series at once instead of after the lookback. Arithmetic never makes it: the bit pattern is a
/// signalling NaN, and every operation of a processor quiets those.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// A float at a time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub at_ms: i64,
    pub value: f64,
}

impl Sample {
    pub fn new(at_ms: i64, value: f64) -> Self {
        Self { at_ms, value }
    }

    /// The end of a series.
    pub fn stale(at_ms: i64) -> Self {
        Self { at_ms, value: f64::from_bits(STALE_BITS) }
    }

    pub fn is_stale(&self) -> bool {
        self.value.to_bits() == STALE_BITS
    }
}

/// Samples are equal when their bits are: two NaN may be, and 0 and -0 are not.
impl PartialEq for Sample {
    fn eq(&self, other: &Self) -> bool {
        self.at_ms == other.at_ms && self.value.to_bits() == other.value.to_bits()
    }
}

/// From the first to the last millisecond, both inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from_ms: i64,
    pub to_ms: i64,
}

impl Span {
    pub const ALL: Span = Span { from_ms: i64::MIN, to_ms: i64::MAX };

    pub fn new(from_ms: i64, to_ms: i64) -> Self {
        Self { from_ms, to_ms }
    }

    pub fn holds(self, at_ms: i64) -> bool {
        self.from_ms <= at_ms && at_ms <= self.to_ms
    }

    pub fn meets(self, other: Span) -> bool {
        self.from_ms <= other.to_ms && other.from_ms <= self.to_ms
    }
}
