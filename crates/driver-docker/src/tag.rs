//! What the engine keeps for us beside a container: labels that say whose it is, and names. It is
//! all that is needed to find everything again. No value of the environment and no file is in it.

use std::collections::HashMap;

use tombolo_driver::{InstanceId, Origin};

/// The label by which all that is ours is found.
pub(crate) const INSTANCE: &str = "tombolo.dev/instance";
const NAMESPACE: &str = "tombolo.dev/namespace";
const ASSIGNMENT: &str = "tombolo.dev/assignment";
const APP: &str = "tombolo.dev/app";
const COMPONENT: &str = "tombolo.dev/component";
const REPLICA: &str = "tombolo.dev/replica";
const PART: &str = "tombolo.dev/part";
const PARTS: &str = "tombolo.dev/parts";
const RUN: &str = "tombolo.dev/run";
const NOTES: &str = "tombolo.dev/notes";

/// How the name of a container ends that was asked to stop. A label cannot be changed any more; a
/// name can, and so the next agent knows that it was us who stopped it.
const STOPPING: &str = ".stopping";

/// Whose a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Nothing for what belongs to no instance: a volume that outlives them.
    pub(crate) id: Option<InstanceId>,
    pub(crate) origin: Origin,
    /// Its name within a compose project.
    pub(crate) part: Option<String>,
    /// All parts of the project, so that one whose container somebody removed is missed.
    pub(crate) parts: Vec<String>,
    /// How often the part was started before.
    pub(crate) run: u32,
    pub(crate) notes: Vec<String>,
}

impl Tag {
    pub(crate) fn labels(&self) -> HashMap<String, String> {
        let mut labels = HashMap::from([
            (NAMESPACE.to_owned(), self.origin.namespace.clone()),
            (APP.to_owned(), self.origin.app.clone()),
        ]);
        let Some(id) = &self.id else { return labels };
        let mut add = |name: &str, value: String| _ = labels.insert(name.to_owned(), value);
        add(INSTANCE, id.to_string());
        add(ASSIGNMENT, self.origin.assignment.clone());
        add(COMPONENT, self.origin.component.clone());
        add(REPLICA, self.origin.replica.to_string());
        add(RUN, self.run.to_string());
        if let Some(part) = &self.part {
            add(PART, part.clone());
            add(PARTS, self.parts.join(","));
        }
        if !self.notes.is_empty() {
            add(NOTES, self.notes.join("\n"));
        }
        labels
    }

    /// Nothing if the labels are not ours. Whoever may write labels may write nonsense.
    pub(crate) fn read(labels: &HashMap<String, String>) -> Option<Tag> {
        let text = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let list = |name: &str, by: char| {
            let text = labels.get(name).map(String::as_str).unwrap_or_default();
            text.split(by).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        Some(Tag {
            id: Some(labels.get(INSTANCE)?.parse().ok()?),
            origin: Origin {
                namespace: text(NAMESPACE),
                assignment: text(ASSIGNMENT),
                app: text(APP),
                component: text(COMPONENT),
                replica: text(REPLICA).parse().unwrap_or_default(),
            },
            part: labels.get(PART).cloned(),
            parts: list(PARTS, ','),
            run: text(RUN).parse().unwrap_or_default(),
            notes: list(NOTES, '\n'),
        })
    }

    /// The name of its container: no two runs share one.
    pub(crate) fn name(&self) -> String {
        let id = self.id.as_ref().map(InstanceId::to_string).unwrap_or_default();
        let part = self.part.as_ref().map(|part| format!(".{part}")).unwrap_or_default();
        format!("tombolo.{id}{part}.{}", self.run)
    }
}

pub(crate) fn stopping_name(name: &str) -> String {
    format!("{}{STOPPING}", name.trim_start_matches('/'))
}

pub(crate) fn is_stopping(name: &str) -> bool {
    name.ends_with(STOPPING)
}

/// What the engine calls a volume: volumes of one App with one name are one.
pub(crate) fn volume_name(origin: &Origin, volume: &str) -> String {
    format!("tombolo.{}.{}.{volume}", origin.namespace, origin.app)
}

/// The filter that finds what is ours, or what is of one instance.
pub(crate) fn filter(id: Option<&InstanceId>) -> HashMap<String, Vec<String>> {
    let label = match id {
        Some(id) => format!("{INSTANCE}={id}"),
        None => INSTANCE.to_owned(),
    };
    HashMap::from([("label".to_owned(), vec![label])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        let tag = Tag {
            id: Some("u-1.2a".parse().unwrap()),
            origin: Origin {
                namespace: "default".to_owned(),
                assignment: "shop-web-0".to_owned(),
                app: "shop".to_owned(),
                component: "web".to_owned(),
                replica: 3,
            },
            part: Some("db".to_owned()),
            parts: vec!["db".to_owned(), "web".to_owned()],
            run: 7,
            notes: vec!["one".to_owned(), "two, and more".to_owned()],
        };
        assert_eq!(Tag::read(&tag.labels()), Some(tag.clone()));
        assert_eq!(tag.name(), "tombolo.u-1.2a.db.7");
        assert!(is_stopping(&stopping_name("/tombolo.u-1.2a.db.7")));
    }

    #[test]
    fn labels_of_others_are_no_tag() {
        assert_eq!(Tag::read(&HashMap::new()), None);
        let odd = HashMap::from([(INSTANCE.to_owned(), "../x".to_owned())]);
        assert_eq!(Tag::read(&odd), None);
    }
}
