//! How much work may still be done, and the numbers that only look random.

use super::Limits;

/// The clock behind `stop` is only looked at after this much work.
const STOP_EVERY: u64 = 1 << 13;

/// Counts work and says when to end.
pub(super) struct Meter<'l> {
    limits: &'l Limits<'l>,
    pub spent: u64,
    /// The work after which it is over.
    until: u64,
    ask_at: u64,
    stopped: bool,
}

impl<'l> Meter<'l> {
    pub(super) fn new(limits: &'l Limits<'l>) -> Meter<'l> {
        Meter { limits, spent: 0, until: limits.work, ask_at: 0, stopped: false }
    }

    /// Whether there is time for more after this.
    pub(super) fn spend(&mut self, work: u64) -> bool {
        self.spent = self.spent.saturating_add(work);
        if self.spent >= self.ask_at {
            self.ask_at = self.spent + STOP_EVERY;
            self.stopped |= (self.limits.stop)();
        }
        !self.over()
    }

    pub(super) fn over(&self) -> bool {
        self.stopped || self.spent >= self.until
    }

    /// Whether `stop` has said so.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Lets some work be done that even an answer in a hurry needs, whatever was spent so far.
    pub(super) fn grant(&mut self, work: u64) {
        self.until = self.limits.work.max(self.spent.saturating_add(work));
    }

    /// The work spent at which `share` of what is left will be done.
    pub(super) fn mark(&self, share: f64) -> u64 {
        self.spent.saturating_add(self.share(share))
    }

    /// A share of what is left.
    pub(super) fn share(&self, share: f64) -> u64 {
        let left = self.limits.work.saturating_sub(self.spent);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an estimate of work between 0 and what is left"
        )]
        let part = (left as f64 * share) as u64;
        part
    }
}

/// Splitmix64: a seed and a counter, well stirred.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `sides`, which must not be 0.
    pub fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll() % sides as u64).unwrap_or(0)
    }
}
