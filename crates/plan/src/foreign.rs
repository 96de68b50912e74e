//! Kinds of other projects: for every CodecoApp and LowLevelOrchestration there is an App of the
//! same meaning, and their status says in their own words how it fares. Called by
//! `tombolo_controller::foreign`; start reading at [`plan`].

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use tombolo_descriptor::foreign::{self, Usage, charity, codeco};
use tombolo_descriptor::{Format, NoFiles, Reading, Severity, Source};
use tombolo_model::phrase::first_few_joined;
use tombolo_model::{App, Assignment, Node, Shared, Site, keys};

/// An error message that is longer than this is cut: it goes into a status.
const REFUSAL_CHARS_MAX: usize = 4096;
/// Notes that an Event names one by one; more are counted.
const NOTES_TOLD_MAX: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    CodecoApp,
    LowLevelOrchestration,
}

/// Everything that is looked at.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub objects: Vec<Foreign>,
    pub apps: Vec<Shared<App>>,
    pub assignments: Vec<Shared<Assignment>>,
    pub nodes: Vec<Shared<Node>>,
    pub sites: Vec<Shared<Site>>,
}

/// An object of another project's kind.
#[derive(Clone, Debug)]
pub struct Foreign {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The whole of it.
    pub object: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Index of the object in [`Observed::objects`].
    pub object: usize,
    pub verb: Verb,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Write these objects, in this order, in the namespace of the foreign one and owned by it: what
    /// was written before and is not in them goes.
    Write(Vec<Value>),
    /// Give an App that is there this spec, whatever else somebody wrote into it.
    Replace {
        app: String,
        uid: String,
        spec: Value,
    },
    Delete {
        app: String,
        uid: String,
    },
    Status(Value),
}

/// Decides what to write. Carrying it out and planning again gives nothing.
pub fn plan(observed: &Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    for (index, foreign) in observed.objects.iter().enumerate() {
        if foreign.object["metadata"]["deletionTimestamp"].is_string() {
            // Its Apps go with it, because it owns them.
            continue;
        }
        let decided = decide(foreign, observed);
        let action = |(verb, why)| Action { object: index, verb, why };
        actions.extend(decided.into_iter().map(action));
    }
    actions
}

fn decide(foreign: &Foreign, observed: &Observed) -> Vec<(Verb, String)> {
    let text = read_again(&foreign.object).to_string();
    let source = Source { name: &foreign.name, text: &text };
    let reading = tombolo_descriptor::read(source, Some(foreign.kind.format()), &NoFiles);
    if reading.has_errors() {
        return status(foreign, foreign.refused(&refusal(&reading))).into_iter().collect();
    }
    let wanted: Vec<App> = reading.apps.iter().map(|app| foreign.own(app)).collect();
    let there = |app: &App| {
        observed.apps.iter().find(|found| {
            found.metadata.name == app.metadata.name
                && found.metadata.namespace.as_deref() == Some(foreign.namespace.as_str())
        })
    };
    if let Some(stranger) = wanted.iter().filter_map(there).find(|app| !foreign.owns(app)) {
        let name = stranger.metadata.name.as_deref().unwrap_or_default();
        let why = format!("there is an App {name:?} already that was not made from this");
        return status(foreign, foreign.refused(&why)).into_iter().collect();
    }
    let mut decided = Vec::new();
    let is_stale = |app: &&App| there(app).is_none_or(|found| !says(found, app));
    let stale: Vec<&App> = wanted.iter().filter(is_stale).collect();
    // Writing leaves what others wrote into a spec; first, that goes.
    for (app, found) in stale.iter().filter_map(|app| Some((app, there(app)?))) {
        if found.spec == app.spec {
            continue;
        }
        let Ok(spec) = serde_json::to_value(&app.spec) else { continue };
        let (name, uid) = (found.metadata.name.clone(), found.metadata.uid.clone());
        let (app, uid) = (name.unwrap_or_default(), uid.unwrap_or_default());
        let why = format!("its spec is not what the {} says", foreign.kind.as_str());
        decided.push((Verb::Replace { app, uid, spec }, why));
    }
    if !stale.is_empty() {
        let others = reading.others.iter().map(|other| foreign.own_object(other));
        let apps = stale.iter().filter_map(|app| serde_json::to_value(app).ok());
        decided.push((Verb::Write(others.chain(apps).collect()), notes(&reading)));
    }
    let is_wanted = |app: &App| wanted.iter().any(|w| w.metadata.name == app.metadata.name);
    for app in observed.apps.iter().filter(|app| foreign.owns(app) && !is_wanted(app)) {
        let (name, uid) = (app.metadata.name.clone(), app.metadata.uid.clone());
        let verb = Verb::Delete { app: name.unwrap_or_default(), uid: uid.unwrap_or_default() };
        decided.push((verb, format!("{} no longer names it", foreign.kind.as_str())));
    }
    // Of an App that is only being written there is nothing to say yet.
    if stale.is_empty() {
        let apps: Vec<&App> = wanted.iter().filter_map(there).map(AsRef::as_ref).collect();
        decided.extend(status(foreign, foreign.status(&apps, observed)));
    }
    decided
}

/// The object without what the server and this loop wrote into it.
fn read_again(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut kept = serde_json::Map::new();
    for key in ["name", "namespace", "labels", "annotations"] {
        if !metadata[key].is_null() {
            kept.insert(key.to_owned(), metadata[key].clone());
        }
    }
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": kept, "spec": object["spec"],
    })
}

fn status(foreign: &Foreign, status: Value) -> Option<(Verb, String)> {
    let changed = foreign.object["status"] != status;
    changed.then(|| (Verb::Status(status), "what it says is old".to_owned()))
}

