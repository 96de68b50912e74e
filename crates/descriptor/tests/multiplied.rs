//! What a text says once and uses often must not become a great deal more than the text: every way in
//! which a format lets a text do so, with a text of some hundred kilobytes that would become a hundred
//! megabytes or more.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;

use tombolo_descriptor::{NoFiles, Reading, Source, read};

/// Larger than any of these texts; many times smaller than what they ask for.
const RESULT_BYTES_MAX: usize = 48 << 20;
/// Of what is there once.
const LARGE: usize = 200_000;

/// How much came of a text, as whoever applies it or shows it would see.
fn size(reading: &Reading) -> usize {
    let json = |value: serde_json::Result<Vec<u8>>| value.unwrap().len();
    let apps = reading.apps.iter().map(|app| json(serde_json::to_vec(app))).sum::<usize>();
    let others = reading.others.iter().map(|one| json(serde_json::to_vec(one))).sum::<usize>();
    let notes = reading.notes.iter().map(|note| note.path.len() + note.message.len());
    let told = reading.diagnostics.iter().map(|one| {
        let mend = one.mend.as_ref().map_or(0, |mend| mend.replacement.len());
        one.path.len() + one.message.len() + one.expected.as_ref().map_or(0, String::len) + mend
    });
    apps + others + notes.sum::<usize>() + told.sum::<usize>()
}

#[track_caller]
fn check(text: &str) {
    let reading = read(Source { name: "multiplied.yaml", text }, None, &NoFiles);
    let size = size(&reading);
    let told: Vec<_> = reading.diagnostics.iter().map(|one| (one.code, &one.message)).collect();
    assert!(size <= RESULT_BYTES_MAX, "{} kB of text became {} kB", text.len() / 1000, size / 1000);
    assert!(told.iter().any(|(code, _)| code.starts_with("too-")), "it is told: {told:.200?}");
}

fn large() -> String {
    "x".repeat(LARGE)
}

/// The lines of a list or a mapping, each with its number.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        writeln!(text, "{}", line(number)).unwrap();
        text
    })
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {app: a}}\nspec:\n  containers:\n  - name: c\n    image: 'i:1'\n";

#[test]
fn variables_within_variables_of_a_pod() {
    let mut text = format!("{POD}    env:\n    - {{name: V0, value: {}}}\n", "x".repeat(1000));
    for number in 1..=5 {
        let ten = format!("$(V{})", number - 1).repeat(10);
        writeln!(text, "    - {{name: V{number}, value: '{ten}'}}").unwrap();
    }
    check(&text);
    let arguments = lines(1000, |_| "    - $(BIG)".to_owned());
    check(&format!("{POD}    env: [{{name: BIG, value: {}}}]\n    args:\n{arguments}", large()));
}

#[test]
fn a_config_map_for_many_variables() {
    let variables = lines(1000, |number| {
        format!("    - {{name: V{number}, valueFrom: {{configMapKeyRef: {{name: big, key: k}}}}}}")
    });
    check(&format!(
        "{POD}    env:\n{variables}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata: {{k: {}}}\n",
        large()
    ));
}

#[test]
fn the_entries_of_a_secret_under_many_prefixes() {
    let sources =
        lines(1500, |number| format!("    - {{prefix: P{number}_, secretRef: {{name: wide}}}}"));
    let keys = lines(1500, |number| format!("  a-rather-long-name-of-an-entry-{number}: ''"));
    check(&format!(
        "{POD}    envFrom:\n{sources}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: wide}}\nstringData:\n{keys}"
    ));
}

#[test]
fn the_entries_of_a_config_map_in_many_folders() {
    let mounts = lines(1500, |number| format!("    - {{name: v, mountPath: /folder/{number}}}"));
    let keys = lines(1500, |number| format!("  a-rather-long-name-of-an-entry-{number}: ''"));
    check(&format!(
        "{POD}    volumeMounts:\n{mounts}  volumes: [{{name: v, configMap: {{name: wide}}}}]\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: wide}}\ndata:\n{keys}"
    ));
}

#[test]
fn a_service_before_many_pods() {
    let pods = lines(500, |number| {
        format!("---\n{}", POD.replace("{name: a,", &format!("{{name: a{number},")))
    });
    let service = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: s, annotations: {{k: {}}}}}\nspec: {{selector: {{app: a}}, ports: [{{port: 80}}]}}\n",
        large()
    );
    check(&format!("{service}{pods}"));
}

#[test]
fn an_input_for_many_variables() {
    let variables = lines(1000, |number| format!("          V{number}: {{get_input: big}}"));
    let concat = "{get_input: big}, ".repeat(500);
    check(&format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3\nmetadata: {{template_name: t}}\ntopology_template:\n  inputs: {{big: {{type: string, default: {}}}}}\n  node_templates:\n    a:\n      type: Charity.Component\n      properties:\n        name: a\n        image: {{concat: [{concat}]}}\n        environment:\n{variables}",
        large()
    ));
}

