//! Descriptors of other projects against the real server: unchanged files through kubectl, the shell
//! and the ICOS facade become Apps.

use std::path::Path;

use serde_json::{Value, json};

use tombolo_testkit::{Tombolo, eventually, tools};

const CODECO: &str = include_str!("../../../examples/formats/codeco-app.yaml");
const CHARITY: &str = include_str!("../../../examples/formats/charity-orchestration.yaml");
const ICOS: &str = include_str!("../../../examples/formats/icos-camera.yaml");

/// What the shell prints of an object, if it is there.
async fn get(tombolo: &Tombolo, what: &[&str]) -> Option<Value> {
    let args: Vec<&str> = [&["get"], what, &["-o", "json"]].concat();
    let ran = tombolo.shell(&args).await;
    (ran.code == Some(0)).then(|| ran.json())
}

#[tokio::test]
async fn kubectl_applies_a_codecoapp_and_reads_its_status() {
    if tools::kubectl("descriptors::kubectl_applies_a_codecoapp").is_none() {
        return;
    }
    let tombolo = Tombolo::start().await;
    tombolo.kubectl_with(&["apply", "-f", "-"], CODECO).await.ok();
    let app = eventually("the App is made", async || get(&tombolo, &["app/parcel-line"]).await);
    let app = app.await;
    assert_eq!(app["metadata"]["ownerReferences"][0]["kind"], "CodecoApp");
    assert_eq!(app["spec"]["profile"], "resilience");
    let asked = ["get", "codecoapp", "parcel-line", "-o", "jsonpath={.status.status}"];
    let status = eventually("its status is written", async || {
        let word = tombolo.kubectl(&asked).await.ok();
        (!word.is_empty()).then_some(word)
    });
    assert!(["OK", "Warning", "Error"].contains(&status.await.as_str()));

    // The App follows the object, and goes with it.
    let changed = CODECO.replace("performanceProfile: Resilience", "performanceProfile: Greenness");
    assert_ne!(changed, CODECO);
    tombolo.kubectl_with(&["apply", "-f", "-"], &changed).await.ok();
    eventually("the App follows", async || {
        let app = get(&tombolo, &["app/parcel-line"]).await?;
        (app["spec"]["profile"] == "greenness").then_some(())
    })
    .await;
    // So do its labels; those that somebody gave the App itself stay.
    tombolo.kubectl(&["label", "app", "parcel-line", "theirs=kept"]).await.ok();
    for (change, expected) in [("team=red", json!("red")), ("team-", Value::Null)] {
        tombolo.kubectl(&["label", "codecoapp", "parcel-line", change]).await.ok();
        eventually("the labels of the App follow", async || {
            let app = get(&tombolo, &["app/parcel-line"]).await?;
            let labels = &app["metadata"]["labels"];
            (labels["team"] == expected && labels["theirs"] == "kept").then_some(())
        })
        .await;
    }
    tombolo.kubectl(&["delete", "codecoapp", "parcel-line"]).await.ok();
    eventually("the App goes", async || {
        get(&tombolo, &["app/parcel-line"]).await.is_none().then_some(())
    })
    .await;
}

/// As with any other descriptor, a namespace that it names comes into being.
#[tokio::test]
async fn the_shell_applies_a_codecoapp_into_the_namespace_that_it_names() {
    let tombolo = Tombolo::start().await;
    let elsewhere = CODECO.replace("namespace: default", "namespace: stands");
    assert_ne!(elsewhere, CODECO);
    tombolo.shell_with(&["apply", "-f", "-"], &elsewhere).await.ok();
    eventually("the App is made there", async || {
        get(&tombolo, &["app/parcel-line", "-n", "stands"]).await
    })
    .await;
}

