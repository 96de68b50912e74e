//! CODECO's CodecoApp, in its current shape, the older one of D11 and with the attributes of the
//! annex. Called through the table of formats. Services are in `service.rs`, the channels between
//! them in `channel.rs`, the classes in `words.rs`.

mod channel;
mod seconds;
mod service;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::component::{Component, Expose, Protocol};
use tombolo_model::{App, AppSpec, Level};
use tombolo_yaml::Node;

use crate::fields::{Field, Fields, Rest};
use crate::foreign::head::Head;
use crate::reader::{Reader, dashed};
use crate::tosca::COMPONENTS_MAX;

/// On an App: the name of the application where CODECO has two and we one.
const ANNOTATION_NAME: &str = "codeco.he-codeco.eu/app-name";

const SPEC: &[&str] = &[
    "appName",
    "qosClass",
    "securityClass",
    "complianceClass",
    "appEnergyLimit",
    "appFailureTolerance",
    "performanceProfile",
    "codecoapp-msspec",
];

/// Attributes of the annex that an App has no place for.
const SPEC_DROPPED: &[(&str, &str)] = &[
    ("userid", "who may do what is decided by the users of the API"),
    ("usergroup", "who may do what is decided by the users of the API"),
    ("cpu", "a share of a machine that is not named; give each service its own cpu"),
    ("mem", "memory is asked for by each service"),
    ("Output_data_size", "how much data comes out has no influence on the place"),
    ("output_data_size", "how much data comes out has no influence on the place"),
];

/// Nothing measures compliance, so without a word of a person no node has any.
const NEEDS_SCORE: &str = "only nodes with a compliance score this high will do; nothing measures it, a \
                           person gives it (docs/formats/codeco.md says how)";

/// As many as a component may have.
const EXPOSED_MAX: usize = 64;

/// The names that channels use, and what they are called here.
#[derive(Debug)]
struct Names<'a> {
    /// The application's own name, by which its channels call it.
    own: Option<&'a str>,
    /// Names of applications of the same text → names of their Apps.
    apps: &'a BTreeMap<String, String>,
    /// Names of services → names of components.
    components: BTreeMap<&'a str, String>,
}

/// What the whole application asks of the nodes of each of its services.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    security: Option<Level>,
    compliance: Option<Level>,
}

/// Reads the documents of one text.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let apps = app_names(documents);
    let pods = service::named_pods(documents);
    let mut read = Vec::new();
    for document in documents {
        reader.begin_app(read.len());
        match document.get("kind").and_then(Node::as_str) {
            Some("CodecoApp") | None => read.extend(app(document, &apps, &pods, reader)),
            Some(kind) => service::other_document(document, kind, &pods, reader),
        }
    }
    read
}

/// What channels call each application of the text, and the name of its App.
fn app_names(documents: &[Node]) -> BTreeMap<String, String> {
    let names = documents.iter().filter_map(|document| {
        let name = document.at(&["metadata", "name"])?.as_str()?;
        let spec = document.get("spec")?;
        let called = spec.get("appName").or_else(|| spec.get("name"))?.as_str()?;
        let name = match tombolo_model::names::subdomain(name) {
            Ok(()) => name.to_owned(),
            Err(_) => dashed(name),
        };
        Some((called.to_owned(), name))
    });
    names.collect()
}

fn app(
    document: &Node,
    apps: &BTreeMap<String, String>,
    pods: &service::Pods<'_>,
    reader: &mut Reader<'_>,
) -> Option<App> {
    let mut fields = Field::document(document).fields(reader)?;
    let mut head = Head::take(&mut fields, "codeco.he-codeco.eu/v1alpha1", "CodecoApp", reader);
    let spec = fields.need("spec", reader, "the application, as CODECO describes it");
    fields.finish(
        Rest::Foreign { known: &["apiVersion", "kind", "metadata", "spec"], dropped: &[] },
        reader,
    );
    let spec = spec?;
    let mut fields = spec.fields(reader)?;
    let called = fields.take_any(&["appName", "name"]);
    let called_text =
        called.as_ref().and_then(|field| field.str(reader)).filter(|name| !name.is_empty());
    let name = match (&head.name, &called) {
        (Some(name), _) => name.object_name(reader)?,
        (None, Some(called)) => called.object_name(reader)?,
        (None, None) => {
            spec.error(reader, "missing-field", "the application has no name")
                .expecting("metadata.name");
            return None;
        }
    };
    if let (Some(field), Some(text)) = (&called, called_text)
        && text != name
    {
        field.changed(
            reader,
            &format!(
                "the App is named {name:?}; this name is kept as the annotation {ANNOTATION_NAME}"
            ),
        );
        head.annotate(ANNOTATION_NAME, text);
    }
    reader.origin("metadata", document.span);
    let spec = app_spec(fields, called_text, apps, pods, reader);
    Some(head.app(&name, spec))
}

