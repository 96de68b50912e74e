//! Delays between machines all over the world, made up so that they have the statistics of those that were measured
//! between 490 machines of PlanetLab: percentiles of the delays (measured 19, 59, 135, 202 and 325 ms for 5, 25, 50,
//! 75 and 95 %), and how badly plain coordinates fit them (12 % in the median, 83 % for the worst tenth; four
//! dimensions, 16 neighbours).

use anyhow::{Context as _, ensure};

/// A generator that gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from(self.number() % bound).unwrap_or_default()
    }

    /// Between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        let [a, b, c, d, ..] = self.number().to_be_bytes();
        f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
    }

    /// Of the normal distribution, as the sum of twelve even ones.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Delays there and back, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    rows: Vec<Vec<f64>>,
}

impl Matrix {
    /// A line for each machine.
    pub(crate) fn read(text: &str) -> anyhow::Result<Matrix> {
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let row = line.split_whitespace().map(str::parse).collect::<Result<_, _>>();
            rows.push(row.context("a delay is not a number")?);
        }
        let is_square = !rows.is_empty() && rows.iter().all(|row| row.len() == rows.len());
        ensure!(is_square, "a matrix has as many columns as lines");
        for (a, row) in rows.iter().enumerate() {
            let sound = |(b, rtt): (usize, &f64)| a == b || (rtt.is_finite() && *rtt > 0.0);
            ensure!(row.iter().enumerate().all(sound), "line {} has a delay that is none", a + 1);
        }
        Ok(Matrix { rows })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn rtt(&self, from: usize, to: usize) -> f64 {
        self.rows[from][to]
    }

    /// Percentiles of the delays between different machines.
    pub(crate) fn percentiles<const N: usize>(&self, percents: [usize; N]) -> [f64; N] {
        let pairs = (0..self.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        super::percentiles(pairs.map(|(a, b)| self.rtt(a, b)).collect(), percents)
    }
}

/// Where the machines of PlanetLab stood: the middle of a region, how far it spreads in degrees, and its share.
const REGIONS: [(f64, f64, f64, f64); 7] = [
    (41.0, -77.0, 5.0, 0.27),  // the east of North America
    (39.0, -98.0, 7.0, 0.12),  // its middle
    (37.5, -120.0, 4.0, 0.13), // its west
    (49.0, 7.0, 7.0, 0.30),    // Europe
    (34.0, 127.0, 9.0, 0.12),  // East Asia
    (-22.0, -50.0, 7.0, 0.03), // South America
    (-30.0, 150.0, 6.0, 0.03), // Oceania
];
/// Kilometres that light in glass goes there and back in a millisecond.
const KM_PER_MS: f64 = 100.0;

struct Machine {
    /// On the unit sphere.
    place: [f64; 3],
    /// What its access line adds.
    access_ms: f64,
    institute: usize,
}

/// As many machines, the same for the same seed.
pub(crate) fn generate(machines: usize, seed: u64) -> Matrix {
    let mut dice = Dice::new(seed);
    let institutes = (machines * 2 / 5).max(1);
    let places: Vec<[f64; 3]> = (0..institutes).map(|_| place(&mut dice)).collect();
    // How much of a detour the providers of an institute take: some are bad to everybody.
    let detours: Vec<f64> = (0..institutes).map(|_| 0.05 * dice.normal()).collect();
    let machines: Vec<Machine> = (0..machines)
        .map(|_| {
            let institute = dice.below(institutes);
            // Most stand in a machine room; a few hang on a line of their own.
            let slow = dice.unit() < 0.08;
            let access_ms = if slow { 25.0 * dice.unit() } else { 0.1 + 1.5 * dice.unit().powi(3) };
            Machine { place: places[institute], access_ms, institute }
        })
        .collect();
    let mut rows = vec![vec![0.0; machines.len()]; machines.len()];
    for (index, one) in machines.iter().enumerate() {
        for (other_index, other) in machines[..index].iter().enumerate() {
            let both = detours[one.institute] + detours[other.institute];
            let rtt = rtt(one, other, both, &mut dice);
            rows[index][other_index] = rtt;
            rows[other_index][index] = rtt;
        }
    }
    Matrix { rows }
}

fn place(dice: &mut Dice) -> [f64; 3] {
    let mut chance = dice.unit();
    let region = REGIONS.iter().find(|(.., share)| {
        chance -= share;
        chance < 0.0
    });
    let (latitude, longitude, spread, _) = region.unwrap_or(&REGIONS[0]);
    let latitude = (latitude + spread * dice.normal()).clamp(-80.0, 80.0).to_radians();
    let longitude = (longitude + 1.3 * spread * dice.normal()).to_radians();
    let (sine, cosine) = latitude.sin_cos();
    [cosine * longitude.cos(), cosine * longitude.sin(), sine]
}

fn rtt(one: &Machine, other: &Machine, detours: f64, dice: &mut Dice) -> f64 {
    let access = one.access_ms + other.access_ms;
    if one.institute == other.institute {
        return 0.1 + access;
    }
    let cosine: f64 = one.place.iter().zip(&other.place).map(|(a, b)| a * b).sum();
    let km = 6371.0 * cosine.clamp(-1.0, 1.0).acos();
    // Routes are twice as long as the great circle, and have routers; a few go another way round.
    let around = if dice.unit() < 0.06 { 80.0 * dice.unit() } else { 0.0 };
    let stretch = (0.7 + detours + 0.06 * dice.normal()).exp();
    4.0 + km / KM_PER_MS * stretch.max(1.02) + access + around
}
