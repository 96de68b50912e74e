//! What the tree of a text is, where its parts lie, and which texts are refused.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::problem::Mend;

/// Shows the documents as JSON, one a line, and below them the problems with place and mend.
#[track_caller]
fn check(text: &str, expect: Expect) {
    check_within(text, &Limits::default(), expect);
}

#[track_caller]
fn check_within(text: &str, limits: &Limits, expect: Expect) {
    let (nodes, problems) = documents(text, limits);
    let lines = Lines::new(text);
    let mut shown = String::new();
    for node in nodes {
        shown += &format!("{}\n", node.to_json());
    }
    for Problem { code, span, message, expected, mend, related, .. } in problems {
        let at = lines.position(span.start);
        shown += &format!("{}:{} {code}: {message}\n", at.line, at.column);
        for (span, what) in related {
            shown += &format!("  see {}: {what}\n", lines.position(span.start).line);
        }
        if let Some(expected) = expected {
            shown += &format!("  expected {expected}\n");
        }
        if let Some(Mend { span, replacement }) = mend {
            let mut mended = text.to_owned();
            mended.replace_range(span.range(), &replacement);
            let line = Lines::new(&mended).line(lines.position(span.start).line).unwrap();
            shown += &format!("  mended {line:?}\n");
        }
    }
    expect.assert_eq(&shown);
}

