//! How many instances a scaler wants, before rates and bounds.

use tombolo_model::scaling::TargetKind;

use super::hpa::whole;
use super::{
    LATEST_LOOKS, LOOK_MS, Limit, Measured, Metric, NEEDS_MAX, Reading, SOON_MS, Scaler, Spec,
    THEN_MS, TREND_LOOKS, USED_DOWN, USED_UP, WORTH,
};

/// A need below this is none.
const NOTHING: f64 = 1e-9;

impl Scaler {
    pub(super) fn wanted(
        &mut self,
        current: u32,
        reading: &Reading,
        now: i64,
        passed_ms: f64,
    ) -> (u32, String) {
        let needs: Vec<Option<f64>> = self
            .spec
            .metrics
            .iter()
            .zip(&reading.metrics)
            .map(|(metric, measured)| measured.map(|measured| need(metric, measured, current)))
            .collect();
        let need = needs.iter().flatten().copied().reduce(f64::max);
        let blind = needs.iter().any(Option::is_none);
        let by_metrics = match need {
            Some(need) => self.by_need(current, need, blind, now, passed_ms),
            None if self.spec.metrics.is_empty() => (current, "no step is due".to_owned()),
            None => (current, "nothing is measured".to_owned()),
        };
        self.by_steps(current, reading, now, by_metrics)
    }

    fn by_need(
        &mut self,
        current: u32,
        need: f64,
        blind: bool,
        now: i64,
        passed_ms: f64,
    ) -> (u32, String) {
        self.remember(need, now);
        if let Some(idle) = self.asleep_or_woken(current, need, blind, now) {
            return idle;
        }
        let rise = self.rise();
        let (soon, then) = (need + rise * SOON_MS, need + rise * THEN_MS);
        let tolerance = self.spec.up.tolerance.unwrap_or(self.spec.tolerance);
        if self.lowest(soon, now) > f64::from(current) * (1.0 + tolerance) {
            self.memory.wasted = 0.0;
            let enough = self.lowest(then, now) / (1.0 + USED_UP * tolerance);
            let wanted = whole(enough.ceil()).max(current + 1);
            return (wanted, format!("{need:.2} are needed, and {then:.2} soon"));
        }
        let highest = self.highest(soon, now);
        let fewer = whole((highest / (1.0 + USED_DOWN * self.spec.tolerance)).ceil()).max(1);
        if fewer >= current || blind {
            self.memory.wasted = (self.memory.wasted - passed_ms / LOOK_MS).max(0.0);
            return (current, format!("{need:.2} are needed"));
        }
        let tolerance = self.spec.down.tolerance.unwrap_or_default();
        if highest > f64::from(current) * (1.0 - tolerance) {
            return (current, format!("{need:.2} are needed, within the tolerance"));
        }
        let surplus = (f64::from(current) - highest).max(1.0);
        self.memory.wasted += surplus * surplus / f64::from(current) * passed_ms / LOOK_MS;
        if self.memory.wasted < WORTH || !self.has_looked_long(now) {
            return (current, format!("{need:.2} are needed; fewer is not worth a change yet"));
        }
        (fewer, format!("{highest:.2} were needed at most, and that for long enough"))
    }

    fn remember(&mut self, need: f64, now: i64) {
        let memory = &mut self.memory;
        memory.needs.push((now, need));
        let window = self.spec.up.window_ms.max(self.spec.down.window_ms);
        let from = now - window;
        // The trend takes its looks from within the window or before it.
        let keep = memory.needs.iter().filter(|(at, _)| *at >= from).count().max(TREND_LOOKS);
        let keep = keep.min(NEEDS_MAX);
        let over = memory.needs.len().saturating_sub(keep + 1);
        memory.needs.drain(..over);
    }

    /// Without anything to do for long enough the last one goes; something to do brings one back at once.
    fn asleep_or_woken(
        &mut self,
        current: u32,
        need: f64,
        blind: bool,
        now: i64,
    ) -> Option<(u32, String)> {
        if current == 0 {
            let wanted = whole(need.ceil()).max(u32::from(need > NOTHING));
            let reason = if wanted == 0 { "nothing asks for it" } else { "it is asked for" };
            self.memory.idle_since = None;
            return Some((wanted, reason.to_owned()));
        }
        if need > NOTHING || blind {
            self.memory.idle_since = None;
            return None;
        }
        let since = *self.memory.idle_since.get_or_insert(now);
        let asleep = self.spec.replicas_min == 0 && now - since >= self.spec.idle_ms;
        asleep.then(|| (0, format!("nothing has asked for it for {} s", (now - since) / 1000)))
    }

