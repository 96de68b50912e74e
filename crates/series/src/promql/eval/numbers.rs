//! Sums that keep what is rounded off, and quantiles.

/// Neumaier's sum (1974): Kahan's, also right when what is added is larger than the sum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) value: f64,
    pub(super) lost: f64,
}

impl Sum {
    #[inline]
    pub(super) fn add(&mut self, more: f64) {
        let total = self.value + more;
        if total.is_infinite() {
            self.lost = 0.0;
        } else if self.value.abs() >= more.abs() {
            self.lost += (self.value - total) + more;
        } else {
            self.lost += (more - total) + self.value;
        }
        self.value = total;
    }

    pub(super) fn total(self) -> f64 {
        if self.value.is_infinite() { self.value } else { self.value + self.lost }
    }
}

/// The mean as a sum, for as long as the sum is finite, and then as a mean that moves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    sum: Sum,
    count: f64,
    moving: bool,
}

impl Mean {
    #[inline]
    pub(super) fn add(&mut self, more: f64) {
        self.count += 1.0;
        if self.count == 1.0 {
            self.sum = Sum { value: more, lost: 0.0 };
            return;
        }
        if !self.moving {
            let mut sum = self.sum;
            sum.add(more);
            if !sum.value.is_infinite() {
                self.sum = sum;
                return;
            }
            self.moving = true;
            self.sum.value /= self.count - 1.0;
            self.sum.lost /= self.count - 1.0;
        }
        let kept = (self.count - 1.0) / self.count;
        self.sum = Sum { value: kept * self.sum.value, lost: kept * self.sum.lost };
        self.sum.add(more / self.count);
    }

    pub(super) fn total(self) -> f64 {
        let count = if self.moving { 1.0 } else { self.count };
        self.sum.value / count + self.sum.lost / count
    }
}

/// Welford's variance (1962).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Variance {
    mean: f64,
    squares: f64,
    count: f64,
}

impl Variance {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1.0;
        if self.count == 1.0 {
            self.mean = value;
            self.squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return;
        }
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    pub(super) fn total(self) -> f64 {
        self.squares / self.count
    }
}

/// Between the two values next to the rank. Sorts the values; NaN is the smallest.
pub(super) fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    values.sort_by(|a, b| b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(b)));
    let rank = q * (values.len() - 1) as f64;
    let lower = rank.floor();
    let upper = (lower as usize + 1).min(values.len() - 1);
    let weight = rank - lower;
    values[lower as usize] * (1.0 - weight) + values[upper] * weight
}

/// Slope and value at a time of the line that lies closest (least squares).
pub(super) fn regression(samples: &[crate::sample::Sample], at_ms: i64) -> (f64, f64) {
    let first = samples[0].value;
    if samples.iter().all(|sample| sample.value == first) {
        return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
    }
    let [mut x, mut y, mut xy, mut xx] = [Sum::default(); 4];
    for sample in samples {
        let seconds = (sample.at_ms - at_ms) as f64 / 1e3;
        x.add(seconds);
        y.add(sample.value);
        xy.add(seconds * sample.value);
        xx.add(seconds * seconds);
    }
    let [x, y, xy, xx] = [x, y, xy, xx].map(|sum| sum.value + sum.lost);
    let count = samples.len() as f64;
    let slope = (xy - x * y / count) / (xx - x * x / count);
    (slope, y / count - slope * x / count)
}
