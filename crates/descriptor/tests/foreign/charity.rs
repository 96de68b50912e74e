//! CHARITY's orchestrations and blueprints: those of the thesis, field by field, once what the print
//! did to them is put right, and what our own ones show.

use serde_json::json;
use tombolo_model::App;

use crate::{clean, diagnostics, is_noted, only_app, print, projects, reading};

const THESIS: &str = "seeds/004_12a30893d8e44870.txt";

/// Puts right what the print did, and makes sure that it was so.
fn mended(mut text: String, mends: &[(&str, &str)]) -> String {
    for (printed, meant) in mends {
        assert!(text.contains(printed), "{printed:?} is not in\n{text}");
        text = text.replace(printed, meant);
    }
    text
}

/// The print has lost the dashes and the columns of the lists; the keys say where they belong.
fn indented(lines: &[&str]) -> String {
    let keys: Vec<&str> = lines.iter().map(|line| key(line)).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let before = index.checked_sub(1).map_or("", |before| keys[before]);
        let after = keys.get(index + 1).copied().unwrap_or_default();
        let begin = match (keys[index], before, after) {
            ("clusters" | "apps", _, _) => "  ",
            ("provider", _, _) => "  - ",
            ("kubernetes-version" | "control-plane-count" | "control-plane-flavor", _, _)
            | ("worker-machine-count" | "worker-machine-flavor", _, _)
            | ("name", "provider", _)
            | ("image", "worker-machine-flavor", _) => "    ",
            ("name", "apps", _) => "  - ",
            ("owner" | "cluster" | "components", _, _) => "    ",
            ("name", "tls", _) => "        ",
            ("name", _, "value") => "        - ",
            ("name", _, _) => "    - ",
            ("cluster-selector" | "image" | "expose" | "env" | "tls", _, _) => "      ",
            ("is-public", _, _) => "      - ",
            ("is-peered" | "containerPort" | "clusterPort", _, _) => "        ",
            ("is-secret" | "variables", _, _) => "        ",
            ("value", _, _) => "          ",
            (other, _, _) => panic!("where does {other:?} belong?"),
        };
        text.push_str(&format!("{begin}{}\n", line.trim().trim_start_matches("- ")));
    }
    text
}

fn key(line: &str) -> &str {
    line.trim().trim_start_matches("- ").split(':').next().unwrap_or_default()
}

fn orchestration(spec: &str) -> String {
    format!(
        "apiVersion: charity-project.eu/v1\nkind: LowLevelOrchestration\n\
         metadata:\n  name: kubeadm-based-orchestration\nspec:\n{spec}"
    )
}

/// Figure 6.2 stands in two columns, of which the definition is the left one.
fn figure_6_2(text: &str) -> String {
    const LEFT: &[&str] = &[
        "scope: Namespaced ",
        "group: charity-project.eu ",
        "names: ",
        "kind: LowLevelOrchestration ",
        "plural: lowlevelorchestrations ",
        "singular: lowlevelorchestration ",
        "shortNames: ",
        "- llorch ",
        "versions: ",
        "- name: v1 ",
        "served: true ",
        "storage: true ",
        "schema: ",
        "openAPIV3Schema: ",
        "type: object ",
        "properties: ",
        "spec: ",
        "type: object ",
        "properties: ",
        "clusters: ",
        "type: array ",
        "items: ",
        "type: object ",
        "properties: ",
        "name: ",
        "type: string ",
        "uid: ",
        "type: string ",
        "provider: ",
        "type: string ",
    ];
    let figure = print::cut(text, "scope: Namespaced clusters:", "Figure 6.2");
    let right: Vec<String> = figure
        .lines()
        .filter(|line| !line.is_empty())
        .zip(LEFT)
        .map(|(line, left)| line.strip_prefix(left).unwrap().replace('\t', ""))
        .collect();
    let lines: Vec<&str> = right.iter().map(String::as_str).collect();
    mended(
        orchestration(&indented(&lines)),
        &[
            ("\"m1.mediumו\"", "m1.medium"),
            ("\"m1.mediuım\"", "m1.medium"),
            ("cluster: kubeadm-based-orch-blue2", "cluster: kubeadm-based-orch-blue"),
            ("kong/httpbi.n", "kong/httpbin"),
        ],
    )
}

#[test]
fn the_orchestration_of_figure_6_2_becomes_an_app() {
    let Some(text) = projects::file("foreign", THESIS) else { return };
    let reading = clean(&figure_6_2(&text));
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("httpbin"));
    assert_eq!(owner(app), "charity-developer");
    assert_eq!(
        serde_json::to_value(&app.spec.components).unwrap(),
        json!([{
            "name": "httpbin",
            "run": [{"container": {"image": "docker.io/kong/httpbin", "ports": [80]}}],
            "needs": {"sites": ["kubeadm-based-orch-blue"]},
            "expose": [{"port": 80, "protocol": "tcp", "public": true}],
        }])
    );
    for path in ["spec.clusters[0]", "spec.clusters[1]", "spec.apps[0].cluster", "metadata.name"] {
        assert!(is_noted(&reading, path), "no note on {path}");
    }
    assert_eq!(reading.diagnostics, []);
}

