//! The platform of a CEAML model: its deployment phase, which goes without saying here, and its
//! workflows, which become policies as far as they compare a metric with a number. Called by
//! [`super::read`].

use std::collections::{BTreeMap, BTreeSet};

use tombolo_model::AppSpec;
use tombolo_model::app::AppPolicy;
use tombolo_model::policy::{Action, Remediation};

use super::{Known, Survey, condition};
use crate::fields::{Field, Rest};
use crate::reader::{Reader, dashed};
use crate::tosca::{NODE_DROPPED, NodeTemplate, Template};

/// A step that a workflow can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Deploy,
    Terminate,
    Migrate,
    ScaleOut,
    ScaleIn,
    /// Something between the components themselves.
    Message,
}

const STEPS: &[(&str, Step)] = &[
    ("deploy", Step::Deploy),
    ("terminate", Step::Terminate),
    ("migrate", Step::Migrate),
    ("local_scale_out", Step::ScaleOut),
    ("global_scale_out", Step::ScaleOut),
    ("scale_out", Step::ScaleOut),
    ("scale_in", Step::ScaleIn),
    ("send", Step::Message),
    ("requestSession", Step::Message),
    ("requestAnblick", Step::Message),
];
const ACTION: &[&str] = &["name", "components", "component", "order", "input"];

/// A scenario, until those with the same condition have come together.
#[derive(Debug)]
struct Scenario<'s, 'a> {
    field: Field<'a>,
    name: Option<String>,
    target: &'s Known<'a>,
    condition: Field<'a>,
    steps: BTreeSet<Step>,
}

/// Reads the properties of the platform, and gives the Apps their policies.
pub(super) fn platform<'a>(
    node: &NodeTemplate<'a>,
    survey: &Survey<'a>,
    template: &Template<'a>,
    specs: &mut [AppSpec],
    reader: &mut Reader<'_>,
) {
    let Some(mut fields) = node.fields(reader) else { return };
    let properties = fields.take("properties").and_then(|field| field.fields(reader));
    fields.finish(Rest::Foreign { known: &["properties"], dropped: NODE_DROPPED }, reader);
    let Some(mut fields) = properties else { return };
    if let Some(application) = fields.take("application")
        && let Some(name) = application.str(reader)
        && !survey.apps.contains(&name)
    {
        application.dropped(reader, "no component belongs to it");
    }
    let phases = fields.take("deployment_phase").map(|list| list.list(reader)).unwrap_or_default();
    for phase in &phases {
        let step = read_action(phase, None, survey, template, reader);
        phase.dropped(
            reader,
            match step {
                Some(Step::Terminate) => "an App is taken down as a whole",
                Some(_) | None => "every component is deployed, each as soon as it has a place",
            },
        );
    }
    let mut scenarios: Vec<Scenario<'_, 'a>> = Vec::new();
    let mut places = BTreeMap::new();
    let workflows = fields.take("workflows").map(|list| list.list(reader)).unwrap_or_default();
    for field in &workflows {
        let Some(scenario) = read_scenario(field, survey, template, reader) else { continue };
        let key = (scenario.target.key, scenario.condition.node.as_str());
        match places.get(&key).and_then(|place: &usize| scenarios.get_mut(*place)) {
            Some(known) => {
                field.changed(reader, "it has the condition of another scenario and joins it");
                known.steps.extend(scenario.steps);
            }
            None => {
                places.insert(key, scenarios.len());
                scenarios.push(scenario);
            }
        }
    }
    let mut names = BTreeMap::new();
    for scenario in &scenarios {
        reader.begin_app(scenario.target.app);
        if let Some(spec) = specs.get_mut(scenario.target.app) {
            let origin = format!("spec.policies[{}]", spec.policies.len());
            scenario.field.origin(reader, origin);
            spec.policies.extend(policy(scenario, &mut names, reader));
        }
    }
    let dropped = &[("optimizations", "which outside optimiser to ask cannot be said")];
    let known = &["application", "deployment_phase", "workflows"];
    fields.finish(Rest::Foreign { known, dropped }, reader);
}

fn read_scenario<'s, 'a>(
    field: &Field<'a>,
    survey: &'s Survey<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Option<Scenario<'s, 'a>> {
    let mut fields = field.fields(reader)?;
    let name = fields.take("scenario").and_then(|name| name.text(reader));
    let target = fields.need("target", reader, "the component that the condition is about");
    let condition = fields.need("condition", reader, "when to act, such as component_cpu > 80%");
    let actions = fields.need("actions", reader, "what to do, such as - name: migrate");
    fields.finish(
        Rest::Foreign { known: &["scenario", "target", "condition", "actions"], dropped: &[] },
        reader,
    );
    let actions = actions.map(|list| list.list(reader)).unwrap_or_default();
    let target = target?;
    let known = survey.refer(&target, template, reader);
    let key = known.map(|known| known.key);
    let steps = actions
        .iter()
        .filter_map(|action| read_action(action, key, survey, template, reader))
        .collect();
    Some(Scenario { field: field.clone(), name, target: known?, condition: condition?, steps })
}

