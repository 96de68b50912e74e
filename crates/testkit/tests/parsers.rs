//! Every parser is fed with damaged input, much of it, always the same.

use std::path::Path;
use std::time::{Duration, Instant};

use tombolo_testkit::parsers::PARSERS;

const ROUNDS: u64 = 3_000;
/// What means something to one parser or another.
const SPECIAL: &[u8] = b"{}[]()\",:=.%\\ \n\0\xff*&!-09aA";

/// A small generator, so that a failure comes back with the same number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides.max(1)).expect("small")).expect("small")
    }
}

/// Flips, cuts, doubles and swaps pieces of the seeds.
fn mutate(dice: &mut Dice, seeds: &[&str]) -> Vec<u8> {
    let mut data = seeds[dice.roll(seeds.len())].as_bytes().to_vec();
    for _ in 0..dice.roll(6) {
        let (from, to) = (dice.roll(data.len() + 1), dice.roll(data.len() + 1));
        let piece = data[from.min(to)..from.max(to)].to_vec();
        match dice.roll(5) {
            0 => drop(data.drain(from.min(to)..from.max(to))),
            1 => drop(data.splice(from..from, piece)),
            2 if from < data.len() => data[from] ^= 1 << dice.roll(8),
            3 => data.insert(from, SPECIAL[dice.roll(SPECIAL.len())]),
            _ => {
                let many = dice.roll(200);
                data.splice(
                    from..from,
                    piece.iter().copied().cycle().take(many * piece.len().min(4)),
                );
            }
        }
    }
    data
}

#[test]
fn no_parser_panics_or_hangs_on_damaged_input() {
    for parser in PARSERS {
        let mut slowest = Duration::ZERO;
        for round in 1..=ROUNDS {
            let data = mutate(&mut Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15)), parser.seeds);
            let started = Instant::now();
            let result = std::panic::catch_unwind(|| (parser.read)(&data));
            slowest = slowest.max(started.elapsed());
            assert!(
                result.is_ok(),
                "{} panicked in round {round} on {:?}",
                parser.name,
                String::from_utf8_lossy(&data)
            );
        }
        // Not a measurement: a parser that takes this long for so little does not end.
        assert!(slowest < Duration::from_secs(20), "{} took {slowest:?}", parser.name);
    }
}

#[test]
fn every_parser_takes_its_first_seed_or_says_why_not() {
    for parser in PARSERS {
        for seed in parser.seeds {
            (parser.read)(seed.as_bytes());
        }
    }
}

#[test]
fn every_parser_has_a_fuzz_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("the fuzz crate");
    for parser in PARSERS {
        let target = folder.join(format!("targets/{}.rs", parser.name));
        let source = std::fs::read_to_string(&target).expect("a target for every parser");
        assert!(source.contains(&format!("\"{}\"", parser.name)), "{}", target.display());
        assert!(manifest.contains(&format!("name = \"{}\"", parser.name)), "{}", parser.name);
    }
}
