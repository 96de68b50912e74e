//! Percentiles and rounding for the benchmarks' JSON.

use std::time::Duration;

/// The value below which so many percent lie; 0 of nothing.
pub(crate) fn percentile_ms(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { return 0.0 };
    let index = (times.len() * percent).div_ceil(100).saturating_sub(1).min(last);
    rounded(times[index].as_secs_f64() * 1000.0)
}

/// Three digits after the point: more is noise.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut times: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&mut times, 50).to_string(), "50");
        assert_eq!(percentile_ms(&mut times, 99).to_string(), "99");
        assert_eq!(percentile_ms(&mut times, 100).to_string(), "100");
        assert_eq!(percentile_ms(&mut [], 99).to_string(), "0");
    }
}
