//! Templates: expressions with variables, by name. Ours are in `ROWS`; users bring their own as files
//! or resources of the form of [`Template`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tombolo_model::policy::Thresholds;
use tombolo_model::suggest;

use crate::Problem;
use crate::render::{placeholders, render};

/// An expression with variables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Template {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub expr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violated_if: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// The variables and what they are when a policy says nothing; null for those that it must say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Value>,
}

/// Name, expression, `violatedIf`, variables with defaults (none: must be given), and what it is about.
type Row = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static [(&'static str, Option<&'static str>)],
    &'static str,
);

const CPU_OF_HOST: &str = "avg by(icos_host_name, {{subject_label_list}}) \
    (1 - rate(node_cpu_seconds_total{mode=\"idle\", {{subject_label_selector}}}[2m]))";

const MEMORY: &str = "avg by ({{subject_label_list}}) (container_memory_working_set_bytes{ \
    {{subject_label_selector}} } / container_spec_memory_limit_bytes{ {{subject_label_selector}} })";

const DISK: &str = "1 - node_filesystem_avail_bytes{fstype!~\"tmpfs|overlay\", {{subject_label_selector}}} / \
    node_filesystem_size_bytes{fstype!~\"tmpfs|overlay\", {{subject_label_selector}}}";

const COMPSS: &str = "sum by ({{subject_label_list}}) (compss_avgTime_ratio{CoreSignature=\"{{compssTask}}\", \
    {{subject_label_selector}}} * compss_pendTasks_ratio{CoreSignature=\"{{compssTask}}\", \
    {{subject_label_selector}}}) / sum by ({{subject_label_list}}) \
    (compss_node_info{property=\"computing_units\", {{subject_label_selector}}}) / 1000";

const APP_HOST_CPU: &str = "tlum_workload_info{ {{subject_label_selector}} } * on(icos_host_id) group_left \
    avg without (cpu) (1 - rate(node_cpu_seconds_total{mode=\"idle\"}[2m]))";

const APP_SCORE: &str = "tlum_workload_info{ {{subject_label_selector}} } * on(icos_host_id) group_left() \
    (tlum_host_info * on(ip, hostname) group_left() label_replace(label_replace(SCA_score, \"ip\", \"$1\", \
    \"agent_ip\", \"(.+)\"), \"hostname\", \"$1\", \"agent_hostname\", \"(.+)\"))";

const DEVICE: &str = "(node_mounted{resource_path=~\"{{device}}\"} offset 10m * on(icos_host_id) \
    group_left({{subject_label_list}}) tlum_workload_info{ {{subject_label_selector}} } offset 10m) unless \
    (node_mounted{resource_path=~\"{{device}}\"} * on(icos_host_id) \
    group_left({{subject_label_list}}) tlum_workload_info{ {{subject_label_selector}} })";

const HOST_CPU_PERCENT: &str = "100 * tlum_workload_info{ {{subject_label_selector}} } * on(icos_host_id) \
    group_left avg by (icos_host_id) (1 - rate(node_cpu_seconds_total{mode=\"idle\"}[2m]))";

/// Without what the application itself takes: its share of the cores is added to the idle ones.
const HOST_CPU_PERCENT_EXCL: &str = "100 * tlum_workload_info{ {{subject_label_selector}} } * on(icos_host_id) \
    group_left clamp_min(avg by (icos_host_id) (1 - rate(node_cpu_seconds_total{mode=\"idle\"}[2m])) \
    - (sum by (icos_host_id) (container_cpu_utilization_ratio{ {{subject_label_selector}} }) or \
    0 * sum by (icos_host_id) (tlum_workload_info{ {{subject_label_selector}} })), 0)";

const HOST_MEMORY_PERCENT: &str = "100 * tlum_workload_info{ {{subject_label_selector}} } * on(icos_host_id) \
    group_left avg by (icos_host_id) (1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)";

const HOST_MEMORY_PERCENT_EXCL: &str = "100 * tlum_workload_info{ {{subject_label_selector}} } * \
    on(icos_host_id) group_left clamp_min(avg by (icos_host_id) \
    (1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes) \
    - (sum by (icos_host_id) (container_memory_working_set_bytes{ {{subject_label_selector}} }) / \
    avg by (icos_host_id) (node_memory_MemTotal_bytes) or \
    0 * sum by (icos_host_id) (tlum_workload_info{ {{subject_label_selector}} })), 0)";

