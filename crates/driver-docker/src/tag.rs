//! What the engine keeps for us beside a container: labels that say whose it is, and names. It is
//! all that is needed to find everything again. No value of the environment and no file is in it.

use std::collections::HashMap;

use tombolo_driver::{InstanceId, Origin};

use crate::compose::DEFAULT_NETWORK;

/// The label by which all that is ours is found, together with [`AGENT`].
const INSTANCE: &str = "tombolo.dev/instance";
/// Whose it is: what other agents run on the same engine is none of our business.
const AGENT: &str = "tombolo.dev/agent";
const NAMESPACE: &str = "tombolo.dev/namespace";
const ASSIGNMENT: &str = "tombolo.dev/assignment";
const APP: &str = "tombolo.dev/app";
const COMPONENT: &str = "tombolo.dev/component";
const REPLICA: &str = "tombolo.dev/replica";
const PART: &str = "tombolo.dev/part";
const PARTS: &str = "tombolo.dev/parts";
const RUN: &str = "tombolo.dev/run";
const ONCE: &str = "tombolo.dev/once";
const NOTES: &str = "tombolo.dev/notes";

/// How the name of a container ends that was asked to stop, before the time in milliseconds at which
/// it is to be killed. A label cannot be changed any more; a name can, and so the next agent knows
/// that it was us who stopped it, and when its grace is over.
const STOPPING: &str = ".stopping-";

/// Whose a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) agent: String,
    /// Nothing for what belongs to no instance: a volume or a network that outlives them.
    pub(crate) id: Option<InstanceId>,
    pub(crate) origin: Origin,
    /// Its name within a compose project.
    pub(crate) part: Option<String>,
    /// All parts of the project, so that a part is missed whose container somebody has removed.
    pub(crate) parts: Vec<String>,
    /// How often the part was started before.
    pub(crate) run: u32,
    /// It may end well without being started again.
    pub(crate) once: bool,
    pub(crate) notes: Vec<String>,
}

impl Tag {
    pub(crate) fn labels(&self) -> HashMap<String, String> {
        let mut labels = HashMap::from([
            (AGENT.to_owned(), self.agent.clone()),
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
        if self.once {
            add(ONCE, "true".to_owned());
        }
        if !self.notes.is_empty() {
            add(NOTES, self.notes.join("\n"));
        }
        labels
    }

    /// Nothing if the labels are not ours. Anybody who may use the engine may write nonsense there.
    pub(crate) fn read(labels: &HashMap<String, String>) -> Option<Tag> {
        let text = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let list = |name: &str, by: char| {
            let text = labels.get(name).map(String::as_str).unwrap_or_default();
            text.split(by).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        Some(Tag {
            agent: text(AGENT),
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
            once: labels.contains_key(ONCE),
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

/// The name of a container that has until then to end.
pub(crate) fn stopping_name(name: &str, until_ms: u64) -> String {
    let name = name.trim_start_matches('/');
    let name = name.split_once(STOPPING).map_or(name, |(name, _)| name);
    format!("{name}{STOPPING}{until_ms}")
}

/// Until when it has to end, if it was asked to.
pub(crate) fn stopping_until(name: &str) -> Option<u64> {
    let until = name.split_once(STOPPING)?.1;
    // A name that somebody has changed still says that it is to end.
    Some(until.parse().unwrap_or(0))
}

/// What the engine calls a volume: volumes of one App with one name are one, on one node.
pub(crate) fn volume_name(agent: &str, origin: &Origin, volume: &str) -> String {
    format!("tombolo.{}.{}.{}.{volume}", slug(agent), origin.namespace, origin.app)
}

/// The network on which the components of an App find each other by name.
pub(crate) fn network_of_app(agent: &str, origin: &Origin) -> String {
    format!("tombolo.{}.{}.{}", slug(agent), origin.namespace, origin.app)
}

/// The network of a compose project, which one instance has for itself.
pub(crate) fn network_of_instance(id: &InstanceId) -> String {
    format!("tombolo.{id}")
}

/// One of several networks of a compose project.
pub(crate) fn network_of_project(id: &InstanceId, network: &str) -> String {
    match network {
        DEFAULT_NETWORK => network_of_instance(id),
        other => format!("{}.{other}", network_of_instance(id)),
    }
}

/// The filter that finds what is ours, or what is of one instance.
pub(crate) fn filter(agent: &str, id: Option<&InstanceId>) -> HashMap<String, Vec<String>> {
    let instance = match id {
        Some(id) => format!("{INSTANCE}={id}"),
        None => INSTANCE.to_owned(),
    };
    HashMap::from([("label".to_owned(), vec![format!("{AGENT}={agent}"), instance])])
}

/// What finds all that is of an agent, in the words of `docker ps --filter`.
pub(crate) fn of_agent(agent: &str) -> String {
    format!("label={AGENT}={agent}")
}

/// The filter that finds our networks and volumes.
pub(crate) fn agent_filter(agent: &str) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{AGENT}={agent}")])])
}

/// With the characters that the engine takes in names.
fn slug(text: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || ".-_".contains(character);
    text.chars().map(|character| if fits(character) { character } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        let tag = Tag {
            agent: "north/crane@1f".to_owned(),
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
            once: true,
            notes: vec!["one".to_owned(), "two, and more".to_owned()],
        };
        assert_eq!(Tag::read(&tag.labels()), Some(tag.clone()));
        assert_eq!(tag.name(), "tombolo.u-1.2a.db.7");
        assert_eq!(
            volume_name(&tag.agent, &tag.origin, "data"),
            "tombolo.north-crane-1f.default.shop.data"
        );
    }

    #[test]
    fn a_name_says_until_when_a_stop_has_time() {
        let name = stopping_name("/tombolo.u-1.2a.db.7", 1500);
        assert_eq!(
            (name.as_str(), stopping_until(&name)),
            ("tombolo.u-1.2a.db.7.stopping-1500", Some(1500))
        );
        assert_eq!(stopping_name(&name, 20), "tombolo.u-1.2a.db.7.stopping-20");
        assert_eq!(stopping_until("/tombolo.u-1.2a.db.7"), None);
        assert_eq!(stopping_until("x.stopping-soon"), Some(0), "it is to end all the same");
    }

    #[test]
    fn labels_of_others_are_no_tag() {
        assert_eq!(Tag::read(&HashMap::new()), None);
        let odd = HashMap::from([(INSTANCE.to_owned(), "../x".to_owned())]);
        assert_eq!(Tag::read(&odd), None);
    }
}
