//! Reads manifests and descriptors: files, folders and stdin, with one or many documents in each.
//!
//! Everything is read and checked before anything is sent, and every problem is told with its
//! file and line, all of them at once. [`parse`] is pure; [`read`] goes to the disk by `found.rs`. Which
//! files belong together is decided in `unit.rs`.

mod found;
mod unit;

use std::{collections::BTreeSet, io::Read, path::PathBuf};

use serde_json::Value;
use tombolo_descriptor::{
    Colour, Format, Options, Reading, Severity, Source, detect, render, render_notes,
};
use tombolo_model::App;
use tombolo_yaml::{Limits, Lines, Node};

use crate::catalogue;
use crate::failure::Failure;

pub(crate) use found::{Place, each, texts_up_to};
pub(crate) use unit::{Unit, units};

/// What the files are, with what is read together.
pub(crate) fn wanted(asked: &Asked<'_>, stdin: impl Read) -> Result<Vec<Unit>, Failure> {
    Ok(units(texts_up_to(FILE_BYTES_MAX, asked, stdin)?, &asked.options))
}

/// A larger file is no manifest; the server takes much less in one object.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;
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
    place: Place,
}

/// Which files are meant, and how they are to be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) paths: &'a [String],
    /// Folders with all that is in them.
    pub(crate) recursive: bool,
    pub(crate) options: Options,
}

impl<'a> Asked<'a> {
    /// Files of any format.
    pub(crate) fn of(paths: &'a [String], format: Option<Format>) -> Asked<'a> {
        Asked { paths, options: Options { format, ..Options::default() }, ..Asked::default() }
    }
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

/// Reads the objects of all files. `-` is stdin; a folder means its `*.yaml`, `*.yml` and `*.json`,
/// sorted by name, and a chart or a kustomization what it renders.
pub(crate) fn read(asked: &Asked<'_>, stdin: impl Read) -> Result<Objects, Failure> {
    let mut objects = Objects::default();
    let mut problems = Vec::new();
    for unit in wanted(asked, stdin)? {
        match parse(&unit, &asked.options) {
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
        return Err(Failure::usage(format!("no objects in {}", asked.paths.join(", ")))
            .hint("a file needs apiVersion, kind and metadata.name; see `tombolo explain app`"));
    }
    Ok(objects)
}

fn all_of(problems: &[String]) -> Failure {
    let mut lines: Vec<&str> = problems.iter().take(PROBLEMS_MAX).map(String::as_str).collect();
    let more = format!("and {} more", problems.len().saturating_sub(PROBLEMS_MAX));
    if problems.len() > PROBLEMS_MAX {
        lines.push(&more);
    }
    Failure::failed(lines.join("\n       ")).hint("nothing was sent")
}

/// The objects of what is read together, or everything that is wrong with it. A descriptor of another
/// project becomes the objects that stand for it; what that left out is told in the notes.
pub(crate) fn parse(unit: &Unit, options: &Options) -> Result<Objects, Vec<String>> {
    let found = match unit.texts() {
        [text] => parse_one(text, unit, options)?,
        _ => made(unit, &unit.read(options))?,
    };
    let foreign = found.manifests.iter().find(|one| !is_served(one));
    match (unit.apart(), foreign) {
        (Some(why), Some(one)) if is_part(&one.kind) => {
            Err(vec![format!("{}: a {} is part of an App and needs {why}", one.source, one.kind)])
        }
        _ => Ok(found),
    }
}

/// What became of each text, for a report. Objects that the server has kinds for are no descriptor, and
/// right as they are.
pub(crate) fn reported<'a>(unit: &'a Unit, options: &Options) -> Vec<(Source<'a>, Reading)> {
    let readings = unit.read(options);
    let is_alone = |(_, one): &(_, Reading)| {
        one.diagnostics.iter().any(|found| found.code == unit::NOTHING_RUNS)
    };
    match (parse(unit, options), readings.as_slice()) {
        (Ok(found), [(source, reading)])
            if is_alone(&readings[0]) && found.manifests.iter().all(is_served) =>
        {
            let others = found.manifests.into_iter().map(|one| one.object).collect();
            vec![(*source, Reading { format: reading.format, others, ..Reading::default() })]
        }
        _ => readings,
    }
}

/// Whether every server has the kind.
fn is_served(one: &Manifest) -> bool {
    catalogue::by_kind(&catalogue::built_in(), &one.api_version, &one.kind).is_some()
}

/// Whether an object of Kubernetes says something about a workload, and means nothing without it.
pub(crate) fn is_part(kind: &str) -> bool {
    unit::BESIDE.contains(&kind)
}

fn parse_one(text: &Text, unit: &Unit, options: &Options) -> Result<Objects, Vec<String>> {
    let from = options.format;
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
        // What no reader knows and is no object either is named as what it is.
        let kind = |document: &Node| document.get("kind").and_then(Node::as_str).map(str::to_owned);
        let is_object = |document: &Node| kind(document).is_some_and(|it| it != "Kustomization");
        return match broken || format.is_none() && !documents.iter().any(is_object) {
            true if documents.is_empty() && !broken => Ok(Objects::default()),
            true => Err(shown(&unit.read(options))),
            false => objects(text, numbered(text, documents)),
        };
    };
    let readings = unit.read(options);
    if from.is_none() && serves(format) && !readings.iter().any(|(_, one)| one.has_errors()) {
        let mut found = objects(text, numbered(text, documents))?;
        if format != Format::Native {
            found.namespaces = namespaces(&found);
        }
        found.notes = warnings(&readings);
        return Ok(found);
    }
    made(unit, &readings)
}

/// What becomes of descriptors: their Apps, and before them what the Apps refer to.
fn made(unit: &Unit, readings: &[(Source<'_>, Reading)]) -> Result<Objects, Vec<String>> {
    if readings.iter().any(|(_, reading)| reading.has_errors()) {
        return Err(shown(readings));
    }
    let mut notes = warnings(readings);
    let mut all = Vec::new();
    for (source, reading) in readings {
        let told = render_notes(*source, &reading.notes, Colour::Never);
        notes.extend(told.lines().map(str::to_owned));
        let apps = reading.apps.iter().map(typed).collect::<Result<Vec<Value>, _>>();
        let apps = apps.map_err(|error| vec![format!("{}: {error}", source.name)])?;
        all.extend(reading.others.iter().cloned().chain(apps).map(|object| (1, object)));
    }
    let mut found = objects(&unit.texts()[0], all)?;
    found.notes = notes;
    found.namespaces = namespaces(&found);
    Ok(found)
}

/// What is wrong and no error, at the top of what is told.
fn warnings(readings: &[(Source<'_>, Reading)]) -> Vec<String> {
    let of_one = |(source, reading): &(Source<'_>, Reading)| {
        let shown = render(*source, &reading.diagnostics, Colour::Never);
        shown.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    readings.iter().flat_map(of_one).collect()
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

fn shown(readings: &[(Source<'_>, Reading)]) -> Vec<String> {
    let show = |(source, reading): &(Source<'_>, Reading)| {
        let one = |found| render(*source, std::slice::from_ref(found), Colour::Never);
        reading.diagnostics.iter().map(one).collect::<Vec<_>>()
    };
    let rendered = readings.iter().flat_map(show);
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
mod tests;
