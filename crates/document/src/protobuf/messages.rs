//! The kinds that can be read and written as protobuf, field by field. The numbers are those that Kubernetes
//! has given the fields for ever.

use super::definitions;

/// One field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// In JSON.
    pub(super) name: &'static str,
    pub(super) shape: Shape,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Text,
    Integer,
    Truth,
    Bytes,
    /// Written whenever it is set, be it to nothing: an empty holder frees a lease.
    PointerToText,
    PointerToInteger,
    PointerToTruth,
    PointerToDouble,
    /// Means something when there is nothing in it: a status subresource.
    PointerToMessage(&'static [Field]),
    /// To the second, and to the microsecond.
    Time,
    MicroTime,
    Json,
    Jsons,
    Message(&'static [Field]),
    Texts,
    Messages(&'static [Field]),
    MapOfTexts,
    MapOfBytes,
    MapOfTextLists,
    MapOfMessages(&'static [Field]),
    /// One schema, or a list of them.
    OneOrMany(&'static [Field]),
    /// A schema, or whether anything is allowed.
    MessageOrTruth(&'static [Field]),
    /// What only the server fills in, of kinds that are not stored.
    Ignored,
}

pub(super) fn of(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    match (api_version, kind) {
        // Every group has its own name for the same options.
        (_, "DeleteOptions") => Some(DELETE_OPTIONS),
        ("v1", "Status") => Some(STATUS),
        ("autoscaling/v1", "Scale") => Some(SCALE),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => Some(SELF_SUBJECT_ACCESS_REVIEW),
        ("authorization.k8s.io/v1", "SubjectAccessReview") => Some(SUBJECT_ACCESS_REVIEW),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => Some(SELF_SUBJECT_RULES_REVIEW),
        ("authentication.k8s.io/v1", "TokenReview") => Some(TOKEN_REVIEW),
        ("authentication.k8s.io/v1", "SelfSubjectReview") => Some(SELF_SUBJECT_REVIEW),
        _ => stored(api_version, kind),
    }
}

/// Of the kinds whose objects can be answered with.
pub(super) fn stored(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    match (api_version, kind) {
        ("v1", "ConfigMap") => Some(CONFIG_MAP),
        ("v1", "Secret") => Some(SECRET),
        ("v1", "Namespace") => Some(NAMESPACE),
        ("v1", "Event") => Some(CORE_EVENT),
        ("events.k8s.io/v1", "Event") => Some(EVENT),
        ("coordination.k8s.io/v1", "Lease") => Some(LEASE),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => Some(&definitions::DEFINITION),
        _ => None,
    }
}

pub(super) const fn field(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, shape }
}

pub(super) const METADATA: Field = field(1, "metadata", Shape::Message(OBJECT_META));

const OBJECT_META: &[Field] = &[
    field(1, "name", Shape::Text),
    field(2, "generateName", Shape::Text),
    field(3, "namespace", Shape::Text),
    field(4, "selfLink", Shape::Text),
    field(5, "uid", Shape::Text),
    field(6, "resourceVersion", Shape::Text),
    field(7, "generation", Shape::Integer),
    field(8, "creationTimestamp", Shape::Time),
    field(9, "deletionTimestamp", Shape::Time),
    field(10, "deletionGracePeriodSeconds", Shape::PointerToInteger),
    field(11, "labels", Shape::MapOfTexts),
    field(12, "annotations", Shape::MapOfTexts),
    field(13, "ownerReferences", Shape::Messages(OWNER_REFERENCE)),
    field(14, "finalizers", Shape::Texts),
    field(17, "managedFields", Shape::Messages(MANAGED_FIELDS_ENTRY)),
];

const OWNER_REFERENCE: &[Field] = &[
    field(1, "kind", Shape::Text),
    field(3, "name", Shape::Text),
    field(4, "uid", Shape::Text),
    field(5, "apiVersion", Shape::Text),
    field(6, "controller", Shape::PointerToTruth),
    field(7, "blockOwnerDeletion", Shape::PointerToTruth),
];

const MANAGED_FIELDS_ENTRY: &[Field] = &[
    field(1, "manager", Shape::Text),
    field(2, "operation", Shape::Text),
    field(3, "apiVersion", Shape::Text),
    field(4, "time", Shape::Time),
    field(6, "fieldsType", Shape::Text),
    field(7, "fieldsV1", Shape::Json),
    field(8, "subresource", Shape::Text),
];

pub(super) const LIST_META: &[Field] = &[
    field(1, "selfLink", Shape::Text),
    field(2, "resourceVersion", Shape::Text),
    field(3, "continue", Shape::Text),
    field(4, "remainingItemCount", Shape::PointerToInteger),
];

pub(super) const STATUS: &[Field] = &[
    field(1, "metadata", Shape::Message(LIST_META)),
    field(2, "status", Shape::Text),
    field(3, "message", Shape::Text),
    field(4, "reason", Shape::Text),
    field(
        5,
        "details",
        Shape::Message(&[
            field(1, "name", Shape::Text),
            field(2, "group", Shape::Text),
            field(3, "kind", Shape::Text),
            field(
                4,
                "causes",
                Shape::Messages(&[
                    field(1, "reason", Shape::Text),
                    field(2, "message", Shape::Text),
                    field(3, "field", Shape::Text),
                ]),
            ),
            field(5, "retryAfterSeconds", Shape::Integer),
            field(6, "uid", Shape::Text),
        ]),
    ),
    field(6, "code", Shape::Integer),
];

const DELETE_OPTIONS: &[Field] = &[
    field(1, "gracePeriodSeconds", Shape::PointerToInteger),
    field(2, "preconditions", Shape::Message(PRECONDITIONS)),
    field(3, "orphanDependents", Shape::PointerToTruth),
    field(4, "propagationPolicy", Shape::PointerToText),
    field(5, "dryRun", Shape::Texts),
    field(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Shape::PointerToTruth),
];

const PRECONDITIONS: &[Field] =
    &[field(1, "uid", Shape::PointerToText), field(2, "resourceVersion", Shape::PointerToText)];

const CONFIG_MAP: &[Field] = &[
    METADATA,
    field(2, "data", Shape::MapOfTexts),
    field(3, "binaryData", Shape::MapOfBytes),
    field(4, "immutable", Shape::PointerToTruth),
];

const SECRET: &[Field] = &[
    METADATA,
    field(2, "data", Shape::MapOfBytes),
    field(3, "type", Shape::Text),
    field(4, "stringData", Shape::MapOfTexts),
    field(5, "immutable", Shape::PointerToTruth),
];

const NAMESPACE: &[Field] = &[
    METADATA,
    field(2, "spec", Shape::Message(&[field(1, "finalizers", Shape::Texts)])),
    field(
        3,
        "status",
        Shape::Message(&[
            field(1, "phase", Shape::Text),
            field(2, "conditions", Shape::Messages(NAMESPACE_CONDITION)),
        ]),
    ),
];

const NAMESPACE_CONDITION: &[Field] = &[
    field(1, "type", Shape::Text),
    field(2, "status", Shape::Text),
    field(4, "lastTransitionTime", Shape::Time),
    field(5, "reason", Shape::Text),
    field(6, "message", Shape::Text),
];

const CORE_EVENT: &[Field] = &[
    METADATA,
    field(2, "involvedObject", Shape::Message(OBJECT_REFERENCE)),
    field(3, "reason", Shape::Text),
    field(4, "message", Shape::Text),
    field(5, "source", Shape::Message(EVENT_SOURCE)),
    field(6, "firstTimestamp", Shape::Time),
    field(7, "lastTimestamp", Shape::Time),
    field(8, "count", Shape::Integer),
    field(9, "type", Shape::Text),
    field(10, "eventTime", Shape::MicroTime),
    field(11, "series", Shape::Message(EVENT_SERIES)),
    field(12, "action", Shape::Text),
    field(13, "related", Shape::Message(OBJECT_REFERENCE)),
    field(14, "reportingComponent", Shape::Text),
    field(15, "reportingInstance", Shape::Text),
];

const EVENT: &[Field] = &[
    METADATA,
    field(2, "eventTime", Shape::MicroTime),
    field(3, "series", Shape::Message(EVENT_SERIES)),
    field(4, "reportingController", Shape::Text),
    field(5, "reportingInstance", Shape::Text),
    field(6, "action", Shape::Text),
    field(7, "reason", Shape::Text),
    field(8, "regarding", Shape::Message(OBJECT_REFERENCE)),
    field(9, "related", Shape::Message(OBJECT_REFERENCE)),
    field(10, "note", Shape::Text),
    field(11, "type", Shape::Text),
    field(12, "deprecatedSource", Shape::Message(EVENT_SOURCE)),
    field(13, "deprecatedFirstTimestamp", Shape::Time),
    field(14, "deprecatedLastTimestamp", Shape::Time),
    field(15, "deprecatedCount", Shape::Integer),
];

const OBJECT_REFERENCE: &[Field] = &[
    field(1, "kind", Shape::Text),
    field(2, "namespace", Shape::Text),
    field(3, "name", Shape::Text),
    field(4, "uid", Shape::Text),
    field(5, "apiVersion", Shape::Text),
    field(6, "resourceVersion", Shape::Text),
    field(7, "fieldPath", Shape::Text),
];

const EVENT_SOURCE: &[Field] = &[field(1, "component", Shape::Text), field(2, "host", Shape::Text)];

const EVENT_SERIES: &[Field] =
    &[field(1, "count", Shape::Integer), field(2, "lastObservedTime", Shape::MicroTime)];

const LEASE: &[Field] = &[
    METADATA,
    field(
        2,
        "spec",
        Shape::Message(&[
            field(1, "holderIdentity", Shape::PointerToText),
            field(2, "leaseDurationSeconds", Shape::PointerToInteger),
            field(3, "acquireTime", Shape::MicroTime),
            field(4, "renewTime", Shape::MicroTime),
            field(5, "leaseTransitions", Shape::PointerToInteger),
            field(6, "strategy", Shape::PointerToText),
            field(7, "preferredHolder", Shape::PointerToText),
        ]),
    ),
];

const RESOURCE_ATTRIBUTES: Field = field(
    1,
    "resourceAttributes",
    Shape::Message(&[
        field(1, "namespace", Shape::Text),
        field(2, "verb", Shape::Text),
        field(3, "group", Shape::Text),
        field(4, "version", Shape::Text),
        field(5, "resource", Shape::Text),
        field(6, "subresource", Shape::Text),
        field(7, "name", Shape::Text),
    ]),
);

const NON_RESOURCE_ATTRIBUTES: Field = field(
    2,
    "nonResourceAttributes",
    Shape::Message(&[field(1, "path", Shape::Text), field(2, "verb", Shape::Text)]),
);

const SELF_SUBJECT_ACCESS_REVIEW: &[Field] = &[
    METADATA,
    field(2, "spec", Shape::Message(&[RESOURCE_ATTRIBUTES, NON_RESOURCE_ATTRIBUTES])),
    field(3, "status", Shape::Ignored),
];

const SUBJECT_ACCESS_REVIEW: &[Field] = &[
    METADATA,
    field(
        2,
        "spec",
        Shape::Message(&[
            RESOURCE_ATTRIBUTES,
            NON_RESOURCE_ATTRIBUTES,
            field(3, "user", Shape::Text),
            field(4, "groups", Shape::Texts),
            field(5, "extra", Shape::MapOfTextLists),
            field(6, "uid", Shape::Text),
        ]),
    ),
    field(3, "status", Shape::Ignored),
];

const SELF_SUBJECT_RULES_REVIEW: &[Field] = &[
    METADATA,
    field(2, "spec", Shape::Message(&[field(1, "namespace", Shape::Text)])),
    field(3, "status", Shape::Ignored),
];

const TOKEN_REVIEW: &[Field] = &[
    METADATA,
    field(
        2,
        "spec",
        Shape::Message(&[field(1, "token", Shape::Text), field(2, "audiences", Shape::Texts)]),
    ),
    field(3, "status", Shape::Ignored),
];

const SCALE: &[Field] = &[
    METADATA,
    field(2, "spec", Shape::Message(&[field(1, "replicas", Shape::Integer)])),
    field(3, "status", Shape::Ignored),
];

const SELF_SUBJECT_REVIEW: &[Field] = &[METADATA, field(2, "status", Shape::Ignored)];
