//! Real kubectl against the real server, as a person would use it.

use serde_json::{Value, json};

use tombolo_testkit::{Tombolo, eventually, tools};

const APP: &str = include_str!("fixtures/app.yaml");
const NODE: &str = include_str!("fixtures/node.yaml");
const SITE: &str = include_str!("fixtures/site.yaml");
const WIDGET: &str = include_str!("fixtures/widget.yaml");
const WIDGETS: &str = include_str!("fixtures/widgets.yaml");

/// A server, unless this machine has no kubectl.
async fn start(test: &str) -> Option<Tombolo> {
    tools::kubectl(&format!("kubectl::{test}"))?;
    Some(Tombolo::start().await)
}

#[track_caller]
fn assert_has(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "no {wanted:?} in:\n{text}");
    }
}

#[tokio::test]
async fn applies_a_file_and_says_what_changed() {
    let Some(tombolo) = start("applies_a_file_and_says_what_changed").await else { return };
    let apply = ["apply", "-f", "-"];
    let first = tombolo.kubectl_with(&apply, APP).await.ok();
    assert_eq!(first, "app.tombolo.dev/shop created\n");
    let again = tombolo.kubectl_with(&apply, APP).await.ok();
    assert_eq!(again, "app.tombolo.dev/shop unchanged\n");
    let more = APP.replace("replicas: 2", "replicas: 3");
    let changed = tombolo.kubectl_with(&apply, &more).await.ok();
    assert_eq!(changed, "app.tombolo.dev/shop configured\n");

    let app = tombolo.kubectl(&["get", "app", "shop", "-o", "json"]).await.json();
    assert_eq!(app["spec"]["components"][0]["replicas"], 3);
    assert_eq!(app["metadata"]["generation"], 2);

    // What is no longer in the file goes, because the last applied file is remembered.
    let less = more.replace("  description: A shop with one page.\n", "");
    tombolo.kubectl_with(&apply, &less).await.ok();
    let app = tombolo.kubectl(&["get", "app", "shop", "-o", "json"]).await.json();
    assert_eq!(app["spec"]["description"], Value::Null);
}

#[tokio::test]
async fn shows_objects_in_every_format() {
    let Some(tombolo) = start("shows_objects_in_every_format").await else { return };
    tombolo.kubectl_with(&["apply", "-f", "-"], SITE).await.ok();

    let table = tombolo.kubectl(&["get", "sites"]).await.ok();
    assert_has(&table, &["NAME", "ENGINE", "READY", "alps", "host", "Zermatt"]);
    assert!(!table.contains("COUNTRY"), "{table}");
    let wide = tombolo.kubectl(&["get", "sites", "-o", "wide"]).await.ok();
    assert_has(&wide, &["COUNTRY", "CH"]);
    let labels = tombolo.kubectl(&["get", "sites", "--show-labels"]).await.ok();
    assert_has(&labels, &["tier=edge"]);
    let yaml = tombolo.kubectl(&["get", "site", "alps", "-o", "yaml"]).await.ok();
    assert_has(&yaml, &["apiVersion: tombolo.dev/v1alpha1", "kind: Site", "engine: host"]);
    let name = tombolo.kubectl(&["get", "sites", "-o", "name"]).await.ok();
    assert_eq!(name, "site.tombolo.dev/alps\n");
    let path = ["get", "site", "alps", "-o", "jsonpath={.spec.location.city}"];
    assert_eq!(tombolo.kubectl(&path).await.ok(), "Zermatt");
    let columns = ["get", "sites", "-o", "custom-columns=WHERE:.spec.location.city"];
    assert_eq!(tombolo.kubectl(&columns).await.ok(), "WHERE\nZermatt\n");
    let list = tombolo.kubectl(&["get", "sites", "-o", "json"]).await.json();
    assert_eq!(list["items"][0]["metadata"]["name"], "alps");
}

