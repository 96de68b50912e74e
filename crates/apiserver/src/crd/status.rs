//! The status of a definition: whether its names are free, and whether it is served.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kinds::Kind;

use super::{list, text, texts};

/// Whether the kinds of a stored definition are served.
pub fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// The status that `crd` gets at `now` (RFC 3339), while `others` are served. Kinds of the
/// definition itself may be among them. A condition that does not change keeps its time, and
/// versions once stored stay in the list.
pub fn established_status(crd: &Value, others: &[Arc<Kind>], now: &str) -> Value {
    let conflicts = conflicts(crd, others);
    let mut accepted = crd["spec"]["names"].clone();
    if let Some(names) = accepted.as_object_mut() {
        conflicts.iter().for_each(|conflict| conflict.take_from(names));
    }
    let names = match conflicts.first() {
        None => Condition {
            name: "NamesAccepted",
            status: "True",
            reason: "NoConflicts",
            message: "no conflicts found".to_owned(),
        },
        Some(conflict) => Condition {
            name: "NamesAccepted",
            status: "False",
            reason: conflict.reason(),
            message: conflict.message(),
        },
    };
    let established = match conflicts.is_empty() {
        true => Condition {
            name: "Established",
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the names are accepted and the kind is served".to_owned(),
        },
        false => Condition {
            name: "Established",
            status: "False",
            reason: "NotAccepted",
            message: "not all names are accepted".to_owned(),
        },
    };
    // What others say of the definition stays.
    let ours = [names.name, established.name];
    let theirs = list(&crd["status"]["conditions"])
        .iter()
        .filter(|condition| !ours.iter().any(|name| condition["type"] == *name));
    let theirs: Vec<Value> = theirs.cloned().collect();
    let conditions = [names.at(crd, now), established.at(crd, now)].into_iter().chain(theirs);
    json!({
        "acceptedNames": accepted,
        "conditions": conditions.collect::<Vec<_>>(),
        "storedVersions": stored_versions(crd),
    })
}

/// A wanted name that another kind of the group has.
struct Conflict<'a> {
    /// The field of `spec.names`.
    field: &'static str,
    name: String,
    holder: &'a Kind,
}

impl Conflict<'_> {
    fn reason(&self) -> &'static str {
        match self.field {
            "plural" => "PluralConflict",
            "singular" => "SingularConflict",
            "shortNames" => "ShortNamesConflict",
            "kind" => "KindConflict",
            _ => "ListKindConflict",
        }
    }

    fn message(&self) -> String {
        format!(
            "{:?} ({}) is already in use by {} of the same group",
            self.name, self.field, self.holder.plural
        )
    }

    fn take_from(&self, names: &mut Map<String, Value>) {
        match names.get_mut(self.field) {
            Some(Value::Array(entries)) => entries.retain(|entry| *entry != self.name.as_str()),
            Some(_) => {
                names.remove(self.field);
            }
            None => (),
        }
    }
}

fn conflicts<'a>(crd: &Value, others: &'a [Arc<Kind>]) -> Vec<Conflict<'a>> {
    let (group, wanted) = (text(&crd["spec"], "group"), &crd["spec"]["names"]);
    let plural = text(wanted, "plural");
    let holders = |takes: &dyn Fn(&Kind) -> bool| {
        others
            .iter()
            .map(|kind| &**kind)
            .find(|kind| kind.group == group && kind.plural != plural && takes(kind))
    };
    let mut found = Vec::new();
    let mut look = |field: &'static str, name: &str| {
        let takes = |kind: &Kind| match field {
            "kind" | "listKind" => kind.kind == name || kind.list_kind == name,
            _ => {
                kind.plural == name
                    || kind.singular == name
                    || kind.short_names.iter().any(|short| short == name)
            }
        };
        if let Some(holder) = holders(&takes) {
            found.push(Conflict { field, name: name.to_owned(), holder });
        }
    };
    for field in ["plural", "singular", "kind", "listKind"] {
        look(field, text(wanted, field));
    }
    for name in texts(&wanted["shortNames"]) {
        look("shortNames", &name);
    }
    found
}

struct Condition {
    name: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn at(self, crd: &Value, now: &str) -> Value {
        let since = list(&crd["status"]["conditions"])
            .iter()
            .find(|before| before["type"] == self.name && before["status"] == self.status)
            .and_then(|before| before["lastTransitionTime"].as_str())
            .unwrap_or(now);
        json!({
            "type": self.name,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since,
        })
    }
}

fn stored_versions(crd: &Value) -> Vec<String> {
    let mut stored = texts(&crd["status"]["storedVersions"]);
    let storage = list(&crd["spec"]["versions"]).iter().find(|version| version["storage"] == true);
    if let Some(storage) = storage.map(|version| text(version, "name").to_owned())
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
    stored
}