#[test]
fn the_orchestration_of_figure_7_4_becomes_an_app() {
    let Some(text) = projects::file("foreign", THESIS) else { return };
    let figure = print::cut(&text, "apps:", "Figure 7.4");
    let lines: Vec<&str> = figure.lines().filter(|line| !line.trim().is_empty()).collect();
    let text = mended(
        orchestration(&indented(&lines)),
        &[("NODE ENV", "NODE_ENV"), ("MONGO INITDB DATABASE", "MONGO_INITDB_DATABASE")],
    );
    let reading = clean(&text);
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("dotes"));
    assert_eq!(owner(app), "cyango-xr-developer");
    let image = |name: &str| format!("repository.charity-project.eu/dotes/{name}:beta");
    assert_eq!(
        serde_json::to_value(&app.spec.components).unwrap(),
        json!([
            {
                "name": "cyango-story-express",
                "run": [{"container": {
                    "image": image("cyango-story-express"),
                    "env": {"NODE_ENV": "beta"},
                    "ports": [443],
                }}],
                "needs": {"sites": ["kubeadm-based-orchestration-green"]},
                "expose": [{"port": 443, "protocol": "tcp", "public": true}],
            },
            {
                "name": "cyango-worker",
                "run": [{"container": {
                    "image": image("cyango-worker"), "env": {"NODE_ENV": "beta"},
                }}],
                "needs": {"sites": ["kubeadm-based-orchestration-rose"]},
            },
            {
                "name": "cyango-database",
                "run": [{"container": {
                    "image": image("cyango-database"),
                    "env": app.spec.components[2].run[0].container.as_ref().unwrap().env,
                    "ports": [27017],
                }}],
                "needs": {"sites": ["kubeadm-based-orchestration-rose"]},
                "expose": [{"port": 27017, "protocol": "tcp"}],
            },
        ])
    );
    let env = &app.spec.components[2].run[0].container.as_ref().unwrap().env;
    assert_eq!(env.len(), 3);
    assert_eq!(env["MONGO_INITDB_USER"], "cyadmin");
    assert_eq!(env["MONGO_INITDB_DATABASE"], "cyango_database_beta");
    assert_eq!(env["MONGO_INITDB_PWD"].len(), 32);
    assert!(is_noted(&reading, "spec.apps[0].components[0].tls.name"));
    assert_eq!(reading.diagnostics, []);
}