    /// The most cautious need upwards: the least of its window.
    fn lowest(&self, ahead: f64, now: i64) -> f64 {
        let from = now - self.spec.up.window_ms;
        let recent = self.memory.needs.iter().filter(|(at, _)| *at > from && *at < now);
        recent.map(|(_, need)| *need).fold(ahead, f64::min)
    }

    /// The most cautious need downwards: the most of its window.
    fn highest(&self, ahead: f64, now: i64) -> f64 {
        let from = now - self.spec.down.window_ms;
        let recent = self.memory.needs.iter().filter(|(at, _)| *at > from);
        recent.map(|(_, need)| *need).fold(ahead, f64::max)
    }

    fn has_looked_long(&self, now: i64) -> bool {
        let first = self.memory.needs.first().map_or(now, |(at, _)| *at);
        now - first >= self.spec.down.window_ms
    }

    /// By how much the need rises in a millisecond: a line through the last looks, but no more than the middle
    /// one of the latest changes, so that a step in the load, which is over, is not taken for a rise that goes
    /// on. Never below 0: what falls is waited for.
    fn rise(&self) -> f64 {
        let start = self.memory.needs.len().saturating_sub(TREND_LOOKS);
        let looks = &self.memory.needs[start..];
        if looks.len() < LATEST_LOOKS {
            return 0.0;
        }
        let count = looks.len() as f64;
        let middle_at = looks.iter().map(|(at, _)| *at as f64).sum::<f64>() / count;
        let middle = looks.iter().map(|(_, need)| need).sum::<f64>() / count;
        let (mut above, mut below) = (0.0, 0.0);
        for (at, need) in looks {
            let away = *at as f64 - middle_at;
            above += away * (need - middle);
            below += away * away;
        }
        let latest = looks.windows(2).rev().take(LATEST_LOOKS);
        let mut latest: Vec<f64> = latest
            .map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0).max(1) as f64)
            .collect();
        latest.sort_by(f64::total_cmp);
        let middle = f64::midpoint(latest[(latest.len() - 1) / 2], latest[latest.len() / 2]);
        if below > 0.0 { (above / below).min(middle).max(0.0) } else { 0.0 }
    }

    /// The first step that holds, if its cooldown is over: more than the metrics want, or fewer where there
    /// are no metrics.
    fn by_steps(
        &mut self,
        current: u32,
        reading: &Reading,
        now: i64,
        by_metrics: (u32, String),
    ) -> (u32, String) {
        for (number, step) in self.spec.steps.iter().enumerate() {
            let Some(Some(measured)) = reading.steps.get(number) else { continue };
            let (holds, value) = match step.limit {
                Limit::Above(limit) => (measured.most > limit, measured.most),
                Limit::Below(limit) => (measured.least < limit, measured.least),
            };
            if !holds {
                continue;
            }
            let used = self.memory.used.get(number).copied().flatten();
            if used.is_some_and(|at| now - at < step.cooldown_ms) {
                return by_metrics;
            }
            let changed = (i64::from(current) + step.change).max(0);
            let changed = u32::try_from(changed).unwrap_or(u32::MAX);
            let counts = match step.change > 0 {
                true => changed > by_metrics.0,
                false => self.spec.metrics.is_empty() && changed < current,
            };
            if !counts || (changed == 0 && self.spec.replicas_min > 0 && current <= 1) {
                return by_metrics;
            }
            if let Some(used) = self.memory.used.get_mut(number) {
                *used = Some(now);
            }
            return (changed, format!("step {number}: its value is {value}"));
        }
        by_metrics
    }
}

/// So many instances would bring every metric to its target or below.
pub(crate) fn needed(spec: &Spec, reading: &Reading, current: u32) -> Option<f64> {
    let each = spec.metrics.iter().zip(&reading.metrics);
    let known = each.filter_map(|(metric, measured)| Some(need(metric, (*measured)?, current)));
    known.reduce(f64::max)
}

/// So many instances would bring a metric to its target.
fn need(metric: &Metric, measured: Measured, current: u32) -> f64 {
    let of = |value: f64| (value / metric.target).max(0.0);
    match (metric.kind, current) {
        // Without instances there is nothing to share, and HPA takes the ratio as it is.
        (TargetKind::PerInstance, _) | (_, 0) => of(measured.sum),
        (TargetKind::Average, current) => of(measured.mean) * f64::from(current),
        (TargetKind::Total, current) => of(measured.sum) * f64::from(current),
    }
}