#[test]
fn reads_maps_lists_and_scalars_in_their_order() {
    check(
        "b: 1\na: [x, 'y', \"z\"]\nc:\n- d: null\n  e: 0.5\n- |\n  text\n",
        expect![[r#"
            {"a":["x","y","z"],"b":1,"c":[{"d":null,"e":0.5},"text\n"]}
        "#]],
    );
    check(
        r#"{"a": [1, {"b": true}], "c": "x\u00e4"}"#,
        expect![[r#"
            {"a":[1,{"b":true}],"c":"xä"}
        "#]],
    );
}

#[test]
fn knows_where_everything_stands() {
    let text = "a:\n  ä: [1, x]\n  c: 'text'\nd: 5\n";
    let (nodes, _) = documents(text, &Limits::default());
    let cut = |node: &Node| text[node.span.range()].to_owned();
    let a = nodes[0].get("a").unwrap();
    assert_eq!(cut(a), "ä: [1, x]\n  c: 'text'");
    assert_eq!(cut(a.get("ä").unwrap()), "[1, x]");
    assert_eq!(cut(&a.get("ä").unwrap().as_list().unwrap()[1]), "x");
    assert_eq!(cut(a.get("c").unwrap()), "'text'");
    let (key, five) = nodes[0].entry("d").unwrap();
    assert_eq!(&text[key.span.range()], "d");
    assert_eq!(cut(five), "5");
}

#[test]
fn keeps_numbers_as_they_were_written() {
    let (nodes, _) = documents("[1.10, 0644, 1_000, 18446744073709551615]", &Limits::default());
    let raw: Vec<_> = nodes[0].as_list().unwrap().iter().filter_map(Node::raw).collect();
    assert_eq!(raw, ["1.10", "0644", "1_000", "18446744073709551615"]);
    assert_eq!(nodes[0].to_json().to_string(), "[1.1,420,1000,18446744073709551615]");
}

#[test]
fn leaves_out_empty_documents_and_goes_on_after_a_broken_one() {
    check(
        "---\n---\na: 1\n---\nb: [1\n---\nc: 2\n",
        expect![[r#"
            {"a":1}
            {"c":2}
            5:4 syntax: a list in brackets does not end
              expected "]"
        "#]],
    );
}

#[test]
fn unfolds_anchors_and_merge_keys() {
    check(
        "base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nagain: *b\nboth:\n  <<: [*b, {z: 4}]\n",
        expect![[r#"
            {"again":{"x":1,"y":2},"base":{"x":1,"y":2},"both":{"x":1,"y":2,"z":4},"use":{"x":1,"y":3}}
        "#]],
    );
    check(
        "a: *nobody\n",
        expect![[r#"
            1:4 unknown-alias: the alias has no anchor before it in this document
              expected "&name" at the value that is meant, above this line; a text that begins with "*" goes in quotes
        "#]],
    );
    check(
        "a: &a [*a]\n",
        expect![[r#"
            1:8 alias-in-itself: the alias stands within what it stands for
        "#]],
    );
    check(
        "a:\n  <<: 5\n",
        expect![[r#"
            {"a":{}}
            2:3 merge-of-no-mapping: "<<" takes in mappings, found a number
              expected an alias of a mapping, such as *defaults
        "#]],
    );
}

/// Each `<<` looks only at what it brings, however many there are and however large the map is.
#[test]
fn takes_in_many_merge_keys() {
    let mut text = String::new();
    for index in 0..20_000 {
        text += &format!("<<: {{k{index}: 1, same: {index}}}\nown{index}: 2\n");
    }
    let (nodes, problems) = documents(&text, &Limits::default());
    assert_eq!(problems, vec![]);
    assert_eq!(nodes[0].as_map().unwrap().len(), 40_001);
    assert_eq!(nodes[0].get("same").and_then(Node::raw), Some("0"));
}

#[test]
fn tells_of_duplicate_keys_with_both_places() {
    check(
        "a: 1\nb: 2\na: 3\n",
        expect![[r#"
            {"a":1,"b":2}
            3:1 duplicate-key: the key "a" is there twice
              see 1: first here
              expected each key once; remove or rename one of the two
        "#]],
    );
    let many: String = (0..30).map(|index| format!("k{index}: {index}\n")).collect();
    let (_, problems) = documents(&format!("{many}k7: x\n"), &Limits::default());
    assert_eq!(problems.len(), 1);
}

#[test]
fn finds_the_missing_blank_after_a_dash() {
    check(
        "manifests:\n  -name: a\n  type: k\n  -name: b\n  type: k\n",
        expect![[r#"
            {"manifests":{"-name":"b","type":"k"}}
            2:3 missing-blank: "-name" is read as a key, because a blank is missing after "-"
              expected a list entry, which begins with "- "
              mended "  - name: a"
            4:3 missing-blank: "-name" is read as a key, because a blank is missing after "-"
              expected a list entry, which begins with "- "
              mended "  - name: b"
        "#]],
    );
    check(
        "a:\n-name: x\n type: y\n",
        expect![[r#"
            2:1 missing-blank: "-name" is read as a key, because a blank is missing after "-"
              expected a list entry, which begins with "- "
              mended "- name: x"
        "#]],
    );
    check(
        "\"-name\": x\n-1: y\n",
        expect![[r#"
            {"-1":"y","-name":"x"}
        "#]],
    );
}

#[test]
fn finds_the_known_mistakes_behind_a_syntax_error() {
    check(
        "a: 1\nname:web\nb: 2\n",
        expect![[r#"
            2:5 missing-blank: "name:web" is read as one text, because a blank is missing after ":"
              expected "key: value"
              mended "name: web"
        "#]],
    );
    check(
        "a: see: this\n",
        expect![[r#"
            1:4 unquoted-colon: a plain text must not have ": " in it
              expected the text in quotes
              mended "a: 'see: this'"
        "#]],
    );
    check(
        "a:\n\tb: 1\n",
        expect![[r#"
            2:1 tab: a tab stands where only blanks may
              expected blanks; YAML does not indent with tabs
              mended "  b: 1"
        "#]],
    );
    check(
        "a: @x\n",
        expect![[r#"
            1:4 syntax: a plain text cannot begin with '@'
              expected the text in quotes
              mended "a: '@x'"
        "#]],
    );
    check(
        "a: 'x\nb: 1\n",
        expect![[r#"
            2:1 syntax: the quoted text that began above goes on here
              expected the closing quote before this line
        "#]],
    );
    check(
        "a:\n  b: 1\n c: 2\n",
        expect![[r#"
            3:2 syntax: the indentation of this line fits nothing above it
              expected the same indentation as the keys that it belongs with
        "#]],
    );
}

#[test]
fn takes_scalars_only_as_keys() {
    check(
        "[a, b]: 1\n8080: x\n: y\n",
        expect![[r#"
            {"8080":"x"}
            1:1 key-is-no-text: a list cannot be the key of a mapping
              expected a text, in quotes if need be
            3:1 key-is-no-text: nothing cannot be the key of a mapping
              expected a text, in quotes if need be
        "#]],
    );
}

#[test]
fn knows_the_core_tags_and_passes_over_the_others() {
    check(
        "a: !!str 5\nb: !!int \"7\"\nc: !include x.yaml\nd: !!map {x: 1}\n",
        expect![[r#"
            {"a":"5","b":7,"c":"x.yaml","d":{"x":1}}
            3:13 unknown-tag: the tag "!include" means nothing here and is passed over
        "#]],
    );
}

const SMALL: Limits = Limits {
    bytes: 200,
    depth: 4,
    nodes: 20,
    memory: 12_000,
    aliases: 3,
    documents: 2,
    problems: 2,
};

#[test]
fn ends_at_the_bounds_of_what_is_written() {
    check_within(
        &"x".repeat(201),
        &SMALL,
        expect![[r#"
            1:1 too-large: the text is 201 bytes long, 200 are read at most
        "#]],
    );
    check_within(
        "[[[[[1]]]]]",
        &SMALL,
        expect![[r#"
            1:5 too-deep: too many levels within each other
        "#]],
    );
    check_within(
        "- - - [[1]]",
        &SMALL,
        expect![[r#"
            1:8 too-deep: more than 4 levels within each other
        "#]],
    );
    check_within(
        "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
        &SMALL,
        expect![[r#"
            1:40 too-many-values: more than 20 values, unfolded aliases included, are not read
        "#]],
    );
    check_within(
        "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]",
        &SMALL,
        expect![[r#"
            1:47 too-many-values: the values take more memory than is given to one text (0 MB)
              expected several shorter texts
        "#]],
    );
}

#[test]
fn ends_at_the_bounds_of_what_becomes_of_it() {
    check_within(
        "[&a 1, *a, *a, *a, *a]",
        &SMALL,
        expect![[r#"
            1:20 too-many-aliases: more than 3 aliases are not unfolded
        "#]],
    );
    check_within(
        "a: &a [[1]]\nb: [[*a]]",
        &SMALL,
        expect![[r#"
            2:6 too-deep: more than 4 levels within each other
        "#]],
    );
    check_within(
        "a\n---\nb\n---\nc\n",
        &SMALL,
        expect![[r#"
            "a"
            "b"
            4:1 too-many-documents: more than 2 documents are not read
        "#]],
    );
    check_within(
        "{a: 1, a: 2, a: 3, a: 4}",
        &SMALL,
        expect![[r#"
            {"a":1}
            1:8 duplicate-key: the key "a" is there twice
              see 1: first here
              expected each key once; remove or rename one of the two
            1:14 duplicate-key: the key "a" is there twice
              see 1: first here
              expected each key once; remove or rename one of the two
            1:14 too-many-problems: 1 more problems are not listed
        "#]],
    );
}

/// Ten aliases of ten aliases of …: a short text that would fill any memory.
#[test]
fn does_not_laugh_a_billion_times() {
    let mut text = String::from("a0: &a0 lol\n");
    for level in 1..12 {
        let before = level - 1;
        let aliases = vec![format!("*a{before}"); 10].join(", ");
        text += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    let (nodes, problems) = documents(&text, &Limits::default());
    assert!(nodes.is_empty());
    assert_eq!(problems.last().map(|problem| problem.code), Some("too-many-values"));
}

/// One long text, and thousands of aliases of it: few nodes, many bytes.
#[test]
fn bounds_the_bytes_that_aliases_unfold_to() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1000].join(","));
    let (_, problems) = documents(&text, &Limits::default());
    assert_eq!(problems.last().map(|problem| problem.code), Some("too-many-aliases"));
}

#[test]
fn survives_any_depth() {
    for text in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000)] {
        let (nodes, problems) = documents(&text, &Limits::default());
        assert!(nodes.is_empty());
        assert_eq!(problems.first().map(|problem| problem.code), Some("too-deep"));
    }
}

proptest! {
    #[test]
    fn never_panics_and_its_spans_cut_the_text(
        text in "([a-c]{0,2}|[-:,#&*!|>'\"%@\\[\\]{}?\t\n ]|\n *|: |- |<<: |ä|\u{feff}|---\n|\\.\\.\\.\n){0,40}"
    ) {
        let (nodes, problems) = documents(&text, &Limits::default());
        let mut left: Vec<&Node> = nodes.iter().collect();
        while let Some(node) = left.pop() {
            prop_assert!(text.get(node.span.range()).is_some(), "{:?}", node.span);
            left.extend(node.as_list().into_iter().flatten());
            for (key, child) in node.as_map().into_iter().flatten() {
                prop_assert!(text.get(key.span.range()).is_some());
                left.push(child);
            }
        }
        for problem in problems {
            prop_assert!(text.get(problem.span.range()).is_some(), "{problem:?}");
            if let Some(mend) = problem.mend {
                prop_assert!(text.get(mend.span.range()).is_some(), "{mend:?}");
            }
        }
    }

    #[test]
    fn reads_json_as_json_does(value in json(3)) {
        let text = value.to_string();
        let (nodes, problems) = documents(&text, &Limits::default());
        prop_assert_eq!(problems, vec![]);
        let expected = if value.is_null() { vec![] } else { vec![value] };
        prop_assert_eq!(nodes.iter().map(Node::to_json).collect::<Vec<_>>(), expected);
    }
}

fn json(depth: u32) -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1e9..1e9).prop_map(|number: f64| number.into()),
        "[ -~äß]{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(depth, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[a-z ]{0,4}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}
