//! The policies of ICOS: descriptors, the policy manager's own form and Alertmanager's webhooks become the
//! right rules and acts. Over small samples of our own, and over the published ones where they are there.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tombolo_descriptor::{NoFiles, Source, read};
use tombolo_model::policy::Action;
use tombolo_policy::template::Templates;
use tombolo_policy::{
    Context, Machine, Problem, Rule, Source as Values, Watched, alertmanager, compile, icos,
};

/// A file of the published samples, or a word that it is not there.
#[expect(clippy::print_stdout, reason = "whoever runs the test shall see what it left out")]
fn published(test: &str, file: &str) -> Option<String> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|at| at.join("shared"));
    let shared = std::env::var("TOMBOLO_SHARED").map(PathBuf::from).ok();
    let shared = shared.or_else(|| above.find(|folder| folder.join("FORMATS.md").is_file()));
    let path = shared.unwrap_or_default().join("data/icos/policy").join(file);
    if let Ok(text) = fs::read_to_string(&path) {
        return Some(text);
    }
    let line = format!("SKIPPED {test}: there is no {}\n", path.display());
    print!("{line}");
    if let Ok(path) = std::env::var("TOMBOLO_SKIPS") {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
    None
}

fn compiled(policy: &Watched) -> Result<Rule, Vec<Problem>> {
    let context = Context { app_instance: Some("uid-1".to_owned()), ..Context::default() };
    compile(policy, &Templates::default(), &context)
}

/// Each policy of a descriptor: its name, its alert and its step.
fn rules(text: &str) -> Vec<(String, String, &'static str)> {
    let reading = read(Source { name: "descriptor.yaml", text }, None, &NoFiles);
    let app = &reading.apps[0];
    let name = app.metadata.name.clone().unwrap_or_default();
    let policies = app.spec.policies.iter().map(|policy| Watched::of_app(&name, policy));
    let rules = policies.map(|policy| compiled(&policy).unwrap());
    rules.map(|rule| (rule.name.clone(), rule.alert().unwrap(), rule.action.as_str())).collect()
}

const SELECTOR: &str = r#"icos_app_component=~".+",icos_app_instance="uid-1",icos_app_name="shop""#;

fn descriptor(policies: &str) -> String {
    format!(
        "name: shop\ncomponents:\n- name: web\n  type: kubernetes\n  manifests: [{{name: web}}]\n\
         policies:\n{policies}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\n\
         spec: {{containers: [{{name: web, image: web}}]}}\n"
    )
}

