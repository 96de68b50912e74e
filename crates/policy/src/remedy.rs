//! What a step means for an App: [`plan`] says what to do, [`change`] how a component changes. ICOS's words
//! mean what they mean there: `scale-up` and `scale-down` are one instance more or fewer, `scale-out` and
//! `scale-in` a core and 1000 MiB more or less for each.

use serde_json::Value;
use tombolo_model::app::AppSpec;
use tombolo_model::component::Component;
use tombolo_model::needs::Needs;
use tombolo_model::policy::{Action, Remediation};
use tombolo_model::{Bytes, Cpu};

use crate::Act;

/// By how much `scale-out` and `scale-in` change an instance, as in ICOS.
const CPU_STEP_MILLIS: u64 = 1000;
const MEMORY_STEP: u64 = 1000 << 20;

/// What a step comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Watched, and nothing else.
    Nothing,
    /// Said, and nothing else.
    Tell,
    /// Placed anew, and not where it is. Whoever places keeps to budgets and to "never worse".
    Replan {
        component: Option<String>,
        away_from: Option<String>,
    },
    Restart {
        component: Option<String>,
    },
    /// Nothing new goes to the machine, and what is there leaves.
    Quarantine {
        node: String,
    },
    /// The App as it should be.
    Change(Box<AppSpec>),
}

/// What to do about a violation.
pub fn plan(
    act: &Act,
    app: Option<&AppSpec>,
    remediation: Option<&Remediation>,
) -> Result<Step, String> {
    let target = &act.target;
    match act.action {
        Action::None => Ok(Step::Nothing),
        Action::Notify | Action::Webhook => Ok(Step::Tell),
        Action::Migrate | Action::Redeploy | Action::Reallocation => {
            Ok(Step::Replan { component: target.component.clone(), away_from: target.node.clone() })
        }
        Action::Restart => Ok(Step::Restart { component: target.component.clone() }),
        Action::Quarantine => {
            let node = target.node.clone();
            let node = node.ok_or_else(|| format!("{target} names no machine to quarantine"))?;
            Ok(Step::Quarantine { node })
        }
        Action::ScaleUp
        | Action::ScaleDown
        | Action::ScaleOut
        | Action::ScaleIn
        | Action::Patch => {
            let app = app.ok_or_else(|| format!("{target} is no application"))?;
            let component = only_component(app, target.component.as_deref())?;
            let mut changed = app.clone();
            change(&mut changed, &component, act.action, remediation)?;
            Ok(Step::Change(Box::new(changed)))
        }
    }
}

/// The component that a step is for; an App with one component need not be told which.
pub(crate) fn only_component(app: &AppSpec, named: Option<&str>) -> Result<String, String> {
    match (named, app.components.as_slice()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, [one]) => Ok(one.name.clone()),
        (None, _) => Err("the violation does not say which component it is about".to_owned()),
    }
}

/// Changes a component as the action says, within the bounds of the remediation.
pub fn change(
    app: &mut AppSpec,
    component: &str,
    action: Action,
    remediation: Option<&Remediation>,
) -> Result<(), String> {
    let found = app.components.iter_mut().find(|one| one.name == component);
    let found = found.ok_or_else(|| format!("there is no component {component:?}"))?;
    match action {
        Action::ScaleUp | Action::ScaleDown => {
            found.replicas = Some(replicas(found, action, remediation)?);
            Ok(())
        }
        Action::ScaleOut | Action::ScaleIn => resize(found, action),
        Action::Patch => {
            let patch = remediation.and_then(|one| one.patch.as_ref());
            let patch = patch.ok_or("there is no patch")?;
            *found = patched(found, patch)?;
            Ok(())
        }
        Action::None
        | Action::Migrate
        | Action::Redeploy
        | Action::Reallocation
        | Action::Restart
        | Action::Quarantine
        | Action::Notify
        | Action::Webhook => Err(format!("{action} changes no component")),
    }
}

fn replicas(
    component: &Component,
    action: Action,
    remediation: Option<&Remediation>,
) -> Result<u32, String> {
    let name = &component.name;
    if component.on_each.is_some() {
        return Err(format!("{name} runs on each of its nodes: it has no number"));
    }
    let now = component.replicas.unwrap_or(1);
    let least = remediation.and_then(|one| one.replicas_min).unwrap_or(1);
    let most = remediation.and_then(|one| one.replicas_max).unwrap_or(u32::MAX);
    match action {
        Action::ScaleUp if now >= most => {
            Err(format!("{name} has {now} instances, and may have {most} at most"))
        }
        Action::ScaleUp => Ok(now.saturating_add(1)),
        _ if now <= least => {
            Err(format!("{name} has {now} instances, and must have {least} at least"))
        }
        _ => Ok(now - 1),
    }
}

