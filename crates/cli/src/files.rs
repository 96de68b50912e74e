//! Reads manifests: files, folders and stdin, with one or many documents in each.
//!
//! Everything is read and checked before anything is sent, and every problem is told with its
//! file and line, all of them at once. [`parse`] is pure; [`read`] walks the disk.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::Value;
use serde_saphyr::{
    DuplicateKeyPolicy, NonFiniteFloatPolicy, Options, Spanned, UserMessageFormatter,
};

use crate::failure::Failure;

/// A larger file is no manifest; the server takes much less in one object.
const FILE_BYTES_MAX: u64 = 16 << 20;
const FILES_MAX: usize = 2_000;
const DOCUMENTS_MAX: usize = 20_000;
const DEPTH_MAX: usize = 64;
/// More than this is not read by anybody.
const PROBLEMS_MAX: usize = 20;

/// One object of a file, with the fields that everybody needs taken out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// `file:line`, for messages.
    pub(crate) source: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) object: Value,
}

/// `-` is stdin; a folder means its `*.yaml`, `*.yml` and `*.json`, sorted by name.
pub(crate) fn read(paths: &[String], stdin: impl Read) -> Result<Vec<Manifest>, Failure> {
    if paths.is_empty() {
        return Err(Failure::usage("no file: name one with -f FILE, -f FOLDER or -f -"));
    }
    let mut stdin = Some(stdin);
    let mut manifests = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        let texts = match path.as_str() {
            "-" => match stdin.take() {
                Some(stdin) => vec![("stdin".to_owned(), bounded(stdin, Path::new("stdin"))?)],
                None => return Err(Failure::usage("stdin (`-`) can be read only once")),
            },
            path => texts_at(Path::new(path))?,
        };
        for (name, text) in &texts {
            match parse(name, text) {
                Ok(found) => manifests.extend(found),
                Err(found) => problems.extend(found),
            }
        }
    }
    if !problems.is_empty() {
        return Err(all_of(&problems));
    }
    if manifests.is_empty() {
        return Err(Failure::usage(format!("no objects in {}", paths.join(", ")))
            .hint("a file needs apiVersion, kind and metadata.name; see `tombolo explain app`"));
    }
    Ok(manifests)
}

fn texts_at(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let metadata = fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
    let files = match metadata.is_dir() {
        true => files_in(path)?,
        false => vec![path.to_owned()],
    };
    let text = |path: PathBuf| {
        let file = fs::File::open(&path).map_err(|error| Failure::file(&path, &error))?;
        Ok((path.display().to_string(), bounded(file, &path)?))
    };
    files.into_iter().map(text).collect()
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| Failure::file(folder, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(Failure::usage(format!(
                "{}: more than {FILES_MAX} files",
                folder.display()
            )));
        }
    }
    files.sort();
    Ok(files)
}

fn bounded(reader: impl Read, path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    reader
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::file(path, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let mebibytes = FILE_BYTES_MAX >> 20;
        return Err(Failure::usage(format!("{}: larger than {mebibytes} MiB", path.display())));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{}: not UTF-8 text", path.display())))
}

fn all_of(problems: &[String]) -> Failure {
    let mut lines: Vec<&str> = problems.iter().take(PROBLEMS_MAX).map(String::as_str).collect();
    let more = format!("and {} more", problems.len().saturating_sub(PROBLEMS_MAX));
    if problems.len() > PROBLEMS_MAX {
        lines.push(&more);
    }
    Failure::failed(lines.join("\n       ")).hint("nothing was sent")
}

/// The objects of one text, or everything that is wrong with it.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, Vec<String>> {
    let documents = match file.ends_with(".json") {
        true => json_documents(text),
        false => yaml_documents(text),
    };
    let documents =
        documents.map_err(|(place, problem)| vec![format!("{file}:{place}: {problem}")])?;
    let mut manifests = Vec::new();
    let mut problems = Vec::new();
    for (line, document) in documents {
        for object in flattened(document) {
            match manifest(&format!("{file}:{line}"), object) {
                Ok(manifest) => manifests.push(manifest),
                Err(problem) => problems.push(problem),
            }
        }
    }
    match problems.is_empty() {
        true => Ok(manifests),
        false => Err(problems),
    }
}

type Documents = Vec<(u64, Value)>;
/// `line` or `line:column`, and what is wrong there.
type Problem = (String, String);