#[test]
fn a_descriptors_policies_become_rules() {
    let text = descriptor(
        "- {component: \"*\", fromTemplate: app-host-cpu-usage, remediation: migrate, variables: {maxCpu: 0.8}}\n\
         - {type: security, level: high}\n\
         - {type: security, level: medium, remediation_action: none, apply-to: web}\n\
         - {name: own, type: custom, spec: {expr: 'up{ {{subject_label_selector}} }', violatedIf: '< 1'}, \
            properties: {pendingInterval: 30s}}",
    );
    let found = rules(&text);
    let actions: Vec<&str> = found.iter().map(|(_, _, action)| *action).collect();
    assert_eq!(actions, ["migrate", "redeploy", "none", "none"], "with ICOS' defaults");
    let cpu = format!(
        "tlum_workload_info{{ {SELECTOR} }} * on(icos_host_id) group_left avg without (cpu) \
         (1 - rate(node_cpu_seconds_total{{mode=\"idle\"}}[2m])) > 0.8"
    );
    assert_eq!(found[0].1, cpu);
    assert!(found[1].1.contains(SELECTOR) && found[1].1.ends_with(" < 67"), "{}", found[1].1);
    assert!(found[2].1.contains(r#"icos_app_component="web""#), "{}", found[2].1);
    assert!(found[2].1.ends_with(" < 34"), "{}", found[2].1);
    assert_eq!(found[3].1, format!("up{{ {SELECTOR} }} < 1"));
}

fn policy(expr: &str, violated_if: &str) -> Value {
    json!({
        "name": "slow",
        "subject": {"appName": "shop", "appComponent": "*", "appInstance": "i-1"},
        "spec": {"expr": expr, "violatedIf": violated_if, "thresholds": {"warning": 200, "critical": 500}},
        "variables": {"most": 120, "task": "a.b"},
        "properties": {"pendingInterval": "30s"},
        "action": {"url": "http://example.org/hook", "httpMethod": "TRACE", "extraParams": {"remediation": "scale-up"}},
    })
}

fn rule_of(body: &Value) -> Result<Rule, Vec<Problem>> {
    let (name, spec) = icos::read(body).map_err(|problem| vec![problem])?;
    let policy = Watched::of_policy(&name.unwrap_or_default(), &spec);
    compile(&policy, &Templates::default(), &Context::default())
}

#[test]
fn the_form_of_the_policy_manager_becomes_a_rule() {
    let rule = rule_of(&policy(
        r#"sum by ({{subject_label_list}}) (t{s="{{task}}", {{subject_label_selector}}, n="{{subject.appName}}"})"#,
        "> {{most}}",
    ));
    let rule = rule.unwrap();
    assert_eq!(
        rule.alert().unwrap(),
        "sum by (icos_app_component, icos_app_instance, icos_app_name) (t{s=\"a.b\", \
         icos_app_component=~\".+\",icos_app_instance=\"i-1\",icos_app_name=\"shop\", n=\"shop\"}) > 120"
    );
    assert_eq!((rule.for_ms, rule.action), (30_000, Action::ScaleUp));
    let group = rule.to_prometheus("id-1").unwrap();
    assert_eq!(group["rules"][0]["alert"], "slow:rule-0");
    assert_eq!(group["rules"][0]["for"], "30s");
    assert_eq!(group["rules"][0]["annotations"]["plm_id"], "id-1");
    let webhook = rule.remediation.unwrap().webhook.unwrap();
    assert_eq!(webhook.method.unwrap().as_str(), "TRACE");
}

#[test]
fn what_is_wrong_with_a_policy_is_told_with_its_place() {
    let told = |body: &Value| -> Vec<String> {
        rule_of(body).unwrap_err().iter().map(Problem::to_string).collect()
    };
    assert_eq!(
        told(&policy("sum(up{ {{subject_label_selector}} }", "> 1")),
        ["condition.expr:1:37: unclosed left parenthesis"]
    );
    assert_eq!(
        told(&policy("up", "> {{mots}}")),
        ["condition.violatedIf:1:3: the variable \"mots\" has no value (did you mean \"most\"?)"]
    );
    assert_eq!(
        told(&policy("up", "< {{most}}")),
        [
            "condition.thresholds: critical is 500 and warning is 200, against the direction of \"<\""
        ]
    );
    assert_eq!(
        told(&policy("up", "> {{task}}")),
        ["condition.violatedIf:1:3: \"a.b\" is not a number"]
    );
    assert_eq!(
        told(&policy("up[5m]", "> 1")),
        ["condition.expr:1:1: gives a range vector; a policy looks at an instant vector"]
    );
    let mut template = policy("up", "> 1");
    template["spec"] = json!({"templateName": "compss-under-allocation"});
    template["variables"] = json!({"compssTask": "a"});
    assert_eq!(
        told(&template),
        [
            "condition.variables.thresholdTimeSeconds: the template \"compss-under-allocation\" needs a value for it"
        ]
    );
    template["variables"] = json!({"compssTask": "a", "thresholdTimeSecond": 1});
    assert_eq!(
        told(&template),
        [
            "condition.variables.thresholdTimeSecond: the template \"compss-under-allocation\" has no such variable \
          (did you mean \"thresholdTimeSeconds\"?)"
        ]
    );
}

fn message(status: &str, value: &str) -> Value {
    json!({"version": "4", "status": status, "alerts": [{
        "status": status,
        "labels": {"alertname": "slow:rule-0", "icos_app_component": "web", "icos_app_instance": "i-1",
            "icos_app_name": "shop", "zone": "a"},
        "annotations": {"plm_expr_value": value, "plm_id": "id-1", "plm_measurement_backend": "prom-1"},
    }]})
}

/// Takes an alert in as a look of the rule's machine, as a facade will.
fn acts(machine: &mut Machine, alert: &alertmanager::Alert, at_ms: i64) -> Vec<String> {
    let rule = machine.rule().clone();
    let look = alert.look(&rule, at_ms).unwrap();
    let stepped = machine.step(&look);
    stepped.acts.iter().map(|act| format!("{} {}", act.action, act.target)).collect()
}

#[test]
fn a_webhook_of_alertmanager_leads_to_the_right_step() {
    let mut rule = rule_of(&policy("t", "> {{most}}")).unwrap();
    // Alertmanager has waited already.
    rule.for_ms = 0;
    let mut machine = Machine::new(rule.clone(), None);
    let firing = alertmanager::read(&message("firing", "235.3")).unwrap().remove(0);
    assert_eq!(acts(&mut machine, &firing, 0), ["scale-up app/shop/web"]);
    let call = firing.violation(&rule, &serde_json::Map::new()).unwrap();
    assert_eq!(call["currentValue"], "235.3");
    assert_eq!(call["threshold"], "warning");
    assert_eq!(call["subject"]["appComponent"], "web", "the culprit behind the wildcard");
    assert_eq!(call["extraLabels"], json!({"zone": "a"}));
    let resolved = alertmanager::read(&message("resolved", "1")).unwrap().remove(0);
    assert_eq!(acts(&mut machine, &resolved, 60_000), [""; 0]);
    assert_eq!(machine.phase().as_str(), "enforced");
}

#[test]
fn a_webhook_that_makes_no_sense_is_refused() {
    let told = |change: &dyn Fn(&mut Value)| {
        let mut body = message("firing", "1");
        change(&mut body);
        alertmanager::read(&body).unwrap_err().to_string()
    };
    assert_eq!(
        told(&|body| body["version"] = json!("3")),
        "version: is \"3\"; this is read as \"4\" only"
    );
    assert_eq!(
        told(&|body| body["alerts"][0]["status"] = json!("odd")),
        "alerts[0].status: is \"odd\"; it is \"firing\" or \"resolved\""
    );
    assert_eq!(
        told(&|body| body["alerts"][0]["annotations"] = json!({})),
        "alerts[0].annotations.plm_id: is missing: the alert is not from a rule of a policy"
    );
    let mut body = message("firing", "1");
    body["alerts"][0]["labels"]["icos_app_component"] = json!("");
    let alert = alertmanager::read(&body).unwrap().remove(0);
    let rule = rule_of(&policy("t", "> 1")).unwrap();
    let problem = alert.look(&rule, 0).unwrap_err();
    assert_eq!(problem.to_string(), "labels.icos_app_component: the alert does not say it");
}

#[test]
fn published_descriptors_become_the_right_rules() {
    let test = "published_descriptors_become_the_right_rules";
    let Some(first) = published(test, "app_descriptor_1.yaml") else { return };
    let found = rules(&first);
    let actions: Vec<&str> = found.iter().map(|(_, _, action)| *action).collect();
    assert_eq!(actions, ["redeploy"], "{found:?}");
    assert!(found[0].1.ends_with(" < 67") && found[0].1.contains("icos_app_component=\"ffmpeg\""));
    let Some(second) = published(test, "app_descriptor_2.yaml") else { return };
    let found = rules(&second);
    assert_eq!((found.len(), found[0].2), (1, "migrate"));
    assert!(found[0].1.contains("icos_app_component=~\".+\"") && found[0].1.ends_with(" > 0.8"));
    let Some(third) = published(test, "app_descriptor_compss_1.yaml") else { return };
    let found = rules(&third);
    assert_eq!((found.len(), found[0].2), (1, "scale-up"));
    let alert = &found[0].1;
    assert!(alert.contains("CoreSignature=\"provesOtel.example_task\""), "{alert}");
    assert!(alert.contains("icos_app_component=\"compss-app\"") && alert.ends_with("/ 1000 > 120"));
}

#[test]
fn published_policies_and_alerts_are_read() {
    let test = "published_policies_and_alerts_are_read";
    let Some(text) = published(test, "policy_fixtures.json") else { return };
    let all: Value = serde_json::from_str(&text).unwrap();
    let host = rule_of(&all["policy_c1"]).unwrap();
    assert_eq!(
        host.alert().unwrap(),
        "avg without (mode,cpu) (1 - rate(node_cpu_seconds_total{mode=\"idle\", \
         icos_agent_id=\"icos-agent-1\",icos_host_id=~\".+\"}[2m])) > 0.8"
    );
    let slow = rule_of(&all["policy_2_create"]).unwrap();
    assert_eq!(
        (slow.for_ms, slow.action, slow.condition.critical),
        (30_000, Action::ScaleUp, Some(500.0))
    );
    assert!(slow.alert().unwrap().ends_with(" > 120"));
    for name in ["policy_3_create", "policy_4_create"] {
        let rule = rule_of(&all[name]).unwrap();
        assert_eq!(rule.condition.test.map(|(_, limit)| limit), Some(0.8), "{name}");
        assert!(matches!(rule.source, Values::Query { .. }));
    }
    let problems = rule_of(&all["policy_5_create"]).unwrap_err();
    assert_eq!(problems[0].path, "condition.variables.compssTask");

    let mut slow = slow;
    slow.for_ms = 0;
    let alert = alertmanager::read(&all["policy_2_alerts"]).unwrap().remove(0);
    let target = "scale-up app/compss-example-app/component1";
    assert_eq!(acts(&mut Machine::new(slow.clone(), None), &alert, 0), [target]);
    let call = alert.violation(&slow, &serde_json::Map::new()).unwrap();
    assert_eq!((&call["threshold"], &call["currentValue"]), (&json!("warning"), &json!("235.365")));
    let alert = alertmanager::read_one(&all["policy_c1_alert"]).unwrap();
    assert_eq!(
        acts(&mut Machine::new(host.clone(), None), &alert, 0),
        ["webhook site/icos-agent-1"]
    );
    let call = alert.violation(&host, &serde_json::Map::new()).unwrap();
    assert_eq!(call["subject"]["hostId"], "57e17cac94714bf6976f1e071d64d586");

    let Some(text) = published(test, "cpu_policy.json") else { return };
    let apart = rule_of(&serde_json::from_str(&text).unwrap()).unwrap();
    let alert = apart.alert().unwrap();
    assert!(
        alert.starts_with("container_cpu_utilization_ratio{ icos_app_component=\"backend\",icos")
    );
    assert!(alert.ends_with("} > 0.5"), "{alert}");
}
