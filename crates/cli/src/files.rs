//! Reads manifests and descriptors: files, folders and stdin, with one or many documents in each.
//!
//! Everything is read and checked before anything is sent, and every problem is told with its
//! file and line, all of them at once. [`parse`] is pure; [`read`] walks the disk.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tombolo_descriptor::{
    Colour, Files, Format, Reading, Severity, Source, detect, render, render_notes,
};
use tombolo_model::App;
use tombolo_yaml::{Limits, Lines, Node};

use crate::failure::Failure;

/// A larger file is no manifest; the server takes much less in one object.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;
const FILES_MAX: usize = 2_000;
const DOCUMENTS_MAX: usize = 20_000;
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

/// A file as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The folder against which the names of further files are read; none for stdin.
    folder: Option<PathBuf>,
}

/// What the files say, and what was lost on the way from another format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) notes: Vec<String>,
    /// Namespaces that descriptors of other projects name: there they come into being by that.
    pub(crate) namespaces: BTreeSet<String>,
}

impl Text {
    pub(crate) fn source(&self) -> Source<'_> {
        Source { name: &self.name, text: &self.text }
    }
}

/// Files that a descriptor names are read beside it, and nowhere else: a descriptor from somebody
/// else must not send our keys anywhere.
impl Files for Text {
    fn read(&self, path: &str) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let inside = Path::new(path).components().all(|part| {
            matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir)
        });
        let path = folder.join(path);
        // A link may lead elsewhere.
        let (real, home) = (path.canonicalize().ok()?, folder.canonicalize().ok()?);
        if !inside || !real.starts_with(home) {
            return None;
        }
        bounded(fs::File::open(&path).ok()?, &path, FILE_BYTES_MAX).ok()
    }

    fn folder(&self) -> Option<String> {
        let real = self.folder.as_ref()?.canonicalize().ok()?;
        Some(real.file_name()?.to_string_lossy().into_owned())
    }
}

/// Reads the objects of all files. `-` is stdin; a folder means its `*.yaml`, `*.yml` and `*.json`,
/// sorted by name.
pub(crate) fn read(
    paths: &[String],
    from: Option<Format>,
    stdin: impl Read,
) -> Result<Objects, Failure> {
    let mut objects = Objects::default();
    let mut problems = Vec::new();
    for text in texts(paths, stdin)? {
        match parse(&text, from) {
            Ok(found) => {
                objects.manifests.extend(found.manifests);
                objects.notes.extend(found.notes);
                objects.namespaces.extend(found.namespaces);
            }
            Err(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        return Err(all_of(&problems));
    }
    if objects.manifests.is_empty() {
        return Err(Failure::usage(format!("no objects in {}", paths.join(", ")))
            .hint("a file needs apiVersion, kind and metadata.name; see `tombolo explain app`"));
    }
    Ok(objects)
}

/// The texts of all files, in order.
pub(crate) fn texts(paths: &[String], stdin: impl Read) -> Result<Vec<Text>, Failure> {
    texts_up_to(FILE_BYTES_MAX, paths, stdin)
}

/// The same, for files that may be larger than a manifest.
pub(crate) fn texts_up_to(
    bytes_max: u64,
    paths: &[String],
    stdin: impl Read,
) -> Result<Vec<Text>, Failure> {
    each(bytes_max, paths, stdin)?.into_iter().map(|(_, text)| text).collect()
}

/// A file by name, and its text or why it cannot be read.
pub(crate) type Named = (String, Result<Text, Failure>);

/// The texts of all files by name, those that cannot be read among them.
pub(crate) fn each(
    bytes_max: u64,
    paths: &[String],
    stdin: impl Read,
) -> Result<Vec<Named>, Failure> {
    if paths.is_empty() {
        return Err(Failure::usage("no file: name one, a folder, or - for stdin"));
    }
    let mut stdin = Some(stdin);
    let mut texts = Vec::new();
    for path in paths {
        match (path.as_str(), stdin.take()) {
            ("-", Some(stdin)) => {
                let name = "stdin".to_owned();
                let text = bounded(stdin, Path::new("stdin"), bytes_max);
                let text = text.map(|text| Text { name: name.clone(), text, folder: None });
                texts.push((name, text));
            }
            ("-", None) => return Err(Failure::usage("stdin (`-`) can be read only once")),
            (path, kept) => {
                stdin = kept;
                for path in files_at(Path::new(path))? {
                    texts.push((path.display().to_string(), text_at(&path, bytes_max)));
                }
            }
        }
    }
    Ok(texts)
}

/// The files of a folder, or the one that is no folder.
fn files_at(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    match path.is_dir() {
        true => files_in(path),
        false => Ok(vec![path.to_owned()]),
    }
}

fn text_at(path: &Path, bytes_max: u64) -> Result<Text, Failure> {
    let file = fs::File::open(path).map_err(|error| Failure::file(path, &error))?;
    let folder = path.parent().map(|parent| match parent.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => parent.to_owned(),
    });
    let name = path.display().to_string();
    Ok(Text { name, text: bounded(file, path, bytes_max)?, folder })
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
    if files.is_empty() {
        let message = format!("{}: no file in it ends in .yaml, .yml or .json", folder.display());
        return Err(Failure::usage(message));
    }
    files.sort();
    Ok(files)
}

fn bounded(reader: impl Read, path: &Path, bytes_max: u64) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    reader
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::file(path, &error))?;
    if bytes.len() as u64 > bytes_max {
        let mebibytes = bytes_max >> 20;
        return Err(Failure::usage(format!("{}: larger than {mebibytes} MiB", path.display())));
    }
    let begins = [[0xff, 0xfe], [0xfe, 0xff]];
    if begins.iter().any(|mark| bytes.starts_with(mark)) {
        let message = format!("{}: UTF-16 text, not UTF-8", path.display());
        return Err(Failure::usage(message).hint("save the file as UTF-8"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::usage(format!("{}:{line}: not UTF-8 text", path.display()))
            .hint("save the file as UTF-8")
    })
}

