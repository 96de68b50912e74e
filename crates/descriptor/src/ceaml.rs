//! ACCORDION's application models in CEAML, versions 1 and 2: components and the hosts that they ask
//! for (`host.rs`), and the platform's workflows as policies (`workflow.rs`). Called through the
//! table of formats.

mod condition;
mod host;
mod workflow;

use std::collections::BTreeMap;

use tombolo_model::component::{Component, Connection, Expose, Protocol};
use tombolo_model::needs::Needs;
use tombolo_model::run::{Container, Run};
use tombolo_model::{App, AppSpec};
use tombolo_yaml::{Node, Span};

use crate::Diagnostic;
use crate::fields::{Field, Fields, Rest};
use crate::path::shown;
use crate::reader::{Reader, dashed};
use crate::tosca::host::Hosts;
use crate::tosca::{
    COMPONENTS_MAX, NODE_DROPPED, NodeTemplate, Template, geolocation, requirements,
};

const COMPONENT: &str = "Component";
const PLATFORM: &str = "Platform";
const KINDS: &[&str] =
    &[COMPONENT, PLATFORM, host::EDGE, host::CLOUD, host::CLUSTER, host::COMPUTE];

const PROPERTIES: &[&str] = &[
    "registry",
    "name",
    "application",
    "external_ip",
    "instance",
    "deployment_unit",
    "storage_type",
    "ports",
    "dependency",
];
const PROPERTIES_DROPPED: &[(&str, &str)] = &[
    ("flavor", "a container asks for processor and memory instead"),
    // It names an input that need not have a value, so it is told and not looked up.
    ("ip", "an address is known once it runs"),
];
const UNITS: &[(&str, Unit)] = &[("container", Unit::Container), ("vm", Unit::Machine)];
const STORAGES: &[(&str, Storage)] = &[
    ("none", Storage::Passing),
    ("ephemeral", Storage::Passing),
    ("persistent", Storage::Lasting),
];
const REGISTRIES: &[(&str, Registry)] =
    &[("public", Registry::Public), ("private", Registry::Private)];
const PROTOCOLS: &[(&str, Protocol)] = &[("TCP", Protocol::Tcp), ("UDP", Protocol::Udp)];

/// As many as a component may have.
const PORTS_MAX: usize = 64;

/// What a component is run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Container,
    Machine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// As any container has it.
    Passing,
    Lasting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registry {
    Public,
    Private,
}

/// Who is who: known before anything is read, because components speak of each other.
#[derive(Debug, Default)]
struct Survey<'a> {
    /// The applications, in the order of the text.
    apps: Vec<&'a str>,
    components: Vec<Known<'a>>,
    /// Places in `components`, by the names that others call them: of the template, their own, and
    /// the template's whatever its case.
    by_key: BTreeMap<&'a str, usize>,
    by_name: BTreeMap<&'a str, usize>,
    by_plain_key: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Known<'a> {
    /// The name of the node template.
    key: &'a str,
    /// Its name in the App.
    name: String,
    span: Span,
    /// The number of its application.
    app: usize,
    /// Its number within the application.
    index: usize,
}

