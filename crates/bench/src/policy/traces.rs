//! Loads over time. The published ones where somebody has put them; otherwise some of the same shape, made
//! from a fixed seed: the same everywhere.
//!
//! A folder with `*.csv` files of the Numenta Anomaly Benchmark (`realAWSCloudwatch`: a header, then `time,value`
//! every five minutes), and a folder `planetlab` in it with CPU traces of CloudSim (a number from 0 to 100 a
//! line, every five minutes, a file a machine), which are added up.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// Looks between two values: five minutes at 15 s.
const LOOKS: usize = 20;

/// Machines of PlanetLab that one load is made of.
const MACHINES: usize = 40;

/// As many instances at the target as a load needs on average.
const INSTANCES: f64 = 12.0;

pub(super) struct Trace {
    pub(super) name: String,
    pub(super) published: bool,
    /// In instances at their target, every 15 s.
    pub(super) load: Vec<f64>,
}

pub(super) fn all(folder: Option<&Path>) -> anyhow::Result<Vec<Trace>> {
    let mut traces = Vec::new();
    if let Some(folder) = folder {
        for path in
            files(folder)?.iter().filter(|path| path.extension().is_some_and(|e| e == "csv"))
        {
            traces.push(Trace::new(name(path), true, &numbers(path)?)?);
        }
        let machines = folder.join("planetlab");
        if machines.is_dir() {
            traces.push(planetlab(&machines)?);
        }
        ensure!(!traces.is_empty(), "no traces in {}", folder.display());
        return Ok(traces);
    }
    for seed in 1..=3 {
        traces.push(Trace::new(format!("like-elb-requests-{seed}"), false, &requests(seed))?);
        traces.push(Trace::new(format!("like-ec2-cpu-{seed}"), false, &levels(seed))?);
        traces.push(Trace::new(format!("like-planetlab-{seed}"), false, &machines(seed))?);
    }
    Ok(traces)
}

impl Trace {
    /// Straight lines between the values, and a wiggle of a percent on them.
    fn new(name: String, published: bool, values: &[f64]) -> anyhow::Result<Self> {
        ensure!(values.len() > 1, "{name} has no values");
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        ensure!(mean > 0.0, "{name} has no load");
        let mut dice = Dice::new(name.len() as u64);
        let mut load = Vec::with_capacity(values.len() * LOOKS);
        for pair in values.windows(2) {
            for look in 0..LOOKS {
                let value = pair[0] + (pair[1] - pair[0]) * look as f64 / LOOKS as f64;
                load.push((value / mean * INSTANCES * (1.0 + 0.01 * dice.normal())).max(0.0));
            }
        }
        Ok(Self { name, published, load })
    }
}

fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// The last number of each line that has one.
fn numbers(path: &Path) -> anyhow::Result<Vec<f64>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.lines().filter_map(|line| line.rsplit(',').next()?.trim().parse().ok()).collect())
}

fn planetlab(folder: &Path) -> anyhow::Result<Trace> {
    let mut sum: Vec<f64> = Vec::new();
    for path in files(folder)?.iter().filter(|path| path.is_file()).take(MACHINES) {
        let values = numbers(path)?;
        sum.resize(sum.len().max(values.len()), 0.0);
        sum.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
    }
    Trace::new("planetlab".to_owned(), true, &sum)
}

/// A week of five minutes.
const VALUES: usize = 7 * 288;

/// Days, noise and bursts, as the requests of a load balancer.
fn requests(seed: u64) -> Vec<f64> {
    let mut dice = Dice::new(seed);
    let value = |number: usize| {
        let day = (number % 288) as f64 / 288.0;
        let busy = ((day - 0.25) / 0.6 * std::f64::consts::PI).sin().max(0.0);
        let open = (0.25..0.85).contains(&day);
        let level = 60.0 + if open { 80.0 * busy } else { 0.0 };
        let burst = if dice.share() < 0.006 { 2.0 + 2.0 * dice.share() } else { 1.0 };
        level * (0.18 * dice.normal()).exp() * burst
    };
    (0..VALUES).map(value).collect()
}

/// Levels that last for hours, and single spikes, as the processor of a machine in a cloud.
fn levels(seed: u64) -> Vec<f64> {
    let mut dice = Dice::new(seed + 100);
    let mut level = 40.0;
    let value = |_| {
        if dice.share() < 0.004 {
            level = 20.0 + 140.0 * dice.share();
        }
        let spike = if dice.share() < 0.01 { 1.3 + 0.9 * dice.share() } else { 1.0 };
        (level * (1.0 + 0.05 * dice.normal()) * spike).max(1.0)
    };
    (0..VALUES).map(value).collect()
}

/// Many machines, each of which wanders and now and then jumps, as those of PlanetLab.
fn machines(seed: u64) -> Vec<f64> {
    let mut dice = Dice::new(seed + 200);
    let mut busy: Vec<f64> = (0..MACHINES).map(|_| 5.0 + 35.0 * dice.share()).collect();
    let value = |_| {
        for one in &mut busy {
            *one = match dice.share() < 0.03 {
                true => -18.0 * (1.0 - dice.share()).ln(),
                false => *one + 3.0 * dice.normal(),
            }
            .clamp(0.0, 100.0);
        }
        busy.iter().sum()
    };
    (0..VALUES).map(value).collect()
}

/// SplitMix64: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share()).cos()
    }
}
