//! What the server serves: one [`Kind`] for each group, version and resource.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use tombolo_document::schema::{Expressions, Path, Schema};

use crate::view::View;

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
    /// The same, compiled once: for validation, defaulting, pruning and server-side apply.
    pub compiled: Arc<Schema>,
    /// The rules in the schema, compiled when one is first asked for: most kinds have none, and a change of one
    /// definition makes all kinds anew.
    pub rules: Arc<OnceLock<Option<Expressions>>>,
    pub status_subresource: bool,
    pub scale: Option<Scale>,
    /// The columns of the table. The object's name stands before them, unless one of them is
    /// called `Name` itself: events show theirs last.
    pub columns: Vec<Column>,
    /// Field paths such as `spec.site` that field selectors may name, beside name and namespace.
    pub selectable_fields: Vec<String>,
    /// The version in which objects of this resource are stored. All versions share one schema
    /// family and convert by their `apiVersion` alone (strategy `None`).
    pub storage_version: String,
    /// The schema of the stored version: what is read goes through it.
    pub storage_schema: Arc<Schema>,
    /// The revision of the definition. Objects of before may have been written under another schema.
    pub defined_at: u64,
    /// The sentence of the Warning header for a version marked `deprecated`.
    pub deprecation: Option<String>,
    /// Of a kind whose objects are those of another, under other names.
    pub view: Option<&'static View>,
}

impl Kind {
    /// `apps.tombolo.dev`, or `configmaps` in the core group.
    pub fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// `tombolo.dev/v1alpha1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The rules that objects of the kind keep (`x-kubernetes-validations`). A definition whose rules do not
    /// compile is refused; one that another release has let through has none.
    pub fn expressions(&self) -> Option<&Expressions> {
        let compile = || Expressions::compile(&self.compiled, &Path::ROOT).ok().flatten();
        self.rules.get_or_init(compile).as_ref()
    }

    /// The group under which the objects are stored.
    pub fn storage_group(&self) -> &str {
        self.view.map_or(&self.group, |view| view.group)
    }

    /// The object in the form in which it is stored.
    pub fn as_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        let Some(view) = self.view else { return Cow::Borrowed(object) };
        let mut object = object.clone();
        view.store(&mut object);
        Cow::Owned(object)
    }

    /// The key of all objects of this kind. No version: it is the same object in each.
    pub fn prefix(&self) -> String {
        format!("{}/{}/", self.storage_group(), self.plural)
    }

    pub fn namespace_prefix(&self, namespace: &str) -> String {
        format!("{}/{}/{namespace}/", self.storage_group(), self.plural)
    }

    /// The key of one object. Names hold no slash, so that keys cannot be confused.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> String {
        let (group, namespace) = (self.storage_group(), namespace.unwrap_or_default());
        format!("{group}/{}/{namespace}/{name}", self.plural)
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
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
    /// What the cell shows. A JSONPath as kubectl writes it (`.spec.replicas`,
    /// `.status.conditions[?(@.type=="Ready")].status`), or, in the documents of the core kinds
    /// only, one of three forms for what a path cannot say:
    ///
    /// - `count(.data)`: the number of entries of an object or a list; 0 when it is absent;
    /// - `age(.lastTimestamp, .eventTime)`: the time since the first of the paths that is set, as
    ///   kubectl shows an age (`5m`, `3d`); `<unknown>` when none is;
    /// - `join(.involvedObject.kind, /, .involvedObject.name)`: the values of the arguments that
    ///   begin with a dot, the others as they stand, put together without spaces.
    ///
    /// Arguments are separated by a comma and any spaces.
    pub json_path: String,
}
