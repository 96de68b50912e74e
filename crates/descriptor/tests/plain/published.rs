//! The manifests and selectors in CODECO's document D11, field by field, once what the print did to
//! their indentation is put right.

use serde_json::json;
use tombolo_descriptor::{Format, NoFiles, Source, read};
use tombolo_model::needs::{Place, PlaceKey, PlaceOperator};

use crate::{clean, component, print, projects};

const D11: &str = "seeds/000_23d314addba8fc79.txt";

/// The probe of a node: its settings, its Deployment, its Service.
fn probe(text: &str) -> String {
    let settings = print::cut(text, "  name: node-a-config", "5. Create");
    let run = print::cut(text, "  name: node-a-lpm", "- Instantiate");
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n{settings}---\napiVersion: apps/v1\nkind: \
         Deployment\nmetadata:\n{run}"
    )
}

#[test]
fn the_probe_of_d11_becomes_an_app() {
    let Some(text) = projects::file("plain::the_probe_of_d11", D11) else { return };
    let printed = probe(&text);
    // As printed, the settings have a brace too many, the volumes of the pod stand in its container,
    // and their source beside it.
    let source = Source { name: "test.yaml", text: &printed };
    let told = read(source, None, &NoFiles).diagnostics;
    let told: Vec<(&str, &str)> = told.iter().map(|one| (one.code, one.path.as_str())).collect();
    assert_eq!(
        told,
        [
            ("syntax", ""),
            ("volume-unknown", "spec.template.spec.containers[0].volumeMounts[0].name"),
            ("unknown-field", "spec.template.spec.containers[0].volumes"),
            ("unknown-field", "spec.template.spec.configMap"),
        ]
    );

    let mends = [
        ("    }\n  }\n", "    }\n"),
        (
            "          volumes:\n            - name: config-volume\n      configMap:\n        name:",
            "      volumes:\n        - name: config-volume\n          configMap:\n            name:",
        ),
    ];
    let whole = mends.iter().fold(printed, |text, (printed, meant)| {
        assert!(text.contains(printed), "{printed:?} is not in\n{text}");
        text.replace(printed, meant)
    });
    let reading = clean(&whole, &NoFiles);
    assert_eq!(reading.format, Some(Format::Kubernetes));
    let probe = component(&reading, "node-a-lpm");
    assert_eq!(probe.replicas, Some(1));
    assert_eq!(
        serde_json::to_value(&probe.expose).unwrap(),
        json!([{"port": 8090, "protocol": "tcp"}])
    );
    // On Kubernetes in its own words; an engine of containers gives it the capability that it asks for.
    let [run, elsewhere] = probe.run.as_slice() else { panic!("{:?}", probe.run) };
    let plain = elsewhere.container.as_ref().unwrap();
    assert_eq!(
        (plain.image.as_str(), &plain.capabilities[..]),
        ("alexdecb/net_exporter:latest", &["NET_ADMIN".to_owned()][..])
    );
    let [deployment, service, settings] = run.manifests.as_slice() else { panic!("{run:?}") };
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "alexdecb/net_exporter:latest");
    assert_eq!(container["workingDir"], "/usr/src/app");
    assert_eq!(container["securityContext"], json!({"capabilities": {"add": ["NET_ADMIN"]}}));
    let mount = json!([{
        "name": "config-volume", "mountPath": "/usr/src/app/config.json", "subPath": "config.json",
    }]);
    assert_eq!(container["volumeMounts"], mount);
    assert_eq!(
        deployment["spec"]["template"]["spec"]["volumes"],
        json!([{"name": "config-volume", "configMap": {"name": "node-a-config"}}])
    );
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 8090);
    let text = settings["data"]["config.json"].as_str().unwrap();
    assert!(text.starts_with("{\n  \"Nodename\": \"node-a\""), "{text}");
}

/// Where a workload runs whose selector is this.
fn selectors(lines: &str) -> Vec<Place> {
    let text = format!(
        "apiVersion: apps.edgenet.io/v1alpha2\nkind: SelectiveDeployment\nmetadata: {{name: \
         cdn}}\nspec:\n  workloads:\n    deployment:\n    - metadata: {{name: cdn-server}}\n      \
         spec: {{selector: {{}}, template: {{spec: {{containers: [{{name: c, image: \"i:1\"}}]}}}}}}\n\
         {lines}"
    );
    let reading = clean(&text, &NoFiles);
    assert_eq!(reading.format, Some(Format::EdgeNet));
    component(&reading, "cdn-server").places
}

#[test]
fn the_selectors_of_d11_choose_their_continents() {
    let Some(text) = projects::file("plain::the_selectors_of_d11", D11) else { return };
    let place = |values: &[&str], quantity| Place {
        by: PlaceKey::Continent,
        operator: PlaceOperator::In,
        values: values.iter().map(|one| (*one).to_owned()).collect(),
        quantity: Some(quantity),
    };
    let both = print::cut(&text, "selector:", "To run the demos");
    let (first, rest) = both.split_once("---\n").unwrap();
    let (service, second) = rest.split_once("\nselector:\n").unwrap();
    // The print moved the keys of an entry to the left, and the whole selector with them.
    let entries = |lines: &str| -> String {
        let indent = |line: &str| match line.trim_start() {
            key if key.starts_with("- value") => format!("  {key}\n"),
            value if value.starts_with("- ") => format!("    {value}\n"),
            key => format!("    {key}\n"),
        };
        lines.lines().filter(|line| *line != "selector:").map(indent).collect()
    };
    let selector = |lines: &str| format!("  selector:\n{}", entries(lines));
    assert_eq!(selectors(&selector(first)), [place(&["Europe", "Asia", "North America"], 3)]);
    assert_eq!(selectors(&selector(second)), [place(&["North America"], 2), place(&["Europe"], 2)]);
    // The Service between the two needs a workload that it leads to.
    let workload = "apiVersion: v1\nkind: Pod\nmetadata: {name: cdn-server, labels: {app: \
                    cdn-server}}\nspec: {containers: [{name: c, image: \"i:1\"}]}\n";
    let reading = clean(&format!("{service}---\n{workload}"), &NoFiles);
    let server = component(&reading, "cdn-service");
    assert_eq!(
        serde_json::to_value(&server.expose).unwrap(),
        json!([
            {"name": "http", "port": 80, "protocol": "tcp"},
            {"name": "vlc", "port": 8080, "protocol": "tcp"},
        ])
    );
    assert_eq!(reading.apps[0].metadata.namespace.as_deref(), Some("athena-rc"));
}
