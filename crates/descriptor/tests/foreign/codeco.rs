//! CodecoApps: the published ones, field by field, and what our own ones show.

use serde_json::json;
use tombolo_descriptor::{NoteKind, Severity};
use tombolo_model::Level;
use tombolo_model::app::{Grade, Profile, Qos};

use crate::{clean, diagnostics, is_noted, only_app, print, projects, reading};

#[test]
fn the_published_codecoapp_becomes_an_app() {
    let Some(text) = projects::file("foreign", "data/codeco/codecoapp/codecoapp_ver3.yaml") else {
        return;
    };
    let reading = clean(&text);
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("codecoappinstance3"));
    assert_eq!(app.metadata.namespace.as_deref(), Some("he-codeco-acm"));
    let annotations = app.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["codeco.he-codeco.eu/app-name"], "acm-swm-app");
    assert_eq!(app.spec.qos, Some(Qos::Gold));
    assert_eq!(app.spec.energy_limit, Some(20.0));
    assert_eq!(app.spec.failure_tolerance, None);
    assert_eq!(app.spec.profile, None);
    assert_eq!(
        serde_json::to_value(&app.spec.components).unwrap(),
        json!([
            {
                "name": "backend",
                "replicas": 1,
                "run": [{"container": {
                    "image": "quay.io/skupper/hello-world-backend:latest", "ports": [8080],
                }}],
                "needs": {"cpu": "2", "memory": "4Gi", "security": "50", "compliance": "high"},
                "connects": [{
                    "to": "front-end", "port": 9090, "protocol": "tcp", "latency": "1s",
                    "bandwidth": "5bps", "frameSize": "100", "sendInterval": "10s",
                }],
                "expose": [{"port": 8080, "protocol": "tcp"}],
            },
            {
                "name": "front-end",
                "run": [{"container": {
                    "image": "quay.io/dekelly/frontend-app:v0.0.2", "ports": [8080],
                }}],
                "needs": {"security": "50", "compliance": "high"},
                "connects": [{
                    "to": "backend", "port": 8080, "protocol": "tcp", "latency": "1s",
                    "bandwidth": "5bps", "frameSize": "100", "sendInterval": "10s",
                }],
                "expose": [
                    {"port": 8080, "protocol": "tcp"},
                    {"port": 9090, "protocol": "tcp"},
                ],
            },
        ])
    );
    for path in [
        "metadata.uid",
        "metadata.generation",
        "metadata.resourceVersion",
        "spec.securityClass",
        "spec.codecoapp-msspec[0].nwbandwidth",
        "spec.codecoapp-msspec[0].nwlatency",
        "spec.codecoapp-msspec[0].podspec.selector",
        "spec.codecoapp-msspec[0].podspec.template.metadata",
    ] {
        assert!(is_noted(&reading, path), "no note on {path}");
    }
}

#[test]
fn the_misspelt_channel_name_of_the_published_codecoapp_is_mended() {
    let Some(text) = projects::file("foreign", "data/codeco/codecoapp/codecoapp_ver3.yaml") else {
        return;
    };
    let reading = reading(&text);
    let misspelt: Vec<_> =
        reading.diagnostics.iter().filter(|found| found.code == "misspelt-field").collect();
    assert_eq!(misspelt.len(), 2);
    for found in misspelt {
        assert_eq!(found.severity, Severity::Warning);
        let mend = found.mend.clone().unwrap();
        assert_eq!(&text[mend.span.range()], "chanelName");
        assert_eq!(mend.replacement, "channelName");
    }
    let lines: Vec<usize> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("chanelName"))
        .map(|(index, _)| index + 1)
        .collect();
    let told = diagnostics(&text, &reading);
    for line in lines {
        assert!(told.iter().any(|told| told.starts_with(&format!("{line}: misspelt-field"))));
    }
}

