//! OpenAPI v2 in its protobuf form, the only one that Go clients read. Written from the JSON form,
//! field by field; the numbers are those of the gnostic project, whose form it is.

use serde_json::Value;

/// For the `Content-Type` of the answer. Clients ask for it with an `@` before `v1.0`, which a
/// media type may not have: they would not understand their own spelling in the answer.
pub const V2_BINARY_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Whether the `Accept` header asks for the protobuf form, in either spelling.
pub fn wants_v2_binary(accept: Option<&str>) -> bool {
    accept.is_some_and(|accept| accept.contains("application/com.github.proto-openapi.spec.v2"))
}

/// The document that [`v2`](super::v2) made, in the protobuf form.
pub fn v2_binary(document: &Value) -> Vec<u8> {
    let mut paths = Message::default();
    for (name, item) in entries(&document["paths"]) {
        paths.message(2, named(name, path_item(item)));
    }
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    let mut binary = Message::default();
    binary.text(1, &document["swagger"]);
    binary.message(2, info);
    binary.message(8, paths);
    binary.message(9, named_schemas(&document["definitions"]));
    binary.0
}

/// The keywords of a schema, and how and under which number each is written.
const SCHEMA: &[(&str, u64, Write)] = &[
    ("$ref", 1, Message::text),
    ("format", 2, Message::text),
    ("title", 3, Message::text),
    ("description", 4, Message::text),
    ("default", 5, Message::any),
    ("multipleOf", 6, Message::double),
    ("maximum", 7, Message::double),
    ("exclusiveMaximum", 8, Message::truth),
    ("minimum", 9, Message::double),
    ("exclusiveMinimum", 10, Message::truth),
    ("maxLength", 11, Message::whole),
    ("minLength", 12, Message::whole),
    ("pattern", 13, Message::text),
    ("maxItems", 14, Message::whole),
    ("minItems", 15, Message::whole),
    ("uniqueItems", 16, Message::truth),
    ("maxProperties", 17, Message::whole),
    ("minProperties", 18, Message::whole),
    ("required", 19, Message::texts),
    ("enum", 20, |message, number, values| {
        elements(values).for_each(|value| message.any(number, value));
    }),
    ("additionalProperties", 21, |message, number, value| {
        let mut item = Message::default();
        match value {
            Value::Object(_) => item.message(1, schema(value)),
            _ => item.truth(2, value),
        }
        message.message(number, item);
    }),
    ("type", 22, |message, number, value| {
        let mut item = Message::default();
        item.text(1, value);
        message.message(number, item);
    }),
    ("items", 23, |message, number, value| {
        let mut item = Message::default();
        item.message(1, schema(value));
        message.message(number, item);
    }),
    ("allOf", 24, |message, number, values| {
        elements(values).for_each(|value| message.message(number, schema(value)));
    }),
    ("properties", 25, |message, number, value| message.message(number, named_schemas(value))),
];

type Write = fn(&mut Message, u64, &Value);

/// As deep as the schema, whose depth the registration of a kind bounds.
fn schema(value: &Value) -> Message {
    let mut message = Message::default();
    for (name, number, write) in SCHEMA {
        if let Some(value) = value.get(name) {
            write(&mut message, *number, value);
        }
    }
    message.extensions(31, value);
    message
}

fn named_schemas(schemas: &Value) -> Message {
    let mut message = Message::default();
    for (name, value) in entries(schemas) {
        message.message(1, named(name, schema(value)));
    }
    message
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (method, number) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
        if let Some(value) = item.get(method) {
            message.message(number, operation(value));
        }
    }
    message
}

fn operation(value: &Value) -> Message {
    let mut message = Message::default();
    message.text(3, &value["description"]);
    message.text(5, &value["operationId"]);
    message.texts(6, &value["produces"]);
    message.texts(7, &value["consumes"]);
    for parameter_value in elements(&value["parameters"]) {
        let mut item = Message::default();
        item.message(1, parameter(parameter_value));
        message.message(8, item);
    }
    let mut responses = Message::default();
    for (code, response) in entries(&value["responses"]) {
        let mut schema_item = Message::default();
        schema_item.message(1, schema(&response["schema"]));
        let mut inner = Message::default();
        inner.text(1, &response["description"]);
        inner.message(2, schema_item);
        let mut response_value = Message::default();
        response_value.message(1, inner);
        responses.message(1, named(code, response_value));
    }
    message.message(9, responses);
    message.extensions(13, value);
    message
}

fn parameter(value: &Value) -> Message {
    let mut inner = Message::default();
    let mut message = Message::default();
    if value["in"] == "body" {
        inner.text(2, &value["name"]);
        inner.text(3, &value["in"]);
        inner.truth(4, &value["required"]);
        inner.message(5, schema(&value["schema"]));
        message.message(1, inner);
        return message;
    }
    // The two kinds differ in their own number and in that of their type.
    let (kind, type_) = if value["in"] == "path" { (4, 5) } else { (3, 6) };
    inner.truth(1, &value["required"]);
    inner.text(2, &value["in"]);
    inner.text(3, &value["description"]);
    inner.text(4, &value["name"]);
    inner.text(type_, &value["type"]);
    let mut plain = Message::default();
    plain.message(kind, inner);
    message.message(2, plain);
    message
}

fn named(name: &str, value: Message) -> Message {
    let mut message = Message::default();
    message.bytes(1, name.as_bytes());
    message.message(2, value);
    message
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A message as it grows. What has another type than it should is left out: these documents are
/// for reading, and the schemas in them were checked when they came.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn text(&mut self, number: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u64, values: &Value) {
        elements(values).for_each(|value| self.text(number, value));
    }

    fn truth(&mut self, number: u64, value: &Value) {
        if value.as_bool() == Some(true) {
            self.varint(number << 3);
            self.varint(1);
        }
    }

    fn whole(&mut self, number: u64, value: &Value) {
        if let Some(whole) = value.as_u64() {
            self.varint(number << 3);
            self.varint(whole);
        }
    }

    fn double(&mut self, number: u64, value: &Value) {
        if let Some(double) = value.as_f64() {
            self.varint(number << 3 | 1);
            self.0.extend(double.to_le_bytes());
        }
    }

    /// A value of any type is written as YAML, of which JSON is a part.
    fn any(&mut self, number: u64, value: &Value) {
        let mut any = Message::default();
        any.bytes(2, value.to_string().as_bytes());
        self.message(number, any);
    }

    fn extensions(&mut self, number: u64, value: &Value) {
        for (name, value) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
            let mut any = Message::default();
            any.bytes(2, value.to_string().as_bytes());
            self.message(number, named(name, any));
        }
    }

    fn message(&mut self, number: u64, message: Message) {
        self.bytes(number, &message.0);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(low_byte(value) | 0x80);
            value >>= 7;
        }
        self.0.push(low_byte(value));
    }
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}