#[tokio::test]
async fn what_somebody_adds_to_an_owned_app_is_taken_back() {
    if tools::kubectl("descriptors::what_somebody_adds_to_an_owned_app").is_none() {
        return;
    }
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], CODECO).await.ok();
    let app = eventually("the App is made", async || get(&tombolo, &["app/parcel-line"]).await);
    let spec = app.await["spec"].clone();
    assert!(spec["homogeneous"].is_null(), "{spec}");
    // A field that the translation never writes belongs to whoever wrote it.
    let change = r#"{"spec": {"homogeneous": true, "profile": "greenness"}}"#;
    tombolo.kubectl(&["patch", "app", "parcel-line", "--type", "merge", "-p", change]).await.ok();
    eventually("the App is what the CodecoApp says", async || {
        (get(&tombolo, &["app/parcel-line"]).await?["spec"] == spec).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_folder_of_all_formats_is_applied_compared_and_deleted() {
    let tombolo = Tombolo::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/formats");
    let mut count = 0;
    for entry in std::fs::read_dir(&examples).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            std::fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).unwrap();
            count += 1;
        }
    }
    assert!(count >= 8, "an example of each format: {count}");
    let path = folder.path().display().to_string();
    let applied = tombolo.shell(&["apply", "-f", &path]).await;
    assert_eq!(applied.code, Some(0), "{applied:#?}");
    let named = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let objects: Vec<String> = applied.stdout.lines().map(named).collect();
    for kind in ["app/", "codecoapp", "lowlevelorchestration", "secret/"] {
        assert!(objects.iter().any(|object| object.starts_with(kind)), "{kind} in {objects:?}");
    }
    let again = tombolo.shell(&["diff", "-f", &path]).await;
    assert_eq!(again.code, Some(0), "nothing differs: {again:#?}");
    let deleted = tombolo.shell(&["delete", "--yes", "-f", &path]).await;
    assert_eq!(deleted.code, Some(0), "{deleted:#?}");
    eventually("no App is left", async || {
        let apps = get(&tombolo, &["apps", "--all-namespaces"]).await?;
        apps["items"].as_array().is_none_or(Vec::is_empty).then_some(())
    })
    .await;
}

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1
        envFrom: [{configMapRef: {name: settings}}]
";
const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
";
const CONFIG: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {LEVEL: info}
";

