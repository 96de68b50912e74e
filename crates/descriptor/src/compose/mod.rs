//! Compose files. Called through the table of formats.

use tombolo_model::App;
use tombolo_yaml::{Node, Span};

use crate::Diagnostic;
use crate::reader::Reader;

/// Reads the documents of one text.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let span = documents.first().map_or(Span::default(), |document| document.span);
    reader.diagnose(Diagnostic::error("not-read-yet", span, "compose files cannot be read yet"));
    Vec::new()
}