#[tokio::test]
async fn server_side_apply_owns_fields_and_tells_of_conflicts() {
    let test = "server_side_apply_owns_fields_and_tells_of_conflicts";
    let Some(tombolo) = start(test).await else { return };
    let apply =
        |manager: &'static str| ["apply", "--server-side", "--field-manager", manager, "-f", "-"];
    tombolo.kubectl_with(&apply("alice"), APP).await.ok();

    let three = APP.replace("replicas: 2", "replicas: 3");
    let complaint = tombolo.kubectl_with(&apply("bob"), &three).await.failed();
    assert_has(&complaint, &["conflict", "alice", "replicas"]);
    let app = tombolo.kubectl(&["get", "app", "shop", "-o", "json"]).await.json();
    assert_eq!(app["spec"]["components"][0]["replicas"], 2);

    let mut force = apply("bob").to_vec();
    force.push("--force-conflicts");
    tombolo.kubectl_with(&force, &three).await.ok();
    let show = ["get", "app", "shop", "-o", "json", "--show-managed-fields"];
    let app = tombolo.kubectl(&show).await.json();
    assert_eq!(app["spec"]["components"][0]["replicas"], 3);
    let managers: Vec<&Value> = app["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["manager"])
        .collect();
    assert!(
        managers.contains(&&json!("alice")) && managers.contains(&&json!("bob")),
        "{managers:?}"
    );

    // Another manager's component in the same list is left alone.
    let other = "{apiVersion: tombolo.dev/v1alpha1, kind: App, metadata: {name: shop}, spec: \
                 {components: [{name: db, run: [{container: {image: 'postgres:17'}}]}]}}";
    tombolo.kubectl_with(&apply("carol"), other).await.ok();
    let app = tombolo.kubectl(&["get", "app", "shop", "-o", "json"]).await.json();
    assert_eq!(app["spec"]["components"].as_array().unwrap().len(), 2, "{app}");
}

#[tokio::test]
async fn explains_kinds_and_fields() {
    let Some(tombolo) = start("explains_kinds_and_fields").await else { return };
    let app = tombolo.kubectl(&["explain", "app"]).await.ok();
    assert_has(&app, &["GROUP:", "tombolo.dev", "KIND:", "App", "spec", "status"]);
    let field = tombolo.kubectl(&["explain", "app.spec.components.replicas"]).await.ok();
    assert_has(&field, &["replicas", "integer", "How many instances"]);
    let tree = tombolo.kubectl(&["explain", "node", "--recursive"]).await.ok();
    assert_has(&tree, &["unschedulable", "<boolean>", "conditions"]);
    let map = tombolo.kubectl(&["explain", "configmap.data"]).await.ok();
    assert_has(&map, &["data", "map[string]string"]);
    let wrong = tombolo.kubectl(&["explain", "app.spec.nonsense"]).await.failed();
    assert_has(&wrong, &["nonsense"]);
}

#[tokio::test]
async fn describes_an_object_with_its_events() {
    let Some(tombolo) = start("describes_an_object_with_its_events").await else { return };
    tombolo.kubectl_with(&["apply", "-f", "-"], NODE).await.ok();
    let uid = tombolo.kubectl(&["get", "node", "hut", "-o", "jsonpath={.metadata.uid}"]).await.ok();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "hut.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Node", "name": "hut", "uid": uid,
        },
        "reason": "Snowed", "message": "the hut is under snow", "type": "Warning",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    tombolo.kubectl_with(&["create", "-f", "-"], &event.to_string()).await.ok();
    let described = tombolo.kubectl(&["describe", "node", "hut"]).await.ok();
    assert_has(&described, &["Name:", "hut", "Spec:", "Site:", "alps", "Events:", "Snowed"]);
    let events = tombolo.kubectl(&["get", "events"]).await.ok();
    assert_has(&events, &["the hut is under snow"]);
}

