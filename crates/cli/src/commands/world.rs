//! What a plan is made from: sites, nodes, links, apps and what runs, from files or from a server.
//! Called by `match`, `plan`, `why` and `what-if`.

use std::{collections::BTreeMap, io, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tombolo_descriptor::{Colour, Format, NoFiles, Source, render, render_notes};
use tombolo_facade::icos;
use tombolo_model::{About, App, Trouble, TroubleKind, explanation::Search, keys, validate};
use tombolo_placement::select::{Limits, WORK_DEFAULT};
use tombolo_placement::topology::Topology;
use tombolo_plan::explaining::Seen;
use tombolo_plan::placing::Observed;

use super::{
    convert,
    selection::{self, CHUNK_SIZE},
};
use crate::{
    args::SearchArgs,
    connection::{Connection, JSON, Query},
    failure::{Exit, Failure},
    files::{self, Asked, Text},
    moment, output,
};

/// A hundred thousand nodes with all their characteristics take a quarter of this.
const TOPOLOGY_BYTES_MAX: u64 = 512 << 20;
/// So much is read at once, at document boundaries: the tree of a text is many times its size.
const PIECE_BYTES: usize = 1 << 20;
/// More than this is not read by anybody.
const PROBLEMS_MAX: usize = 20;

/// Sites, nodes and links of files: native documents, or the JSON of an ICOS aggregator.
pub(super) fn topology(paths: &[String]) -> Result<Topology, Failure> {
    let mut found = Found::default();
    for text in files::texts_up_to(TOPOLOGY_BYTES_MAX, &Asked::of(paths, None), io::stdin())? {
        match json_of(&text) {
            Some(document) if document.get("apiVersion").is_none() => {
                let read = icos::topology::read(&document)
                    .map_err(|trouble| Failure::failed(format!("{}: {trouble}", text.name)))?;
                found.topology.sites.extend(read.sites);
                found.topology.nodes.extend(read.nodes);
                found.topology.links.extend(read.links);
                found.topology.troubles.extend(read.troubles);
            }
            Some(document) => found.take(&text.name, document),
            None => found.read(&text),
        }
    }
    if !found.problems.is_empty() {
        let shown: Vec<&str> =
            found.problems.iter().take(PROBLEMS_MAX).map(String::as_str).collect();
        return Err(Failure::failed(shown.join("\n       ")).hint("mend the topology"));
    }
    if !found.left_out.is_empty() {
        let kinds: Vec<String> =
            found.left_out.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        output::note(&format!("not part of a topology, and left out: {}", kinds.join(", ")));
    }
    Ok(found.topology)
}

/// The apps of files, of whatever format. What they cannot carry is told.
pub(super) fn apps(paths: &[String], from: Option<Format>) -> Result<Vec<App>, Failure> {
    let asked = Asked::of(paths, from);
    let units = files::wanted(&asked, io::stdin())?;
    let readings: Vec<_> = units.iter().flat_map(|unit| unit.read(&asked.options)).collect();
    if convert::tell_problems(&readings) {
        return Err(Failure::failed("nothing was placed").hint("mend the errors above"));
    }
    let mut apps = Vec::new();
    for (source, reading) in readings {
        output::note_text(&render_notes(source, &reading.notes, output::stderr_colour()));
        apps.extend(reading.apps);
    }
    if apps.is_empty() {
        return Err(Failure::failed(format!("there is no app in {}", paths.join(", "))));
    }
    Ok(apps)
}

/// Asks the server, which knows what its loops remember. `None` if it explains nothing: it is older than this
/// shell, or is no Tombolo; which is told.
pub(super) async fn ask<T: DeserializeOwned>(
    connection: &Connection,
    path: &str,
    question: &impl Serialize,
    search: &SearchArgs,
) -> Result<Option<T>, Failure> {
    let unreadable = |error: serde_json::Error| Failure::failed(format!("{path}: {error}"));
    let question = serde_json::to_value(question).map_err(unreadable)?;
    let more = search.time_limit.unwrap_or_default();
    let answer = connection.explanation(path, &question, more).await.map_err(hinted)?;
    let Some(answer) = answer else {
        output::note(
            "note: this server explains nothing by itself; planned here, without what its loops \
             remember of silent nodes and failures",
        );
        return Ok(None);
    };
    serde_json::from_value(answer).map(Some).map_err(unreadable)
}

fn hinted(failure: Failure) -> Failure {
    match failure.exit == Exit::NotFound && failure.message.starts_with("app ") {
        true => failure.hint(APPS_HINT),
        false => failure,
    }
}

const APPS_HINT: &str = "`tombolo get apps -A` lists them all";

/// What was typed about the search, for the server.
pub(super) fn search(search: &SearchArgs) -> Search {
    let milliseconds = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    Search { time_limit_ms: search.time_limit.map(milliseconds), seed: search.seed }
}

/// What a server has to plan with, as far as it can be listed.
pub(super) async fn look(connection: &Connection) -> Result<Seen, Failure> {
    let observed = Observed {
        apps: listed(connection, "apps").await?,
        assignments: listed(connection, "assignments").await?,
        sites: listed(connection, "sites").await?,
        nodes: listed(connection, "nodes").await?,
        links: listed(connection, "links").await?,
        // What policies hold against nodes is explained by a server.
        struck: Vec::new(),
    };
    Ok(Seen { observed, ..Seen::default() })
}

/// That something was left out for lack of rights.
pub(super) fn tell_hidden(count: usize, what: &str) {
    if count > 0 {
        output::note(&format!("note: {count} more {what} that you may not read"));
    }
}

/// What a plan says about names that do not exist, and about everything else.
pub(super) fn as_failure(trouble: &Trouble) -> Failure {
    let failure = match trouble.kind {
        TroubleKind::NotFound => Failure::new(Exit::NotFound, trouble.to_string()),
        TroubleKind::Unusable => Failure::failed(trouble.to_string()),
    };
    match trouble.about {
        About::App(_) if trouble.kind == TroubleKind::NotFound => failure.hint(APPS_HINT),
        _ => failure,
    }
}

/// All objects of one of our kinds, in all namespaces.
async fn listed<K: DeserializeOwned>(
    connection: &Connection,
    kind: &str,
) -> Result<Vec<K>, Failure> {
    let resource = connection.resource(kind).await?;
    let path = resource.collection(None);
    let list = selection::list(connection, &path, &Query::default(), JSON, CHUNK_SIZE).await?;
    let typed = |object: Value| {
        let name = selection::name_of(&object).to_owned();
        serde_json::from_value(object)
            .map_err(|error| Failure::failed(format!("{kind} {name} of the server: {error}")))
    };
    selection::items(&resource, list).into_iter().map(typed).collect()
}

/// Runs a search within what was typed.
pub(super) fn within<T>(search: &SearchArgs, run: impl FnOnce(&Limits<'_>) -> T) -> T {
    let started = moment::monotonic();
    let stop = || search.time_limit.is_some_and(|limit| started.elapsed() >= limit);
    let work = if search.time_limit.is_some() { u64::MAX } else { WORK_DEFAULT };
    run(&Limits { work, stop: &stop, seed: search.seed, ..Limits::default() })
}

/// The document, if the text is one JSON object.
fn json_of(text: &Text) -> Option<Value> {
    if !text.text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(&text.text).ok()
}

#[derive(Debug, Default)]
struct Found {
    topology: Topology,
    problems: Vec<String>,
    /// Objects that are no part of a topology, by kind.
    left_out: BTreeMap<String, usize>,
}

impl Found {
    fn read(&mut self, text: &Text) {
        for (line, piece) in pieces(&text.text) {
            let name = match line {
                1 => text.name.clone(),
                line => format!("{} from line {line}", text.name),
            };
            let source = Source { name: &name, text: piece };
            let reading = tombolo_descriptor::read(source, Some(Format::Native), &NoFiles);
            if reading.has_errors() {
                let shown = render(source, &reading.diagnostics, Colour::Never);
                self.problems.push(shown.trim_end().replace('\n', "\n       "));
            }
            if !reading.apps.is_empty() {
                *self.left_out.entry("App".to_owned()).or_default() += reading.apps.len();
            }
            for object in reading.others {
                self.take(&name, object);
            }
        }
    }

    fn take(&mut self, source: &str, mut object: Value) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let ours = object["apiVersion"].as_str().unwrap_or_default().starts_with(keys::GROUP);
        let invalid = if ours { validate::object(&object) } else { Vec::new() };
        if let Some(first) = invalid.first() {
            let name = selection::name_of(&object);
            self.problems
                .push(format!("{source}: {kind} {name}: {}: {}", first.field, first.message));
            return;
        }
        let read = match (kind.as_str(), ours) {
            ("Site", true) => serde_json::from_value(object).map(|o| self.topology.sites.push(o)),
            ("Node", true) => serde_json::from_value(object).map(|o| self.topology.nodes.push(o)),
            ("Link", true) => serde_json::from_value(object).map(|o| self.topology.links.push(o)),
            (list, false) if list.ends_with("List") => {
                let items = object.get_mut("items").map(Value::take);
                for item in items.as_ref().and_then(Value::as_array).into_iter().flatten() {
                    self.take(source, item.clone());
                }
                Ok(())
            }
            (_, _) => {
                *self.left_out.entry(kind.clone()).or_default() += 1;
                Ok(())
            }
        };
        if let Err(error) = read {
            self.problems.push(format!("{source}: {kind}: {error}"));
        }
    }
}

/// The text in pieces of whole documents, each with the number of its first line. A line that
/// begins with `---` ends a document wherever it stands.
fn pieces(text: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let (mut start, mut first_line) = (0, 1);
    let (mut at, mut line) = (0, 1);
    for each in text.split_inclusive('\n') {
        if each.starts_with("---") && at - start >= PIECE_BYTES {
            pieces.push((first_line, &text[start..at]));
            (start, first_line) = (at, line);
        }
        at += each.len();
        line += 1;
    }
    pieces.push((first_line, &text[start..]));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_read_in_pieces_of_whole_documents() {
        let document = format!("---\nkind: Node\nnote: {}\n", "x".repeat(1000));
        let text = document.repeat(3000);
        let pieces = pieces(&text);
        assert!(pieces.len() > 2, "{}", pieces.len());
        assert_eq!(pieces.iter().map(|(_, piece)| *piece).collect::<String>(), text);
        assert!(pieces.iter().all(|(_, piece)| piece.starts_with("---\n")));
        assert_eq!(pieces[1].0, pieces[0].1.lines().count() + 1);
    }
}
