//! The entries of `metadata.managedFields`: reading, writing, and keeping them few.
//! [`managed`](super::managed) changes what is in them.

use std::collections::{BTreeMap, btree_map};

use serde_json::{Map, Value};

use super::fields::{FieldSet, FieldsError};

/// Update entries of one object. Each program that ever writes an object leaves one, and an object
/// that many short-lived programs write would grow without end.
pub const UPDATE_ENTRIES_MAX: usize = 10;

/// Who owns what was written by the managers that had to make room.
pub const ANCIENT: &str = "ancient-changes";

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    /// RFC 3339, in UTC, to the second: their order is the order of their texts.
    pub time: Option<String>,
    /// Empty for the object itself.
    pub subresource: String,
    pub fields: FieldSet,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Author {
    manager: String,
    operation: Operation,
    subresource: String,
    api_version: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// The manager told what it wants, and what it no longer names goes.
    Apply,
    /// The manager wrote the fields, by create, update or patch.
    Update,
}

/// Why `metadata.managedFields` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("metadata.managedFields must be a list of objects")]
    NotAList,
    #[error("metadata.managedFields[{place}].{field} must be a string")]
    NotAString { place: usize, field: &'static str },
    #[error("metadata.managedFields[{place}].operation must be Apply or Update, not {found:?}")]
    Operation { place: usize, found: String },
    #[error("metadata.managedFields[{place}].apiVersion must not be empty")]
    NoApiVersion { place: usize },
    #[error("metadata.managedFields[{place}].fieldsType must be FieldsV1, not {found:?}")]
    FieldsType { place: usize, found: String },
    #[error("metadata.managedFields[{place}]")]
    Fields { place: usize, source: FieldsError },
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

impl Entry {
    /// Who it speaks for. An applier stays the same when it moves to another version of the kind;
    /// writers are told apart by the version that they wrote.
    pub(super) fn author(&self) -> Author {
        Author {
            manager: self.manager.clone(),
            operation: self.operation,
            subresource: self.subresource.clone(),
            api_version: match self.operation {
                Operation::Apply => String::new(),
                Operation::Update => self.api_version.clone(),
            },
        }
    }

    fn to_json(&self) -> Value {
        let mut entry = Map::new();
        let mut set = |name: &str, value: &str| {
            if !value.is_empty() {
                entry.insert(name.to_owned(), Value::from(value));
            }
        };
        set("manager", &self.manager);
        set("operation", self.operation.name());
        set("apiVersion", &self.api_version);
        set("time", self.time.as_deref().unwrap_or_default());
        set("fieldsType", "FieldsV1");
        set("subresource", &self.subresource);
        entry.insert("fieldsV1".to_owned(), self.fields.to_fields_v1());
        Value::Object(entry)
    }
}

/// Reads the value of `metadata.managedFields`. Entries of one author are put together.
pub fn decode(managed_fields: &Value) -> Result<Vec<Entry>, EntryError> {
    let items = match managed_fields {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err(EntryError::NotAList);
        }
    };
    let mut authors = BTreeMap::<Author, Entry>::new();
    for (place, item) in items.iter().enumerate() {
        add(&mut authors, decode_one(item, place)?);
    }
    Ok(authors.into_values().collect())
}

/// Writes the value of `metadata.managedFields`: appliers first, then the oldest first, so that
/// the same entries always look the same.
pub fn encode(mut entries: Vec<Entry>) -> Value {
    fn rank(entry: &Entry) -> impl Ord + '_ {
        (entry.operation, &entry.time, &entry.manager, &entry.api_version, &entry.subresource)
    }
    entries.sort_by(|left, right| rank(left).cmp(&rank(right)));
    Value::Array(entries.iter().map(Entry::to_json).collect())
}

/// Puts the oldest Update entries of a version together until there are few enough. Who wrote what
/// is forgotten; that somebody did is not.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let updates = |entries: &[Entry]| {
        entries.iter().filter(|entry| entry.operation == Operation::Update).count()
    };
    let mut excess = updates(entries).saturating_sub(UPDATE_ENTRIES_MAX);
    if excess == 0 {
        return;
    }
    entries.sort_by(|left, right| {
        (&left.time, &left.manager, &left.subresource).cmp(&(
            &right.time,
            &right.manager,
            &right.subresource,
        ))
    });
    let mut buckets = BTreeMap::<String, Entry>::new();
    let mut kept = BTreeMap::new();
    for entry in entries.drain(..) {
        if entry.operation == Operation::Apply || excess == 0 {
            add(&mut kept, entry);
            continue;
        }
        match buckets.get_mut(&entry.api_version) {
            None => {
                buckets.insert(entry.api_version.clone(), entry);
            }
            Some(bucket) => {
                bucket.manager = ANCIENT.to_owned();
                bucket.subresource = String::new();
                bucket.fields = bucket.fields.union(&entry.fields);
                bucket.time = entry.time;
                excess -= 1;
            }
        }
    }
    buckets.into_values().for_each(|bucket| add(&mut kept, bucket));
    *entries = kept.into_values().collect();
}

