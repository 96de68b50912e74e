//! How people come in: from a token that an administrator makes to a login that ends, and what a namespace
//! that is not there is called.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tombolo_testkit::{Ran, Tombolo};

const APP: &str = include_str!("fixtures/app.yaml");

const FAILED: Option<i32> = Some(1);
const USAGE: Option<i32> = Some(2);
const NOT_FOUND: Option<i32> = Some(3);
const DENIED: Option<i32> = Some(5);

/// The folder of the test, which goes with the server.
fn folder(tombolo: &Tombolo) -> PathBuf {
    tombolo.data().parent().unwrap().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs our shell with another kubeconfig.
async fn with(tombolo: &Tombolo, kubeconfig: &Path, arguments: &[&str]) -> Ran {
    let named = ["--kubeconfig", text(kubeconfig)];
    tombolo.shell(&[&named, arguments].concat()).await
}

#[track_caller]
fn assert_has(said: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(said.contains(wanted), "no {wanted:?} in:\n{said}");
    }
}

#[tokio::test]
async fn somebody_signs_in_with_the_file_that_was_made_for_them() {
    let tombolo = Tombolo::start().await;
    tombolo.shell(&["create", "namespace", "shop"]).await.ok();
    let file = folder(&tombolo).join("alice.kubeconfig");
    let create = [
        "token",
        "create",
        "--role",
        "user",
        "--for-namespace",
        "shop",
        "alice",
        "-o",
        text(&file),
    ];
    let made = tombolo.shell(&create).await;
    assert_has(&made.stderr, &["tombolo login --token-file", "--address"]);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = tombolo.shell(&create).await;
    assert_eq!(again.code, FAILED, "it overwrites nothing: {again:#?}");

    // As it is, and after a login with it.
    assert_has(&with(&tombolo, &file, &["whoami"]).await.ok(), &["alice, user of namespace shop"]);
    let login = folder(&tombolo).join("login/kubeconfig");
    let said = with(&tombolo, &login, &["login", "--token-file", text(&file)]).await.ok();
    assert_has(&said, &["you are alice, user of namespace shop"]);
    let mode = std::fs::metadata(&login).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let apply = ["--kubeconfig", text(&login), "apply", "-f", "-"];
    tombolo.shell_with(&apply, APP).await.ok();
    assert_has(&tombolo.shell(&["get", "apps", "-n", "shop"]).await.ok(), &["shop"]);
    let elsewhere = ["--kubeconfig", text(&login), "apply", "-n", "default", "-f", "-"];
    assert_eq!(tombolo.shell_with(&elsewhere, APP).await.code, DENIED);

    // The token itself never stands on the terminal.
    let secret = std::fs::read_to_string(&file).unwrap();
    let secret = secret.split_whitespace().find(|word| word.starts_with("tombolo_")).unwrap();
    let shown = with(&tombolo, &login, &["config", "view"]).await.ok();
    assert!(!shown.contains(secret) && !made.stdout.contains(secret));

    with(&tombolo, &login, &["logout"]).await.ok();
    assert!(!login.exists(), "nothing of it is left");
    assert_eq!(with(&tombolo, &login, &["logout"]).await.code, NOT_FOUND);
}

