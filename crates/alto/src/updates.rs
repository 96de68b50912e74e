//! Updates as a stream of events (RFC 8895): whole documents first, and then what changed, as merge patches (RFC 7396).
//! Start at [`Wanted::read`] and [`Stream::update`].

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::media;
use crate::refusal::Refusal;
use crate::request::{list, object, text_in};
use crate::service::Service;

/// Resources in one stream: all that a server has, some times over.
const RESOURCES_MOST: usize = 64;

/// What a client wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// By the name that the client gives it.
    add: BTreeMap<String, Resource>,
    remove: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Resource {
    id: String,
    /// What the client has already.
    tag: Option<String>,
    /// Whether it takes patches.
    takes_patches: bool,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The media type, and whose document it is.
    pub name: String,
    pub data: Value,
}

impl Event {
    fn new(media: &str, of: &str, data: Value) -> Event {
        Event { name: format!("{media},{of}"), data }
    }

    fn control(data: Value) -> Event {
        Event { name: media::UPDATES_CONTROL.to_owned(), data }
    }

    /// As it goes over the wire. JSON without line breaks is one line.
    pub fn lines(&self) -> String {
        format!("event: {}\ndata: {}\n\n", self.name, self.data)
    }
}

impl Wanted {
    pub fn read(body: &[u8], service: &Service) -> Result<Wanted, Refusal> {
        let body = object(body)?;
        let known = service.streamed();
        let mut wanted = Wanted::default();
        if let Some(add) = body.get("add") {
            for (name, value) in add.as_object().ok_or(Refusal::kind("add"))? {
                wanted.add.insert(name.clone(), resource(name, value, &known)?);
            }
        }
        for name in list(&body, "remove", "remove")?.unwrap_or_default() {
            wanted.remove.push(text_in(name, "remove")?.to_owned());
        }
        if wanted.add.len() > RESOURCES_MOST {
            return Err(Refusal::value("add", &json!(wanted.add.len())));
        }
        if wanted.add.is_empty() && wanted.remove.is_empty() {
            return Err(Refusal::missing("add"));
        }
        Ok(wanted)
    }
}

fn resource(name: &str, value: &Value, known: &[String]) -> Result<Resource, Refusal> {
    let field = format!("add/{name}");
    let value = value.as_object().ok_or_else(|| Refusal::kind(&field))?;
    let text = |member: &str| match value.get(member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Refusal::kind(&format!("{field}/{member}"))),
    };
    // The name stands for the resource where none is given (RFC 8895, 6.5).
    let id = text("resource-id")?.unwrap_or_else(|| name.to_owned());
    if !known.contains(&id) {
        return Err(Refusal::value(&format!("{field}/resource-id"), &json!(id)));
    }
    let takes_patches = match value.get("incremental-changes") {
        None => true,
        Some(Value::Bool(takes)) => *takes,
        Some(_) => return Err(Refusal::kind(&format!("{field}/incremental-changes"))),
    };
    Ok(Resource { id, tag: text("tag")?, takes_patches })
}

/// What one client has been told.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    told: BTreeMap<String, (Resource, Option<Value>)>,
}

impl Stream {
    /// Takes up what a client wants, and says so.
    pub fn change(&mut self, wanted: Wanted, service: &Service) -> Vec<Event> {
        let mut events = Vec::new();
        let stopped: Vec<String> =
            wanted.remove.into_iter().filter(|name| self.told.remove(name).is_some()).collect();
        if !stopped.is_empty() {
            events.push(Event::control(json!({ "stopped": stopped })));
        }
        if !wanted.add.is_empty() {
            let started: Vec<&String> = wanted.add.keys().collect();
            events.push(Event::control(json!({ "started": started })));
        }
        for (name, resource) in wanted.add {
            // Who has the present version needs no whole document.
            let present = service.resource(&resource.id);
            let has = |document: &Value| {
                resource.tag.as_deref().is_some_and(|tag| document["meta"]["vtag"]["tag"] == tag)
            };
            self.told.insert(name, (resource.clone(), present.filter(has)));
        }
        events.extend(self.update(service));
        events
    }

    /// What to tell now. The network map comes before the costs that stand on it, and a document
    /// that did not change is not mentioned.
    pub fn update(&mut self, service: &Service) -> Vec<Event> {
        let mut events = Vec::new();
        let mut gone = Vec::new();
        let order = service.streamed();
        let mut names: Vec<String> = self.told.keys().cloned().collect();
        names.sort_by_key(|name| order.iter().position(|id| *id == self.told[name].0.id));
        for name in names {
            let Some((resource, told)) = self.told.get_mut(&name) else { continue };
            let Some(present) = service.resource(&resource.id) else {
                gone.push(name);
                continue;
            };
            if told.as_ref() == Some(&present) {
                continue;
            }
            let patch = told.as_ref().filter(|_| resource.takes_patches);
            let patch = patch.and_then(|told| smaller(difference(told, &present), &present));
            let media = match resource.id.starts_with("costmap-") {
                true => media::COST_MAP,
                false => media::NETWORK_MAP,
            };
            events.push(match patch {
                Some(patch) => Event::new(media::MERGE_PATCH, &name, patch),
                None => Event::new(media, &name, present.clone()),
            });
            *told = Some(present);
        }
        if !gone.is_empty() {
            for name in &gone {
                self.told.remove(name);
            }
            events.push(Event::control(json!({ "stopped": gone })));
        }
        events
    }
}

/// A patch that is as long as the document is no use.
fn smaller(patch: Option<Value>, whole: &Value) -> Option<Value> {
    patch.filter(|patch| patch.to_string().len() < whole.to_string().len())
}

/// What makes one document of another, as a merge patch; `None` where a merge patch cannot say it, because the new
/// one has a null.
pub fn difference(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return (!has_null(to)).then(|| to.clone());
    };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        let member = match from.get(name) {
            Some(old) if old == value => continue,
            Some(old @ Value::Object(_)) if value.is_object() => difference(old, value)?,
            Some(_) | None if has_null(value) => return None,
            Some(_) | None => value.clone(),
        };
        patch.insert(name.clone(), member);
    }
    Some(Value::Object(patch))
}

/// Whether a patch would take this for "remove". In arrays nulls stay what they are.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

/// What a client makes of a patch (RFC 7396).
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            apply(members.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