/// The step of an action. What else it says goes with the note on its scenario or phase, but for
/// components that are not the target.
fn read_action<'a>(
    field: &Field<'a>,
    target: Option<&str>,
    survey: &Survey<'a>,
    template: &Template<'a>,
    reader: &mut Reader<'_>,
) -> Option<Step> {
    let mut fields = field.fields(reader)?;
    let name = fields.need("name", reader, "the step to take, such as deploy");
    let components = fields.take("components").map(|list| list.list(reader)).unwrap_or_default();
    for key in ["component", "order", "input"] {
        let _ = fields.take(key);
    }
    fields.finish(Rest::Foreign { known: ACTION, dropped: &[] }, reader);
    for entry in &components {
        let Some(mut fields) = entry.fields(reader) else { continue };
        let _ = fields.take("type");
        if let Some(component) = fields.take("component")
            && let Some(known) = survey.refer(&component, template, reader)
            && target.is_some_and(|target| target != known.key)
        {
            component.dropped(reader, "a step is taken on the target of its scenario");
        }
        fields.finish(Rest::Foreign { known: &["component", "type"], dropped: &[] }, reader);
    }
    name?.one_of(reader, STEPS)
}

fn policy(
    scenario: &Scenario<'_, '_>,
    names: &mut BTreeMap<String, usize>,
    reader: &mut Reader<'_>,
) -> Option<AppPolicy> {
    let field = &scenario.field;
    let text = scenario.condition.str(reader)?;
    let plain: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    if scenario.name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case("onDeployment")) {
        field.dropped(
            reader,
            "a wish about the first place is not a policy; give users and a latency",
        );
        return None;
    }
    if plain.eq_ignore_ascii_case("status==failed") {
        field.dropped(reader, "an instance that has failed is replaced in any case");
        return None;
    }
    let Some(remediation) = remediation(&scenario.steps) else {
        field.dropped(reader, "none of its steps is one that can be taken here");
        return None;
    };
    let condition = match condition::parse(text) {
        Ok(condition) => condition,
        Err(why) => {
            field.dropped(reader, &format!("its condition cannot be watched: {why}"));
            return None;
        }
    };
    if !condition.units.is_empty() {
        let message = format!("the metrics are {}", condition.units.join(", "));
        scenario.condition.assumed(reader, &message);
    }
    let name = unique(scenario.name.as_deref().unwrap_or("workflow"), names);
    let message =
        format!("it becomes the policy {name}, which answers with {}", remediation.action);
    field.changed(reader, &message);
    Some(AppPolicy {
        name,
        components: vec![scenario.target.name.clone()],
        condition: condition.check,
        remediation: Some(remediation),
        ..AppPolicy::default()
    })
}

/// What all the steps of a scenario come to.
fn remediation(steps: &BTreeSet<Step>) -> Option<Remediation> {
    let has = |step| steps.contains(&step);
    let (action, replicas_min) = if has(Step::Deploy) && has(Step::Terminate) {
        (Action::Redeploy, None)
    } else if has(Step::Migrate) {
        (Action::Migrate, None)
    } else if has(Step::ScaleOut) || has(Step::Deploy) {
        (Action::ScaleUp, None)
    } else if has(Step::ScaleIn) {
        (Action::ScaleDown, None)
    } else if has(Step::Terminate) {
        (Action::ScaleDown, Some(0))
    } else {
        return None;
    };
    Some(Remediation { action, replicas_min, ..Remediation::default() })
}

/// A name that no policy has yet. `names` counts how often each was wanted.
fn unique(written: &str, names: &mut BTreeMap<String, usize>) -> String {
    let base = match dashed(written) {
        name if name.is_empty() => "workflow".to_owned(),
        name => name.get(..57).unwrap_or(&name).trim_end_matches('-').to_owned(),
    };
    loop {
        let count = names.entry(base.clone()).or_default();
        *count += 1;
        let name = match count {
            1 => return base,
            count => format!("{base}-{count}"),
        };
        // Somebody may be named like that already.
        if names.get(&name).is_none() {
            names.insert(name.clone(), 1);
            return name;
        }
    }
}
