//! What belongs to an agent: the facts that the table of rights asks for, found in memory or in the
//! body. What is whose is decided in [`tombolo_gate::scope`]; here it is looked up. [`crate::server`]
//! asks at every request of an agent and again while a watch lasts; [`crate::write`] before every
//! write.

use std::borrow::Cow;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use memchr::memmem::Finder;
use serde_json::Value;
use tombolo_gate::scope::{self, About};
use tombolo_identity::access::{self, Resource};
use tombolo_identity::{Permit, Remit, Role, Subject, Verb};
use tombolo_model::keys::{GROUP, LABEL_SITE};
use tombolo_store::At;

use crate::kinds::Kind;
use crate::object::{Part, text};
use crate::request::{Query, Target};
use crate::server::{Api, authorize, content_type, read_body};
use crate::status::Failure;
use crate::write::decode_body;
use crate::{encode, view};
use tombolo_document::selector::{FieldSelector, LabelSelector, Rule};

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
            && matches!(self.target.resource.as_str(), "events" | "leases" | "nodes");
        if !is_new {
            return Ok((self.decide(self.facts(api))?, body));
        }
        let bytes = read_body(body).await?;
        let value = decode_body(content_type(headers), &bytes)?.value;
        let permit = self.decide(self.facts_of_new(api, &value))?;
        self.has_room(api)?;
        Ok((permit, Body::from(bytes)))
    }

    /// Whether the agent of a whole site may make one more Node.
    fn has_room(&self, api: &Api) -> Result<(), Failure> {
        let (Role::Agent(Remit::Site { site }), "nodes") =
            (&self.subject.role, self.target.resource.as_str())
        else {
            return Ok(());
        };
        let prefix = format!("{GROUP}/nodes//");
        let Ok(page) = api.store.list(&prefix, At::Latest, None, usize::MAX) else { return Ok(()) };
        // Most can be told without reading them, and nearly always that is enough.
        let text = format!("\"{site}\"");
        let finder = Finder::new(&text);
        let likely = || page.objects.iter().filter(|object| finder.find(&object.bytes).is_some());
        let is_of_site = |node: Value| node["spec"]["site"] == site.as_str();
        if likely().count() < scope::NODES_MAX
            || likely().filter(|object| is_of_site(encode::parse(object))).count()
                < scope::NODES_MAX
        {
            return Ok(());
        }
        let most = scope::NODES_MAX;
        Err(Failure::forbidden(format!(
            "{} may make no more nodes: site {site:?} has {most} already; a manager may",
            self.subject.name
        )))
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
        let Role::Agent(remit) = &self.subject.role else { return failure };
        let resource = self.target.resource.as_str();
        let named = match (self.storage_group(), resource, remit) {
            (GROUP, "assignments", _) | ("", "secrets" | "configmaps" | "events", _) => true,
            (GROUP, "nodes", Remit::Site { .. }) => true,
            (_, _, _) => false,
        };
        let (true, Some(name)) = (named, &self.target.name) else { return failure };
        let site = remit.site();
        let message = format!("{resource} {name:?} not found for the agents of site {site:?}");
        Failure::new(404, "NotFound", message)
    }

    fn facts(&self, api: &Api) -> Facts {
        let Role::Agent(remit) = &self.subject.role else { return Facts::default() };
        let target = self.target;
        let name = self.name(api).unwrap_or_default();
        let namespace = target.namespace.as_deref();
        let stored = || {
            let place = namespace.unwrap_or_default();
            let key = format!("{}/{}/{place}/{name}", self.storage_group(), target.resource);
            api.store.get(&key).map(|stored| encode::parse(&stored))
        };
        match (self.storage_group(), target.resource.as_str()) {
            (GROUP, "assignments") => {
                let site = match target.name.is_some() {
                    true => stored().map(|live| scope::site_for(&live, remit).to_owned()),
                    false => self.selected_site(api),
                };
                Facts { site: site.unwrap_or_default(), name, ..Facts::default() }
            }
            (GROUP, "nodes") => {
                let site = match name.is_empty() {
                    true => self.selected_site(api),
                    false => stored().map(|live| scope::site_of_node(&live, remit).to_owned()),
                };
                Facts { site: site.unwrap_or_default(), node: name.clone(), name }
            }
            // Under the name of its node, so that the name alone says whose it is.
            (GROUP, "probings") => Facts { node: name.clone(), name, ..Facts::default() },
            ("", "secrets" | "configmaps") => {
                let namespace = namespace.unwrap_or_default();
                let named =
                    !name.is_empty() && is_named(api, namespace, remit, &target.resource, &name);
                let site = if named { remit.site().to_owned() } else { String::new() };
                Facts { site, name, ..Facts::default() }
            }
            ("", "events") if target.name.is_some() => {
                let facts = stored().map(|live| about(api, remit, namespace, &live));
                Facts { name, ..facts.unwrap_or_default() }
            }
            _ => Facts { name, ..Facts::default() },
        }
    }

    /// Whose is whose does not depend on the name under which it is asked for.
    fn storage_group(&self) -> &str {
        view::storage_group(&self.target.group, &self.target.resource)
    }

    fn facts_of_new(&self, api: &Api, body: &Value) -> Facts {
        let Role::Agent(remit) = &self.subject.role else { return Facts::default() };
        let facts = match (self.target.group.as_str(), self.target.resource.as_str()) {
            (group, "events") => {
                let mut event = body.clone();
                if let Some(view) = view::of(group, "Event") {
                    view.store(&mut event);
                }
                about(api, remit, self.target.namespace.as_deref(), &event)
            }
            (GROUP, "nodes") => {
                Facts { site: scope::site_of_node(body, remit).to_owned(), ..Facts::default() }
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
        let is_of_all = matches!(self.target.resource.as_str(), "nodes" | "probings");
        if self.target.namespace.is_none() && !is_of_all {
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

/// What an Event is about: an Assignment of its own namespace that is for this agent, or a Node.
fn about(api: &Api, remit: &Remit, namespace: Option<&str>, event: &Value) -> Facts {
    let stored = |key: String| api.store.get(&key).map(|stored| encode::parse(&stored));
    match scope::about(event, namespace) {
        About::Assignment(name) => {
            let namespace = namespace.unwrap_or_default();
            let live = stored(format!("{GROUP}/assignments/{namespace}/{name}"));
            let site = live.map(|live| scope::site_for(&live, remit).to_owned());
            Facts { site: site.unwrap_or_default(), ..Facts::default() }
        }
        About::Node(name) => {
            let live = stored(format!("{GROUP}/nodes//{name}"));
            let site = live.map(|live| scope::site_of_node(&live, remit).to_owned());
            let site = site.unwrap_or_default();
            Facts { site, node: name.to_owned(), ..Facts::default() }
        }
        About::Other => Facts::default(),
    }
}

/// Whether an Assignment in `namespace` that is for this agent names this Secret or ConfigMap.
fn is_named(api: &Api, namespace: &str, remit: &Remit, resource: &str, name: &str) -> bool {
    let prefix = format!("{GROUP}/assignments/{namespace}/");
    let Ok(page) = api.store.list(&prefix, At::Latest, None, usize::MAX) else { return false };
    // Most can be told without reading them: names are written as they are in JSON.
    let (site_text, name_text) = (format!("\"{}\"", remit.site()), format!("\"{name}\""));
    let (has_site, has_name) = (Finder::new(&site_text), Finder::new(&name_text));
    let likely = |bytes: &Bytes| has_name.find(bytes).is_some() && has_site.find(bytes).is_some();
    page.objects.iter().filter(|object| likely(&object.bytes)).any(|object| {
        let assignment = encode::parse(object);
        scope::is_for(&assignment, remit) && scope::names(&assignment, resource, name)
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
    let remit = match &subject.role {
        Role::Agent(remit) => Some(remit),
        Role::Manager if kind.is(GROUP, "Assignment") => None,
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Admin | Role::System => {
            return Ok(());
        }
    };
    let part = match part {
        Part::Main => scope::Part::Main,
        Part::Status | Part::Finalize => scope::Part::Status,
    };
    let kind_of = (kind.storage_group(), kind.kind.as_str());
    let live = live.map_or(Cow::Owned(Value::Null), |live| kind.as_stored(live));
    let allowed = scope::may_change(remit, kind_of, part, &live, &kind.as_stored(object));
    allowed.map_err(|refused| told(refused, subject, kind, object))
}

/// Whether an agent may remove what the table lets it delete. Others pass.
pub(crate) fn guard_removal(subject: &Subject, kind: &Kind, live: &Value) -> Result<(), Failure> {
    guard(subject, kind, Part::Main, Some(live), live)?;
    let Role::Agent(remit) = &subject.role else { return Ok(()) };
    let kind_of = (kind.storage_group(), kind.kind.as_str());
    let allowed = scope::may_remove(remit, kind_of, &kind.as_stored(live));
    allowed.map_err(|refused| told(refused, subject, kind, live))
}

fn told(refused: scope::Refused, subject: &Subject, kind: &Kind, object: &Value) -> Failure {
    match refused {
        scope::Refused::NotFound => Failure::not_found(kind, text(object, "name")),
        scope::Refused::Forbidden(why) => Failure::forbidden(format!("{} {why}", subject.name)),
    }
}
