//! The policies of ICOS' policy manager as ours: [`read`]. Its own descriptor policies are read by the
//! descriptor crate, and come out the same.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use tombolo_model::Duration;
use tombolo_model::policy::{
    Action, Check, Method, PolicySpec, Properties, Remediation, Subject, Thresholds, Webhook,
};

use crate::Problem;
use crate::template::scalar;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    subject: Map<String, Value>,
    spec: Spec,
    #[serde(default)]
    action: Option<Call>,
    #[serde(default)]
    variables: BTreeMap<String, Value>,
    #[serde(default)]
    properties: Option<Timing>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    expr: Option<String>,
    #[serde(default)]
    violated_if: Option<String>,
    #[serde(default)]
    thresholds: Option<Thresholds>,
    #[serde(default)]
    template_name: Option<String>,
    #[serde(default)]
    constraints: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    #[serde(default)]
    url: String,
    #[serde(default)]
    http_method: Option<String>,
    #[serde(default)]
    extra_params: BTreeMap<String, Value>,
    #[serde(default)]
    include_access_token: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Timing {
    #[serde(default)]
    oneoff: bool,
    #[serde(default)]
    interval: Option<String>,
    #[serde(default)]
    pending_interval: Option<String>,
}

/// Fields of the subject, and what they are here.
const FIELDS: &[(&str, &str)] = &[
    ("appName", "app"),
    ("appComponent", "component"),
    ("appInstance", "icos_app_instance"),
    ("hostId", "icos_host_id"),
    ("agentId", "site"),
];

/// A policy, and its name if it has one. `remediation` among the parameters of its call is the step.
pub fn read(body: &Value) -> Result<(Option<String>, PolicySpec), Problem> {
    let written =
        Written::deserialize(body).map_err(|error| Problem::new("", error.to_string()))?;
    if written.spec.constraints.is_some() {
        let message = "are held when a place is chosen: write them as needs of the component";
        return Err(Problem::new("spec.constraints", message));
    }
    let condition = Check {
        expr: written.spec.expr,
        violated_if: written.spec.violated_if,
        thresholds: written.spec.thresholds,
        template: written.spec.template_name,
        variables: written.variables,
        properties: written.properties.map(timing).transpose()?,
        ..Check::default()
    };
    if condition.expr.is_some() == condition.template.is_some() {
        let message = "must have either expr or templateName";
        return Err(Problem::new("spec", message));
    }
    let spec = PolicySpec {
        subject: subject(&written.subject)?,
        condition,
        remediation: written.action.map(remediation).transpose()?,
        ..PolicySpec::default()
    };
    Ok((written.name, spec))
}

fn subject(fields: &Map<String, Value>) -> Result<Subject, Problem> {
    let mut subject = Subject::default();
    for (name, value) in fields.iter().filter(|(name, _)| *name != "type") {
        let path = || format!("subject.{name}");
        let text = value.as_str().ok_or_else(|| Problem::new(path(), "is not a text"))?;
        let text = text.to_owned();
        match FIELDS.iter().find(|(field, _)| field == name).map(|(_, ours)| *ours) {
            Some("app") => subject.app = Some(text),
            Some("component") => subject.component = Some(text),
            Some("site") => subject.site = Some(text),
            Some(label) => {
                subject.labels.insert(label.to_owned(), text);
            }
            // A subject of the type custom is labels.
            None => {
                subject.labels.insert(name.clone(), text);
            }
        }
    }
    Ok(subject)
}

fn timing(said: Timing) -> Result<Properties, Problem> {
    let read = |path: &str, text: Option<String>| match text.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => {
            let time: Result<Duration, _> = text.parse();
            time.map(Some)
                .map_err(|error| Problem::new(format!("properties.{path}"), error.to_string()))
        }
    };
    Ok(Properties {
        one_off: said.oneoff,
        interval: read("interval", said.interval)?,
        pending_interval: read("pendingInterval", said.pending_interval)?,
        keep_firing_for: None,
    })
}

fn remediation(call: Call) -> Result<Remediation, Problem> {
    let params: BTreeMap<String, String> = call
        .extra_params
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), scalar(value)?)))
        .collect();
    let action = match params.get("remediation") {
        None => Action::Webhook,
        Some(word) => {
            *Action::ALL.iter().find(|action| action.as_str() == word).ok_or_else(|| {
                Problem::new(
                    "action.extraParams.remediation",
                    format!("{word:?} is no remediation"),
                )
            })?
        }
    };
    let method = call.http_method.map(|word| {
        let known = Method::ALL.iter().find(|method| method.as_str() == word);
        let unknown = || Problem::new("action.httpMethod", format!("{word:?} is no method"));
        known.copied().ok_or_else(unknown)
    });
    let webhook = Webhook {
        url: call.url,
        method: method.transpose()?,
        extra_params: params,
        include_access_token: call.include_access_token,
    };
    Ok(Remediation { action, webhook: Some(webhook), ..Remediation::default() })
}
