//! Objects that are right: the files in `examples/` and a full sample of each kind. They validate
//! without a finding, and come back unchanged from the typed form.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use k8s_openapi::serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{Value, json};
use tombolo_model::link::Quality;
use tombolo_model::run::Way;
use tombolo_model::{
    App, Arch, Assignment, BitRate, Bytes, Cpu, Duration, Engine, JoinToken, Level, Link, Node,
    Policy, Probing, Site, crds, kind_names, validate,
};

fn example(name: &str) -> Value {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn is_valid(value: &Value) {
    let found: Vec<String> = validate::object(value).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}\n{value:#}", found.join("\n"));
}

/// Reads and writes until nothing can be lost any more: the first writing makes quantities
/// canonical, all later ones must change nothing.
#[track_caller]
fn comes_back<K: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(value: &Value) -> K {
    is_valid(value);
    let typed: K = serde_json::from_value(value.clone()).unwrap();
    let written = serde_json::to_value(&typed).unwrap();
    is_valid(&written);
    assert_eq!(paths(&written), paths(value), "a field got lost or came up");
    let again: K = serde_json::from_value(written).unwrap();
    assert_eq!(again, typed);
    typed
}

/// The paths of all leaves, so that a field that the typed form drops is missed. Those that a
/// default fills in are left out.
fn paths(value: &Value) -> Vec<String> {
    fn collect(prefix: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    collect(&format!("{prefix}.{key}"), value, found);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    collect(&format!("{prefix}[{index}]"), item, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                found.push(prefix.to_owned());
            }
        }
    }
    const DEFAULTED: &[&str] = &[".protocol", ".operator", ".restarts"];
    let mut found = Vec::new();
    collect("", value, &mut found);
    found.retain(|path| !DEFAULTED.iter().any(|name| path.ends_with(name)));
    found.sort();
    found
}

#[test]
fn the_example_app_says_what_it_means() {
    let app: App = comes_back(&example("app-hello.yaml"));
    let [web, store] = app.spec.components.as_slice() else { panic!("two components") };
    assert_eq!((web.count(), store.count()), (2, 1));
    let needs = web.needs.as_ref().unwrap();
    assert_eq!(needs.cpu, Some(Cpu::from_millis(500)));
    assert_eq!(needs.arch, [Arch::Amd64, Arch::Arm64]);
    assert_eq!(needs.security, Some(Level::MEDIUM));
    assert_eq!(web.connects[0].latency, Some(Duration::from_millis(20)));
    assert_eq!(web.connects[0].bandwidth, Some(BitRate::from_bps(10_000_000)));
    assert_eq!(store.needs.as_ref().unwrap().memory, Some(Bytes::new(512_000_000)));
    let way = web.run[1].way().unwrap();
    assert!(matches!(way, Way::Process(_)));
    assert_eq!(way.engines(), [Engine::Host]);
}

#[test]
fn the_other_examples_come_back_unchanged() {
    comes_back::<Site>(&example("site.yaml"));
    let node: Node = comes_back(&example("node.yaml"));
    let cpu = node.status.unwrap().characteristics.unwrap().cpu.unwrap();
    assert_eq!(cpu.architecture, Some(Arch::Arm64));
    comes_back::<App>(&example("app-clock.yaml"));
    comes_back::<Link>(&example("link.yaml"));
    comes_back::<Policy>(&example("policy.yaml"));
}

#[test]
fn what_is_declared_holds_until_a_measurement_contradicts_it() {
    let mut value = example("link.yaml");
    let declared: Link = serde_json::from_value(value.clone()).unwrap();
    value["status"] = json!({"latency": "30ms", "spread": "2ms", "failures": 3});
    let link: Link = comes_back(&value);
    assert_eq!(link.quality(), Quality { failures: Some(3), ..declared.spec.declared.clone() });
    assert!(!link.is_measured());

    value["status"]["conditions"] = json!([{"type": "AsDeclared", "status": "False",
        "reason": "NotAsDeclared", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]);
    let link: Link = comes_back(&value);
    assert_eq!(link.quality().latency, Some(Duration::from_millis(32)), "its bad end");
    assert_eq!(link.quality().bandwidth, declared.spec.declared.bandwidth);
    assert!(link.is_measured());
}

#[test]
fn an_estimate_counts_with_twice_its_spread() {
    let check = |kind: Value, latency: u64| {
        let ends = json!([{"kind": "Site", "name": "a"}, {"kind": "Site", "name": "b"}]);
        let link = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Link",
            "metadata": {"name": "a-b"}, "spec": {"ends": ends},
            "status": {"latency": "30ms", "spread": "2ms", "kind": kind}});
        let link: Link = serde_json::from_value(link).unwrap();
        assert_eq!(link.quality().latency, Some(Duration::from_millis(latency)), "{kind}");
    };
    check(json!(null), 32);
    check(json!("measured"), 32);
    check(json!("estimated"), 34);
}

