//! Objects as `kubectl get` shows them: the `Table` and the `PartialObjectMetadata` of
//! `meta.k8s.io/v1`.
//!
//! A kind's printer columns are compiled into [`Columns`] once, when it is registered; the handlers
//! of get, list and watch then render with it. Ages are rendered here and not by the client, so
//! the time is a parameter.

mod age;
mod cell;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use age::age;
pub use cell::Error;

use crate::{
    kinds::{Column, Kind},
    table::cell::Cell,
};

/// A kind's columns, ready to render.
#[derive(Clone, Debug)]
pub struct Columns {
    /// `columnDefinitions`, the name first.
    definitions: Value,
    cells: Vec<Cell>,
    /// The name is among `cells`, and need not stand before them.
    own_name: bool,
}

/// What a row carries of its object beside the cells: `?includeObject=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

/// Whether a table says what its columns are. In a watch only the first one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headings {
    Shown,
    LeftOut,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("includeObject is {found:?}; it can be None, Metadata or Object")]
pub struct BadIncludeObject {
    found: String,
}

impl IncludeObject {
    /// From the query parameter; absent or empty means the default.
    pub fn parse(parameter: Option<&str>) -> Result<IncludeObject, BadIncludeObject> {
        match parameter {
            None | Some("") => Ok(IncludeObject::default()),
            Some("None") => Ok(IncludeObject::None),
            Some("Metadata") => Ok(IncludeObject::Metadata),
            Some("Object") => Ok(IncludeObject::Object),
            Some(other) => Err(BadIncludeObject { found: other.chars().take(64).collect() }),
        }
    }
}

impl Columns {
    pub fn of(kind: &Kind) -> Result<Columns, Error> {
        Columns::compile(&kind.columns)
    }

    /// A kind that names no columns gets its age, as in Kubernetes.
    pub fn compile(columns: &[Column]) -> Result<Columns, Error> {
        let default = [age_column()];
        let columns = if columns.is_empty() { &default } else { columns };
        let own_name = columns.iter().any(|column| column.name == "Name");
        let mut definitions = Vec::with_capacity(columns.len() + 1);
        if !own_name {
            definitions.push(json!({
                "name": "Name", "type": "string", "format": "name", "priority": 0,
                "description":
                    "What the object is called; no two of a kind in a namespace share it.",
            }));
        }
        let mut cells = Vec::with_capacity(columns.len());
        for column in columns {
            cells.push(Cell::compile(column)?);
            definitions.push(definition(column));
        }
        Ok(Columns { definitions: Value::Array(definitions), cells, own_name })
    }

    /// The table of a list. `metadata` is the list's own: resourceVersion, continue,
    /// remainingItemCount.
    pub fn list<'a>(
        &self,
        metadata: &Value,
        objects: impl IntoIterator<Item = &'a Value>,
        include: IncludeObject,
        now: Timestamp,
    ) -> Value {
        let rows = objects.into_iter().map(|object| self.row(object, include, now)).collect();
        self.table(list_metadata(metadata), Headings::Shown, rows)
    }

    /// The table of one object: the answer to a get, or the object of a watch event.
    pub fn one(
        &self,
        object: &Value,
        include: IncludeObject,
        headings: Headings,
        now: Timestamp,
    ) -> Value {
        let mut metadata = Map::new();
        if let Some(version) = object.pointer("/metadata/resourceVersion") {
            metadata.insert("resourceVersion".to_owned(), version.clone());
        }
        self.table(metadata, headings, vec![self.row(object, include, now)])
    }

    fn table(&self, metadata: Map<String, Value>, headings: Headings, rows: Vec<Value>) -> Value {
        let definitions = match headings {
            Headings::Shown => self.definitions.clone(),
            Headings::LeftOut => Value::Null,
        };
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": definitions, "rows": rows,
        })
    }

    /// One row of a table.
    pub fn row(&self, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
        let mut cells = Vec::with_capacity(self.cells.len() + 1);
        if !self.own_name {
            cells.push(object.pointer("/metadata/name").cloned().unwrap_or_default());
        }
        cells.extend(self.cells.iter().map(|cell| cell.render(object, now)));
        let mut row = Map::new();
        row.insert("cells".to_owned(), Value::Array(cells));
        match include {
            // Clients read a row without an object as one whose object is null.
            IncludeObject::None => None,
            IncludeObject::Metadata => row.insert("object".to_owned(), partial_object(object)),
            IncludeObject::Object => row.insert("object".to_owned(), object.clone()),
        };
        Value::Object(row)
    }
}

/// The object without its body: `PartialObjectMetadata`.
pub fn partial_object(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// The same for a list: `PartialObjectMetadataList`.
pub fn partial_object_list<'a>(
    metadata: &Value,
    objects: impl IntoIterator<Item = &'a Value>,
) -> Value {
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata(metadata),
        "items": objects.into_iter().map(partial_object).collect::<Vec<_>>(),
    })
}

