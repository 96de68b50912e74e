//! Policies live: samples that come by remote-write, a real server that may be killed, real agents and processes.

use tombolo_model::Policy;
use tombolo_series::{Labels, Sample};
use tombolo_telemetry::wire::Series;
use tombolo_telemetry::wire::remote_write::{Version, encode};

use super::*;

/// A measurement of the component web, now, as a Prometheus would send it.
async fn push(client: &Client, name: &str, value: f64) {
    let labels = [("__name__", name), ("icos_app_name", "shop"), ("icos_app_component", "web")];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at_ms = i64::try_from(now.as_millis()).unwrap();
    let samples = vec![Sample::new(at_ms, value)];
    let series = Series { labels: Labels::new(labels), samples };
    let request = http::Request::post("/prometheus/api/v1/write")
        .header("content-type", Version::CONTENT_TYPE_V1)
        .header("content-encoding", "snappy")
        .body(encode(Version::V1, &[series], &[]))
        .unwrap();
    client.request_text(request).await.unwrap();
}

fn shop(nodes: &[&str], change: Value, policies: Value) -> Value {
    let web = component("web", nodes, change);
    let mut shop = app("shop", &[web]);
    shop["spec"]["policies"] = policies;
    shop
}

/// A policy of the App that looks at `name` each second.
fn below(name: &str, limit: u32, remediation: Value) -> Value {
    json!({
        "name": "quick", "components": ["web"], "remediation": remediation,
        "condition": {"expr": name, "violatedIf": format!("> {limit}"),
            "properties": {"interval": "1s"}},
    })
}

async fn policy(land: &Land) -> Value {
    let api: Api<Policy> = Api::namespaced(land.client.clone(), "default");
    let found = api.get_opt("shop.quick").await.ok().flatten();
    serde_json::to_value(found).unwrap()
}

async fn until_phase(land: &Land, phase: &str) -> Value {
    eventually(&format!("the policy is {phase}"), async || {
        let found = policy(land).await;
        (found["status"]["phase"] == phase).then_some(found)
    })
    .await
}

async fn replicas(land: &Land) -> u32 {
    let apps: Api<App> = Api::namespaced(land.client.clone(), "default");
    apps.get("shop").await.unwrap().spec.components[0].replicas.unwrap_or(1)
}