#[tokio::test]
async fn labels_annotates_and_patches() {
    let Some(tombolo) = start("labels_annotates_and_patches").await else { return };
    tombolo.kubectl_with(&["apply", "-f", "-"], SITE).await.ok();
    tombolo.kubectl(&["label", "site", "alps", "snow=deep"]).await.ok();
    let refused = tombolo.kubectl(&["label", "site", "alps", "snow=none"]).await.failed();
    assert_has(&refused, &["--overwrite"]);
    tombolo.kubectl(&["label", "site", "alps", "snow=none", "--overwrite"]).await.ok();
    for (selector, names) in [
        ("snow=none", "site.tombolo.dev/alps\n"),
        ("snow in (none,deep),tier", "site.tombolo.dev/alps\n"),
        ("snow!=none", ""),
        ("!snow", ""),
    ] {
        let found = tombolo.kubectl(&["get", "sites", "-l", selector, "-o", "name"]).await.ok();
        assert_eq!(found, names, "{selector}");
    }
    tombolo.kubectl(&["label", "site", "alps", "snow-"]).await.ok();
    tombolo.kubectl(&["annotate", "site", "alps", "note=closed in summer"]).await.ok();

    let merge = r#"{"spec":{"location":{"city":"Davos","country":null}}}"#;
    tombolo.kubectl(&["patch", "site", "alps", "--type=merge", "-p", merge]).await.ok();
    let steps = r#"[{"op":"test","path":"/spec/location/city","value":"Davos"},
                    {"op":"replace","path":"/spec/engine","value":"docker"}]"#;
    tombolo.kubectl(&["patch", "site", "alps", "--type=json", "-p", steps]).await.ok();
    let site = tombolo.kubectl(&["get", "site", "alps", "-o", "json"]).await.json();
    assert_eq!(site["spec"], json!({"engine": "docker", "location": {"city": "Davos"}}));
    assert_eq!(site["metadata"]["labels"], json!({"tier": "edge"}));
    assert_eq!(site["metadata"]["annotations"]["note"], "closed in summer");

    let wrong = r#"[{"op":"test","path":"/spec/engine","value":"host"}]"#;
    tombolo.kubectl(&["patch", "site", "alps", "--type=json", "-p", wrong]).await.failed();
    let strategic = tombolo.kubectl(&["patch", "site", "alps", "-p", merge]).await.failed();
    assert_has(&strategic, &["patch"]);
}

#[tokio::test]
async fn edits_in_an_editor() {
    let Some(tombolo) = start("edits_in_an_editor").await else { return };
    tombolo.kubectl_with(&["apply", "-f", "-"], SITE).await.ok();
    let editor = tombolo.file("editor", "#!/bin/sh\nexec sed -i s/Zermatt/Davos/ \"$1\"\n");
    let editor = format!("sh {}", editor.display());
    let environment = format!("KUBE_EDITOR={editor}");
    let arguments = [environment.as_str(), "kubectl", "edit", "site", "alps"];
    tombolo.run("env".as_ref(), &arguments).await.ok();
    let city = ["get", "site", "alps", "-o", "jsonpath={.spec.location.city}"];
    assert_eq!(tombolo.kubectl(&city).await.ok(), "Davos");
}

#[tokio::test]
async fn serves_a_custom_kind_as_soon_as_it_is_applied() {
    let Some(tombolo) = start("serves_a_custom_kind_as_soon_as_it_is_applied").await else {
        return;
    };
    tombolo.kubectl_with(&["apply", "-f", "-"], WIDGETS).await.ok();
    let wait = ["wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=30s"];
    tombolo.kubectl(&wait).await.ok();
    tombolo.kubectl_with(&["apply", "-f", "-"], WIDGET).await.ok();

    let widget = tombolo.kubectl(&["get", "widget", "one", "-o", "json"]).await.json();
    assert_eq!(widget["spec"], json!({"size": "small", "colour": "grey", "replicas": 1}));
    let table = tombolo.kubectl(&["get", "wd"]).await.ok();
    assert_has(&table, &["NAME", "SIZE", "REPLICAS", "one", "small"]);
    assert_has(&tombolo.kubectl(&["explain", "widget.spec.size"]).await.ok(), &["How large it is"]);

    tombolo.kubectl(&["scale", "--replicas=5", "widget/one"]).await.ok();
    let replicas = ["get", "widget", "one", "-o", "jsonpath={.spec.replicas}"];
    assert_eq!(tombolo.kubectl(&replicas).await.ok(), "5");
    let conditions = r#"{"status":{"replicas":5,"conditions":[{"type":"Painted","status":"True"}]},
                         "spec":{"size":"large"}}"#;
    let status =
        ["patch", "widget", "one", "--subresource=status", "--type=merge", "-p", conditions];
    tombolo.kubectl(&status).await.ok();
    let widget = tombolo.kubectl(&["get", "widget", "one", "-o", "json"]).await.json();
    assert_eq!(widget["status"]["replicas"], 5);
    assert_eq!(widget["spec"]["size"], "small", "a status write must not touch the spec");
    tombolo.kubectl(&["wait", "--for=condition=Painted", "widget/one", "--timeout=30s"]).await.ok();

    let bad = WIDGET.replace("small", "medium");
    let complaint = tombolo.kubectl_with(&["apply", "-f", "-"], &bad).await.failed();
    assert_has(&complaint, &["spec.size", "medium", "small", "large"]);

    tombolo.kubectl(&["delete", "crd", "widgets.example.com"]).await.ok();
    let gone = tombolo.kubectl(&["get", "widgets"]).await.failed();
    assert_has(&gone, &["widgets"]);
    // The kind comes back empty.
    tombolo.kubectl_with(&["apply", "-f", "-"], WIDGETS).await.ok();
    tombolo.kubectl(&wait).await.ok();
    assert_eq!(tombolo.kubectl(&["get", "widgets", "-A", "-o", "name"]).await.ok(), "");
}