fn yaml_documents(text: &str) -> Result<Documents, Problem> {
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple_with_options(text, yaml_options()).map_err(|error| {
            let error = error.without_snippet();
            let place = error
                .location()
                .map_or_else(|| "1".to_owned(), |at| format!("{}:{}", at.line(), at.column()));
            (place, without_place(&error.render_with_formatter(&UserMessageFormatter)))
        })?;
    Ok(documents.into_iter().map(|one| (one.referenced.line(), one.value)).collect())
}

/// The library writes the place into its sentence as well; ours stands in front already.
fn without_place(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    match first.rfind(" at line ") {
        Some(end) => first[..end].trim_end_matches([',', ':']).to_owned(),
        None => first.to_owned(),
    }
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_documents: DOCUMENTS_MAX,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // `country: no` is Norway.
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        // The parser holds back comments that it could emit, and only so many of them.
        emit_comments: false,
        with_snippet: false,
    }
}

fn json_documents(text: &str) -> Result<Documents, Problem> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut start = 0;
    while let Some(document) = stream.next() {
        let document = document.map_err(|error| {
            let place = format!("{}:{}", error.line(), error.column());
            (place, without_place(&error.to_string()))
        })?;
        documents.push((line_of_next(text, start), document));
        start = stream.byte_offset();
        if documents.len() > DOCUMENTS_MAX {
            return Err(("1".to_owned(), format!("more than {DOCUMENTS_MAX} documents")));
        }
    }
    Ok(documents)
}

/// The line on which the next thing after `offset` begins.
fn line_of_next(text: &str, offset: usize) -> u64 {
    let blank = text[offset..].len() - text[offset..].trim_start().len();
    text[..offset + blank].bytes().filter(|byte| *byte == b'\n').count() as u64 + 1
}

/// A `List` stands for its items; a null document for nothing.
fn flattened(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut map) if map.get("kind").is_some_and(|kind| kind == "List") => {
            match map.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

fn manifest(source: &str, object: Value) -> Result<Manifest, String> {
    let Value::Object(_) = &object else {
        return Err(format!("{source}: expected an object with apiVersion and kind"));
    };
    let text = |value: &Value, path: &str| match value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        Value::Null => Err(format!("{source}: {path} is missing")),
        _ => Err(format!("{source}: {path} must be a text that is not empty")),
    };
    let metadata = &object["metadata"];
    let namespace = match &metadata["namespace"] {
        Value::Null => None,
        namespace => Some(text(namespace, "metadata.namespace")?),
    };
    Ok(Manifest {
        source: source.to_owned(),
        api_version: text(&object["apiVersion"], "apiVersion")?,
        kind: text(&object["kind"], "kind")?,
        name: text(&metadata["name"], "metadata.name")?,
        namespace,
        object,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(file: &str, text: &str, expect: Expect) {
        let text: String = match parse(file, text) {
            Ok(manifests) => manifests
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
            a.yaml:2:7: unclosed bracket '['
        "#]],
        );
        check(
            "a.yaml",
            "apiVersion: v1\nkind: A\nkind: B\n",
            expect![[r#"
                a.yaml:3:1: duplicate mapping key: kind not allowed here
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
        assert!(parse("a.yaml", &deep).is_err());
        assert!(parse("a.json", &deep).is_err());
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..9 {
            let previous = format!("*a{}", level - 1);
            let items = [previous.as_str(); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(parse("a.yaml", &bomb).is_err());
    }

    #[test]
    fn long_comments_and_norway_are_harmless() {
        let text = format!(
            "{}apiVersion: v1\nkind: A\nmetadata: {{name: no}}\nx:\n{}  y: on\n",
            "# a line\n".repeat(500),
            "  # a line\n".repeat(500),
        );
        let manifests = parse("a.yaml", &text).expect("valid");
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
        let names: Vec<String> = read(&[path], std::io::empty())
            .expect("readable")
            .into_iter()
            .map(|manifest| manifest.name)
            .collect();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn stdin_is_read_once_and_nothing_is_a_usage_error() {
        let text = "{apiVersion: v1, kind: A, metadata: {name: one}}";
        assert_eq!(read(&["-".to_owned()], text.as_bytes()).expect("readable").len(), 1);
        assert!(read(&["-".to_owned(), "-".to_owned()], text.as_bytes()).is_err());
        assert!(read(&["-".to_owned()], "# nothing\n".as_bytes()).is_err());
        assert!(read(&["/nowhere/at/all".to_owned()], std::io::empty()).is_err());
    }
}
