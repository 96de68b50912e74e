//! Slows down addresses that fail: so many wrong tokens and certificates a minute from each. An address
//! that succeeds is never slowed down: a thousand machines may join at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// A site behind one address with all its agents revoked stays below this.
const FAILURES_MAX: u32 = 60;
const WINDOW: Duration = Duration::from_secs(60);
/// Past this, the address that failed first is forgotten first.
const ADDRESSES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Throttle {
    windows: BTreeMap<IpAddr, Window>,
}

#[derive(Debug)]
struct Window {
    began: Duration,
    failures: u32,
}

impl Throttle {
    /// How long `address` has to wait, if it has to; `now` counts from the start of the server.
    pub(crate) fn wait(&self, address: IpAddr, now: Duration) -> Option<Duration> {
        let window = self.windows.get(&address)?;
        let rest = (window.began + WINDOW).saturating_sub(now);
        (window.failures >= FAILURES_MAX && !rest.is_zero()).then_some(rest)
    }

    pub(crate) fn failed(&mut self, address: IpAddr, now: Duration) {
        self.make_room(now);
        let window = self.windows.entry(address).or_insert(Window { began: now, failures: 0 });
        if window.began + WINDOW <= now {
            *window = Window { began: now, failures: 0 };
        }
        window.failures += 1;
    }

    fn make_room(&mut self, now: Duration) {
        if self.windows.len() < ADDRESSES_MAX {
            return;
        }
        self.windows.retain(|_, window| window.began + WINDOW > now);
        if self.windows.len() >= ADDRESSES_MAX
            && let Some(oldest) =
                self.windows.iter().min_by_key(|(_, window)| window.began).map(|(at, _)| *at)
        {
            self.windows.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn whoever_fails_too_often_waits_for_the_rest_of_the_minute() {
        let (mallory, anna) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut throttle = Throttle::default();
        for _ in 0..FAILURES_MAX {
            assert_eq!(throttle.wait(mallory, seconds(10)), None);
            throttle.failed(mallory, seconds(10));
        }
        assert_eq!(throttle.wait(mallory, seconds(30)), Some(seconds(40)));
        assert_eq!(throttle.wait(anna, seconds(30)), None);
        assert_eq!(throttle.wait(mallory, seconds(70)), None);
        throttle.failed(mallory, seconds(70));
        assert_eq!(throttle.wait(mallory, seconds(70)), None);
    }

    #[test]
    fn many_addresses_take_little_memory() {
        let mut throttle = Throttle::default();
        for number in 0..10_000 {
            throttle.failed(IpAddr::V4(Ipv4Addr::from_bits(number)), seconds(1));
        }
        assert_eq!(throttle.windows.len(), ADDRESSES_MAX);
        throttle.failed(IpAddr::from([127, 0, 0, 1]), seconds(100));
        assert_eq!(throttle.windows.len(), 1);
    }
}
