//! The schemas that every document shares: object and list metadata, delete options, status.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{group_version_kind, reference};
use crate::discovery::Review;

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const OWNER_REFERENCE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";
const MANAGED_FIELDS_ENTRY: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";

pub(super) fn components() -> BTreeMap<String, Value> {
    [
        (OBJECT_META, object_meta()),
        (OWNER_REFERENCE, owner_reference()),
        (MANAGED_FIELDS_ENTRY, managed_fields_entry()),
        (LIST_META, list_meta()),
        (DELETE_OPTIONS, delete_options()),
        (STATUS, status()),
        (PATCH, json!({"description": "A change to an object, in the form that the content type says.", "type": "object"})),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
    .into()
}

/// The two fields that say what an object is.
pub(super) fn type_properties() -> [(String, Value); 2] {
    [
        (
            "apiVersion".to_owned(),
            text("APIVersion defines the group and the version in which the object is written."),
        ),
        ("kind".to_owned(), text("What the object is, in CamelCase.")),
    ]
}

pub(super) fn scale() -> Value {
    let [api_version, kind] = type_properties().map(|(_, property)| property);
    json!({
        "description": "How many copies of something are wanted, and how many there are.",
        "type": "object",
        "properties": {
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "description": "That of the object that is scaled.",
                "allOf": [reference(OBJECT_META)],
            },
            "spec": {
                "description": "What is wanted.", "type": "object",
                "properties": {"replicas": whole("How many copies are wanted.")},
            },
            "status": {
                "description": "What is there.", "type": "object",
                "properties": {
                    "replicas": whole("How many copies there are."),
                    "selector": text("The label selector that finds the copies."),
                },
            },
        },
        "x-kubernetes-group-version-kind": [group_version_kind("autoscaling", "v1", "Scale")],
    })
}

pub(super) fn review(review: &Review) -> Value {
    let [api_version, kind] = type_properties().map(|(_, property)| property);
    let open = |description: &str| {
        json!({
            "description": description, "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    };
    json!({
        "description": review.description, "type": "object",
        "properties": {
            "apiVersion": api_version, "kind": kind,
            "metadata": {"description": "Not used: a review is not kept.", "allOf": [reference(OBJECT_META)]},
            "spec": open("The question."),
            "status": open("The answer, filled in by the server."),
        },
        "x-kubernetes-group-version-kind":
            [group_version_kind(review.group, review.version, review.kind)],
    })
}

fn object_meta() -> Value {
    json!({
        "description": "What every object has beside its own fields.",
        "type": "object",
        "properties": {
            "name": text("What the object is called. No two objects of a kind in a namespace share it, and it never changes."),
            "generateName": text("A beginning for a name that the server completes; used when no name is given."),
            "namespace": text("The namespace that the object lives in; empty for kinds of the whole cluster."),
            "labels": texts("Keys and values to select objects by."),
            "annotations": texts("Keys and values for tools to keep with the object; nothing is selected by them."),
            "uid": text("Set by the server: unlike the name, never used for another object again."),
            "resourceVersion": text("Set by the server: the revision of the last change. An update that carries an older one is refused."),
            "generation": whole("Set by the server: grows with every change of what is wanted."),
            "creationTimestamp": time("Set by the server: when the object was created."),
            "deletionTimestamp": time("Set by the server: when the object was asked to go. It goes when its finalizers are gone."),
            "deletionGracePeriodSeconds": whole("Set by the server: how long the object may take to go."),
            "finalizers": {
                "description": "Who has still to clean up before the object may go; each removes its own entry.",
                "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
            },
            "ownerReferences": {
                "description": "The objects that this one belongs to. It goes when all of them are gone.",
                "type": "array", "items": reference(OWNER_REFERENCE),
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            },
            "managedFields": {
                "description": "Set by the server: who set which fields, for server-side apply.",
                "type": "array", "items": reference(MANAGED_FIELDS_ENTRY),
            },
            "selfLink": text("No longer filled in."),
        },
    })
}

fn owner_reference() -> Value {
    json!({
        "description": "Names an object, of the same namespace or of the cluster, that this one belongs to.",
        "type": "object", "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": text("The group and version of the owner."),
            "kind": text("The kind of the owner."),
            "name": text("The name of the owner."),
            "uid": text("The uid of the owner."),
            "controller": truth("Whether this owner is the one that manages the object; one at most is."),
            "blockOwnerDeletion": truth("Whether the owner, when deleted in the foreground, waits for this object to go first."),
        },
    })
}

fn managed_fields_entry() -> Value {
    json!({
        "description": "The fields that one manager has set by one way of writing.",
        "type": "object",
        "properties": {
            "manager": text("Who set the fields."),
            "operation": {"description": "How they were set.", "type": "string", "enum": ["Apply", "Update"]},
            "apiVersion": text("The version in which the fields are named."),
            "time": time("When this entry changed last."),
            "fieldsType": text("The form of fieldsV1: always FieldsV1."),
            "fieldsV1": {"description": "The fields, as a tree of their names.", "type": "object"},
            "subresource": text("The subresource through which they were set; empty for the object itself."),
        },
    })
}

fn list_meta() -> Value {
    json!({
        "description": "What every list has beside its items.",
        "type": "object",
        "properties": {
            "resourceVersion": text("The revision at which the list was read; a watch can begin there."),
            "continue": text("Asks for the next part of the list, when given back as a parameter."),
            "remainingItemCount": whole("How many objects follow this part, if that is known."),
            "selfLink": text("No longer filled in."),
        },
    })
}

fn delete_options() -> Value {
    let [api_version, kind] = type_properties().map(|(_, property)| property);
    json!({
        "description": "How to delete.",
        "type": "object",
        "properties": {
            "apiVersion": api_version, "kind": kind,
            "dryRun": {
                "description": "With All, everything is checked and nothing is changed.",
                "type": "array", "items": {"type": "string"},
            },
            "gracePeriodSeconds": whole("How long the object may take to go."),
            "orphanDependents": truth("Superseded by propagationPolicy: whether to leave what the object owns."),
            "preconditions": {
                "description": "What must be true of the object for it to be deleted.",
                "type": "object",
                "properties": {
                    "uid": text("The uid that it must have."),
                    "resourceVersion": text("The revision that it must have."),
                },
            },
            "propagationPolicy": {
                "description": "What becomes of what the object owns: it stays, goes afterwards, or goes first.",
                "type": "string", "enum": ["Orphan", "Background", "Foreground"],
            },
        },
    })
}

fn status() -> Value {
    let [api_version, kind] = type_properties().map(|(_, property)| property);
    json!({
        "description": "How a request came out.",
        "type": "object",
        "properties": {
            "apiVersion": api_version, "kind": kind,
            "metadata": {"description": "Of a list that could not be read on.", "allOf": [reference(LIST_META)]},
            "status": text("Success or Failure."),
            "code": whole("The HTTP status code."),
            "reason": text("The cause in one word, for programs."),
            "message": text("The cause in a sentence, for people."),
            "details": {
                "description": "Which object and which of its fields the message is about.",
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            },
        },
        "x-kubernetes-group-version-kind": [group_version_kind("", "v1", "Status")],
    })
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

fn time(description: &str) -> Value {
    json!({"description": description, "type": "string", "format": "date-time"})
}

fn whole(description: &str) -> Value {
    json!({"description": description, "type": "integer", "format": "int64"})
}

fn truth(description: &str) -> Value {
    json!({"description": description, "type": "boolean"})
}

fn texts(description: &str) -> Value {
    json!({
        "description": description, "type": "object", "additionalProperties": {"type": "string"},
    })
}
