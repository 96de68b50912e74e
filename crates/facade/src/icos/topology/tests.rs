//! Both forms of the taxonomy, odd documents, and the published sample.

use expect_test::expect;
use serde_json::json;
use tombolo_model::{App, Link, Shared};
use tombolo_placement::continuum::Amounts;
use tombolo_placement::select::Limits;
use tombolo_placement::{Continuum, Options, Plan, plan};

use super::*;
use crate::testing::sample;

#[test]
fn reads_what_is_there_and_nothing_else() {
    let topology = read(&json!({"cluster": {"c1": {
        "type": "nuvla", "name": "edge",
        "node": {"n": {
            "name": "pi", "ScaScore": "44",
            "staticMetrics": {"cpuArchitecture": "aarch64", "cpuCores": 4, "cpuMaxFrequency": 1_500_000_000u64, "RAMMemory": 4_000_000_000u64, "gpuCores": 128, "gpuRAMMemory": 1000},
            "dynamicMetrics": {"freeRAM": 1_000_000_000, "availableStorage": {"name": "sda", "free": 77}, "cpuEnergyConsumption": 5000},
            "devices": {"d": {"name": "cam", "status": "available", "path": "squat.ai/video"}, "e": {"name": "old", "status": "busy"}},
        }},
    }}})).unwrap();
    assert_eq!(topology.troubles, []);
    assert_eq!(topology.sites[0].spec.engine, Engine::Docker);
    let status = topology.nodes[0].status.clone().unwrap();
    assert_eq!(status.security_score, Some(44));
    assert_eq!(status.energy.unwrap().busy_watts, Some(5.0));
    let amounts = Amounts::of_node(&topology.nodes[0]);
    assert_eq!(
        (amounts.cpu_millis, amounts.memory_bytes, amounts.storage_bytes, amounts.gpu),
        (4000, 1_000_000_000, 77, 1)
    );
    assert_eq!(
        (amounts.device("squat.ai/video"), amounts.device("cam"), amounts.device("old")),
        (1, 1, 0)
    );
}

#[test]
fn the_newer_form_has_names_only_and_they_are_made_unique() {
    let node = json!({".1": {"pod": {}}, ".2": {"pod": {}}});
    let topology = read(&json!({"cluster": {"-1": {"name": "one", "node": node}, "-2": {"name": "two", "node": node}}})).unwrap();
    let names: Vec<&str> =
        topology.nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    assert_eq!(names, [".1", ".2", "two.1", "two.2"]);
}

#[test]
fn another_document_is_refused_in_a_sentence() {
    let refused = |value: Value| read(&value).unwrap_err().to_string();
    assert_eq!(
        refused(json!({"nodes": []})),
        "topology: it has no \"cluster\", so it is not the taxonomy of an ICOS aggregator"
    );
    assert_eq!(
        refused(json!({"cluster": []})),
        "topology: \"cluster\" is not an object of clusters by id"
    );
    let odd = json!({"cluster": {"a": null, "b": 3, "c": {"node": {"x": null, "y": {"ScaScore": -4, "staticMetrics": {"cpuCores": 1e300}}}}}});
    let topology = read(&odd).unwrap();
    assert_eq!((topology.sites.len(), topology.nodes.len()), (3, 2));
    assert_eq!(topology.nodes[1].status.as_ref().unwrap().security_score, None);
}

/// The published sample, when it is at hand: its two components have the needs of its descriptor.
#[test]
fn the_sample_of_icos_finds_its_camera_and_lacks_the_security() {
    let test = "the_sample_of_icos_finds_its_camera_and_lacks_the_security";
    let path = "data/icos/matchmaking/aggregator_taxonomy.json";
    let Some(text) = sample(test, path) else { return };
    let topology = read(&serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!((topology.sites.len(), topology.nodes.len()), (5, 8));
    let planned = |security: &str| {
        let app = json!({"apiVersion": keys::API_VERSION, "kind": "App",
        "metadata": {"name": "mjpeg-ffmpeg-app", "namespace": "default"},
        "spec": {"components": [
            {"name": "ffmpeg", "needs": {"memory": "7Gi", "security": security},
                "run": [{"manifests": [{"kind": "Pod"}]}]},
            {"name": "mjpeg", "needs": {"devices": ["squat.ai/video"]},
                "run": [{"manifests": [{"kind": "Pod"}]}]},
        ]}});
        let app: App = serde_json::from_value(app).unwrap();
        let sites: Vec<Shared<Site>> = topology.sites.iter().cloned().map(Shared::from).collect();
        let nodes: Vec<Shared<Node>> = topology.nodes.iter().cloned().map(Shared::from).collect();
        let (continuum, _) = Continuum::of(&sites, &nodes, &[] as &[Link]);
        let (options, limits) = (Options::default(), Limits::default());
        shown(&plan(&continuum, &[app], &[], &options, &limits).unwrap())
    };
    expect![[r#"
        ffmpeg has no place: needs security 67; the nearest of 5 nodes, raspberryPik3s-133, has 50
        mjpeg has no place: it has a place once ffmpeg/0 has one
    "#]]
    .assert_eq(&planned("high"));
    expect![[r#"
        ffmpeg on icosedge
        mjpeg on icosedge
    "#]]
    .assert_eq(&planned("medium"));
}

fn shown(plan: &Plan) -> String {
    let app = &plan.apps[0];
    let placed = app.instances.iter().map(|one| {
        let node = one.placement.node.as_deref().unwrap();
        format!("{} on {node}\n", one.placement.component)
    });
    let unplaced = app
        .unplaced
        .iter()
        .map(|one| format!("{} has no place: {}\n", one.component, one.reasons.join("; ")));
    placed.chain(unplaced).collect()
}
