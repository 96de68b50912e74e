//! Our own shell against the real server: what a person types, what comes out, and the exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tombolo_testkit::{Ran, Tombolo, eventually};

const APP: &str = include_str!("fixtures/app.yaml");
const NODE: &str = include_str!("fixtures/node.yaml");
const SITE: &str = include_str!("fixtures/site.yaml");

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const CONFLICT: i32 = 4;
const DENIED: i32 = 5;
const UNREACHABLE: i32 = 6;
const TIMEOUT: i32 = 7;

#[track_caller]
fn assert_has(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "no {wanted:?} in:\n{text}");
    }
}

#[track_caller]
fn assert_code(ran: &Ran, code: i32) {
    assert_eq!(ran.code, Some(code), "{ran:#?}");
}

#[tokio::test]
async fn applies_shows_and_deletes() {
    let tombolo = Tombolo::start().await;
    let files = format!("{SITE}---\n{NODE}---\n{APP}");
    tombolo.shell_with(&["apply", "-f", "-"], &files).await.ok();
    assert_has(&tombolo.shell(&["get", "sites"]).await.ok(), &["NAME", "alps", "host"]);
    assert_has(&tombolo.shell(&["get", "sites", "-o", "wide"]).await.ok(), &["CH"]);
    let names = tombolo.shell(&["get", "sites,nodes,apps", "-o", "name"]).await.ok();
    assert_has(&names, &["alps", "hut", "shop"]);
    let app = tombolo.shell(&["get", "app/shop", "-o", "json"]).await.json();
    assert_eq!(app["spec"]["components"][0]["replicas"], 2);
    assert_has(&tombolo.shell(&["get", "app/shop", "-o", "yaml"]).await.ok(), &["kind: App"]);
    assert_has(&tombolo.shell(&["describe", "node/hut"]).await.ok(), &["hut", "alps"]);
    assert_has(&tombolo.shell(&["explain", "app.spec.components"]).await.ok(), &["replicas"]);

    let other = APP.replace("replicas: 2", "replicas: 3");
    let diff = tombolo.shell_with(&["diff", "-f", "-"], &other).await;
    assert_code(&diff, FAILED);
    assert_has(&diff.stdout, &["-", "2", "+", "3"]);
    tombolo.shell_with(&["diff", "-f", "-"], APP).await.ok();

    assert_code(&tombolo.shell(&["delete", "app/shop"]).await, USAGE);
    tombolo.shell(&["delete", "app/shop", "--yes", "--wait"]).await.ok();
    assert_code(&tombolo.shell(&["get", "app/shop"]).await, NOT_FOUND);
    assert_code(&tombolo.shell(&["delete", "app/shop", "--yes"]).await, NOT_FOUND);
}

#[tokio::test]
async fn exit_codes_say_what_went_wrong() {
    let mut tombolo = Tombolo::start().await;
    assert_code(&tombolo.shell(&["gte", "sites"]).await, USAGE);
    assert_code(&tombolo.shell(&["get", "nonsense"]).await, NOT_FOUND);
    let typo = APP.replace("replicas: 2", "replcas: 2");
    let refused = tombolo.shell_with(&["apply", "-f", "-"], &typo).await;
    assert_code(&refused, FAILED);
    assert_has(&refused.stderr, &["replcas", "replicas"]);

    tombolo.shell_with(&["apply", "-f", "-", "--field-manager", "alice"], SITE).await.ok();
    let other = SITE.replace("Zermatt", "Davos");
    let apply = ["apply", "-f", "-", "--field-manager", "bob"];
    let conflict = tombolo.shell_with(&apply, &other).await;
    assert_code(&conflict, CONFLICT);
    assert_has(&conflict.stderr, &["alice"]);

    let wait = ["wait", "site/alps", "--for=condition=Ready", "--timeout=1s"];
    assert_code(&tombolo.shell(&wait).await, TIMEOUT);

    tombolo.stop().await;
    let down = tombolo.shell(&["get", "sites"]).await;
    assert_code(&down, UNREACHABLE);
    assert_has(&down.stderr, &["tombolo up"]);
}

