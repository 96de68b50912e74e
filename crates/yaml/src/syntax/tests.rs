//! Every mistake that the parser knows, and what is said about it. A mend that is offered must mend.

use expect_test::expect_file;

use crate::{Limits, Mend, Problem, documents};

/// Texts with one mistake each.
#[rustfmt::skip]
const BROKEN: &[&str] = &[
    // Quotes.
    "a: 'x\n", "a: \"x\n", "a: 'x\nb: 1\n", "a: 'x\n---\nb: 1\n", "a: 'it's'\n", "a: \"say \"hi\" now\"\n",
    "a: \"x\" y\n", "a: \"C:\\dir\"\n", "a: \"\\xZZ\"\n", "a: \"\\ud800\"\n", "a: \"\\udc00\"\n",
    "'a': 'it's'\nb: 1\n", "'a' : 'it's'\nb: 1\n", "\"a\": \"C:\\d\"\nb: 1\n", "\"a\" : \"C:\\d\"\nb: 1\n",
    "a: \"one\\ntwo \\d\"\nb: 1\n", "a: \"\\x41 \\d\"\nb: 1\n", "a: \"\\d \\\\\"\nb: 1\n", "a: \"C:\\d\\user\"\nb: 1\n",
    "a: \"\\ud800\\u0041\"\n", "a: \"\\ud800\\uZZZZ\"\n", "a: \"\\U00110000\"\n",
    // Brackets.
    "a: [1, 2\n", "a: {b: 1\n", "a: [b: 1\n", "a: [1 2, 'x' 'y']\n", "{a: 1 b: 2}\n", "{a: 1, 'b' 'c'}\n", "a: [1}\n", "a: ]\n",
    "a: [\n- 1\n]\n", "a: [-]\n", "{a:[1]}\n", "[a\n: 1]\n", "a: [,]\n", "a: {,}\n", "a: [1,,2]\n",
    // Keys, entries and indentation.
    "a: 1\nb\n", "a:\n  b: 1\n c: 2\n", "a: b: c\n", "a: ? b\n", "- a\nb: 1\n", "a: - 1\n", "a: 1\n- b\n",
    "a: x\n  b: 1\n", "a:\n&b\n- c\n",
    // Tabs.
    "a:\n\tb: 1\n", "-\t- a\n", "a:\n  - b\n\t- c\n", "a: |\n\tx\n", "?\ta: 1\n", "a:\n  b: 1\n\tc: 1\n", "a: [\n\tx\n]\n", "a:\t- b\n",
    // Comments and blocks.
    "a: 'x'#c\n", "a: x\n  # c\n  y\n", "a: | x\n", "a: |0\n  x\n", "a: |#c\n  x\n", "a: |4\n  x\n", "a: |\n    x\n   \n  y\n", "a: |\n     \n  y\n",
    // Marks.
    "a: {\n  b: @x,\n  c: 1\n}\n", "a: {\n  b: @x, c\n}\n", "a: {\n  b: &,\n  c: 1\n}\n", "a: @x y\nb: 1\n",
    "a: @x\n", "a: `x`\n", "a: %x\n", "a: &\n", "a: *\n", "a: *x\n", "a: & b\n", "a: & b's\n",
    "a: !<x\n", "a: !x!y 1\n", "a: !x,y 1\n", "a: !<> x\n", "a: !a%ZZ x\n", "a: !a%ff x\n", "a: !!\n", "a: !! x\n", "a: !e! x\n",
    // Documents.
    "%\n---\na: 1\n", "%YAML\n---\na: 1\n", "%YAML 3.0\n---\na: 1\n", "%YAML 1.2\n%YAML 1.2\n---\na: 1\n", "%YAML 1x2\n---\na\n",
    "%YAML 1.2 x\n---\na\n", "%YAML 1.99999999999\n---\na\n", "%YAML 1.2\na: 1\n", "%TAG x y\n---\na\n", "%TAG !e! tag:x\n%TAG !e! tag:x\n---\na\n",
    "%TAG !e! tag:x,y x\n---\na\n", "a: 1\n%YAML 1.2\n---\nb: 1\n", "a: 1\n...\nb: 1\n... x\n", "[a]\nb: 1\n", "'a'\n'b'\n", "--- a: 1\n--- |x\n",
    "a: 1\n... x\n",
    // Characters.
    "a: \u{1}\n", "a: x\u{0}y\n", "a: 1\n\u{feff}b: 2\n", "a: \"x\u{7}\"\n", "a: x\u{7f}\n", "a: \u{80}\n", "a: \u{ffff}\n",
];

#[test]
fn says_every_mistake_in_words_of_its_own() {
    let (mut shown, mut unmended) = (String::new(), Vec::new());
    for text in BROKEN {
        let (_, problems) = documents(text, &Limits::default());
        assert!(!problems.is_empty(), "{text:?} is no mistake");
        shown += &format!("{text:?}\n");
        for Problem { code, span, message, expected, mend, .. } in problems {
            let at = text[..span.start as usize].chars().count();
            let expected = expected.unwrap_or_default();
            shown += &format!("  {at} {code}: {message}; expected {expected}\n");
            if let Some(Mend { span, replacement }) = mend {
                let mut mended = (*text).to_owned();
                mended.replace_range(span.range(), &replacement);
                let (_, left) = documents(&mended, &Limits::default());
                if !left.is_empty() {
                    unmended.push(format!("{text:?} becomes {mended:?}"));
                }
                shown += &format!("  mended {mended:?}\n");
            }
        }
    }
    assert_eq!(unmended, [""; 0]);
    expect_file!["mistakes.txt"].assert_eq(&shown);
}
