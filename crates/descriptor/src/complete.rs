//! Whether a reader forgets anything: every value of a text must show in the App, or in the notes.
//! Found from outside, so that no reader can claim what it does not do: a value is taken away, and
//! then changed, and each time something must become different. Called by the tests of the formats.

use tombolo_model::App;
use tombolo_yaml::{Limits, Node, Value};

use crate::path::Path;
use crate::reader::Reader;
use crate::{FORMATS, Files, Format, Reading};

type Read = fn(&[Node], &mut Reader<'_>) -> Vec<App>;

/// The paths of all values that a format's reader passes over in silence. Costs two readings for
/// every value of the text.
pub fn forgotten(text: &str, format: Format, files: &dyn Files) -> Vec<String> {
    let row = FORMATS.iter().find(|row| row.format == format);
    row.map(|row| forgotten_by(row.read, text, format, files)).unwrap_or_default()
}

fn forgotten_by(read: Read, text: &str, format: Format, files: &dyn Files) -> Vec<String> {
    let (documents, _) = tombolo_yaml::documents(text, &Limits::default());
    let outcome = |documents: &[Node]| {
        let mut reader = Reader::new("", files);
        let apps = read(documents, &mut reader);
        reader.finish(Some(format), apps)
    };
    let whole = outcome(&documents);
    let mut leaves = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        collect(document, &mut vec![number], &mut leaves);
    }
    let mut forgotten = Vec::new();
    for leaf in leaves {
        let path = path_of(&documents, &leaf);
        if is_noted(&whole, &path, leaf[0]) {
            continue;
        }
        let without = change(&documents, &leaf, Change::Remove);
        let altered = change(&documents, &leaf, Change::Alter);
        let shows = [without, altered].iter().all(|changed| differ(&whole, &outcome(changed)));
        if !shows {
            forgotten.push(path);
        }
    }
    forgotten
}

/// Whether a note speaks of the value or of something that it is part of. A document beside the
/// first may be named by its number or not.
fn is_noted(reading: &Reading, path: &str, document: usize) -> bool {
    let numbered = match path.starts_with('[') {
        true => format!("[{document}]{path}"),
        false => format!("[{document}].{path}"),
    };
    reading.notes.iter().filter(|note| !note.path.is_empty()).any(|note| {
        [path, numbered.as_str()].iter().any(|path| {
            path.strip_prefix(note.path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    })
}

fn differ(one: &Reading, other: &Reading) -> bool {
    let told = |reading: &Reading| {
        let diagnostics = reading.diagnostics.iter();
        diagnostics
            .map(|found| (found.code, found.path.clone(), found.message.clone()))
            .collect::<Vec<_>>()
    };
    one.apps != other.apps || one.others != other.others || told(one) != told(other)
}

/// The ways to all scalars: the number of the document, and then of each entry.
fn collect(node: &Node, way: &mut Vec<usize>, leaves: &mut Vec<Vec<usize>>) {
    let children: Vec<&Node> = match &node.value {
        Value::List(items) => items.iter().collect(),
        Value::Map(entries) => entries.iter().map(|(_, child)| child).collect(),
        Value::Null => return,
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
            leaves.push(way.clone());
            return;
        }
    };
    for (index, child) in children.into_iter().enumerate() {
        way.push(index);
        collect(child, way, leaves);
        way.pop();
    }
}

fn path_of(documents: &[Node], way: &[usize]) -> String {
    let mut path = Path::root();
    let mut node = &documents[way[0]];
    for index in &way[1..] {
        match &node.value {
            Value::List(items) => {
                path = path.index(*index);
                node = &items[*index];
            }
            Value::Map(entries) => {
                path = path.key(&entries[*index].0.text);
                node = &entries[*index].1;
            }
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
                break;
            }
        }
    }
    path.to_string()
}

#[derive(Clone, Copy)]
enum Change {
    Remove,
    Alter,
}

fn change(documents: &[Node], way: &[usize], change: Change) -> Vec<Node> {
    let mut changed = documents.to_vec();
    let [document, middle @ .., last] = way else { return changed };
    let parent =
        middle.iter().try_fold(&mut changed[*document], |node, index| match &mut node.value {
            Value::List(items) => items.get_mut(*index),
            Value::Map(entries) => entries.get_mut(*index).map(|(_, child)| child),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
                None
            }
        });
    let Some(parent) = parent else { return changed };
    match (&mut parent.value, change) {
        (Value::List(items), Change::Remove) => {
            items.remove(*last);
        }
        (Value::Map(entries), Change::Remove) => {
            entries.remove(*last);
        }
        (Value::List(items), Change::Alter) => items[*last] = altered(&items[*last]),
        (Value::Map(entries), Change::Alter) => entries[*last].1 = altered(&entries[*last].1),
        (
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_),
            Change::Remove | Change::Alter,
        ) => (),
    }
    changed
}

fn altered(node: &Node) -> Node {
    let value = match &node.value {
        Value::Bool(value) => Value::Bool(!value),
        Value::Int(value) => Value::Int(value.wrapping_add(1)),
        Value::Float(value) => Value::Float(value + 1.0),
        Value::String(text) => Value::String(format!("{text}x")),
        Value::Null => Value::String("x".to_owned()),
        Value::List(_) | Value::Map(_) => return node.clone(),
    };
    Node::new(value, node.span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoFiles;
    use crate::fields::{Field, Rest};
    use tombolo_model::app::AppSpec;

    /// A reader with every way to forget: one key taken and put nowhere, one looked at only for
    /// being there, one left over and never told.
    fn careless(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
        let mut app = App::new("x", AppSpec::default());
        for document in documents {
            let Some(mut fields) = Field::document(document).fields(reader) else { continue };
            app.metadata.name = fields.take("name").and_then(|field| field.text(reader));
            let _ = fields.take("taken").and_then(|field| field.text(reader));
            app.spec.stopped = fields.take("looked-at").is_some();
            if let Some(field) = fields.take("dropped") {
                field.dropped(reader, "an App has no place for it");
            }
        }
        vec![app]
    }

    fn careful(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
        for document in documents {
            let Some(fields) = Field::document(document).fields(reader) else { continue };
            fields.finish(Rest::Dropped("nothing is carried over"), reader);
        }
        Vec::new()
    }

    #[test]
    fn finds_the_reader_that_forgets() {
        let text =
            "name: a\ntaken: b\nlooked-at: true\nleft: {over: [1, 2]}\ndropped: {x: {y: 1}}\n";
        let found = forgotten_by(careless, text, Format::Native, &NoFiles);
        assert_eq!(found, ["taken", "looked-at", "left.over[0]", "left.over[1]"]);
        assert!(forgotten_by(careful, text, Format::Native, &NoFiles).is_empty());
    }
}
