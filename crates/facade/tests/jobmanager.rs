//! `/jobmanager` as a deployment manager of ICOS uses it, over the real API in process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use axum::body::Body;
use http::{Method, Request};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tombolo_apiserver::serve::Peer;
use tombolo_identity::Subject;
use tombolo_model::{App, Assignment, Node, Site};

use support::{Server, guest, manager, server};

const DM: &str = "6f1c1d3e-0001-4000-8000-000000000001";
const OTHER: &str = "6f1c1d3e-0002-4000-8000-000000000002";

async fn make_app(server: &Server) -> String {
    let app: App = serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "metadata": {"name": "tide"},
        "spec": {"description": "watches the tide", "components": [
            {"name": "gauge", "run": [{"container": {"image": "example/gauge:1"}}]},
        ]},
    }))
    .unwrap();
    let api: Api<App> = Api::namespaced(server.admin(), "default");
    api.create(&PostParams::default(), &app).await.unwrap().metadata.uid.unwrap()
}

/// An Assignment as the placing makes it. Returns the id of the job.
async fn assign(server: &Server, name: &str, owner: &str, more: Value) -> String {
    let mut object = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "App", "name": "tide", "uid": owner,
            "controller": true,
        }]},
        "spec": {
            "app": "tide", "component": "gauge", "replica": 0, "site": "harbour",
            "engine": "kubernetes", "run": {"container": {"image": "example/gauge:1"}},
            "resources": {"cpu": "500m", "memory": "200Mi"},
        },
    });
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    let api: Api<Assignment> = Api::namespaced(server.admin(), "default");
    let made = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await;
    made.unwrap().metadata.uid.unwrap()
}

async fn make_node(server: &Server, name: &str) {
    let node = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Node",
        "metadata": {"name": name}, "spec": {"site": "harbour"}});
    let node: Node = serde_json::from_value(node).unwrap();
    let nodes: Api<Node> = Api::all(server.admin());
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

async fn make_site(server: &Server, name: &str) {
    let site = json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Site",
        "metadata": {"name": name}, "spec": {"engine": "kubernetes"}});
    let sites: Api<Site> = Api::all(server.admin());
    sites.create(&PostParams::default(), &serde_json::from_value(site).unwrap()).await.unwrap();
}

async fn ask(server: &Server, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.ask_as(&manager(), method, &format!("/jobmanager{path}"), body).await
}

async fn executable(server: &Server, owner: &str) -> Vec<String> {
    let path = format!("/jobs/executable/ocm/{owner}");
    let (code, jobs) = ask(server, Method::GET, &path, Value::Null).await;
    assert_eq!(code, 200, "{jobs}");
    let id = |job: &Value| job["ID"].as_str().unwrap().to_owned();
    jobs.as_array().unwrap().iter().map(id).collect()
}

async fn promote(server: &Server, id: &str, owner: &str) -> (u16, Value) {
    ask(server, Method::PATCH, &format!("/jobs/promote/{id}"), json!({"owner_id": owner})).await
}

