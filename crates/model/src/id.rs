//! What Apps and instances are called by wherever two crates speak of the same one. Objects are
//! looked up by these and not by texts that each crate joins for itself.

use std::fmt;

use crate::app::{App, Placement, Unplaced};
use crate::assignment::Assignment;

/// The namespace of an object that names none.
const NAMESPACE_DEFAULT: &str = "default";
/// An App of a file may have no name yet.
const NAME_UNKNOWN: &str = "unnamed";

/// An App, as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(String); // Private: neither part has a slash, so the first slash separates them.

/// One instance of a component, within its App: `web/0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey {
    pub component: String,
    /// Number of the instance, counted from 0.
    pub replica: u32,
}

impl AppId {
    pub fn new(namespace: &str, name: &str) -> AppId {
        AppId(format!("{namespace}/{name}"))
    }

    pub fn of(app: &App) -> AppId {
        let namespace = app.metadata.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
        AppId::new(namespace, app.metadata.name.as_deref().unwrap_or(NAME_UNKNOWN))
    }

    /// The App that an Assignment belongs to.
    pub fn owning(assignment: &Assignment) -> AppId {
        let namespace = assignment.metadata.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
        AppId::new(namespace, &assignment.spec.app)
    }

    /// The App of that name in the same namespace; without a name, this App.
    pub fn beside(&self, name: Option<&str>) -> AppId {
        match name {
            Some(name) => AppId::new(self.namespace(), name),
            None => self.clone(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl InstanceKey {
    pub fn new(component: impl Into<String>, replica: u32) -> InstanceKey {
        InstanceKey { component: component.into(), replica }
    }

    pub fn placed(at: &Placement) -> InstanceKey {
        InstanceKey::new(&at.component, at.replica)
    }

    pub fn unplaced(one: &Unplaced) -> InstanceKey {
        InstanceKey::new(&one.component, one.replica)
    }
}

impl fmt::Display for InstanceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.component, self.replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_made() {
        let id = AppId::new("shop", "web");
        assert_eq!((id.as_str(), id.namespace(), id.name()), ("shop/web", "shop", "web"));
        assert_eq!(id.beside(Some("db")), AppId::new("shop", "db"));
        assert_eq!(id.beside(None), id);
        assert_eq!(InstanceKey::new("web", 3).to_string(), "web/3");
    }

    #[test]
    fn instances_are_in_the_order_of_component_and_number() {
        let mut keys = [("b", 0), ("a", 10), ("a", 9)].map(|(name, n)| InstanceKey::new(name, n));
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["a/9", "a/10", "b/0"]);
    }
}
