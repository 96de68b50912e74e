//! What callers are told of those whom they call.

use super::*;

#[test]
fn tells_callers_where_those_they_call_are() {
    let mut stage = Stage::new(&["a1:4"]);
    let mut web = component("web", 1, "1");
    web["connects"] = json!([{"to": "data", "port": 5432}]);
    let mut data = component("data", 2, "1");
    data["connects"] = json!([{"to": "web"}]);
    data["expose"] = json!([{"port": 5432, "protocol": "tcp", "public": true}]);
    stage.apply("shop", app(&[web, data]));
    stage.settle();
    let web = stage.observed.assignments.iter().find(|a| a.spec.component == "web").unwrap();
    assert_eq!(web.spec.peers[0].addresses, ["a1.example:5432"]);
    assert!(!web.spec.peers[0].first, "they call each other");
    let status = stage.observed.apps[0].status.as_ref().unwrap();
    assert_eq!(status.endpoints[0].url, "tcp://a1.example:5432");
}

/// Two callers and what they call, each kept to its nodes.
fn callers(on_move: &str, nodes: &[&str]) -> Value {
    let mut web = component("web", 2, "100m");
    web["connects"] = json!([{"to": "data", "port": 5432, "onMove": on_move}]);
    web["needs"]["nodes"] = json!(["a1"]);
    let mut data = component("data", 1, "100m");
    data["needs"]["nodes"] = json!(nodes);
    app(&[web, data])
}

fn called(stage: &Stage) -> Vec<String> {
    let webs = stage.observed.assignments.iter().filter(|a| a.spec.component == "web");
    let said = |a: &Shared<Assignment>| {
        let peer = &a.spec.peers[0];
        let bound = peer.bound.as_ref().map(|bound| format!(" bound to {bound}"));
        format!("{}{}", peer.addresses.join(","), bound.unwrap_or_default())
    };
    webs.map(said).collect()
}

#[test]
fn addresses_follow_a_peer_to_another_site_and_port() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    stage.apply("shop", callers("tell", &["b1"]));
    stage.settle();
    assert_eq!(called(&stage), ["b1.example:5432", "b1.example:5432"]);
    // Its agent has published it elsewhere.
    let data = stage.observed.assignments.iter_mut().find(|a| a.spec.component == "data").unwrap();
    let ports = json!([{"port": 5432, "protocol": "tcp", "published": 30001}]);
    data.status.as_mut().unwrap().ports = serde_json::from_value(ports).unwrap();
    stage.look(usize::MAX);
    assert_eq!(called(&stage), ["b1.example:30001", "b1.example:30001"]);
    // It moves: both are known while both are up, then only the new one.
    stage.apply("shop", callers("tell", &["a1"]));
    stage.settle();
    assert_eq!(called(&stage), ["a1.example:5432", "a1.example:5432"]);
    // It is up no longer.
    let data = stage.observed.assignments.iter_mut().find(|a| a.spec.component == "data").unwrap();
    data.status.as_mut().unwrap().conditions.clear();
    stage.look(usize::MAX);
    assert_eq!(called(&stage), ["", ""]);
}

#[test]
fn the_nearest_peer_comes_first_a_silent_one_last_and_not_all_callers_begin_with_the_same() {
    let mut stage = Stage::new(&["a1:4", "a2:4", "a3:4", "b1:4"]);
    let mut web = component("web", 2, "100m");
    web["connects"] = json!([{"to": "data", "port": 1}]);
    web["needs"]["nodes"] = json!(["a1"]);
    let mut data = component("data", 3, "3");
    data["needs"]["nodes"] = json!(["a2", "a3", "b1"]);
    stage.apply("shop", app(&[web, data]));
    stage.settle();
    assert_eq!(
        called(&stage),
        ["a2.example:1,a3.example:1,b1.example:1", "a3.example:1,a2.example:1,b1.example:1"]
    );
    stage.set_ready("a2", false);
    stage.look(usize::MAX);
    let expected = "a3.example:1,b1.example:1,a2.example:1";
    assert_eq!(called(&stage), [expected, expected]);
}

#[test]
fn a_caller_that_is_bound_to_an_address_is_restarted_when_that_is_gone() {
    let mut stage = Stage::new(&["a1:4", "b1:4", "c1:4"]);
    stage.apply("shop", callers("restart", &["b1"]));
    stage.settle();
    let before = ["b1.example:5432 bound to b1.example:5432"; 2];
    assert_eq!(called(&stage), before);
    // It is down for a moment: there is no other, so nothing is restarted.
    let data = stage.observed.assignments.iter_mut().find(|a| a.spec.component == "data").unwrap();
    data.status.as_mut().unwrap().conditions.clear();
    stage.look(usize::MAX);
    assert_eq!(called(&stage), [" bound to b1.example:5432"; 2]);
    stage.settle();
    assert_eq!(called(&stage), before);
    // It moves: one caller after the other follows.
    stage.apply("shop", callers("restart", &["c1"]));
    for _ in 0..10 {
        stage.look(usize::MAX);
        let bound = called(&stage).iter().filter(|one| one.ends_with("c1.example:5432")).count();
        if bound > 0 {
            assert_eq!(bound, 1, "the other waits until the first is up again");
            break;
        }
        stage.agents();
    }
    stage.settle();
    assert_eq!(called(&stage), ["c1.example:5432 bound to c1.example:5432"; 2]);
}

#[test]
fn a_port_is_opened_for_a_caller_of_another_app_and_one_that_moves_or_goes_restarts_nobody() {
    let mut stage = Stage::new(&["a1:4", "b1:4"]);
    let mut data = component("data", 1, "100m");
    data["expose"] = json!([{"port": 5432}]);
    stage.apply("store", app(&[data]));
    stage.settle();
    let called = |stage: &Stage| {
        let mut all = stage.observed.assignments.iter();
        all.find(|one| one.spec.component == "data").unwrap().spec.clone()
    };
    assert_eq!(called(&stage).reach, Some(Vec::new()), "nobody calls it");
    let caller = |node: &str| {
        let mut web = component("web", 1, "100m");
        web["connects"] = json!([{"to": "data", "app": "store"}]);
        web["needs"]["nodes"] = json!([node]);
        app(&[web])
    };
    stage.apply("shop", caller("a1"));
    stage.settle();
    let open = called(&stage);
    let shown: Vec<String> =
        open.reach.iter().flatten().map(|one| format!("{} {}", one.port, one.from)).collect();
    assert_eq!(shown, ["5432 node"]);
    stage.apply("shop", caller("b1"));
    stage.settle();
    assert_eq!(called(&stage), open, "its caller has moved");
    let mut quiet = component("web", 1, "100m");
    quiet["needs"]["nodes"] = json!(["b1"]);
    stage.apply("shop", app(&[quiet]));
    stage.settle();
    assert_eq!(called(&stage), open, "nobody calls it any more");
}
