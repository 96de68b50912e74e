//! How large and how deep a document is, found out without going further than it may be.

use json_patch::PatchOperation;
use serde_json::Value;

use super::PatchError;

/// What the operations of one patch may still do.
#[derive(Debug)]
pub(super) struct Budget {
    /// In bytes.
    pub(super) copied: usize,
    /// In bytes and list items.
    pub(super) moved: usize,
}

impl Budget {
    /// Takes off what `operation` is about to cost. A place that is not there costs nothing here;
    /// the operation itself will say so.
    pub(super) fn spend(
        &mut self,
        document: &Value,
        operation: &PatchOperation,
    ) -> Result<(), PatchError> {
        let path = operation.path().as_str();
        let shifted = match operation {
            PatchOperation::Add(_) | PatchOperation::Remove(_) | PatchOperation::Copy(_) => {
                items_beside(document, path)
            }
            PatchOperation::Move(operation) => {
                items_beside(document, path) + items_beside(document, operation.from.as_str())
            }
            PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
        };
        self.moved = self.moved.checked_sub(shifted).ok_or(PatchError::TooMuchMoved)?;
        match operation {
            PatchOperation::Copy(operation) => {
                if let Some(source) = document.pointer(operation.from.as_str()) {
                    self.copied = bytes_left(source, self.copied).ok_or(PatchError::TooLarge)?;
                }
            }
            PatchOperation::Move(operation) => {
                if let Some(source) = document.pointer(operation.from.as_str()) {
                    self.moved = bytes_left(source, self.moved).ok_or(PatchError::TooMuchMoved)?;
                }
            }
            PatchOperation::Add(_)
            | PatchOperation::Remove(_)
            | PatchOperation::Replace(_)
            | PatchOperation::Test(_) => (),
        }
        Ok(())
    }
}

/// The items of a list that make room for one at `path`. One at the end needs none.
fn items_beside(document: &Value, path: &str) -> usize {
    match path.rsplit_once('/') {
        None | Some((_, "-")) => 0,
        Some((parent, _)) => match document.pointer(parent) {
            Some(Value::Array(items)) => items.len(),
            Some(_) | None => 0,
        },
    }
}

/// What is left of `limit` bytes after writing `value` as JSON; None if they do not suffice.
/// Escapes are not counted: this guards memory, and needs no exact number.
pub(super) fn bytes_left(value: &Value, limit: usize) -> Option<usize> {
    match value {
        Value::Null | Value::Bool(true) => limit.checked_sub(4),
        Value::Bool(false) => limit.checked_sub(5),
        Value::Number(number) => limit.checked_sub(number.to_string().len()),
        Value::String(text) => limit.checked_sub(text.len() + 2),
        Value::Array(items) => {
            let limit = limit.checked_sub(2)?;
            items.iter().try_fold(limit, |left, item| bytes_left(item, left)?.checked_sub(1))
        }
        Value::Object(fields) => {
            let limit = limit.checked_sub(2)?;
            fields.iter().try_fold(limit, |left, (name, value)| {
                bytes_left(value, left)?.checked_sub(name.len() + 4)
            })
        }
    }
}

/// Whether nothing in `value` is nested deeper than `levels`.
pub(super) fn is_within_depth(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return !matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within_depth(item, below)),
        Value::Object(fields) => fields.values().all(|value| is_within_depth(value, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
