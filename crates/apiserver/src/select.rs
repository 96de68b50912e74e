//! Which objects a list, a watch or a deletecollection is about: the key, the labels, the fields.

use serde_json::Value;
use tombolo_gate::scope;
use tombolo_identity::token::SYSTEM_NAMESPACE;
use tombolo_identity::{Remit, Role, Subject};
use tombolo_model::keys::GROUP;
use tombolo_store::Object;

use crate::encode;
use crate::kinds::Kind;
use crate::request::{Query, Target};
use crate::status::Failure;
use crate::view::View;
use tombolo_document::selector::{FieldSelector, LabelSelector};

#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Everything of interest has a key that begins so.
    pub prefix: String,
    /// The one key of interest, when the request names an object.
    exact: Option<String>,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    /// The agent who asks: it sees what is for it, whatever the selectors say.
    agent: Option<Seen>,
    /// The key of an object of the kind that is not for whoever asks.
    hidden: Option<String>,
    /// Under which names the selectors know the fields.
    view: Option<&'static View>,
}

/// What of a kind an agent sees.
#[derive(Clone, Debug)]
struct Seen {
    by: Remit,
    test: fn(&Value, &Remit) -> bool,
}

impl Selection {
    pub(crate) fn new(kind: &Kind, target: &Target, query: &Query) -> Result<Selection, Failure> {
        let bad = |problem: &dyn std::fmt::Display| Failure::bad_request(problem.to_string());
        let labels = query.label_selector.as_deref().map(LabelSelector::parse).transpose();
        let labels = labels.map_err(|problem| bad(&problem))?;
        let parse = |text: &str| FieldSelector::parse(text, &kind.kind, &kind.selectable_fields);
        let fields = query.field_selector.as_deref().map(parse).transpose();
        let fields = fields.map_err(|problem| bad(&problem))?;

        let prefix = match &target.namespace {
            Some(namespace) => kind.namespace_prefix(namespace),
            None => kind.prefix(),
        };
        // Clients wait for one object by selecting its name: a key then, not a search.
        let selected = fields.as_ref().and_then(|fields| fields.required("metadata.name"));
        let name = target.name.as_deref().or(selected);
        let one_place = target.namespace.is_some() || kind.scope == crate::kinds::Scope::Cluster;
        let exact =
            name.filter(|_| one_place).map(|name| kind.key(target.namespace.as_deref(), name));
        let prefix = exact.clone().unwrap_or(prefix);
        let view = kind.view;
        Ok(Selection { prefix, exact, labels, fields, agent: None, hidden: None, view })
    }

    /// Narrows the selection to what `subject` may see of the kind.
    #[must_use]
    pub(crate) fn within(mut self, kind: &Kind, subject: &Subject) -> Selection {
        if let Role::Agent(by) = &subject.role {
            let seen = |test| Some(Seen { by: by.clone(), test });
            self.agent = match (kind.group.as_str(), kind.kind.as_str()) {
                (GROUP, "Assignment") => seen(scope::is_for),
                (GROUP, "Node") => seen(scope::is_node_of),
                (_, _) => None,
            };
        }
        if kind.is("", "Namespace") && !sees_the_system(&subject.role) {
            self.hidden = Some(kind.key(None, SYSTEM_NAMESPACE));
        }
        self
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        if self.exact.as_deref().is_some_and(|key| key != &*object.key) {
            return false;
        }
        if self.hidden.as_deref().is_some_and(|key| key == &*object.key) {
            return false;
        }
        if self.labels.is_none() && self.fields.is_none() && self.agent.is_none() {
            return true;
        }
        let mut value = encode::parse(object);
        if let Some(view) = self.view {
            view.show(&mut value);
        }
        self.agent.as_ref().is_none_or(|seen| (seen.test)(&value, &seen.by))
            && self.labels.as_ref().is_none_or(|labels| labels.matches(&value))
            && self.fields.as_ref().is_none_or(|fields| fields.matches(&value))
    }

    /// Whether every object under the prefix is meant, so that counting needs no look at them.
    pub(crate) fn takes_all(&self) -> bool {
        self.exact.is_none()
            && self.labels.is_none()
            && self.fields.is_none()
            && self.agent.is_none()
            && self.hidden.is_none()
    }
}

/// As the table of rights says of the namespace `tombolo-system` itself.
fn sees_the_system(role: &Role) -> bool {
    match role {
        Role::Admin | Role::System => true,
        Role::Anonymous | Role::Guest | Role::User | Role::Manager | Role::Agent(_) => false,
    }
}

/// A place in a list that was cut short: the revision it was made at and the last key given out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Continue {
    pub revision: u64,
    pub after: String,
}

impl Continue {
    /// Instead of a revision: the page is of the state that is there when it is asked for.
    pub(crate) const LATEST: u64 = 0;

    pub(crate) fn encode(&self) -> String {
        use base64::Engine;
        let text = serde_json::json!({"rv": self.revision, "after": self.after}).to_string();
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    }

    pub(crate) fn decode(token: &str) -> Result<Continue, Failure> {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).ok();
        let value: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let parts = value.as_ref().and_then(|value| {
            Some(Continue {
                revision: value["rv"].as_u64()?,
                after: value["after"].as_str()?.to_owned(),
            })
        });
        parts.ok_or_else(|| Failure::bad_request("continue: this is not a token of this server"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_comes_back_as_it_was() {
        let token = Continue { revision: 7, after: "g/things/ns/ü".to_owned() };
        assert_eq!(Continue::decode(&token.encode()).expect("own token"), token);
        assert_eq!(Continue::decode("nonsense").expect_err("not ours").code, 400);
    }
}
