//! Texts that become as much memory as a text can: five megabytes of the shortest values, in every form that is
//! shorter than what becomes of it. Each is read by a process of its own, whose growth the kernel tells.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use tombolo_descriptor::{NoFiles, Source, read, sample};

const TEXT_BYTES: usize = 5 << 20;
/// What no text may cost its reader.
const GROWTH_KB_MAX: u64 = 64_000;
/// Says to the process of one case which that is.
const CASE: &str = "TOMBOLO_DENSE_CASE";

/// What stands before, and what is repeated.
const CASES: &[(&str, &str, &str)] = &[
    ("numbers", "", "- 1\n"),
    ("texts", "", "- a\n"),
    ("nothing", "", "-\n"),
    ("lists of nothing", "", "- []\n"),
    ("lists of one", "", "- [1]\n"),
    ("lists in lists", "", "- - 1\n"),
    ("mappings of nothing", "", "- {}\n"),
    ("mappings of one", "", "- a: 1\n"),
    ("mappings of two texts", "", "- {a: b, c: d}\n"),
    ("mappings in mappings", "", "- {a: {b: {c: 1}}}\n"),
    ("numbers in brackets", "[", "1,"),
    ("mappings in brackets", "[", "{a: 1},"),
    ("aliases", "- &a {b: c}\n", "- *a\n"),
    ("documents", "", "--- {a: 1}\n"),
    ("another kind", "apiVersion: x/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n", "- a: 1\n"),
    ("an App", "apiVersion: tombolo.dev/v1alpha1\nkind: App\nspec:\n  components:\n", "  - {}\n"),
    ("a project", "services:\n  a:\n    image: b\n    command:\n", "    - c\n"),
    ("a tagged text, which the parser reads", "- !!str a\n", "- a: 1\n"),
];

fn text(before: &str, again: &str) -> String {
    let mut text = String::with_capacity(TEXT_BYTES + before.len());
    text.push_str(before);
    while text.len() + again.len() <= TEXT_BYTES {
        text.push_str(again);
    }
    if before == "[" {
        text.push(']');
    }
    text
}

/// As much as an API server takes: the bound is for what nobody writes.
const REQUEST_BYTES: usize = 3 << 20;

/// Of the `status` that the kernel has of this process, in kB.
fn kilobytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches([':', '\t', ' ', 'k', 'B']).parse().unwrap()
}

/// Does nothing but where [`CASE`] says what to read.
#[test]
fn child() {
    let Ok(wanted) = std::env::var(CASE) else { return };
    let (name, before, again) = CASES.iter().find(|(name, ..)| *name == wanted).unwrap();
    let text = text(before, again);
    let at_rest = kilobytes("VmRSS");
    let highest = kilobytes("VmHWM");
    let reading = read(Source { name: "dense.yaml", text: &text }, None, &NoFiles);
    let grown = kilobytes("VmHWM").saturating_sub(at_rest.min(highest));
    let errors = reading.diagnostics.iter().filter(|one| one.code.starts_with("too-")).count();
    println!("{name}: grown by {grown} kB, {errors} bounds told");
}

#[test]
fn five_megabytes_of_the_shortest_values_stay_within_bounds() {
    let mut too_much = Vec::new();
    for (name, ..) in CASES {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", "child", "--nocapture"]).env(CASE, name).output();
        let told = String::from_utf8(output.unwrap().stdout).unwrap();
        let line = told.split_once(&format!("{name}: grown")).unwrap().1.lines().next().unwrap();
        let line = format!("{name}: grown{line}");
        println!("{line}");
        let grown = line.split_ascii_whitespace().rev().nth(4).unwrap();
        if grown.parse::<u64>().unwrap() > GROWTH_KB_MAX {
            too_much.push(line);
        }
    }
    assert!(too_much.is_empty(), "{too_much:#?}");
}

#[test]
fn what_people_write_is_read_up_to_the_size_that_a_server_takes() {
    let text = sample(REQUEST_BYTES);
    assert!(text.len() >= REQUEST_BYTES);
    let reading = read(Source { name: "sample.yaml", text: &text }, None, &NoFiles);
    let bounds: Vec<_> =
        reading.diagnostics.iter().filter(|one| one.code == "too-many-values").collect();
    assert!(bounds.is_empty(), "{bounds:?}");
}
