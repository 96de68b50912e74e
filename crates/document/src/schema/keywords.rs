//! Which keywords a schema may use, and where. The rows follow apiextensions v1.

/// Where a keyword may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On every node, and in the branches of `allOf`, `anyOf`, `oneOf` and `not`.
    Anywhere,
    /// Only on the nodes that make up the shape; a branch may restrict but not shape.
    ShapeOnly,
    /// Nowhere, for the reason given.
    Nowhere(&'static str),
}

const KEYWORDS: &[(&str, Place)] = &[
    ("$ref", Place::Nowhere("write the schema out in its place: references are not followed")),
    ("$schema", Place::Nowhere("the dialect is fixed")),
    ("additionalItems", Place::Nowhere("all items of a list have one schema, in \"items\"")),
    ("additionalProperties", Place::ShapeOnly),
    ("allOf", Place::Anywhere),
    ("anyOf", Place::Anywhere),
    ("default", Place::ShapeOnly),
    ("definitions", Place::Nowhere("write the schema out in its place")),
    ("dependencies", Place::Nowhere("structural schemas have no dependencies")),
    ("deprecated", Place::Nowhere("mark the whole version as deprecated instead")),
    ("description", Place::ShapeOnly),
    ("discriminator", Place::Nowhere("structural schemas have no discriminators")),
    ("enum", Place::Anywhere),
    ("example", Place::ShapeOnly),
    ("exclusiveMaximum", Place::Anywhere),
    ("exclusiveMinimum", Place::Anywhere),
    ("externalDocs", Place::ShapeOnly),
    ("format", Place::Anywhere),
    ("id", Place::Nowhere("schemas cannot be referred to, so they need no id")),
    ("items", Place::Anywhere),
    ("maxItems", Place::Anywhere),
    ("maxLength", Place::Anywhere),
    ("maxProperties", Place::Anywhere),
    ("maximum", Place::Anywhere),
    ("minItems", Place::Anywhere),
    ("minLength", Place::Anywhere),
    ("minProperties", Place::Anywhere),
    ("minimum", Place::Anywhere),
    ("multipleOf", Place::Anywhere),
    ("not", Place::Anywhere),
    ("nullable", Place::ShapeOnly),
    ("oneOf", Place::Anywhere),
    ("pattern", Place::Anywhere),
    ("patternProperties", Place::Nowhere("use \"additionalProperties\"")),
    ("properties", Place::Anywhere),
    ("readOnly", Place::Nowhere("use the status subresource for what users do not write")),
    ("required", Place::Anywhere),
    ("title", Place::ShapeOnly),
    // Checked apart: in a branch it may only spell out an integer-or-string.
    ("type", Place::Anywhere),
    ("uniqueItems", Place::Anywhere),
    ("writeOnly", Place::Nowhere("structural schemas have no write-only fields")),
    ("x-kubernetes-embedded-resource", Place::ShapeOnly),
    ("x-kubernetes-int-or-string", Place::ShapeOnly),
    ("x-kubernetes-list-map-keys", Place::ShapeOnly),
    ("x-kubernetes-list-type", Place::ShapeOnly),
    ("x-kubernetes-map-type", Place::ShapeOnly),
    ("x-kubernetes-preserve-unknown-fields", Place::ShapeOnly),
    ("x-kubernetes-validations", Place::Anywhere),
    ("xml", Place::Nowhere("objects are never written as XML")),
];

pub(crate) fn place(keyword: &str) -> Option<Place> {
    KEYWORDS.iter().find(|(name, _)| *name == keyword).map(|(_, place)| *place)
}

/// The keywords that a person may have meant.
pub(crate) fn allowed() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().filter(|(_, place)| !matches!(place, Place::Nowhere(_))).map(|(name, _)| *name)
}
