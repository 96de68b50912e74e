//! The core kinds that clients expect of any server, as documents in the same form as a user's
//! CustomResourceDefinition. The registry of kinds starts from [`builtin_kinds`].

use std::sync::LazyLock;

use serde_json::Value;

use crate::crd;
use crate::decode;
use crate::kinds::Kind;

/// One document for each kind.
const DOCUMENTS: [&str; 7] = [
    include_str!("builtin/configmap.yaml"),
    include_str!("builtin/customresourcedefinition.yaml"),
    include_str!("builtin/event.yaml"),
    include_str!("builtin/event-of-events.yaml"),
    include_str!("builtin/lease.yaml"),
    include_str!("builtin/namespace.yaml"),
    include_str!("builtin/secret.yaml"),
];

const METADATA: &str = include_str!("builtin/metadata.yaml");

/// Whether the `spec` of a definition names a resource that is built in.
pub fn serves(spec: &Value) -> bool {
    builtin_kinds()
        .iter()
        .any(|kind| spec["group"] == *kind.group && spec["names"]["plural"] == *kind.plural)
}

/// Compiled once; a clone is cheap beside its use.
pub fn builtin_kinds() -> Vec<Kind> {
    static KINDS: LazyLock<Vec<Kind>> =
        LazyLock::new(|| DOCUMENTS.iter().flat_map(|text| crd::build(&document(text))).collect());
    KINDS.clone()
}

/// The kind of definitions themselves, against which they are checked.
pub(crate) fn definition_kind() -> &'static Kind {
    static KIND: LazyLock<Kind> = LazyLock::new(|| {
        builtin_kinds()
            .into_iter()
            .find(|kind| kind.kind == "CustomResourceDefinition")
            .expect("the document is embedded")
    });
    &KIND
}

/// The schema of `apiVersion`, `kind` and `metadata`, which every kind gets.
pub(crate) fn object_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| document(METADATA));
    &SCHEMA
}

fn document(text: &str) -> Value {
    let mut documents = decode::yaml_documents(text).expect("a test reads every embedded document");
    documents.pop().expect("a test reads every embedded document")
}

#[cfg(test)]
mod tests;
