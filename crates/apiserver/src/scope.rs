//! What belongs to an agent: the facts that the table of rights asks for, found in memory or in the
//! body, and what it may change of an object that it may write. [`crate::server`] asks at every
//! request of an agent and again while a watch lasts; [`crate::write`] before every write.

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use memchr::memmem::Finder;
use serde_json::Value;
use tombolo_identity::access::{self, Resource};
use tombolo_identity::{Permit, Role, Subject, Verb};
use tombolo_model::keys::{FINALIZER_ASSIGNMENT, GROUP, LABEL_SITE};
use tombolo_store::At;

use crate::encode;
use crate::kinds::Kind;
use crate::object::{Part, is_deleting, text};
use crate::request::{Query, Target};
use crate::server::{Api, authorize, content_type, read_body};
use crate::status::Failure;
use crate::write::decode_body;
use tombolo_document::selector::{FieldSelector, LabelSelector, Rule};

/// Events about what has no namespace are where Kubernetes puts such.
const EVENT_NAMESPACE: &str = "default";

/// A request of an agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub subject: &'a Subject,
    pub verb: Verb,
    pub target: &'a Target,
    pub query: &'a Query,
}

/// Whose the object is; empty texts mean that nobody's right depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    site: String,
    node: String,
    /// The one object that is meant, by its path, its selector or its body.
    name: String,
}

impl Asked<'_> {
    /// The proof that the agent may, and the body, which may have been read on the way.
    pub(crate) async fn authorize(
        &self,
        api: &Api,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Permit, Body), Failure> {
        // A new object has no name in the path and nothing in the store to tell whose it is.
        let is_new = self.verb == Verb::Create
            && matches!(self.target.resource.as_str(), "events" | "leases");
        if !is_new {
            return Ok((self.decide(self.facts(api))?, body));
        }
        let bytes = read_body(body).await?;
        let value = decode_body(content_type(headers), &bytes)?.value;
        let permit = self.decide(self.facts_of_new(api, &value))?;
        Ok((permit, Body::from(bytes)))
    }

    pub(crate) fn authorize_watch(&self, api: &Api) -> Result<Permit, Failure> {
        self.decide(self.facts(api))
    }

    fn decide(&self, facts: Facts) -> Result<Permit, Failure> {
        let target = self.target;
        let resource = Resource {
            group: &target.group,
            resource: &target.resource,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: &facts.name,
            site: &facts.site,
            node: &facts.node,
        };
        authorize(self.subject, self.verb, access::Target::Resource(resource))
            .map_err(|failure| self.hidden(failure))
    }

    /// An agent is not told whether an object of another site exists.
    fn hidden(&self, failure: Failure) -> Failure {
        let named = matches!(
            (self.target.group.as_str(), self.target.resource.as_str()),
            (GROUP, "assignments") | ("", "secrets" | "configmaps" | "events")
        );
        let (true, Some(name), Role::Agent { site, .. }) =
            (named, &self.target.name, &self.subject.role)
        else {
            return failure;
        };
        let resource = &self.target.resource;
        let message = format!("{resource} {name:?} not found for the agents of site {site:?}");
        Failure::new(404, "NotFound", message)
    }

    fn facts(&self, api: &Api) -> Facts {
        let Role::Agent { site, node } = &self.subject.role else { return Facts::default() };
        let target = self.target;
        let name = self.name(api).unwrap_or_default();
        let namespace = target.namespace.as_deref();
        let stored = || {
            let place = namespace.unwrap_or_default();
            let key = format!("{}/{}/{place}/{name}", target.group, target.resource);
            api.store.get(&key).map(|stored| encode::parse(&stored))
        };
        match (target.group.as_str(), target.resource.as_str()) {
            (GROUP, "assignments") => {
                let site = match target.name.is_some() {
                    true => stored().map(|live| site_for(&live, node).to_owned()),
                    false => self.selected_site(api),
                };
                Facts { site: site.unwrap_or_default(), name, ..Facts::default() }
            }
            (GROUP, "nodes") => Facts { node: name.clone(), name, ..Facts::default() },
            ("", "secrets" | "configmaps") => {
                let namespace = namespace.unwrap_or_default();
                let own = (site.as_str(), node.as_str());
                let named =
                    !name.is_empty() && is_named(api, namespace, own, &target.resource, &name);
                let site = if named { site.clone() } else { String::new() };
                Facts { site, name, ..Facts::default() }
            }
            ("", "events") if target.name.is_some() => {
                let facts = stored().map(|live| about(api, node, namespace, &live));
                Facts { name, ..facts.unwrap_or_default() }
            }
            _ => Facts { name, ..Facts::default() },
        }
    }

    fn facts_of_new(&self, api: &Api, body: &Value) -> Facts {
        let facts = match (self.target.resource.as_str(), &self.subject.role) {
            ("events", Role::Agent { node, .. }) => {
                about(api, node, self.target.namespace.as_deref(), body)
            }
            _ => Facts::default(),
        };
        Facts { name: text(body, "name").to_owned(), ..facts }
    }

    /// The name in the path, or the one that a list is narrowed to. Over all namespaces a name is
    /// not one object.
    fn name(&self, api: &Api) -> Option<String> {
        if self.target.name.is_some() {
            return self.target.name.clone();
        }
        if self.target.namespace.is_none() && self.target.resource != "nodes" {
            return None;
        }
        self.fields(api)?.required("metadata.name").map(str::to_owned)
    }

    fn fields(&self, api: &Api) -> Option<FieldSelector> {
        let Target { group, version, resource, .. } = self.target;
        let kinds = api.registry.now();
        let kind = &kinds.find(group, version, resource)?.kind;
        let text = self.query.field_selector.as_deref()?;
        FieldSelector::parse(text, &kind.kind, &kind.selectable_fields).ok()
    }

    fn selected_site(&self, api: &Api) -> Option<String> {
        let by_field = || Some(self.fields(api)?.required("spec.site")?.to_owned());
        let by_label = || {
            let labels = LabelSelector::parse(self.query.label_selector.as_deref()?).ok()?;
            labels.requirements().iter().find_map(|wanted| match &wanted.rule {
                Rule::Equal(site) if wanted.key == LABEL_SITE => Some(site.clone()),
                _ => None,
            })
        };
        by_field().or_else(by_label)
    }
}

