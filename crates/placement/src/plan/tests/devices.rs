//! One device, by whatever name it is asked for, is given to one.

use super::*;

/// Node `n` with cameras `cam0`… of kind `camera`, and graphics processors with so much memory.
fn land(cameras: usize, gpus: &[&str]) -> crate::what_if::World {
    let mut world = world("site s docker\nnode n s cpu=64");
    let status = world.nodes[0].status.as_mut().unwrap();
    let found = status.characteristics.as_mut().unwrap();
    let camera = |number: usize| json!({"name": format!("cam{number}"), "type": "camera", "path": format!("/dev/video{number}")});
    let cameras: Value = (0..cameras).map(camera).collect();
    let gpus: Value = gpus.iter().map(|memory| json!({"memory": memory})).collect();
    found.devices = serde_json::from_value(cameras).unwrap();
    found.gpus = serde_json::from_value(gpus).unwrap();
    world
}

/// Whether they all find a place, in one App and one after the other.
#[track_caller]
fn fits(world: &crate::what_if::World, needs: &[Value]) -> bool {
    let part =
        |(number, needs): (usize, &Value)| json!({"name": format!("c{number}"), "needs": needs});
    let parts: Vec<Value> = needs.iter().enumerate().map(part).collect();
    let together = world.clone().with([web(json!(parts))]).plan(&Options::default());
    let mut grown = world.clone();
    let mut all = true;
    for (number, part) in parts.iter().enumerate() {
        grown = grown.with([app(&format!("app{number}"), json!({"components": [part]}))]);
        let plan = grown.plan(&Options::default());
        all &= plan.apps.iter().all(|app| app.outcome == crate::plan::Outcome::Placed);
        for unplaced in plan.apps.iter().flat_map(|app| &app.unplaced) {
            assert!(!unplaced.reasons[0].contains("within the time"), "{:?}", unplaced.reasons);
        }
        grown.settle(&plan);
    }
    let at_once = together.apps[0].outcome == crate::plan::Outcome::Placed;
    assert_eq!(at_once, all, "{needs:?}");
    all
}

#[test]
fn a_device_is_not_given_twice_under_two_names() {
    let by = |name: &str| json!({"devices": [name]});
    let one = land(1, &[]);
    assert!(fits(&one, &[by("camera")]));
    assert!(fits(&one, &[by("cam0")]));
    assert!(!fits(&one, &[by("camera"), by("cam0")]));
    assert!(!fits(&one, &[by("cam0"), by("camera")]));
    assert!(!fits(&one, &[by("/dev/video0"), by("cam0")]));
    let two = land(2, &[]);
    assert!(fits(&two, &[by("camera"), by("cam0")]));
    assert!(fits(&two, &[by("camera"), by("cam1")]));
    assert!(fits(&two, &[by("cam0"), by("cam1")]));
    assert!(!fits(&two, &[by("cam0"), by("/dev/video0")]));
    assert!(!fits(&two, &[by("camera"), by("cam0"), by("cam1")]));
    assert!(!fits(&two, &[by("camera"), by("camera"), by("cam0")]));
    assert!(fits(&land(3, &[]), &[by("camera"), by("cam0"), by("cam1")]));
}

#[test]
fn a_large_graphics_processor_is_not_given_twice() {
    let with = |memory: &str| json!({"gpuMemory": memory});
    let mixed = land(0, &["4Gi", "16Gi"]);
    assert!(fits(&mixed, &[with("8Gi"), json!({"gpu": 1})]));
    assert!(fits(&mixed, &[json!({"gpu": 1}), with("8Gi")]));
    assert!(fits(&mixed, &[with("2Gi"), with("8Gi")]));
    assert!(!fits(&mixed, &[with("8Gi"), with("8Gi")]));
    assert!(!fits(&mixed, &[with("8Gi"), with("16Gi")]));
    assert!(!fits(&mixed, &[with("2Gi"), with("2Gi"), json!({"gpu": 1})]));
    assert!(!fits(&mixed, &[json!({"gpu": 2}), with("2Gi")]));
}

#[test]
fn what_is_short_is_named_as_it_was_asked_for() {
    let parts = json!([
        {"name": "a", "needs": {"devices": ["cam0"], "gpuMemory": "8Gi"}},
        {"name": "b", "needs": {"devices": ["camera"]}},
    ]);
    let plan = land(1, &["8Gi"]).with([web(parts)]).plan(&Options::default());
    let reasons = &plan.apps[0].unplaced[0].reasons;
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].starts_with("together they need 2 cam0 or camera,"), "{reasons:?}");
    let part = json!([{"name": "a", "replicas": 2, "needs": {"gpuMemory": "8Gi"}}]);
    let plan = land(0, &["8Gi", "1Gi"]).with([web(part)]).plan(&Options::default());
    assert!(plan.apps[0].unplaced[0].reasons[0].contains("2 gpu with 8Gi memory"));
}
