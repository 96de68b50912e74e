//! Every need, met and missed, with what is said about it.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::ask::{Slot, slots};
use crate::testing::{web, world};

/// What one instance with these needs says about node `n`.
#[track_caller]
fn check(node: &str, component: Value, expect: Expect) {
    let site = "docker country=DE city=Berlin layer=near-edge lat=52.5 lon=13.4";
    check_at(site, node, component, expect);
}

#[track_caller]
fn check_at(site: &str, node: &str, component: Value, expect: Expect) {
    let world = world(&format!("site s {site}\nnode n s {node}"));
    let mut component = component;
    component["name"] = json!("web");
    let app = web(json!([component]));
    let (continuum, troubles) = Continuum::of(&world.sites, &world.nodes, &world.links);
    assert_eq!(troubles, []);
    let component = &app.spec.components[0];
    let ask = Ask::new(component, slots(component)[0]);
    let look = Look { continuum: &continuum, left: &continuum.node(0).total, ask: &ask, node: 0 };
    let lines: Vec<String> = failing(&look)
        .iter()
        .map(|asked| {
            let mend = (asked.need.mend)(&look, asked.number);
            format!("{} | would fit {}\n", asked.rejection(&look), mend.says)
        })
        .collect();
    expect.assert_eq(&lines.concat());
}

