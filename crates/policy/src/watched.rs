//! A policy, whether it stands alone or inside an App: [`Watched`].

use tombolo_model::app::AppPolicy;
use tombolo_model::policy::{Check, Mode, PolicySpec, Remediation, Severity, Subject};
use tombolo_model::scaling::Scaling;

/// What both forms of a policy say.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    pub name: String,
    pub subject: Subject,
    pub condition: Check,
    pub remediation: Option<Remediation>,
    pub scaling: Option<Scaling>,
    pub severity: Severity,
    pub mode: Mode,
    pub suspended: bool,
}

impl Watched {
    pub fn of_policy(name: &str, spec: &PolicySpec) -> Self {
        Self {
            name: name.to_owned(),
            subject: spec.subject.clone(),
            condition: spec.condition.clone(),
            remediation: spec.remediation.clone(),
            scaling: spec.scaling.clone(),
            severity: spec.severity.unwrap_or(Severity::Warning),
            mode: spec.mode.unwrap_or(Mode::Enforce),
            suspended: spec.suspended,
        }
    }

    /// The policy of an App, about its components only.
    pub fn of_app(app: &str, policy: &AppPolicy) -> Self {
        let component = match policy.components.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("/{}/", several.join("|"))),
        };
        let subject = Subject { app: Some(app.to_owned()), component, ..Subject::default() };
        Self {
            name: policy.name.clone(),
            subject,
            condition: policy.condition.clone(),
            remediation: policy.remediation.clone(),
            scaling: policy.scaling.clone(),
            severity: policy.severity.unwrap_or(Severity::Warning),
            mode: policy.mode.unwrap_or(Mode::Enforce),
            suspended: policy.suspended,
        }
    }
}
