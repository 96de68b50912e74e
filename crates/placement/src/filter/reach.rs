//! The need to be near a fixed place in the network: users, or a component that stays where it is.

use super::{Look, Mend};
use crate::ask::Reach;
use crate::paths::Way;
use crate::words;

pub(super) fn admits(look: &Look<'_, '_>, number: usize) -> bool {
    let reach = &look.ask.reaches[number];
    way(look, reach).is_some_and(|way| reach.holds(way))
}

pub(super) fn asks(reach: &Reach) -> String {
    let Reach { to: _, place, ways: _, latency_us_max, jitter_us_max, bandwidth_bps } = reach;
    format!("{place:?} {latency_us_max:?} {jitter_us_max:?} {bandwidth_bps}")
}

pub(super) fn wants(reach: &Reach) -> String {
    let mut bounds = Vec::new();
    if let Some(max) = reach.latency_us_max {
        bounds.push(format!("at most {} to {}", words::delay(max), reach.to));
    }
    if let Some(max) = reach.jitter_us_max {
        bounds.push(format!("at most {} of jitter to {}", words::delay(max), reach.to));
    }
    if reach.bandwidth_bps > 0 {
        bounds.push(format!("{} to {}", words::rate(reach.bandwidth_bps), reach.to));
    }
    if bounds.is_empty() {
        bounds.push(format!("a way to {}", reach.to));
    }
    words::list(&bounds)
}

pub(super) fn has(look: &Look<'_, '_>, number: usize) -> String {
    let reach = &look.ask.reaches[number];
    let Some(way) = way(look, reach) else { return "has no way there".into() };
    if way.assumed {
        return "nothing is known about the way there".into();
    }
    let mut said = vec![format!("has {}", words::delay(way.latency_us))];
    if reach.jitter_us_max.is_some() {
        said.push(format!("{} of jitter", words::delay(way.jitter_us)));
    }
    if let (1.., Some(rate)) = (reach.bandwidth_bps, way.bandwidth_bps) {
        said.push(words::rate(rate));
    }
    format!("{}{}", words::list(&said), look.continuum.network.told(way))
}

pub(super) fn mend(look: &Look<'_, '_>, number: usize) -> Mend {
    let reach = &look.ask.reaches[number];
    match (way(look, reach), reach.latency_us_max) {
        (Some(way), Some(max)) if !way.assumed && way.latency_us > max => {
            #[expect(clippy::cast_precision_loss, reason = "a share for comparing")]
            let effort = (way.latency_us - max) as f64 / way.latency_us as f64;
            super::rows::mend(
                effort,
                format!("if {} to {} would do", words::delay(way.latency_us), reach.to),
            )
        }
        (Some(way), _) if way.assumed => {
            super::rows::mend(1.5, format!("if the way to {} were measured", reach.to))
        }
        (Some(way), _) => {
            let jitter = reach.jitter_us_max.is_some_and(|max| way.jitter_us > max);
            let jitter = jitter.then(|| {
                format!("if {} of jitter to {} would do", words::delay(way.jitter_us), reach.to)
            });
            let rate = way.bandwidth_bps.filter(|rate| *rate < reach.bandwidth_bps);
            let rate = rate.map(|rate| format!("with {} to {}", words::rate_left(rate), reach.to));
            let less: Vec<String> = jitter.into_iter().chain(rate).collect();
            super::rows::mend(1.5, words::list(&less))
        }
        (None, _) => super::rows::mend(4.0, format!("with a link towards {}", reach.to)),
    }
}

fn way<'l>(look: &'l Look<'_, '_>, reach: &'l Reach) -> Option<&'l Way> {
    reach.ways.get(look.row().zone as usize)?.as_ref()
}

impl Reach {
    pub(crate) fn holds(&self, way: &Way) -> bool {
        let promised =
            self.latency_us_max.is_some() || self.jitter_us_max.is_some() || self.bandwidth_bps > 0;
        (!promised || !way.assumed)
            && self.latency_us_max.is_none_or(|max| way.latency_us <= max)
            && self.jitter_us_max.is_none_or(|max| way.jitter_us <= max)
            && way.bandwidth_bps.is_none_or(|rate| rate >= self.bandwidth_bps)
    }
}
