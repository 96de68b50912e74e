//! The policies of a descriptor: security floors, weights of the scheduler, and rules of the user.
//! A floor counts when a place is chosen (it becomes a need) and while the application runs (it
//! becomes a policy of the App).

use tombolo_model::Level;
use tombolo_model::app::{AppPolicy, AppSpec, Weights};
use tombolo_model::policy::{Action, Check, Remediation};

use super::ENTRIES_MAX;
use super::component::Read;
use super::condition::{read_properties, read_spec, read_variables};
use crate::NoteKind;
use crate::fields::{Field, Fields, Rest};
use crate::path::shown;
use crate::reader::Reader;

const WEIGHTS: &[&str] = &[
    "performance",
    "energy",
    "energyconsumption",
    "energyConsumption",
    "security",
    "cost",
    "resilience",
    "latency",
];

const CUSTOM: &[&str] = &[
    "name",
    "type",
    "fromTemplate",
    "spec",
    "variables",
    "properties",
    "remediation",
    "apply-to",
    "component",
];

/// The thresholds of `node-resource-usage`, and the templates that watch them with their variable.
const NODE_USE: &[(&str, &str, &str)] = &[
    ("cpu_threshold_perc", "app-host-cpu-usage-perc", "maxCpu"),
    ("memory_threshold_perc", "app-host-memory-usage-perc", "maxMemory"),
    ("memory_threshold", "app-host-memory-avail-bytes", "minMemory"),
];

/// Policies in one list, and in all of them; an App has as many at most.
const POLICIES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Security,
    Scheduler,
    Custom,
    /// How much of its node is in use.
    NodeUse,
    /// Nothing is heard of it any more.
    LostTelemetry,
}

impl Type {
    fn word(self) -> &'static str {
        match self {
            Type::Security => "security",
            Type::Scheduler => "scheduler",
            Type::Custom => "custom",
            Type::NodeUse => "node-resource-usage",
            Type::LostTelemetry => "lost-telemetry",
        }
    }
}

/// All that the policies of one descriptor come to.
pub(super) struct Policies {
    /// Names as written and as they are in the App.
    components: Vec<(String, String)>,
    list: Vec<AppPolicy>,
    weights: Option<Weights>,
    /// Floors, each for some components or, with an empty list, for all.
    floors: Vec<(Vec<String>, Level)>,
}