fn resize(component: &mut Component, action: Action) -> Result<(), String> {
    let name = component.name.clone();
    let needs = component.needs.get_or_insert_with(Needs::default);
    let cpu = needs.cpu.unwrap_or(Cpu::ZERO).millis();
    let memory = needs.memory.unwrap_or(Bytes::ZERO).get();
    if action == Action::ScaleOut {
        needs.cpu = Some(Cpu::from_millis(cpu.saturating_add(CPU_STEP_MILLIS)));
        needs.memory = Some(Bytes::new(memory.saturating_add(MEMORY_STEP)));
        return Ok(());
    }
    if cpu <= CPU_STEP_MILLIS || memory <= MEMORY_STEP {
        return Err(format!(
            "{name} needs {} cores and {} of memory: with a core and 1000Mi less it could not run",
            Cpu::from_millis(cpu),
            Bytes::new(memory)
        ));
    }
    needs.cpu = Some(Cpu::from_millis(cpu - CPU_STEP_MILLIS));
    needs.memory = Some(Bytes::new(memory - MEMORY_STEP));
    Ok(())
}

/// A component with a change merged into it.
pub fn patched(component: &Component, patch: &Value) -> Result<Component, String> {
    let mut value = serde_json::to_value(component).map_err(|error| error.to_string())?;
    merge(&mut value, patch);
    let changed: Component = serde_json::from_value(value)
        .map_err(|error| format!("the patch does not fit: {error}"))?;
    match changed.name == component.name {
        true => Ok(changed),
        false => Err("the patch renames the component".to_owned()),
    }
}

/// A merge patch, RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(object) = target.as_object_mut() else { return };
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn app() -> AppSpec {
        let web = json!({
            "name": "web", "replicas": 2, "needs": {"cpu": 1.5, "memory": "2000Mi"},
            "run": [{"process": {"command": ["web"]}}],
        });
        serde_json::from_value(json!({"components": [web]})).unwrap()
    }

    #[track_caller]
    fn check(action: Action, bounds: Value, expected: Result<Value, &str>) {
        let mut spec = app();
        let mut remediation = bounds;
        remediation["action"] = json!(action);
        let remediation: Remediation = serde_json::from_value(remediation).unwrap();
        let done = change(&mut spec, "web", action, Some(&remediation));
        let component = &spec.components[0];
        let found = done.map(|()| json!([component.replicas, component.needs]));
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn up_and_down_are_instances_and_out_and_in_are_resources() {
        let needs = json!({"cpu": "1500m", "memory": "2000Mi"});
        let same = serde_json::to_value(app().components[0].needs.clone()).unwrap();
        assert_eq!(same["cpu"], needs["cpu"]);
        check(Action::ScaleUp, json!({}), Ok(json!([3, same])));
        check(Action::ScaleDown, json!({}), Ok(json!([1, same])));
        let larger: Needs =
            serde_json::from_value(json!({"cpu": "2500m", "memory": "3000Mi"})).unwrap();
        check(Action::ScaleOut, json!({}), Ok(json!([2, larger])));
        let smaller: Needs =
            serde_json::from_value(json!({"cpu": "500m", "memory": "1000Mi"})).unwrap();
        check(Action::ScaleIn, json!({}), Ok(json!([2, smaller])));
    }

    #[test]
    fn a_step_keeps_to_its_bounds() {
        check(
            Action::ScaleUp,
            json!({"replicasMax": 2}),
            Err("web has 2 instances, and may have 2 at most"),
        );
        check(
            Action::ScaleDown,
            json!({"replicasMin": 2}),
            Err("web has 2 instances, and must have 2 at least"),
        );
        let mut spec = app();
        change(&mut spec, "web", Action::ScaleIn, None).unwrap();
        assert_eq!(
            change(&mut spec, "web", Action::ScaleIn, None).unwrap_err(),
            "web needs 500m cores and 1000Mi of memory: with a core and 1000Mi less it could not run"
        );
    }

    #[test]
    fn a_patch_is_merged_and_cannot_break_the_component() {
        let patch = |patch: Value| Remediation {
            action: Action::Patch,
            patch: Some(patch),
            ..Remediation::default()
        };
        let mut spec = app();
        let good = patch(json!({"needs": {"cpu": "3", "memory": null}}));
        change(&mut spec, "web", Action::Patch, Some(&good)).unwrap();
        let needs = spec.components[0].needs.clone().unwrap();
        assert_eq!((needs.cpu, needs.memory), (Some(Cpu::from_millis(3000)), None));
        let other = patch(json!({"name": "other"}));
        assert_eq!(
            change(&mut spec, "web", Action::Patch, Some(&other)).unwrap_err(),
            "the patch renames the component"
        );
        let bad = patch(json!({"replicas": "many"}));
        assert!(change(&mut spec, "web", Action::Patch, Some(&bad)).is_err());
    }
}