/// The print breaks the sample in two, and its second half stands too far to the left.
fn d11(text: &str) -> String {
    let sample = print::cut(text, "apiVersion: codeco.he-codeco.eu", "Figure 6:");
    let (head, services) = sample.split_once("codecoapp-msspec: [\n").unwrap();
    let services: String = services.lines().map(|line| format!("    {line}\n")).collect();
    format!("{head}codecoapp-msspec: [\n{services}")
}

#[test]
fn the_codecoapp_of_d11_becomes_an_app() {
    let Some(text) = projects::file("foreign", "seeds/000_23d314addba8fc79.txt") else { return };
    let reading = clean(&d11(&text));
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("codecoapp-sample"));
    let labels = app.metadata.labels.clone().unwrap();
    assert_eq!(labels.len(), 5);
    assert_eq!(labels["app.kubernetes.io/name"], "codecoapp2");
    assert_eq!(labels["app.kubernetes.io/instance"], "codecoapp-sample");
    assert_eq!(labels["app.kubernetes.io/part-of"], "codecoapp-operator");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "kustomize");
    assert_eq!(labels["app.kubernetes.io/created-by"], "codecoapp-operator");
    let annotations = app.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["codeco.he-codeco.eu/app-name"], "My CODECO App");
    assert_eq!(app.spec.qos, Some(Qos::BestEffort));
    assert_eq!(
        serde_json::to_value(&app.spec.components).unwrap(),
        json!([
            {
                "name": "codeco-micro-service-1",
                "run": [{"container": {"image": "microservice1"}}],
                "needs": {"cpu": "2", "memory": "120G"},
            },
            {
                "name": "codeco-micro-service-2",
                "run": [{"container": {"image": "microservice2"}}],
                "needs": {"cpu": "1500m", "memory": "80G"},
            },
        ])
    );
    for path in [
        "spec.qosclass",
        "spec.codecoapp-msspec[0].podspecname",
        "spec.codecoapp-msspec[0].required-resources.nwbandwidth",
        "spec.codecoapp-msspec[1].required-resources.nwbandwidth",
    ] {
        assert!(is_noted(&reading, path), "no note on {path}");
    }
    let codes: Vec<&str> = reading.diagnostics.iter().map(|found| found.code).collect();
    assert_eq!(codes, ["unknown-pod", "unknown-pod"]);
}