impl Policies {
    pub(super) fn new(components: &[Read<'_>]) -> Policies {
        let names =
            components.iter().map(|read| (read.written.to_owned(), read.component.name.clone()));
        Policies {
            components: names.collect(),
            list: Vec::new(),
            weights: None,
            floors: Vec::new(),
        }
    }

    /// Reads a list of policies: a component's, or the application's.
    pub(super) fn read(
        &mut self,
        field: &Field<'_>,
        component: Option<&str>,
        reader: &mut Reader<'_>,
    ) {
        let entries = field.at_most(field.list_or_mapping(reader), POLICIES_MAX, reader);
        for entry in entries {
            self.read_one(&entry, component, reader);
        }
    }

    /// Puts them into the App.
    pub(super) fn apply(self, spec: &mut AppSpec) {
        for component in &mut spec.components {
            let here = self
                .floors
                .iter()
                .filter(|(names, _)| names.is_empty() || names.contains(&component.name));
            let Some(floor) = here.map(|(_, level)| *level).max() else { continue };
            let needs = component.needs.get_or_insert_default();
            needs.security = needs.security.max(Some(floor));
        }
        spec.weights = self.weights;
        spec.policies = self.list;
    }

    fn read_one(&mut self, entry: &Field<'_>, component: Option<&str>, reader: &mut Reader<'_>) {
        let Some(mut fields) = entry.fields(reader) else { return };
        let stated = fields.take("type");
        let words = [
            ("security", Type::Security),
            ("scheduler", Type::Scheduler),
            ("user-preference", Type::Scheduler),
            ("custom", Type::Custom),
            ("node-resource-usage", Type::NodeUse),
            ("redeployOnLostTelemetry", Type::LostTelemetry),
        ];
        let read = match &stated {
            // ICOS passes over types that it does not know, and so may newer files of it.
            Some(field) if !words.iter().any(|(word, _)| is_word(field, word)) => {
                unknown_type(field, entry, words.map(|(word, _)| word).as_slice(), reader);
                return;
            }
            Some(field) => field.one_of(reader, &words),
            None => guess(&fields).or_else(|| {
                entry
                    .error(reader, "missing-field", "the type of this policy is missing")
                    .expecting("type: security, scheduler or custom");
                None
            }),
        };
        let Some(kind) = read else { return };
        if kind != Type::Scheduler && self.list.len() >= POLICIES_MAX {
            let message = format!("an App has {POLICIES_MAX} policies at most");
            entry.error(reader, "too-many", message);
            return;
        }
        if let Some(field) = &stated {
            field.changed(reader, "what the policy asks for shows its type");
        }
        let name = fields.take("name");
        let targets = match self.targets(&mut fields, component, reader) {
            Ok(targets) => targets,
            Err(Nobody) => return,
        };
        match kind {
            Type::Security => self.security(fields, name, targets, reader),
            Type::Scheduler => self.scheduler(fields, name, &targets, entry, reader),
            Type::Custom => self.custom(fields, name, targets, reader),
            Type::NodeUse => self.node_use(fields, name, targets, entry, reader),
            Type::LostTelemetry => lost_telemetry(fields, name, entry, reader),
        }
    }

    /// The load of its node, by the templates of ICOS' policy manager.
    fn node_use(
        &mut self,
        mut fields: Fields<'_>,
        name: Option<Field<'_>>,
        targets: Vec<String>,
        entry: &Field<'_>,
        reader: &mut Reader<'_>,
    ) {
        let excluded = fields.take("exclude_app_resources");
        let without_own = excluded.as_ref().and_then(|field| field.boolean(reader));
        let ending = if without_own == Some(true) { "-excl" } else { "" };
        let action = fields.take_any(&["remediation", "remediation_action"]);
        let action = match action {
            Some(field) => read_action(&field, reader),
            None => Some(Action::Redeploy),
        };
        let mut any = false;
        for (key, template, variable) in NODE_USE {
            let Some(field) = fields.take(key) else { continue };
            any = true;
            let value = match *variable {
                "minMemory" => field.bytes(reader).map(|bytes| serde_json::json!(bytes.get())),
                _ => field.number(reader).map(|number| serde_json::json!(number)),
            };
            let Some(value) = value else { continue };
            let mut condition =
                Check { template: Some(format!("{template}{ending}")), ..Check::default() };
            condition.variables.insert((*variable).to_owned(), value);
            let place = format!("spec.policies[{}]", self.list.len());
            field.origin(reader, format!("{place}.condition"));
            reader.origin(place, entry.node.span);
            self.add(Type::NodeUse, name.clone(), targets.clone(), condition, action, reader);
        }
        if !any {
            fields.missing(reader, "cpu_threshold_perc", "a threshold of processor or memory");
        }
        let known: Vec<&str> = NODE_USE.iter().map(|(key, _, _)| *key).collect();
        let more = ["name", "type", "exclude_app_resources", "remediation", "apply-to"];
        let known: Vec<&str> = known.into_iter().chain(more).collect();
        fields.finish(Rest::Foreign { known: &known, dropped: &[] }, reader);
    }

    /// The components that a policy is for; empty for all.
    fn targets(
        &self,
        fields: &mut Fields<'_>,
        component: Option<&str>,
        reader: &mut Reader<'_>,
    ) -> Result<Vec<String>, Nobody> {
        let named = fields.take_any(&["apply-to", "apply_to", "applyTo", "component"]);
        let Some(named) = named else {
            return Ok(component.map(str::to_owned).into_iter().collect());
        };
        let mut targets = Vec::new();
        for field in named.at_most(named.list_or_one(reader), ENTRIES_MAX, reader) {
            let Some(name) = field.str(reader) else { continue };
            if name == "*" {
                field.changed(reader, "for all components, which an App says by naming none");
                return Ok(Vec::new());
            }
            let known = self.components.iter().find(|(written, _)| written == name);
            if let Some((_, name)) = known {
                targets.push(name.clone());
                continue;
            }
            let names = || self.components.iter().map(|(written, _)| written.as_str());
            let message = format!("no component is named {}", shown(name));
            let diagnostic = field.warning(reader, "unknown-component", message);
            diagnostic.expecting(tombolo_model::suggest::one_of(names().take(16)));
            diagnostic.mended_by_nearest(field.node.span, name, names());
        }
        if targets.is_empty() {
            let why = "none of the components that the policy is for is there";
            reader.note(NoteKind::Dropped, fields.path(), named.key_span, why);
            return Err(Nobody);
        }
        Ok(targets)
    }

    fn security(
        &mut self,
        mut fields: Fields<'_>,
        name: Option<Field<'_>>,
        targets: Vec<String>,
        reader: &mut Reader<'_>,
    ) {
        let level = fields.take_any(&["level", "threshold", "security"]);
        let action = match fields.take_any(&["remediation_action", "remediation"]) {
            Some(field) => read_action(&field, reader),
            None => Some(Action::Redeploy),
        };
        if level.is_none() {
            fields.missing(reader, "level", "low, medium, high, or a threshold from 0 to 100");
        }
        let known = &["name", "type", "level", "threshold", "remediation_action", "apply-to"];
        fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
        let Some(level) = level.and_then(|field| field.level(reader)) else { return };
        self.floors.push((targets.clone(), level));
        let condition = Check { security: Some(level), ..Check::default() };
        self.add(Type::Security, name, targets, condition, action, reader);
    }

    fn scheduler(
        &mut self,
        mut fields: Fields<'_>,
        name: Option<Field<'_>>,
        targets: &[String],
        entry: &Field<'_>,
        reader: &mut Reader<'_>,
    ) {
        if let Some(name) = name {
            name.dropped(reader, "weights have no name in an App");
        }
        if self.weights.is_some() {
            entry.dropped(reader, "the application has weights already; the first ones count");
            return;
        }
        let mut weights = Weights::default();
        for key in WEIGHTS {
            let Some(field) = fields.take(key) else { continue };
            field.origin(reader, "spec.weights");
            if let Some(value) = field.number(reader) {
                super::set_weight(&mut weights, key, value);
            }
        }
        fields.finish(Rest::Foreign { known: WEIGHTS, dropped: &[] }, reader);
        if !targets.is_empty() {
            entry.changed(reader, "the weights count for the whole application");
        }
        self.weights = Some(weights);
    }

    fn custom(
        &mut self,
        mut fields: Fields<'_>,
        name: Option<Field<'_>>,
        targets: Vec<String>,
        reader: &mut Reader<'_>,
    ) {
        let mut condition = Check::default();
        let place = format!("spec.policies[{}]", self.list.len());
        reader.origin(place.clone(), fields.span());
        if let Some(field) = fields.take("fromTemplate") {
            condition.template = field.text(reader);
            field.origin(reader, format!("{place}.condition.template"));
        }
        if let Some(field) = fields.take("spec") {
            read_spec(&field, &mut condition, &place, reader);
        }
        if let Some(field) = fields.take("variables") {
            condition.variables = read_variables(&field, reader);
        }
        if let Some(field) = fields.take("properties") {
            condition.properties = read_properties(&field, reader);
        }
        let remediation = fields.take_any(&["remediation", "remediation_action"]);
        let action = remediation.and_then(|field| read_action(&field, reader));
        if condition.template.is_none() && condition.expr.is_none() {
            fields.missing(reader, "fromTemplate", "fromTemplate, or spec with expr");
        }
        fields.finish(Rest::Foreign { known: CUSTOM, dropped: &[] }, reader);
        self.add(Type::Custom, name, targets, condition, action, reader);
    }

    fn add(
        &mut self,
        kind: Type,
        name: Option<Field<'_>>,
        components: Vec<String>,
        condition: Check,
        action: Option<Action>,
        reader: &mut Reader<'_>,
    ) {
        let wanted = match &name {
            Some(field) => field.label(reader),
            None => None,
        };
        let made = match components.as_slice() {
            [component] => format!("{component}-{}", kind.word()),
            _ => kind.word().to_owned(),
        };
        let wanted = wanted.unwrap_or_else(|| crate::reader::dashed(&made));
        let unique = self.unique(&wanted);
        if let (Some(field), true) = (&name, unique != wanted) {
            field.changed(reader, &format!("named {unique:?}: another policy has this name"));
        }
        let remediation = action.map(|action| Remediation { action, ..Remediation::default() });
        self.list.push(AppPolicy {
            name: unique,
            components,
            condition,
            remediation,
            ..AppPolicy::default()
        });
    }

    fn unique(&self, wanted: &str) -> String {
        let is_free = |name: &str| self.list.iter().all(|policy| policy.name != name);
        if is_free(wanted) {
            return wanted.to_owned();
        }
        let mut number = 2;
        loop {
            let name = format!("{wanted}-{number}");
            if is_free(&name) {
                return name;
            }
            number += 1;
        }
    }
}

fn is_word(field: &Field<'_>, word: &str) -> bool {
    field.node.as_str().is_some_and(|found| found.eq_ignore_ascii_case(word))
}

/// A policy of a type that we do not know is passed over, as ICOS does it, and that is told.
fn unknown_type(field: &Field<'_>, entry: &Field<'_>, words: &[&str], reader: &mut Reader<'_>) {
    let found = field.str(reader).unwrap_or_default();
    let message = format!("there is no policy of the type {}", shown(found));
    let diagnostic = field.warning(reader, "unknown-word", message);
    diagnostic.expecting(tombolo_model::suggest::one_of(words.iter().copied()));
    diagnostic.mended_by_nearest(field.node.span, found, words.iter().copied());
    entry.dropped(reader, "no policy of this type is known");
}

/// An instance of which nothing is heard is the business of the rule `disconnect`.
fn lost_telemetry(
    mut fields: Fields<'_>,
    name: Option<Field<'_>>,
    entry: &Field<'_>,
    reader: &mut Reader<'_>,
) {
    for field in [name, fields.take("timeout"), fields.take("redeployOnLostTelemetry")] {
        let Some(field) = field else { continue };
        field.dropped(reader, "how long a node may be silent is its lease");
    }
    entry.changed(reader, "what happens when a node falls silent is the App's rule disconnect");
    let known = &["name", "type", "timeout", "redeployOnLostTelemetry", "apply-to"];
    fields.finish(Rest::Foreign { known, dropped: &[] }, reader);
}

/// A policy whose components are not there.
struct Nobody;

/// The type of a policy in short form, or of one that leaves its type out.
fn guess(fields: &Fields<'_>) -> Option<Type> {
    let has = |key: &str| fields.peek(key).is_some();
    if has("fromTemplate") || has("spec") {
        return Some(Type::Custom);
    }
    if has("redeployOnLostTelemetry") {
        return Some(Type::LostTelemetry);
    }
    if NODE_USE.iter().any(|(key, _, _)| has(key)) {
        return Some(Type::NodeUse);
    }
    if has("level") || has("threshold") {
        return Some(Type::Security);
    }
    let weights = WEIGHTS.iter().filter(|key| has(key)).count();
    match (weights, has("security")) {
        (1, true) => Some(Type::Security),
        (0, _) => None,
        (_, _) => Some(Type::Scheduler),
    }
}

fn read_action(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<Action> {
    let words: Vec<(&str, Action)> =
        Action::ALL.iter().map(|action| (action.as_str(), *action)).collect();
    field.one_of(reader, &words)
}
