//! CHARITY's TOSCA blueprint: components, the nodes that they ask for, and the links between their
//! connection points (`network.rs`). Called through the table of formats.

use std::collections::BTreeMap;

use tombolo_model::component::Component;
use tombolo_model::needs::Needs;
use tombolo_model::run::{Container, Run, Volume};
use tombolo_model::site::Layer;
use tombolo_model::{App, AppSpec};
use tombolo_yaml::Node;

use super::{ANNOTATION_OWNER, ANNOTATION_VERSION, environment_path, network};
use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;
use crate::tosca::host::{Host, Hosts};
use crate::tosca::{
    COMPONENTS_MAX, NODE_DROPPED, NodeTemplate, Requirement, Template, filter, geolocation,
    required, requirements,
};

pub(super) const COMPONENT: &str = "Charity.Component";
pub(super) const EXTERNAL: &str = "Charity.External";
pub(super) const POINT: &str = "Charity.ConnectionPoint";
pub(super) const LINK: &str = "Charity.VirtualLink";
const NODE: &str = "Charity.Node";
const LOCAL_STORAGE: &str = "Charity.LocalStorage";
const PERSISTENT_STORAGE: &str = "Charity.PersistentStorage";
const KINDS: &[&str] = &[COMPONENT, EXTERNAL, NODE, POINT, LINK, LOCAL_STORAGE, PERSISTENT_STORAGE];

const UNITS: &[(&str, Unit)] = &[("K8S_POD", Unit::Pod), ("EXTERNAL", Unit::External)];
const HINTS: &[(&str, &[Layer])] =
    &[("EDGE", &[Layer::NearEdge, Layer::FarEdge]), ("CLOUD", &[Layer::Cloud])];
const PROPERTIES: &[&str] = &[
    "name",
    "deployment_unit",
    "placement_hint",
    "replicas",
    "image",
    "environment",
    "geolocation",
];

/// What a component is run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Pod,
    /// By somebody else.
    External,
}

/// Reads the documents of one text.
pub(crate) fn read(documents: &[Node], reader: &mut Reader<'_>) -> Vec<App> {
    let Some(template) = Template::read(documents, reader) else { return Vec::new() };
    let Some(name) = app_name(&template, reader) else { return Vec::new() };
    reader.origin("metadata", template.field.node.span);
    reader.origin("spec", template.field.node.span);
    let mut spec = AppSpec { description: template.description.clone(), ..AppSpec::default() };
    let mut parts = BTreeMap::new();
    let mut hosts = Hosts::new();
    for node in &template.nodes {
        match node.kind {
            COMPONENT => {
                if spec.components.len() == COMPONENTS_MAX {
                    let message = format!("an App has {COMPONENTS_MAX} components at most");
                    reader.error("too-many", &node.field.path, node.key.span, message);
                    break;
                }
                let component =
                    read_component(node, spec.components.len(), &template, &mut hosts, reader);
                let number = component.as_ref().map(|_| spec.components.len());
                parts.insert(node.key.text.as_str(), number);
                spec.components.extend(component);
            }
            EXTERNAL => {
                parts.insert(node.key.text.as_str(), None);
                node.field.dropped(reader, ELSEWHERE);
            }
            // These are read where they are asked for.
            NODE | LOCAL_STORAGE | PERSISTENT_STORAGE | POINT | LINK => (),
            _ => node.unknown_kind(KINDS, reader),
        }
    }
    tell_unused(&template, reader);
    network::connect(&template, &parts, &mut spec.components, reader);
    let mut app = App::new(&name, spec);
    for (field, annotation) in
        [(&template.author, ANNOTATION_OWNER), (&template.version, ANNOTATION_VERSION)]
    {
        if let Some(field) = field
            && let Some(text) = field.text(reader).filter(|text| !text.is_empty())
        {
            field.changed(reader, &format!("kept as the annotation {annotation}"));
            app.metadata.annotations.get_or_insert_default().insert(annotation.to_owned(), text);
        }
    }
    vec![app]
}

const ELSEWHERE: &str = "it runs elsewhere: what it is linked to becomes public";

fn app_name(template: &Template<'_>, reader: &mut Reader<'_>) -> Option<String> {
    match &template.name {
        Some(name) => name.object_name(reader),
        None => {
            let message = "the template has no name";
            template
                .field
                .error(reader, "missing-field", message)
                .expecting("metadata.template_name");
            None
        }
    }
}

