//! What happens to an object between the client and the store: pure functions from the body and
//! what lives now to what shall be written. Called by [`crate::write`] and [`crate::remove`].

use serde_json::{Map, Value, json};
use tombolo_model::names;

use crate::kinds::{Kind, Scope};
use crate::request::Propagation;
use crate::status::{Failure, Invalid, Problem};

/// The finalizers that the server itself works off, in [`crate::garbage`].
pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";
pub const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The entry in `spec.finalizers` of a namespace that holds it until it is empty.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";

/// What only the server can know; passed in, so that everything here stays a function of values.
#[derive(Clone, Copy, Debug)]
pub struct Birth<'a> {
    pub now: &'a str,
    pub uid: &'a str,
    /// Random letters for `generateName`.
    pub suffix: &'a str,
}

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
    /// The main part, and what holds a namespace.
    Finalize,
}

/// What a delete comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// Nothing holds it: it goes now.
    Remove,
    /// Finalizers hold it: it is marked, and goes when they are gone.
    Mark(Value),
    /// It was marked before.
    Pending,
}

/// Metadata that belongs to the server and survives whatever a client sends.
const SERVER_FIELDS: &[&str] = &[
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// A new object from the body of a create: named, stamped, and without what is not the client's.
pub fn create(
    kind: &Kind,
    body: Value,
    namespace: Option<&str>,
    birth: Birth<'_>,
) -> Result<Value, Failure> {
    let mut object = typed(kind, body)?;
    place(kind, &mut object, namespace)?;
    if !text(&object, "resourceVersion").is_empty() {
        return Err(Failure::bad_request(
            "metadata.resourceVersion: must not be set on an object to be created",
        ));
    }
    let metadata = metadata_mut(&mut object);
    for field in SERVER_FIELDS {
        metadata.remove(*field);
    }
    metadata.remove("resourceVersion");
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() && !prefix.is_empty() {
        // Room for the suffix within the 63 characters that a label value may have.
        let kept: String = prefix.chars().take(58).collect();
        metadata.insert("name".into(), json!(format!("{kept}{}", birth.suffix)));
    }
    metadata.insert("uid".into(), json!(birth.uid));
    metadata.insert("creationTimestamp".into(), json!(birth.now));
    metadata.insert("generation".into(), json!(1));

    if kind.status_subresource {
        root_mut(&mut object).remove("status");
    }
    let problems = name_problems(kind, &object);
    match problems.as_slice() {
        [] => Ok(object),
        _ => Err(Failure::invalid(kind, text(&object, "name"), &problems)),
    }
}

/// What lives now, changed as far as `part` allows; refuses a body about another object or an
/// older state of this one.
pub fn update(kind: &Kind, live: &Value, body: Value, part: Part) -> Result<Value, Failure> {
    let mut object = typed(kind, body)?;
    place(kind, &mut object, namespace_of(live))?;
    let name = text(live, "name");
    match text(&object, "name") {
        "" => {
            metadata_mut(&mut object).insert("name".into(), json!(name));
        }
        found if found != name => {
            return Err(Failure::bad_request(format!(
                "the name of the object ({found}) does not match the name on the URL ({name})"
            )));
        }
        _ => (),
    }
    let uid = text(&object, "uid");
    if !uid.is_empty() && uid != text(live, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(live, "uid")
        );
        return Err(Failure::conflict(kind, name, &why));
    }
    let revision = text(&object, "resourceVersion");
    if !revision.is_empty() && revision != text(live, "resourceVersion") {
        return Err(Failure::stale(kind, name));
    }
    match part {
        Part::Finalize => Ok(merge_main(kind, live, object)),
        Part::Main => {
            let mut merged = merge_main(kind, live, object);
            if kind.is("", "Namespace") && merged["spec"].is_null() {
                merged["spec"] = json!({});
            }
            // Whoever may change a namespace may not always let it go with things in it.
            if kind.is("", "Namespace")
                && let Some(spec) = merged["spec"].as_object_mut()
                && let Some(holders) = live["spec"].get("finalizers")
            {
                spec.insert("finalizers".into(), holders.clone());
            }
            Ok(merged)
        }
        Part::Status => Ok(merge_status(kind, live, &object)),
    }
}

