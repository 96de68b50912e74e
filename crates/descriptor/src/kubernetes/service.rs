//! Services and Ingresses: which ports of which component others may reach.

use std::collections::BTreeMap;

use tombolo_model::component::{Expose, Protocol};

use crate::beyond::{Beyond, Keep, foreign};
use crate::fields::Field;
use crate::kubernetes::container::{self, PodPort, text_map};
use crate::reader::Reader;

/// A Service, read but not yet matched to a workload.
#[derive(Debug)]
pub(crate) struct Service<'a> {
    pub(crate) field: Field<'a>,
    pub(crate) name: String,
    pub(crate) selector: BTreeMap<String, String>,
    kind: Kind,
    ports: Vec<ServicePort<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ClusterIp,
    NodePort,
    LoadBalancer,
    ExternalName,
}

#[derive(Debug)]
struct ServicePort<'a> {
    field: Field<'a>,
    name: Option<String>,
    port: u16,
    node_port: Option<u16>,
    protocol: Protocol,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Same,
    Number(u16),
    Name(String),
}

/// Keys of a Service that hold only within a cluster; the Service is kept with its workload.
const KEPT: &[&str] = &[
    "allocateLoadBalancerNodePorts",
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "publishNotReadyAddresses",
    "sessionAffinity",
    "sessionAffinityConfig",
    "trafficDistribution",
];

pub(super) fn read<'a>(
    root: &Field<'a>,
    name: String,
    spec: &Field<'a>,
    reader: &mut Reader<'_>,
) -> Option<Service<'a>> {
    let mut fields = spec.fields(reader)?;
    let selector = fields.take("selector").map(|labels| text_map(&labels, reader));
    let kinds = [
        ("ClusterIP", Kind::ClusterIp),
        ("NodePort", Kind::NodePort),
        ("LoadBalancer", Kind::LoadBalancer),
        ("ExternalName", Kind::ExternalName),
    ];
    let kind = match fields.take("type") {
        Some(kind) => kind.one_of(reader, &kinds)?,
        None => Kind::ClusterIp,
    };
    if let Some(outside) = fields.take("externalName") {
        outside.dropped(reader, "a name outside the App is not a component");
    }
    let mut ports = Vec::new();
    if let Some(list) = fields.take("ports") {
        for field in list.at_most(list.list(reader), container::PORTS_MAX, reader) {
            ports.extend(read_port(&field, reader));
        }
    }
    for key in KEPT {
        fields.take(key);
    }
    let taken = ["externalName", "ports", "selector", "type"];
    let known: Vec<&str> = taken.into_iter().chain(KEPT.iter().copied()).collect();
    fields.finish(foreign(&known), reader);
    let selector = selector.unwrap_or_default();
    Some(Service { field: root.clone(), name, selector, kind, ports })
}

fn read_port<'a>(field: &Field<'a>, reader: &mut Reader<'_>) -> Option<ServicePort<'a>> {
    let mut fields = field.fields(reader)?;
    let port = fields.need("port", reader, "a port, such as 8080")?.port(reader)?;
    // 0 is what a client writes that leaves the choice to the cluster.
    let node_port = fields.take("nodePort").filter(|port| port.node.raw() != Some("0"));
    let node_port = node_port.and_then(|port| port.port(reader));
    let mut beyond = Beyond::new(Keep::Never, "Kubernetes");
    let mut protocol = match fields.take("protocol") {
        Some(word) => container::read_protocol(&word, &mut beyond, reader),
        None => Some(Protocol::Tcp),
    };
    if let Some(word) = fields.take("appProtocol") {
        match word.text(reader).as_deref() {
            Some("http") => protocol = Some(Protocol::Http),
            Some("https") => protocol = Some(Protocol::Https),
            Some(_) => word.dropped(reader, "a port is tcp, udp, http or https"),
            None => (),
        }
    }
    beyond.tell(reader);
    let target = match fields.take("targetPort") {
        None => Target::Same,
        Some(target) => match target.node.as_str() {
            Some(name) if name.parse::<u16>().is_err() => Target::Name(name.to_owned()),
            Some(_) | None => Target::Number(target.port(reader)?),
        },
    };
    let name = fields.take("name").and_then(|name| name.text(reader));
    fields.finish(
        foreign(&["appProtocol", "name", "nodePort", "port", "protocol", "targetPort"]),
        reader,
    );
    let protocol = protocol?;
    // The name that a port gets when several need one and none is given says nothing.
    let name = name.filter(|name| *name != port_name(protocol, port));
    Some(ServicePort { field: field.clone(), name, port, node_port, protocol, target })
}

/// The name of a port that has none: Kubernetes wants one as soon as there are two ports.
pub(crate) fn port_name(protocol: Protocol, port: u16) -> String {
    format!("{protocol}-{port}")
}

impl Service<'_> {
    /// Whether it leads to pods with these labels.
    pub(super) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.selector.is_empty()
            && self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// The called port and the port behind it, for every port.
    pub(super) fn ways(&self, pod_ports: &[PodPort]) -> Vec<(u16, u16)> {
        let way = |port: &ServicePort| Some((port.port, port.listens(pod_ports)?));
        self.ports.iter().filter_map(way).collect()
    }

    /// The ports that others may reach through it.
    pub(super) fn expose(&self, pod_ports: &[PodPort], reader: &mut Reader<'_>) -> Vec<Expose> {
        let mut list = Vec::new();
        for port in &self.ports {
            let Some(listens) = port.listens(pod_ports) else {
                port.field.error(reader, "port-unknown", "no port of the pod has this name");
                continue;
            };
            let (public, published) = match self.kind {
                // A node has each port once; the Service's own address has them all.
                Kind::ClusterIp | Kind::ExternalName => (false, None),
                Kind::NodePort => (true, port.node_port),
                Kind::LoadBalancer => (true, Some(port.port)),
            };
            let (name, protocol) = (port.name.clone(), port.protocol);
            list.push(Expose { port: listens, protocol, name, public, published });
        }
        list
    }
}

impl ServicePort<'_> {
    fn listens(&self, pod_ports: &[PodPort]) -> Option<u16> {
        match &self.target {
            Target::Same => Some(self.port),
            Target::Number(number) => Some(*number),
            Target::Name(name) => {
                let named = |port: &&PodPort| port.name.as_deref() == Some(name);
                pod_ports.iter().find(named).map(|port| port.port)
            }
        }
    }
}

/// The Services that an Ingress opens to the outside.
pub(super) fn ingress_backends(root: &Field) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![root.node];
    while let Some(node) = waiting.pop() {
        if let Some(name) = node.at(&["service", "name"]).and_then(|name| name.as_str()) {
            names.push(name.to_owned());
        }
        waiting.extend(node.as_list().into_iter().flatten());
        waiting.extend(node.as_map().into_iter().flatten().map(|(_, value)| value));
    }
    names
}