#[tokio::test]
async fn a_measurement_that_violates_a_policy_moves_a_component_exactly_once() {
    let land = Land::start(&["crane@north", "lift@south"]).await;
    push(&land.client, "queue_length", 1.0).await;
    let quick = below("queue_length", 5, json!({"action": "migrate", "cooldown": "10m"}));
    land.apply(&shop(&["crane", "lift"], json!({}), json!([quick]))).await;
    let before = land.until_settled("shop", "it is up", |_| true).await["web"].node.clone();
    until_phase(&land, "enforced").await;

    push(&land.client, "queue_length", 9.0).await;
    let after = land.until_settled("shop", "web has moved", |at| at["web"].node != before).await;
    let why = land.tombolo.shell(&["why", "shop"]).await.ok();
    let first = why.lines().next().unwrap();
    assert!(first.contains("app/shop/web violates policy shop.quick"), "{why}");
    push(&land.client, "queue_length", 1.0).await;
    let done = eventually("the violation is over and it is known what ended it", async || {
        let found = policy(&land).await;
        let steps = found["status"]["steps"].as_array()?.clone();
        let ended = steps.iter().all(|step| step["outcome"].is_string());
        (found["status"]["phase"] == "enforced" && ended).then_some(steps)
    })
    .await;
    assert_eq!(done.len(), 1, "{done:#?}");
    assert_eq!(done[0]["state"], "taken");
    assert_eq!(done[0]["node"], before.as_str());
    let told = land.tombolo.shell(&["timeline", "shop"]).await.ok();
    for part in
        ["shop.quick", "migrate", "9, the limit is 5", &after["web"].node, "the violation ended"]
    {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    let events = land.events().await;
    assert!(events.contains("PolicyViolated") && events.contains("PolicyActed"), "{events}");
    assert!(events.contains("PolicyResolved"), "{events}");
    // It stays there: the node that it left is held against it.
    let still = land.until_settled("shop", "it is up", |_| true).await;
    assert_eq!(still["web"], after["web"]);
}

#[tokio::test]
async fn what_no_other_node_would_take_stays_and_that_is_said_once() {
    let land = Land::start(&["crane@north", "lift@south"]).await;
    let quick = below("queue_length", 5, json!({"action": "migrate", "cooldown": "1s"}));
    land.apply(&shop(&["crane"], json!({}), json!([quick]))).await;
    let before = land.until_settled("shop", "it is up", |_| true).await;
    push(&land.client, "queue_length", 9.0).await;
    let found = eventually("it is said that the policy cannot be met", async || {
        let found = policy(&land).await;
        (condition(&found, "Achievable")["status"] == "False").then_some(found)
    })
    .await;
    let message = condition(&found, "Achievable")["message"].as_str().unwrap().to_owned();
    let said = "the policy shop.quick cannot be met for app/shop/web: ";
    assert!(message.starts_with(said) && message.len() > said.len() + 10, "{message}");
    // It comes up again, and again, and is not said again.
    let looks = async || {
        let loops = land.tombolo.shell(&["loops", "-o", "json"]).await.json();
        let loops = loops["loops"].as_array().unwrap().clone();
        let own = loops.into_iter().find(|one| one["name"] == "policies").unwrap();
        own["looks"].as_u64().unwrap()
    };
    let from = looks().await;
    eventually("it was looked at ten times more", async || {
        (looks().await > from + 10).then_some(())
    })
    .await;
    let events = land.tombolo.shell(&["get", "events", "-o", "json"]).await.json();
    let events = events["items"].as_array().unwrap();
    let said = events.iter().filter(|event| event["reason"] == "PolicyHelpless");
    let counts: Vec<u64> = said.map(|event| event["count"].as_u64().unwrap_or(1)).collect();
    assert_eq!(counts, [1], "{events:#?}");
    let now = land.until_settled("shop", "it is up", |_| true).await;
    assert_eq!(now["web"], before["web"], "it was left alone");
}

#[tokio::test]
async fn load_adds_an_instance_and_its_end_takes_it_away() {
    let land = Land::start(&["crane@north", "lift@south"]).await;
    let steps = json!([
        {"expr": "queue_length", "above": 100, "change": 1, "cooldown": "1h"},
        {"expr": "queue_length", "below": 1, "change": -1, "cooldown": "1h"},
    ]);
    let follows = json!({"name": "quick", "components": ["web"],
        "scaling": {"replicasMin": 1, "replicasMax": 3, "steps": steps}});
    land.apply(&shop(&["crane", "lift"], json!({}), json!([follows]))).await;
    land.until_settled("shop", "it is up", |_| true).await;
    push(&land.client, "queue_length", 500.0).await;
    eventually("there are two", async || (replicas(&land).await == 2).then_some(())).await;
    land.until_settled("shop", "two are up", |_| true).await;
    push(&land.client, "queue_length", 0.0).await;
    eventually("there is one", async || (replicas(&land).await == 1).then_some(())).await;
    let told = land.tombolo.shell(&["timeline", "shop"]).await.ok();
    assert!(told.contains("scale-up") && told.contains("scale-down"), "{told}");
}

#[tokio::test]
async fn a_controller_that_is_killed_between_decision_and_act_acts_once() {
    let mut land = Land::start(&["crane@north"]).await;
    let remediation = json!({"action": "scale-up", "replicasMax": 9, "cooldown": "1h"});
    let quick = below("queue_length", 5, remediation);
    let only = json!({"replicas": 1});
    land.apply(&shop(&["crane"], only, json!([quick]))).await;
    land.until_settled("shop", "it is up", |_| true).await;
    eventually("the policy is there", async || {
        policy(&land).await["status"]["phase"].is_string().then_some(())
    })
    .await;

    // The state in which a process leaves the world that ends right after its decision.
    let apps: Api<App> = Api::namespaced(land.client.clone(), "default");
    let generation = apps.get("shop").await.unwrap().metadata.generation;
    let decided = json!({"id": "1-0", "at": "2026-01-01T00:00:00Z", "action": "scale-up",
        "state": "decided", "subject": "app/shop/web", "app": "shop", "component": "web",
        "generation": generation, "set": {"replicas": 2}});
    let api: Api<Policy> = Api::namespaced(land.client.clone(), "default");
    let patch = Patch::Merge(json!({"status": {"steps": [decided]}}));
    api.patch_status("shop.quick", &PatchParams::default(), &patch).await.unwrap();
    land.tombolo.kill9();
    land.tombolo.restart().await;
    land.client = land.tombolo.client().await;
    let until_taken = async |land: &Land| {
        eventually("the step was carried out", async || {
            let found = policy(land).await;
            let steps = found["status"]["steps"].as_array()?.clone();
            let over = !steps.is_empty() && steps.iter().all(|step| step["state"] == "taken");
            (over && replicas(land).await == 2).then_some(())
        })
        .await;
    };
    until_taken(&land).await;

    // And wherever else the end comes: at any moment around a decision of its own.
    push(&land.client, "queue_length", 9.0).await;
    for pause_ms in [0, 300, 900, 1500] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        land.tombolo.kill9();
        land.tombolo.restart().await;
        land.client = land.tombolo.client().await;
    }
    eventually("its own step was carried out as well", async || {
        let found = policy(&land).await;
        let steps = found["status"]["steps"].as_array()?.clone();
        let over = steps.iter().all(|step| step["state"] == "taken");
        (over && steps.len() == 2 && replicas(&land).await == 3).then_some(())
    })
    .await;
    let looked = until_phase(&land, "violated").await;
    assert_eq!(looked["status"]["steps"].as_array().unwrap().len(), 2, "{looked:#}");
    assert_eq!(replicas(&land).await, 3);
}

