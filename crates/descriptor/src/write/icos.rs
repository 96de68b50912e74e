//! An App as an ICOS descriptor: the header, and the manifests of each component in the list below
//! it. A container is written as the Kubernetes objects that run it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tombolo_model::app::{AppPolicy, Weights};
use tombolo_model::component::{Component, Expose, Protocol};
use tombolo_model::needs::Needs;
use tombolo_model::policy::{Check, Properties, Remediation};
use tombolo_model::quantity::Level;
use tombolo_model::{App, AppSpec};

use super::emit::{self, Style};
use super::unsaid::{self, Unsaid};
use super::{Written, kubernetes, put};

const NAME: &str = "ICOS";

pub(super) fn write(app: &App) -> Written {
    let mut rest = app.clone();
    rest.status = None;
    let mut header = Map::new();
    put(&mut header, "name", app.metadata.name.clone());
    put(&mut header, "namespace", rest.metadata.namespace.take());
    put(&mut header, "description", rest.spec.description.take());
    put(&mut header, "homogeneous", std::mem::take(&mut rest.spec.homogeneous).then_some(true));
    let mut writer =
        Writer { app, manifests: Vec::new(), notes: Vec::new(), written: BTreeSet::new() };
    let mut components = Vec::new();
    for (index, component) in rest.spec.components.iter_mut().enumerate() {
        components.extend(writer.component(index, component));
    }
    header.insert("components".into(), components.into());
    let dependencies = writer.dependencies(&mut rest.spec);
    put(&mut header, "dependencies", (!dependencies.is_empty()).then_some(dependencies));
    let policies = writer.policies(&mut rest.spec);
    put(&mut header, "policies", (!policies.is_empty()).then_some(policies));
    header.insert("manifests".into(), writer.manifests.into());
    let mut notes = writer.notes;
    notes.extend(unsaid::notes(&rest, NAME));
    Written { text: emit::document(&header.into(), Style::Block), notes }
}

struct Writer<'a> {
    app: &'a App,
    manifests: Vec<Value>,
    notes: Vec<Unsaid>,
    /// The components that are in the descriptor.
    written: BTreeSet<String>,
}