const HOST_MEMORY_FREE: &str = "tlum_workload_info{ {{subject_label_selector}} } * on(icos_host_id) \
    group_left avg by (icos_host_id) (node_memory_MemAvailable_bytes)";

const HOST_MEMORY_FREE_EXCL: &str = "tlum_workload_info{ {{subject_label_selector}} } * on(icos_host_id) \
    group_left() (avg by (icos_host_id) (node_memory_MemAvailable_bytes) + (sum by (icos_host_id) \
    (container_memory_working_set_bytes{ {{subject_label_selector}} }) or \
    0 * sum by (icos_host_id) (tlum_workload_info{ {{subject_label_selector}} })))";

/// There within the last hour and the timeout, and not within the timeout.
const LOST: &str = "sum by ({{subject_label_list}}) (count_over_time(tlum_workload_info{ \
    {{subject_label_selector}} }[1h])) unless sum by ({{subject_label_list}}) \
    (count_over_time(tlum_workload_info{ {{subject_label_selector}} }[{{timeout}}]))";

const EVENTS: &str = "sum by ({{subject_label_list}}) (increase(tetragon_events_total{severity=~\"{{severity}}\", \
    event_name=~\"{{eventName}}\", {{subject_label_selector}}}[5m]))";

const LATENCY: &str = "histogram_quantile({{quantile}}, sum by (le, {{subject_label_list}}) \
    (rate(http_request_duration_seconds_bucket{ {{subject_label_selector}} }[{{range}}])))";

const ERRORS: &str = "sum by ({{subject_label_list}}) (rate(http_requests_total{code=~\"5..\", \
    {{subject_label_selector}}}[{{range}}])) / sum by ({{subject_label_list}}) \
    (rate(http_requests_total{ {{subject_label_selector}} }[{{range}}]))";

const ENERGY: &str = "sum by ({{subject_label_list}}) \
    (rate(scaph_process_power_consumption_microwatts{ {{subject_label_selector}} }[{{range}}])) / 1e6";

