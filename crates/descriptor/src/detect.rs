//! Which format a text is in. The rules look at a few keys only: a text with mistakes in it must
//! still be recognised, or nobody could say what the mistakes are.

use tombolo_yaml::{Node, Span};

use crate::reader::Reader;
use crate::{Diagnostic, FORMATS, Format};

/// The format of the documents of one text.
pub fn detect(documents: &[Node]) -> Result<Format, Box<Diagnostic>> {
    let found = FORMATS.iter().find(|row| (row.recognises)(documents));
    found.map(|row| row.format).ok_or_else(|| Box::new(unknown(documents)))
}

/// A format that people have beside those that are read here.
struct Stranger {
    is: fn(&Node) -> bool,
    what: &'static str,
    way_out: &'static str,
}

const STRANGERS: &[Stranger] = &[
    Stranger {
        is: is_open_api,
        what: "an OpenAPI document",
        way_out: "the descriptor of an application; this text describes the requests of an API",
    },
    Stranger {
        is: is_kustomization,
        what: "a kustomization",
        way_out: "what it renders: \"kubectl kustomize FOLDER\" writes that",
    },
    Stranger {
        is: is_chart,
        what: "the head of a Helm chart",
        way_out: "what it renders: \"helm template FOLDER\" writes that",
    },
];

fn is_open_api(document: &Node) -> bool {
    let is_version = |key: &str| document.get(key).is_some_and(|version| version.raw().is_some());
    (is_version("openapi") || is_version("swagger")) && document.get("info").is_some()
}

fn is_kustomization(document: &Node) -> bool {
    let lists = ["resources", "bases", "patches", "patchesStrategicMerge", "configMapGenerator"];
    match document.get("kind").and_then(Node::as_str) {
        Some(kind) => kind == "Kustomization",
        None => {
            document.get("apiVersion").is_none()
                && lists.iter().filter_map(|key| document.get(key)).any(|it| it.as_list().is_some())
        }
    }
}

fn is_chart(document: &Node) -> bool {
    let texts = ["apiVersion", "name", "version"];
    document.get("kind").is_none()
        && texts.iter().all(|key| document.get(key).is_some_and(|text| text.raw().is_some()))
}

fn unknown(documents: &[Node]) -> Diagnostic {
    let Some(first) = documents.first() else {
        return Diagnostic::error("empty", Span::default(), "there is nothing in this text");
    };
    let known = STRANGERS.iter().find(|stranger| (stranger.is)(first));
    if let Some(Stranger { what, way_out, .. }) = known {
        let message = format!("this is {what}, which does not describe an application");
        let mut diagnostic = Diagnostic::error("unknown-format", beginning(first), &message);
        diagnostic.expecting(*way_out);
        return diagnostic;
    }
    let message = "the format of this text is not recognised";
    let mut diagnostic = Diagnostic::error("unknown-format", beginning(first), message);
    diagnostic.expecting(
        "\"apiVersion\" and \"kind\" (native, codeco, charity-orchestration, edgenet, kubernetes), \
         \"components\" (icos), \"services\" (compose) or \"tosca_definitions_version\" \
         (charity-tosca, ceaml); or name the format",
    );
    diagnostic
}

/// Takes out the documents that are of another format than the text, and tells each: a reader would
/// find fault with all that is in them. Our own format and Kubernetes take objects of any kind.
pub(crate) fn tell_strangers(documents: &mut Vec<Node>, format: Format, reader: &mut Reader<'_>) {
    let alone = |document: &Node| detect(std::slice::from_ref(document)).ok();
    let takes_any = matches!(format, Format::Native | Format::Kubernetes);
    if takes_any || !documents.iter().any(|document| alone(document) == Some(format)) {
        return;
    }
    documents.retain(|document| {
        let Some(found) = alone(document).filter(|found| !goes_with(*found, format)) else {
            return true;
        };
        let message = format!("this document is {found}, and the text is read as {format}");
        reader
            .diagnose(Diagnostic::error("mixed-formats", beginning(document), message))
            .expecting("documents of one format; give this one a file of its own");
        false
    });
}

/// Whether a document that is of one format by itself may stand in a text of another.
fn goes_with(document: Format, text: Format) -> bool {
    match (document, text) {
        (document, text) if document == text => true,
        // Workloads, Services, Secrets beside what refers to them.
        (Format::Kubernetes, _) => true,
        (Format::Compose, Format::Icos) => true,
        // Definitions of types.
        (Format::Ceaml, Format::CharityTosca) => true,
        (_, _) => false,
    }
}

/// Where a document begins, for people.
fn beginning(document: &Node) -> Span {
    match document.as_map().and_then(|entries| entries.first()) {
        Some((key, _)) => key.span,
        None => document.span,
    }
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
    document.get("kind").is_none() && document.get("components").is_some() && !is_open_api(document)
}

pub(crate) fn compose(documents: &[Node]) -> bool {
    documents
        .first()
        .is_some_and(|first| first.get("services").is_some() && first.get("kind").is_none())
}

pub(crate) fn kubernetes(documents: &[Node]) -> bool {
    let is_object =
        |document: &Node| document.get("apiVersion").is_some() && document.get("kind").is_some();
    documents.iter().any(|document| is_object(document) && !is_kustomization(document))
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
