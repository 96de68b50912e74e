//! ICOS descriptors, field by field: the example, each dialect, and the project's own files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod projects;

use tombolo_descriptor::{Colour, Format, NoFiles, NoteKind, Reading, Source, read, render};
use tombolo_model::component::{Component, Protocol};
use tombolo_model::policy::Action;
use tombolo_model::{App, Arch, Bytes, Cpu, Level};

fn read_icos(text: &str) -> Reading {
    read(Source { name: "app.yaml", text }, None, &NoFiles)
}

/// The App of a text without errors.
#[track_caller]
fn app(text: &str) -> App {
    let reading = read_icos(text);
    let shown = render(Source { name: "app.yaml", text }, &reading.diagnostics, Colour::Never);
    assert!(!reading.has_errors(), "{shown}");
    assert_eq!(reading.format, Some(Format::Icos));
    reading.apps.into_iter().next().unwrap()
}

/// `code line` of each diagnostic.
fn told(reading: &Reading, text: &str) -> Vec<String> {
    let lines = tombolo_descriptor::Lines::new(text);
    let one = |found: &tombolo_descriptor::Diagnostic| {
        format!("{} {}", found.code, lines.position(found.span.start).line)
    };
    reading.diagnostics.iter().map(one).collect()
}

fn component<'a>(app: &'a App, name: &str) -> &'a Component {
    app.spec.components.iter().find(|component| component.name == name).unwrap()
}