fn merge_main(kind: &Kind, live: &Value, mut object: Value) -> Value {
    let metadata = metadata_mut(&mut object);
    for field in SERVER_FIELDS.iter().chain(&["resourceVersion"]) {
        match live["metadata"].get(*field) {
            Some(value) => metadata.insert((*field).to_owned(), value.clone()),
            None => metadata.remove(*field),
        };
    }
    if kind.status_subresource {
        match live.get("status") {
            Some(status) => root_mut(&mut object).insert("status".into(), status.clone()),
            None => root_mut(&mut object).remove("status"),
        };
    }
    object
}

fn merge_status(kind: &Kind, live: &Value, object: &Value) -> Value {
    let mut merged = live.clone();
    merged["apiVersion"] = json!(kind.api_version());
    let root = root_mut(&mut merged);
    match object.get("status") {
        Some(status) => root.insert("status".into(), status.clone()),
        None => root.remove("status"),
    };
    // Of a namespace Kubernetes takes what is written beside the status as well.
    let also: &[&str] = match kind.is("", "Namespace") {
        true => &["managedFields", "labels", "annotations"],
        false => &["managedFields"],
    };
    for field in also {
        if let Some(value) = object["metadata"].get(*field) {
            metadata_mut(&mut merged).insert((*field).to_owned(), value.clone());
        }
    }
    merged
}

/// What remains to be done when the schema has filled in defaults and found nothing wrong: what
/// the core kinds promise beyond their schema, what must not change, and the generation.
pub fn settle(kind: &Kind, live: Option<&Value>, object: Value) -> Result<Value, Failure> {
    let mut object = normalise(kind, object);
    if let Some(live) = live {
        let problems = change_problems(kind, live, &object);
        if !problems.is_empty() {
            return Err(Failure::invalid(kind, text(live, "name"), &problems));
        }
        count_generation(live, &mut object);
    }
    Ok(object)
}

/// Counts the generation up if what is wanted has changed.
fn count_generation(live: &Value, object: &mut Value) {
    let before = live["metadata"]["generation"].as_u64().unwrap_or(1);
    let without_status = |value: &Value| without(value, &["metadata", "apiVersion", "status"]);
    let changed = without_status(live) != without_status(object);
    metadata_mut(object).insert("generation".into(), json!(before + u64::from(changed)));
}

/// Whether two states of an object differ in their metadata alone.
pub fn same_wishes(live: &Value, object: &Value) -> bool {
    let rest = |value: &Value| without(value, &["metadata", "apiVersion"]);
    rest(live) == rest(object)
}

fn without(value: &Value, keys: &[&str]) -> Map<String, Value> {
    let mut rest = value.as_object().cloned().unwrap_or_default();
    rest.retain(|key, _| !keys.contains(&key.as_str()));
    rest
}

/// An object whose deletion was asked for goes as soon as nothing holds it any more.
pub fn is_released(object: &Value) -> bool {
    is_deleting(object) && holders(object).is_empty()
}

pub fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some_and(|time| !time.is_null())
}

