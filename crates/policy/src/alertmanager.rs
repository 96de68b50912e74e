//! What Alertmanager tells by its webhook (version 4): which policy, about whom, firing or resolved. And the
//! call that ICOS makes of it. Start at [`read`].

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tombolo_series::Labels;

use crate::look::{Look, Seen};
use crate::{Problem, Rule, Verdict};

/// More alerts than this in one message are cut off by Alertmanager's own settings.
const ALERTS_MAX: usize = 10_000;

/// One alert, as far as it concerns policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    pub firing: bool,
    /// `plm_id`: the id of the policy that the rule was made from.
    pub policy_id: String,
    /// The value at the time, as it was sent.
    pub value: String,
    pub backend: String,
    pub labels: Labels,
}

#[derive(Deserialize)]
struct Message {
    version: String,
    alerts: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    status: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Reads a message. An alert that no policy stands behind is a problem, named by its number.
pub fn read(body: &Value) -> Result<Vec<Alert>, Problem> {
    let wrong = |error: serde_json::Error| Problem::new("", error.to_string());
    let message: Message = Message::deserialize(body).map_err(wrong)?;
    if message.version != "4" {
        let problem = format!("is {:?}; this is read as \"4\" only", message.version);
        return Err(Problem::new("version", problem));
    }
    if message.alerts.len() > ALERTS_MAX {
        return Err(Problem::new("alerts", format!("there are more than {ALERTS_MAX}")));
    }
    message.alerts.into_iter().enumerate().map(|(number, one)| alert(number, one)).collect()
}

/// Reads a single alert, as fixtures have it.
pub fn read_one(body: &Value) -> Result<Alert, Problem> {
    let one = One::deserialize(body).map_err(|error| Problem::new("", error.to_string()))?;
    alert(0, one)
}

fn alert(number: usize, mut one: One) -> Result<Alert, Problem> {
    let firing = match one.status.as_str() {
        "firing" => true,
        "resolved" => false,
        other => {
            let message = format!("is {other:?}; it is \"firing\" or \"resolved\"");
            return Err(Problem::new(format!("alerts[{number}].status"), message));
        }
    };
    let mut note = |name: &str| one.annotations.remove(name);
    let policy_id = note("plm_id").ok_or_else(|| {
        let message = "is missing: the alert is not from a rule of a policy";
        Problem::new(format!("alerts[{number}].annotations.plm_id"), message)
    })?;
    Ok(Alert {
        firing,
        policy_id,
        value: note("plm_expr_value").unwrap_or_default(),
        backend: note("plm_measurement_backend").unwrap_or_else(|| "prom-1".to_owned()),
        labels: Labels::new(one.labels),
    })
}

/// Which labels of an alert say whom it is about, by the subject of ICOS that they rebuild.
const SUBJECTS: &[(&str, &[(&str, &str)])] = &[
    (
        "app",
        &[
            ("appName", "icos_app_name"),
            ("appComponent", "icos_app_component"),
            ("appInstance", "icos_app_instance"),
        ],
    ),
    ("host", &[("hostId", "icos_host_id"), ("agentId", "icos_agent_id")]),
];

impl Alert {
    /// The labels that name the subject of a rule: those by which two violations of it differ. A label that
    /// the policy names and the alert lacks is an error, as in ICOS.
    pub fn subject(&self, rule: &Rule) -> Result<Labels, Problem> {
        let wanted = crate::subject::labels_of(rule);
        let one = |label: &String| match self.labels.get(label) {
            "" => Err(Problem::new(format!("labels.{label}"), "the alert does not say it")),
            value => Ok((label.clone(), value.to_owned())),
        };
        let pairs: Result<Vec<(String, String)>, Problem> = wanted.iter().map(one).collect();
        Ok(Labels::new(pairs?))
    }

    /// The alert as a look for the rule's machine: what fires is seen to be bad, what is resolved is not.
    pub fn look(&self, rule: &Rule, at_ms: i64) -> Result<Look, Problem> {
        let labels = self.subject(rule)?;
        let said: Option<f64> = self.value.parse().ok();
        let wanted = |value: &f64| rule.condition.judge(*value).violated == self.firing;
        // A value that was sent with the wrong sign of the limit is worth less than what Alertmanager says.
        let value = said.filter(wanted).unwrap_or(match self.firing {
            true => rule.condition.bad(),
            false => rule.condition.well(),
        });
        let seen = if value.is_nan() { Vec::new() } else { vec![Seen { labels, value }] };
        Ok(Look { at_ms, seen, ..Look::default() })
    }

    /// What the value that was sent means to the rule.
    pub fn verdict(&self, rule: &Rule) -> Option<(f64, Verdict)> {
        let value: f64 = self.value.parse().ok()?;
        Some((value, rule.condition.judge(value)))
    }

    /// The body of the call that ICOS makes on a violation.
    pub fn violation(&self, rule: &Rule, extra: &Map<String, Value>) -> Result<Value, Problem> {
        let kind = if self.is_about_app(rule) { "app" } else { "host" };
        let fields = SUBJECTS.iter().find(|(name, _)| *name == kind);
        let mut subject = Map::new();
        subject.insert("type".to_owned(), kind.into());
        for (field, label) in fields.into_iter().flat_map(|(_, fields)| fields.iter()) {
            match self.labels.get(label) {
                "" => {
                    let problem =
                        Problem::new(format!("labels.{label}"), "the alert does not say it");
                    return Err(problem);
                }
                value => subject.insert((*field).to_owned(), value.into()),
            };
        }
        let named = |name: &str| {
            let all = SUBJECTS.iter().flat_map(|(_, fields)| fields.iter());
            name == "alertname" || all.into_iter().any(|(_, label)| *label == name)
        };
        let rest = self.labels.iter().filter(|(name, _)| !named(name));
        let rest: Map<String, Value> =
            rest.map(|(name, value)| (name.to_owned(), value.into())).collect();
        let mut call = json!({
            "id": self.policy_id,
            "policyId": self.policy_id,
            "policyName": rule.name,
            "currentValue": self.value,
            "threshold": self.threshold(rule),
            "measurementBackend": self.backend,
            "subject": subject,
            "extraLabels": rest,
        });
        if let Some(object) = call.as_object_mut() {
            object.extend(extra.clone());
        }
        Ok(call)
    }

    /// The name of the threshold that is passed; with thresholds and none passed `__out_of_range__`.
    fn threshold(&self, rule: &Rule) -> Value {
        let has_names = rule.condition.warning.is_some() || rule.condition.critical.is_some();
        let level = self.verdict(rule).and_then(|(_, verdict)| verdict.level);
        match (has_names, level) {
            (false, _) => Value::Null,
            (true, Some(level)) => level.into(),
            (true, None) => "__out_of_range__".into(),
        }
    }

    fn is_about_app(&self, rule: &Rule) -> bool {
        rule.subject.app.is_some()
    }
}
