//! `/api/v3/resource/`: what there is to run things on, in the form of the ICOS aggregator: clusters
//! with their nodes and what runs there. Sites are clusters, Assignments are pods. Start at [`list`].

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::{Extension, Json};
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tombolo_gate::Caller;
use tombolo_model::characteristics::{Characteristics, DeviceStatus};
use tombolo_model::condition::{AVAILABLE, DEGRADED, READY, is_true};
use tombolo_model::site::Location;
use tombolo_model::{Arch, Assignment, Bytes, Node, Site};

use super::job;
use crate::clock::time_of_day;
use crate::refusal::Refusal;

type Answer = Result<Json<Value>, Refusal>;

/// All that there is.
#[derive(Debug)]
struct World {
    sites: Vec<Site>,
    nodes: Vec<Node>,
    assignments: Vec<Assignment>,
}

pub(crate) async fn list(Extension(caller): Extension<Caller>) -> Answer {
    let world = look(&caller.client).await?;
    let now = f64::from(u32::try_from(time_of_day().as_second()).unwrap_or(u32::MAX));
    let clusters: Map<String, Value> =
        world.sites.iter().map(|site| (site.name_any(), cluster(site, &world))).collect();
    Ok(Json(json!({
        // All of it is as it is now: nothing is gathered and kept.
        "timestamp": {"oldestTimestamp": now, "timeSinceOldest": 0.0},
        "controller": {},
        "cluster": clusters,
    })))
}

/// A cluster or a node, by its uuid or its name.
pub(crate) async fn show(Extension(caller): Extension<Caller>, Path(id): Path<String>) -> Answer {
    let world = look(&caller.client).await?;
    let named = |uid: Option<String>, name: String| uid.as_deref() == Some(&id) || name == id;
    if let Some(site) = world.sites.iter().find(|site| named(site.uid(), site.name_any())) {
        return Ok(Json(cluster(site, &world)));
    }
    let found = world.nodes.iter().find(|one| {
        named(one.uid(), one.name_any()) || characteristics(one).uuid.as_deref() == Some(&id)
    });
    match found {
        Some(found) => Ok(Json(node(found, &world))),
        None => Err(Refusal::not_found(format!("there is no resource {id:?}"))),
    }
}

async fn look(client: &Client) -> Result<World, Refusal> {
    Ok(World {
        sites: all(client).await?,
        nodes: all(client).await?,
        assignments: all(client).await?,
    })
}

async fn all<K>(client: &Client) -> Result<Vec<K>, Refusal>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    Ok(api.list(&ListParams::default()).await?.items)
}

fn cluster(site: &Site, world: &World) -> Value {
    let name = site.name_any();
    let own = world.nodes.iter().filter(|node| node.spec.site == name);
    let nodes: Map<String, Value> = own.map(|one| (one.name_any(), node(one, world))).collect();
    // Where the engine chooses the node itself, we do not know which.
    let here = |one: &&Assignment| one.spec.site == name && one.spec.node.is_none();
    let ready = site.status.as_ref().is_some_and(|status| is_true(&status.conditions, READY));
    json!({
        "type": job::orchestrator(site.spec.engine),
        "uuid": site.uid(),
        "name": name,
        "status": online(ready),
        "serviceLevelAgreement": {},
        "API": {},
        "node": nodes,
        "network": {},
        "pod": pods(world.assignments.iter().filter(here)),
    })
}

fn node(node: &Node, world: &World) -> Value {
    let name = node.name_any();
    let what = characteristics(node);
    let status = node.status.clone().unwrap_or_default();
    let site = world.sites.iter().find(|site| site.name_any() == node.spec.site);
    let place = node.spec.location.as_ref().or(what.location.as_ref());
    let place = place.or(site.and_then(|site| site.spec.location.as_ref()));
    let found = status.vulnerabilities.unwrap_or_default();
    let here = |one: &&Assignment| one.spec.node.as_ref() == Some(&name);
    json!({
        "type": site.map(|site| job::orchestrator(site.spec.engine)),
        "uuid": what.uuid.clone().or_else(|| node.uid()),
        "name": name,
        "status": online(is_true(&status.conditions, READY)),
        "location": place.map(location).unwrap_or_else(|| json!({})),
        "vulnerabilities": {
            "Critical": found.critical, "High": found.high, "Medium": found.medium,
            "Low": found.low, "Untriaged": found.untriaged,
        },
        "ScaScore": status.security_score,
        "staticMetrics": static_metrics(&what),
        "dynamicMetrics": {},
        "networkInterfaces": interfaces(&what),
        "devices": devices(&what),
        "pod": pods(world.assignments.iter().filter(here)),
    })
}

