//! Every file in `tests/broken` has a mistake in it, and beside it stands the message that its
//! author gets. `UPDATE_EXPECT=1` writes the messages anew; read them before they are committed.

#![expect(clippy::unwrap_used, reason = "a test may")]

use std::fs;
use std::path::PathBuf;

use expect_test::expect_file;
use tombolo_descriptor::{
    Colour, Diagnostic, Format, NoFiles, Reading, Source, read, render, report,
};

/// More files than this are asked for; that they stay is asked here.
const FILES_MIN: usize = 30;

fn files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/broken");
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect();
    paths.sort();
    paths
}

/// A first line `# read as icos` forces a format.
fn read_file(text: &str) -> Reading {
    let format = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# read as "))
        .map(|word| word.parse::<Format>().unwrap());
    read(Source { name: "broken.yaml", text }, format, &NoFiles)
}

#[test]
fn every_broken_file_gets_its_message() {
    let files = files();
    assert!(files.len() >= FILES_MIN, "only {} broken files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let reading = read_file(&text);
        assert!(!reading.diagnostics.is_empty(), "nothing is wrong with {name}");
        let shown = render(Source { name, text: &text }, &reading.diagnostics, Colour::Never);
        expect_file![path.with_extension("expected")].assert_eq(&shown);
    }
}

/// What is offered as the mend must mend: applied alone, it takes its own message away.
#[test]
fn every_mend_mends() {
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let before = read_file(&text).diagnostics;
        for diagnostic in &before {
            let Some(mend) = &diagnostic.mend else { continue };
            let mut mended = text.clone();
            mended.replace_range(mend.span.range(), &mend.replacement);
            let after = read_file(&mended).diagnostics;
            let count = |all: &[Diagnostic]| {
                all.iter()
                    .filter(|other| {
                        other.code == diagnostic.code
                            && other.message == diagnostic.message
                            && other.path == diagnostic.path
                    })
                    .count()
            };
            assert!(
                count(&after) < count(&before),
                "{}: {diagnostic:?} is still there in\n{mended}\n{after:#?}",
                path.display()
            );
        }
    }
}

/// An editor must be able to find every place that the report names.
#[test]
fn every_report_has_places_within_the_text() {
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        let reading = read_file(&text);
        let json = report(Source { name: "x", text: &text }, &reading);
        assert_eq!(json["valid"], !reading.has_errors());
        for diagnostic in json["diagnostics"].as_array().unwrap() {
            let offset = |end: &str| {
                usize::try_from(diagnostic["range"][end]["offset"].as_u64().unwrap()).unwrap()
            };
            assert!(text.get(offset("start")..offset("end")).is_some(), "{diagnostic}");
        }
    }
}

/// Nobody reads a hundred keys to find the right one.
#[test]
fn a_long_list_of_known_keys_is_cut_or_left_to_the_mend() {
    let expected = |key: &str| {
        let text = format!("services: {{a: {{image: \"i:1\", {key}: 1}}}}");
        let reading = read_file(&text);
        let found = reading.diagnostics.iter().find(|one| one.code == "unknown-field").unwrap();
        (found.expected.clone(), found.mend.clone().map(|mend| mend.replacement))
    };
    assert_eq!(expected("enviroment"), (None, Some("environment".to_owned())));
    let (listed, mend) = expected("quaggafish");
    assert_eq!(mend, None);
    let listed = listed.unwrap();
    assert!(listed.ends_with(" more") && listed.len() < 250, "{listed}");
}

/// Of a text with `warnings` sizes of memory that people write and `errors` that nobody can mean.
fn sizes(warnings: usize, errors: usize) -> Reading {
    let component = |number: usize, memory: &str| {
        format!(
            "- {{name: c{number}, manifests: [{{name: web}}], requirements: {{memory: {memory}}}}}\n"
        )
    };
    let good = (0..warnings).map(|number| component(number, "200Mb"));
    let bad = (0..errors).map(|number| component(warnings + number, "enormous"));
    let components: String = good.chain(bad).collect();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}";
    read_file(&format!("name: shop\ncomponents:\n{components}---\n{pod}\n"))
}

#[test]
fn no_number_of_warnings_is_an_error_or_hides_one() {
    let count = |reading: &Reading, code: &str| {
        reading.diagnostics.iter().filter(|found| found.code == code).count()
    };
    let warned = sizes(250, 0);
    assert!(!warned.has_errors(), "{:#?}", warned.diagnostics.last());
    assert_eq!((count(&warned, "sloppy-unit"), warned.diagnostics.len()), (100, 101));
    let last = warned.diagnostics.iter().find(|found| found.code == "too-many-warnings").unwrap();
    assert_eq!(last.message, "150 more warnings are not listed");

    let wrong = sizes(250, 2);
    assert!(wrong.has_errors());
    assert_eq!(count(&wrong, "invalid-quantity"), 2, "{:#?}", wrong.diagnostics.last());
    let many = sizes(0, 102);
    assert_eq!((count(&many, "invalid-quantity"), count(&many, "too-many-problems")), (100, 1));
}

#[test]
fn no_number_of_unknown_tags_is_an_error_or_hides_one() {
    let tags: String = (0..250).map(|number| format!("    k{number}: !odd v\n")).collect();
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n{tags}spec: {{containers: [{{name: web, image: web}}]}}\n"
    );
    let reading = read_file(&pod);
    assert!(!reading.has_errors(), "{:#?}", reading.diagnostics.last());
    let reading = read_file(&format!("{pod}---\na: [\n"));
    assert!(reading.diagnostics.iter().any(|found| found.code == "syntax"));
}