/// Whether an Assignment is for the agent of `node` at `site`: that of another node, which it names,
/// is none of a sibling's business. One that names none may be taken by any of them.
pub(crate) fn is_for(assignment: &Value, site: &str, node: &str) -> bool {
    site_for(assignment, node) == site
}

/// The site of an Assignment; nothing if it names another node.
fn site_for<'a>(assignment: &'a Value, node: &str) -> &'a str {
    let spec = &assignment["spec"];
    match spec["node"].as_str().is_none_or(|named| named == node) {
        true => spec["site"].as_str().unwrap_or_default(),
        false => "",
    }
}

/// What an Event is about: an Assignment of its own namespace that may be of `node`, or a Node.
fn about(api: &Api, node: &str, namespace: Option<&str>, event: &Value) -> Facts {
    let about = &event["involvedObject"];
    let of = |field: &str| about[field].as_str().unwrap_or_default();
    let ours = of("apiVersion").split('/').next() == Some(GROUP);
    match (of("kind"), namespace) {
        ("Assignment", Some(namespace)) if ours && of("namespace") == namespace => {
            let key = format!("{GROUP}/assignments/{namespace}/{}", of("name"));
            let live = api.store.get(&key).map(|stored| encode::parse(&stored));
            let site =
                live.as_ref().map(|live| site_for(live, node)).unwrap_or_default().to_owned();
            Facts { site, ..Facts::default() }
        }
        ("Node", Some(EVENT_NAMESPACE)) if ours => {
            Facts { node: of("name").to_owned(), ..Facts::default() }
        }
        _ => Facts::default(),
    }
}

/// Whether an Assignment in `namespace` that is for this agent names this Secret or ConfigMap.
fn is_named(
    api: &Api,
    namespace: &str,
    (site, node): (&str, &str),
    resource: &str,
    name: &str,
) -> bool {
    let prefix = format!("{GROUP}/assignments/{namespace}/");
    let Ok(page) = api.store.list(&prefix, At::Latest, None, usize::MAX) else { return false };
    // Most can be told without reading them: names are written as they are in JSON.
    let (site_text, name_text) = (format!("\"{site}\""), format!("\"{name}\""));
    let (has_site, has_name) = (Finder::new(&site_text), Finder::new(&name_text));
    let likely = |bytes: &Bytes| has_name.find(bytes).is_some() && has_site.find(bytes).is_some();
    page.objects.iter().filter(|object| likely(&object.bytes)).any(|object| {
        let assignment = encode::parse(object);
        is_for(&assignment, site, node) && names(&assignment["spec"]["run"], resource, name)
    })
}

/// The ways to run something that can name a Secret or ConfigMap: `secretEnv` and `files`.
fn names(run: &Value, resource: &str, name: &str) -> bool {
    let file_field = if resource == "secrets" { "secret" } else { "config" };
    ["container", "process"].iter().any(|way| {
        let environment = run[way]["secretEnv"].as_object().into_iter().flatten();
        let mut environment = environment.map(|(_, entry)| &entry["name"]);
        let mut files = run[way]["files"].as_array().into_iter().flatten();
        (resource == "secrets" && environment.any(|found| found == name))
            || files.any(|file| file[file_field]["name"] == name)
    })
}