const ROWS: &[Row] = &[
    (
        "compss-under-allocation",
        COMPSS,
        Some("> {{thresholdTimeSeconds}}"),
        &[("thresholdTimeSeconds", None), ("compssTask", None)],
        "Work that waits, for each unit of a COMPSs application, in seconds",
    ),
    (
        "cpu-usage-host",
        CPU_OF_HOST,
        Some("> {{maxCpuUsagePercent}}"),
        &[("maxCpuUsagePercent", None)],
        "Share of a machine's processors in use, from 0 to 1",
    ),
    (
        "app-host-cpu-usage",
        APP_HOST_CPU,
        Some("> {{maxCpu}}"),
        &[("maxCpu", None)],
        "Share of the processors in use where the application runs, from 0 to 1",
    ),
    (
        "app-sca-score",
        APP_SCORE,
        Some("< {{threshold}}"),
        &[("threshold", None)],
        "Security score of the machines where the application runs",
    ),
    (
        "device-available",
        DEVICE,
        None,
        &[("device", None)],
        "A device that was there ten minutes ago and is gone",
    ),
    (
        "app-host-cpu-usage-perc",
        HOST_CPU_PERCENT,
        Some("> {{maxCpu}}"),
        &[("maxCpu", None)],
        "Processors in use where the application runs, in percent",
    ),
    (
        "app-host-cpu-usage-perc-excl",
        HOST_CPU_PERCENT_EXCL,
        Some("> {{maxCpu}}"),
        &[("maxCpu", None)],
        "The same without what the application takes",
    ),
    (
        "app-host-memory-usage-perc",
        HOST_MEMORY_PERCENT,
        Some("> {{maxMemory}}"),
        &[("maxMemory", None)],
        "Memory in use where the application runs, in percent",
    ),
    (
        "app-host-memory-usage-perc-excl",
        HOST_MEMORY_PERCENT_EXCL,
        Some("> {{maxMemory}}"),
        &[("maxMemory", None)],
        "The same without what the application takes",
    ),
    (
        "app-host-memory-avail-bytes",
        HOST_MEMORY_FREE,
        Some("< {{minMemory}}"),
        &[("minMemory", None)],
        "Memory left where the application runs, in bytes",
    ),
    (
        "app-host-memory-avail-bytes-excl",
        HOST_MEMORY_FREE_EXCL,
        Some("< {{minMemory}}"),
        &[("minMemory", None)],
        "The same with what the application takes counted as left",
    ),
    (
        "redeploy-on-lost-telemetry",
        LOST,
        None,
        &[("timeout", Some("5m"))],
        "An instance that has been silent",
    ),
    (
        "app-security-events",
        EVENTS,
        Some("> {{maxEvents}}"),
        &[("maxEvents", Some("0")), ("severity", Some(".+")), ("eventName", Some(".+"))],
        "Security events of the application within five minutes",
    ),
    (
        "cpu",
        "avg by ({{subject_label_list}}) (container_cpu_utilization_ratio{ {{subject_label_selector}} })",
        Some("> {{max}}"),
        &[("max", Some("0.8"))],
        "Share of its processor time that an instance uses",
    ),
    (
        "memory",
        MEMORY,
        Some("> {{max}}"),
        &[("max", Some("0.9"))],
        "Share of its memory that an instance uses",
    ),
    (
        "latency",
        LATENCY,
        Some("> {{maxSeconds}}"),
        &[("maxSeconds", None), ("quantile", Some("0.99")), ("range", Some("5m"))],
        "Time that requests take, at a quantile",
    ),
    (
        "error-rate",
        ERRORS,
        Some("> {{max}}"),
        &[("max", Some("0.01")), ("range", Some("5m"))],
        "Share of requests that fail",
    ),
    (
        "energy",
        ENERGY,
        Some("> {{maxWatts}}"),
        &[("maxWatts", None), ("range", Some("5m"))],
        "Power that the application draws, in watts",
    ),
    (
        "certificate-expiry",
        "min by ({{subject_label_list}}) (x509_cert_not_after{ {{subject_label_selector}} } - time()) / 86400",
        Some("< {{minDays}}"),
        &[("minDays", Some("14"))],
        "Days until a certificate ends",
    ),
    ("disk", DISK, Some("> {{max}}"), &[("max", Some("0.9"))], "Share of a file system in use"),
    (
        "cost",
        "sum by ({{subject_label_list}}) (tombolo_cost_per_hour{ {{subject_label_selector}} })",
        Some("> {{maxPerHour}}"),
        &[("maxPerHour", None)],
        "What the application costs in an hour",
    ),
];

/// Templates by name: those that are built in, and a user's.
#[derive(Clone, Debug)]
pub struct Templates(BTreeMap<String, Template>);

impl Default for Templates {
    fn default() -> Self {
        Self(ROWS.iter().map(built_in).map(|template| (template.name.clone(), template)).collect())
    }
}

fn built_in((name, expr, violated_if, variables, description): &Row) -> Template {
    let variable = |(name, usual): &(&str, Option<&str>)| {
        let usual = usual.map_or(Value::Null, |usual| match usual.parse::<f64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(usual),
        });
        ((*name).to_owned(), usual)
    };
    let thresholds = (*name == "compss-under-allocation")
        .then_some(Thresholds { warning: Some(200.0), critical: Some(500.0) });
    Template {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        expr: (*expr).to_owned(),
        violated_if: violated_if.map(str::to_owned),
        thresholds,
        variables: variables.iter().map(variable).collect(),
    }
}

impl Templates {
    /// Takes one more, which may stand for one of ours.
    pub fn add(&mut self, template: Template) -> Result<(), Problem> {
        check(&template)?;
        self.0.insert(template.name.clone(), template);
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Template> {
        self.0.values()
    }

    pub fn find(&self, name: &str) -> Result<&Template, Problem> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let meant = suggest::did_you_mean(name, names.iter().copied());
            let message =
                format!("there is no template {name:?}{meant}; there is {}", names.join(", "));
            Problem::new("condition.template", message)
        })
    }
}