/// Reads the documents of one text.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    if let Some((key, span)) = documents.iter().find_map(newer) {
        let message = format!("this is a model of CEAML 3 (it has {key:?}), which is not read");
        let mut told = Diagnostic::error("unsupported-version", span, message);
        told.expecting(
            "a model of CEAML 1 or 2: \"dependency\" in each component, and no queues; or the App \
             itself, see `tombolo explain app`",
        );
        reader.diagnose(told);
        return Vec::new();
    }
    let Some(template) = Template::read(documents, reader) else { return Vec::new() };
    tell_machines(&template, reader);
    for node in &template.nodes {
        if !KINDS.contains(&node.kind) {
            node.unknown_kind(KINDS, reader);
        }
    }
    let survey = survey(&template);
    for (field, what) in [
        (&template.author, "an App has no author"),
        (&template.version, "an App counts its versions itself"),
        (&template.name, "the App is named after its application"),
    ] {
        if let Some(field) = field {
            field.dropped(reader, what);
        }
    }
    let mut specs = vec![AppSpec::default(); survey.apps.len()];
    for spec in &mut specs {
        let Some(description) = &template.description else { break };
        if template.field.may_copy(description.len(), reader) {
            spec.description = Some(description.clone());
        }
    }
    let mut hosts = Hosts::new();
    let mut components = survey.components.iter().take(COMPONENTS_MAX);
    for node in template.nodes.iter().filter(|node| node.kind == COMPONENT) {
        if is_machine(node) {
            node.field.dropped(reader, "virtual machines cannot be run");
        } else if let Some(known) = components.next() {
            reader.begin_app(known.app);
            let component = read_component(node, known, &template, &mut hosts, &survey, reader);
            specs[known.app].components.extend(component);
        }
    }
    if let Some(known) = survey.components.get(COMPONENTS_MAX) {
        let message = format!("a model has {COMPONENTS_MAX} components at most");
        template.field.error(reader, "too-many", message).see(known.span, "from here on");
    }
    host::tell_unused(&template, reader);
    for node in template.nodes.iter().filter(|node| node.kind == PLATFORM) {
        workflow::platform(node, &survey, &template, &mut specs, reader);
    }
    if specs.is_empty() && !reader.has_told("unsupported-unit") {
        let what = "the model has no component that could run";
        template.field.error(reader, "no-app", what).expecting("a node template of type Component");
    }
    let names = survey.apps.iter().map(|name| app_name(name));
    names.zip(specs).map(|(name, spec)| App::new(&name, spec)).collect()
}

fn survey<'a>(template: &Template<'a>) -> Survey<'a> {
    let property = |node: &NodeTemplate<'a>, key: &str| -> Option<&'a str> {
        node.field.node.at(&["properties", key])?.as_str()
    };
    let platforms = template.nodes.iter().filter(|node| node.kind == PLATFORM);
    let named = template.name.as_ref().and_then(|name| name.node.as_str());
    let default = platforms.filter_map(|node| property(node, "application")).next().or(named);
    let mut survey = Survey::default();
    let mut apps: BTreeMap<String, usize> = BTreeMap::new();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let components =
        template.nodes.iter().filter(|node| node.kind == COMPONENT && !is_machine(node));
    // One more than there may be, so that it can be told.
    for node in components.take(COMPONENTS_MAX + 1) {
        let application = property(node, "application").or(default).unwrap_or("app");
        let app = *apps.entry(app_name(application)).or_insert(survey.apps.len());
        if app == survey.apps.len() {
            survey.apps.push(application);
        }
        let written = property(node, "name").unwrap_or(&node.key.text);
        let index = counts.entry(app).or_default();
        let place = survey.components.len();
        survey.by_key.insert(&node.key.text, place);
        survey.by_name.entry(written).or_insert(place);
        survey.by_plain_key.entry(node.key.text.to_lowercase()).or_insert(place);
        survey.components.push(Known {
            key: &node.key.text,
            span: node.key.span,
            name: component_name(written),
            app,
            index: *index,
        });
        *index += 1;
    }
    survey
}

fn app_name(written: &str) -> String {
    match tombolo_model::names::subdomain(written) {
        Ok(()) => written.to_owned(),
        Err(_) => dashed(written),
    }
}

fn component_name(written: &str) -> String {
    match tombolo_model::names::label(written) {
        Ok(()) => written.to_owned(),
        Err(_) => dashed(written),
    }
}

fn is_machine(node: &NodeTemplate<'_>) -> bool {
    let unit = node.field.node.at(&["properties", "deployment_unit"]).and_then(Node::as_str);
    unit.is_some_and(|unit| unit.eq_ignore_ascii_case("vm"))
}

/// All that are virtual machines, at once: an error where nothing else is there.
fn tell_machines(template: &Template<'_>, reader: &mut Reader<'_>) {
    let components = || template.nodes.iter().filter(|node| node.kind == COMPONENT);
    let machines: Vec<&NodeTemplate<'_>> = components().filter(|node| is_machine(node)).collect();
    let Some(first) = machines.first() else { return };
    let names: Vec<String> = machines.iter().map(|node| shown(&node.key.text)).collect();
    let (path, span) = (&first.field.path, first.key.span);
    let message = match names.as_slice() {
        [one] => format!("{one} is a virtual machine, and those cannot be run"),
        several => format!("virtual machines cannot be run: {}", several.join(", ")),
    };
    let told = match machines.len() == components().count() {
        true => reader.error("unsupported-unit", path, span, message),
        false => reader.warning("unsupported-unit", path, span, message),
    };
    told.expecting("deployment_unit: container, with a container image");
}