/// Whether an App says all that is wanted. Labels and annotations that somebody else gave it may stay;
/// those that were carried over and no longer are show in [`keys::ANNOTATION_MADE_OF`].
fn says(found: &App, wanted: &App) -> bool {
    let carries = |there: &Option<BTreeMap<String, String>>, wanted: &Option<_>| {
        let there = |key| there.as_ref().and_then(|there| there.get(key));
        let mut wanted = wanted.iter().flatten();
        wanted.all(|(key, value): (&String, &String)| there(key) == Some(value))
    };
    found.spec == wanted.spec
        && carries(&found.metadata.labels, &wanted.metadata.labels)
        && carries(&found.metadata.annotations, &wanted.metadata.annotations)
}

/// The file and line of a text that nobody has seen help nobody: the messages alone, and what was
/// expected.
fn refusal(reading: &Reading) -> String {
    let errors = reading.diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let messages: Vec<String> = errors
        .map(|found| {
            let place = match found.path.is_empty() {
                true => String::new(),
                false => format!("{}: ", found.path),
            };
            let expected = match &found.expected {
                Some(expected) => format!(", expected {expected}"),
                None => String::new(),
            };
            let meant = match &found.mend {
                Some(mend) if !mend.replacement.trim().is_empty() => {
                    format!(" (did you mean {:?}?)", mend.replacement.trim_matches('"'))
                }
                Some(_) | None => String::new(),
            };
            format!("{place}{}{expected}{meant}", found.message)
        })
        .collect();
    messages.join("; ").chars().take(REFUSAL_CHARS_MAX).collect()
}

fn notes(reading: &Reading) -> String {
    if reading.notes.is_empty() {
        return "an App was made of it".to_owned();
    }
    let notes = reading.notes.iter();
    let told = notes.map(|note| format!("{} {}: {}", note.kind.as_str(), note.path, note.message));
    format!("an App was made of it; {}", first_few_joined(told, NOTES_TOLD_MAX, "; ", "; and "))
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::CodecoApp, Kind::LowLevelOrchestration];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::CodecoApp => "CodecoApp",
            Kind::LowLevelOrchestration => "LowLevelOrchestration",
        }
    }

    pub fn group(self) -> &'static str {
        match self {
            Kind::CodecoApp => "codeco.he-codeco.eu",
            Kind::LowLevelOrchestration => "charity-project.eu",
        }
    }

    pub fn version(self) -> &'static str {
        match self {
            Kind::CodecoApp => "v1alpha1",
            Kind::LowLevelOrchestration => "v1",
        }
    }

    fn format(self) -> Format {
        match self {
            Kind::CodecoApp => Format::Codeco,
            Kind::LowLevelOrchestration => Format::CharityOrchestration,
        }
    }
}

impl Foreign {
    fn owns(&self, app: &App) -> bool {
        let owners = app.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == self.uid)
    }

    fn own(&self, app: &App) -> App {
        let mut app = app.clone();
        let made_of = self.made_of(&app);
        app.metadata.namespace = Some(self.namespace.clone());
        let annotations = app.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::ANNOTATION_MADE_OF.to_owned(), made_of);
        let owner = serde_json::from_value(self.owner());
        app.metadata.owner_references = owner.ok().map(|owner| vec![owner]);
        app
    }

    /// What an App was made of, so far as it does not show in the App: a spec whose Secrets may be
    /// other ones, labels that may be gone.
    fn made_of(&self, app: &App) -> String {
        let names = |map: &Option<BTreeMap<String, String>>| {
            let names: Vec<&str> = map.iter().flatten().map(|(key, _)| key.as_str()).collect();
            names.join(", ")
        };
        let generation = &self.object["metadata"]["generation"];
        let (labels, annotations) = (&app.metadata.labels, &app.metadata.annotations);
        format!(
            "generation {generation}; labels: {}; annotations: {}",
            names(labels),
            names(annotations)
        )
    }

    fn own_object(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!(self.namespace);
        object["metadata"]["ownerReferences"] = json!([self.owner()]);
        object
    }

    fn owner(&self) -> Value {
        json!({
            "apiVersion": format!("{}/{}", self.kind.group(), self.kind.version()),
            "kind": self.kind.as_str(), "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    fn status(&self, apps: &[&App], observed: &Observed) -> Value {
        let assignments: Vec<&Assignment> =
            observed.assignments.iter().map(AsRef::as_ref).collect();
        let nodes: Vec<&Node> = observed.nodes.iter().map(AsRef::as_ref).collect();
        let sites: Vec<&Site> = observed.sites.iter().map(AsRef::as_ref).collect();
        let observed = foreign::Observed {
            apps,
            assignments: &assignments,
            nodes: &nodes,
            sites: &sites,
            usage: &Usage::default(),
        };
        match self.kind {
            Kind::CodecoApp => codeco::status(&observed),
            Kind::LowLevelOrchestration => charity::status(&self.object, &observed),
        }
    }

    fn refused(&self, why: &str) -> Value {
        match self.kind {
            Kind::CodecoApp => codeco::refused(why),
            Kind::LowLevelOrchestration => charity::refused(why),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verb {
            Verb::Write(objects) => {
                let names = objects.iter().map(|object| {
                    let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    format!("{} {}", text(kind), text(name))
                });
                let names: Vec<String> = names.collect();
                write!(out, "write {}: {}", names.join(", "), self.why)
            }
            Verb::Replace { app, .. } => write!(out, "replace App {app}: {}", self.why),
            Verb::Delete { app, .. } => write!(out, "delete App {app}: {}", self.why),
            Verb::Status(_) => write!(out, "write the status: {}", self.why),
        }
    }
}

#[cfg(test)]
mod tests;
