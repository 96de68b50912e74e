//! The ICOS application descriptor, in all its dialects: a header with components, and manifests
//! beside it (in documents of their own, in a list with names, or as they are in a list). Called
//! through the table of formats. Start with [`read`]; a component is put together in `component`.

mod component;
mod condition;
mod links;
mod manifests;
mod policies;
mod requirements;

use tombolo_model::app::{AppSpec, Weights};
use tombolo_model::{App, suggest};
use tombolo_yaml::{Node, Span};

use crate::detect::is_icos_header;
use crate::fields::{Field, Fields, Rest};
use crate::path::{Path, shown};
use crate::reader::Reader;
use component::Read;
use manifests::Manifests;
use policies::Policies;

const KNOWN: &[&str] = &[
    "name",
    "description",
    "namespace",
    "homogeneous",
    "components",
    "dependencies",
    "policies",
    "requirements",
    "manifests",
];

/// As many as an App can have.
const COMPONENTS_MAX: usize = 512;
/// Entries of a component's lists: as many as an App takes of any of them, or more. What is held
/// against each other must be few, or a long text would keep us busy without end.
const ENTRIES_MAX: usize = 256;

/// Reads the documents of one text: a header, and Kubernetes or compose documents beside it.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let mut header = None;
    let mut beside = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let place = Span::new(document.span.start, document.span.start);
        let key_span = document.as_map().and_then(<[_]>::first).map_or(place, |(key, _)| key.span);
        let field = Field { node: document, path: Path::root().index(index), key_span };
        match is_icos_header(document) {
            true if header.is_none() => header = Some(document),
            true => {
                let message = "a second header stands in the same text";
                reader
                    .error("second-header", &field.path, key_span, message)
                    .expecting("one application in each text");
            }
            false if manifests::is_object(document) => beside.push(field),
            false => stray(&field, documents.len(), reader),
        }
    }
    header.and_then(|header| read_app(header, &beside, reader)).into_iter().collect()
}

/// A document that is nothing we know. When it is the only one, its components are missing.
fn stray(field: &Field<'_>, documents: usize, reader: &mut Reader<'_>) {
    if documents == 1 {
        reader
            .error("missing-field", &Path::root(), field.key_span, "\"components\" is missing")
            .expecting("the header of an ICOS descriptor, with name and components");
        return;
    }
    let message = "this document is neither a manifest nor part of the header";
    reader.error("stray-document", &field.path, field.key_span, message).expecting(
        "a Kubernetes object or a compose project; the header is one document, without \"---\" or \
         \"...\" in it",
    );
}

fn read_app(header: &Node, beside: &[Field<'_>], reader: &mut Reader<'_>) -> Option<App> {
    let mut fields = Field::document(header).fields(reader)?;
    let mut app = App::new("", AppSpec::default());
    app.metadata.name = None;
    read_head(&mut fields, &mut app, reader);

    let mut manifests = Manifests::read(fields.take("manifests"), beside, reader);
    let whole = fields.take("requirements");
    let dependencies = fields.take("dependencies");
    let policies = fields.take("policies");

    let mut components: Vec<Read<'_>> = Vec::new();
    let listed = fields.need("components", reader, "a list of components");
    let entries = match &listed {
        Some(field) => field.at_most(field.list(reader), COMPONENTS_MAX, reader),
        None => Vec::new(),
    };
    for entry in entries {
        let number = components.len();
        let read = component::read(&entry, number, whole.as_ref(), &mut manifests, reader);
        components.extend(read);
    }
    if let Some(listed) = &listed {
        reader.origin("spec.components", listed.key_span);
    }
    links::connect(&mut components, dependencies.as_ref(), reader);
    manifests.tell_unused(reader);

    let mut all = Policies::new(&components);
    for read in &components {
        if let Some(field) = &read.policies {
            all.read(field, Some(&read.component.name), reader);
        }
    }
    if let Some(field) = &policies {
        all.read(field, None, reader);
    }
    fields.finish(Rest::Foreign { known: KNOWN, dropped: DROPPED }, reader);

    app.spec.components = components.into_iter().map(|read| read.component).collect();
    all.apply(&mut app.spec);
    Some(app)
}

/// Keys that were proposed for ICOS at some time and that an App has no word for.
const DROPPED: &[(&str, &str)] = &[
    ("version", "an App has no version of its own"),
    ("telemetry", "what is scraped is said by the annotations of the workload"),
];

fn read_head(fields: &mut Fields<'_>, app: &mut App, reader: &mut Reader<'_>) {
    if let Some(field) = fields.need("name", reader, "the name of the application") {
        app.metadata.name = field.object_name(reader);
        field.origin(reader, "metadata.name");
    }
    if let Some(field) = fields.take("description") {
        app.spec.description = field.text(reader);
        field.origin(reader, "spec.description");
    }
    if let Some(field) = fields.take("namespace") {
        app.metadata.namespace = field.label(reader);
        field.origin(reader, "metadata.namespace");
    }
    if let Some(field) = fields.take("homogeneous") {
        app.spec.homogeneous = field.boolean(reader).unwrap_or_default();
    }
}

/// The weights of an App, each once.
fn set_weight(weights: &mut Weights, key: &str, value: f64) {
    let slot = match key {
        "performance" => &mut weights.performance,
        "energy" | "energyconsumption" | "energyConsumption" => &mut weights.energy,
        "security" => &mut weights.security,
        "cost" => &mut weights.cost,
        "resilience" => &mut weights.resilience,
        _ => &mut weights.latency,
    };
    *slot = Some(value);
}

/// The error that a name means nothing, with the nearest that does, which is returned. What is not
/// told has none.
fn unknown_name<'n>(
    field: &Field<'_>,
    reader: &mut Reader<'_>,
    code: &'static str,
    what: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> Option<&'n str> {
    let name = field.str(reader)?;
    let message = format!("no {what} is named {}", shown(name));
    let diagnostic = field.error(reader, code, message);
    if known.clone().next().is_some() {
        diagnostic.expecting(suggest::one_of(known.clone().take(16)));
    }
    let meant = diagnostic.nearest(name, known)?;
    diagnostic.mended_by(field.node.span, meant);
    Some(meant)
}
