//! ACCORDION's models: the published ones, field by field.

use serde_json::json;
use tombolo_descriptor::Reading;

use crate::{clean, diagnostics, is_noted, only_app, projects, reading};

const PLATFORM: &str = "topology_template.node_templates.Cloud_Framework.properties";

fn components(reading: &Reading) -> serde_json::Value {
    serde_json::to_value(&reading.apps[0].spec.components).unwrap()
}

#[test]
fn the_model_of_orbk_becomes_an_app() {
    let Some(text) = projects::file("foreign", "data/accordion/ceaml/v1/tosca_orbk.yaml") else {
        return;
    };
    let reading = clean(&text);
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("orbk"));
    assert_eq!(app.spec.description.as_deref(), Some("Application model of ORBK Use Case"));
    assert_eq!(
        components(&reading),
        json!([{
            "name": "gameserver",
            "replicas": 1,
            "run": [{"container": {
                "image": "registry.gitlab.com/orbkaccserver:latest", "ports": [20765],
            }}],
            "needs": {
                "cpu": "1", "memory": "512M", "storage": "20G", "arch": ["amd64"],
                "layers": ["near-edge", "far-edge"],
            },
            "expose": [{"port": 20765, "protocol": "udp", "public": true}],
        }])
    );
    assert_eq!(
        serde_json::to_value(&app.spec.policies).unwrap(),
        json!([
            {
                "name": "max-number-of-players",
                "components": ["gameserver"],
                "condition": {
                    "expr": "players{{{subject_label_selector}}}", "violatedIf": ">= 100",
                },
                "remediation": {"action": "scale-up"},
            },
            {
                "name": "server-empty",
                "components": ["gameserver"],
                "condition": {"expr": "players{{{subject_label_selector}}}", "violatedIf": "== 0"},
                "remediation": {"action": "scale-down", "replicasMin": 0},
            },
            {
                "name": "onlowqoeevent",
                "components": ["gameserver"],
                "condition": {"expr": "qoe_metric{{{subject_label_selector}}}", "violatedIf": "< 3"},
                "remediation": {"action": "redeploy"},
            },
        ])
    );
    // A failure, players that are far away, the wish for the first place, and the second half of
    // the last policy.
    for index in [2, 3, 4, 6] {
        assert!(is_noted(&reading, &format!("{PLATFORM}.workflows[{index}]")), "{index}");
    }
    for index in [0, 1] {
        assert!(is_noted(&reading, &format!("{PLATFORM}.deployment_phase[{index}]")), "{index}");
    }
    let registry =
        "topology_template.node_templates.GameServer.properties.registry.properties.type";
    assert!(is_noted(&reading, registry));
    assert_eq!(reading.diagnostics, []);
}

#[test]
fn the_model_of_plexus_becomes_an_app() {
    let Some(text) = projects::file("foreign", "data/accordion/ceaml/v1/tosca_plexus.yaml") else {
        return;
    };
    let reading = clean(&text);
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("plexus"));
    assert_eq!(
        components(&reading),
        json!([
            {
                "name": "localservice",
                "run": [{"container": {"image": "registry.gitlab.com/localservice:latest"}}],
                "needs": {
                    "cpu": "1", "memory": "500M", "storage": "5G", "arch": ["arm64"],
                    "labels": {"building_type": "mall", "wifi_antenna": "true"},
                    "layers": ["near-edge", "far-edge"],
                },
            },
            {
                "name": "lsnuc",
                "replicas": 1,
                "run": [{"container": {
                    "image": "registry.gitlab.com/lsnuc:latest", "ports": [1883, 5556, 7777],
                }}],
                "needs": {
                    "memory": "500M", "storage": "3G", "arch": ["amd64"],
                    "labels": {"building_type": "mall"},
                    "layers": ["near-edge", "far-edge"],
                },
                "expose": [
                    {"port": 1883, "protocol": "tcp", "public": true},
                    {"port": 5556, "protocol": "tcp", "public": true},
                    {"port": 7777, "protocol": "udp", "public": true},
                ],
            },
        ])
    );
    let policies: Vec<_> = app
        .spec
        .policies
        .iter()
        .map(|policy| {
            let action = policy.remediation.as_ref().unwrap().action.as_str();
            (policy.name.as_str(), policy.components[0].as_str(), action)
        })
        .collect();
    assert_eq!(
        policies,
        [
            ("localservice-hardware-overload", "localservice", "redeploy"),
            ("localservice-network-overload", "localservice", "redeploy"),
            ("ls-qoe-degredation", "localservice", "migrate"),
            ("lsnuc-qoe-degredation", "lsnuc", "scale-down"),
            ("lsnuc-hardware-overload", "lsnuc", "redeploy"),
            ("lsnuc-network-overload", "lsnuc", "redeploy"),
        ]
    );
    assert_eq!(
        app.spec.policies[1].condition.expr.as_deref(),
        Some(
            "(bandwidth{{{subject_label_selector}}} > 80) or on ({{subject_label_list}}) \
             (avg_latency{{{subject_label_selector}}} > 20)"
        )
    );
    let every = "topology_template.node_templates.LocalService.properties.daemon_set";
    assert!(is_noted(&reading, every));
    assert_eq!(reading.diagnostics, []);
}