/// Nodes that no component asks for.
fn tell_unused(template: &Template<'_>, reader: &mut Reader<'_>) {
    let (hosts, storages) = (required(template, &[COMPONENT]), required(template, &[NODE]));
    for node in &template.nodes {
        let asked = match node.kind {
            NODE => &hosts,
            LOCAL_STORAGE | PERSISTENT_STORAGE => &storages,
            _ => continue,
        };
        if !asked.contains(node.key.text.as_str()) {
            node.field.dropped(reader, "nothing asks for it");
        }
    }
}

/// A component that runs here; nothing for one that runs elsewhere.
fn read_component<'t, 'a>(
    node: &NodeTemplate<'a>,
    index: usize,
    template: &'t Template<'a>,
    hosts: &mut Hosts<'t>,
    reader: &mut Reader<'_>,
) -> Option<Component> {
    let mut fields = node.fields(reader)?;
    let properties = fields.need("properties", reader, "what the component is");
    let asked = requirements(fields.take("requirements"), reader);
    fields.finish(
        Rest::Foreign { known: &["properties", "requirements"], dropped: NODE_DROPPED },
        reader,
    );
    let mut fields = properties?.fields(reader)?;
    let unit = fields.take("deployment_unit");
    if let Some(field) = &unit
        && field.node.as_str().is_some_and(|unit| unit.eq_ignore_ascii_case("EXTERNAL"))
    {
        node.field.dropped(reader, ELSEWHERE);
        // Where somebody else runs it is not ours to say; the note speaks of all of it.
        let _ = fields.take_rest();
        return None;
    }
    if let Some(unit) = unit.as_ref().and_then(|field| Some((field, field.one_of(reader, UNITS)?)))
    {
        debug_assert_eq!(unit.1, Unit::Pod);
        unit.0.changed(reader, "a pod becomes a container, for any engine that runs one");
    }
    let path = format!("spec.components[{index}]");
    reader.origin(&path, node.field.node.span);
    let mut component = Component::default();
    let mut needs = Needs::default();
    let place = fields.take("geolocation");
    let mut container =
        read_properties(fields, node, template, &path, &mut component, &mut needs, reader);
    for requirement in &asked {
        read_host(requirement, template, hosts, &mut needs, &mut container, reader);
    }
    if let Some(place) = place {
        geolocation::read(&place, &template.inputs, &mut component.places, &mut needs, reader);
    }
    geolocation::spread(&mut component);
    component.needs = (needs != Needs::default()).then_some(needs);
    component.run = vec![Run { container: Some(container), ..Run::default() }];
    Some(component)
}

fn read_properties<'a>(
    mut fields: Fields<'a>,
    node: &NodeTemplate<'a>,
    template: &Template<'a>,
    path: &str,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) -> Container {
    let mut container = Container::default();
    component.name = match fields.take("name") {
        Some(name) => name.label(reader),
        None => reader.label(&node.key.text, &node.field.path, node.key.span),
    }
    .unwrap_or_default();
    reader.origin(format!("{path}.name"), node.key.span);
    if let Some(replicas) = fields.take("replicas") {
        let replicas = template.inputs.value(&replicas, reader);
        component.replicas = replicas.and_then(|replicas| replicas.count(reader, 10_000));
    }
    if let Some(hint) = fields.take("placement_hint")
        && let Some(layers) = hint.one_of(reader, HINTS)
    {
        hint.changed(reader, "a hint becomes a need: other layers are left out");
        needs.layers = layers.to_vec();
    }
    if let Some(image) = fields.need("image", reader, "the container image, such as nginx:1.27") {
        image.origin(reader, format!("{path}.run"));
        container.image = read_image(&image, template, reader).unwrap_or_default();
    }
    if let Some(environment) = fields.take("environment") {
        environment.origin(reader, format!("{path}.run[0].container.env"));
        let entries = environment.fields(reader).map(Fields::entries).unwrap_or_default();
        for (key, value) in entries {
            reader.origin(environment_path(path, &key.text), key.span);
            if let Some(text) = template.inputs.text(&value, reader) {
                container.env.insert(key.text.clone(), text);
            }
        }
    }
    fields.finish(Rest::Foreign { known: PROPERTIES, dropped: &[] }, reader);
    container
}

/// Some write an image like a web address.
fn read_image<'a>(
    field: &Field<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Option<String> {
    let image = template.inputs.text(field, reader)?;
    let bare = image.strip_prefix("https://").or_else(|| image.strip_prefix("http://"));
    if let Some(bare) = bare {
        field.changed(reader, &format!("an image is not a web address: {bare:?} is used"));
        return Some(bare.to_owned());
    }
    Some(image)
}

