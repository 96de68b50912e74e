//! What the server serves: one [`Kind`] for each group, version and resource.

use serde_json::Value;

/// One served kind in one version. Made from a CustomResourceDefinition document: our own kinds
/// and the core kinds come in that form too, so that there is one mechanism.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub scope: Scope,
    /// OpenAPI v3 schema of the whole object, `metadata` filled in.
    pub schema: Value,
    pub status_subresource: bool,
    pub scale: Option<Scale>,
    pub columns: Vec<Column>,
    /// Field paths such as `spec.site` that field selectors may name, beside name and namespace.
    pub selectable_fields: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// Where the scale subresource finds its numbers; paths such as `.spec.replicas`.
#[derive(Clone, Debug)]
pub struct Scale {
    pub spec_replicas_path: String,
    pub status_replicas_path: String,
    pub label_selector_path: Option<String>,
}

/// A printer column (`additionalPrinterColumns`).
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    pub format: String,
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i32,
    pub json_path: String,
}