/// A folder of this name with one object in each file.
fn one_object_a_file(within: &Path) -> std::path::PathBuf {
    let folder = within.join("guestbook");
    std::fs::create_dir_all(folder.join("base")).expect("a folder");
    for (name, text) in
        [("service.yaml", SERVICE), ("deployment.yaml", DEPLOYMENT), ("base/config.yaml", CONFIG)]
    {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    folder
}

#[tokio::test]
async fn a_folder_with_one_object_in_each_file_is_one_app() {
    let tombolo = Tombolo::start().await;
    let scratch = tempfile::tempdir().unwrap();
    let folder = one_object_a_file(scratch.path());
    let path = folder.to_str().unwrap();
    tombolo.shell(&["apply", "-R", "-f", path]).await.ok();
    let app = get(&tombolo, &["app/web"]).await.expect("the App");
    let component = &app["spec"]["components"][0];
    assert_eq!(component["expose"][0]["port"], 8080);
    assert_eq!(component["run"][1]["container"]["env"]["LEVEL"], "info");
    assert!(get(&tombolo, &["configmap/settings"]).await.is_some());
    let again = tombolo.shell(&["diff", "-R", "-f", path]).await;
    assert_eq!(again.code, Some(0), "nothing differs: {again:#?}");
    tombolo.shell(&["delete", "--yes", "-R", "-f", path]).await.ok();

    // File by file as well, and what is wrong is told with its file.
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (service, deployment) = (at("service.yaml"), at("deployment.yaml"));
    tombolo.shell(&["apply", "-f", &service, "-f", &deployment]).await.ok();
    assert!(get(&tombolo, &["app/web"]).await.is_some());
    std::fs::write(folder.join("deployment.yaml"), DEPLOYMENT.replace("image:", "imag:")).unwrap();
    let wrong = tombolo.shell(&["apply", "-f", &service, "-f", &deployment]).await;
    assert_eq!(wrong.code, Some(1), "{wrong:#?}");
    assert!(wrong.stderr.contains("deployment.yaml:10:9: error[missing-field]"), "{wrong:#?}");
}

#[tokio::test]
async fn a_kustomization_is_what_it_renders() {
    if tools::kubectl("descriptors::a_kustomization_is_what_it_renders").is_none() {
        return;
    }
    let tombolo = Tombolo::start().await;
    let scratch = tempfile::tempdir().unwrap();
    let folder = one_object_a_file(scratch.path());
    let kustomization =
        "namePrefix: my-\nresources: [service.yaml, deployment.yaml, base/config.yaml]\n";
    std::fs::write(folder.join("kustomization.yaml"), kustomization).unwrap();
    tombolo.shell(&["apply", "-f", folder.to_str().unwrap()]).await.ok();
    let app = get(&tombolo, &["app/my-web"]).await.expect("the App");
    assert_eq!(app["spec"]["components"][0]["expose"][0]["port"], 8080);
}

#[tokio::test]
async fn a_chart_without_helm_says_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("chart");
    std::fs::create_dir(&folder).unwrap();
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    std::fs::write(folder.join("Chart.yaml"), chart).unwrap();
    let program = tombolo_testkit::binary::path();
    for (command, flag) in [("validate", None), ("convert", None), ("apply", Some("-f"))] {
        let ran = std::process::Command::new(program)
            .arg(command)
            .args(flag)
            .arg(&folder)
            .env("PATH", scratch.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{command}: {said}");
        for word in ["is a Helm chart, and there is no helm here", "helm template"] {
            assert!(said.contains(word), "{command}: no {word:?} in {said}");
        }
    }
}

#[tokio::test]
async fn a_chart_is_what_helm_renders() {
    if tools::program("descriptors::a_chart_is_what_helm_renders", "helm").is_none() {
        return;
    }
    let tombolo = Tombolo::start().await;
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("chart");
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    std::fs::write(folder.join("Chart.yaml"), chart).unwrap();
    let deployment = DEPLOYMENT.replace("nginx:1", "{{ .Values.image }}");
    for (name, text) in [
        ("values.yaml", "image: nginx:2\n"),
        ("templates/web.yaml", deployment.as_str()),
        ("templates/config.yaml", CONFIG),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    tombolo.shell(&["apply", "-f", folder.to_str().unwrap()]).await.ok();
    let app = get(&tombolo, &["app/web"]).await.expect("the App");
    assert_eq!(app["spec"]["components"][0]["run"][1]["container"]["image"], "nginx:2");
}

#[tokio::test]
async fn a_mistake_in_a_foreign_object_stands_in_its_own_status() {
    if tools::kubectl("descriptors::a_mistake_in_a_foreign_object").is_none() {
        return;
    }
    let tombolo = Tombolo::start().await;
    let wrong = CODECO.replace("securityClass: Medium", "securityClass: Enormous");
    assert_ne!(wrong, CODECO);
    // The shell tells the line, and sends nothing.
    let ran = tombolo.shell_with(&["apply", "-f", "-"], &wrong).await;
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("securityClass: Enormous"), "{ran:#?}");
    assert!(get(&tombolo, &["codecoapp/parcel-line"]).await.is_none());
    tombolo.kubectl_with(&["apply", "-f", "-"], &wrong).await.ok();
    let status = eventually("the refusal", async || {
        let object = get(&tombolo, &["codecoapp/parcel-line"]).await?;
        (object["status"]["status"] == "Error").then(|| object["status"].clone())
    });
    assert!(status.await["errorMsg"].as_str().unwrap().contains("Enormous"));
    assert!(get(&tombolo, &["app/parcel-line"]).await.is_none());
}

#[tokio::test]
async fn an_orchestration_becomes_its_apps_and_their_secrets() {
    let tombolo = Tombolo::start().await;
    tombolo.shell_with(&["apply", "-f", "-"], CHARITY).await.ok();
    let app = eventually("the App", async || get(&tombolo, &["app/berths"]).await).await;
    assert_eq!(app["metadata"]["ownerReferences"][0]["kind"], "LowLevelOrchestration");
    let secret = get(&tombolo, &["secret/berths-ledger-env"]).await.expect("its secret");
    // A new value is a new Secret, although the App says the same as before.
    let changed = CHARITY.replace("change-me", "another");
    assert_ne!(changed, CHARITY);
    tombolo.shell_with(&["apply", "-f", "-"], &changed).await.ok();
    eventually("the new value", async || {
        let now = get(&tombolo, &["secret/berths-ledger-env"]).await?;
        (now["data"] != secret["data"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_shell_applies_what_it_recognises_and_tells_what_it_left_out() {
    let tombolo = Tombolo::start().await;
    let ran = tombolo.shell_with(&["apply", "-f", "-"], ICOS).await;
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.stdout.contains("app/"), "{ran:#?}");
    assert!(!ran.stderr.is_empty(), "notes are told: {ran:#?}");
    let wrong = ICOS.replacen("- name:", "-name:", 1);
    let ran = tombolo.shell_with(&["apply", "-f", "-"], &wrong).await;
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("stdin:"), "{ran:#?}");
    assert!(ran.stderr.contains("nothing was sent"), "{ran:#?}");
}

#[tokio::test]
async fn validate_and_convert_need_no_server() {
    let tombolo = Tombolo::start().await;
    let report = tombolo.shell_with(&["validate", "-o", "json", "-"], ICOS).await.json();
    assert_eq!((&report[0]["format"], &report[0]["valid"]), (&json!("icos"), &json!(true)));
    let app = tombolo.shell_with(&["convert", "-"], ICOS).await.ok();
    let again = tombolo.shell_with(&["validate", "-o", "json", "-"], &app).await.json();
    assert_eq!((&again[0]["format"], &again[0]["valid"]), (&json!("native"), &json!(true)));
    let ran = tombolo.shell_with(&["validate", "-"], "name: x\ncomponents: 5\n").await;
    assert_eq!(ran.code, Some(1), "{ran:#?}");
}