fn all_of(problems: &[String]) -> Failure {
    let mut lines: Vec<&str> = problems.iter().take(PROBLEMS_MAX).map(String::as_str).collect();
    let more = format!("and {} more", problems.len().saturating_sub(PROBLEMS_MAX));
    if problems.len() > PROBLEMS_MAX {
        lines.push(&more);
    }
    Failure::failed(lines.join("\n       ")).hint("nothing was sent")
}

/// The objects of one text, or everything that is wrong with it. A descriptor of another project
/// becomes the objects that stand for it; what that left out is told in the notes.
pub(crate) fn parse(text: &Text, from: Option<Format>) -> Result<Objects, Vec<String>> {
    if text.name.ends_with(".json") && from.is_none() {
        let documents = json_documents(text)?;
        // A descriptor may be JSON as well; those of others say no kind, or that of a workload.
        let is_descriptor = |only: &Value| only.get("kind").is_none() || has_workload(only);
        if !matches!(documents.as_slice(), [(_, only)] if only.is_object() && is_descriptor(only)) {
            return objects(text, documents);
        }
    }
    let (documents, problems) = tombolo_yaml::documents(&text.text, &Limits::default());
    let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    let format = from.or_else(|| detect(&documents).ok());
    let Some(format) = format.filter(|format| !broken && reads(*format, &documents, from)) else {
        return match broken {
            true => Err(shown(text, &tombolo_descriptor::read(text.source(), from, text))),
            false => objects(text, numbered(text, documents)),
        };
    };
    let reading = tombolo_descriptor::read(text.source(), Some(format), text);
    if reading.has_errors() {
        return Err(shown(text, &reading));
    }
    if from.is_none() && serves(format) {
        let mut found = objects(text, numbered(text, documents))?;
        if format != Format::Native {
            found.namespaces = namespaces(&found);
        }
        return Ok(found);
    }
    let notes = render_notes(text.source(), &reading.notes, Colour::Never);
    let apps = reading.apps.iter().map(typed).collect::<Result<Vec<Value>, _>>();
    let apps = apps.map_err(|error| vec![format!("{}: {error}", text.name)])?;
    // What an App refers to must be there before it.
    let all = reading.others.into_iter().chain(apps).map(|object| (1, object)).collect();
    let mut found = objects(text, all)?;
    found.notes = notes.lines().map(str::to_owned).collect();
    found.namespaces = namespaces(&found);
    Ok(found)
}

fn namespaces(found: &Objects) -> BTreeSet<String> {
    found.manifests.iter().filter_map(|one| one.namespace.clone()).collect()
}

/// Whether the server takes the objects of a format as they are. They are read all the same, so that
/// what is wrong is told with its line.
fn serves(format: Format) -> bool {
    match format {
        Format::Native | Format::Codeco | Format::CharityOrchestration => true,
        Format::Icos
        | Format::CharityTosca
        | Format::Ceaml
        | Format::Compose
        | Format::EdgeNet
        | Format::Kubernetes => false,
    }
}

/// Whether a text of this format has to be read by the descriptor. Plain Kubernetes objects go as they
/// are unless there is something to run among them, which the server would not know.
fn reads(format: Format, documents: &[Node], from: Option<Format>) -> bool {
    match format {
        _ if from.is_some() => true,
        Format::Kubernetes => documents.iter().any(is_workload),
        Format::Native
        | Format::Codeco
        | Format::CharityOrchestration
        | Format::Icos
        | Format::CharityTosca
        | Format::Ceaml
        | Format::Compose
        | Format::EdgeNet => true,
    }
}

