//! How well a supply of instances follows the demand for them: the metrics of SPEC RG Cloud (Herbst and
//! others, 2018), in percent.

/// Demand and supply over time, each step as long as the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub demand: u32,
    pub supply: u32,
}

/// Smaller is better, for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Elasticity {
    /// How much of the demand was not met, on average over the whole time.
    pub under_accuracy: f64,
    /// How much was there beyond the demand.
    pub over_accuracy: f64,
    /// How much of the time too little was there.
    pub under_time_share: f64,
    /// How much of the time too much was there.
    pub over_time_share: f64,
    /// How much of the time supply and demand changed in different directions.
    pub instability: f64,
}

pub fn measure(points: &[Point]) -> Elasticity {
    let count = points.len();
    if count == 0 {
        return Elasticity::default();
    }
    let mut sum = Elasticity::default();
    for point in points {
        let gap = f64::from(point.supply) - f64::from(point.demand);
        // Where nothing is wanted, each instance beyond is one too many.
        let wanted = f64::from(point.demand.max(1));
        sum.under_accuracy += (-gap).max(0.0) / wanted;
        sum.over_accuracy += gap.max(0.0) / wanted;
        sum.under_time_share += f64::from(u8::from(gap < 0.0));
        sum.over_time_share += f64::from(u8::from(gap > 0.0));
    }
    for pair in points.windows(2) {
        let turn = |before: u32, after: u32| (i64::from(after) - i64::from(before)).signum();
        let demand = turn(pair[0].demand, pair[1].demand);
        let supply = turn(pair[0].supply, pair[1].supply);
        sum.instability += f64::from(u8::from(supply != 0 && supply != demand));
    }
    let percent = |value: f64, of: usize| 100.0 * value / of.max(1) as f64;
    Elasticity {
        under_accuracy: percent(sum.under_accuracy, count),
        over_accuracy: percent(sum.over_accuracy, count),
        under_time_share: percent(sum.under_time_share, count),
        over_time_share: percent(sum.over_time_share, count),
        instability: percent(sum.instability, count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_a_known_curve() {
        let points = [(2, 2), (4, 2), (4, 4), (2, 4), (2, 3)];
        let points = points.map(|(demand, supply)| Point { demand, supply });
        let found = measure(&points);
        let expected = Elasticity {
            under_accuracy: 10.0,
            over_accuracy: 30.0,
            under_time_share: 20.0,
            over_time_share: 40.0,
            instability: 50.0,
        };
        assert_eq!(found, expected);
        assert_eq!(measure(&[]), Elasticity::default());
    }
}