pub fn delete(kind: &Kind, live: &Value, propagation: Option<Propagation>, now: &str) -> Deletion {
    let mut object = live.clone();
    let mut finalizers: Vec<Value> =
        live["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    // The last word counts: a later delete may choose another way.
    if propagation.is_some() {
        finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
    }
    match propagation {
        Some(Propagation::Foreground) => finalizers.push(json!(FOREGROUND)),
        Some(Propagation::Orphan) => finalizers.push(json!(ORPHAN)),
        Some(Propagation::Background) | None => (),
    }
    let metadata = metadata_mut(&mut object);
    match finalizers.as_slice() {
        [] => metadata.remove("finalizers"),
        _ => metadata.insert("finalizers".into(), Value::Array(finalizers)),
    };
    if holders(&object).is_empty() {
        return Deletion::Remove;
    }
    if is_deleting(live) {
        return if object == *live { Deletion::Pending } else { Deletion::Mark(object) };
    }
    metadata_mut(&mut object).insert("deletionTimestamp".into(), json!(now));
    metadata_mut(&mut object).insert("deletionGracePeriodSeconds".into(), json!(0));
    if kind.is("", "Namespace") {
        object["status"]["phase"] = json!("Terminating");
    }
    let generation = live["metadata"]["generation"].as_u64().unwrap_or(1);
    metadata_mut(&mut object).insert("generation".into(), json!(generation + 1));
    Deletion::Mark(object)
}

/// Everything that keeps a deleted object from going.
fn holders(object: &Value) -> Vec<&Value> {
    let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    let places: &[&str] = match is_namespace {
        true => &["/metadata/finalizers", "/spec/finalizers"],
        false => &["/metadata/finalizers"],
    };
    let lists = places.iter().filter_map(|place| object.pointer(place)?.as_array());
    lists.flatten().collect()
}

/// Checks that the body is an object of this kind, and gives it a metadata map.
fn typed(kind: &Kind, mut body: Value) -> Result<Value, Failure> {
    let Some(root) = body.as_object_mut() else {
        return Err(Failure::bad_request(format!(
            "the body is not an object; expected a {} of {}",
            kind.kind,
            kind.api_version()
        )));
    };
    for (field, expected) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
        match root.get(field) {
            Some(Value::String(found)) if *found == expected => (),
            // Typed clients leave it out of the core kinds, the Python one always: the address says it.
            None | Some(Value::Null) if is_core(kind) => {
                root.insert(field.into(), Value::String(expected));
            }
            None | Some(Value::Null) => return Err(untyped(kind, field, &body)),
            Some(found) => {
                return Err(Failure::bad_request(format!(
                    "{field}: found {found}, expected {expected:?} at this address"
                )));
            }
        }
    }
    match root.get("metadata") {
        None | Some(Value::Null) => {
            root.insert("metadata".into(), json!({}));
        }
        Some(Value::Object(_)) => (),
        Some(_) => return Err(Failure::bad_request("metadata: expected an object")),
    }
    for field in ["name", "namespace", "generateName", "uid", "resourceVersion"] {
        match body["metadata"].get(field) {
            None | Some(Value::Null | Value::String(_)) => (),
            Some(found) => {
                return Err(Failure::bad_request(format!(
                    "metadata.{field}: found {found}, expected text"
                )));
            }
        }
    }
    Ok(body)
}

/// Whether Kubernetes has types of its own for the kind.
pub(crate) fn is_core(kind: &Kind) -> bool {
    kind.group.is_empty() || kind.group.ends_with(".k8s.io")
}

/// More of a body than this does not help who reads the message.
const SHOWN_CHARS_MAX: usize = 200;

/// The body does not say what it is.
pub(crate) fn untyped(kind: &Kind, field: &str, body: &Value) -> Failure {
    let expected = kind.api_version();
    Failure::bad_request(match field {
        "kind" => {
            let shown: String = body.to_string().chars().take(SHOWN_CHARS_MAX).collect();
            format!("Object 'Kind' is missing in '{shown}'; expected kind: {}", kind.kind)
        }
        _ => format!(
            "the API version in the data () does not match the expected API version ({expected}); \
             give apiVersion: {expected}"
        ),
    })
}

