//! CustomResourceDefinitions, field by field. A schema holds schemas, so that its table refers to itself.

use super::messages::{Field, METADATA, Shape, field};

pub(super) static DEFINITION: [Field; 3] = [
    METADATA,
    field(2, "spec", Shape::Message(&SPEC)),
    field(
        3,
        "status",
        Shape::Message(&[
            field(1, "conditions", Shape::Messages(CONDITION)),
            field(2, "acceptedNames", Shape::Message(NAMES)),
            field(3, "storedVersions", Shape::Texts),
        ]),
    ),
];

static SPEC: [Field; 6] = [
    field(1, "group", Shape::Text),
    field(3, "names", Shape::Message(NAMES)),
    field(4, "scope", Shape::Text),
    field(7, "versions", Shape::Messages(&VERSION)),
    field(9, "conversion", Shape::Message(CONVERSION)),
    field(10, "preserveUnknownFields", Shape::Truth),
];

const NAMES: &[Field] = &[
    field(1, "plural", Shape::Text),
    field(2, "singular", Shape::Text),
    field(3, "shortNames", Shape::Texts),
    field(4, "kind", Shape::Text),
    field(5, "listKind", Shape::Text),
    field(6, "categories", Shape::Texts),
];

const CONDITION: &[Field] = &[
    field(1, "type", Shape::Text),
    field(2, "status", Shape::Text),
    field(3, "lastTransitionTime", Shape::Time),
    field(4, "reason", Shape::Text),
    field(5, "message", Shape::Text),
];

const CONVERSION: &[Field] = &[
    field(1, "strategy", Shape::Text),
    field(
        2,
        "webhook",
        Shape::Message(&[
            field(
                2,
                "clientConfig",
                Shape::Message(&[
                    field(
                        1,
                        "service",
                        Shape::Message(&[
                            field(1, "namespace", Shape::Text),
                            field(2, "name", Shape::Text),
                            field(3, "path", Shape::PointerToText),
                            field(4, "port", Shape::PointerToInteger),
                        ]),
                    ),
                    field(2, "caBundle", Shape::Bytes),
                    field(3, "url", Shape::PointerToText),
                ]),
            ),
            field(3, "conversionReviewVersions", Shape::Texts),
        ]),
    ),
];

static VERSION: [Field; 9] = [
    field(1, "name", Shape::Text),
    // Required, so that they are said when they are false as well.
    field(2, "served", Shape::PointerToTruth),
    field(3, "storage", Shape::PointerToTruth),
    field(4, "schema", Shape::Message(&VALIDATION)),
    field(
        5,
        "subresources",
        Shape::Message(&[
            field(1, "status", Shape::PointerToMessage(&[])),
            field(
                2,
                "scale",
                Shape::Message(&[
                    field(1, "specReplicasPath", Shape::Text),
                    field(2, "statusReplicasPath", Shape::Text),
                    field(3, "labelSelectorPath", Shape::PointerToText),
                ]),
            ),
        ]),
    ),
    field(
        6,
        "additionalPrinterColumns",
        Shape::Messages(&[
            field(1, "name", Shape::Text),
            field(2, "type", Shape::Text),
            field(3, "format", Shape::Text),
            field(4, "description", Shape::Text),
            field(5, "priority", Shape::Integer),
            field(6, "jsonPath", Shape::Text),
        ]),
    ),
    field(7, "deprecated", Shape::Truth),
    field(8, "deprecationWarning", Shape::PointerToText),
    field(9, "selectableFields", Shape::Messages(&[field(1, "jsonPath", Shape::Text)])),
];

static VALIDATION: [Field; 1] = [field(1, "openAPIV3Schema", Shape::PointerToMessage(&SCHEMA))];

/// `dependencies` (32) is missing: no schema of a definition may have it.
static SCHEMA: [Field; 43] = [
    field(1, "id", Shape::Text),
    field(2, "$schema", Shape::Text),
    field(3, "$ref", Shape::PointerToText),
    field(4, "description", Shape::Text),
    field(5, "type", Shape::Text),
    field(6, "format", Shape::Text),
    field(7, "title", Shape::Text),
    field(8, "default", Shape::Json),
    field(9, "maximum", Shape::PointerToDouble),
    field(10, "exclusiveMaximum", Shape::Truth),
    field(11, "minimum", Shape::PointerToDouble),
    field(12, "exclusiveMinimum", Shape::Truth),
    field(13, "maxLength", Shape::PointerToInteger),
    field(14, "minLength", Shape::PointerToInteger),
    field(15, "pattern", Shape::Text),
    field(16, "maxItems", Shape::PointerToInteger),
    field(17, "minItems", Shape::PointerToInteger),
    field(18, "uniqueItems", Shape::Truth),
    field(19, "multipleOf", Shape::PointerToDouble),
    field(20, "enum", Shape::Jsons),
    field(21, "maxProperties", Shape::PointerToInteger),
    field(22, "minProperties", Shape::PointerToInteger),
    field(23, "required", Shape::Texts),
    field(24, "items", Shape::OneOrMany(&SCHEMA)),
    field(25, "allOf", Shape::Messages(&SCHEMA)),
    field(26, "oneOf", Shape::Messages(&SCHEMA)),
    field(27, "anyOf", Shape::Messages(&SCHEMA)),
    field(28, "not", Shape::PointerToMessage(&SCHEMA)),
    field(29, "properties", Shape::MapOfMessages(&SCHEMA)),
    field(30, "additionalProperties", Shape::MessageOrTruth(&SCHEMA)),
    field(31, "patternProperties", Shape::MapOfMessages(&SCHEMA)),
    field(33, "additionalItems", Shape::MessageOrTruth(&SCHEMA)),
    field(34, "definitions", Shape::MapOfMessages(&SCHEMA)),
    field(
        35,
        "externalDocs",
        Shape::Message(&[field(1, "description", Shape::Text), field(2, "url", Shape::Text)]),
    ),
    field(36, "example", Shape::Json),
    field(37, "nullable", Shape::Truth),
    field(38, "x-kubernetes-preserve-unknown-fields", Shape::PointerToTruth),
    field(39, "x-kubernetes-embedded-resource", Shape::Truth),
    field(40, "x-kubernetes-int-or-string", Shape::Truth),
    field(41, "x-kubernetes-list-map-keys", Shape::Texts),
    field(42, "x-kubernetes-list-type", Shape::PointerToText),
    field(43, "x-kubernetes-map-type", Shape::PointerToText),
    field(
        44,
        "x-kubernetes-validations",
        Shape::Messages(&[
            field(1, "rule", Shape::Text),
            field(2, "message", Shape::Text),
            field(3, "messageExpression", Shape::Text),
            field(4, "reason", Shape::PointerToText),
            field(5, "fieldPath", Shape::Text),
            field(6, "optionalOldSelf", Shape::PointerToTruth),
        ]),
    ),
];
