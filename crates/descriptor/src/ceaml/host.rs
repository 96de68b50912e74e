//! The hosts of a CEAML model: edge nodes, public clouds and clusters of them, as what a component
//! needs of its node. Called by [`super::read`].

use tombolo_model::component::Component;
use tombolo_model::needs::Needs;
use tombolo_model::site::Layer;
use tombolo_yaml::Node;

use super::COMPONENT;
use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;
use crate::tosca::{NODE_DROPPED, NodeTemplate, Requirement, Template, filter, geolocation};

pub(super) const EDGE: &str = "tosca.nodes.Compute.EdgeNode";
pub(super) const CLOUD: &str = "tosca.nodes.Compute.PublicCloud";
pub(super) const CLUSTER: &str = "tosca.nodes.Compute.Cluster";
pub(super) const COMPUTE: &str = "tosca.nodes.Compute";
const MACHINES: &[&str] = &[EDGE, CLOUD, COMPUTE];
const HOSTS: &[&str] = &[EDGE, CLOUD, CLUSTER, COMPUTE];

const TOTAL: &str = "an instance is put on one node, so only what each node has counts";
const CLUSTER_DROPPED: &[(&str, &str)] = &[
    ("cluster_size", TOTAL),
    ("total_num_cpus", TOTAL),
    ("total_mem_size", TOTAL),
    ("total_disk_size", TOTAL),
];

/// `host`: what the component asks of its node.
pub(super) fn read<'a>(
    requirement: &Requirement<'a>,
    template: &Template<'a>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    if requirement.name.text != "host" {
        requirement.field.dropped(reader, "a component asks for its host only");
        return;
    }
    for field in [&requirement.relationship, &requirement.filter].into_iter().flatten() {
        field.dropped(reader, "what a host must have is said by the host");
    }
    let Some(target) = &requirement.node else { return };
    let Some(node) = template.refer(target, HOSTS, reader) else { return };
    match node.kind {
        CLUSTER => read_cluster(node, template, component, needs, reader),
        _ => read_machine(node, template, component, needs, reader),
    }
}

/// Hosts that no component asks for, nor any cluster.
pub(super) fn tell_unused(template: &Template<'_>, reader: &mut Reader<'_>) {
    for node in template.nodes.iter().filter(|node| HOSTS.contains(&node.kind)) {
        let name = node.key.text.as_str();
        let asked = template.nodes.iter().any(|other| match other.kind {
            COMPONENT => {
                other.field.node.get("requirements").is_some_and(|list| mentions(list, name))
            }
            CLUSTER => other
                .field
                .node
                .at(&["properties", "members"])
                .is_some_and(|list| mentions(list, name)),
            _ => false,
        });
        if !asked {
            node.field.dropped(reader, "no component asks for it");
        }
    }
}

fn mentions(node: &Node, name: &str) -> bool {
    let in_list = |items: &[Node]| items.iter().any(|item| mentions(item, name));
    node.as_str() == Some(name)
        || node.as_list().is_some_and(in_list)
        || node.as_map().is_some_and(|entries| entries.iter().any(|(_, node)| mentions(node, name)))
}

fn read_machine<'a>(
    node: &NodeTemplate<'a>,
    template: &Template<'a>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    needs.layers = match node.kind {
        EDGE => vec![Layer::NearEdge, Layer::FarEdge],
        CLOUD => vec![Layer::Cloud],
        _ => Vec::new(),
    };
    if !needs.layers.is_empty() {
        node.kind_field.changed(reader, "the type of a host becomes the layers that will do");
    }
    let Some(mut fields) = node.fields(reader) else { return };
    if let Some(properties) = fields.take("properties").and_then(|field| field.fields(reader)) {
        read_properties(properties, template, component, needs, reader);
    }
    if let Some(capabilities) = fields.take("capabilities") {
        filter::capabilities(&capabilities, &template.inputs, needs, reader);
    }
    let dropped = NODE_DROPPED;
    fields.finish(Rest::Foreign { known: &["properties", "capabilities"], dropped }, reader);
}

fn read_properties<'a>(
    mut fields: Fields<'a>,
    template: &Template<'a>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    if let Some(building) = fields.take("building_type")
        && let Some(kind) = building.text(reader)
    {
        building.changed(reader, "nodes say it with the label building_type");
        needs.labels.insert("building_type".to_owned(), kind);
    }
    if let Some(antenna) = fields.take("wifi_antenna") {
        match antenna.boolean(reader) {
            Some(true) => {
                antenna.changed(reader, "nodes say it with the label wifi_antenna");
                needs.labels.insert("wifi_antenna".to_owned(), "true".to_owned());
            }
            Some(false) => antenna.dropped(reader, "nodes with an antenna will do as well"),
            None => (),
        }
    }
    if let Some(place) = fields.take("geolocation") {
        geolocation::read(&inner(&place), &template.inputs, component, needs, reader);
    }
    if let Some(gpu) = fields.take("gpu_model").map(|gpu| inner(&gpu)) {
        needs.gpu = Some(1);
        if let Some(mut fields) = gpu.fields(reader) {
            if let Some(model) = fields.take("model") {
                filter::gpu_model(&model, needs, reader);
            }
            let dropped = &[
                ("brand", "any graphics processor will do"),
                ("dedicated", "whether it is a part of the processor cannot be asked for"),
            ];
            fields.finish(Rest::Foreign { known: &["model"], dropped }, reader);
        }
    }
    let known = &["building_type", "wifi_antenna", "geolocation", "gpu_model"];
    fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
}

/// CEAML writes some values one level deeper, under `properties`.
fn inner<'a>(field: &Field<'a>) -> Field<'a> {
    match field.node.as_map() {
        Some([(key, node)]) if key.text == "properties" => {
            Field { node, path: field.path.key(&key.text), key_span: key.span }
        }
        Some(_) | None => field.clone(),
    }
}

/// An instance goes to one node, so a cluster asks for what its members have.
fn read_cluster<'a>(
    node: &NodeTemplate<'a>,
    template: &Template<'a>,
    component: &mut Component,
    needs: &mut Needs,
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = node.fields(reader) else { return };
    let properties = fields.take("properties").and_then(|field| field.fields(reader));
    fields.finish(Rest::Foreign { known: &["properties"], dropped: NODE_DROPPED }, reader);
    let Some(mut properties) = properties else { return };
    if let Some(members) = properties.take("members") {
        members.changed(reader, "any node that is like one of the members will do");
        let mut first: Option<Needs> = None;
        for member in members.list(reader) {
            let Some(machine) = template.refer(&member, MACHINES, reader) else { continue };
            let mut its = Needs::default();
            match &first {
                None => {
                    read_machine(machine, template, component, &mut its, reader);
                    first = Some(its);
                }
                Some(first) => {
                    let mut other = Component::default();
                    read_machine(machine, template, &mut other, &mut its, reader);
                    if its != *first {
                        member.dropped(reader, "it differs from the first member, which counts");
                    }
                }
            }
        }
        *needs = first.unwrap_or_default();
    }
    properties.finish(Rest::Foreign { known: &["members"], dropped: CLUSTER_DROPPED }, reader);
}
