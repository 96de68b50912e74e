//! EdgeNet's selective deployments.

use expect_test::expect;
use tombolo_descriptor::{Format, NoFiles};
use tombolo_model::needs::{Place, PlaceKey, PlaceOperator};

use crate::{check_notes, clean, component, example};

#[test]
fn the_sample_becomes_an_app_field_by_field() {
    let text = example("edgenet.yaml");
    let reading = clean(&text, &NoFiles);
    assert_eq!(reading.format, Some(Format::EdgeNet));
    assert_eq!(reading.apps[0].metadata.name.as_deref(), Some("probes"));
    assert_eq!(reading.apps[0].metadata.namespace.as_deref(), Some("measure"));
    let probe = component(&reading, "probe");
    let values = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
    assert_eq!(
        probe.places,
        [
            Place {
                by: PlaceKey::Country,
                operator: PlaceOperator::In,
                values: values(&["Greece", "United Kingdom"]),
                quantity: Some(2),
            },
            Place {
                by: PlaceKey::City,
                operator: PlaceOperator::NotIn,
                values: values(&["Athens"]),
                quantity: None,
            },
        ]
    );
    assert_eq!(probe.needs.unwrap().cpu.unwrap().to_string(), "100m");
    assert_eq!(probe.run[0].manifests[0]["kind"], "Deployment");
    let container = probe.run[1].container.as_ref().unwrap();
    assert_eq!(container.image, "registry.example/probe:0.9");
    check_notes(
        &text,
        &reading,
        expect![[r#"
        test.yaml:23:51: changed spec.selector[0].value[1]: EdgeNet writes "_" for a blank
        test.yaml:25:3: dropped spec.recovery: what happens when a node falls silent is the App's rule disconnect
    "#]],
    );
}

#[test]
fn a_workload_may_leave_out_what_its_list_says() {
    let text = "apiVersion: apps.edgenet.io/v1alpha1\nkind: SelectiveDeployment\nmetadata: {name: \
                x}\nspec:\n  workloads:\n    statefulset:\n    - metadata: {name: a}\n      spec: \
                {selector: {}, template: {spec: {containers: [{image: \"i:1\"}]}}}\n  selector:\n  \
                - {name: Continent, operator: In, value: Europe, quantity: 0}\n";
    let reading = clean(text, &NoFiles);
    let component = component(&reading, "a");
    assert!(component.stateful);
    assert_eq!(component.places[0].by, PlaceKey::Continent);
    assert_eq!(component.places[0].quantity, None);
}

#[test]
fn what_stands_beside_several_deployments_is_there_once() {
    let deployment = |name: &str| {
        format!(
            "---\napiVersion: apps.edgenet.io/v1alpha2\nkind: SelectiveDeployment\nmetadata: {{name: {name}}}\n\
             spec:\n  workloads:\n    deployment:\n    - metadata: {{name: w}}\n      \
             spec: {{selector: {{}}, template: {{spec: {{containers: [{{name: c, image: \"i:1\"}}]}}}}}}\n"
        )
    };
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {k: v}\n";
    let text = format!("{settings}{}{}", deployment("north"), deployment("south"));
    let reading = clean(&text, &NoFiles);
    let names: Vec<_> = reading.apps.iter().map(|app| app.metadata.name.clone()).collect();
    assert_eq!(names, [Some("north".to_owned()), Some("south".to_owned())]);
    assert_eq!(reading.others.len(), 1, "{:?}", reading.others);
}