impl Writer<'_> {
    /// Nothing for a component that ICOS cannot run.
    fn component(&mut self, index: usize, rest: &mut Component) -> Option<Value> {
        let original = &self.app.spec.components[index];
        let name = original.name.clone();
        let mut entry = Map::new();
        entry.insert("name".into(), name.clone().into());
        let requirements = requirements(rest);
        let mut used = Vec::new();
        let (mut objects, mut projects) = (false, false);
        for run in &mut rest.run {
            let manifests = std::mem::take(&mut run.manifests);
            let exposed = services(&manifests);
            for expose in rest.expose.iter_mut().filter(|expose| exposed.contains(expose)) {
                *expose = Expose::default();
            }
            for manifest in manifests {
                objects = true;
                used.push(self.manifest(&name, manifest));
            }
            if let Some(project) = run.compose.take() {
                projects = true;
                used.push(self.manifest(&name, project));
            }
        }
        if used.is_empty() {
            let (made, notes) = kubernetes::objects(self.app, index, rest);
            self.notes.extend(notes);
            for manifest in made {
                objects = true;
                used.push(self.manifest(&name, manifest));
            }
        }
        if used.is_empty() {
            // Nothing of it is said, so nothing of it is taken.
            rest.clone_from(original);
            return None;
        }
        let kind = match (objects, projects) {
            (true, true) => "multiple",
            (false, true) => "docker",
            (_, false) => "kubernetes",
        };
        entry.insert("type".into(), kind.into());
        let used: Vec<Value> = used.into_iter().map(|name| json!({"name": name})).collect();
        entry.insert("manifests".into(), used.into());
        put(&mut entry, "requirements", requirements);
        self.floor(index, &name, rest, &mut entry);
        rest.name.clear();
        self.written.insert(name);
        Some(entry.into())
    }

    /// Puts a manifest into the list under a name of its own.
    fn manifest(&mut self, component: &str, manifest: Value) -> String {
        let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or("compose").to_lowercase();
        let taken = |name: &str| self.manifests.iter().any(|known| known["name"] == name);
        let mut name = format!("{component}-{kind}");
        let mut number = 2;
        while taken(&name) {
            name = format!("{component}-{kind}-{number}");
            number += 1;
        }
        self.manifests.push(json!({"name": name, "manifest": manifest}));
        name
    }

    /// A level of security that no policy of the App asks for is asked for by one of the
    /// component's.
    fn floor(
        &mut self,
        index: usize,
        name: &String,
        rest: &mut Component,
        entry: &mut Map<String, Value>,
    ) {
        let Some(needs) = &mut rest.needs else { return };
        let Some(level) = needs.security.take() else { return };
        let covers =
            |policy: &&AppPolicy| policy.components.is_empty() || policy.components.contains(name);
        let policies = self.app.spec.policies.iter().filter(covers).filter(|one| is_sayable(one));
        let asked: Option<Level> = policies.filter_map(|policy| policy.condition.security).max();
        if asked < Some(level) {
            entry.insert("policies".into(), json!([{"security": level.to_string()}]));
            self.notes.push(Unsaid {
                path: format!("spec.components[{index}].needs.security"),
                message: "written as a policy, which also redeploys when it is violated".to_owned(),
            });
        }
        if *needs == Needs::default() {
            rest.needs = None;
        }
    }

    fn dependencies(&self, rest: &mut AppSpec) -> Vec<Value> {
        let mut list: Vec<Value> = Vec::new();
        for (component, left) in self.app.spec.components.iter().zip(&mut rest.components) {
            if !self.written.contains(&component.name) {
                continue;
            }
            for (connection, left) in component.connects.iter().zip(&mut left.connects) {
                if connection.app.is_some() || !self.written.contains(&connection.to) {
                    continue;
                }
                left.to.clear();
                let link = json!({"consumer": component.name, "producer": connection.to});
                if !list.contains(&link) {
                    list.push(link);
                }
            }
        }
        list
    }

    fn policies(&self, rest: &mut AppSpec) -> Vec<Value> {
        let mut list = Vec::new();
        if let Some(Value::Object(mut scheduler)) = rest.weights.take().map(weights) {
            scheduler.insert("type".into(), "scheduler".into());
            list.push(scheduler.into());
        }
        for policy in &mut rest.policies {
            let names = &policy.components;
            if is_sayable(policy) && names.iter().all(|name| self.written.contains(name)) {
                list.push(policy_entry(policy));
            }
        }
        list
    }
}

/// A policy that is not watched would be watched there, and one that is built in or scales has no words.
fn is_sayable(policy: &AppPolicy) -> bool {
    let condition = &policy.condition;
    let keeps = condition.properties.as_ref().and_then(|said| said.keep_firing_for);
    let bare = Check {
        expr: None,
        violated_if: None,
        thresholds: None,
        template: None,
        security: None,
        variables: BTreeMap::new(),
        properties: None,
        ..condition.clone()
    };
    !policy.suspended && policy.scaling.is_none() && bare.is_empty() && keeps.is_none()
}

fn weights(weights: Weights) -> Value {
    serde_json::to_value(weights).unwrap_or_default()
}

