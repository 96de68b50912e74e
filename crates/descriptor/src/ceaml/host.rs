//! The hosts of a CEAML model: edge nodes, public clouds and clusters of them, as what a component
//! needs of its node. Called by [`super::read`].

use tombolo_model::component::Component;
use tombolo_model::needs::Needs;
use tombolo_model::site::Layer;
use tombolo_yaml::Node;

use super::COMPONENT;
use crate::fields::{Field, Fields, Rest};
use crate::reader::Reader;
use crate::tosca::host::{Host, Hosts};
use crate::tosca::{
    NODE_DROPPED, NodeTemplate, Requirement, Template, filter, geolocation, required,
};

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
pub(super) fn read<'t, 'a>(
    requirement: &Requirement<'a>,
    template: &'t Template<'a>,
    hosts: &mut Hosts<'t>,
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
    let name = node.key.text.as_str();
    if !hosts.contains_key(name) {
        let host = match node.kind {
            CLUSTER => read_cluster(node, template, hosts, reader),
            _ => read_machine(node, template, reader),
        };
        hosts.insert(name, host.bounded(&node.field, reader));
    }
    if let Some(host) = hosts.get(name)
        && target.may_copy(host.bytes(), reader)
    {
        host.join(needs);
        component.places.clone_from(&host.places);
    }
}

/// Hosts that no component asks for, nor any cluster.
pub(super) fn tell_unused(template: &Template<'_>, reader: &mut Reader<'_>) {
    let clusters = template.nodes.iter().filter(|node| node.kind == CLUSTER);
    let members = clusters
        .filter_map(|node| node.field.node.at(&["properties", "members"])?.as_list())
        .flatten()
        .filter_map(Node::as_str);
    let mut asked = required(template, &[COMPONENT]);
    asked.extend(members);
    for node in template.nodes.iter().filter(|node| HOSTS.contains(&node.kind)) {
        if !asked.contains(node.key.text.as_str()) {
            node.field.dropped(reader, "no component asks for it");
        }
    }
}

fn read_machine<'a>(
    node: &NodeTemplate<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Host {
    let mut host = Host::default();
    host.needs.layers = match node.kind {
        EDGE => vec![Layer::NearEdge, Layer::FarEdge],
        CLOUD => vec![Layer::Cloud],
        _ => Vec::new(),
    };
    if !host.needs.layers.is_empty() {
        node.kind_field.changed(reader, "the type of a host becomes the layers that will do");
    }
    let Some(mut fields) = node.fields(reader) else { return host };
    if let Some(properties) = fields.take("properties").and_then(|field| field.fields(reader)) {
        read_properties(properties, template, &mut host, reader);
    }
    if let Some(capabilities) = fields.take("capabilities") {
        filter::capabilities(&capabilities, &template.inputs, &mut host.needs, reader);
    }
    let dropped = NODE_DROPPED;
    fields.finish(Rest::Foreign { known: &["properties", "capabilities"], dropped }, reader);
    host
}

fn read_properties<'a>(
    mut fields: Fields<'a>,
    template: &Template<'a>,
    host: &mut Host,
    reader: &mut Reader<'_>,
) {
    let Host { needs, places, volumes: _ } = host;
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
        geolocation::read(&inner(&place), &template.inputs, places, needs, reader);
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
fn read_cluster<'t, 'a>(
    node: &NodeTemplate<'a>,
    template: &'t Template<'a>,
    hosts: &mut Hosts<'t>,
    reader: &mut Reader<'_>,
) -> Host {
    let mut first: Option<Host> = None;
    let Some(mut fields) = node.fields(reader) else { return Host::default() };
    let properties = fields.take("properties").and_then(|field| field.fields(reader));
    fields.finish(Rest::Foreign { known: &["properties"], dropped: NODE_DROPPED }, reader);
    let Some(mut properties) = properties else { return Host::default() };
    if let Some(members) = properties.take("members") {
        members.changed(reader, "any node that is like one of the members will do");
        for member in members.list(reader) {
            let Some(machine) = template.refer(&member, MACHINES, reader) else { continue };
            let name = machine.key.text.as_str();
            if !hosts.contains_key(name) {
                let host = read_machine(machine, template, reader);
                hosts.insert(name, host.bounded(&machine.field, reader));
            }
            match (&first, hosts.get(name)) {
                (None, host) => first = host.cloned(),
                (Some(first), Some(host)) if host != first => {
                    member.dropped(
                        reader,
                        "it differs from the first member, and the first one counts",
                    );
                }
                (Some(_), _) => (),
            }
        }
    }
    properties.finish(Rest::Foreign { known: &["members"], dropped: CLUSTER_DROPPED }, reader);
    first.unwrap_or_default()
}