#[test]
fn the_blueprint_of_figure_7_3_becomes_an_app_but_for_its_missing_input() {
    let Some(text) = projects::file("foreign", THESIS) else { return };
    let figure = print::cut(&text, "description: Cloud Studio Service", "Figure 7.3");
    let text = mended(
        figure,
        &[
            ("\n template_author", "\n  template_author"),
            ("\ntemplate_version", "\n  template_version"),
            ("\n   charity-kafka", "\n    charity-kafka"),
            ("NODE ENV", "NODE_ENV"),
            ("get input", "get_input"),
            ("deployment unit", "deployment_unit"),
            ("num cpus", "num_cpus"),
        ],
    );
    let reading = reading(&text);
    let line = text.lines().position(|line| line.contains("get_input")).unwrap() + 1;
    assert_eq!(
        diagnostics(&text, &reading),
        [
            r#"1: missing-field: "tosca_definitions_version" is missing"#.to_owned(),
            format!(r#"{line}: missing-input: there is no input "NODE_ENV""#),
        ]
    );
    let [app] = reading.apps.as_slice() else { panic!("{} Apps", reading.apps.len()) };
    assert_eq!(app.metadata.name.as_deref(), Some("cyango-cloud-studio-reimported"));
    assert_eq!(owner(app), "cyango-xr-developer");
    assert_eq!(app.spec.description.as_deref(), Some("Cloud Studio Service"));
    assert_eq!(
        serde_json::to_value(&app.spec.components).unwrap(),
        json!([{
            "name": "cyango-backend",
            "run": [{"container": {
                "image": "repository.charity-project.eu/dotes/cyango-backend:beta",
            }}],
            "needs": {"layers": ["cloud"]},
        }])
    );
    let node = "topology_template.node_templates";
    let host = "cyango-backendNode.node_filter.capabilities[0].host.properties";
    for path in [
        format!("{node}.charity-kafka"),
        format!("{node}.AmazonS3"),
        format!("{node}.{host}.num_cpus"),
        format!("{node}.{host}.mem_size"),
    ] {
        assert!(is_noted(&reading, &path), "no note on {path}");
    }
    // With the input that its authors left out there is nothing wrong with it.
    let whole = mended(text, &[("  inputs:\n", "  inputs:\n    NODE_ENV: {default: beta}\n")]);
    let app = only_app(&whole);
    let container = app.spec.components[0].run[0].container.clone().unwrap();
    assert_eq!(container.env["NODE_ENV"], "beta");
}

fn owner(app: &App) -> String {
    app.metadata.annotations.clone().unwrap()["charity-project.eu/owner"].clone()
}

#[test]
fn components_without_a_selector_run_at_their_apps_cluster() {
    let app = only_app(&orchestration(
        "  apps:\n  - name: a\n    cluster: home\n    components:\n    - {name: b, image: \"c:1\"}\n",
    ));
    assert_eq!(app.spec.components[0].needs.as_ref().unwrap().sites, ["home"]);
}

#[test]
fn an_orchestration_of_clusters_only_is_told() {
    let text = orchestration("  clusters:\n  - name: quay\n");
    let reading = clean(&text);
    assert_eq!(reading.apps, []);
    assert_eq!(reading.diagnostics[0].code, "no-app");
}

/// Two components and what stands below them.
fn blueprint(points_and_links: &str) -> String {
    format!(
        "metadata: {{template_name: walk}}
topology_template:
  node_templates:
    a:
      type: Charity.Component
      properties: {{name: a, deployment_unit: K8S_POD, image: \"a:1\"}}
    b:
      type: Charity.Component
      properties: {{name: b, deployment_unit: K8S_POD, image: \"b:1\"}}
    phone:
      type: Charity.External
      properties: {{name: phone}}
{points_and_links}"
    )
}

fn point(name: &str, properties: &str, of: &str, links: &[&str]) -> String {
    let links: String = links.iter().map(|link| format!(", link: {{node: {link}}}")).collect();
    let links = links.replace(", link", "}, {link");
    format!(
        "    {name}:\n      type: Charity.ConnectionPoint\n      properties: {{name: {name}{properties}}}\n      \
         requirements: [{{binding: {{node: {of}}}{links}}}]\n"
    )
}

fn link(name: &str, latency: &str) -> String {
    format!(
        "    {name}:\n      type: Charity.VirtualLink\n      node_filter: {{capabilities: \
         [{{network: {{properties: {{latency: [{{less_than: {latency}}}]}}}}}}]}}\n"
    )
}

fn connections(app: &App) -> Vec<String> {
    let mut found = Vec::new();
    for component in &app.spec.components {
        for one in &component.connects {
            let latency = one.latency.map(|latency| latency.to_string()).unwrap_or_default();
            let port = one.port.map(|port| port.to_string()).unwrap_or_default();
            found.push(format!("{} -> {}:{port} {latency}", component.name, one.to));
        }
    }
    found
}

#[test]
fn whoever_has_a_port_is_called_by_the_others_of_its_link() {
    let one_port =
        [point("pa", "", "a", &["l"]), point("pb", ", port: 80", "b", &["l"]), link("l", "20 ms")];
    assert_eq!(connections(&only_app(&blueprint(&one_port.concat()))), ["a -> b:80 20ms"]);
    let two_ports = [
        point("pa", ", port: 70", "a", &["l"]),
        point("pb", ", port: 80", "b", &["l"]),
        link("l", "20 ms"),
    ];
    assert_eq!(
        connections(&only_app(&blueprint(&two_ports.concat()))),
        ["a -> b:80 20ms", "b -> a:70 20ms"]
    );
    let no_port = [point("pa", "", "a", &["l"]), point("pb", "", "b", &["l"]), link("l", "20 ms")];
    assert_eq!(connections(&only_app(&blueprint(&no_port.concat()))), ["a -> b: 20ms"]);
}

#[test]
fn two_links_between_the_same_ports_are_as_strict_as_the_stricter() {
    let text = [
        point("pa", "", "a", &["l", "m"]),
        point("pb", ", port: 80", "b", &["l", "m"]),
        link("l", "20 ms"),
        link("m", "5 ms"),
    ];
    assert_eq!(connections(&only_app(&blueprint(&text.concat()))), ["a -> b:80 5ms"]);
}

#[test]
fn a_port_is_public_when_its_link_leads_outside() {
    let text = [
        point("pa", ", port: 70", "a", &["l"]),
        point("pb", ", port: 80", "b", &["m"]),
        point("pp", "", "phone", &["l"]),
        link("l", "20 ms"),
        link("m", "20 ms"),
    ];
    let app = only_app(&blueprint(&text.concat()));
    assert!(app.spec.components[0].expose[0].public);
    assert!(!app.spec.components[1].expose[0].public);
    assert_eq!(connections(&app), [""; 0]);
}

#[test]
fn a_misspelt_bandwidth_counts_all_the_same() {
    let text = [
        point("pa", "", "a", &["l"]),
        point("pb", ", port: 80", "b", &["l"]),
        link("l", "20 ms").replace("latency: [{less_than: 20 ms}]", "bandwith: 5 Mbps"),
    ];
    let text = blueprint(&text.concat());
    let reading = clean(&text);
    assert_eq!(reading.diagnostics[1].code, "misspelt-field");
    let bandwidth = reading.apps[0].spec.components[0].connects[0].bandwidth;
    assert_eq!(bandwidth.unwrap().to_string(), "5Mbps");
}