#[test]
fn says_what_is_missing_and_by_how_much() {
    let fits = "cpu=4 memory=8Gi storage=10Gi";
    check(fits, json!({"needs": {"cpu": 4, "memory": "8Gi", "storage": "10Gi"}}), expect![""]);
    check(
        "cpu=1.5 memory=6Gi storage=1Gi",
        json!({"needs": {"cpu": 2, "memory": "7Gi", "storage": "10Gi"}}),
        expect![[r#"
        needs 2 cpu, has 1.5 | would fit with 1.5 cpu instead of 2
        needs 7Gi memory, has 6Gi | would fit with 6Gi memory instead of 7Gi
        needs 10Gi storage, has 1Gi | would fit with 1Gi storage instead of 10Gi
    "#]],
    );
    check(
        "cpu=1",
        json!({"needs": {"gpu": 1}}),
        expect![[r#"
        needs 1 gpu, has 0 | would fit with 0 gpu instead of 1
    "#]],
    );
    check(
        "cpu=1 gpu=4Gi",
        json!({"needs": {"gpuMemory": "8Gi"}}),
        expect![[r#"
        needs 1 gpu with 8Gi memory, has 0 of them | would fit with gpu memory 4Gi instead of 8Gi
    "#]],
    );
}

#[test]
fn an_amount_that_is_exactly_there_is_enough() {
    check(
        "cpu=2 gpu=8Gi device=camera",
        json!({"needs": {"cpu": 2, "gpu": 1, "gpuMemory": "8Gi", "devices": ["camera"]}}),
        expect![""],
    );
}

#[test]
fn compares_what_a_node_is() {
    check(
        "arch=amd64",
        json!({"needs": {"arch": ["arm64"]}}),
        expect![[r#"
        needs architecture arm64, is amd64 | would fit if it could run on amd64
    "#]],
    );
    check("arch=aarch64", json!({"needs": {"arch": ["arm64"]}}), expect![""]);
    check(
        "tier=gold",
        json!({"needs": {"labels": {"tier": "silver", "zone": "a"}}}),
        expect![[r#"
        needs label tier=silver, has gold | would fit with the label tier=silver on it
        needs label zone=a, does not have it | would fit with the label zone=a on it
    "#]],
    );
    check(
        "device=camera",
        json!({"needs": {"devices": ["camera", "lidar"]}}),
        expect![[r#"
        needs device lidar, has none that is free | would fit without device lidar
    "#]],
    );
    check(
        "security=42",
        json!({"needs": {"security": "high", "compliance": 10}}),
        expect![[r#"
        needs security 67, has 42 | would fit with security 42 instead of 67
        needs compliance 10, has no score | would fit if it had a compliance score of 10
    "#]],
    );
    check("security=34", json!({"needs": {"security": "medium"}}), expect![""]);
    check("", json!({"needs": {"security": "low"}}), expect![""]);
}

#[test]
fn compares_where_a_node_is() {
    check(
        "",
        json!({"needs": {"regions": ["de"], "layers": ["near-edge"], "sites": ["s"], "nodes": ["n"]}}),
        expect![""],
    );
    check(
        "",
        json!({"needs": {"regions": ["GR"], "layers": ["cloud"], "sites": ["t"], "nodes": ["m"]}}),
        expect![[r#"
        needs region GR, is in DE | would fit if region DE would do
        needs site t, is at s | would fit if site s would do
        needs node m, is n | would fit if node n would do
        needs layer cloud, is near-edge | would fit if layer near-edge would do
    "#]],
    );
    let near = |km: f64| json!({"needs": {"near": {"latitude": 48.1, "longitude": 11.6, "distanceKmMax": km}}});
    check("", near(600.0), expect![""]);
    check(
        "",
        near(400.0),
        expect![[r#"
            needs to be within 400 km of 48.1, 11.6, is 506 km away | would fit if 506 km were near enough
        "#]],
    );
    check(
        "",
        json!({"places": [{"by": "city", "values": ["Athens"]}]}),
        expect![[r#"
        needs city Athens, is in Berlin | would fit if city Berlin would do
    "#]],
    );
    check(
        "",
        json!({"places": [{"by": "city", "operator": "NotIn", "values": ["berlin"]}]}),
        expect![[r#"
        needs a place that is not ruled out, is elsewhere | would fit if berlin were not ruled out
    "#]],
    );
}

#[test]
fn a_continent_goes_by_its_name_and_by_its_code() {
    let on = |continent: &str| json!({"places": [{"by": "continent", "values": [continent]}]});
    for (site, asked) in [("EU", "Europe"), ("Europe", "eu"), ("NA", "North_America")] {
        check_at(&format!("docker continent={site}"), "", on(asked), expect![""]);
    }
    check_at(
        "docker continent=EU",
        "",
        on("Asia"),
        expect![[r#"
            needs continent Asia, is in EU | would fit if continent EU would do
        "#]],
    );
}

#[test]
fn a_toleration_is_of_a_key_a_value_and_an_effect_or_of_any() {
    check("taint=lab:NoSchedule", json!({"needs": {"tolerations": [{"key": "lab"}]}}), expect![""]);
    check(
        "taint=lab:NoSchedule",
        json!({"needs": {"tolerations": [{"key": "lab", "effect": "NoSchedule"}]}}),
        expect![""],
    );
    // Without a key, every taint is tolerated; of that effect, if it names one.
    check("taint=lab:NoSchedule", json!({"needs": {"tolerations": [{}]}}), expect![""]);
    check(
        "taint=lab:NoSchedule",
        json!({"needs": {"tolerations": [{"effect": "NoExecute"}]}}),
        expect![[r#"
        needs a node without taints that it does not tolerate, has taint lab:NoSchedule | would fit if it tolerated taint lab:NoSchedule
    "#]],
    );
    check(
        "taint=lab=blue:NoSchedule",
        json!({"needs": {"tolerations": [{"key": "lab", "value": "blue"}]}}),
        expect![""],
    );
    check(
        "taint=lab=blue:NoSchedule",
        json!({"needs": {"tolerations": [{"key": "lab", "value": "red"}]}}),
        expect![[r#"
        needs a node without taints that it does not tolerate, has taint lab=blue:NoSchedule | would fit if it tolerated taint lab=blue:NoSchedule
    "#]],
    );
    check(
        "taint=lab:NoSchedule",
        json!({"needs": {"tolerations": [{"key": "lab", "value": "blue"}]}}),
        expect![[r#"
        needs a node without taints that it does not tolerate, has taint lab:NoSchedule | would fit if it tolerated taint lab:NoSchedule
    "#]],
    );
    check(
        "taint=lab:NoSchedule",
        json!({"needs": {"tolerations": [{"key": "lab", "effect": "NoExecute"}]}}),
        expect![[r#"
        needs a node without taints that it does not tolerate, has taint lab:NoSchedule | would fit if it tolerated taint lab:NoSchedule
    "#]],
    );
}

#[test]
fn compares_how_a_node_fares() {
    check(
        "silent",
        json!({}),
        expect![[r#"
        needs a node that is ready, is not: no heartbeat for 60 s | would fit if it were ready
    "#]],
    );
    check(
        "cordoned",
        json!({}),
        expect![[r#"
        needs a node that takes new work, is cordoned | would fit if it were not cordoned
    "#]],
    );
    check(
        "taint=lab:NoSchedule",
        json!({}),
        expect![[r#"
        needs a node without taints that it does not tolerate, has taint lab:NoSchedule | would fit if it tolerated taint lab:NoSchedule
    "#]],
    );
    check(
        "taint=tombolo.dev/drain:NoExecute",
        json!({}),
        expect![[r#"
        needs a node without taints that it does not tolerate, is being drained | would fit if it were not drained
    "#]],
    );
    check(
        "",
        json!({"run": [{"process": {"command": ["x"]}}]}),
        expect![[r#"
        needs an engine that can run it (host), has docker | would fit with a way to run it on docker
    "#]],
    );
    check(
        "",
        json!({"run": [{"process": {"command": ["x"]}}, {"container": {"image": "x"}}]}),
        expect![""],
    );
    check(
        "",
        json!({"needs": {"engines": ["kubernetes"]}}),
        expect![[r#"
        needs an engine that can run it (kubernetes), has docker | would fit with a way to run it on docker
    "#]],
    );
}

#[test]
fn places_count_instances_by_value() {
    let app = web(json!([
        {"name": "a", "places": [{"by": "country", "values": ["DE", "GR"], "quantity": 2}]},
        {"name": "b", "replicas": 3, "places": [{"by": "country", "values": ["DE"]}]},
        {"name": "c", "onEach": {"label": "room", "values": ["1", "2"]}},
    ]));
    let of = |component: usize| slots(&app.spec.components[component]);
    let de = Slot::Place(tombolo_model::needs::PlaceKey::Country, "DE");
    let gr = Slot::Place(tombolo_model::needs::PlaceKey::Country, "GR");
    assert_eq!(of(0), [de, de, gr, gr]);
    assert_eq!(of(1), [de, Slot::AnyPlace, Slot::AnyPlace]);
    assert_eq!(of(2), [Slot::Label("room", "1"), Slot::Label("room", "2")]);
}

#[test]
fn the_sieve_admits_whom_no_need_rejects() {
    let text = "
        site s docker country=DE lat=52.5 lon=13.4\nsite t host country=GR layer=far-edge
        node a s cpu=4 arch=arm64 tier=gold device=camera security=70
        node b s cpu=4 arch=amd64 tier=gold taint=gpu:NoSchedule cordoned
        node c t cpu=4 arch=arm64 tier=silver silent security=20
        node d t cpu=4 tier=gold taint=old:NoExecute compliance=90
    ";
    let world = world(text);
    let (continuum, _) = Continuum::of(&world.sites, &world.nodes, &world.links);
    let free: Vec<Amounts<'_>> = continuum.nodes.iter().map(|row| row.total.clone()).collect();
    let mut sieve = Sieve::default();
    let app = web(json!([
        {"name": "p"},
        {"name": "q", "needs": {"labels": {"tier": "gold"}}},
        {"name": "r", "needs": {"labels": {"tier": "silver"}}},
        {"name": "s", "needs": {"labels": {"tombolo.dev/site": "s"}, "arch": ["arm64"]}},
        {"name": "t", "needs": {"tolerations": [{"key": "gpu"}, {"key": "old"}]}},
        {"name": "u", "needs": {"tolerations": [{"key": "old"}], "security": "low"}},
        {"name": "v", "needs": {"security": "high", "devices": ["camera"]}},
        {"name": "w", "needs": {"regions": ["gr"], "compliance": 50, "layers": ["far-edge"]}},
        {"name": "x", "onEach": {"label": "tier", "values": ["gold", "silver"]}},
        {"name": "y", "run": [{"process": {"command": ["/bin/y"]}}], "needs": {"nodes": ["c", "d"]}},
    ]));
    let mut admitted = 0;
    for component in &app.spec.components {
        for slot in slots(component) {
            for staying in [None, Some(0), Some(1), Some(2), Some(3)] {
                let ask = Ask { staying, ..Ask::new(component, slot) };
                let found = sieve.admitted(&continuum, &free, &ask);
                for node in 0..4 {
                    let left = &free[node as usize];
                    let look = Look { continuum: &continuum, left, ask: &ask, node };
                    let failing = failing(&look).iter().any(|asked| !asked.need.amount);
                    assert_eq!(found.contains(node), !failing, "{} on {node}", component.name);
                    admitted += usize::from(!failing);
                }
            }
        }
    }
    assert!(admitted > 40, "{admitted}");
}

#[test]
fn what_reaches_beyond_its_walls_runs_only_where_the_site_allows_it() {
    let process = |more: Value| {
        let mut process = json!({"command": ["a"]});
        process.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"run": [{"process": process}]})
    };
    let volume = |path: &str| {
        let volumes = json!([{"path": "/x", "hostPath": path}]);
        json!({"run": [{"container": {"image": "a", "volumes": volumes}}]})
    };
    check_at("host", "", process(json!({})), expect![""]);
    check_at(
        "host allow=",
        "",
        process(json!({})),
        expect![[r#"
            needs a site that allows process, s does not allow process | would fit if spec.allow of site s named process
        "#]],
    );
    check_at(
        "host",
        "",
        process(json!({"user": "root"})),
        expect![[r#"
            needs a site that allows process and host-user, s does not allow host-user | would fit if spec.allow of site s named host-user
        "#]],
    );
    check_at("host allow=process,host-user", "", process(json!({"user": "root"})), expect![""]);
    check_at(
        "docker",
        "",
        volume("/run/docker.sock"),
        expect![[r#"
            needs a site that allows host-path and engine-socket, s does not allow host-path and engine-socket | would fit if spec.allow of site s named host-path and engine-socket
        "#]],
    );
    check_at("docker allow=host-path", "", volume("/srv"), expect![""]);
}

#[test]
fn a_machine_that_cannot_confine_programs_takes_none_unless_its_site_allows_that() {
    let process = json!({"run": [{"process": {"command": ["a"]}}]});
    check_at(
        "host",
        "unconfined",
        process.clone(),
        expect![[r#"
            needs a site that allows process, cannot confine programs: no user namespaces | would fit if spec.allow of site s named unconfined-process
        "#]],
    );
    check_at("host allow=process,unconfined-process", "unconfined", process, expect![""]);
    check_at("docker", "unconfined", json!({"run": [{"container": {"image": "a"}}]}), expect![""]);
}
