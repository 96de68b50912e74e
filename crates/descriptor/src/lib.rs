//! Application descriptors, in every format that this field writes: text in, Apps out, together
//! with notes on all that an App cannot carry and errors that show the line. Called by the CLI
//! (`convert`, `validate`, `apply`), by the API for foreign kinds and by the facades.
//!
//! Pure: what a descriptor names by file is brought by the caller ([`Files`]). A format is a row in
//! [`FORMATS`] and a module that takes keys from [`fields::Fields`]; whatever a reader does not take
//! is told, so that nothing gets lost in silence. Start with [`read`] and `fields.rs`; to add a
//! format see `docs/how-to/add-a-format.md`.

mod beyond;
mod ceaml;
mod charity;
mod codeco;
mod complete;
mod compose;
mod detect;
mod diagnostic;
mod edgenet;
mod field;
mod fields;
pub mod foreign;
mod format;
mod icos;
mod kubernetes;
mod mentions;
mod native;
mod path;
mod quantity;
mod reader;
mod render;
mod report;
mod sample;
mod screen;
mod together;
mod tosca;
mod validated;
pub mod write;

use std::collections::BTreeMap;

use tombolo_model::App;
use tombolo_yaml::{Limits, Node};

pub use complete::forgotten;
pub use detect::detect;
pub use diagnostic::{Diagnostic, Note, NoteKind};
pub use format::Format;
pub use render::{Colour, render, render_notes};
pub use report::report;
pub use sample::sample;
pub use together::Together;
pub use tombolo_yaml::{Lines, Mend, Position, Severity, Span};

use reader::Reader;

/// A text and the name under which messages speak of it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// How a text is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The format, if it is not to be recognised.
    pub format: Option<Format>,
    /// Profiles of compose files whose services run as well.
    pub profiles: Vec<String>,
}

/// What became of a text.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The format, if it was told or recognised.
    pub format: Option<Format>,
    pub apps: Vec<App>,
    /// Other objects of the text: Secrets and ConfigMaps that the Apps refer to, other kinds.
    pub others: Vec<serde_json::Value>,
    /// What was read and cannot be carried over, was assumed or changed.
    pub notes: Vec<Note>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Reading {
    /// Whether the text cannot be used as it is.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// Contents of files that a descriptor names (`env_file`, secrets, configs).
pub trait Files {
    fn read(&self, path: &str) -> Option<String>;

    /// The name of the folder where the text itself lies: some formats name an App by it.
    fn folder(&self) -> Option<String> {
        None
    }

    /// What is in a folder beside the text.
    fn folder_at(&self, _path: &str) -> Option<Folder> {
        None
    }
}

/// What is in a folder beside a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// The texts of all files, by their paths within the folder.
    Texts(BTreeMap<String, String>),
    /// Why it cannot become part of an App.
    Unfit(String),
}

/// No files at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Option<String> {
        None
    }
}

impl Files for BTreeMap<String, String> {
    fn read(&self, path: &str) -> Option<String> {
        self.get(path).cloned()
    }

    fn folder_at(&self, path: &str) -> Option<Folder> {
        let path = format!("{}/", path.trim_end_matches('/'));
        let inside = self
            .iter()
            .filter_map(|(name, text)| Some((name.strip_prefix(&path)?.to_owned(), text.clone())));
        let texts: BTreeMap<String, String> = inside.collect();
        (!texts.is_empty()).then_some(Folder::Texts(texts))
    }
}

/// How a format is recognised and read.
pub(crate) struct FormatRow {
    pub(crate) format: Format,
    pub(crate) recognises: fn(&[Node]) -> bool,
    pub(crate) read: fn(&[Node], &mut Reader<'_>) -> Vec<App>,
}

/// Every format. The first that recognises the documents gets them: the particular ones come before
/// those that would take anything.
#[rustfmt::skip]
pub(crate) const FORMATS: &[FormatRow] = &[
    FormatRow { format: Format::Native, recognises: detect::native, read: native::read },
    FormatRow { format: Format::Codeco, recognises: detect::codeco, read: codeco::read },
    FormatRow { format: Format::CharityOrchestration, recognises: detect::charity_orchestration, read: charity::orchestration::read },
    FormatRow { format: Format::EdgeNet, recognises: detect::edgenet, read: edgenet::read },
    FormatRow { format: Format::CharityTosca, recognises: detect::charity_tosca, read: charity::tosca::read },
    FormatRow { format: Format::Ceaml, recognises: detect::ceaml, read: ceaml::read },
    FormatRow { format: Format::Icos, recognises: detect::icos, read: icos::read },
    FormatRow { format: Format::Compose, recognises: detect::compose, read: compose::read },
    FormatRow { format: Format::Kubernetes, recognises: detect::kubernetes, read: kubernetes::read },
];

/// Reads a text, in the given format or in the one that it is recognised as.
pub fn read(source: Source<'_>, format: Option<Format>, files: &dyn Files) -> Reading {
    let (documents, problems) = tombolo_yaml::documents(source.text, &Limits::default());
    let mut reader = Reader::new(source.name, files);
    let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    for problem in problems {
        reader.diagnose(problem.into());
    }
    read_parsed(source.text, documents, is_broken, format, reader)
}

/// Reads what was parsed; what is wrong with the text as such is told already.
pub(crate) fn read_parsed(
    text: &str,
    mut documents: Vec<Node>,
    is_broken: bool,
    format: Option<Format>,
    mut reader: Reader<'_>,
) -> Reading {
    let format = match format {
        Some(format) => Ok(format),
        None => detect(&documents),
    };
    let format = match format {
        Ok(format) => format,
        // A text that does not even parse has told what is wrong with it.
        Err(_) if is_broken && documents.is_empty() => return reader.finish(None, Vec::new()),
        Err(diagnostic) => {
            reader.diagnose(*diagnostic);
            return reader.finish(None, Vec::new());
        }
    };
    detect::tell_strangers(&mut documents, format, &mut reader);
    let mut reading = read_documents(&documents, format, reader);
    // Where the kind is wrong, the quotes may be what is wrong.
    let right_kind = reading.diagnostics.iter_mut().filter(|found| found.code != "wrong-kind");
    for mend in right_kind.filter_map(|found| found.mend.as_mut()) {
        keep_quotes(text, mend);
    }
    reading
}

/// A word in quotes is replaced by one in quotes: in JSON it must have them.
fn keep_quotes(text: &str, mend: &mut Mend) {
    let quoted = text.get(mend.span.range()).and_then(|found| {
        let quote = found.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        (found.len() > 1 && found.ends_with(quote)).then_some(quote)
    });
    if let Some(quote) = quoted
        && !mend.replacement.contains(['"', '\'', '\\'])
    {
        mend.replacement = format!("{quote}{}{quote}", mend.replacement);
    }
}

/// The reading of documents that are a tree already.
fn read_documents(documents: &[Node], format: Format, mut reader: Reader<'_>) -> Reading {
    let row = FORMATS.iter().find(|row| row.format == format);
    let apps = match row {
        Some(row) => (row.read)(documents, &mut reader),
        None => Vec::new(),
    };
    if format != Format::Native {
        for (index, app) in apps.iter().enumerate() {
            validated::check(index, app, &mut reader);
        }
    }
    reader.finish(Some(format), apps)
}
