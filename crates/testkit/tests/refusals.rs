//! The failures of daily use that no program of a workload is to blame for: a token that has expired, a
//! server that is down, somebody who may not look, the wrong namespace, a file that cannot be read, an
//! App that goes while it is waited for. Whatever command a person tries says the true cause and a way out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use tombolo_testkit::{Clock, Ran, Tombolo};

const FAILED: Option<i32> = Some(1);
const NOT_FOUND: Option<i32> = Some(3);
const DENIED: Option<i32> = Some(5);
const UNREACHABLE: Option<i32> = Some(6);

const APP: &str = "\
apiVersion: tombolo.dev/v1alpha1
kind: App
metadata: {name: shop}
spec:
  components:
  - name: web
    run: [{process: {command: [sleep, '3600']}}]
";

/// Where people look.
const LOOKS: &[&str] = &[
    "get apps shop",
    "why shop",
    "describe app/shop",
    "events --for app/shop",
    "wait app/shop --for=condition=Ready --timeout=30s",
];

async fn look(tombolo: &Tombolo, kubeconfig: &Path, command: &str) -> Ran {
    let kubeconfig = kubeconfig.to_str().unwrap();
    let words: Vec<&str> =
        ["--kubeconfig", kubeconfig].into_iter().chain(command.split(' ')).collect();
    tombolo.shell(&words).await
}

/// Every look ends like this, and says all of the words.
async fn check(tombolo: &Tombolo, kubeconfig: &Path, code: Option<i32>, words: &[&str]) {
    for command in LOOKS {
        let ran = look(tombolo, kubeconfig, command).await;
        assert_eq!(ran.code, code, "{command}: {ran:#?}");
        for word in words {
            assert!(ran.stderr.contains(word), "{command} does not say {word:?}: {ran:#?}");
        }
    }
}

/// A kubeconfig for somebody with this role.
async fn kubeconfig_for(tombolo: &Tombolo, name: &str, more: &[&str]) -> std::path::PathBuf {
    let file = tombolo.file(&format!("{name}.kubeconfig"), "");
    std::fs::remove_file(&file).unwrap();
    let create = ["token", "create", "--role", "user", name, "-o", file.to_str().unwrap()];
    tombolo.shell(&[&create, more].concat()).await.ok();
    file
}

#[tokio::test]
async fn a_token_that_has_expired_says_so() {
    let Some(clock) = Clock::make("refusals::a_token_that_has_expired_says_so") else { return };
    let tombolo = Tombolo::start_by(&clock).await;
    let more = ["--for-namespace", "default", "--expires-in", "1h"];
    let file = kubeconfig_for(&tombolo, "alice", &more).await;
    look(&tombolo, &file, "get apps").await.ok();
    clock.set_ahead(Duration::from_secs(2 * 3600));
    let words = ["is not accepted", "tombolo config view"];
    check(&tombolo, &file, DENIED, &words).await;
}

#[tokio::test]
async fn a_server_that_is_down_is_named() {
    let mut tombolo = Tombolo::start().await;
    let (file, address) = (tombolo.kubeconfig(), tombolo.address().to_owned());
    tombolo.kill9();
    check(&tombolo, &file, UNREACHABLE, &[&address, "tombolo up"]).await;
}

#[tokio::test]
async fn somebody_who_may_not_is_told_what_it_takes() {
    let tombolo = Tombolo::start().await;
    tombolo.shell(&["create", "namespace", "lab"]).await.ok();
    let file = kubeconfig_for(&tombolo, "bob", &["--for-namespace", "lab"]).await;
    let apply = ["--kubeconfig", file.to_str().unwrap(), "-n", "default", "apply", "-f", "-"];
    let ran = tombolo.shell_with(&apply, APP).await;
    assert_eq!(ran.code, DENIED, "{ran:#?}");
    let role = "takes the role user of namespace \"default\" or admin";
    for word in ["bob (user of namespace \"lab\") may not", role, "tombolo token create"] {
        assert!(ran.stderr.contains(word), "no {word:?} in {ran:#?}");
    }
    // Whoever looks for it sees that nothing has come of it.
    for command in LOOKS {
        let ran = look(&tombolo, &file, &format!("-n default {command}")).await;
        assert_eq!(ran.code, NOT_FOUND, "{command}: {ran:#?}");
        assert!(ran.stderr.contains("shop"), "{command}: {ran:#?}");
    }
}

#[tokio::test]
async fn whoever_looks_in_the_wrong_namespace_is_told_the_right_one() {
    let tombolo = Tombolo::start().await;
    tombolo.shell(&["create", "namespace", "lab"]).await.ok();
    tombolo.shell_with(&["-n", "lab", "apply", "-f", "-"], APP).await.ok();
    let words = ["in namespace default", "namespace lab has one of this name: -n lab"];
    check(&tombolo, &tombolo.kubeconfig(), NOT_FOUND, &words).await;
}

#[tokio::test]
async fn a_slip_of_the_fingers_is_told_the_right_word() {
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], APP).await.ok();
    let typed = tombolo.shell(&["get", "app", "shpo"]).await;
    assert_eq!(typed.code, NOT_FOUND, "{typed:#?}");
    assert!(typed.stderr.contains("did you mean shop?"), "{typed:#?}");
    let pods = tombolo.shell(&["get", "pods"]).await;
    assert!(pods.stderr.contains("tombolo get assignments"), "{pods:#?}");
    // A Service by itself is nothing that a server could take, and what it needs is said.
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web}}";
    let service = tombolo.shell_with(&["apply", "-f", "-"], service).await;
    assert!(service.stderr.contains("together with the workload"), "{service:#?}");
}

#[tokio::test]
async fn of_a_file_that_cannot_be_read_nothing_is_there() {
    let tombolo = Tombolo::start().await;
    let broken = APP.replace("- name: web", "-name: web");
    let ran = tombolo.shell_with(&["apply", "-f", "-"], &broken).await;
    assert_eq!(ran.code, FAILED, "{ran:#?}");
    for word in ["stdin:6:", "-name: web", "mend: - name: web", "nothing was sent"] {
        assert!(ran.stderr.contains(word), "no {word:?} in {ran:#?}");
    }
    check(&tombolo, &tombolo.kubeconfig(), NOT_FOUND, &["shop", "lists what there is"]).await;
}

#[tokio::test]
async fn an_app_that_was_deleted_while_it_was_coming_up_is_gone() {
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], APP).await.ok();
    let waiting = tombolo.shell(&["wait", "app/shop", "--for=condition=Ready", "--timeout=60s"]);
    let deleting = tombolo.shell(&["delete", "app/shop", "--yes"]);
    let (waited, deleted) = tokio::join!(waiting, deleting);
    deleted.ok();
    assert_eq!(waited.code, NOT_FOUND, "{waited:#?}");
    for command in LOOKS.iter().filter(|command| !command.starts_with("events")) {
        let ran = look(&tombolo, &tombolo.kubeconfig(), command).await;
        assert_eq!(ran.code, NOT_FOUND, "{command}: {ran:#?}");
        assert!(ran.stderr.contains("shop"), "{command}: {ran:#?}");
    }
    // What happened to it can still be read for a while; of what never was, nothing happened.
    let unknown = look(&tombolo, &tombolo.kubeconfig(), "events --for app/never").await;
    assert_eq!(unknown.code, NOT_FOUND, "{unknown:#?}");
}