fn list_metadata(metadata: &Value) -> Map<String, Value> {
    let mut kept = Map::new();
    for field in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(value) = metadata.get(field).filter(|value| !value.is_null()) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    kept
}

fn age_column() -> Column {
    Column {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        format: String::new(),
        description: "How long ago the object was created.".to_owned(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".to_owned(),
    }
}

fn definition(column: &Column) -> Value {
    let description = match column.description.as_str() {
        "" => format!("The value of {}.", column.json_path),
        description => description.to_owned(),
    };
    json!({
        "name": column.name, "type": column.type_, "format": column.format,
        "description": description, "priority": column.priority,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::sample;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn app(name: &str) -> Value {
        json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "App",
            "metadata": {"name": name, "resourceVersion": "7", "creationTimestamp": "2026-03-01T11:55:00Z"},
            "spec": {"replicas": 3},
        })
    }

    fn columns() -> Columns {
        let replicas = Column {
            name: "Replicas".to_owned(),
            type_: "integer".to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 1,
            json_path: ".spec.replicas".to_owned(),
        };
        Columns::compile(&[replicas, age_column()]).unwrap()
    }

    #[track_caller]
    fn check(table: &Value, expect: Expect) {
        expect.assert_eq(&sample::outline(table));
    }

    #[test]
    fn renders_a_list_with_its_metadata() {
        let metadata =
            json!({"resourceVersion": "9", "continue": "abc", "remainingItemCount": 4, "other": 1});
        let table =
            columns().list(&metadata, [&app("web"), &app("db")], IncludeObject::None, now());
        check(
            &table,
            expect![[r#"
            apiVersion: meta.k8s.io/v1
            columnDefinitions:
              -
                description: What the object is called; no two of a kind in a namespace share it.
                format: name
                name: Name
                priority: 0
                type: string
              - {description:The value of .spec.replicas.,format:,name:Replicas,priority:1,type:integer}
              - {description:How long ago the object was created.,format:,name:Age,priority:0,type:date}
            kind: Table
            metadata: {continue:abc,remainingItemCount:4,resourceVersion:9}
            rows: [{cells:[web,3,5m]},{cells:[db,3,5m]}]
        "#]],
        );
    }

    #[test]
    fn renders_one_object_with_as_much_of_it_as_asked_for() {
        let row = |include| {
            columns().one(&app("web"), include, Headings::LeftOut, now())["rows"][0].clone()
        };
        check(
            &row(IncludeObject::None),
            expect![[r#"
            cells: [web,3,5m]
        "#]],
        );
        check(
            &row(IncludeObject::Metadata),
            expect![[r#"
            cells: [web,3,5m]
            object:
              apiVersion: meta.k8s.io/v1
              kind: PartialObjectMetadata
              metadata: {creationTimestamp:2026-03-01T11:55:00Z,name:web,resourceVersion:7}
        "#]],
        );
        check(
            &row(IncludeObject::Object),
            expect![[r#"
            cells: [web,3,5m]
            object:
              apiVersion: tombolo.dev/v1alpha1
              kind: App
              metadata: {creationTimestamp:2026-03-01T11:55:00Z,name:web,resourceVersion:7}
              spec: {replicas:3}
        "#]],
        );
    }

    #[test]
    fn leaves_the_headings_out_of_later_watch_events() {
        let table = columns().one(&app("web"), IncludeObject::None, Headings::LeftOut, now());
        check(
            &table,
            expect![[r#"
            apiVersion: meta.k8s.io/v1
            columnDefinitions: null
            kind: Table
            metadata: {resourceVersion:7}
            rows: [{cells:[web,3,5m]}]
        "#]],
        );
    }

    #[test]
    fn shows_the_age_of_a_kind_without_columns() {
        let table = Columns::compile(&[]).unwrap().list(
            &json!({}),
            [&app("web")],
            IncludeObject::None,
            now(),
        );
        assert_eq!(table["rows"], json!([{"cells": ["web", "5m"]}]));
    }

    #[test]
    fn renders_the_metadata_of_a_list_alone() {
        check(
            &partial_object_list(&json!({"resourceVersion": "9"}), [&app("web")]),
            expect![[r#"
            apiVersion: meta.k8s.io/v1
            items:
              -
                apiVersion: meta.k8s.io/v1
                kind: PartialObjectMetadata
                metadata: {creationTimestamp:2026-03-01T11:55:00Z,name:web,resourceVersion:7}
            kind: PartialObjectMetadataList
            metadata: {resourceVersion:9}
        "#]],
        );
    }

    #[test]
    fn refuses_an_unknown_include_object() {
        assert_eq!(IncludeObject::parse(None), Ok(IncludeObject::Metadata));
        assert_eq!(IncludeObject::parse(Some("Object")), Ok(IncludeObject::Object));
        let error = IncludeObject::parse(Some("all")).unwrap_err();
        expect![[r#"includeObject is "all"; it can be None, Metadata or Object"#]]
            .assert_eq(&error.to_string());
    }
}