fn names(component: &Component) -> Vec<String> {
    let manifests = component.run.iter().flat_map(|run| &run.manifests);
    manifests.map(|manifest| manifest["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: web, image: web}\n";

#[test]
fn the_example_becomes_an_app() {
    let app = app(include_str!("../../../examples/formats/icos-camera.yaml"));
    assert_eq!(app.metadata.name.as_deref(), Some("camera"));
    assert_eq!(app.metadata.namespace.as_deref(), Some("yard"));
    assert_eq!(app.spec.description.as_deref(), Some("Watches the yard and keeps what it sees."));
    assert!(!app.spec.homogeneous);

    let feed = component(&app, "feed");
    assert_eq!(names(feed), ["feed", "feed-svc"]);
    let each = feed.on_each.as_ref().unwrap();
    assert_eq!(
        (each.label.as_str(), each.values.as_slice()),
        ("yard.example/gate", &["north".to_owned(), "south".to_owned()][..])
    );
    let needs = feed.needs.as_ref().unwrap();
    assert_eq!(needs.arch, [Arch::Arm64]);
    assert_eq!(needs.devices, ["squat.ai/video"]);
    assert_eq!(needs.security, Some(Level::MEDIUM));
    // The header leaves them out, so they come from the manifests.
    assert_eq!(needs.cpu, Some(Cpu::from_millis(250)));
    assert_eq!(needs.memory, Some(Bytes::new(64 << 20)));
    assert_eq!(feed.expose.len(), 1);
    assert_eq!((feed.expose[0].port, feed.expose[0].public), (8080, false));

    let recorder = component(&app, "recorder");
    assert_eq!(recorder.run.len(), 2);
    assert_eq!(recorder.run[0].manifests.len(), 1);
    assert!(recorder.run[1].compose.as_ref().unwrap()["services"]["recorder"].is_object());
    let needs = recorder.needs.as_ref().unwrap();
    assert_eq!(needs.cpu, Some(Cpu::from_millis(500)));
    assert_eq!(needs.memory, Some(Bytes::new(512 << 20)));
    assert_eq!(recorder.connects.len(), 1);
    assert_eq!((recorder.connects[0].to.as_str(), recorder.connects[0].port), ("feed", Some(80)));

    let weights = app.spec.weights.unwrap();
    assert_eq!(
        (weights.performance, weights.energy, weights.security),
        (Some(0.5), Some(0.3), Some(0.2))
    );
    let names: Vec<&str> = app.spec.policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["feed-security", "keep-up"]);
    let security = &app.spec.policies[0];
    assert_eq!(security.components, ["feed"]);
    assert_eq!(security.condition.security, Some(Level::MEDIUM));
    assert_eq!(security.remediation.as_ref().unwrap().action, Action::Redeploy);
    let custom = &app.spec.policies[1];
    assert_eq!(custom.components, ["recorder"]);
    assert_eq!(custom.condition.template.as_deref(), Some("app-host-cpu-usage"));
    assert_eq!(custom.condition.variables["maxCpu"], 0.8);
    assert_eq!(custom.remediation.as_ref().unwrap().action, Action::ScaleUp);
}

#[test]
fn every_dialect_gives_the_same_app() {
    let header =
        "name: shop\ncomponents:\n- name: web\n  type: kubernetes\n  manifests: [{name: web}]\n";
    let indented = |by: &str| POD.lines().map(|line| format!("{by}{line}\n")).collect::<String>();
    let a = app(&format!("{header}---\n{POD}"));
    let a_reversed = app(&format!("{POD}---\n{header}"));
    let b = app(&format!("{header}manifests:\n- name: web\n  manifest:\n{}", indented("    ")));
    let c = app(&format!("{header}manifests:\n-\n{}", indented("  ")));
    assert_eq!(a, b);
    assert_eq!(a, c);
    assert_eq!(a, a_reversed);
    assert_eq!(names(&a.spec.components[0]), ["web"]);
}

#[test]
fn a_list_without_blanks_is_shown_with_its_mend() {
    let text = "name: shop\ncomponents:\n- name: web\n  type: kubernetes\n  manifests: [{name: web}]\nmanifests:\n  -name: web\n  manifest: {}\n";
    let reading = read_icos(text);
    assert_eq!(told(&reading, text), ["missing-blank 7"]);
    let mend = reading.diagnostics[0].mend.as_ref().unwrap();
    assert_eq!((mend.span.start, mend.span.end, mend.replacement.as_str()), (95, 95, " "));
}

#[test]
fn requirements_add_up_over_the_manifests_of_a_component() {
    let text = "
name: shop
components:
- name: web
  type: kubernetes
  manifests: [{name: one}, {name: two}]
- name: old
  type: docker
  manifests: [{name: compose}]
manifests:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: one}
  spec:
    replicas: 3
    template:
      spec:
        initContainers:
        - {name: init, image: i, resources: {requests: {cpu: 2, memory: 1Mi}}}
        containers:
        - {name: a, image: a, resources: {requests: {cpu: \"0.5\", memory: 2Mi}, limits: {cpu: 4}}}
        - {name: b, image: b, resources: {limits: {memory: 1Mi, nvidia.com/gpu: 1}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: two}
  spec: {containers: [{name: c, image: c, resources: {requests: {cpu: 250m, memory: 1Mi}, limits: {squat.ai/video: 1}}}]}
- name: compose
  manifest:
    services:
      a: {image: a, deploy: {replicas: 2, resources: {reservations: {cpus: '0.5', memory: 200M}}}}
      b: {image: b, mem_limit: 1g}
";
    let app = app(text);
    let web = component(&app, "web").needs.as_ref().unwrap();
    // Three times the larger of two cores at the start and half a core later, and a quarter core.
    assert_eq!(web.cpu, Some(Cpu::from_millis(3 * 2000 + 250)));
    assert_eq!(web.memory, Some(Bytes::new((3 * 3 + 1) << 20)));
    assert_eq!(web.gpu, Some(3));
    assert_eq!(web.devices, ["squat.ai/video"]);
    let old = component(&app, "old").needs.as_ref().unwrap();
    assert_eq!(old.cpu, Some(Cpu::from_millis(1000)));
    // Compose means powers of two.
    assert_eq!(old.memory, Some(Bytes::new((2 * 200 + 1024) << 20)));
}

#[test]
fn what_the_header_says_counts_more_than_the_sum() {
    let text = format!(
        "name: shop\nrequirements: {{cpu: 4, memory: 1Gi}}\ncomponents:\n- name: web\n  type: kubernetes\n  manifests: [{{name: web}}]\n  requirements: {{cpu: 2}}\n---\n{POD}    resources: {{requests: {{cpu: 1, memory: 1Mi}}}}\n"
    );
    let text = text.replace(
        "- {name: web, image: web}\n    resources: {requests: {cpu: 1, memory: 1Mi}}",
        "- {name: web, image: web, resources: {requests: {cpu: 1, memory: 1Mi}}}",
    );
    let app = app(&text);
    let needs = app.spec.components[0].needs.as_ref().unwrap();
    assert_eq!(needs.cpu, Some(Cpu::from_millis(2000)));
    assert_eq!(needs.memory, Some(Bytes::new(1 << 30)));
}

#[test]
fn spellings_of_the_dialects_are_one() {
    let needs = |requirements: &str| {
        let text = format!(
            "name: shop\ncomponents:\n- name: web\n  type: kubernetes\n  manifests: [{{name: web}}]\n  requirements: {requirements}\n---\n{POD}"
        );
        app(&text).spec.components[0].needs.clone().unwrap()
    };
    for (written, bytes) in [
        ("200Mi", 200 << 20),
        ("7Gi", 7 << 30),
        ("200M", 200_000_000),
        ("200Mb", 200_000_000),
        ("512MB", 512_000_000),
    ] {
        assert_eq!(needs(&format!("{{memory: {written}}}")).memory, Some(Bytes::new(bytes)));
    }
    for (written, millis) in [("0.5", 500), ("\"2\"", 2000), ("500m", 500)] {
        assert_eq!(needs(&format!("{{cpu: {written}}}")).cpu, Some(Cpu::from_millis(millis)));
    }
    for (written, arch) in [
        ("intel", Arch::Amd64),
        ("x86_64", Arch::Amd64),
        ("amd64", Arch::Amd64),
        ("arm64", Arch::Arm64),
        ("aarch64", Arch::Arm64),
    ] {
        assert_eq!(needs(&format!("{{architecture: {written}}}")).arch, [arch]);
    }
    let one = needs("{nodelabel: {key: color, values: [green]}}");
    assert_eq!(one.labels["color"], "green");
}

#[test]
fn policies_have_their_defaults() {
    let policy = |policies: &str| {
        let text = format!(
            "name: shop\ncomponents:\n- name: web\n  type: kubernetes\n  manifests: [{{name: web}}]\npolicies:\n{policies}\n---\n{POD}"
        );
        app(&text)
    };
    let low = policy("- {type: security, level: low, remediation_action: none}");
    assert_eq!(low.spec.policies[0].remediation.as_ref().unwrap().action, Action::None);
    assert_eq!(low.spec.components[0].needs.as_ref().unwrap().security, Some(Level::LOW));
    let two = policy("- {type: security, level: medium}\n- {type: security, threshold: 80}");
    // The higher floor counts.
    assert_eq!(two.spec.components[0].needs.as_ref().unwrap().security, Level::from_score(80));
    let names: Vec<&str> = two.spec.policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["security", "security-2"]);
    let custom = policy("- {type: custom, spec: {expr: up, violatedIf: '< 1'}, component: '*'}");
    assert_eq!(custom.spec.policies[0].remediation, None);
    assert_eq!(custom.spec.policies[0].components, Vec::<String>::new());
    assert_eq!(custom.spec.policies[0].condition.violated_if.as_deref(), Some("< 1"));
}

#[test]
fn the_policy_managers_first_descriptor_becomes_an_app() {
    let test = "the_policy_managers_first_descriptor_becomes_an_app";
    let Some(text) = projects::file(test, "data/icos/policy/app_descriptor_1.yaml") else { return };
    let app = app(&text);
    assert_eq!(app.metadata.name.as_deref(), Some("mjpeg-ffmpeg-app"));
    assert!(app.spec.description.as_ref().unwrap().starts_with("My application is made of two"));
    let ffmpeg = component(&app, "ffmpeg");
    assert_eq!(names(ffmpeg), ["ffmpeg-pod"]);
    let needs = ffmpeg.needs.as_ref().unwrap();
    assert_eq!(needs.memory, Some(Bytes::new(200_000_000)));
    assert_eq!(needs.labels["color"], "green");
    assert_eq!(needs.security, Some(Level::HIGH));
    assert_eq!(ffmpeg.run[0].manifests[0]["spec"]["containers"][0]["image"], "santojim/ffmpeg");
    let mjpeg = component(&app, "mjpeg");
    assert_eq!(names(mjpeg), ["mjpeg-service", "mjpeg"]);
    assert_eq!(mjpeg.needs.as_ref().unwrap().devices, ["squat.ai/video"]);
    assert_eq!(mjpeg.needs.as_ref().unwrap().labels["shape"], "triangle");
    let expose = &mjpeg.expose[0];
    assert_eq!((expose.port, expose.published, expose.public), (8080, Some(30674), true));
    assert_eq!(expose.protocol, Protocol::Tcp);
    let weights = app.spec.weights.as_ref().unwrap();
    assert_eq!(
        (weights.performance, weights.energy, weights.security),
        (Some(0.5), Some(0.3), Some(0.2))
    );
    assert_eq!(app.spec.policies.len(), 1);
    assert_eq!(app.spec.policies[0].name, "ffmpeg-security");
    // Its second policy is for a component that is not there.
    let reading = read_icos(&text);
    assert_eq!(told(&reading, &text), ["sloppy-unit 29", "unknown-component 58", "sloppy-unit 84"]);
    let dropped = reading.notes.iter().filter(|note| note.kind == NoteKind::Dropped);
    assert_eq!(
        dropped.map(|note| note.path.as_str()).collect::<Vec<_>>(),
        ["policies[0].name", "policies[1]"]
    );
}

#[test]
fn the_policy_managers_second_descriptor_becomes_an_app() {
    let test = "the_policy_managers_second_descriptor_becomes_an_app";
    let Some(text) = projects::file(test, "data/icos/policy/app_descriptor_2.yaml") else { return };
    let app = app(&text);
    assert_eq!(app.metadata.name.as_deref(), Some("mjpeg-ffmpeg-app"));
    assert_eq!(names(component(&app, "ffmpeg")), ["ffmpeg-pod"]);
    let mjpeg = component(&app, "mjpeg");
    assert_eq!(names(mjpeg), ["mjpeg-service", "mjpeg-pod"]);
    assert_eq!(mjpeg.needs.as_ref().unwrap().devices, ["squat.ai/video"]);
    assert_eq!(mjpeg.expose[0].published, Some(30674));
    assert_eq!(app.spec.policies.len(), 1);
    assert_eq!(app.spec.policies[0].components, Vec::<String>::new());
}

#[test]
fn the_compss_descriptor_becomes_an_app() {
    let test = "the_compss_descriptor_becomes_an_app";
    let path = "data/icos/policy/app_descriptor_compss_1.yaml";
    let Some(text) = projects::file(test, path) else { return };
    let app = app(&text);
    assert_eq!(app.metadata.name.as_deref(), Some("compss-demo-1"));
    let compss = component(&app, "compss-app");
    assert_eq!(names(compss), ["compss-hello-world-demo"]);
    let template = &compss.run[0].manifests[0]["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"]["telemetry.icos.eu/port"], "19090");
    let policy = &app.spec.policies[0];
    assert_eq!(policy.name, "compss-app-custom");
    assert_eq!(policy.components, ["compss-app"]);
    assert_eq!(policy.condition.template.as_deref(), Some("compss-under-allocation"));
    assert_eq!(policy.condition.variables["thresholdTimeSeconds"], 120);
    assert_eq!(policy.condition.variables["compssTask"], "provesOtel.example_task");
    assert_eq!(policy.remediation.as_ref().unwrap().action, Action::ScaleUp);
}

#[test]
fn the_broken_descriptors_of_the_project_get_the_error_at_its_line() {
    let test = "the_broken_descriptors_of_the_project_get_the_error_at_its_line";
    if let Some(text) = projects::file(test, "data/icos/matchmaking/application.yaml") {
        let reading = read_icos(&text);
        assert_eq!(
            told(&reading, &text),
            ["missing-blank 23", "missing-blank 49", "missing-blank 74"]
        );
        // What could be read is there, for whoever only matches.
        let app = &reading.apps[0];
        assert_eq!(
            component(app, "ffmpeg").needs.as_ref().unwrap().memory,
            Some(Bytes::new(7 << 30))
        );
        assert_eq!(component(app, "ffmpeg").needs.as_ref().unwrap().security, Some(Level::HIGH));
        // The mends make it whole.
        let mut mended = text.clone();
        for diagnostic in reading.diagnostics.iter().rev() {
            let mend = diagnostic.mend.as_ref().unwrap();
            mended.replace_range(mend.span.range(), &mend.replacement);
        }
        let mended = mended
            .replace("\n  type: kubernetes\n  manifest:", "\n    type: kubernetes\n    manifest:");
        let reading = read_icos(&mended);
        assert!(!told(&reading, &mended).iter().any(|line| line.starts_with("missing-blank")));
    }
    let path = "data/icos/matchmaking/shell_app_descriptor_example_INVALID.yaml";
    if let Some(text) = projects::file(test, path) {
        let told = told(&read_icos(&text), &text);
        for expected in [
            "stray-document 1",
            "missing-field 4",
            "unknown-word 6",
            "unknown-manifest 13",
            "unknown-word 16",
            "syntax 49",
        ] {
            assert!(told.iter().any(|line| line == expected), "no {expected} in {told:?}");
        }
    }
}

/// The manifest that a wrong name means is not unused. Past the last problem that is told, it is not
/// looked for: a text with thousands of wrong names took as long as all of them times all manifests.
#[test]
fn the_meant_manifest_is_looked_for_only_where_it_is_told() {
    let wrong = |count: usize| (0..count).map(|number| format!("{{name: nothing-{number}}}, "));
    let unused = |before: usize| {
        let references: String = wrong(before).collect();
        let text = format!(
            "name: shop\ncomponents:\n- name: shop\n  type: kubernetes\n  manifests: [{references}{{name: wep}}]\n---\n{POD}"
        );
        let reading = read_icos(&text);
        let unknown = reading.diagnostics.iter().filter(|found| found.code == "unknown-manifest");
        assert_eq!(unknown.count(), (before + 1).min(100));
        reading.notes.iter().any(|note| note.message == "no component names this manifest")
    };
    assert!(!unused(99));
    assert!(unused(100));
}

/// Every name is made unique among those that are there, which must be few.
#[test]
fn an_application_has_no_more_policies_than_an_app() {
    let policies = "{name: same, security: low}, ".repeat(60);
    let components: String = (0..50)
        .map(|number| {
            format!("- {{name: c{number}, manifests: [{{name: web}}], policies: [{policies}]}}\n")
        })
        .collect();
    let text = format!("name: shop\ncomponents:\n{components}---\n{POD}");
    let reading = read_icos(&text);
    assert_eq!(reading.apps[0].spec.policies.len(), 64);
    assert!(reading.diagnostics.iter().any(|found| found.code == "too-many"));
}

/// Descriptors with names only, as the topology exporter's tests have them: nothing in them runs.
#[test]
fn a_header_without_manifests_says_what_is_missing() {
    let test = "a_header_without_manifests_says_what_is_missing";
    let path = "data/icos/topology-exporter/application_1.yaml";
    let Some(text) = projects::file(test, path) else { return };
    let reading = read_icos(&text);
    assert_eq!(told(&reading, &text), ["missing-field 3", "missing-field 4"]);
    assert_eq!(reading.apps[0].spec.components[1].name, "app-component-2");
    let path = "data/icos/topology-exporter/application.yaml";
    let Some(text) = projects::file(test, path) else { return };
    let reading = read_icos(&text);
    assert_eq!(told(&reading, &text), ["missing-field 3"]);
    assert_eq!(reading.apps[0].spec.components[0].name, "app-component");
}

/// How each component of a document's example runs, when a manifest of every name is there: those
/// whose name says `docker` are compose projects, as all are where `docker_only`.
fn ways(header: &str, docker_only: bool) -> Vec<String> {
    let mut text = header.trim().to_owned() + "\n";
    for line in header.lines().filter(|line| line.contains("-manifest")) {
        let name = line.trim().trim_start_matches("- name: ");
        text += &match docker_only || name.ends_with("docker") {
            true => format!("---\nname: {name}\nservices: {{one: {{image: 'example/{name}'}}}}\n"),
            false => format!("---\n{}", POD.replace("name: web", &format!("name: {name}"))),
        };
    }
    let app = app(&text);
    assert_eq!(app.metadata.name.as_deref(), Some("my-application"));
    assert_eq!(app.spec.description.as_deref(), Some("The description of application"));
    let way = |run: &tombolo_model::run::Run| match (&run.compose, run.manifests.as_slice()) {
        (Some(compose), []) => {
            compose["services"]["one"]["image"].as_str().unwrap().replace("example/", "compose ")
        }
        (None, [pod]) => format!("pod {}", pod["metadata"]["name"].as_str().unwrap()),
        (_, _) => panic!("{run:?}"),
    };
    let components = app.spec.components.iter().map(|component| {
        let ways: Vec<String> = component.run.iter().map(way).collect();
        format!("{}: {}", component.name, ways.join(", "))
    });
    components.collect()
}

/// The four cases of component types, and the sections that are said to be mandatory.
#[test]
fn the_cases_of_the_document_run_as_it_says() {
    let test = "the_cases_of_the_document_run_as_it_says";
    let Some(text) = projects::file(test, "seeds/002_55ccea8a925f4aab.txt") else { return };
    let snippets: Vec<&str> = text.split("```\n").collect();
    let at = |caption: &str| snippets.iter().position(|one| one.contains(caption)).unwrap();

    let sections = read_icos(snippets[at("Snippet 1:") - 1]);
    assert_eq!(sections.apps[0].metadata.name.as_deref(), Some("uc4-app-emds"));
    assert_eq!(sections.apps[0].spec.description.as_deref(), Some("the description"));
    assert_eq!(sections.apps[0].spec.components[0].name, "house-component");
    let codes: Vec<&str> = sections.diagnostics.iter().map(|found| found.code).collect();
    assert_eq!(codes, ["unknown-manifest"], "the manifests are left out in the document");

    assert_eq!(
        ways(snippets[at("Snippet 2:") - 1], false),
        ["component-1: pod comp-1-manifest", "component-2: pod comp-2-manifest"]
    );
    assert_eq!(
        ways(snippets[at("Snippet 3:") - 1], true),
        ["component-1: compose comp-1-manifest", "component-2: compose comp-2-manifest"]
    );
    // A page cuts the fourth, and the rest lost its indentation.
    let (first, rest) = (snippets[at("Snippet 4:") - 3], snippets[at("Snippet 4:") - 1]);
    let (own, other) = rest.split_once("- name: component-2").unwrap();
    let shift = |text: &str, by: usize| text.replace('\n', &format!("\n{}", " ".repeat(by)));
    let whole = format!(
        "{first}    {}\n  - name: component-2{}",
        shift(own.trim_end(), 4),
        shift(other.trim_end(), 2)
    );
    let both = "component-2: pod comp-2-manifest-kubernetes, compose comp-2-manifest-docker";
    assert_eq!(ways(&whole, false), ["component-1: pod comp-1-manifest", both]);
    assert_eq!(
        ways(snippets[at("Snippet 5:") - 1], false),
        [&both.replace('2', "1"), both].map(str::to_owned)
    );
}

/// Two manifests of one component, each with its own requirements (snippet 7). Pages cut it in three,
/// and the parts lost their indentation; its `labels` stand beside `metadata` in the document itself.
#[test]
fn the_manifests_of_the_document_add_up() {
    let test = "the_manifests_of_the_document_add_up";
    let Some(text) = projects::file(test, "seeds/002_55ccea8a925f4aab.txt") else { return };
    let snippets: Vec<&str> = text.split("```\n").collect();
    let at = snippets.iter().position(|one| one.contains("Snippet 7:")).unwrap();
    let [first, second, third] = [at - 5, at - 3, at - 1].map(|at| snippets[at].trim_matches('\n'));
    let (own, other) = second.split_once("\n\nmanifests:\n").unwrap();
    let shift = |text: &str, by: &str| -> String {
        text.lines().map(|line| format!("{by}{line}\n")).collect()
    };
    let whole = format!(
        "name: x\ncomponents:\n- name: busy\n  type: kubernetes\n  manifests:\n  - name: \
         comp-1-manifest-1\n  - name: comp-1-manifest-2\n{first}\n{}{}{}",
        shift(own, "      "),
        shift(other, "  "),
        shift(third, "                ")
    );
    let reading = read_icos(&whole);
    let app = app(&whole);
    let busy = component(&app, "busy");
    assert_eq!(names(busy), ["busybox-1", "busybox-2"]);
    for (number, manifest) in busy.run[0].manifests.iter().enumerate() {
        let name = format!("busybox-{}", number + 1);
        assert_eq!(manifest["kind"], "Deployment");
        assert_eq!(manifest["metadata"]["namespace"], "demo");
        assert_eq!(manifest["spec"]["selector"]["matchLabels"]["app"], name);
        let container = &manifest["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], name);
        assert_eq!(container["command"], serde_json::json!(["sleep", "100"]));
    }
    let needs = busy.needs.as_ref().unwrap();
    assert_eq!(needs.cpu, Some(Cpu::from_millis(1000)));
    assert_eq!(needs.memory, Some(Bytes::new(5 << 20)));
    assert_eq!(told(&reading, &whole), [""; 0]);
}

/// The snippets of the document on the application manifest, each with what it is said to mean.
#[test]
fn the_snippets_of_the_document_are_read() {
    let test = "the_snippets_of_the_document_are_read";
    let Some(text) = projects::file(test, "seeds/002_55ccea8a925f4aab.txt") else { return };
    let snippets: Vec<&str> = text.split("```\n").collect();
    let find = |needle: &str| snippets.iter().find(|snippet| snippet.contains(needle)).unwrap();

    // Requirements of a component (snippet 6 is cut in two by a page).
    let requirements = find("node-label-robot1").trim();
    let header = format!(
        "name: my_application\ndescription: \"my app description\"\ncomponents:\n{requirements}\n"
    );
    let reading = read_icos(&header);
    let one = &reading.apps[0].spec.components[0];
    let needs = one.needs.as_ref().unwrap();
    assert_eq!(needs.arch, [Arch::Amd64]);
    assert_eq!(needs.cpu, Some(Cpu::from_millis(500)));
    assert_eq!(needs.memory, Some(Bytes::new(200 << 20)));
    assert_eq!(needs.devices, ["squat.ai/video"]);
    let each = one.on_each.as_ref().unwrap();
    assert_eq!(each.label, "node-label-key");
    assert_eq!(each.values, ["node-label-robot1", "node-label-robot2"]);
    assert_eq!(told(&reading, &header), ["unknown-manifest 7"]);

    // The form of a policy, with words that stand for others (snippet 8).
    let form = find("type: policy-type");
    let header = format!("name: x\ncomponents: [{{name: a, manifests: [{{name: a}}]}}]\n{form}");
    let reading = read_icos(&header);
    let unknown = reading.diagnostics.iter().find(|found| found.code == "unknown-word").unwrap();
    assert_eq!(unknown.path, "policies[0].type");
    let types = "\"security\", \"scheduler\", \"user-preference\", \"custom\", \
                 \"node-resource-usage\" or \"redeployOnLostTelemetry\"";
    assert_eq!(unknown.expected.as_deref(), Some(types));

    // A security policy (snippet 9).
    let security = find("remediation_action: none");
    let header =
        format!("name: x\ncomponents: [{{name: a, manifests: [{{name: a}}]}}]\n{security}");
    let policy = &read_icos(&header).apps[0].spec.policies[0];
    assert_eq!(policy.name, "securitypolicyexample");
    assert_eq!(policy.condition.security, Some(Level::LOW));
    assert_eq!(policy.remediation.as_ref().unwrap().action, Action::None);

    // Weights, with a blank missing in the document itself (snippet 10).
    let weights = find("security:0.2");
    let header = format!("name: x\ncomponents: [{{name: a, manifests: [{{name: a}}]}}]\n{weights}");
    let reading = read_icos(&header);
    assert_eq!(reading.diagnostics[0].code, "missing-blank");
    let mend = reading.diagnostics[0].mend.as_ref().unwrap();
    let mut mended = header.clone();
    mended.replace_range(mend.span.range(), &mend.replacement);
    let weights = read_icos(&mended).apps[0].spec.weights.clone().unwrap();
    assert_eq!(
        (weights.performance, weights.energy, weights.security),
        (Some(0.5), Some(0.3), Some(0.2))
    );

    // A policy from a template (snippet 11).
    let custom = find("name: my-policy");
    let header = format!("name: x\ncomponents: [{{name: a, manifests: [{{name: a}}]}}]\n{custom}");
    let policy = &read_icos(&header).apps[0].spec.policies[0];
    assert_eq!(policy.name, "my-policy");
    assert_eq!(policy.condition.variables["thresholdTimeSeconds"], 120);

    // Communication (snippet 12, whole on its second appearance).
    let whole = snippets.iter().rfind(|snippet| snippet.contains("incoming: world-svc")).unwrap();
    let reading = read_icos(whole);
    let app = &reading.apps[0];
    assert_eq!(app.metadata.name.as_deref(), Some("helloworldclusterlink"));
    assert_eq!(component(app, "hello").connects[0].to, "world");
}

/// A compose manifest (snippet 13) and the header for it (snippet 14).
#[test]
fn the_compose_manifest_of_the_document_is_read() {
    let test = "the_compose_manifest_of_the_document_is_read";
    let Some(text) = projects::file(test, "seeds/002_55ccea8a925f4aab.txt") else { return };
    let snippets: Vec<&str> = text.split("```\n").collect();
    let find = |needle: &str| snippets.iter().find(|snippet| snippet.contains(needle)).unwrap();
    let compose = find("image: example/webapp").trim();
    let header = format!(
        "name: x\ncomponents: [{{name: a, type: docker, manifests: [{{name: comp-1-manifest}}]}}]\n{compose}\n"
    );
    let one = crate::app(&header).spec.components[0].clone();
    assert_eq!(
        one.run[0].compose.as_ref().unwrap()["services"]["frontend"]["image"],
        "example/webapp"
    );
    assert_eq!(one.needs.as_ref().unwrap().cpu, Some(Cpu::from_millis(500)));
    assert_eq!(one.needs.as_ref().unwrap().memory, Some(Bytes::new(200 << 20)));

    // The manifest goes in place of a comment.
    let header = find("# Docker compose manifest like").trim_end();
    let (before, _) = header.split_once("      # Docker").unwrap();
    let (_, body) = compose.split_once("manifest:\n").unwrap();
    let whole = format!("name: x\n{before}{body}\n");
    let one = crate::app(&whole).spec.components[0].clone();
    assert_eq!(one.name, "component-1");
    let service = &one.run[0].compose.as_ref().unwrap()["services"]["frontend"];
    assert_eq!(service["image"], "example/webapp");
    // Here the header says how much, and means powers of ten.
    assert_eq!(one.needs.as_ref().unwrap().cpu, Some(Cpu::from_millis(500)));
    assert_eq!(one.needs.as_ref().unwrap().memory, Some(Bytes::new(200_000_000)));
    assert_eq!(one.run.len(), 1);
}
