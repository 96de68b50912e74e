//! Kubernetes' HorizontalPodAutoscaler, from its documentation: the peer that ours is compared with, and
//! nothing else. <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>

use super::rules::{Changed, Rules};

#[derive(Clone, Debug)]
pub struct Hpa {
    pub replicas_min: u32,
    pub replicas_max: u32,
    pub tolerance: f64,
    pub up: Rules,
    pub down: Rules,
    recommendations: Vec<(i64, u32)>,
    changes: Vec<Changed>,
}

impl Hpa {
    /// With its usual settings: a tolerance of 0.1, and five minutes before it shrinks.
    pub fn new(replicas_min: u32, replicas_max: u32) -> Self {
        Self {
            replicas_min,
            replicas_max,
            tolerance: 0.1,
            up: Rules::usual_up(0),
            down: Rules::usual_down(300_000),
            recommendations: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// What one metric asks for: `ceil(ready * value / target)`, and what there is within the tolerance.
    pub fn wanted(&self, current: u32, ready: u32, ratio: f64) -> u32 {
        if current == 0 {
            return whole(ratio.ceil());
        }
        match (1.0 - ratio).abs() <= self.tolerance {
            true => current,
            false => whole((ratio * f64::from(ready)).ceil()),
        }
    }

    /// One look: a ratio of value to target for each metric, none where it could not be read.
    pub fn step(&mut self, current: u32, ready: u32, ratios: &[Option<f64>], now: i64) -> u32 {
        if current == 0 && self.replicas_min > 0 {
            return 0;
        }
        if current > self.replicas_max || current < self.replicas_min {
            return current.clamp(self.replicas_min, self.replicas_max);
        }
        let known: Vec<u32> =
            ratios.iter().flatten().map(|ratio| self.wanted(current, ready, *ratio)).collect();
        let Some(wanted) = known.iter().copied().max() else { return current };
        if known.len() < ratios.len() && wanted < current {
            return current;
        }
        let desired = self.normalise(current, wanted, now);
        if desired != current {
            let by = i64::from(desired) - i64::from(current);
            self.changes.push(Changed { at_ms: now, by });
        }
        desired
    }

    /// Stabilises what is asked for, and keeps to the rates and the bounds.
    fn normalise(&mut self, current: u32, wanted: u32, now: i64) -> u32 {
        let since = |window_ms: i64| now - window_ms;
        let (up_since, down_since) = (since(self.up.window_ms), since(self.down.window_ms));
        let recent = |from: i64| {
            let all = self.recommendations.iter().filter(move |(at, _)| *at > from);
            all.map(|(_, count)| *count)
        };
        let low = recent(up_since).min().map_or(wanted, |least| least.min(wanted));
        let high = recent(down_since).max().map_or(wanted, |most| most.max(wanted));
        let stable = current.max(low).min(high);
        self.recommendations.retain(|(at, _)| *at > up_since.min(down_since));
        self.recommendations.push((now, wanted));
        self.limited(current, stable, now)
    }

    fn limited(&mut self, current: u32, desired: u32, now: i64) -> u32 {
        let longest = self.up.longest_ms().max(self.down.longest_ms());
        self.changes.retain(|change| change.at_ms > now - longest);
        if desired > current {
            let most = self.up.up_limit(current, &self.changes, now).min(self.replicas_max);
            desired.min(most)
        } else if desired < current {
            let least = self.down.down_limit(current, &self.changes, now).max(self.replicas_min);
            desired.max(least)
        } else {
            desired
        }
    }
}

#[expect(clippy::cast_sign_loss, reason = "clamped to 0 and above")]
#[expect(clippy::cast_possible_truncation, reason = "clamped below a million")]
pub(crate) fn whole(value: f64) -> u32 {
    if value.is_nan() { 0 } else { value.clamp(0.0, 1_000_000.0) as u32 }
}

#[cfg(test)]
mod tests {
    use super::super::rules::{Amount, Rate};
    use super::*;

    const NOW: i64 = 1_000_000_000;

    /// `2/60 100%/60`, or `-` for what is usual.
    fn rules(text: &str, usual: Rules) -> Rules {
        if text == "-" {
            return usual;
        }
        let rate = |word: &str| {
            let (amount, seconds) = word.split_once('/').unwrap();
            let amount = match amount.strip_suffix('%') {
                Some(percent) => Amount::Percent(percent.parse().unwrap()),
                None => Amount::Replicas(amount.parse().unwrap()),
            };
            Rate { amount, per_ms: seconds.parse::<i64>().unwrap() * 1000 }
        };
        Rules { rates: text.split(' ').map(rate).collect(), ..usual }
    }

    /// Events spread evenly over the last two minutes, as the tests of Kubernetes spread them.
    fn events(text: &str) -> Vec<Changed> {
        let of = |part: &str, sign: i64| {
            let counts: Vec<i64> =
                part.split(',').filter(|c| !c.is_empty()).map(|c| c.parse().unwrap()).collect();
            let parts = counts.len() as i64 + 1;
            let at = |index: usize| NOW - 120_000 * (index as i64 + 1) / parts;
            let all = counts.iter().enumerate().map(|(index, by)| (at(index), sign * by));
            all.map(|(at_ms, by)| Changed { at_ms, by }).collect::<Vec<Changed>>()
        };
        let (up, down) = text.split_once('|').unwrap();
        [of(up, 1), of(down, -1)].concat()
    }

    /// The cases of `TestScalingWithRules` in Kubernetes, each as: least and most, rates up, rates down, events
    /// up and down, instances now, wanted, and given.
    const RATES: &str = "\
        3 8 ; - ; - ; | ; 5 7 7\n\
        3 8 ; - ; - ; | ; 5 1 3\n\
        1 8 ; - ; - ; | ; 5 0 1\n\
        3 8 ; - ; - ; | ; 5 10 8\n\
        1 1000 ; 100/60 2%/60 ; - ; | ; 10 500 110\n\
        1 1000 ; 2/60 100%/60 ; - ; | ; 10 500 20\n\
        1 1000 ; 100/60 ; - ; | ; 10 50 50\n\
        1 1000 ; 10000%/60 ; - ; | ; 10 50 50\n\
        1 1000 ; 30/60 ; - ; | ; 10 50 40\n\
        1 1000 ; 200%/60 ; - ; | ; 10 50 30\n\
        1 1000 ; - ; 20/60 1%/60 ; | ; 100 2 80\n\
        1 1000 ; - ; 2/60 1%/60 ; | ; 100 2 98\n\
        1 1000 ; - ; 100/60 ; | ; 10 0 1\n\
        5 1000 ; - ; 100%/60 ; | ; 10 2 5\n\
        1 1000 ; - ; 5/60 ; | ; 10 2 5\n\
        1 1000 ; - ; 50%/60 ; | ; 10 5 5\n\
        1 200 ; 300/60 ; - ; 1,5,9| ; 100 500 200\n\
        1 200 ; 10000%/60 ; - ; 1,5,9| ; 100 500 200\n\
        1 1000 ; 5/120 ; - ; 1,5,9| ; 100 500 100\n\
        1 1000 ; 150/120 ; - ; 1,5,9| ; 100 500 235\n\
        1 1000 ; 200%/120 ; - ; 1,5,9| ; 100 500 255\n\
        1 1000 ; 300%/300 ; - ; 4|2 ; 6 24 16\n\
        1 1000 ; - ; - ; |1,5,9 ; 10 5 5\n\
        1 1000 ; - ; 115/120 ; |1,5,9 ; 100 0 1\n\
        5 1000 ; - ; 130/120 ; |1,5,9 ; 100 0 5\n\
        5 1000 ; - ; 100%/120 ; |1,5,9 ; 100 2 5\n\
        1 1000 ; - ; 5/120 ; |1,5,9 ; 100 2 100\n\
        1 1000 ; - ; 50%/120 ; |2,4,6 ; 100 0 56\n\
        1 1000 ; - ; 50%/180 ; 2|4 ; 10 1 6\n\
        1 1000 ; - ; 10%/120 ; |10,10,10 ; 100 0 100\n\
        1 1000 ; - ; 1000%/120 ; |10,10,10 ; 10 5 5\n\
        1 1000 ; 1000/60 ; - ; 8,12,9,11| ; 100 200 200\n\
        1 1000 ; 1000/120 100%/60 ; - ; 8,12,9,11| ; 100 200 200";

    #[test]
    fn rates_give_what_kubernetes_gives() {
        for row in RATES.lines() {
            let parts: Vec<&str> = row.split(';').map(str::trim).collect();
            let numbers = |text: &str| -> Vec<u32> {
                text.split(' ').map(|word| word.parse().unwrap()).collect()
            };
            let (bounds, case) = (numbers(parts[0]), numbers(parts[4]));
            let mut hpa = Hpa::new(bounds[0], bounds[1]);
            hpa.up = rules(parts[1], Rules::usual_up(0));
            hpa.down = rules(parts[2], Rules::usual_down(0));
            hpa.changes = events(parts[3]);
            assert_eq!(hpa.limited(case[0], case[1], NOW), case[2], "{row}");
        }
    }

    #[test]
    fn what_a_ratio_asks_for_is_what_kubernetes_says() {
        let hpa = Hpa::new(1, 100);
        // Instances, ready ones, ratio, wanted: from its replica calculator's tests.
        let rows = [
            (3, 3, 5.0 / 3.0, 5),
            (3, 3, 1.09, 3),
            (3, 3, 0.91, 3),
            (3, 3, 1.11, 4),
            (5, 5, 0.28, 2),
            (3, 2, 2.0, 4),
            (0, 0, 2.4, 3),
            (4, 4, 0.0, 0),
        ];
        for (current, ready, ratio, wanted) in rows {
            assert_eq!(hpa.wanted(current, ready, ratio), wanted, "{current} {ready} {ratio}");
        }
    }

    #[test]
    fn it_shrinks_to_the_most_of_five_minutes_and_grows_at_once() {
        let mut hpa = Hpa::new(1, 100);
        assert_eq!(hpa.step(4, 4, &[Some(0.5)], 0), 2, "it knows of nothing higher");
        let mut hpa = Hpa::new(1, 100);
        assert_eq!(hpa.step(4, 4, &[Some(1.0)], 0), 4);
        assert_eq!(hpa.step(4, 4, &[Some(0.5)], 15_000), 4);
        assert_eq!(hpa.step(4, 4, &[Some(0.5)], 299_999), 4);
        assert_eq!(hpa.step(4, 4, &[Some(0.5)], 300_000), 2);
        assert_eq!(hpa.step(2, 2, &[Some(10.0)], 315_000), 6, "4 more, or twice as many");
    }

    #[test]
    fn a_metric_that_is_missing_keeps_it_from_shrinking_only() {
        let mut hpa = Hpa::new(1, 100);
        assert_eq!(hpa.step(4, 4, &[Some(0.1), None], 0), 4);
        assert_eq!(hpa.step(4, 4, &[Some(2.0), None], 15_000), 8);
        assert_eq!(hpa.step(4, 4, &[None], 30_000), 4);
        assert_eq!(hpa.step(4, 4, &[Some(1.5), Some(2.0), Some(0.1)], 45_000), 8);
    }
}
