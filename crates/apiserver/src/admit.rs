//! From a decoded body to an object that may be written: defaults, unknown fields, schema, checks.
//! Pure; [`crate::write`] calls it for every way in which an object can change.

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::Kind;
use crate::object::{self, text};
use crate::request::FieldValidation;
use crate::status::{Failure, Invalid, Problem, strict_words};
use crate::{builtin, core_kinds, crd, metadata, own_kinds};
use tombolo_document::schema::Path;

/// An object that passed, and what its writer should be told all the same.
#[derive(Debug)]
pub struct Admitted {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// `doubled` are the keys that stood twice in the body.
pub fn admit(
    kind: &Kind,
    live: Option<&Value>,
    mut object: Value,
    doubled: Vec<Invalid>,
    validation: Option<FieldValidation>,
    others: &[Arc<Kind>],
    now: &str,
) -> Result<Admitted, Failure> {
    let name = text(&object, "name").to_owned();
    let mut loose = doubled;
    loose.extend(kind.compiled.unknown_fields(&object));
    let warnings = match validation.unwrap_or(usual_validation(kind)) {
        FieldValidation::Strict if !loose.is_empty() => {
            // Whoever mends the file wants to hear of everything at once.
            let more = own_kinds::problems(kind, &object);
            loose.extend(more.into_iter().filter(|error| error.problem != Problem::Unknown));
            return Err(Failure::strict(kind, &name, &loose));
        }
        FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => loose.iter().map(strict_words).collect(),
    };
    kind.compiled.prune(&mut object);
    kind.compiled.fill_defaults(&mut object);

    let is_definition = kind.is("apiextensions.k8s.io", "CustomResourceDefinition");
    if is_definition {
        crd::fill_names(&mut object);
    }
    // Our own checks say more than the schema can; it stands behind them all the same.
    let mut problems = own_kinds::problems(kind, &object);
    if problems.is_empty() {
        problems = kind.compiled.validate(&object, &Path::ROOT);
        problems.extend(metadata::problems(kind, &object));
        problems.extend(core_kinds::problems(kind, live, &object));
    }
    if problems.is_empty() && is_definition {
        problems = crd::validate(&object);
        problems.extend(live.into_iter().flat_map(|live| crd::validate_update(live, &object)));
    }
    if problems.is_empty() && is_definition {
        problems = crd::validate_rules(&object);
    }
    if is_definition && builtin::serves(&object["spec"]) {
        let message = "this kind comes with the server and cannot be defined anew";
        problems.push(Invalid::new("spec.names.plural", Problem::Forbidden, message));
    }
    // A schema that has become tighter must not keep an old object from being labelled or let go.
    if live.is_some_and(|live| object::same_wishes(live, &object)) {
        problems.retain(|problem| problem.field.starts_with("metadata"));
    }
    // Rules may count on all else being right.
    if problems.is_empty()
        && let Some(expressions) = kind.expressions()
    {
        problems = expressions.check(&object, live);
    }
    if !problems.is_empty() {
        return Err(Failure::invalid(kind, &name, &problems));
    }
    let mut object = object::settle(kind, live, object)?;
    if is_definition {
        object["status"] = crd::established_status(&object, others, now);
    }
    Ok(Admitted { object, warnings })
}

/// In our own kinds an unknown field is an error unless the client says otherwise: a misspelt
/// wish that is silently dropped is worse than a refused file.
fn usual_validation(kind: &Kind) -> FieldValidation {
    if own_kinds::is_own(kind) { FieldValidation::Strict } else { FieldValidation::Warn }
}