#[tokio::test]
async fn a_suggestion_waits_for_a_person_and_is_done_when_accepted() {
    let land = Land::start(&["crane@north", "lift@south"]).await;
    let mut quick = below("queue_length", 5, json!({"action": "migrate", "cooldown": "10m"}));
    quick["mode"] = json!("suggest");
    land.apply(&shop(&["crane", "lift"], json!({}), json!([quick]))).await;
    let before = land.until_settled("shop", "it is up", |_| true).await["web"].node.clone();
    push(&land.client, "queue_length", 9.0).await;
    let all = eventually("a step is suggested", async || {
        let all = land.tombolo.shell(&["suggestions", "-o", "json"]).await.json();
        (!all.as_array().unwrap().is_empty()).then_some(all)
    })
    .await;
    assert_eq!(all[0]["action"], "migrate", "{all}");
    let none = land.tombolo.shell(&["accept", "0000"]).await;
    assert_eq!(none.code, Some(3), "{none:?}");
    assert_eq!(land.until_settled("shop", "it is up", |_| true).await["web"].node, before);
    let id = all[0]["id"].as_str().unwrap();
    land.tombolo.shell(&["accept", id]).await.ok();
    land.until_settled("shop", "web has moved", |at| at["web"].node != before).await;
    let left = eventually("the answer was heard", async || {
        let found = policy(&land).await;
        let answered = found["metadata"]["annotations"]["tombolo.dev/accept"].is_string();
        (!answered).then_some(found)
    })
    .await;
    assert_eq!(left["status"]["steps"].as_array().unwrap().len(), 1, "{left:#}");
}
