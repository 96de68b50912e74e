//! What the last probes of one pair say: delay, jitter, loss and order. Filled by whoever sends and receives; start
//! at [`Window::answered`].
//!
//! Only the sender's own monotonic clock counts, and what the reflector says of how long it held a packet, which is a
//! difference on one clock. So clocks may be wrong, apart, or set while probes run; the worst that a clock that is
//! set can do is one odd sample, and medians do not see that.

use std::collections::VecDeque;
use std::time::Duration;

/// No probe is waited for longer: a packet that old serves no application, and TCP would have sent it again.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// More probes than this are not kept, however long the window is: 16 bytes each, and percentiles of more are no
/// better.
const PROBES_MOST: usize = 512;

/// The probes of one pair within the last `span`.
#[derive(Clone, Debug)]
pub struct Window {
    span: Duration,
    patience: Duration,
    probes: VecDeque<Probe>,
    /// Counts beyond the 32 bits that a packet has.
    next: u64,
    /// The highest number that was answered.
    newest_answered: Option<u64>,
}

#[derive(Clone, Debug)]
struct Probe {
    number: u64,
    sent: Duration,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    delay: Duration,
    /// It came after the answer to a later probe.
    overtaken: bool,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The time to the peer and back, without what the peer took.
    Delay(Duration),
    /// It had been answered: the network doubles packets, or somebody plays.
    Again,
    /// Nobody waits for it any more, or it was never sent.
    Unknown,
}

/// What a window says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Probes whose fate is known.
    pub probes: u32,
    pub answered: u32,
    /// Share of those that were not answered, between 0 and 1.
    pub loss: f64,
    /// Share of the answers that a later one had overtaken.
    pub reordered: f64,
    /// There and back; `None` where nothing was answered.
    pub delays: Option<Delays>,
    /// How long ago the last answered probe was sent.
    pub age: Option<Duration>,
    /// How many of the latest probes in a row were lost.
    pub lost_in_a_row: u32,
    /// The same of those that were answered.
    pub answered_in_a_row: u32,
}

/// Times there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    pub least: Duration,
    pub p50: Duration,
    pub p95: Duration,
    /// How much a delay differs from the one before, in the mean.
    pub jitter: Duration,
    /// Half of the width in which two thirds of them lie.
    pub spread: Duration,
}

impl Window {
    pub fn new(span: Duration) -> Window {
        let probes = VecDeque::new();
        // Not from 0, where reflectors begin that count on their own: so one that only repeats can be told.
        Window { span, patience: PATIENCE.min(span), probes, next: 1, newest_answered: None }
    }

    /// A probe leaves now; the number to write into it.
    pub fn send(&mut self, now: Duration) -> u32 {
        self.forget(now);
        if self.probes.len() >= PROBES_MOST {
            self.probes.pop_front();
        }
        let number = self.next;
        self.next += 1;
        self.probes.push_back(Probe { number, sent: now, answer: None });
        low_bits(number)
    }

    /// An answer has come, which the peer held for so long. A peer that claims to have held it for longer than it was
    /// away is not believed.
    pub fn answered(&mut self, number: u32, held: Option<Duration>, now: Duration) -> Taken {
        // The lower half of the number is in the packet; the upper is that of the latest that fits.
        let latest = self.next.wrapping_sub(1);
        let ago = u64::from(low_bits(latest).wrapping_sub(number));
        let Some(number) = latest.checked_sub(ago) else { return Taken::Unknown };
        let patience = self.patience;
        let overtaken = self.newest_answered.is_some_and(|newest| newest > number);
        let Ok(index) = self.probes.binary_search_by_key(&number, |probe| probe.number) else {
            return Taken::Unknown;
        };
        let probe = &mut self.probes[index];
        if probe.answer.is_some() {
            return Taken::Again;
        }
        let away = now.saturating_sub(probe.sent);
        if away > patience {
            return Taken::Unknown;
        }
        let delay = held.and_then(|held| away.checked_sub(held)).unwrap_or(away);
        probe.answer = Some(Answer { delay, overtaken });
        self.newest_answered = self.newest_answered.max(Some(number));
        Taken::Delay(delay)
    }

    fn forget(&mut self, now: Duration) {
        while self.probes.front().is_some_and(|probe| now.saturating_sub(probe.sent) > self.span) {
            self.probes.pop_front();
        }
    }

    pub fn summary(&mut self, now: Duration) -> Summary {
        self.forget(now);
        let settled = |probe: &&Probe| {
            probe.answer.is_some() || now.saturating_sub(probe.sent) > self.patience
        };
        let known: Vec<&Probe> = self.probes.iter().filter(settled).collect();
        let answers: Vec<Answer> = known.iter().filter_map(|probe| probe.answer).collect();
        let last = known.iter().rev().find(|probe| probe.answer.is_some());
        let lost_in_a_row = known.iter().rev().take_while(|probe| probe.answer.is_none()).count();
        let answered_in_a_row =
            known.iter().rev().take_while(|probe| probe.answer.is_some()).count();
        let overtaken = answers.iter().filter(|answer| answer.overtaken).count();
        let delays: Vec<Duration> = answers.iter().map(|answer| answer.delay).collect();
        Summary {
            probes: count(known.len()),
            answered: count(answers.len()),
            loss: share(known.len() - answers.len(), known.len()),
            reordered: share(overtaken, answers.len()),
            delays: Delays::of(&delays),
            age: last.map(|probe| now.saturating_sub(probe.sent)),
            lost_in_a_row: count(lost_in_a_row),
            answered_in_a_row: count(answered_in_a_row),
        }
    }
}

