//! Which Apps get a new look although all of their instances run.

use super::*;

#[test]
fn a_graphics_processor_that_is_asked_for_by_its_memory_is_taken() {
    let text = "
        site s docker
        node n s cpu=4 gpu=8Gi
    ";
    let part = |needs: Value| json!({"components": [{"name": "x", "needs": needs}]});
    let first = crate::testing::app("first", part(json!({"gpuMemory": "4Gi"})));
    let mut world = world(text).with([first]);
    let plan = world.plan(&Options::default());
    world.settle(&plan);
    assert_eq!(shown(&world.plan(&Options::default())), "");
    for needs in [json!({"gpu": 1}), json!({"gpuMemory": "1Gi"})] {
        let second = crate::testing::app("second", part(needs));
        let crowded = world.clone().with([second]).plan(&Options::default());
        assert!(shown(&crowded).contains("needs 1 gpu"), "{}", shown(&crowded));
    }
}