/// What a document says that came with the third version.
fn newer(document: &Node) -> Option<(&str, Span)> {
    let templates = document.at(&["topology_template", "node_templates"])?.as_map()?;
    let properties = templates.iter().filter_map(|(_, node)| node.get("properties"));
    let newer = |properties: &'_ Node| -> Option<(&'static str, Span)> {
        let key = ["queues", "dependencies"].into_iter();
        key.filter_map(|key| Some((key, properties.entry(key)?.0.span))).next()
    };
    properties.filter_map(newer).next()
}

fn read_component<'t, 'a>(
    node: &NodeTemplate<'a>,
    known: &Known<'a>,
    template: &'t Template<'a>,
    hosts: &mut Hosts<'t>,
    survey: &Survey<'a>,
    reader: &mut Reader<'_>,
) -> Option<Component> {
    let path = format!("spec.components[{}]", known.index);
    reader.origin("metadata", node.field.node.span);
    reader.origin("spec", node.field.node.span);
    reader.origin(&path, node.field.node.span);
    reader.origin(format!("{path}.name"), node.key.span);
    let mut fields = node.fields(reader)?;
    let properties = fields.need("properties", reader, "what the component is");
    let required = requirements(fields.take("requirements"), reader);
    let rest = Rest::Foreign { known: &["properties", "requirements"], dropped: NODE_DROPPED };
    fields.finish(rest, reader);
    let mut component = Component { name: known.name.clone(), ..Component::default() };
    let mut needs = Needs::default();
    read_properties(properties?.fields(reader)?, known, survey, template, &mut component, reader);
    for requirement in &required {
        host::read(requirement, template, hosts, &mut component, &mut needs, reader);
    }
    geolocation::spread(&mut component);
    component.needs = (needs != Needs::default()).then_some(needs);
    Some(component)
}

fn read_properties<'a>(
    mut fields: Fields<'a>,
    known: &Known<'a>,
    survey: &Survey<'a>,
    template: &Template<'a>,
    component: &mut Component,
    reader: &mut Reader<'_>,
) {
    // The notes on altered names come with reading them; the names are known already.
    let _ = fields.take("name").map(|name| name.label(reader));
    let _ = fields.take("application").map(|application| application.object_name(reader));
    let mut container = Container::default();
    match fields.take("registry") {
        Some(registry) => read_registry(&registry, &mut container, reader),
        None => {
            fields.missing(reader, "registry", "{properties: {image: IMAGE}}");
        }
    }
    if let Some(unit) = fields.take("deployment_unit")
        && unit.one_of(reader, UNITS).is_some()
    {
        unit.changed(reader, "a container runs on any engine that runs one");
    }
    if let Some(instance) = fields.take("instance") {
        component.replicas = instance.count(reader, 10_000);
    }
    if let Some(every) = fields.take("daemon_set")
        && every.boolean(reader) == Some(true)
    {
        let why = "one instance on every node cannot be asked for; use replicas or onEach";
        every.dropped(reader, why);
    }
    if let Some(storage) = fields.take("storage_type") {
        match storage.one_of(reader, STORAGES) {
            Some(Storage::Lasting) => {
                storage.changed(reader, "it is stateful; where its volume appears is not said");
                component.stateful = true;
            }
            // Any container has storage that goes when it goes.
            Some(Storage::Passing) | None => (),
        }
    }
    let public = fields.take("external_ip");
    let ports = fields.take("ports");
    read_ports(public.as_ref(), ports.as_ref(), component, &mut container, reader);
    let dependencies = fields.take("dependency").map(|list| list.list(reader)).unwrap_or_default();
    for dependency in &dependencies {
        let index = component.connects.len();
        reader.origin(
            format!("spec.components[{}].connects[{index}]", known.index),
            dependency.node.span,
        );
        component.connects.extend(read_dependency(dependency, known, survey, template, reader));
    }
    fields.finish(Rest::Foreign { known: PROPERTIES, dropped: PROPERTIES_DROPPED }, reader);
    component.run = vec![Run { container: Some(container), ..Run::default() }];
}

