//! The kinds of other projects that the API serves as they are: their definitions, and their status
//! in their own shape. Called by the API server when it starts and by the loop that keeps an App for
//! each of their objects. Start with [`definitions`] and [`codeco::status`].

pub mod charity;
pub mod codeco;
pub(crate) mod head;

use std::collections::BTreeMap;

use serde_json::Value;
use tombolo_model::app::AppStatus;
use tombolo_model::condition::{AVAILABLE, READY};
use tombolo_model::needs::Resources;
use tombolo_model::{App, AppPhase, Assignment, Condition, ConditionStatus, Node, Site};

/// One definition a kind, as YAML, so that they read like those that people install.
const DEFINITIONS: &[&str] =
    &[include_str!("foreign/codecoapp.yaml"), include_str!("foreign/lowlevelorchestration.yaml")];

/// The definitions (apiextensions v1) of CodecoApp and LowLevelOrchestration.
pub fn definitions() -> Vec<Value> {
    let limits = tombolo_yaml::Limits::default();
    let documents = DEFINITIONS.iter().flat_map(|text| tombolo_yaml::documents(text, &limits).0);
    documents.map(|document| document.to_json()).collect()
}

/// What a status is made from. Lists may hold more than belongs to the object; what does not is
/// left aside.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Apps that are kept for the object.
    pub apps: &'a [&'a App],
    pub assignments: &'a [&'a Assignment],
    pub nodes: &'a [&'a Node],
    pub sites: &'a [&'a Site],
    pub usage: &'a Usage,
}

/// What telemetry has measured. Whatever is missing is left out of a status, never made up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// By the name of the Assignment: what its instance uses.
    pub instances: BTreeMap<String, Resources>,
    /// By the name of the Node: what it takes in electricity.
    pub node_watts: BTreeMap<String, f64>,
}

impl<'a> Observed<'a> {
    /// The Assignments of an App, by component and replica.
    fn assignments_of(&self, app: &App) -> Vec<&'a Assignment> {
        let name = app.metadata.name.as_deref().unwrap_or_default();
        let mut found: Vec<&Assignment> = self
            .assignments
            .iter()
            .copied()
            .filter(|assignment| assignment.spec.app == name)
            .filter(|assignment| assignment.metadata.namespace == app.metadata.namespace)
            .collect();
        found.sort_by(|a, b| {
            (&a.spec.component, a.spec.replica, &a.metadata.name).cmp(&(
                &b.spec.component,
                b.spec.replica,
                &b.metadata.name,
            ))
        });
        found
    }
}

fn is_available(assignment: &Assignment) -> bool {
    let conditions = assignment.status.as_ref().map(|status| status.conditions.as_slice());
    holds(conditions.unwrap_or_default(), AVAILABLE)
}

fn is_ready(site: &Site) -> bool {
    let conditions = site.status.as_ref().map(|status| status.conditions.as_slice());
    holds(conditions.unwrap_or_default(), READY)
}

fn holds(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|found| found.kind == kind && found.status == ConditionStatus::True)
}

fn phase(app: &App) -> AppPhase {
    app.status.as_ref().and_then(|status| status.phase).unwrap_or(AppPhase::Pending)
}

/// What stands in the way of an App, in a sentence; nothing when all is well.
fn trouble(status: &AppStatus) -> Option<String> {
    let unplaced = status.unplaced.iter().map(|unplaced| {
        let reasons = unplaced.reasons.join("; ");
        format!("{} {} has no place: {reasons}", unplaced.component, unplaced.replica)
    });
    let sentences: Vec<String> = status.message.clone().into_iter().chain(unplaced).collect();
    (!sentences.is_empty()).then(|| sentences.join(". "))
}
