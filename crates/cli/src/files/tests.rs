//! What becomes of files.

use std::fs;

use expect_test::{Expect, expect};

use super::*;

fn parsed(text: Text) -> Result<Objects, Vec<String>> {
    parse(&Unit::of(text), &Options::default())
}

fn reads_from(paths: &[String], stdin: impl Read) -> Result<Objects, Failure> {
    read(&Asked { paths, ..Asked::default() }, stdin)
}

fn text_of(name: &str, text: &str) -> Text {
    Text { name: name.to_owned(), text: text.to_owned(), folder: None, place: Place::Named }
}

#[track_caller]
fn check(file: &str, text: &str, expect: Expect) {
    let text = text_of(file, text);
    let text: String = match parsed(text) {
        Ok(objects) => objects
            .manifests
            .iter()
            .map(|one| {
                let namespace = one.namespace.as_deref().unwrap_or("-");
                format!("{} {} {} {namespace}\n", one.source, one.kind, one.name)
            })
            .collect(),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    };
    expect.assert_eq(&text);
}

#[test]
fn many_documents_know_their_lines() {
    check(
        "a.yaml",
        "\
# first
apiVersion: v1
kind: A
metadata: {name: one}
---
---
# second
apiVersion: v1
kind: B
metadata:
  name: two
  namespace: there
",
        expect![[r#"
            a.yaml:2 A one -
            a.yaml:8 B two there
        "#]],
    );
    check(
        "a.json",
        r#"
{"apiVersion": "v1", "kind": "A", "metadata": {"name": "one"}}

{"apiVersion": "v1", "kind": "B", "metadata": {"name": "two"}}
"#,
        expect![[r#"
            a.json:2 A one -
            a.json:4 B two -
        "#]],
    );
}

#[test]
fn a_list_stands_for_its_items() {
    check(
        "a.yaml",
        "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: A, metadata: {name: one}}
- {apiVersion: v1, kind: A, metadata: {name: two}}
",
        expect![[r#"
            a.yaml:1 A one -
            a.yaml:1 A two -
        "#]],
    );
}

/// The server knows no Deployments, in a list or not.
#[test]
fn a_list_with_a_workload_becomes_an_app() {
    check(
        "a.yaml",
        "\
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec:
    selector: {matchLabels: {app: web}}
    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: 'nginx:1'}]}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {}}
",
        expect![[r#"
            a.yaml:1 ConfigMap settings -
            a.yaml:1 App web -
        "#]],
    );
}

#[test]
fn a_descriptor_in_json_is_one_all_the_same() {
    check(
        "shop.json",
        r#"{"services": {"web": {"image": "nginx:1"}}}"#,
        expect![[r#"
            shop.json:1 App shop -
        "#]],
    );
    check(
        "pod.json",
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}"#,
        expect![[r#"
            pod.json:1 App web -
        "#]],
    );
}

#[test]
fn a_compose_file_without_a_name_goes_by_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("Shop");
    fs::create_dir(&home).expect("a folder in it");
    let path = home.join("compose.yaml");
    fs::write(&path, "services: {web: {image: 'nginx:1'}}\n").expect("written");
    // As it is given from within the folder, the name says nothing.
    let place = Place::Named;
    let mut text = found::text_at(&path, FILE_BYTES_MAX, place).expect("readable");
    text.name = "compose.yaml".to_owned();
    let objects = parsed(text).expect("valid");
    assert_eq!(objects.manifests[0].name, "shop");
}

#[test]
fn every_problem_is_told_with_its_line() {
    check(
        "a.yaml",
        "kind: A\n---\n- 1\n---\napiVersion: v1\nkind: A\nmetadata: {name: 5}\n",
        expect![[r#"
            a.yaml:1: apiVersion is missing
            a.yaml:3: expected an object with apiVersion and kind
            a.yaml:5: metadata.name must be a text that is not empty
        "#]],
    );
    check(
        "a.yaml",
        "apiVersion: v1\nkind: [\n",
        expect![[r#"
            a.yaml:2:7: error[syntax]: a list in brackets does not end
                   2 | kind: [
                     |       ^
                     = expected "]"
        "#]],
    );
    check(
        "a.yaml",
        "apiVersion: v1\nkind: A\nkind: B\n",
        expect![[r#"
            a.yaml:1:1: error[missing-field]: "metadata" is missing
                   1 | apiVersion: v1
                     | ^^^^^^^^^^
                     = expected a mapping with the name
            a.yaml:3:1: error[duplicate-key]: the key "kind" is there twice
                   3 | kind: B
                     | ^^^^
                   2 | kind: A
                     | ---- first here
                     = expected each key once; remove or rename one of the two
        "#]],
    );
    check(
        "a.json",
        "{\"a\": \n x}",
        expect![[r#"
        a.json:2:2: expected value
    "#]],
    );
}

#[test]
fn deep_nesting_and_alias_bombs_are_refused() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(parsed(text_of("a.yaml", &deep)).is_err());
    assert!(parsed(text_of("a.json", &deep)).is_err());
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let previous = format!("*a{}", level - 1);
        let items = [previous.as_str(); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(parsed(text_of("a.yaml", &bomb)).is_err());
}

#[test]
fn long_comments_and_norway_are_harmless() {
    let text = format!(
        "{}apiVersion: v1\nkind: A\nmetadata: {{name: no}}\nx:\n{}  y: on\n",
        "# a line\n".repeat(500),
        "  # a line\n".repeat(500),
    );
    let manifests = parsed(text_of("a.yaml", &text)).expect("valid").manifests;
    assert_eq!(manifests[0].name, "no");
    assert_eq!(manifests[0].object["x"]["y"], "on");
}

#[test]
fn folders_are_read_in_the_order_of_names() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, name) in [("b.yaml", "two"), ("a.json", "one"), ("c.txt", "not")] {
        let text =
            format!(r#"{{"apiVersion": "v1", "kind": "A", "metadata": {{"name": "{name}"}}}}"#);
        fs::write(folder.path().join(file), text).expect("written");
    }
    let path = folder.path().display().to_string();
    let names: Vec<String> = reads_from(&[path], std::io::empty())
        .expect("readable")
        .manifests
        .into_iter()
        .map(|manifest| manifest.name)
        .collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn stdin_is_read_once_and_nothing_is_a_usage_error() {
    let text = "{apiVersion: v1, kind: A, metadata: {name: one}}";
    assert_eq!(
        reads_from(&["-".to_owned()], text.as_bytes()).expect("readable").manifests.len(),
        1
    );
    assert!(reads_from(&["-".to_owned(), "-".to_owned()], text.as_bytes()).is_err());
    assert!(reads_from(&["-".to_owned()], "# nothing\n".as_bytes()).is_err());
    assert!(reads_from(&["/nowhere/at/all".to_owned()], std::io::empty()).is_err());
}

fn named(name: &str, text: &str, place: Place) -> Text {
    Text { name: name.to_owned(), text: text.to_owned(), folder: None, place }
}

/// Which texts are read together, a line each.
#[track_caller]
fn check_units(texts: &[(&str, &str, Place)], expect: Expect) {
    let texts = texts.iter().map(|(name, text, place)| named(name, text, place.clone())).collect();
    let line = |unit: &Unit| {
        let names: Vec<&str> = unit.texts().iter().map(|text| text.name.as_str()).collect();
        format!("{}\n", names.join(" "))
    };
    expect.assert_eq(&units(texts, &Options::default()).iter().map(line).collect::<String>());
}

#[test]
fn what_needs_each_other_is_read_together() {
    const RUNS: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}";
    const MORE: &str = "{apiVersion: v1, kind: Pod, metadata: {name: b}}";
    const BESIDE: &str = "{apiVersion: v1, kind: Service, metadata: {name: a}}";
    const OTHER: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}";
    const APP: &str = "{apiVersion: tombolo.dev/v1alpha1, kind: App, metadata: {name: a}}";
    const COMPOSE: &str = "services: {a: {image: i}}";
    let here = || Place::In("f".into());
    let there = || Place::In("g".into());
    let given = || Place::Named;
    check_units(
        &[
            ("f/a", RUNS, here()),
            ("f/b", BESIDE, here()),
            ("f/c", OTHER, here()),
            ("f/d", APP, here()),
            ("f/e", MORE, here()),
            ("g/a", RUNS, there()),
            ("g/b", MORE, there()),
        ],
        expect![[r#"
            f/a f/b f/e
            f/c
            f/d
            g/a
            g/b
        "#]],
    );
    // Of what is there twice, each folder is one of its own; and where that does not help, each file.
    let twice = || Place::In("t".into());
    check_units(
        &[
            ("t/a/runs", RUNS, twice()),
            ("t/a/beside", BESIDE, twice()),
            ("t/b/runs", RUNS, twice()),
            ("t/b/beside", BESIDE, twice()),
            ("t/b/again", RUNS, twice()),
        ],
        expect![[r#"
            t/a/runs t/a/beside
            t/b/runs
            t/b/beside
            t/b/again
        "#]],
    );
    check_units(
        &[
            ("one", COMPOSE, given()),
            ("two", COMPOSE, given()),
            ("three", "name: x\nservices: {}", given()),
            ("f/compose.override.yaml", COMPOSE, here()),
            ("f/compose.yaml", COMPOSE, here()),
            ("f/other.yaml", COMPOSE, here()),
            ("helm", RUNS, Place::Rendered),
            ("kustomize", BESIDE, Place::Rendered),
        ],
        expect![[r#"
            one two three
            f/compose.yaml f/compose.override.yaml
            f/other.yaml
            helm
            kustomize
        "#]],
    );
}

#[test]
fn folders_within_folders_are_read_when_they_are_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("sub/.hidden")).expect("made");
    let text = |name: &str| format!("{{apiVersion: v1, kind: A, metadata: {{name: {name}}}}}");
    for name in ["sub/b.yaml", "sub/.hidden/c.yaml"] {
        fs::write(folder.path().join(name), text("b")).expect("written");
    }
    let paths = [folder.path().display().to_string()];
    let plain =
        reads_from(&paths, std::io::empty()).expect_err("nothing lies in the folder itself");
    assert!(plain.hint.is_some_and(|hint| hint.contains("-R")));
    let asked = Asked { paths: &paths, recursive: true, ..Asked::default() };
    assert_eq!(read(&asked, std::io::empty()).expect("readable").manifests.len(), 1);
}

#[test]
fn a_folder_that_a_descriptor_names_is_carried_if_it_is_small_and_all_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = folder.path().join("conf");
    fs::create_dir_all(conf.join("sub")).expect("made");
    fs::write(conf.join("sub/a"), "A").expect("written");
    let path = folder.path().join("compose.yaml");
    fs::write(&path, "services: {}").expect("written");
    let text = found::text_at(&path, FILE_BYTES_MAX, Place::Named).expect("readable");
    let at = |path: &str| tombolo_descriptor::Files::folder_at(&text, path);
    let texts = [("sub/a".to_owned(), "A".to_owned())].into();
    assert_eq!(at("./conf"), Some(tombolo_descriptor::Folder::Texts(texts)));
    assert_eq!(at("./none"), None);
    assert_eq!(at("../"), None, "outside");
    fs::write(conf.join("b"), [0xff, 0xfe, 0x00]).expect("written");
    let unfit = |why: &str| Some(tombolo_descriptor::Folder::Unfit(why.to_owned()));
    assert_eq!(at("./conf"), unfit("b is no text"));
    std::os::unix::fs::symlink("/etc/passwd", conf.join("a")).expect("linked");
    fs::remove_file(conf.join("b")).expect("removed");
    assert_eq!(at("./conf"), unfit("a is a link or no file"));
}

#[test]
fn objects_that_every_server_has_are_right_without_a_workload() {
    let secret = text_of("secret.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: key}}");
    let unit = Unit::of(secret);
    let readings = reported(&unit, &Options::default());
    let [(_, reading)] = readings.as_slice() else { panic!("{readings:?}") };
    assert_eq!((reading.has_errors(), reading.others.len()), (false, 1), "{reading:?}");
    let service = text_of("web.yaml", "{apiVersion: v1, kind: Service, metadata: {name: web}}");
    assert!(reported(&Unit::of(service), &Options::default())[0].1.has_errors());
}

#[test]
fn files_of_a_folder_that_stay_apart_say_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web}}";
    let workload = "{apiVersion: v1, kind: ReplicationController, metadata: {name: web}, spec: \
                    {template: {spec: {containers: [{name: web, image: 'web:1'}]}}}}";
    for (name, text) in [("a.yaml", workload), ("b.yaml", workload), ("web.yaml", service)] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let failure = reads_from(&[folder.path().display().to_string()], std::io::empty());
    let told = failure.expect_err("which of the two is meant is not known").message;
    let told = told.replace(&format!("{}/", folder.path().display()), "");
    expect![[r#"
        web.yaml:1: a Service is part of an App and needs the other files of the folder, which are not read as one because the workload "web" is in a.yaml and in b.yaml; name those that belong together: -f FILE -f FILE"#]]
    .assert_eq(&told);
}

/// Any tree of real files: how many are read, and why the others are not. With the counts in a file of
/// the folder's name and `.counts` beside it, a change shows; `UPDATE_EXPECT=1` writes them.
#[test]
fn of_a_corpus_as_many_files_are_read_as_before() {
    let Some(root) = std::env::var_os("TOMBOLO_CORPUS").map(PathBuf::from) else {
        println!(
            "skipped: of_a_corpus_as_many_files_are_read_as_before: TOMBOLO_CORPUS names no folder"
        );
        return;
    };
    let mut folders = vec![root.clone()];
    let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let mut refused = Vec::new();
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let entries = fs::read_dir(&folder).expect("a folder of the corpus");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        folders.extend(paths.iter().filter(|path| path.is_dir()).cloned());
        let has_file = |ending: &str| {
            paths.iter().any(|path| path.extension().is_some_and(|found| found == ending))
        };
        if !["yaml", "yml", "json"].iter().any(|ending| has_file(ending)) {
            continue;
        }
        let path = [folder.display().to_string()];
        let asked = Asked { paths: &path, ..Asked::default() };
        let mut texts = Vec::new();
        for (name, text) in each(FILE_BYTES_MAX, &asked, std::io::empty()).expect("a folder") {
            match text {
                Ok(text) => texts.push(text),
                Err(failure) => refused.push((1, "unreadable".to_owned(), name, failure.message)),
            }
        }
        for unit in units(texts, &Options::default()) {
            let size = unit.texts().len();
            let name = unit.texts()[0].name.clone();
            match parse(&unit, &Options::default()) {
                Ok(found) => {
                    let apps = found.manifests.iter().any(|one| one.kind == "App");
                    let what = if apps { "read as an App" } else { "read as objects" };
                    *counts.entry(what.to_owned()).or_default() += size;
                }
                Err(problems) => {
                    let first = problems.first().cloned().unwrap_or_default();
                    let code =
                        first.split_once("error[").and_then(|(_, rest)| rest.split_once(']'));
                    let code = code.map_or("no-object", |(code, _)| code).to_owned();
                    let line = first.lines().next().unwrap_or_default().to_owned();
                    refused.push((size, code, name, line));
                }
            }
        }
    }
    for (size, code, name, line) in &refused {
        println!("{name}: {line}");
        *counts.entry(format!("refused, {code}")).or_default() += size;
    }
    let told: String = counts.iter().map(|(what, count)| format!("{count:6} {what}\n")).collect();
    println!("{told}");
    let snapshot =
        PathBuf::from(format!("{}.counts", root.display().to_string().trim_end_matches('/')));
    if snapshot.exists() || std::env::var_os("UPDATE_EXPECT").is_some() {
        expect_test::expect_file![snapshot].assert_eq(&told);
    }
}