/// `registry: {properties: {image, type}}`, or without the `properties`.
fn read_registry(field: &Field<'_>, container: &mut Container, reader: &mut Reader<'_>) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(inner) = fields.take("properties") {
        read_registry(&inner, container, reader);
        fields.finish(Rest::Foreign { known: &["properties"], dropped: &[] }, reader);
        return;
    }
    if let Some(image) = fields.need("image", reader, "the container image, such as nginx:1.27") {
        container.image = image.text(reader).unwrap_or_default();
    }
    if let Some(kind) = fields.take("type")
        && kind.one_of(reader, REGISTRIES) == Some(Registry::Private)
    {
        kind.dropped(reader, "a site's engine logs in to its registries itself");
    }
    fields.finish(Rest::Foreign { known: &["image", "type"], dropped: &[] }, reader);
}

fn read_ports(
    public: Option<&Field<'_>>,
    ports: Option<&Field<'_>>,
    component: &mut Component,
    container: &mut Container,
    reader: &mut Reader<'_>,
) {
    let is_public = public.and_then(|public| public.boolean(reader)).unwrap_or_default();
    let ports = ports.map(|list| list.at_most(list.list(reader), PORTS_MAX, reader));
    let ports = ports.unwrap_or_default();
    for field in &ports {
        let Some(mut fields) = field.fields(reader) else { continue };
        let port = fields.need("port", reader, "the number of the port");
        let protocol = fields.take("protocol").and_then(|field| field.one_of(reader, PROTOCOLS));
        fields.finish(Rest::Foreign { known: &["port", "protocol"], dropped: &[] }, reader);
        let Some(port) = port.and_then(|port| port.port(reader)) else { continue };
        if !container.ports.contains(&port) {
            container.ports.push(port);
        }
        let protocol = protocol.unwrap_or_default();
        component.expose.push(Expose { port, protocol, public: is_public, ..Expose::default() });
    }
    if let Some(public) = public
        && is_public
        && ports.is_empty()
    {
        public.dropped(reader, "it has no port that could be public");
    }
}

fn read_dependency<'a>(
    field: &Field<'a>,
    known: &Known<'a>,
    survey: &Survey<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Option<Connection> {
    let mut fields = field.fields(reader)?;
    let component = fields.need("component", reader, "the component that is needed");
    let dropped = &[("property", "components find each other by name")];
    fields.finish(Rest::Foreign { known: &["component"], dropped }, reader);
    let other = survey.refer(&component?, template, reader)?;
    let app = (other.app != known.app).then(|| app_name(survey.apps[other.app]));
    Some(Connection { to: other.name.clone(), app, ..Connection::default() })
}

impl<'a> Survey<'a> {
    /// The component that a value names, by its template or by its own name.
    fn refer(
        &self,
        field: &Field<'a>,
        template: &Template<'a>,
        reader: &mut Reader<'_>,
    ) -> Option<&Known<'a>> {
        let name = field.str(reader)?;
        if let Some(known) = self.find(name) {
            return Some(known);
        }
        if template.node(name).is_some_and(is_machine) {
            field.dropped(reader, "it is a virtual machine, and those cannot be run");
            return None;
        }
        let span = field.node.span;
        let names = self.components.iter().map(|known| known.key);
        let message = format!("no component is named {}", shown(name));
        let diagnostic = field.error(reader, "unknown-reference", message);
        diagnostic.expecting("the name of a node template of type Component");
        diagnostic.mended_by_nearest(span, name, names);
        None
    }

    fn find(&self, name: &str) -> Option<&Known<'a>> {
        let place = self.by_key.get(name).or_else(|| self.by_name.get(name));
        let place = place.or_else(|| self.by_plain_key.get(&name.to_lowercase()))?;
        self.components.get(*place)
    }
}
