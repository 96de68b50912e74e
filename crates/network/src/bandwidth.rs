//! How much a link carries, from the times at which the packets of a train arrive. The reflector's times tell of the
//! way there, the sender's of the way back. Called by the crate `probe`; start at [`rate`].
//!
//! Packets that leave at once arrive one by one, as fast as the narrowest link takes them. Many links let the first
//! packets through unhindered (a bucket of tokens) and only then hold the rest back, and a receiver that is late
//! takes several at once. Both bend the beginning or single points of the line, not the slope of its end: so that is
//! what is read.

use std::time::Duration;

/// A packet of a train as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its place in the train.
    pub index: u32,
    /// Since any start.
    pub at: Duration,
}

/// What a train says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub bits_per_second: f64,
    /// Half of the width in which two thirds of the slopes lie.
    pub spread: f64,
    /// Packets that it rests on.
    pub packets: u32,
    pub lost: u32,
}

/// A bend that is less of the whole time is the unrest of clocks and readers.
const BEND_LEAST: f64 = 0.05;
/// Fewer arrivals say nothing.
const ARRIVALS_LEAST: usize = 8;

/// The rate at which a train of `sent` packets arrived, each of `octets` on the wire; `None` if too few arrived
/// or they arrived at once, so that all that is known is that the link is faster than its ends can tell.
pub fn rate(arrivals: &[Arrival], sent: u32, octets: u32) -> Option<Rate> {
    let mut line: Vec<Arrival> = arrivals.to_vec();
    line.sort_unstable_by_key(|arrival| arrival.index);
    line.dedup_by_key(|arrival| arrival.index);
    let lost = sent.saturating_sub(u32::try_from(line.len()).ok()?);
    let settled = settled(&line);
    if settled.len() < ARRIVALS_LEAST {
        return None;
    }
    // Theil–Sen over the settled end: packets against time. A packet that was lost, or read late, is
    // one bad pair among many.
    let half = settled.len() / 2;
    let mut gaps: Vec<f64> = settled
        .iter()
        .zip(&settled[half..])
        .map(|(early, late)| {
            let packets = f64::from(late.index - early.index);
            late.at.saturating_sub(early.at).as_secs_f64() / packets
        })
        .collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let gap = gaps[gaps.len() / 2];
    if gap <= 0.0 {
        return None;
    }
    let bits = f64::from(octets) * 8.0;
    let at = |percent: usize| bits / gaps[(gaps.len() - 1) * percent / 100].max(f64::MIN_POSITIVE);
    let spread = ((at(17) - at(83)) / 2.0).min(bits / gap);
    let packets = u32::try_from(settled.len()).ok()?;
    Some(Rate { bits_per_second: bits / gap, spread, packets, lost })
}

/// The end of the line, after its sharpest bend upward: what comes before was let through by a bucket. A line without
/// a bend is kept whole.
fn settled(line: &[Arrival]) -> &[Arrival] {
    let (Some(first), Some(last)) = (line.first(), line.last()) else { return line };
    let (run, rise) =
        (f64::from(last.index - first.index), last.at.saturating_sub(first.at).as_secs_f64());
    // The point that lies furthest below the straight line from the first to the last.
    let below = |arrival: &Arrival| {
        let straight = rise * f64::from(arrival.index - first.index) / run.max(1.0);
        straight - arrival.at.saturating_sub(first.at).as_secs_f64()
    };
    let bend = line.iter().enumerate().max_by(|(_, a), (_, b)| below(a).total_cmp(&below(b)));
    let is_sharp = |arrival: &Arrival| below(arrival) > BEND_LEAST * rise;
    let bend = bend.filter(|(_, arrival)| is_sharp(arrival)).map_or(0, |(index, _)| index);
    // A bend in the last third would leave too little to read.
    line.get(bend.min(line.len() * 2 / 3)..).unwrap_or(line)
}

