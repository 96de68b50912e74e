//! Which format a text is in. The rules look at a few keys only: a text with mistakes in it must
//! still be recognised, or nobody could say what the mistakes are.

use tombolo_yaml::{Node, Span};

use crate::{Diagnostic, FORMATS, Format};

/// The format of the documents of one text.
pub fn detect(documents: &[Node]) -> Result<Format, Box<Diagnostic>> {
    let found = FORMATS.iter().find(|row| (row.recognises)(documents));
    found.map(|row| row.format).ok_or_else(|| Box::new(unknown(documents)))
}

fn unknown(documents: &[Node]) -> Diagnostic {
    let Some(first) = documents.first() else {
        return Diagnostic::error("empty", Span::default(), "there is nothing in this text");
    };
    let span = match first.as_map().and_then(|entries| entries.first()) {
        Some((key, _)) => key.span,
        None => first.span,
    };
    let mut diagnostic =
        Diagnostic::error("unknown-format", span, "the format of this text is not recognised");
    diagnostic.expecting(
        "\"apiVersion\" and \"kind\" (native, codeco, charity-orchestration, edgenet, kubernetes), \
         \"components\" (icos), \"services\" (compose) or \"tosca_definitions_version\" \
         (charity-tosca, ceaml); or name the format",
    );
    diagnostic
}

pub(crate) fn native(documents: &[Node]) -> bool {
    any_of_group(documents, "tombolo.dev")
}

pub(crate) fn codeco(documents: &[Node]) -> bool {
    any_of_group(documents, "codeco.he-codeco.eu") || any_of_kind(documents, "CodecoApp")
}

pub(crate) fn charity_orchestration(documents: &[Node]) -> bool {
    any_of_group(documents, "charity-project.eu") || any_of_kind(documents, "LowLevelOrchestration")
}

pub(crate) fn edgenet(documents: &[Node]) -> bool {
    any_of_kind(documents, "SelectiveDeployment")
}

pub(crate) fn charity_tosca(documents: &[Node]) -> bool {
    is_tosca(documents) && template_types(documents).any(|name| name.starts_with("Charity."))
}

pub(crate) fn ceaml(documents: &[Node]) -> bool {
    is_tosca(documents)
}

/// A header with components. It may come after Kubernetes documents, so all are looked at.
pub(crate) fn icos(documents: &[Node]) -> bool {
    documents.iter().any(is_icos_header)
}

pub(crate) fn is_icos_header(document: &Node) -> bool {
    document.get("kind").is_none() && document.get("components").is_some()
}

pub(crate) fn compose(documents: &[Node]) -> bool {
    documents
        .first()
        .is_some_and(|first| first.get("services").is_some() && first.get("kind").is_none())
}

pub(crate) fn kubernetes(documents: &[Node]) -> bool {
    documents
        .iter()
        .any(|document| document.get("apiVersion").is_some() && document.get("kind").is_some())
}

fn is_tosca(documents: &[Node]) -> bool {
    let keys = ["tosca_definitions_version", "topology_template"];
    documents.iter().any(|document| keys.iter().any(|key| document.get(key).is_some()))
}

fn template_types(documents: &[Node]) -> impl Iterator<Item = &str> {
    let templates = documents
        .iter()
        .filter_map(|document| document.at(&["topology_template", "node_templates"]))
        .filter_map(Node::as_map);
    templates.flatten().filter_map(|(_, template)| template.get("type").and_then(Node::as_str))
}

fn any_of_group(documents: &[Node], group: &str) -> bool {
    let versions = documents.iter().filter_map(|document| document.get("apiVersion"));
    versions
        .filter_map(Node::as_str)
        .any(|version| version.strip_prefix(group).is_some_and(|rest| rest.starts_with('/')))
}

fn any_of_kind(documents: &[Node], kind: &str) -> bool {
    let kinds = documents.iter().filter_map(|document| document.get("kind"));
    kinds.filter_map(Node::as_str).any(|found| found == kind)
}
