//! A number with what one has to know to believe it.

use std::time::Duration;

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A person has written it.
    Declared,
    /// Probes of this very pair, or traffic over it.
    Measured,
    /// Worked out from probes of other pairs.
    Estimated,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Declared => "declared",
            Kind::Measured => "measured",
            Kind::Estimated => "estimated",
        }
    }
}

/// A value, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub kind: Kind,
    /// How long ago the youngest sample was.
    pub age: Duration,
    /// Half of the width in which two thirds of the samples lie; in the unit of the value.
    pub spread: f64,
    pub samples: u32,
}

/// An estimate is as likely to be off by twice its spread as a measurement by once its own: the tail of
/// coordinates is long ([ADR 18](../../../docs/adr/0018-coordinates-and-shortlists.md)).
const MARGIN_OF_ESTIMATES: f64 = 2.0;
/// What a measured figure may change by while nobody looks: a tenth of it an hour, at most half.
const DRIFT_PER_HOUR: f64 = 0.1;
const DRIFT_MOST: f64 = 0.5;

impl Figure {
    /// What a person wrote has neither age nor spread.
    pub fn declared(value: f64) -> Figure {
        Figure { value, kind: Kind::Declared, age: Duration::ZERO, spread: 0.0, samples: 0 }
    }

    /// How far from the value one has to reckon with the truth: wider for estimates and for what is old.
    pub fn margin(&self) -> f64 {
        let drift = (DRIFT_PER_HOUR * self.age.as_secs_f64() / 3600.0).min(DRIFT_MOST);
        match self.kind {
            Kind::Declared => 0.0,
            Kind::Measured => self.spread + self.value.abs() * drift,
            Kind::Estimated => MARGIN_OF_ESTIMATES * self.spread + self.value.abs() * drift,
        }
    }

    /// The largest value that one has to reckon with: the bad end of a delay.
    pub fn at_most(&self) -> f64 {
        self.value + self.margin()
    }

    /// The smallest, and nothing below zero: the bad end of a bandwidth.
    pub fn at_least(&self) -> f64 {
        (self.value - self.margin()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_for_less_than_a_measurement_and_age_for_less_still() {
        let measured = Figure {
            value: 20.0,
            kind: Kind::Measured,
            age: Duration::ZERO,
            spread: 1.0,
            samples: 9,
        };
        let estimated = Figure { kind: Kind::Estimated, ..measured };
        let old = Figure { age: Duration::from_secs(3600), ..measured };
        assert_eq!((measured.at_least(), measured.at_most()), (19.0, 21.0));
        assert_eq!(estimated.at_most(), 22.0);
        assert_eq!(old.at_most(), 23.0);
        assert_eq!(Figure { spread: 30.0, ..measured }.at_least(), 0.0);
        assert_eq!(Figure::declared(5.0).at_most(), 5.0);
    }
}