#[tokio::test]
async fn a_token_gives_its_role_and_no_more() {
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], SITE).await.ok();
    let guest = tombolo.data().join("guest.kubeconfig");
    let guest = guest.to_str().unwrap();
    tombolo.shell(&["token", "create", "--role", "guest", "board", "--out", guest]).await.ok();
    let as_guest = async |arguments: &[&str]| {
        let config = ["--kubeconfig", guest];
        tombolo.shell(&[&config, arguments].concat()).await
    };
    assert_has(&as_guest(&["get", "sites"]).await.ok(), &["alps"]);
    let denied = as_guest(&["delete", "site/alps", "--yes"]).await;
    assert_code(&denied, DENIED);
    assert_has(&denied.stderr, &["delete", "sites"]);
    assert_has(&tombolo.shell(&["get", "sites"]).await.ok(), &["alps"]);

    tombolo.shell(&["token", "revoke", "board", "--yes"]).await.ok();
    assert_code(&as_guest(&["get", "sites"]).await, DENIED);
}

#[tokio::test]
async fn a_backup_can_be_restored() {
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], SITE).await.ok();
    let file = tombolo.data().join("saved.backup");
    let file = file.to_str().unwrap();
    tombolo.shell(&["backup", "--plain", file]).await.ok();
    tombolo.shell(&["delete", "site/alps", "--yes", "--wait"]).await.ok();
    tombolo.shell_with(&["apply", "-f", "-"], NODE).await.ok();
    let before = version_of_list(&tombolo).await;

    tombolo.shell(&["restore", file, "--yes"]).await.ok();
    assert_has(&tombolo.shell(&["get", "sites"]).await.ok(), &["alps"]);
    assert_code(&tombolo.shell(&["get", "node/hut"]).await, NOT_FOUND);
    let after = version_of_list(&tombolo).await;
    assert!(after > before, "revisions must only grow: {before} before, {after} after");
}

async fn version_of_list(tombolo: &Tombolo) -> u64 {
    let client = tombolo.client().await;
    let request = http::Request::get("/api/v1/namespaces").body(Vec::new()).unwrap();
    let list: serde_json::Value = client.request(request).await.unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn secrets_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let tombolo = Tombolo::start().await;
    for name in ["kubeconfig", "admin.token"] {
        let mode = std::fs::metadata(tombolo.data().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn the_loops_of_a_server_are_shown_and_well() {
    let tombolo = Tombolo::start().await;
    // The server answers before each of its loops has begun.
    let shown = eventually("all loops", async || {
        let shown = tombolo.shell(&["loops"]).await.ok();
        let all = [
            "foreign",
            "garbage",
            "gate",
            "job-index",
            "leases",
            "links",
            "mirrors",
            "oversight",
            "placing",
            "registration",
            "sites",
        ];
        all.iter().all(|name| shown.contains(name)).then_some(shown)
    });
    assert_has(&shown.await, &["LOOP", "STATE", "LAST REPORT", "RESTARTS", "LAST ERROR"]);
    let board = tombolo.shell(&["loops", "-o", "json"]).await.json();
    assert_eq!(board["mirrors"][0]["kind"], "App");
    let health = http::Request::get("/readyz/loops?verbose").body(Vec::new()).unwrap();
    let client = tombolo.client().await;
    assert_has(&client.request_text(health).await.unwrap(), &["+]loop placing"]);
    let well = eventually("the condition", async || {
        let path = "/api/v1/namespaces/tombolo-system";
        let namespace = http::Request::get(path).body(Vec::new()).unwrap();
        let namespace: serde_json::Value = client.request(namespace).await.ok()?;
        let conditions = namespace["status"]["conditions"].as_array()?;
        conditions.iter().find(|one| one["type"] == "LoopsWell").cloned()
    });
    assert_eq!(well.await["reason"], "LoopsOnTime");
}