#[tokio::test]
async fn watches_changes_as_they_happen() {
    let Some(tombolo) = start("watches_changes_as_they_happen").await else { return };
    tombolo.kubectl(&["create", "configmap", "before", "--from-literal=a=1"]).await.ok();
    let arguments = ["get", "configmaps", "--watch", "--output-watch-events", "--no-headers"];
    let mut watch = tombolo.kubectl_running(&arguments);
    watch.line_with("before").await;
    tombolo.kubectl(&["create", "configmap", "during", "--from-literal=a=1"]).await.ok();
    assert_has(&watch.line_with("during").await, &["ADDED"]);
    let merge = r#"{"data":{"b":"2"}}"#;
    tombolo.kubectl(&["patch", "configmap", "during", "--type=merge", "-p", merge]).await.ok();
    assert_has(&watch.line_with("during").await, &["MODIFIED"]);
    tombolo.kubectl(&["delete", "configmap", "during"]).await.ok();
    assert_has(&watch.line_with("during").await, &["DELETED"]);
}

#[tokio::test]
async fn waits_for_a_condition_and_for_a_deletion() {
    let Some(tombolo) = start("waits_for_a_condition_and_for_a_deletion").await else { return };
    tombolo.kubectl_with(&["apply", "-f", "-"], NODE).await.ok();
    let early =
        tombolo.kubectl(&["wait", "--for=condition=Ready", "node/hut", "--timeout=0s"]).await;
    assert_has(&early.failed(), &["hut"]);

    let arguments = ["wait", "--for=condition=Ready", "node/hut", "--timeout=60s"];
    let mut wait = tombolo.kubectl_running(&arguments);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "node-hut", "namespace": "tombolo-system"},
        "spec": {"holderIdentity": "agent", "leaseDurationSeconds": 40},
    });
    tombolo.kubectl_with(&["create", "-f", "-"], &lease.to_string()).await.ok();
    assert_has(&wait.line_with("condition met").await, &["hut"]);
    assert_eq!(wait.end().await, Some(0));

    let wait = tombolo.kubectl_running(&["wait", "--for=delete", "node/hut", "--timeout=60s"]);
    tombolo.kubectl(&["delete", "node", "hut", "--wait=false"]).await.ok();
    assert_eq!(wait.end().await, Some(0));
}

#[tokio::test]
async fn a_stale_copy_replaces_nothing() {
    let Some(tombolo) = start("a_stale_copy_replaces_nothing").await else { return };
    tombolo.kubectl_with(&["apply", "-f", "-"], SITE).await.ok();
    let mut stale = tombolo.kubectl(&["get", "site", "alps", "-o", "json"]).await.json();
    tombolo.kubectl(&["label", "site", "alps", "snow=deep"]).await.ok();
    stale["spec"]["engine"] = json!("docker");
    let complaint =
        tombolo.kubectl_with(&["replace", "-f", "-"], &stale.to_string()).await.failed();
    assert_has(&complaint, &["Conflict", "modified"]);
    let engine = ["get", "site", "alps", "-o", "jsonpath={.spec.engine}"];
    assert_eq!(tombolo.kubectl(&engine).await.ok(), "host");
}

