//! Nodes as ACCORDION's clients read them, also held against that project's own files where they
//! are at hand.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::{Value, json};
use tombolo_model::{Node, NodeSpec};

use super::{json_by_topic, json_of_all, tosca_of_all};
use crate::testing::sample;

/// A server of eight threads with a GPU, as its agent has described it.
fn rack7() -> Node {
    node(include_str!("nodes/rack7.json"))
}

/// A laptop.
fn bag() -> Node {
    node(include_str!("nodes/bag.json"))
}

/// A Raspberry Pi.
fn pi_door() -> Node {
    node(include_str!("nodes/pi-door.json"))
}

fn node(text: &str) -> Node {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_node_as_a_device() {
    let shown = super::json(&rack7());
    expect![[r#"
        {
          "device": {
            "Battery": "None",
            "CPU": {
              "Arch": "x86_64",
              "bits": "64",
              "cores": 8,
              "model": "Intel(R) Xeon(R) Gold 6230"
            },
            "DISK": [
              {
                "device": "/dev/nvme0n1",
                "fstype": "None",
                "mountpoint": "None",
                "size(bytes)": 1000204886016,
                "type": "nvme"
              },
              {
                "device": "/dev/sda",
                "fstype": "None",
                "mountpoint": "None",
                "size(bytes)": 4000787030016,
                "type": "hdd"
              }
            ],
            "GPU": {
              "GPU_name": "NVIDIA A100-PCIE-40GB",
              "GPU_type": "Dedicated graphics processing",
              "GPU_video_memory(bytes)": "None",
              "unified_memory": "no"
            },
            "K3s": {
              "node_role": ""
            },
            "OS": {
              "OS_name": "Linux",
              "OS_version": "6.1.0-28-amd64"
            },
            "RAM(bytes)": 134217728000,
            "Region": {
              "city": "Athens",
              "continent": "Europe",
              "country": "Greece"
            },
            "UUID": "8fce3e83-c50b-8dfd-87e5-769e6a57e5f7",
            "_id": {
              "$oid": "8fce3e83c50b8dfd87e5769e"
            },
            "device_name": "rack7",
            "ip": "192.0.2.7"
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn a_node_as_tosca() {
    expect![[r#"
        tosca_definitions_version: tosca_simple_yaml_1_2

        description: Characterization of nodes

        topology_template:
          node_templates:
            "pi-door":
              type: tosca.nodes.Compute.EdgeNode
              properties:
                device_name: "pi-door"
                UUID: "342807d5-2bb7-8725-af28-b51070b475f1"
                device_model: "Raspberry Pi 4 Model B Rev 1.4"
                gpu_model:
                  model: "brcm 2711-v3d"
                  dedicated: false
                geolocation:
                  continent: "Europe"
                  country: "Greece"
                  city: "Athens"
                  latitude: 37.98
                  longitude: 23.73
              capabilities:
                host:
                  properties:
                    num_cpus: 4
                    cpu_frequency: "1800 MHz"
                    mem_size: "3977584640 B"
                    disk_size: "31914983424 B"
                os:
                  properties:
                    architecture: "aarch64"
                    type: "linux"
                    distribution: "debian"
                    version: "12"
    "#]]
    .assert_eq(&tosca_of_all([&pi_door()]));
}

#[test]
fn a_node_that_nobody_has_looked_at_yet() {
    let new = Node::new("new", NodeSpec::default());
    assert_eq!(super::json(&new)["device"]["RAM(bytes)"], "None");
    expect![[r#"
        tosca_definitions_version: tosca_simple_yaml_1_2

        description: Characterization of nodes

        topology_template:
          node_templates:
            "new":
              type: tosca.nodes.Compute.EdgeNode
              properties:
                device_name: "new"
              capabilities:
                host:
                  properties:
                    num_cpus: 0
                    disk_size: "0 B"
                os:
                  properties:
                    architecture: "unknown"
                    type: "linux"
    "#]]
    .assert_eq(&tosca_of_all([&new]));
    let empty = tosca_of_all(std::iter::empty());
    assert!(empty.ends_with("node_templates: {}\n"));
}

#[test]
fn a_name_cannot_break_out_of_the_document() {
    let mut odd = Node::new("a", NodeSpec::default());
    odd.metadata.name = Some("x\"\n  evil: yes".into());
    let document = tosca_of_all([&odd]);
    assert!(!document.contains("\n  evil"), "{document}");
}

#[test]
fn several_nodes_by_topic() {
    let nodes = [rack7(), bag()];
    let shown = json_by_topic(&nodes, 1_663_065_257.826, "mini-1");
    assert_eq!(shown["timestamp"], json!(1_663_065_257.826));
    assert_eq!(shown["CPU Characterization"][0]["node_cpu_cores"], "8");
    assert_eq!(shown["Battery Characterization"][1]["node_battery_percent"], "80");
    assert_eq!(shown["Location Characterization"][1]["node_latitude"], "37.98");
    assert_eq!(shown["GPU Characterization"][0]["quantity"], "1");
    assert_eq!(json_of_all(&nodes).as_array().map(Vec::len), Some(2));
}

/// The shape is theirs if every name in their file is also in ours.
#[test]
fn the_topics_have_the_fields_of_the_projects_own_answer() {
    let test = "the_topics_have_the_fields_of_the_projects_own_answer";
    let path = "data/accordion/monitoring/characterization.json";
    let Some(text) = sample(test, path) else { return };
    let theirs: Value = serde_json::from_str(&text).unwrap();
    let ours = json_by_topic([&rack7()], 1.0, "");
    assert_eq!(fields(&theirs, ""), fields(&ours, ""));
}

fn fields(value: &Value, path: &str) -> BTreeSet<String> {
    match value {
        Value::Object(map) => {
            map.iter().flat_map(|(name, value)| fields(value, &format!("{path}/{name}"))).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| fields(item, path)).collect(),
        Value::String(_) => BTreeSet::from([format!("{path} text")]),
        Value::Number(_) => BTreeSet::from([format!("{path} number")]),
        Value::Null | Value::Bool(_) => BTreeSet::from([format!("{path} other")]),
    }
}