impl Delays {
    /// Of delays in the order in which the probes were sent.
    pub fn of(delays: &[Duration]) -> Option<Delays> {
        let mut sorted = delays.to_vec();
        sorted.sort_unstable();
        let steps = delays.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let jitter = steps.sum::<Duration>() / count(delays.len().saturating_sub(1).max(1));
        let spread = quantile(&sorted, 83)?.saturating_sub(quantile(&sorted, 17)?) / 2;
        Some(Delays {
            least: *sorted.first()?,
            p50: quantile(&sorted, 50)?,
            p95: quantile(&sorted, 95)?,
            jitter,
            spread,
        })
    }
}

/// The smallest that so many percent do not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { f64::from(count(part)) / f64::from(count(whole)) }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}

fn low_bits(number: u64) -> u32 {
    let [.., a, b, c, d] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Probes at every tenth of a second: how long each is away and held.
    fn window(probes: &[Option<(u64, u64)>]) -> (Window, Duration) {
        let mut window = Window::new(Duration::from_secs(60));
        let mut answers = Vec::new();
        for (index, probe) in (0..).zip(probes) {
            let number = window.send(ms(100 * index));
            if let Some((away, held)) = probe {
                answers.push((ms(100 * index + away), number, ms(*held)));
            }
        }
        answers.sort();
        for (at, number, held) in answers {
            window.answered(number, Some(held), at);
        }
        (window, ms(100 * u64::try_from(probes.len()).unwrap() + 3000))
    }

    #[test]
    fn delays_are_without_what_the_peer_took() {
        let (mut window, now) = window(&[Some((30, 10)), Some((22, 2)), Some((21, 1)), None]);
        let summary = window.summary(now);
        let delays = summary.delays.unwrap();
        assert_eq!((delays.p50, delays.p95, delays.jitter), (ms(20), ms(20), ms(0)));
        assert_eq!((summary.probes, summary.answered, summary.lost_in_a_row), (4, 3, 1));
        assert_eq!(window.summary(ms(300)).answered_in_a_row, 3);
        assert_eq!(summary.loss, 0.25);
        assert_eq!(summary.age, Some(now - ms(200)));
    }

    #[test]
    fn a_probe_that_may_still_be_answered_is_not_lost() {
        let mut window = Window::new(Duration::from_secs(60));
        window.send(ms(0));
        assert_eq!(window.summary(ms(1000)).probes, 0);
        assert_eq!(window.summary(ms(2001)).loss, 1.0);
        // What comes after all was counted as lost already.
        assert_eq!(window.answered(0, None, ms(2002)), Taken::Unknown);
    }

    #[test]
    fn answers_out_of_order_twice_and_never_asked_for_are_told_apart() {
        let (mut window, now) = window(&[Some((250, 0)), Some((20, 0)), Some((20, 0))]);
        assert_eq!(window.summary(now).reordered, 1.0 / 3.0);
        assert_eq!(window.answered(1, None, ms(400)), Taken::Again);
        assert_eq!(window.answered(99, None, ms(400)), Taken::Unknown);
    }

    #[test]
    fn jitter_is_the_mean_step_from_probe_to_probe() {
        let (mut window, now) = window(&[Some((20, 0)), Some((24, 0)), Some((22, 0))]);
        assert_eq!(window.summary(now).delays.unwrap().jitter, ms(3));
    }

    #[test]
    fn numbers_may_begin_anew() {
        let mut window = Window::new(Duration::from_secs(60));
        window.next = u64::from(u32::MAX);
        assert_eq!(window.send(ms(0)), u32::MAX);
        assert_eq!(window.send(ms(1)), 0);
        assert_eq!(window.answered(0, None, ms(5)), Taken::Delay(ms(4)));
        assert_eq!(window.answered(u32::MAX, None, ms(6)), Taken::Delay(ms(6)));
        assert_eq!(window.summary(ms(10)).reordered, 0.5);
    }

    proptest! {
        /// The peer's clock is set while it holds packets: forward by anything, back by anything.
        #[test]
        fn a_clock_that_is_set_does_not_move_the_median(
            jumps in proptest::collection::btree_map(0..100usize, any::<u32>(), 0..30),
        ) {
            let mut window = Window::new(Duration::from_secs(60));
            for index in 0..100usize {
                let sent = ms(100 * u64::try_from(index).unwrap());
                let number = window.send(sent);
                // Back is no length at all; forward is one that may exceed the time away.
                let held = match jumps.get(&index) {
                    Some(jump) if jump % 2 == 0 => None,
                    Some(jump) => Some(ms(u64::from(*jump))),
                    None => Some(ms(1)),
                };
                window.answered(number, held, sent + ms(21));
            }
            let delays = window.summary(ms(10_000)).delays.unwrap();
            prop_assert_eq!(delays.p50, ms(20));
            prop_assert!(delays.p95 <= ms(21));
        }

        #[test]
        fn whatever_happens_the_shares_are_shares(
            events in proptest::collection::vec((any::<bool>(), 0..40u32, 0..5000u64), 0..200),
        ) {
            let mut window = Window::new(Duration::from_secs(10));
            let mut now = Duration::ZERO;
            for (send, number, wait) in events {
                now += ms(wait);
                if send {
                    window.send(now);
                } else {
                    window.answered(number, Some(ms(wait)), now);
                }
                let summary = window.summary(now);
                prop_assert!((0.0..=1.0).contains(&summary.loss));
                prop_assert!((0.0..=1.0).contains(&summary.reordered));
                prop_assert!(summary.answered <= summary.probes);
                prop_assert!(window.probes.len() <= PROBES_MOST);
            }
        }
    }
}