/// Writes a policy and takes out of it what was written.
fn policy_entry(policy: &mut AppPolicy) -> Value {
    let mut entry = Map::new();
    entry.insert("name".into(), std::mem::take(&mut policy.name).into());
    let components = std::mem::take(&mut policy.components);
    put(&mut entry, "apply-to", (!components.is_empty()).then_some(components));
    let condition = std::mem::take(&mut policy.condition);
    let action = policy.remediation.as_ref().map(|remediation| remediation.action.as_str());
    if let Some(remediation) = policy.remediation.take() {
        let bare = Remediation { action: remediation.action, ..Remediation::default() };
        policy.remediation = (remediation != bare).then_some(remediation);
    }
    match condition.security {
        Some(level) => {
            entry.insert("type".into(), "security".into());
            entry.insert("threshold".into(), level.score().into());
            // Without a word ICOS would redeploy.
            entry.insert("remediation_action".into(), action.unwrap_or("none").into());
        }
        None => {
            entry.insert("type".into(), "custom".into());
            put(&mut entry, "remediation", action);
            custom(condition, &mut entry);
        }
    }
    entry.into()
}

fn custom(condition: Check, entry: &mut Map<String, Value>) {
    put(entry, "fromTemplate", condition.template);
    let mut spec = Map::new();
    put(&mut spec, "expr", condition.expr);
    put(&mut spec, "violatedIf", condition.violated_if);
    let thresholds = condition.thresholds.and_then(|all| serde_json::to_value(all).ok());
    put(&mut spec, "thresholds", thresholds);
    put(entry, "spec", (!spec.is_empty()).then_some(spec));
    let variables = condition.variables;
    put(entry, "variables", (!variables.is_empty()).then(|| json!(variables)));
    let properties =
        condition.properties.map(|Properties { one_off, interval, pending_interval, .. }| {
            let mut properties = Map::new();
            put(&mut properties, "oneoff", one_off.then_some(true));
            put(&mut properties, "interval", interval.map(|time| time.to_string()));
            put(&mut properties, "pendingInterval", pending_interval.map(|time| time.to_string()));
            Value::Object(properties)
        });
    put(entry, "properties", properties);
}

fn requirements(rest: &mut Component) -> Option<Value> {
    let mut map = Map::new();
    let mut label = None;
    if let Some(needs) = &mut rest.needs {
        put(&mut map, "cpu", needs.cpu.take().map(|cpu| cpu.to_string()));
        put(&mut map, "memory", needs.memory.take().map(|memory| memory.to_string()));
        let arch = std::mem::take(&mut needs.arch);
        let names: Vec<&str> = arch.iter().map(|arch| arch.name()).collect();
        let arch = match names.as_slice() {
            [] => None,
            [only] => Some(json!(only)),
            several => Some(json!(several)),
        };
        put(&mut map, "architecture", arch);
        let devices = std::mem::take(&mut needs.devices);
        put(&mut map, "devices", (!devices.is_empty()).then_some(devices));
        if needs.labels.len() == 1 && rest.on_each.is_none() {
            label = needs.labels.pop_first().map(|(key, value)| (key, vec![value]));
        }
        if *needs == Needs::default() {
            rest.needs = None;
        }
    }
    if let Some(each) = rest.on_each.take_if(|each| each.values.len() > 1) {
        label = Some((each.label, each.values));
    }
    put(&mut map, "nodelabel", label.map(|(key, values)| json!({"key": key, "values": values})));
    (!map.is_empty()).then_some(map.into())
}

/// The ports that the Services among the manifests open.
fn services(manifests: &[Value]) -> Vec<Expose> {
    let services = manifests.iter().filter(|manifest| manifest["kind"] == "Service");
    let ports = services.flat_map(|service| {
        let public = matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"));
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        ports.map(move |port| (public, port))
    });
    let number = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    let expose = |(public, port): (bool, &Value)| {
        let name = port["name"].as_str().map(str::to_owned);
        let protocol = match port["protocol"].as_str() {
            Some("UDP") => Protocol::Udp,
            Some(_) | None => Protocol::Tcp,
        };
        let published = number(&port["nodePort"]).filter(|_| public);
        let port = number(&port["targetPort"]).or_else(|| number(&port["port"]))?;
        Some(Expose { port, protocol, name, public, published })
    };
    ports.filter_map(expose).collect()
}