#[test]
fn a_host_for_many_components() {
    let charity = lines(500, |number| {
        format!(
            "    c{number}: {{type: Charity.Component, properties: {{name: c{number}, image: i}}, requirements: [{{host: n}}]}}"
        )
    });
    check(&format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3\nmetadata: {{template_name: t}}\ntopology_template:\n  node_templates:\n    n: {{type: Charity.Node, requirements: [{{local_storage: {{node: s, relationship: {{properties: {{location: /{}}}}}}}}}]}}\n    s: {{type: Charity.PersistentStorage, properties: {{size: 1 GB}}}}\n{charity}",
        large()
    ));
    let ceaml = lines(500, |number| {
        format!(
            "    c{number}: {{type: Component, properties: {{name: c{number}, application: a, registry: {{image: i}}}}, requirements: [{{host: n}}]}}"
        )
    });
    check(&format!(
        "tosca_definitions_version: tosca_simple_yaml_1_2\ntopology_template:\n  node_templates:\n    n: {{type: tosca.nodes.Compute.EdgeNode, properties: {{building_type: {}}}}}\n{ceaml}",
        large()
    ));
}

#[test]
fn a_description_for_many_applications() {
    let components = lines(500, |number| {
        format!(
            "    c{number}: {{type: Component, properties: {{name: c, application: a{number}, registry: {{image: i}}}}}}"
        )
    });
    check(&format!(
        "tosca_definitions_version: tosca_simple_yaml_1_2\ndescription: {}\ntopology_template:\n  node_templates:\n{components}",
        large()
    ));
}

#[test]
fn an_annotation_for_many_apps_of_an_orchestration() {
    let apps = lines(1000, |number| {
        format!("  - {{name: a{number}, components: [{{name: c, image: i}}]}}")
    });
    check(&format!(
        "apiVersion: charity-project.eu/v1\nkind: LowLevelOrchestration\nmetadata: {{name: o, annotations: {{k: {}}}}}\nspec:\n  apps:\n{apps}",
        large()
    ));
}

#[test]
fn the_name_of_an_application_for_many_channels() {
    let channels =
        lines(1000, |_| "    - {otherService: {serviceName: s, appName: other}}".to_owned());
    let app = |metadata: &str, name: &str, channels: &str| {
        format!(
            "apiVersion: codeco.he-codeco.eu/v1alpha1\nkind: CodecoApp\nmetadata: {{name: {metadata}}}\nspec:\n  appName: {name}\n  codecoapp-msspec:\n  - serviceName: s\n    podspec: {{containers: [{{name: c, image: i}}]}}\n{channels}"
        )
    };
    let with_channels = app("one", "one", &format!("    serviceChannels:\n{channels}"));
    let text = format!("{with_channels}---\n{}", app(&large(), "other", ""));
    let reading = read(Source { name: "multiplied.yaml", text: &text }, None, &NoFiles);
    assert!(size(&reading) <= RESULT_BYTES_MAX, "{} kB", size(&reading) / 1000);
    // The channels lead to the App by the name that it has got.
    let [one, other] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(one.spec.components[0].connects[0].app, other.metadata.name);
}

#[test]
fn the_requirements_and_manifests_of_an_icos_application() {
    let components = lines(500, |number| {
        format!("- {{name: c{number}, type: kubernetes, manifests: [{{name: a}}]}}")
    });
    let values = lines(4000, |number| format!("    - a-rather-long-value-of-a-label-{number}"));
    check(&format!(
        "name: x\nrequirements:\n  nodelabel:\n    key: k\n    values:\n{values}components:\n{components}---\n{POD}"
    ));
    let pod = POD.replace("labels: {app: a}", &format!("annotations: {{k: {}}}", large()));
    check(&format!("name: x\ncomponents:\n{components}---\n{pod}"));
}

#[test]
fn a_service_or_a_network_for_many_services() {
    let services = lines(500, |number| format!("  s{number}: {{extends: {{service: base}}}}"));
    let base = format!("  base: {{image: i, environment: {{K: {}}}}}\n", large());
    check(&format!("name: x\nservices:\n{base}{services}"));
    for kind in ["networks", "volumes"] {
        let named = match kind {
            "networks" => "networks: [big]",
            _ => "volumes: ['big:/x']",
        };
        let services =
            lines(500, |number| format!("  s{number}: {{image: i, network_mode: host, {named}}}"));
        check(&format!(
            "name: x\nservices:\n{services}{kind}: {{big: {{driver_opts: {{k: {}}}}}}}\n",
            large()
        ));
    }
}

#[test]
fn what_stands_beside_many_selective_deployments() {
    let workload = "[{metadata: {name: w}, spec: {selector: {}, template: {spec: {containers: [{name: c, image: i}]}}}}]";
    let deployments = lines(500, |number| {
        format!(
            "---\napiVersion: apps.edgenet.io/v1alpha2\nkind: SelectiveDeployment\nmetadata: {{name: d{number}}}\nspec: {{workloads: {{deployment: {workload}}}}}"
        )
    });
    check(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata: {{k: {}}}\n{deployments}",
        large()
    ));
    let values = lines(4000, |number| format!("    - a-rather-long-name-of-a-city-{number}"));
    let workloads = lines(500, |number| {
        format!(
            "    - {}",
            workload.trim_matches(['[', ']']).replace("name: w", &format!("name: w{number}"))
        )
    });
    check(&format!(
        "apiVersion: apps.edgenet.io/v1alpha2\nkind: SelectiveDeployment\nmetadata: {{name: d}}\nspec:\n  workloads:\n    deployment:\n{workloads}  selector:\n  - name: City\n    operator: In\n    value:\n{values}"
    ));
}
