//! The way from client-side to server-side apply. `kubectl apply` used to keep what it last applied
//! in an annotation, and wrote as the manager `kubectl-client-side-apply`; when the same user then
//! applies on the server, as `kubectl`, their own past must not stand in their way.

use serde_json::Value;

use crate::schema::Schema;

use super::element::PathElement;
use super::extract;
use super::fields::FieldSet;
use super::managed::Manager;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only manager that takes over; who does not want it names another.
const KUBECTL: &str = "kubectl";

/// What `manager` may take from others without force: what it last applied on the client's side
/// and what since then nobody changed.
pub(super) fn handed_over(live: &Value, schema: &Schema, manager: &Manager<'_>) -> FieldSet {
    let annotation = live.get("metadata").and_then(|metadata| {
        metadata.get("annotations")?.get(ANNOTATION)?.as_str().filter(|_| manager.name == KUBECTL)
    });
    let Some(last_applied) = annotation.and_then(|text| serde_json::from_str(text).ok()) else {
        return FieldSet::default();
    };
    let changed = extract::compare(&last_applied, live, schema);
    let mut fields = extract::fields(&last_applied, schema)
        .difference(&changed.added)
        .difference(&changed.modified)
        .difference(&changed.removed);
    fields.insert(&["metadata", "annotations", ANNOTATION].map(PathElement::field));
    fields
}
