//! What stands in the way of an apply, and how it is told.

use std::fmt;

use super::entry::{Entry, Operation};

/// Two managers want different values for one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns the field now.
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    /// Such as `.spec.components[name="web"].replicas`.
    pub field: String,
}

impl Conflict {
    /// The reason of the `StatusCause` that tells of a conflict.
    pub const REASON: &'static str = "FieldManagerConflict";

    pub(super) fn new(entry: &Entry, field: String) -> Conflict {
        Conflict {
            manager: entry.manager.clone(),
            operation: entry.operation,
            api_version: entry.api_version.clone(),
            subresource: entry.subresource.clone(),
            field,
        }
    }

    /// The message of its `StatusCause`; the field goes beside it.
    pub fn cause(&self) -> String {
        format!("conflict with {}", Owner(self))
    }
}

/// The message of the whole `Status`, in the form that kubectl users know.
pub fn message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            Owner(conflict),
            conflict.field
        );
    }
    let mut lines = Vec::new();
    let mut owner = None;
    for conflict in conflicts {
        let this = Owner(conflict).to_string();
        if owner.as_ref() != Some(&this) {
            lines.push(format!("conflicts with {this}:"));
            owner = Some(this);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// The owner of a field, as far as it helps to find out who that is.
struct Owner<'a>(&'a Conflict);

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { manager, operation, api_version, subresource, field: _ } = self.0;
        write!(f, "{manager:?}")?;
        if !subresource.is_empty() {
            write!(f, " with subresource {subresource:?}")?;
        }
        match operation {
            Operation::Update => write!(f, " using {api_version}"),
            Operation::Apply => Ok(()),
        }
    }
}
