//! Both forms of the taxonomy, odd documents, and the published sample.

use serde_json::json;

use super::*;
use crate::compile::Options;
use crate::testing::{shown, web};
use crate::what_if::World;

#[test]
fn reads_what_is_there_and_nothing_else() {
    let topology = icos(&json!({"cluster": {"c1": {
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
    let amounts = crate::continuum::Amounts::of_node(&topology.nodes[0]);
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
    let topology = icos(&json!({"cluster": {"-1": {"name": "one", "node": node}, "-2": {"name": "two", "node": node}}})).unwrap();
    let names: Vec<&str> =
        topology.nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    assert_eq!(names, [".1", ".2", "two.1", "two.2"]);
}

#[test]
fn another_document_is_refused_in_a_sentence() {
    let refused = |value: Value| icos(&value).unwrap_err().to_string();
    assert_eq!(
        refused(json!({"nodes": []})),
        "topology: it has no \"cluster\", so it is not the taxonomy of an ICOS aggregator"
    );
    assert_eq!(
        refused(json!({"cluster": []})),
        "topology: \"cluster\" is not an object of clusters by id"
    );
    let odd = json!({"cluster": {"a": null, "b": 3, "c": {"node": {"x": null, "y": {"ScaScore": -4, "staticMetrics": {"cpuCores": 1e300}}}}}});
    let topology = icos(&odd).unwrap();
    assert_eq!((topology.sites.len(), topology.nodes.len()), (3, 2));
    assert_eq!(topology.nodes[1].status.as_ref().unwrap().security_score, None);
}

/// The published sample, when it is at hand: its two components have the needs of its descriptor.
#[test]
fn the_sample_of_icos_finds_its_camera_and_lacks_the_security() {
    const SAMPLE: &str = "shared/data/icos/matchmaking/aggregator_taxonomy.json";
    let above = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let Some(text) =
        above.into_iter().find_map(|folder| std::fs::read_to_string(folder.join(SAMPLE)).ok())
    else {
        println!("skipped: the sample of ICOS is not at hand");
        return;
    };
    let topology = icos(&serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!((topology.sites.len(), topology.nodes.len()), (5, 8));
    let plan = |ffmpeg: Value| {
        let mut app = web(json!([
            {"name": "ffmpeg", "needs": ffmpeg, "run": [{"manifests": [{"kind": "Pod"}]}]},
            {"name": "mjpeg", "needs": {"devices": ["squat.ai/video"]}, "run": [{"manifests": [{"kind": "Pod"}]}]},
        ]));
        app.metadata.name = Some("mjpeg-ffmpeg-app".to_owned());
        let mut world = World {
            sites: crate::testing::shared(&topology.sites),
            nodes: crate::testing::shared(&topology.nodes),
            ..World::default()
        };
        world.apps = vec![app.into()];
        shown(&world.plan(&Options::default()))
    };
    expect_test::expect![[r#"
        ffmpeg/0: no place
          needs security 67; the nearest of 5 nodes, raspberryPik3s-133, has 50
          -> node icosedge would fit with security 42 instead of 67
        mjpeg/0: no place
          it has a place once ffmpeg/0 has one
    "#]]
    .assert_eq(&plan(json!({"memory": "7Gi", "security": "high"})));
    expect_test::expect![[r#"
        ffmpeg/0: start on icosedge
        mjpeg/0: start on icosedge
    "#]]
    .assert_eq(&plan(json!({"memory": "7Gi", "security": "medium"})));
}
