//! What a machine takes in electricity: counted by the kernel (RAPL) where it counts, else by a model, which
//! says that it is one. Start at [`Meter::read`].
//!
//! The model is the linear one of Fan, Weber and Barroso (ISCA 2007): idle watts, and from there to those at
//! full load in proportion to how busy the processors are. The two figures are those of the Node: said by the
//! operator, or guessed from what kind of machine it is.

use std::time::Duration;

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Counted by the kernel: the processors alone.
    Rapl,
    /// Calculated from figures of the operator: the whole machine.
    Said,
    /// Calculated from figures of machines of this kind.
    Model,
}

impl Source {
    pub fn word(self) -> &'static str {
        match self {
            Source::Rapl => "rapl",
            Source::Said => "said",
            Source::Model => "model",
        }
    }
}

/// What the model knows of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    pub idle_watts: f64,
    pub busy_watts: f64,
    pub source: Source,
}

/// What was taken lately, and since the start of the meter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    pub source: Source,
    pub watts: f64,
    pub joules: f64,
}

/// A counter of a package in microjoules, and where it begins again.
pub type Counter = (u64, u64);

#[derive(Clone, Debug, Default)]
pub struct Meter {
    counters: Vec<Counter>,
    joules: f64,
}

impl Meter {
    /// What was taken in the time `passed`; nothing where nobody knows.
    pub fn read(
        &mut self,
        counters: Vec<Counter>,
        model: Option<Model>,
        busy: Option<f64>,
        passed: Duration,
    ) -> Option<Power> {
        let counted = used(&self.counters, &counters);
        let (source, joules) = match (counters.is_empty(), model, busy) {
            (false, _, _) => (Source::Rapl, counted?),
            (true, Some(model), Some(busy)) => {
                let watts = model.idle_watts + (model.busy_watts - model.idle_watts) * busy;
                (model.source, watts * passed.as_secs_f64())
            }
            (true, _, _) => return None,
        };
        self.joules += joules;
        let seconds = passed.as_secs_f64();
        let watts = (seconds > 0.0).then(|| joules / seconds)?;
        self.counters = counters;
        Some(Power { source, watts, joules: self.joules })
    }

    /// The first reading, from which the next one counts.
    pub fn begin(&mut self, counters: Vec<Counter>) {
        self.counters = counters;
    }
}

fn used(before: &[Counter], now: &[Counter]) -> Option<f64> {
    if before.is_empty() || before.len() != now.len() {
        return None;
    }
    let one = |((before, _), (now, limit)): (&Counter, &Counter)| {
        // It has begun again at its limit.
        let again = limit.saturating_sub(*before).saturating_add(*now);
        now.checked_sub(*before).unwrap_or(again) as f64
    };
    Some(before.iter().zip(now).map(one).sum::<f64>() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: Duration = Duration::from_secs(10);
    const MODEL: Model = Model { idle_watts: 4.0, busy_watts: 14.0, source: Source::Said };

    #[test]
    fn the_model_lies_between_idle_and_busy_and_says_that_it_is_one() {
        let mut meter = Meter::default();
        let power = meter.read(vec![], Some(MODEL), Some(0.5), SECONDS).unwrap();
        assert_eq!(power, Power { source: Source::Said, watts: 9.0, joules: 90.0 });
        let power = meter.read(vec![], Some(MODEL), Some(0.0), SECONDS).unwrap();
        assert_eq!(power, Power { source: Source::Said, watts: 4.0, joules: 130.0 });
        assert_eq!(meter.read(vec![], None, Some(0.5), SECONDS), None);
        assert_eq!(meter.read(vec![], Some(MODEL), None, SECONDS), None);
    }

    #[test]
    fn what_the_kernel_counts_goes_before_the_model() {
        let mut meter = Meter::default();
        meter.begin(vec![(9_000_000, 10_000_000)]);
        let power = meter.read(vec![(1_000_000, 10_000_000)], Some(MODEL), Some(1.0), SECONDS);
        assert_eq!(power, Some(Power { source: Source::Rapl, watts: 0.2, joules: 2.0 }));
    }
}
