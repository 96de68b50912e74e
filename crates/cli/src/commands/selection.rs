//! Which objects a command is about: from words and selectors to requests.
//!
//! Called by `get`, `describe`, `delete` and `wait`.

use serde_json::Value;

use crate::{
    args::Selection,
    catalogue::Resource,
    connection::{Connection, Query},
    failure::Failure,
    follow,
};

/// A server with more than this in one answer is asked in several.
pub(super) const CHUNK_SIZE: u32 = 500;

impl Selection {
    pub(super) fn query(&self) -> Query {
        Query::default()
            .with_some("labelSelector", self.selector.as_deref())
            .with_some("fieldSelector", self.field_selector.as_deref())
    }

    pub(super) fn is_narrowed(&self) -> bool {
        self.selector.is_some() || self.field_selector.is_some()
    }

    /// The collection to list: of one namespace, or of all.
    pub(super) fn collection(&self, resource: &Resource, connection: &Connection) -> String {
        let namespace = (!self.all_namespaces).then_some(connection.namespace.as_str());
        resource.collection(namespace)
    }

    /// Names and selectors exclude each other: a name is as narrow as it gets.
    pub(super) fn refuse_with_names(&self, names: &[String]) -> Result<(), Failure> {
        match self.is_narrowed() && !names.is_empty() {
            true => Err(Failure::usage("a selector goes with a kind, not with names")),
            false => Ok(()),
        }
    }
}

/// All pages of a list, put together as one answer: a Table, or a list of objects.
pub(super) async fn list(
    connection: &Connection,
    path: &str,
    query: &Query,
    accept: &str,
    chunk_size: u32,
) -> Result<Value, Failure> {
    let limit = chunk_size.to_string();
    let query = match chunk_size {
        0 => query.clone(),
        _ => query.clone().with("limit", limit),
    };
    let mut answer = connection.get_as(&query.after(path), accept).await?;
    while let Some(token) = next_page(&answer) {
        let query = query.clone().with("continue", token);
        let page = connection.get_as(&query.after(path), accept).await?;
        answer = joined(answer, page);
    }
    Ok(answer)
}

fn next_page(answer: &Value) -> Option<String> {
    let token = answer["metadata"]["continue"].as_str()?;
    (!token.is_empty()).then(|| token.to_owned())
}

/// The metadata of the last page counts: it says whether there is more.
fn joined(mut answer: Value, mut page: Value) -> Value {
    for key in ["rows", "items"] {
        let more = page.get_mut(key).map(Value::take);
        let all = answer.get_mut(key).and_then(Value::as_array_mut);
        if let (Some(all), Some(Value::Array(more))) = (all, more) {
            all.extend(more);
        }
    }
    answer["metadata"] = page["metadata"].take();
    answer
}

/// The items of a list. Items do not repeat their kind; whoever prints one needs it.
pub(super) fn items(resource: &Resource, mut list: Value) -> Vec<Value> {
    let mut items = match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    for item in &mut items {
        if let Some(item) = item.as_object_mut() {
            item.entry("apiVersion").or_insert_with(|| resource.api_version().into());
            item.entry("kind").or_insert_with(|| resource.kind.clone().into());
        }
    }
    items
}

/// The revision of a list, to watch from.
pub(super) fn list_revision(list: &Value) -> String {
    list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned()
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// Where to follow a single object: the collection, narrowed to its name.
pub(super) fn following<'a>(
    collection: &'a str,
    name: &str,
    resource_version: String,
    accept: &'a str,
) -> follow::From<'a> {
    let query = Query::default().with("fieldSelector", format!("metadata.name={name}"));
    follow::From { path: collection, query, accept, resource_version }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pages_are_put_together_and_the_last_one_says_where_to_watch_from() {
        let first = json!({"metadata": {"continue": "x", "resourceVersion": "5"}, "items": [1]});
        let last = json!({"metadata": {"continue": "", "resourceVersion": "5"}, "items": [2, 3]});
        assert_eq!(next_page(&first).as_deref(), Some("x"));
        let all = joined(first, last);
        assert_eq!(all["items"], json!([1, 2, 3]));
        assert_eq!(next_page(&all), None);
        assert_eq!(list_revision(&all), "5");
    }

    #[test]
    fn items_learn_their_kind() {
        let list = json!({"items": [{"metadata": {"name": "a"}}, {"kind": "Own"}]});
        let items = items(&crate::catalogue::known("App"), list);
        assert_eq!(items[0]["apiVersion"], "tombolo.dev/v1alpha1");
        assert_eq!(items[0]["kind"], "App");
        assert_eq!(items[1]["kind"], "Own");
    }
}