/// Gives the object the namespace of the request, or refuses one that contradicts it.
fn place(kind: &Kind, object: &mut Value, namespace: Option<&str>) -> Result<(), Failure> {
    let found = text(object, "namespace").to_owned();
    match (kind.scope, namespace) {
        (Scope::Cluster, _) if !found.is_empty() => Err(Failure::bad_request(format!(
            "metadata.namespace: found {found:?}, but a {} lives in no namespace",
            kind.kind
        ))),
        (Scope::Cluster, _) => Ok(()),
        (Scope::Namespaced, None) => Err(Failure::bad_request(format!(
            "a {} lives in a namespace; use /namespaces/NAME/{}",
            kind.kind, kind.plural
        ))),
        (Scope::Namespaced, Some(wanted)) if found.is_empty() || found == wanted => {
            metadata_mut(object).insert("namespace".into(), json!(wanted));
            Ok(())
        }
        (Scope::Namespaced, Some(wanted)) => Err(Failure::bad_request(format!(
            "the namespace of the object ({found}) does not match the namespace on the URL \
             ({wanted})"
        ))),
    }
}

/// What a kind of the core group promises beyond its schema.
fn normalise(kind: &Kind, mut object: Value) -> Value {
    if kind.is("", "Namespace") {
        if !is_deleting(&object) {
            // Whoever may finalize may put others beside it.
            if object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                object["spec"]["finalizers"] = json!([NAMESPACE_FINALIZER]);
            }
            object["status"]["phase"] = json!("Active");
        }
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
    if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") && !is_deleting(&object) {
        hold(&mut object, CRD_CLEANUP);
    }
    if kind.is("", "Secret") {
        if let Some(Value::Object(plain)) = root_mut(&mut object).remove("stringData") {
            for (key, value) in plain {
                object["data"][key] = json!(encode_base64(value.as_str().unwrap_or_default()));
            }
        }
        if object["type"].is_null() {
            object["type"] = json!("Opaque");
        }
    }
    object
}

fn hold(object: &mut Value, finalizer: &str) {
    let finalizers = metadata_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|name| name == finalizer)
    {
        list.push(json!(finalizer));
    }
}

fn encode_base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn change_problems(kind: &Kind, live: &Value, object: &Value) -> Vec<Invalid> {
    let mut problems = Vec::new();
    let frozen = live["immutable"] == true && (kind.is("", "ConfigMap") || kind.is("", "Secret"));
    for field in ["data", "binaryData", "immutable"] {
        if frozen && live.get(field) != object.get(field) {
            problems.push(Invalid {
                field: field.to_owned(),
                problem: Problem::Forbidden,
                message: "cannot be changed: the object is immutable; delete it and make a new one"
                    .to_owned(),
            });
        }
    }
    if kind.is("", "Secret") && live["type"] != object["type"] {
        problems.push(Invalid {
            field: "type".to_owned(),
            problem: Problem::Invalid,
            message: format!("found {}, but the type of a secret never changes", object["type"]),
        });
    }
    let held = |name: &Value| {
        live["metadata"]["finalizers"].as_array().is_some_and(|list| list.contains(name))
    };
    for name in object["metadata"]["finalizers"].as_array().into_iter().flatten() {
        if is_deleting(live) && !held(name) {
            problems.push(Invalid {
                field: "metadata.finalizers".to_owned(),
                problem: Problem::Forbidden,
                message: format!("{name} cannot be added while the object is being deleted"),
            });
        }
    }
    problems
}

fn name_problems(kind: &Kind, object: &Value) -> Vec<Invalid> {
    let name = text(object, "name");
    if name.is_empty() {
        let message = "name or generateName is required";
        return vec![Invalid::new("metadata.name", Problem::Required, message)];
    }
    // A namespace becomes part of host names.
    let check = if kind.is("", "Namespace") { names::label } else { names::subdomain };
    let problem = check(name).err();
    let invalid = |message| Invalid::new("metadata.name", Problem::Invalid, message);
    problem.map(invalid).into_iter().collect()
}

/// A text of the metadata; empty if it is not there.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"].get(field).and_then(Value::as_str).unwrap_or_default()
}

pub fn namespace_of(object: &Value) -> Option<&str> {
    Some(text(object, "namespace")).filter(|namespace| !namespace.is_empty())
}

/// The map under `metadata`, made if the value has none.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    let metadata = root_mut(object).entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("it was just made one")
}

fn root_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    object.as_object_mut().expect("it was just made one")
}

#[cfg(test)]
mod tests;