/// As the schema of the shell spells it.
fn online(is_ready: bool) -> &'static str {
    if is_ready { "online" } else { "offline" }
}

fn characteristics(node: &Node) -> Characteristics {
    let status = node.status.as_ref();
    status.and_then(|status| status.characteristics.clone()).unwrap_or_default()
}

fn location(place: &Location) -> Value {
    json!({
        "name": place.city.clone().or_else(|| place.region.clone()),
        "continent": place.continent, "country": place.country, "city": place.city,
        "latitude": place.latitude, "longitude": place.longitude,
    })
}

fn static_metrics(what: &Characteristics) -> Value {
    let cpu = what.cpu.clone().unwrap_or_default();
    let gpu = what.gpus.first().cloned().unwrap_or_default();
    let hertz = |mhz: Option<u32>| mhz.map(|mhz| u64::from(mhz) * 1_000_000);
    let disk = |disk: &tombolo_model::characteristics::Disk| {
        json!({
            "name": disk.name, "type": disk.kind.map(|kind| kind.as_str()),
            "capacity": disk.size.map(Bytes::get),
        })
    };
    json!({
        "cpuArchitecture": cpu.architecture.map(architecture),
        "cpuCores": cpu.threads.or(cpu.cores),
        "cpuMaxFrequency": hertz(cpu.frequency_mhz_max),
        "gpuCores": gpu.cores,
        "gpuMaxFrequency": hertz(gpu.frequency_mhz_max),
        "gpuRAMMemory": gpu.memory.map(Bytes::get),
        "RAMMemory": what.memory.map(Bytes::get),
        "storage": what.disks.iter().map(disk).collect::<Vec<_>>(),
    })
}

/// In the words of `uname`, as the telemetry of ICOS gives them.
fn architecture(arch: Arch) -> String {
    match arch {
        Arch::Amd64 => "x86_64".to_owned(),
        Arch::Arm64 => "aarch64".to_owned(),
        Arch::Arm | Arch::X86 | Arch::Riscv64 | Arch::Ppc64le | Arch::S390x => arch.to_string(),
    }
}

fn interfaces(what: &Characteristics) -> Map<String, Value> {
    let row = |one: &tombolo_model::characteristics::Interface| {
        let status = if one.up { "up" } else { "down" };
        let value = json!({
            "name": one.name, "type": one.kind, "speed": one.speed, "status": status,
            "ip": one.addresses.first(),
        });
        (one.name.clone(), value)
    };
    what.interfaces.iter().map(row).collect()
}

fn devices(what: &Characteristics) -> Map<String, Value> {
    let row = |one: &tombolo_model::characteristics::Device| {
        let status = one.status.map_or("unknown", DeviceStatus::as_str);
        let value = json!({
            "name": one.name, "type": one.kind, "status": status,
            "path": one.path.as_deref().unwrap_or("none"),
        });
        (one.name.clone(), value)
    };
    what.devices.iter().map(row).collect()
}

fn pods<'a>(assignments: impl Iterator<Item = &'a Assignment>) -> BTreeMap<String, Value> {
    assignments.map(|one| (one.name_any(), pod(one))).collect()
}

fn pod(assignment: &Assignment) -> Value {
    let status = assignment.status.clone().unwrap_or_default();
    let phase = match () {
        () if is_true(&status.conditions, AVAILABLE) => "Running",
        () if is_true(&status.conditions, DEGRADED) => "Failed",
        () => "Pending",
    };
    let (ip, spec) = (status.addresses.first(), &assignment.spec);
    let ports: Vec<u16> = status.ports.iter().map(|port| port.port).collect();
    json!({
        "name": assignment.name_any(),
        "ip": ip,
        "status": phase,
        "numberOfContainers": 1,
        "container": {
            spec.component.clone(): {
                "name": spec.component, "ip": ip, "node": spec.node, "port": ports,
            },
        },
        "workload": {spec.app.clone(): {"icos_app_component": spec.component}},
    })
}