#[tokio::test]
async fn a_job_says_all_that_a_deployment_manager_needs() {
    let server = server().await;
    let group = make_app(&server).await;
    let id = assign(&server, "gauge-0", &group, json!({})).await;
    let (code, job) = ask(&server, Method::GET, &format!("/jobs/{id}"), Value::Null).await;
    assert_eq!(code, 200, "{job}");
    assert_eq!((&job["ID"], &job["id"]), (&json!(id), &json!(id)));
    assert_eq!(job["job_group_id"], group);
    assert_eq!(job["job_group_name"], "tide");
    assert_eq!(job["job_group_description"], "watches the tide");
    assert_eq!((&job["type"], &job["state"]), (&json!(5), &json!(1)));
    assert_eq!((&job["owner_id"], &job["orchestrator"]), (&json!(""), &json!("ocm")));
    let target = json!({"cluster_name": "harbour", "node_name": "", "orchestrator": "ocm"});
    assert_eq!(job["targets"], target);
    assert_eq!(job["namespace"], "default");
    assert_eq!(job["resource"]["job_id"], id);
    assert_eq!(job["resource"]["conditions"], json!([]));

    let manifest = job["manifests"][0]["yamlString"].as_str().unwrap();
    let manifest: Value = serde_json::from_str(manifest).unwrap();
    assert_eq!(
        (&manifest["kind"], &manifest["metadata"]["name"]),
        (&json!("Deployment"), &json!("gauge"))
    );
    let container = &manifest["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "example/gauge:1");
    assert_eq!(container["resources"]["requests"]["memory"], "200Mi", "{manifest}");

    let (code, jobs) = ask(&server, Method::GET, "/jobs", Value::Null).await;
    assert_eq!((code, jobs.as_array().unwrap().len()), (200, 1));
    let (code, groups) = ask(&server, Method::GET, "/groups", Value::Null).await;
    assert_eq!((code, &groups[0]["jobs"][0]["ID"]), (200, &json!(id)), "{groups}");
}

#[tokio::test]
async fn a_job_is_pulled_promoted_reported_on_and_undeployed() {
    let server = server().await;
    let group = make_app(&server).await;
    let id = assign(&server, "gauge-0", &group, json!({})).await;
    assert_eq!(executable(&server, DM).await, [id.as_str()]);
    assert_eq!(promote(&server, &id, DM).await.0, 204);
    assert!(executable(&server, DM).await.is_empty(), "it has it");
    assert!(executable(&server, OTHER).await.is_empty(), "another has it");
    let (_, job) = ask(&server, Method::GET, &format!("/jobs/{id}"), Value::Null).await;
    assert_eq!((&job["state"], &job["owner_id"]), (&json!(2), &json!(DM)));

    let work = "cb05f5df-590c-4f23-87ea-57ef964c4fa5";
    let done = json!({"ID": id, "type": 5, "state": 3, "owner_id": DM, "resource": {
    "job_id": id, "resource_uuid": work, "conditions": [
        {"type": "Applied", "status": "True", "reason": "Applied", "message": "done",
            "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}});
    let (code, job) = ask(&server, Method::PUT, "/jobs", done).await;
    assert_eq!((code, &job["state"]), (200, &json!(3)), "{job}");

    let up = json!({"resource_uuid": work, "conditions": [
        {"type": "Available", "status": "True", "reason": "Up", "message": "all are up"},
    ]});
    assert_eq!(ask(&server, Method::PUT, "/resources/status", up.clone()).await.0, 200);
    assert_eq!(ask(&server, Method::PUT, "/status/", up).await.0, 200);
    let (code, resource) = ask(&server, Method::GET, &format!("/status/{id}"), Value::Null).await;
    assert_eq!((code, &resource["resource_uuid"]), (200, &json!(work)));
    let up = |one: &Value| one["type"] == "Available" && one["status"] == "True";
    assert!(resource["conditions"].as_array().unwrap().iter().any(up), "{resource}");

    let path = format!("/groups/undeploy/{group}");
    assert_eq!(
        server
            .ask_as(&Subject::first_admin(), Method::PUT, &format!("/jobmanager{path}"), "")
            .await
            .0,
        200
    );
    let api: Api<Assignment> = Api::namespaced(server.admin(), "default");
    // What the collector of garbage does when an App is gone.
    api.delete("gauge-0", &DeleteParams::default()).await.unwrap();
    assert!(executable(&server, OTHER).await.is_empty(), "another has deployed it");
    assert_eq!(executable(&server, DM).await, [id.as_str()]);
    let (_, job) = ask(&server, Method::GET, &format!("/jobs/{id}"), Value::Null).await;
    assert_eq!((&job["type"], &job["state"]), (&json!(6), &json!(1)), "{job}");
    assert_eq!(job["job_group_id"], group, "also when the App is gone");
    assert_eq!(promote(&server, &id, DM).await.0, 204);
    let gone = json!({"ID": id, "type": 6, "state": "Finished", "owner_id": DM, "resource": {}});
    let (code, job) = ask(&server, Method::PUT, "/jobs", gone).await;
    assert_eq!((code, &job["state"]), (200, &json!(3)), "{job}");
    assert_eq!(ask(&server, Method::GET, &format!("/jobs/{id}"), Value::Null).await.0, 404);
}

#[tokio::test]
async fn of_two_who_take_a_job_at_once_one_has_it() {
    let server = server().await;
    let group = make_app(&server).await;
    for turn in 0..8 {
        let id = assign(&server, &format!("gauge-{turn}"), &group, json!({})).await;
        let owners: Vec<String> = (0..4).map(|one| format!("manager-{one}")).collect();
        let tries = owners.iter().map(|owner| promote(&server, &id, owner));
        let answers = futures::future::join_all(tries).await;
        let winners = answers.iter().filter(|(code, _)| *code == 204).count();
        let losers = answers.iter().filter(|(code, _)| *code == 409).count();
        assert_eq!((winners, losers), (1, 3), "{answers:?}");
        let winner = answers.iter().position(|(code, _)| *code == 204).unwrap();
        let (_, job) = ask(&server, Method::GET, &format!("/jobs/{id}"), Value::Null).await;
        assert_eq!(job["owner_id"], owners[winner]);
    }
}

/// Each of them reads the version that the others change: a lost race is tried again, and nobody but
/// the loser of a decision is told of a conflict.
#[tokio::test]
async fn of_many_who_report_on_a_job_at_once_all_are_heard() {
    let server = server().await;
    let group = make_app(&server).await;
    for turn in 0..4 {
        let id = assign(&server, &format!("gauge-{turn}"), &group, json!({})).await;
        assert_eq!(promote(&server, &id, DM).await.0, 204);
        let told = json!({"ID": id, "type": 5, "state": 3, "owner_id": DM, "resource": {
            "job_id": id, "resource_uuid": id, "conditions": []}});
        assert_eq!(ask(&server, Method::PUT, "/jobs", told).await.0, 200);
        let kinds = ["Available", "Progressing", "Degraded", "Applied"];
        let report = |kind: &str| {
            let told = json!({"resource_uuid": id, "conditions": [
                {"type": kind, "status": "True", "reason": "Up", "message": kind}]});
            ask(&server, Method::PUT, "/status", told)
        };
        let answers = futures::future::join_all(kinds.map(report)).await;
        let codes: Vec<u16> = answers.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [200; 4], "{answers:?}");
    }
}

#[tokio::test]
async fn a_job_whose_owner_is_silent_for_300_seconds_is_taken_over() {
    let server = server().await;
    let group = make_app(&server).await;
    let id = assign(&server, "gauge-0", &group, json!({})).await;
    assert_eq!(promote(&server, &id, DM).await.0, 204);
    assert!(executable(&server, OTHER).await.is_empty());
    server.pass(299);
    assert!(executable(&server, OTHER).await.is_empty());
    let (code, why) = promote(&server, &id, OTHER).await;
    assert_eq!(code, 409);
    assert!(why["error"].as_str().unwrap().contains(DM), "{why}");

    let alive = json!({"ID": id, "state": 2, "owner_id": DM, "resource": {}});
    assert_eq!(ask(&server, Method::PUT, "/jobs", alive.clone()).await.0, 200);
    server.pass(299);
    assert!(executable(&server, OTHER).await.is_empty(), "it has been heard of");
    for _ in 0..3 {
        assert_eq!(ask(&server, Method::PUT, "/jobs", alive.clone()).await.0, 200);
        server.pass(160);
        assert!(executable(&server, OTHER).await.is_empty(), "the same words again will do");
    }
    server.pass(301);
    assert_eq!(executable(&server, OTHER).await, [id.as_str()]);
    assert_eq!(promote(&server, &id, OTHER).await.0, 204);
    let (code, why) = ask(&server, Method::PUT, "/jobs", alive).await;
    assert_eq!(code, 409, "{why}");

    let done = json!({"ID": id, "state": 3, "owner_id": OTHER, "resource": {}});
    assert_eq!(ask(&server, Method::PUT, "/jobs", done).await.0, 200);
    server.pass(1000);
    assert!(executable(&server, DM).await.is_empty(), "what is done is done");
}

#[tokio::test]
async fn what_is_changed_is_a_job_of_its_owner_to_update() {
    let server = server().await;
    let group = make_app(&server).await;
    let id = assign(&server, "gauge-0", &group, json!({})).await;
    promote(&server, &id, DM).await;
    let change = json!({"spec": {"run": {"container": {"image": "example/gauge:2"}}}});
    let api: Api<Assignment> = Api::namespaced(server.admin(), "default");
    api.patch("gauge-0", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    // It tells of what it took, and that was the old one.
    let done = json!({"ID": id, "state": 3, "owner_id": DM, "resource": {}});
    ask(&server, Method::PUT, "/jobs", done.clone()).await;
    assert!(executable(&server, OTHER).await.is_empty());
    assert_eq!(executable(&server, DM).await, [id.as_str()]);
    let (_, job) = ask(&server, Method::GET, &format!("/jobs/{id}"), Value::Null).await;
    assert_eq!((&job["type"], &job["state"]), (&json!(7), &json!(1)), "{job}");
    assert!(job["manifests"][0]["yamlString"].as_str().unwrap().contains("gauge:2"));
    assert_eq!(promote(&server, &id, DM).await.0, 204);
    let (_, job) = ask(&server, Method::PUT, "/jobs", done).await;
    assert_eq!((&job["type"], &job["state"]), (&json!(5), &json!(3)), "{job}");
}

#[tokio::test]
async fn what_names_a_node_with_an_agent_is_left_to_it() {
    let server = server().await;
    let group = make_app(&server).await;
    let nodes: Api<Node> = Api::all(server.admin());
    for name in ["served", "bare"] {
        make_node(&server, name).await;
    }
    let described = Patch::Merge(json!({"status": {"agentVersion": "1"}}));
    nodes.patch_status("served", &PatchParams::default(), &described).await.unwrap();
    let served = assign(&server, "gauge-0", &group, json!({"node": "served"})).await;
    let bare = assign(&server, "gauge-1", &group, json!({"node": "bare", "replica": 1})).await;
    assert_eq!(executable(&server, DM).await, [bare]);
    let (code, why) = promote(&server, &served, DM).await;
    assert_eq!(code, 409, "{why}");
}

#[tokio::test]
async fn an_agent_with_a_certificate_sees_and_takes_the_jobs_of_its_site() {
    let server = server().await;
    let group = make_app(&server).await;
    let own = assign(&server, "gauge-0", &group, json!({})).await;
    let foreign = assign(&server, "gauge-1", &group, json!({"site": "hill", "replica": 1})).await;
    make_site(&server, "harbour").await;
    make_node(&server, "crane").await;
    let agent = Subject::agent("harbour", "crane").unwrap();
    let ask = |method, path: String, body: &str| {
        let (server, agent, body) = (&server, &agent, body.to_owned());
        async move { server.ask_as(agent, method, &path, body).await }
    };
    let path = "/jobmanager/jobs/executable/ocm?icos_agent_id=crane".to_owned();
    let (code, jobs) = ask(Method::GET, path, "").await;
    assert_eq!((code, jobs.as_array().map(Vec::len)), (200, Some(1)), "{jobs}");
    assert_eq!(jobs[0]["ID"], own);
    let owner = r#"{"owner_id": "crane"}"#;
    let promote = |id: &str| format!("/jobmanager/jobs/promote/{id}");
    assert_eq!(ask(Method::PATCH, promote(&foreign), owner).await.0, 404);
    let (code, why) = ask(Method::PATCH, promote(&own), owner).await;
    assert_eq!(code, 204, "{why}");
    assert_eq!(ask(Method::GET, "/jobmanager/groups".to_owned(), "").await.0, 403);
}

/// Hardening: an agent whose key was replaced went on reading and writing here.
#[tokio::test]
async fn an_agent_whose_key_was_replaced_sees_and_takes_nothing() {
    let server = server().await;
    let group = make_app(&server).await;
    let id = assign(&server, "gauge-0", &group, json!({})).await;
    make_site(&server, "harbour").await;
    make_node(&server, "crane").await;
    let nodes: Api<Node> = Api::all(server.admin());
    let key = json!({"metadata": {"annotations": {"tombolo.dev/key": "new"}}});
    nodes.patch("crane", &PatchParams::default(), &Patch::Merge(key)).await.unwrap();
    let ask = async |key: &str, method: Method, path: &str, body: &'static str| {
        let peer = Peer {
            address: "127.0.0.1:1".parse().unwrap(),
            subject: Some(Subject::agent("harbour", "crane").unwrap()),
            key: Some(key.to_owned()),
            refusal: None,
            tls: true,
        };
        let request = Request::builder().method(method).uri(path).extension(peer);
        server.send(request.body(Body::from(body)).unwrap()).await.0
    };
    let jobs = "/jobmanager/jobs/executable/ocm?icos_agent_id=crane";
    let (promote, owner) = (format!("/jobmanager/jobs/promote/{id}"), r#"{"owner_id": "crane"}"#);
    assert_eq!(ask("old", Method::GET, jobs, "").await, 401);
    assert_eq!(ask("old", Method::PATCH, &promote, owner).await, 401);
    let (_, job) = self::ask(&server, Method::GET, &format!("/jobs/{id}"), Value::Null).await;
    assert_eq!(job["owner_id"], "", "nothing was written");
    assert_eq!(ask("new", Method::GET, jobs, "").await, 200);
    assert_eq!(ask("new", Method::PATCH, &promote, owner).await, 204);
}

#[tokio::test]
async fn a_guest_may_look_and_take_nothing() {
    let server = server().await;
    let group = make_app(&server).await;
    let id = assign(&server, "gauge-0", &group, json!({})).await;
    let ask = |method, path: String| {
        let server = &server;
        async move { server.ask_as(&guest(), method, &path, r#"{"owner_id": "x"}"#).await.0 }
    };
    assert_eq!(ask(Method::GET, "/jobmanager/jobs".to_owned()).await, 200);
    assert_eq!(ask(Method::PATCH, format!("/jobmanager/jobs/promote/{id}")).await, 403);
    assert_eq!(ask(Method::PUT, format!("/jobmanager/groups/stop/{group}")).await, 403);
    assert_eq!(ask(Method::DELETE, format!("/jobmanager/jobs/{id}")).await, 403);
    let anonymous = Subject::anonymous();
    let code = server.ask_as(&anonymous, Method::GET, "/jobmanager/jobs", "").await.0;
    assert_eq!(code, 401);
    let code = server.ask_as(&anonymous, Method::GET, "/jobmanager/healthz", "").await.0;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn a_group_is_made_described_stopped_started_and_deleted() {
    const DESCRIPTOR: &str = "name: tide-watch\nnamespace: default\ncomponents:\n\
        - name: gauge\n  type: kubernetes\n  manifests:\n  - name: gauge-pod\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata:\n  name: gauge-pod\nspec:\n  containers:\n\
        - {name: gauge, image: \"example/gauge:1\"}\n";
    let server = server().await;
    let admin = Subject::first_admin();
    let ask = |method, path: String, body: String| {
        let (server, admin) = (&server, &admin);
        async move { server.ask_as(admin, method, &format!("/jobmanager{path}"), body).await }
    };
    let text = DESCRIPTOR.replace("\n- {name", "\n  - {name");
    let (code, made) = ask(Method::POST, "/groups".to_owned(), text).await;
    assert_eq!((code, &made["appName"]), (201, &json!("tide-watch")), "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    let (code, _) = ask(Method::POST, "/groups".to_owned(), "{{{".to_owned()).await;
    assert_eq!(code, 422);

    let described = json!({"id": id, "appDescription": "new words"}).to_string();
    let (code, group) = ask(Method::PUT, "/groups".to_owned(), described).await;
    assert_eq!((code, &group["appDescription"]), (200, &json!("new words")));
    let api: Api<App> = Api::namespaced(server.admin(), "default");
    for (verb, stopped) in [("stop", true), ("start", false)] {
        let (code, _) = ask(Method::PUT, format!("/groups/{verb}/{id}"), String::new()).await;
        assert_eq!(code, 200);
        assert_eq!(api.get("tide-watch").await.unwrap().spec.stopped, stopped);
    }
    assert_eq!(ask(Method::DELETE, format!("/groups/{id}"), String::new()).await.0, 200);
    assert_eq!(ask(Method::GET, format!("/groups/{id}"), String::new()).await.0, 404);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_sentence() {
    let server = server().await;
    let group = make_app(&server).await;
    let id = assign(&server, "gauge-0", &group, json!({})).await;
    let nobody = "00000000-0000-4000-8000-000000000000";
    for (method, path, body, expected) in [
        (Method::GET, "/jobs/17".to_owned(), Value::Null, 400),
        (Method::GET, format!("/jobs/{nobody}"), Value::Null, 404),
        (Method::GET, "/jobs/executable/swarm/x".to_owned(), Value::Null, 400),
        (Method::GET, "/jobs/executable/ocm".to_owned(), Value::Null, 400),
        (Method::PATCH, format!("/jobs/promote/{id}"), json!({"owner": "x"}), 400),
        (Method::PATCH, format!("/jobs/promote/{id}"), json!({"owner_id": ""}), 400),
        (Method::PATCH, format!("/jobs/promote/{nobody}"), json!({"owner_id": "x"}), 404),
        (Method::PUT, "/jobs".to_owned(), json!({"state": 3}), 400),
        (Method::PUT, "/status/".to_owned(), json!("x"), 400),
        (Method::PUT, "/groups".to_owned(), json!({}), 400),
    ] {
        let (code, answer) = ask(&server, method, &path, body).await;
        assert_eq!(code, expected, "{path}: {answer}");
    }
}

#[tokio::test]
async fn an_incompliance_changes_the_number_of_instances_or_says_why_not() {
    let server = server().await;
    let id = make_app(&server).await;
    let admin = Subject::first_admin();
    let tell = async |who: &Subject, remediation: &str, subject: Value| {
        let body = json!({"policyName": "p95", "remediation": remediation, "currentValue": "300",
            "threshold": "200", "subject": subject});
        server.ask_as(who, Method::POST, "/jobmanager/policies/incompliance", body).await
    };
    let apps: Api<App> = Api::namespaced(server.admin(), "default");
    let replicas = async || apps.get("tide").await.unwrap().spec.components[0].replicas;
    let gauge = json!({"type": "app", "appName": "tide", "appComponent": "gauge"});
    let (code, told) = tell(&admin, "scale-up", gauge.clone()).await;
    assert_eq!(
        (code, &told["id"], &told["policyName"]),
        (200, &json!(id), &json!("p95")),
        "{told}"
    );
    assert_eq!(replicas().await, Some(2));
    let by_id = json!({"appComponent": "gauge", "appInstance": id});
    assert_eq!(tell(&admin, "scale-down", by_id).await.0, 200);
    assert_eq!(replicas().await, Some(1));
    assert_eq!(tell(&admin, "none", gauge.clone()).await.0, 200);
    assert_eq!(tell(&guest(), "scale-up", gauge.clone()).await.0, 403);
    // Out and in are what each instance may use.
    let cpu = async || apps.get("tide").await.unwrap().spec.components[0].needs.as_ref()?.cpu;
    let before = cpu().await.map_or(0, |cpu| cpu.millis());
    assert_eq!(tell(&admin, "scale-out", gauge.clone()).await.0, 200);
    assert_eq!(cpu().await.map(|cpu| cpu.millis()), Some(before + 1000));
    assert_eq!(replicas().await, Some(1));
    for (remediation, subject, words) in [
        ("scale-down", gauge.clone(), "must have 1 at least"),
        ("migrate", gauge.clone(), "does not say what to change"),
        ("pray", gauge, "is no remediation"),
        ("scale-up", json!({"appName": "ebb"}), "there is no deployment \"ebb\""),
        ("scale-up", json!({"appName": "tide", "appComponent": "x"}), "no component \"x\""),
    ] {
        let (code, why) = tell(&admin, remediation, subject).await;
        assert_eq!(code, 422, "{why}");
        assert!(why["error"].as_str().unwrap().contains(words), "{why}");
    }
    let path = "/jobmanager/policies/incompliance";
    assert_eq!(server.ask_as(&admin, Method::POST, path, "nonsense").await.0, 400);
    let create = "/jobmanager/policies/incompliance/create";
    assert_eq!(server.ask_as(&admin, Method::POST, create, "nonsense").await.0, 400);
}
