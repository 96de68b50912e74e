//! The patches that are not applies: what each makes of a document. The handlers call
//! [`json_patch`], [`merge_patch`] and [`strategic_merge_patch`] by content type; each gives a new
//! document or says why not, and leaves the old one alone.

mod bounds;
mod strategic;

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

pub use strategic::strategic_merge_patch;

/// Operations of one JSON patch; the same as in Kubernetes.
pub const OPERATIONS_MAX: usize = 10_000;
/// Of the patched document, and of all that the `copy` operations of one patch copy: a patch of
/// a few lines can otherwise double a document until memory ends.
pub const RESULT_BYTES_MAX: usize = 3 << 20;
/// List items that may be shifted and bytes that may be moved by one patch, together: ten thousand
/// operations at the front of a long list would otherwise take a minute.
pub const MOVED_MAX: usize = 64 << 20;
/// Operations can nest a document in itself; one of more than 128 levels could not be read back.
pub const RESULT_DEPTH_MAX: usize = 100;

/// Cut by what a client can do: mend the patch, look at the object again, or patch less.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("the patch is not valid JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("the patch must be {expected}, not {found}")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("operation {place} of the patch is not valid")]
    InvalidOperation {
        place: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("{path}: {problem}")]
    InvalidDirective { path: String, problem: String },
    #[error("operation {place} of the patch, {operation} {path:?}: {problem}")]
    NotApplicable { place: usize, operation: &'static str, path: String, problem: String },
    #[error("operation {place} of the patch: the value at {path:?} is not the one it tests for")]
    TestFailed { place: usize, path: String },
    #[error("the patch has {found} operations, and may have {OPERATIONS_MAX}")]
    TooManyOperations { found: usize },
    #[error("the patch moves more data around than it may; send the result instead")]
    TooMuchMoved,
    #[error("the patched object would have more than {RESULT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the patched object would be nested deeper than {RESULT_DEPTH_MAX} levels")]
    TooDeep,
}

/// RFC 6902.
pub fn json_patch(document: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let operations = parse_operations(patch)?;
    let mut document = document.clone();
    let mut budget = bounds::Budget { copied: RESULT_BYTES_MAX, moved: MOVED_MAX };
    for (place, operation) in operations.iter().enumerate() {
        budget.spend(&document, operation)?;
        if tests_for_absence(&document, operation) {
            continue;
        }
        json_patch::patch_unsafe(&mut document, std::slice::from_ref(operation))
            .map_err(|error| explain(place, operation, &error.kind))?;
        check_depth(&document, operation)?;
    }
    check_size(document)
}

/// A test for null where there is nothing holds in Kubernetes, though not in the RFC. kube-rs asks
/// so before it adds the first finalizer.
fn tests_for_absence(document: &Value, operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Test(test) => {
            test.value.is_null() && document.pointer(test.path.as_str()).is_none()
        }
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Copy(_) => false,
    }
}

/// RFC 7386. The patch must be an object: anything else would replace the whole document.
pub fn merge_patch(document: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch = parse_object(patch)?;
    let mut document = document.clone();
    json_patch::merge(&mut document, &patch);
    check_size(document)
}

fn parse_object(patch: &[u8]) -> Result<Value, PatchError> {
    let patch = serde_json::from_slice(patch).map_err(PatchError::NotJson)?;
    match patch {
        Value::Object(_) => Ok(patch),
        other => Err(PatchError::WrongType { expected: "a JSON object", found: type_name(&other) }),
    }
}

fn parse_operations(patch: &[u8]) -> Result<Vec<PatchOperation>, PatchError> {
    let operations = match serde_json::from_slice(patch).map_err(PatchError::NotJson)? {
        Value::Array(operations) => operations,
        other => {
            let expected = "a JSON list of operations";
            return Err(PatchError::WrongType { expected, found: type_name(&other) });
        }
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations { found: operations.len() });
    }
    let operations = operations.into_iter().enumerate().map(|(place, operation)| {
        serde_json::from_value(operation)
            .map_err(|source| PatchError::InvalidOperation { place, source })
    });
    operations.collect()
}

/// Looks only where the operation put something: everything else was looked at before.
fn check_depth(document: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
    let path = match operation {
        PatchOperation::Add(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Copy(_) => operation.path(),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    let parent = path.split_back().map_or("", |(parent, _)| parent.as_str());
    let depth = parent.matches('/').count();
    let fits = match RESULT_DEPTH_MAX.checked_sub(depth) {
        None => false,
        Some(left) => match path.last().map(|token| token.decoded().into_owned()) {
            None => bounds::is_within_depth(document, left),
            Some(last) => {
                let placed = match document.pointer(parent) {
                    Some(Value::Object(fields)) => fields.get(&last),
                    Some(Value::Array(items)) if last == "-" => items.last(),
                    Some(Value::Array(items)) => {
                        last.parse::<usize>().ok().and_then(|place| items.get(place))
                    }
                    Some(_) | None => None,
                };
                placed.is_none_or(|placed| bounds::is_within_depth(placed, left))
            }
        },
    };
    match fits {
        true => Ok(()),
        false => Err(PatchError::TooDeep),
    }
}

fn check_size(document: Value) -> Result<Value, PatchError> {
    match bounds::bytes_left(&document, RESULT_BYTES_MAX) {
        Some(_) => Ok(document),
        None => Err(PatchError::TooLarge),
    }
}

fn explain(place: usize, operation: &PatchOperation, kind: &PatchErrorKind) -> PatchError {
    let (name, from) = match operation {
        PatchOperation::Add(_) => ("add", None),
        PatchOperation::Remove(_) => ("remove", None),
        PatchOperation::Replace(_) => ("replace", None),
        PatchOperation::Move(operation) => ("move", Some(&operation.from)),
        PatchOperation::Copy(operation) => ("copy", Some(&operation.from)),
        PatchOperation::Test(_) => ("test", None),
    };
    let path = operation.path().to_string();
    let problem = match kind {
        PatchErrorKind::TestFailed => return PatchError::TestFailed { place, path },
        PatchErrorKind::InvalidPointer => "there is no such place".to_owned(),
        PatchErrorKind::InvalidFromPointer => {
            let from = from.map(ToString::to_string).unwrap_or_default();
            format!("there is nothing at {from:?}")
        }
        other => other.to_string(),
    };
    PatchError::NotApplicable { place, operation: name, path, problem }
}

/// What a value is, for a message.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
