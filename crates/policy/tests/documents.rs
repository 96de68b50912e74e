//! The examples of the documentation are good ones: policies that are valid and compile, and templates.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use tombolo_model::{PolicySpec, validate};
use tombolo_policy::scale::Spec;
use tombolo_policy::template::{Template, Templates};
use tombolo_policy::{Context, Watched, compile};

fn examples() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let read = |block: &str| {
        let (documents, problems) =
            tombolo_yaml::documents(block, &tombolo_yaml::Limits::default());
        assert!(problems.is_empty(), "{problems:?} in {block}");
        documents[0].to_json()
    };
    blocks.map(read).collect()
}

#[test]
fn every_example_is_valid_and_compiles() {
    let mut templates = Templates::default();
    let (policies, others): (Vec<Value>, Vec<Value>) =
        examples().into_iter().partition(|example| example.get("kind").is_some());
    for other in others {
        let template: Template = serde_json::from_value(other).unwrap();
        templates.add(template).unwrap();
    }
    assert_eq!(policies.len(), 4, "a policy that is added is counted here");
    for policy in policies {
        assert_eq!(validate::policy(&policy), [], "{policy}");
        let name = policy["metadata"]["name"].as_str().unwrap();
        let spec: PolicySpec = serde_json::from_value(policy["spec"].clone()).unwrap();
        let watched = Watched::of_policy(name, &spec);
        let context = Context::default();
        match spec.scaling {
            Some(_) => {
                let scaling = Spec::compile(&watched, &context).unwrap();
                assert_eq!((scaling.metrics.len(), scaling.steps.len()), (2, 1));
            }
            None => {
                compile(&watched, &templates, &context).unwrap();
            }
        }
    }
}

#[test]
fn every_template_is_named() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let text = fs::read_to_string(path).unwrap();
    let templates = Templates::default();
    let unnamed: Vec<&str> = templates
        .iter()
        .map(|template| template.name.as_str())
        .filter(|name| !text.contains(&format!("`{}`", name.trim_end_matches("-excl"))))
        .collect();
    assert_eq!(unnamed, [""; 0]);
}