fn is_workload(document: &Node) -> bool {
    let of = |key: &str| document.get(key).and_then(Node::as_str).unwrap_or_default();
    if of("kind") == "List" {
        // As `kubectl get -o yaml` prints several; as deep as the text is, and that is bounded.
        let items = document.get("items").and_then(Node::as_list);
        return items.into_iter().flatten().any(is_workload);
    }
    runs(of("apiVersion"), of("kind"))
}

/// [`is_workload`] for what was read as JSON.
fn has_workload(document: &Value) -> bool {
    let of = |key: &str| document[key].as_str().unwrap_or_default();
    match of("kind") {
        "List" => document["items"].as_array().into_iter().flatten().any(has_workload),
        kind => runs(of("apiVersion"), kind),
    }
}

fn runs(version: &str, kind: &str) -> bool {
    match version.split_once('/') {
        Some(("apps" | "batch", _)) => true,
        None => matches!(kind, "Pod" | "ReplicationController"),
        Some(_) => false,
    }
}

fn typed(app: &App) -> Result<Value, serde_json::Error> {
    serde_json::to_value(app)
}

fn shown(text: &Text, reading: &Reading) -> Vec<String> {
    let show = |one| render(text.source(), std::slice::from_ref(one), Colour::Never);
    let rendered = reading.diagnostics.iter().map(show);
    rendered.map(|one| one.trim_end().replace('\n', "\n       ")).collect()
}

fn numbered(text: &Text, documents: Vec<Node>) -> Documents {
    let lines = Lines::new(&text.text);
    let place = |node: Node| (lines.position(node.span.start).line, node.to_json());
    documents.into_iter().map(place).collect()
}

fn objects(text: &Text, documents: Documents) -> Result<Objects, Vec<String>> {
    let mut found = Objects::default();
    let mut problems = Vec::new();
    for (line, document) in documents {
        for object in flattened(document) {
            match manifest(&format!("{}:{line}", text.name), object) {
                Ok(manifest) => found.manifests.push(manifest),
                Err(problem) => problems.push(problem),
            }
        }
    }
    match problems.is_empty() {
        true => Ok(found),
        false => Err(problems),
    }
}

/// Line of the first character, and what stands there.
type Documents = Vec<(u32, Value)>;

/// One JSON object after the other, as `kubectl get -o json` and `jq` print them.
fn json_documents(text: &Text) -> Result<Documents, Vec<String>> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(&text.text).into_iter::<Value>();
    let mut start = 0;
    while let Some(document) = stream.next() {
        let document = document.map_err(|error| {
            let problem = error.to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default();
            vec![format!("{}:{}:{}: {problem}", text.name, error.line(), error.column())]
        })?;
        documents.push((line_of_next(&text.text, start), document));
        start = stream.byte_offset();
        if documents.len() > DOCUMENTS_MAX {
            return Err(vec![format!("{}:1: more than {DOCUMENTS_MAX} documents", text.name)]);
        }
    }
    Ok(documents)
}

/// The line on which the next thing after `offset` begins.
fn line_of_next(text: &str, offset: usize) -> u32 {
    let blank = text[offset..].len() - text[offset..].trim_start().len();
    let before = text[..offset + blank].bytes().filter(|byte| *byte == b'\n').count();
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
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

    fn text_of(name: &str, text: &str) -> Text {
        Text { name: name.to_owned(), text: text.to_owned(), folder: None }
    }

    #[track_caller]
    fn check(file: &str, text: &str, expect: Expect) {
        let text = text_of(file, text);
        let text: String = match parse(&text, None) {
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
        let mut text = text_at(&path, FILE_BYTES_MAX).expect("readable");
        text.name = "compose.yaml".to_owned();
        let objects = parse(&text, None).expect("valid");
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
        assert!(parse(&text_of("a.yaml", &deep), None).is_err());
        assert!(parse(&text_of("a.json", &deep), None).is_err());
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..9 {
            let previous = format!("*a{}", level - 1);
            let items = [previous.as_str(); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(parse(&text_of("a.yaml", &bomb), None).is_err());
    }

    #[test]
    fn long_comments_and_norway_are_harmless() {
        let text = format!(
            "{}apiVersion: v1\nkind: A\nmetadata: {{name: no}}\nx:\n{}  y: on\n",
            "# a line\n".repeat(500),
            "  # a line\n".repeat(500),
        );
        let manifests = parse(&text_of("a.yaml", &text), None).expect("valid").manifests;
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
        let names: Vec<String> = read(&[path], None, std::io::empty())
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
            read(&["-".to_owned()], None, text.as_bytes()).expect("readable").manifests.len(),
            1
        );
        assert!(read(&["-".to_owned(), "-".to_owned()], None, text.as_bytes()).is_err());
        assert!(read(&["-".to_owned()], None, "# nothing\n".as_bytes()).is_err());
        assert!(read(&["/nowhere/at/all".to_owned()], None, std::io::empty()).is_err());
    }
}
