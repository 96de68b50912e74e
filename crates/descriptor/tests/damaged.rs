//! Every format is fed with damaged files, always the same ones. A reader may find fault; it may not
//! panic, point outside the text, or call an App good that the model refuses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use tombolo_descriptor::{Colour, Format, NoFiles, Source, read, render, render_notes};

/// For each file and format.
const ROUNDS: u64 = 15;
const PIECES: &[&str] = &[
    "\n",
    "\t",
    " ",
    "  ",
    "- ",
    "-",
    ": ",
    ":",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    "#",
    "&a ",
    "*a",
    "<<: ",
    "---\n",
    "|",
    "0",
    "-1",
    "1e9",
    "99999999999999999999",
    "null",
    "true",
    "~",
    "ä",
    "名",
    "\u{1b}",
    "",
];

/// A small generator, so that a failure comes back with the same number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides.max(1) as u64).unwrap()
    }
}

fn damaged(text: &str, dice: &mut Dice) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..=dice.roll(4) {
        let (from, length) = (dice.roll(letters.len()), dice.roll(12));
        let to = (from + length).min(letters.len());
        let piece: Vec<char> = match dice.roll(3) {
            0 => PIECES[dice.roll(PIECES.len())].chars().collect(),
            1 => letters[from..to].iter().chain(&letters[from..to]).copied().collect(),
            _ => Vec::new(),
        };
        letters.splice(from..to, piece);
    }
    letters.into_iter().collect()
}

fn check(text: &str, format: Option<Format>) {
    let source = Source { name: "damaged.yaml", text };
    let reading = read(source, format, &NoFiles);
    render(source, &reading.diagnostics, Colour::Always);
    render_notes(source, &reading.notes, Colour::Never);
    for diagnostic in &reading.diagnostics {
        let mend = diagnostic.mend.as_ref().map(|mend| mend.span);
        for span in [Some(diagnostic.span), mend].into_iter().flatten() {
            assert!(text.get(span.range()).is_some(), "{diagnostic:?} is not in\n{text}");
        }
    }
    if reading.has_errors() {
        return;
    }
    for app in &reading.apps {
        let invalid = tombolo_model::validate::app(&serde_json::to_value(app).unwrap());
        assert!(invalid.is_empty(), "read without errors, and yet {invalid:?}\n{text}");
    }
}

#[test]
fn no_reader_panics_or_misleads_on_damaged_files() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    for folder in ["tests/complete", "tests/broken", "../../examples/formats"] {
        let entries = fs::read_dir(format!("{root}{folder}")).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path).unwrap();
            for round in 1..=ROUNDS {
                let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let damaged = damaged(&text, &mut dice);
                let format = Format::ALL[dice.roll(Format::ALL.len())];
                for format in [None, Some(format)] {
                    let result = std::panic::catch_unwind(|| check(&damaged, format));
                    assert!(result.is_ok(), "{} in round {round} as {format:?}", path.display());
                }
            }
        }
    }
}
