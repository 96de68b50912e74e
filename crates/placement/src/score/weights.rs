//! How much each criterion counts: profiles, what an App changes of them, and what its components
//! bring along.

use tombolo_model::AppSpec;
use tombolo_model::app::{Grade, Profile, Weights};
use tombolo_model::component::Component;

use super::{
    COST, CRITERIA, DATA, ENERGY, GREENNESS, LATENCY, PERFORMANCE, RECOMMENDATION, RESILIENCE,
    SECURITY, STABILITY,
};

type Raw = [f64; CRITERIA.len()];

/// Weights that add up to 1, for the criteria that apply to a component.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mix {
    weights: Vec<(usize, f64)>,
    /// The share of latency among all criteria: how much traffic between components counts.
    pub traffic: f64,
}

impl Mix {
    /// `weights`, when given, takes the place of the App's own.
    pub(crate) fn of(spec: &AppSpec, component: &Component, weights: Option<&Weights>) -> Mix {
        let mut raw = base(spec, weights);
        let factor = match spec.failure_tolerance {
            Some(Grade::Low) => 2.0,
            Some(Grade::Medium) | None => 1.0,
            Some(Grade::High) => 0.5,
        };
        raw[RESILIENCE] *= factor;
        raw[STABILITY] *= factor;
        let sum: f64 = raw.iter().sum();
        let traffic = if sum > 0.0 { raw[LATENCY] / sum } else { 0.0 };

        // Without users there is no way to them to be short.
        if component.users.is_none() {
            raw[LATENCY] = 0.0;
        }
        let rest: f64 = raw.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        raw[DATA] = 0.5 * rest * gravity(component);
        if component.recommendations.iter().any(|given| given.value.is_some()) {
            raw[RECOMMENDATION] = 0.5 * rest;
        }
        let sum: f64 = raw.iter().sum();
        let weights = raw.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        Mix {
            weights: weights.map(|(criterion, weight)| (criterion, weight / sum)).collect(),
            traffic,
        }
    }

    /// Energy and greenness count for half or more.
    pub(crate) fn saves_energy(&self) -> bool {
        let green = self.iter().filter(|(criterion, _)| [ENERGY, GREENNESS].contains(criterion));
        green.map(|(_, weight)| weight).sum::<f64>() >= 0.5
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.weights.iter().copied()
    }

    /// Exact, for telling classes apart.
    pub(crate) fn bits(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.weights.iter().map(|(criterion, weight)| (*criterion, weight.to_bits()))
    }
}

/// How strongly data pulls, 0 to 1: half at 10 GB.
pub(crate) fn gravity(component: &Component) -> f64 {
    const BYTES_HALF: f64 = 10e9;
    let Some(data) = component.data.as_ref().filter(|data| data.from.is_some()) else { return 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "a size for a score")]
    let size = data.input.map_or(0.0, |input| input.get() as f64);
    size / (size + BYTES_HALF)
}

fn base(spec: &AppSpec, instead: Option<&Weights>) -> Raw {
    let given = instead.or(spec.weights.as_ref());
    // Who asks what if other weights counted means those and nothing of the profile.
    let profile = spec.profile.filter(|_| instead.is_none());
    let mut raw = match (profile, given) {
        (Some(profile), _) => profile_weights(profile),
        // Who names some criteria does not want the others.
        (None, Some(_)) => [0.0; CRITERIA.len()],
        (None, None) => profile_weights(Profile::Balanced),
    };
    let Some(weights) = given else { return raw };
    let changes = [
        (PERFORMANCE, weights.performance),
        (ENERGY, weights.energy),
        (SECURITY, weights.security),
        (COST, weights.cost),
        (RESILIENCE, weights.resilience),
        (LATENCY, weights.latency),
    ];
    for (criterion, weight) in changes {
        if let Some(weight) = weight.filter(|weight| weight.is_finite()) {
            raw[criterion] = weight.clamp(0.0, 1e6);
        }
    }
    if raw.iter().all(|weight| *weight == 0.0) {
        return profile_weights(Profile::Balanced);
    }
    raw
}

fn profile_weights(profile: Profile) -> Raw {
    let mut raw = [0.0; CRITERIA.len()];
    let even = match profile {
        Profile::Balanced | Profile::Pack => 1.0,
        Profile::Greenness | Profile::Resilience | Profile::Performance => 0.5,
    };
    for criterion in [PERFORMANCE, ENERGY, SECURITY, COST, RESILIENCE, LATENCY] {
        raw[criterion] = even;
    }
    let raised: &[(usize, f64)] = match profile {
        Profile::Balanced | Profile::Pack => &[],
        Profile::Greenness => &[(GREENNESS, 3.0), (ENERGY, 2.0)],
        Profile::Resilience => &[(STABILITY, 3.0), (RESILIENCE, 2.0)],
        Profile::Performance => &[(PERFORMANCE, 3.0), (LATENCY, 2.0)],
    };
    for (criterion, weight) in raised {
        raw[*criterion] = *weight;
    }
    raw
}