#[tokio::test]
async fn a_bare_token_comes_from_a_pipe_and_a_wrong_one_is_not_kept() {
    let tombolo = Tombolo::start().await;
    let create = ["token", "create", "--role", "guest", "--token-only", "board"];
    let token = tombolo.shell(&create).await.ok();
    let login = folder(&tombolo).join("login");
    let ca = tombolo.data().join("ca.crt");
    let server = format!("https://{}", tombolo.address());
    let sign_in = ["--kubeconfig", text(&login), "login", "--server", &server, "--ca", text(&ca)];
    assert_has(&tombolo.shell_with(&sign_in, &token).await.ok(), &["you are board, guest"]);

    // Several logins are contexts of one file.
    let second = ["--context", "second", "login", "--server", &server, "--token-file", "-"];
    let second = [&["--kubeconfig", text(&login)], second.as_slice()].concat();
    tombolo.shell_with(&second, &token).await.ok();
    let contexts = with(&tombolo, &login, &["config", "contexts"]).await.ok();
    assert_has(&contexts, &["board@127.0.0.1", "second"]);
    let unknown = with(&tombolo, &login, &["config", "use", "third"]).await;
    assert_eq!(unknown.code, NOT_FOUND);
    let unknown = with(&tombolo, &login, &["--context", "third", "get", "sites"]).await;
    assert_eq!(unknown.code, USAGE);
    assert_has(&unknown.stderr, &["no context \"third\"", "second"]);

    // A damaged one is told from a wrong one, and neither is kept or shown.
    let fresh = folder(&tombolo).join("fresh");
    let sign_in = ["--kubeconfig", text(&fresh), "login", "--server", &server, "--ca", text(&ca)];
    let cut = &token.trim()[..40];
    let damaged = tombolo.shell_with(&sign_in, cut).await;
    assert_eq!(damaged.code, USAGE);
    assert_has(&damaged.stderr, &["not copied whole"]);
    assert!(!damaged.stderr.contains(cut));
    tombolo.shell(&["token", "revoke", "board", "--yes"]).await.ok();
    let revoked = tombolo.shell_with(&sign_in, &token).await;
    assert_eq!(revoked.code, DENIED);
    assert_has(&revoked.stderr, &["does not take this token", "tombolo token create"]);
    assert!(!revoked.stderr.contains(token.trim()) && !fresh.exists());

    // Whoever takes the token for a kubeconfig is told so, without the token.
    let mistaken = tombolo.file("board.token", &token);
    let mistaken = with(&tombolo, &mistaken, &["get", "sites"]).await;
    assert_eq!(mistaken.code, FAILED);
    assert_has(&mistaken.stderr, &["is a token, not a kubeconfig", "tombolo login"]);
    assert!(!mistaken.stderr.contains(token.trim()));
}

#[tokio::test]
async fn the_kubeconfig_of_the_server_itself_is_left_alone() {
    let tombolo = Tombolo::start().await;
    let before = std::fs::read_to_string(tombolo.kubeconfig()).unwrap();
    let token = tombolo.data().join("admin.token");
    let refused = tombolo.shell(&["login", "--token-file", text(&token)]).await;
    assert_eq!(refused.code, USAGE, "{refused:#?}");
    assert_eq!(tombolo.shell(&["logout"]).await.code, USAGE);
    assert_eq!(std::fs::read_to_string(tombolo.kubeconfig()).unwrap(), before);
}

#[tokio::test]
async fn a_namespace_that_is_not_there_is_named_with_what_to_do() {
    let tombolo = Tombolo::start().await;
    for command in [
        "get apps",
        "get app/shop",
        "describe app shop",
        "status",
        "why shop",
        "logs shop",
        "exec shop/web -- id",
        "cp shop/web:/etc/hosts .",
        "port-forward shop/web 80",
        "events",
        "events --for app/shop",
        "wait app/shop --for=condition=Ready",
        "delete app shop --yes",
        "edit app/shop",
        "scale shop/web=2",
        "restart shop",
        "rollout status shop",
        "rollout history shop",
        "rollout undo shop",
        "apply -f -",
        "diff -f -",
        "plan -f -",
        "token create --role user bob",
    ] {
        let words: Vec<&str> = ["-n", "lab"].into_iter().chain(command.split(' ')).collect();
        // A file says no namespace of its own, so that the command decides.
        let ran = tombolo.shell_with(&words, APP).await;
        assert_eq!(ran.code, NOT_FOUND, "{command}: {ran:#?}");
        assert_has(&ran.stderr, &["there is no namespace \"lab\"", "tombolo create namespace lab"]);
    }
    tombolo.shell(&["wait", "app/shop", "-n", "lab", "--for=delete"]).await.ok();
    tombolo.shell(&["delete", "app/shop", "-n", "lab", "--yes", "--ignore-not-found"]).await.ok();
    tombolo.shell(&["create", "namespace", "lab"]).await.ok();
    tombolo.shell_with(&["apply", "-n", "lab", "-f", "-"], APP).await.ok();
}