/// Adds an entry, or what it owns to the entry that its author has.
fn add(entries: &mut BTreeMap<Author, Entry>, entry: Entry) {
    match entries.entry(entry.author()) {
        btree_map::Entry::Occupied(mut other) => {
            let other = other.get_mut();
            other.fields = other.fields.union(&entry.fields);
        }
        btree_map::Entry::Vacant(place) => {
            place.insert(entry);
        }
    }
}

fn decode_one(item: &Value, place: usize) -> Result<Entry, EntryError> {
    let Value::Object(item) = item else { return Err(EntryError::NotAList) };
    let text = |field: &'static str| match item.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Null) | None => Ok(String::new()),
        Some(_) => Err(EntryError::NotAString { place, field }),
    };
    let operation = match text("operation")?.as_str() {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        other => return Err(EntryError::Operation { place, found: other.to_owned() }),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err(EntryError::NoApiVersion { place });
    }
    let fields_type = text("fieldsType")?;
    if fields_type != "FieldsV1" {
        return Err(EntryError::FieldsType { place, found: fields_type });
    }
    let fields = match item.get("fieldsV1") {
        Some(fields) => FieldSet::from_fields_v1(fields)
            .map_err(|source| EntryError::Fields { place, source })?,
        None => FieldSet::default(),
    };
    Ok(Entry {
        manager: text("manager")?,
        operation,
        api_version,
        time: Some(text("time")?).filter(|time| !time.is_empty()),
        subresource: text("subresource")?,
        fields,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::{decode, encode};

    #[track_caller]
    fn check(managed_fields: &Value, expect: Expect) {
        expect.assert_eq(&match decode(managed_fields) {
            Ok(entries) => encode(entries).to_string(),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn says_which_entry_cannot_be_read_and_why() {
        let good = json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        let with = |name: &str, value: Value| {
            let mut entry = good.clone();
            entry[name] = value;
            json!([good, entry])
        };
        check(&json!({}), expect!["metadata.managedFields must be a list of objects"]);
        check(&json!([3]), expect!["metadata.managedFields must be a list of objects"]);
        check(
            &with("manager", json!(3)),
            expect!["metadata.managedFields[1].manager must be a string"],
        );
        check(
            &with("operation", json!("Delete")),
            expect![[
                r#"metadata.managedFields[1].operation must be Apply or Update, not "Delete""#
            ]],
        );
        check(
            &with("apiVersion", json!("")),
            expect!["metadata.managedFields[1].apiVersion must not be empty"],
        );
        check(
            &with("fieldsType", json!("FieldsV2")),
            expect![[r#"metadata.managedFields[1].fieldsType must be FieldsV1, not "FieldsV2""#]],
        );
        check(&with("fieldsV1", json!({"spec": {}})), expect!["metadata.managedFields[1]"]);
    }

    #[test]
    fn puts_appliers_first_then_the_oldest_and_entries_of_one_author_together() {
        let entry = |manager: &str, operation: &str, time: &str, field: &str| {
            json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
                "fieldsType": "FieldsV1", "fieldsV1": {field: {}}})
        };
        check(
            &json!([
                entry("b", "Update", "2026-01-01T00:00:02Z", "f:a"),
                entry("a", "Update", "2026-01-01T00:00:03Z", "f:b"),
                entry("c", "Apply", "2026-01-01T00:00:04Z", "f:c"),
                entry("b", "Update", "2026-01-01T00:00:02Z", "f:d"),
            ]),
            expect![[
                r#"[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:c":{}},"manager":"c","operation":"Apply","time":"2026-01-01T00:00:04Z"},{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{},"f:d":{}},"manager":"b","operation":"Update","time":"2026-01-01T00:00:02Z"},{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}},"manager":"a","operation":"Update","time":"2026-01-01T00:00:03Z"}]"#
            ]],
        );
    }
}