/// Octets of a train that is worth sending: enough to empty the bucket of an unknown link and read what follows, and no
/// more of the link than `share` within `every`, if its rate is known already.
pub fn train_octets(known_bps: Option<f64>, share: f64, every: Duration) -> u64 {
    /// Of a link that nobody knows: 64 packets.
    const UNKNOWN: f64 = 64.0 * 1400.0;
    /// A hundredth of a second at a gigabit; more is not seen better.
    const MOST: f64 = 1_250_000.0;
    let most = known_bps.map_or(UNKNOWN, |bps| bps / 8.0 * share * every.as_secs_f64());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and MOST"
    )]
    let octets = most.clamp(0.0, MOST) as u64;
    octets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OCTETS: u32 = 1250;

    /// A train through a bucket of `burst` packets and then a link of `bps`, some of it read late.
    fn train(packets: u32, burst: u32, bps: f64, late: &[u32]) -> Vec<Arrival> {
        let gap = f64::from(OCTETS) * 8.0 / bps;
        let mut arrivals: Vec<Arrival> = (0..packets)
            .map(|index| {
                let at = 0.001
                    + 1e-5 * f64::from(index.min(burst))
                    + gap * f64::from(index.saturating_sub(burst));
                Arrival { index, at: Duration::from_secs_f64(at) }
            })
            .collect();
        // Who reads late has the times of several packets in one.
        for index in late {
            let until = (*index as usize + 3).min(arrivals.len() - 1);
            let at = arrivals[until].at;
            for arrival in &mut arrivals[*index as usize..until] {
                arrival.at = at;
            }
        }
        arrivals
    }

    #[track_caller]
    fn check(arrivals: &[Arrival], expected: f64) {
        let rate = rate(arrivals, 64, OCTETS).unwrap();
        let error = (rate.bits_per_second / expected - 1.0).abs();
        assert!(error < 0.05, "{rate:?} instead of {expected}");
    }

    #[test]
    fn the_rate_is_the_slope_of_the_end() {
        check(&train(64, 0, 10e6, &[]), 10e6);
        check(&train(64, 12, 10e6, &[]), 10e6);
        check(&train(64, 30, 2e6, &[20, 40, 50]), 2e6);
    }

    #[test]
    fn lost_and_doubled_packets_do_not_count() {
        let mut arrivals = train(64, 0, 10e6, &[]);
        arrivals.retain(|arrival| arrival.index % 7 != 3);
        arrivals.extend(train(64, 0, 10e6, &[]).into_iter().take(5));
        check(&arrivals, 10e6);
        assert_eq!(rate(&arrivals, 64, OCTETS).unwrap().lost, 8);
    }

    #[test]
    fn what_came_at_once_says_nothing() {
        let at = Duration::from_millis(5);
        let at_once: Vec<Arrival> = (0..64).map(|index| Arrival { index, at }).collect();
        assert_eq!(rate(&at_once, 64, OCTETS), None);
        assert_eq!(rate(&at_once[..3], 64, OCTETS), None);
        assert_eq!(rate(&[], 64, OCTETS), None);
    }

    #[test]
    fn a_train_keeps_to_its_share() {
        let every = Duration::from_secs(600);
        assert_eq!(train_octets(None, 0.01, every), 89_600);
        assert_eq!(train_octets(Some(100_000.0), 0.01, every), 75_000);
        assert_eq!(train_octets(Some(1e9), 0.01, every), 1_250_000);
    }

    proptest! {
        #[test]
        fn a_bucket_and_a_late_reader_leave_the_rate_within_a_tenth(
            bps in 0.5e6..200e6f64,
            burst in 0..20u32,
            late in proptest::collection::vec(0..60u32, 0..6),
        ) {
            let rate = rate(&train(64, burst, bps, &late), 64, OCTETS).unwrap();
            let error = (rate.bits_per_second / bps - 1.0).abs();
            prop_assert!(error < 0.1, "{:?} instead of {}", rate, bps);
        }

        #[test]
        fn any_arrivals_give_a_finite_rate_or_none(
            arrivals in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..80),
        ) {
            let arrivals: Vec<Arrival> = arrivals
                .into_iter()
                .map(|(index, at)| Arrival { index, at: Duration::from_micros(u64::from(at)) })
                .collect();
            if let Some(rate) = rate(&arrivals, 64, OCTETS) {
                prop_assert!(rate.bits_per_second.is_finite() && rate.bits_per_second > 0.0);
                prop_assert!(rate.spread.is_finite());
            }
        }
    }
}
