//! The quick way against the parser: what it takes, what it leaves, and that the two never differ.

use proptest::prelude::*;

use super::*;
use crate::build::{both_ways_agree, by_events};

#[track_caller]
fn takes(text: &str) {
    let nodes = documents(text, &Limits::default());
    assert!(nodes.is_some(), "left to the parser:\n{text}");
    assert_eq!(by_events(text, &Limits::default()), (nodes.unwrap(), Vec::new()), "for\n{text}");
}

#[track_caller]
fn leaves(text: &str) {
    assert_eq!(documents(text, &Limits::default()), None, "for\n{text}");
}

/// All that the quick way knows, in one text.
const ALL: &str = r#"# A comment
---
apiVersion: v1 # another
"kind": 'App'
description: |
  first

   second
  third

empty:
spec:
    list:
    - plain text, with commas [and] {such}
    - key: value
      other: "quoted \"text\"\n"

      nested:
        deep: 'it''s'
    -
      below: 1
    - - a
      -   - b
          - c
    - {a: 1, "b":2, 'c': [x, -1, --y], d: {}}
    -
    indented:
      - 0.5
      - ~
    # a comment
    script: |-
        #!/bin/sh
        echo
    address: http://host:80/#here
    nothing:
ä: ö # ü
lines: [a,
  b, [
     c]]
---
{
  "json": [1, true, null, "x"],
  "more": {
    "empty": []
  }
}
---
---
- a
- b: c
  d:
  - e
"#;

#[test]
fn takes_what_people_write() {
    takes(ALL);
    takes("");
    takes("\n# nothing\n");
    takes("a: 1");
    takes("a: 1\n  \n  # c\n\nb: 2\n   ");
    takes("  a: 1\n  b: 2\n");
    takes("a:\n- b\nc:\n  -   d: e\n      f: g\n");
    takes("-name: a\n".replace('-', "x").as_str());
    takes("<<: {a: 1}\nb: 2\n");
    takes("a: |\n b\n\n\nc: |-\n  d\n   e\n");
}

#[test]
fn leaves_what_is_rare_to_the_parser() {
    for text in [
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "a: b\n  c\n",
        "a: 'b\n  c'\n",
        "a: >\n  b\n",
        "a: |+\n  b\n",
        "a: |2\n   b\n",
        "a: |\n  b",
        "? a\n: b\n",
        "a\n",
        "'a'\n",
        "a:\tb\n",
        "a: b\r\n",
        "%YAML 1.2\n---\na: b\n",
        "a: b\n...\n",
        "--- a\n",
        "\u{feff}a: b\n",
        "a: \"\\u00e4\"\n",
        "a: [b: c]\n",
        "a: [b,]\n",
        "a: {b}\n",
        "a : b\n",
    ] {
        leaves(text);
    }
}

#[test]
fn leaves_what_is_wrong_to_the_parser() {
    for text in [
        "a: 1\na: 2\n",
        "-name: a\n",
        "null: a\n",
        "a: b: c\n",
        "a: - b\n",
        "- a\nb: c\n",
        "a:\n    b: 1\n  c: 2\n",
        "a: [b\n",
        "a: {b: c]\n",
        "a: \"b\n",
        "a: 'b' c\n",
        "a: @b\n",
        "a: [b]: c\n",
        "{a: 1}\nb: 2\n",
        "a: [\nb]\n",
    ] {
        leaves(text);
    }
    leaves(&format!("{}: 1\n", "k".repeat(KEY_BYTES_MAX + 1)));
    leaves(&format!("a: {}{}\n", "[".repeat(60), "]".repeat(60)));
    leaves(&"- ".repeat(60));
}

#[test]
fn keeps_the_bounds() {
    let limits = Limits { nodes: 3, documents: 2, ..Limits::default() };
    assert!(documents("a: b\n", &limits).is_some());
    assert_eq!(documents("a: b\nc: d\n", &limits), None);
    assert!(documents("---\n---\n", &limits).is_some());
    assert_eq!(documents("---\n---\n---\n", &limits), None);
}

/// One character more or less, at every place.
#[test]
fn agrees_with_the_parser_on_every_small_change() {
    let limits = Limits::default();
    let pieces = [" ", "\n", "-", ":", "#", "\"", "'", "{", "]", ",", "|", "x", "\n  "];
    for (place, letter) in ALL.char_indices() {
        let (before, after) = ALL.split_at(place);
        let less = format!("{before}{}", &after[letter.len_utf8()..]);
        let more = pieces.iter().map(|piece| format!("{before}{piece}{after}"));
        for text in more.chain([less]) {
            assert!(both_ways_agree(&text, &limits), "for\n{text}");
        }
    }
}

/// What means something to YAML, and a little that does not.
const PIECES: &[&str] = &[
    "a", "b", "key: ", "key:", "- ", "-", "\n", "\n", "\n  ", "\n    ", " ", "  ", ": ", ":", ", ",
    ",", "[", "]", "{", "}", "\"", "'", "#", " # c\n", "|\n", "|-\n", "|\n  ", ">\n", "---\n",
    "---", "...\n", "\\", "\\n", "ä", "~", "null", "1.5", "&a ", "*a", "!!str ", "? ", "<<: ",
    "\t", "\r\n", "%", "@", "\"q\": ", "'s'", "\u{85}", "-1", "{}", "[]", "x: 1\n", "- y\n",
    "{k: v}", "[i, j]",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn agrees_with_the_parser_on_any_text(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24),
    ) {
        let text = pieces.concat();
        prop_assert!(both_ways_agree(&text, &Limits::default()), "for\n{}", text);
    }
}