#[tokio::test]
async fn tells_what_is_served_and_what_one_may_do() {
    let Some(tombolo) = start("tells_what_is_served_and_what_one_may_do").await else { return };
    let resources = tombolo.kubectl(&["api-resources"]).await.ok();
    for kind in ["apps", "assignments", "sites", "nodes", "links", "policies", "jointokens"] {
        assert_has(&resources, &[kind]);
    }
    assert_has(&resources, &["configmaps", "secrets", "events", "leases", "namespaces", "cm"]);
    let verbs = ["api-resources", "--verbs=list,watch,patch", "--namespaced=true", "-o", "name"];
    assert_has(
        &tombolo.kubectl(&verbs).await.ok(),
        &["apps.tombolo.dev", "leases.coordination.k8s.io"],
    );
    assert_has(&tombolo.kubectl(&["api-versions"]).await.ok(), &["tombolo.dev/v1alpha1", "v1"]);
    assert_has(&tombolo.kubectl(&["version"]).await.ok(), &["Server Version: v1."]);
    tombolo.kubectl(&["get", "tombolo", "-A"]).await.ok();

    assert_eq!(tombolo.kubectl(&["auth", "can-i", "delete", "sites"]).await.ok(), "yes\n");
    // Whoever may do everything still cannot make what nobody serves.
    tombolo.kubectl(&["auth", "can-i", "create", "pods"]).await.failed();
    tombolo.kubectl_with(&["apply", "-f", "-"], APP).await.ok();
    assert_has(&tombolo.kubectl(&["get", "all"]).await.ok(), &["app.tombolo.dev/shop"]);
    assert_eq!(tombolo.kubectl(&["get", "--raw", "/readyz"]).await.ok().trim(), "ok");
}

/// One object under two names.
#[tokio::test]
async fn events_are_shown_by_both_of_their_groups() {
    let Some(tombolo) = start("events_are_shown_by_both_of_their_groups").await else { return };
    let event = "{apiVersion: v1, kind: Event, metadata: {name: one}, type: Normal, reason: Told, \
                 message: said once, count: 2, lastTimestamp: '2026-01-02T03:04:05Z', \
                 involvedObject: {kind: ConfigMap, name: a, namespace: default}}";
    tombolo.kubectl_with(&["create", "-f", "-"], event).await.ok();
    for resource in ["events", "events.events.k8s.io", "ev"] {
        let table = tombolo.kubectl(&["get", resource]).await.ok();
        assert_has(&table, &["LAST SEEN", "TYPE", "Told", "ConfigMap/a", "said once"]);
    }
    let newer = ["get", "events.events.k8s.io", "one", "-o", "jsonpath={.note} {.deprecatedCount}"];
    assert_eq!(tombolo.kubectl(&newer).await.ok(), "said once 2");
    assert_has(
        &tombolo.kubectl(&["explain", "events.note", "--api-version=events.k8s.io/v1"]).await.ok(),
        &["What happened"],
    );
    tombolo.kubectl(&["delete", "events.events.k8s.io", "one"]).await.ok();
    assert_has(&tombolo.kubectl(&["get", "events", "one"]).await.failed(), &["NotFound"]);
}

#[tokio::test]
async fn an_unknown_field_is_named_and_the_right_one_suggested() {
    let test = "an_unknown_field_is_named_and_the_right_one_suggested";
    let Some(tombolo) = start(test).await else { return };
    let typo = APP.replace("replicas: 2", "replcas: 2");
    let complaint = tombolo.kubectl_with(&["apply", "-f", "-"], &typo).await.failed();
    assert_has(&complaint, &["replcas"]);
    let create = ["create", "-f", "-"];
    assert_has(&tombolo.kubectl_with(&create, &typo).await.failed(), &["replcas", "replicas"]);
    let apply = ["apply", "--server-side", "-f", "-"];
    assert_has(&tombolo.kubectl_with(&apply, &typo).await.failed(), &["replcas"]);
    assert_eq!(tombolo.kubectl(&["get", "apps", "-o", "name"]).await.ok(), "");

    let wrong = APP.replace("cpu: 500m", "cpu: lots");
    assert_has(&tombolo.kubectl_with(&create, &wrong).await.failed(), &["cpu", "lots"]);
}