/// An object of a kind with every field of its schema filled in.
fn full(kind: &str) -> Value {
    let schema = tombolo_model::schema::internal(kind).unwrap();
    let mut object = fill(schema, "");
    object["apiVersion"] = json!("tombolo.dev/v1alpha1");
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "sample", "labels": {"a": "b"}});
    object
}

fn fill(schema: &Value, name: &str) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return words[words.len() - 1].clone();
    }
    match schema["format"].as_str() {
        Some("cpu") => return json!("500m"),
        Some("bytes") => return json!("2Gi"),
        Some("duration") => return json!("5s"),
        Some("bitrate") => return json!("10Mbps"),
        Some("level") => return json!("medium"),
        Some("arch") => return json!("arm64"),
        Some("scalar") => return json!("0.8"),
        Some("path") => return json!("/data"),
        Some("url") => return json!("https://example.org/hook"),
        Some("sha256") => return json!("a".repeat(64)),
        Some("date-time") => return json!("2030-01-31T12:00:00Z"),
        Some(_) | None => (),
    }
    match schema["type"].as_str() {
        Some("object") => match (&schema["properties"], &schema["additionalProperties"]) {
            (Value::Object(properties), _) => properties
                .iter()
                .map(|(key, property)| (key.clone(), fill(property, key)))
                .collect(),
            (_, each @ Value::Object(_)) => json!({"some": fill(each, "some")}),
            (_, _) => json!({"anything": [1, "two"]}),
        },
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(1).max(1);
            (0..count).map(|_| fill(&schema["items"], name)).collect()
        }
        Some("integer") => json!(schema["maximum"].as_u64().unwrap_or(7).min(7)),
        Some("number") => json!(schema["maximum"].as_f64().unwrap_or(7.5).min(0.5)),
        Some("boolean") => json!(true),
        Some("string") => json!("sample"),
        other => panic!("{name} is {other:?}"),
    }
}

/// Takes out of a full sample what cannot stand together.
fn consistent(kind: &str) -> Value {
    let mut value = full(kind);
    let spec = &mut value["spec"];
    let way = json!({"container": spec.pointer("/components/0/run/0/container").or(spec.pointer("/run/container"))});
    let remove = |value: &mut Value, fields: &[&str]| {
        for field in fields {
            value.as_object_mut().unwrap().remove(*field);
        }
    };
    let container = |way: &Value| {
        let mut way = way.clone();
        remove(&mut way["container"]["volumes"][0], &["hostPath"]);
        remove(&mut way["container"]["files"][0], &["secret", "config"]);
        way
    };
    let disconnect = json!({"action": "replace", "after": "5m", "onReturn": "original"});
    match kind {
        "App" => {
            let component = &mut spec["components"][0];
            component["run"] = json!([container(&way)]);
            component["disconnect"] = disconnect.clone();
            remove(component, &["onEach"]);
            remove(&mut component["health"], &["tcp", "exec"]);
            component["needs"]["labelRules"][0]["operator"] = json!("In");
            component["prefers"][0]["labels"][0]["operator"] = json!("In");
            remove(&mut component["prefers"][0], &["with", "apart", "spread"]);
            component["affinity"]["apart"] = json!([]);
            remove(&mut component["affinity"], &["apart"]);
            spec["disconnect"] = disconnect;
            check_only(&mut spec["policies"][0]);
        }
        "Assignment" => {
            spec["run"] = container(&way);
            spec["disconnect"] = disconnect;
            remove(&mut spec["health"], &["tcp", "exec"]);
        }
        "Link" => spec["ends"][1]["name"] = json!("other"),
        "Policy" => check_only(spec),
        _ => (),
    }
    value
}

fn check_only(policy: &mut Value) {
    let condition = policy["condition"].as_object_mut().unwrap();
    let built_in = ["security", "link", "placement", "device", "telemetryLost", "nodeUsage"];
    for field in ["template"].iter().chain(&built_in) {
        condition.remove(*field);
    }
    condition.insert("violatedIf".into(), json!(">= 0.5"));
    policy["remediation"].as_object_mut().unwrap().remove("patch");
    policy.as_object_mut().unwrap().remove("scaling");
}

#[test]
fn a_full_sample_of_every_kind_comes_back_unchanged() {
    comes_back::<App>(&consistent("App"));
    comes_back::<Assignment>(&consistent("Assignment"));
    comes_back::<Site>(&consistent("Site"));
    comes_back::<Node>(&consistent("Node"));
    comes_back::<Link>(&consistent("Link"));
    comes_back::<Probing>(&consistent("Probing"));
    comes_back::<Policy>(&consistent("Policy"));
    comes_back::<JoinToken>(&consistent("JoinToken"));
    assert_eq!(kind_names().count(), 8, "a new kind needs its line above");
    assert_eq!(crds().len(), 8);
}