/// `host`: what the component asks of its node.
fn read_host<'t, 'a>(
    requirement: &Requirement<'a>,
    template: &'t Template<'a>,
    hosts: &mut Hosts<'t>,
    needs: &mut Needs,
    container: &mut Container,
    reader: &mut Reader<'_>,
) {
    if requirement.name.text != "host" {
        requirement.field.dropped(reader, "a component asks for its host only");
        return;
    }
    if let Some(filter) = &requirement.filter {
        read_filter(filter, template, needs, reader);
    }
    if let Some(relationship) = &requirement.relationship {
        relationship.dropped(reader, "a component runs on its host");
    }
    let Some(target) = &requirement.node else { return };
    let Some(node) = template.refer(target, &[NODE], reader) else { return };
    let name = node.key.text.as_str();
    if !hosts.contains_key(name) {
        hosts.insert(name, read_node(node, template, reader).bounded(&node.field, reader));
    }
    if let Some(host) = hosts.get(name)
        && target.may_copy(host.bytes(), reader)
    {
        host.join(needs);
        container.volumes.extend(host.volumes.clone());
    }
}

fn read_node<'a>(
    node: &NodeTemplate<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Host {
    let mut host = Host::default();
    let Some(mut fields) = node.fields(reader) else { return host };
    if let Some(filter) = fields.take("node_filter") {
        read_filter(&filter, template, &mut host.needs, reader);
    }
    if let Some(capabilities) = fields.take("capabilities") {
        filter::capabilities(&capabilities, &template.inputs, &mut host.needs, reader);
    }
    for storage in requirements(fields.take("requirements"), reader) {
        host.volumes.extend(read_storage(&storage, template, reader));
    }
    if let Some(properties) = fields.take("properties") {
        properties.dropped(reader, "a node is asked for by its capabilities");
    }
    let known = &["node_filter", "capabilities", "requirements"];
    fields.finish(Rest::Foreign { known, dropped: NODE_DROPPED }, reader);
    host
}

fn read_filter<'a>(
    field: &Field<'a>,
    template: &Template<'a>,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = field.fields(reader) else { return };
    if let Some(capabilities) = fields.take("capabilities") {
        filter::capabilities(&capabilities, &template.inputs, needs, reader);
    }
    let dropped = &[("properties", "a node is asked for by its capabilities")];
    fields.finish(Rest::Foreign { known: &["capabilities"], dropped }, reader);
}

/// `local_storage` or `persistent_storage` of a node: a volume of the container.
fn read_storage<'a>(
    requirement: &Requirement<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Option<Volume> {
    if let Some(filter) = &requirement.filter {
        filter.dropped(reader, "a volume is taken as it is");
    }
    let path = requirement.relationship.as_ref().and_then(|field| read_location(field, reader));
    let target = requirement.node.as_ref()?;
    let node = template.refer(target, &[LOCAL_STORAGE, PERSISTENT_STORAGE], reader)?;
    let mut fields = node.fields(reader)?;
    let mut volume = Volume::default();
    if let Some(mut properties) = fields.take("properties").and_then(|field| field.fields(reader)) {
        volume.name = properties.take("name").and_then(|name| name.label(reader));
        volume.size = properties.take("size").and_then(|size| {
            filter::amount(&size, &template.inputs, tombolo_model::Bytes::ZERO, reader)
        });
        let dropped = &[("access", "a volume belongs to the instances of its node")];
        properties.finish(Rest::Foreign { known: &["name", "size"], dropped }, reader);
    }
    fields.finish(Rest::Foreign { known: &["properties"], dropped: NODE_DROPPED }, reader);
    let Some(path) = path else {
        let message = "it is not said where the volume appears in the container";
        let place = &requirement.field;
        reader
            .error("missing-field", &place.path, requirement.name.span, message)
            .expecting("relationship: {properties: {location: PATH}}");
        return None;
    };
    volume.path = path;
    if volume.name.is_none() {
        volume.name = reader.label(&node.key.text, &node.field.path, node.key.span);
    }
    Some(volume)
}

/// `relationship: {type, properties: {location}}`
fn read_location(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let mut fields = field.fields(reader)?;
    let mut properties = fields.take("properties").and_then(|field| field.fields(reader));
    let location = properties.as_mut().and_then(|properties| properties.take("location"));
    if let Some(properties) = properties {
        let dropped = &[("device", "a volume is a folder, not a device")];
        properties.finish(Rest::Foreign { known: &["location"], dropped }, reader);
    }
    let dropped = &[("type", "a volume is attached in any case")];
    fields.finish(Rest::Foreign { known: &["properties"], dropped }, reader);
    location?.text(reader)
}