#[tokio::test]
async fn a_namespace_holds_things_and_takes_them_along() {
    let Some(tombolo) = start("a_namespace_holds_things_and_takes_them_along").await else {
        return;
    };
    tombolo.kubectl(&["create", "namespace", "winter"]).await.ok();
    let map = ["create", "configmap", "ski", "-n", "winter", "--from-literal=length=170"];
    tombolo.kubectl(&map).await.ok();
    let secret = ["create", "secret", "generic", "pass", "-n", "winter", "--from-literal=pin=1234"];
    tombolo.kubectl(&secret).await.ok();
    let everywhere = tombolo.kubectl(&["get", "configmaps", "-A"]).await.ok();
    assert_has(&everywhere, &["NAMESPACE", "winter", "ski"]);
    let pin = ["get", "secret", "pass", "-n", "winter", "-o", "jsonpath={.data.pin}"];
    assert_eq!(tombolo.kubectl(&pin).await.ok(), "MTIzNA==");
    let nowhere = ["create", "configmap", "lost", "-n", "summer"];
    assert_has(&tombolo.kubectl(&nowhere).await.failed(), &["summer", "not found"]);

    tombolo.kubectl(&["delete", "namespace", "winter", "--timeout=60s"]).await.ok();
    assert!(!tombolo.kubectl(&["get", "configmaps", "-A"]).await.ok().contains("ski"));
}

#[tokio::test]
async fn a_dry_run_and_a_diff_change_nothing() {
    let Some(tombolo) = start("a_dry_run_and_a_diff_change_nothing").await else { return };
    tombolo.kubectl_with(&["apply", "--dry-run=server", "-f", "-"], SITE).await.ok();
    assert_eq!(tombolo.kubectl(&["get", "sites", "-o", "name"]).await.ok(), "");
    tombolo.kubectl_with(&["apply", "-f", "-"], SITE).await.ok();
    let other = SITE.replace("Zermatt", "Davos");
    let difference = tombolo.kubectl_with(&["diff", "-f", "-"], &other).await;
    assert_eq!(difference.code, Some(1), "{difference:#?}");
    assert_has(&difference.stdout, &["Zermatt", "Davos"]);
    tombolo.kubectl_with(&["diff", "-f", "-"], SITE).await.ok();
    let city = ["get", "site", "alps", "-o", "jsonpath={.spec.location.city}"];
    assert_eq!(tombolo.kubectl(&city).await.ok(), "Zermatt");
}

#[tokio::test]
async fn lists_in_pages_and_deletes_by_selector() {
    let Some(tombolo) = start("lists_in_pages_and_deletes_by_selector").await else { return };
    let mut list = String::new();
    for number in 0..12 {
        list += &SITE.replace("alps", &format!("alp-{number:02}"));
        list += "---\n";
    }
    tombolo.kubectl_with(&["apply", "-f", "-"], &list).await.ok();
    let paged = tombolo.kubectl(&["get", "sites", "--chunk-size=5", "-o", "name"]).await.ok();
    assert_eq!(paged.lines().count(), 12);
    let one = ["get", "sites", "--field-selector=metadata.name=alp-07", "-o", "name"];
    assert_eq!(tombolo.kubectl(&one).await.ok(), "site.tombolo.dev/alp-07\n");
    tombolo.kubectl(&["delete", "sites", "-l", "tier=edge"]).await.ok();
    eventually("all are gone", async || {
        let left = tombolo.kubectl(&["get", "sites", "-o", "name"]).await.ok();
        left.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let Some(mut tombolo) = start("what_was_acknowledged_survives_a_kill").await else { return };
    tombolo.kubectl_with(&["apply", "-f", "-"], WIDGETS).await.ok();
    tombolo.kubectl_with(&["apply", "-f", "-"], SITE).await.ok();
    // Not the status: a loop may write it at any moment.
    let own = "jsonpath={.metadata.uid} {.metadata.generation} {.metadata.labels} {.spec}";
    let site = ["get", "site", "alps", "-o", own];
    let before = tombolo.kubectl(&site).await.ok();
    assert_has(&before, &["edge", "Zermatt"]);
    tombolo.kill9();
    tombolo.restart().await;
    assert_eq!(tombolo.kubectl(&site).await.ok(), before);
    tombolo.kubectl_with(&["apply", "-f", "-"], WIDGET).await.ok();
    assert!(tombolo.stop().await.success());
    tombolo.restart().await;
    assert_has(&tombolo.kubectl(&["get", "widgets"]).await.ok(), &["one"]);
}