/// What the subject fills in, whatever the policy says.
pub(crate) const OF_SUBJECT: &[&str] = &[
    "subject_label_selector",
    "subject_label_list",
    "subject.appName",
    "subject.appComponent",
    "subject.appInstance",
    "subject.hostId",
    "subject.agentId",
    "subject.app",
    "subject.component",
    "subject.node",
    "subject.site",
];

/// A template names its variables, uses them, and is PromQL with anything in their places.
fn check(template: &Template) -> Result<(), Problem> {
    let texts = [("expr", Some(&template.expr)), ("violatedIf", template.violated_if.as_ref())];
    let mut used = Vec::new();
    for (path, text) in texts {
        let Some(text) = text else { continue };
        for name in placeholders(text) {
            let is_known = OF_SUBJECT.contains(&name) || template.variables.contains_key(name);
            if !is_known {
                let known = template.variables.keys().map(String::as_str);
                let meant = suggest::did_you_mean(name, known);
                let byte = text.find(name).unwrap_or_default();
                let message = format!("{name:?} is not among the template's variables{meant}");
                return Err(Problem::at(path, text, byte, message));
            }
            used.push(name);
        }
    }
    if let Some(idle) = template.variables.keys().find(|name| !used.contains(&name.as_str())) {
        return Err(Problem::new(format!("variables.{idle}"), "is used nowhere in the template"));
    }
    let trial = |missing: &str| -> Result<(), Problem> {
        let rendered = render(&template.expr, &trial(template, missing), "expr")?;
        match tombolo_series::promql::parse(&rendered.text) {
            Ok(_) => Ok(()),
            Err(error) => Err(rendered.problem("expr", error.place.start, &error.problem)),
        }
    };
    // What is a variable's place for a number may be one for a duration.
    trial("1").or_else(|problem| trial("1m").map_err(|_| problem))
}

/// Values with which a template should be PromQL: defaults, and `missing` for the rest.
fn trial(template: &Template, missing: &str) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> =
        OF_SUBJECT.iter().map(|name| ((*name).to_owned(), "some".to_owned())).collect();
    values.insert("subject_label_selector".to_owned(), "some=\"some\"".to_owned());
    for (name, usual) in &template.variables {
        values.insert(name.clone(), scalar(usual).unwrap_or_else(|| missing.to_owned()));
    }
    values
}

/// A number or a text as it stands in an expression.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            Some(text.strip_suffix(".0").map_or(text.clone(), str::to_owned))
        }
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_of_ours_is_a_good_one() {
        let templates = Templates::default();
        for template in templates.iter() {
            assert_eq!(check(template), Ok(()), "{}", template.name);
        }
        assert_eq!(templates.iter().count(), ROWS.len());
    }

    #[track_caller]
    fn refused(expr: &str, violated_if: Option<&str>, variables: &[&str], problem: &str) {
        let template = Template {
            name: "mine".to_owned(),
            expr: expr.to_owned(),
            violated_if: violated_if.map(str::to_owned),
            variables: variables.iter().map(|name| ((*name).to_owned(), Value::Null)).collect(),
            ..Template::default()
        };
        let error = Templates::default().add(template).unwrap_err();
        assert_eq!(error.to_string(), problem);
    }

    #[test]
    fn a_bad_template_is_refused_at_its_place() {
        refused(
            "up{ {{subject_label_selector}} } > {{limit}}",
            None,
            &["limits"],
            "expr:1:38: \"limit\" is not among the template's variables (did you mean \"limits\"?)",
        );
        refused("up", None, &["idle"], "variables.idle: is used nowhere in the template");
        refused(
            "rate(up{ {{subject_label_selector}} })",
            None,
            &[],
            "expr:1:6: expected type range vector in call to function \"rate\", got instant vector",
        );
    }

    #[test]
    fn a_users_template_stands_for_one_of_ours() {
        let mut templates = Templates::default();
        let mine =
            Template { name: "cpu".to_owned(), expr: "up".to_owned(), ..Template::default() };
        templates.add(mine.clone()).unwrap();
        assert_eq!(templates.find("cpu"), Ok(&mine));
        let problem = templates.find("cpuu").unwrap_err().to_string();
        assert!(
            problem.starts_with(
                "condition.template: there is no template \"cpuu\" (did you mean \"cpu\"?)"
            ),
            "{problem}"
        );
    }
}