fn app_spec<'a>(
    mut fields: Fields<'a>,
    own: Option<&'a str>,
    apps: &'a BTreeMap<String, String>,
    pods: &service::Pods<'a>,
    reader: &mut Reader<'_>,
) -> AppSpec {
    let mut spec = AppSpec::default();
    if let Some(field) = fields.take_any(&["qosClass", "qosclass", "QoS", "qos"]) {
        spec.qos = words::qos(&field, reader);
    }
    let mut floor = Floor::default();
    if let Some(field) = fields.take_any(&["securityClass", "securityclass", "security_level"]) {
        floor.security = words::security(&field, reader);
    }
    if let Some(field) =
        fields.take_any(&["complianceClass", "complianceclass", "compliance_level"])
    {
        floor.compliance = words::compliance(&field, reader);
        if floor.compliance.is_some() {
            field.assumed(reader, NEEDS_SCORE);
        }
    }
    if let Some(field) =
        fields.take_any(&["appEnergyLimit", "appenergylimit", "energy_expenditure"])
    {
        spec.energy_limit = words::percent(&field, reader);
    }
    if let Some(field) =
        fields.take_any(&["appFailureTolerance", "appfailuretolerance", "failure_tolerance"])
    {
        spec.failure_tolerance = words::tolerance(&field, reader);
    }
    if let Some(field) = fields.take_any(&["performanceProfile", "performanceprofile"]) {
        spec.profile = words::profile(&field, reader);
    }
    let input = fields.take_any(&["Input_data_size", "input_data_size"]);
    match fields.take("codecoapp-msspec") {
        Some(services) => {
            reader.origin("spec.components", services.key_span);
            spec.components = components(&services, floor, own, apps, pods, reader);
        }
        None => {
            fields.missing(reader, "codecoapp-msspec", "the list of services, at least one");
        }
    }
    if let Some(input) = input {
        service::input(&input, &mut spec.components, reader);
    }
    fields.finish(Rest::Foreign { known: SPEC, dropped: SPEC_DROPPED }, reader);
    spec
}

fn components<'a>(
    services: &Field<'a>,
    floor: Floor,
    own: Option<&'a str>,
    apps: &'a BTreeMap<String, String>,
    pods: &service::Pods<'a>,
    reader: &mut Reader<'_>,
) -> Vec<Component> {
    let services = services.list(reader);
    let names = Names { own, apps, components: service_names(&services) };
    let mut components = Vec::new();
    for service in &services {
        if components.len() == COMPONENTS_MAX {
            let message = format!("an App has {COMPONENTS_MAX} components at most");
            service.error(reader, "too-many", message);
            break;
        }
        components.extend(service::read(service, components.len(), floor, &names, pods, reader));
    }
    expose_called(&mut components);
    components
}

/// Channels name services as they are written; the components that they become may be named
/// otherwise.
fn service_names<'a>(services: &[Field<'a>]) -> BTreeMap<&'a str, String> {
    let written = services.iter().filter_map(|service| {
        let name = service.node.get("serviceName").or_else(|| service.node.get("name"))?;
        name.raw()
    });
    written.map(|name| (name, component_name(name))).collect()
}

fn component_name(written: &str) -> String {
    match tombolo_model::names::label(written) {
        Ok(()) => written.to_owned(),
        Err(_) => dashed(written),
    }
}

/// A port that a channel leads to must be reachable, whether its container lists it or not.
fn expose_called(components: &mut [Component]) {
    let mut called: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    for connection in components.iter().flat_map(|component| &component.connects) {
        if let (None, Some(port)) = (&connection.app, connection.port) {
            called.entry(connection.to.clone()).or_default().insert(port);
        }
    }
    for component in components {
        for port in called.get(&component.name).into_iter().flatten() {
            // One too many is enough for the model to tell.
            if component.expose.len() > EXPOSED_MAX {
                break;
            }
            if !component.expose.iter().any(|expose| expose.port == *port) {
                let expose = Expose { port: *port, protocol: Protocol::Tcp, ..Expose::default() };
                component.expose.push(expose);
            }
        }
    }
}

impl Names<'_> {
    fn component(&self, service: &str) -> String {
        self.components.get(service).cloned().unwrap_or_else(|| component_name(service))
    }

    fn is_own(&self, application: &str) -> bool {
        self.own == Some(application)
    }
}