fn with_spec(lines: &str) -> String {
    format!(
        "apiVersion: codeco.he-codeco.eu/v1alpha1
kind: CodecoApp
metadata: {{name: kiosk}}
spec:
  appName: kiosk
{lines}
  codecoapp-msspec:
  - serviceName: till
    podspec: {{containers: [{{name: till, image: \"till:1\"}}]}}
"
    )
}

#[test]
fn the_scale_of_the_annex_goes_from_the_least_to_the_most() {
    let security =
        [None, Some(Level::LOW), Some(Level::MEDIUM), Level::from_score(50), Some(Level::HIGH)];
    let qos = [Qos::BestEffort, Qos::Silver, Qos::Silver, Qos::Gold, Qos::Gold];
    for step in 1..=5usize {
        let text = with_spec(&format!(
            "  QoS: {step}\n  security_level: {step}\n  compliance_level: \"{step}\""
        ));
        let app = only_app(&text);
        assert_eq!(app.spec.qos, Some(qos[step - 1]), "at {step}");
        let needs = app.spec.components[0].needs.clone().unwrap_or_default();
        assert_eq!(needs.security, security[step - 1], "at {step}");
        assert_eq!(needs.compliance, security[step - 1], "at {step}");
    }
}

#[test]
fn the_attributes_of_the_annex_are_read() {
    let app = only_app(&with_spec(
        "  failure_tolerance: \"20\"\n  energy_expenditure: 35%\n  Input_data_size: 2Gi",
    ));
    assert_eq!(app.spec.failure_tolerance, Some(Grade::Low));
    assert_eq!(app.spec.energy_limit, Some(35.0));
    let data = app.spec.components[0].data.clone().unwrap();
    assert_eq!(data.input.unwrap().to_string(), "2Gi");
}

#[test]
fn words_count_whatever_their_case() {
    let app = only_app(&with_spec("  qosClass: best-effort\n  performanceProfile: GREENNESS"));
    assert_eq!(app.spec.qos, Some(Qos::BestEffort));
    assert_eq!(app.spec.profile, Some(Profile::Greenness));
}

#[test]
fn a_channel_to_another_application_of_the_text_finds_its_app() {
    let text = "\
apiVersion: codeco.he-codeco.eu/v1alpha1
kind: CodecoApp
metadata: {name: kiosk}
spec:
  appName: kiosk
  codecoapp-msspec:
  - serviceName: till
    podspec: {containers: [{name: till, image: \"till:1\"}]}
    serviceChannels:
    - channelName: stock
      otherService: {serviceName: Shelf One, appName: The Store, port: 90}
---
apiVersion: codeco.he-codeco.eu/v1alpha1
kind: CodecoApp
metadata: {name: store-1}
spec:
  appName: The Store
  codecoapp-msspec:
  - serviceName: Shelf One
    podspec: {containers: [{name: shelf, image: \"shelf:1\", ports: [{containerPort: 90}]}]}
";
    let reading = clean(text);
    let connection = &reading.apps[0].spec.components[0].connects[0];
    assert_eq!(connection.app.as_deref(), Some("store-1"));
    assert_eq!(connection.to, "shelf-one");
    assert_eq!(reading.apps[1].spec.components[0].name, "shelf-one");
}

#[test]
fn a_pod_of_several_containers_is_kept_as_it_is() {
    let text = with_spec("").replace(
        "[{name: till, image: \"till:1\"}]",
        "[{name: till, image: \"till:1\"}, {name: logs, image: \"logs:1\"}]",
    );
    let app = only_app(&text);
    let run = &app.spec.components[0].run[0];
    assert!(run.container.is_none());
    assert_eq!(run.manifests[0]["kind"], "Deployment");
    assert_eq!(run.manifests[0]["metadata"]["name"], "till");
    let pod = &run.manifests[0]["spec"]["template"]["spec"];
    assert_eq!(pod["containers"].as_array().unwrap().len(), 2);
}

#[test]
fn a_pod_that_keeps_away_from_itself_is_apart() {
    let affinity = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                    [{labelSelector: {matchLabels: {app: LABEL}}, topologyKey: kubernetes.io/hostname}]}}";
    let with = |label: &str| {
        let affinity = affinity.replace("LABEL", label);
        with_spec("").replace("podspec: {", &format!("podspec: {{{affinity}, "))
    };
    let app = only_app(&with("till"));
    assert_eq!(app.spec.components[0].affinity.as_ref().unwrap().apart, ["till"]);
    let reading = clean(&with("stranger"));
    assert_eq!(reading.apps[0].spec.components[0].affinity, None);
    assert!(is_noted(&reading, "spec.codecoapp-msspec[0].podspec.affinity"));
}

#[test]
fn a_pod_that_is_named_is_found_in_the_same_text() {
    let text = "\
apiVersion: codeco.he-codeco.eu/v1alpha1
kind: CodecoApp
metadata: {name: kiosk}
spec:
  name: kiosk
  codecoapp-msspec:
  - name: till
    podspecname: Till
    required-resources: {cpu: \"1\"}
---
apiVersion: v1
kind: Pod
metadata: {name: Till}
spec:
  containers: [{name: till, image: \"till:7\"}]
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {a: b}
---
apiVersion: v1
kind: Service
metadata: {name: aside}
";
    let reading = clean(text);
    let component = &reading.apps[0].spec.components[0];
    assert_eq!(component.run[0].container.as_ref().unwrap().image, "till:7");
    assert_eq!(component.needs.as_ref().unwrap().cpu.unwrap().to_string(), "1");
    assert_eq!(reading.others.len(), 1);
    let dropped = |note: &&tombolo_descriptor::Note| note.kind == NoteKind::Dropped;
    assert!(reading.notes.iter().filter(dropped).any(|note| note.message.contains("a Service")));
}