/// What an agent may change of an object that the table lets it write, and a manager, who may stand in
/// for one, of an Assignment. Others pass.
pub(crate) fn guard(
    subject: &Subject,
    kind: &Kind,
    part: Part,
    live: Option<&Value>,
    object: &Value,
) -> Result<(), Failure> {
    let agent = match &subject.role {
        Role::Agent { site, node } => Some((site, node)),
        Role::Manager if kind.is(GROUP, "Assignment") => None,
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Admin | Role::System => {
            return Ok(());
        }
    };
    let refuse = |why: &str| Err(Failure::forbidden(format!("{} {why}", subject.name)));
    let empty = Value::Null;
    let live = live.unwrap_or(&empty);
    // It was the agent's when it was allowed; it may have gone to another one since.
    if kind.is(GROUP, "Assignment") && agent.is_some_and(|(site, node)| !is_for(live, site, node)) {
        return Err(Failure::not_found(kind, text(object, "name")));
    }
    if part != Part::Main {
        return Ok(());
    }
    if kind.is(GROUP, "Assignment") {
        return match holds_or_lets_go(live, object) {
            true => Ok(()),
            false => refuse(
                "may change nothing of an assignment but its status, take hold of it, and let go \
                 of one that is being deleted",
            ),
        };
    }
    if kind.is("", "Event") && !live.is_null() && live["involvedObject"] != object["involvedObject"]
    {
        return refuse("may not make an event about something else");
    }
    let holds = |field: &str| live["metadata"].get(field) != object["metadata"].get(field);
    match holds("finalizers") || holds("ownerReferences") {
        true => refuse("may set neither finalizers nor owners"),
        false => Ok(()),
    }
}

/// Whether all that has changed is the agent's own finalizer: gone from an object that is being
/// deleted, or put on one that is not.
fn holds_or_lets_go(live: &Value, object: &Value) -> bool {
    let bare = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.retain(|key, _| !matches!(key.as_str(), "finalizers" | "managedFields"));
        }
        value
    };
    let holders = |value: &Value| {
        let list = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let (own, others): (Vec<Value>, Vec<Value>) =
            list.into_iter().partition(|holder| holder == FINALIZER_ASSIGNMENT);
        (!own.is_empty(), others)
    };
    let ((held, others), (holds, others_then)) = (holders(live), holders(object));
    let is_right = if is_deleting(live) { held || !holds } else { holds || !held };
    is_right && bare(live) == bare(object) && others == others_then
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_lets_go_of_what_is_being_deleted_and_changes_nothing_else() {
        let live = json!({
            "metadata": {"name": "a", "deletionTimestamp": "2026-06-01T00:00:00Z",
                "finalizers": ["tombolo.dev/undeploy", "example.com/hold"], "managedFields": [1]},
            "spec": {"site": "north"}, "status": {},
        });
        let with = |pointer: &str, value: Value| {
            let mut object = live.clone();
            *object.pointer_mut(pointer).unwrap() = value;
            object
        };
        let gone = with("/metadata/finalizers", json!(["example.com/hold"]));
        assert!(holds_or_lets_go(&live, &gone));
        assert!(holds_or_lets_go(&live, &with("/metadata/managedFields", json!([]))));
        assert!(
            !holds_or_lets_go(&live, &with("/metadata/finalizers", json!([]))),
            "another's finalizer"
        );
        assert!(!holds_or_lets_go(&live, &with("/spec/site", json!("south"))));
        assert!(!holds_or_lets_go(&live, &with("/metadata/name", json!("b"))));
        let mut alive = live.clone();
        alive["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        let mut alive_gone = gone.clone();
        alive_gone["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        assert!(!holds_or_lets_go(&alive, &alive_gone), "nobody has asked for its end");
        assert!(holds_or_lets_go(&alive_gone, &alive), "it takes hold of it");
        assert!(!holds_or_lets_go(&gone, &live), "it is too late to take hold of it");
    }

    #[test]
    fn a_secret_is_named_by_the_environment_and_the_files_alone() {
        let run = json!({"process": {
            "command": ["x", "token"], "env": {"A": "token"},
            "secretEnv": {"KEY": {"name": "keys", "key": "a"}},
            "files": [{"path": "/a", "secret": {"name": "certs", "key": "a"}},
                {"path": "/b", "config": {"name": "settings", "key": "b"}}],
        }});
        let named = |resource: &str| {
            let all = ["keys", "certs", "settings", "token", "a"];
            all.into_iter().filter(|name| names(&run, resource, name)).collect::<Vec<_>>()
        };
        assert_eq!(named("secrets"), ["keys", "certs"]);
        assert_eq!(named("configmaps"), ["settings"]);
    }
}