#[test]
fn the_model_of_soprano_becomes_an_app() {
    let Some(text) = projects::file("foreign", "data/accordion/ceaml/v2/tosca_soprano.yaml") else {
        return;
    };
    let reading = clean(&text);
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("epos"));
    assert_eq!(
        components(&reading),
        json!([{
            "name": "epos",
            "replicas": 1,
            "run": [{"container": {"image": "gkorod/topo:v2.0", "ports": [20765]}}],
            "needs": {
                "cpu": "1", "memory": "512M", "storage": "20G", "gpu": 1, "arch": ["amd64"],
                "devices": ["nvidia.com/TU117_GEFORCE_GTX_1650"],
                "layers": ["near-edge", "far-edge"],
            },
            "expose": [{"port": 20765, "protocol": "udp", "public": true}],
        }])
    );
    assert_eq!(app.spec.policies, []);
    for path in ["cluster_size", "total_num_cpus", "total_mem_size", "total_disk_size", "members"] {
        let path = format!("topology_template.node_templates.Cluster.properties.{path}");
        assert!(is_noted(&reading, &path), "no note on {path}");
    }
    assert!(is_noted(&reading, &format!("{PLATFORM}.optimizations")));
    assert_eq!(reading.diagnostics, []);
}

#[test]
fn the_definitions_of_types_are_no_application() {
    for version in ["v1", "v2"] {
        let path = format!("data/accordion/ceaml/{version}/definitions/{version}_syntax.yaml");
        let Some(text) = projects::file("foreign", &path) else { return };
        let reading = reading(&text);
        assert_eq!(reading.apps, []);
        let told = diagnostics(&text, &reading);
        assert_eq!(told, [r#"1: missing-field: "topology_template" is missing"#]);
    }
}

#[test]
fn components_of_two_applications_become_two_apps() {
    let text = "\
tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    Board:
      type: Component
      properties:
        registry: {properties: {image: \"board:1\"}}
        name: board
        application: chess
        dependency: [{component: Players, property: ip}]
    Players:
      type: Component
      properties:
        registry: {properties: {image: \"players:1\"}}
        name: players
        application: club
";
    let reading = clean(text);
    let names: Vec<_> = reading.apps.iter().map(|app| app.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["chess", "club"]);
    let connection = &reading.apps[0].spec.components[0].connects[0];
    assert_eq!((connection.to.as_str(), connection.app.as_deref()), ("players", Some("club")));
}

#[test]
fn members_of_a_cluster_that_differ_are_told() {
    let text = "\
tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  node_templates:
    Small:
      type: tosca.nodes.Compute.EdgeNode
      capabilities: {host: {properties: {num_cpus: 1}}}
    Large:
      type: tosca.nodes.Compute.EdgeNode
      capabilities: {host: {properties: {num_cpus: 8}}}
    Both:
      type: tosca.nodes.Compute.Cluster
      properties: {members: [Small, Large]}
    Board:
      type: Component
      properties:
        registry: {properties: {image: \"board:1\"}}
        application: chess
      requirements: [{host: Both}]
";
    let app = only_app(text);
    let cpu = app.spec.components[0].needs.as_ref().unwrap().cpu;
    assert_eq!(cpu.unwrap().to_string(), "1");
    assert!(is_noted(
        &reading(text),
        "topology_template.node_templates.Both.properties.members[1]"
    ));
}
