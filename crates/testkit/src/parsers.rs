//! Every parser that reads from outside, in one table: `tests/parsers.rs` feeds each with what is
//! almost right, and the targets in `fuzz/` with whatever a fuzzer comes up with.
//!
//! A parser may refuse; it may not panic, hang, or read its own output as something else.

use serde_json::Value;
use tombolo_apiserver::request::{Query, parse_path};
use tombolo_apiserver::schema::Schema;
use tombolo_apiserver::selector::{FieldSelector, LabelSelector};
use tombolo_apiserver::{accept, apply, crd, decode, jsonpath, patch, protobuf};
use tombolo_identity::Token;
use tombolo_model::quantity::{Arch, BitRate, Bytes, Cpu, Duration};

/// A parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Also the name of its fuzz target.
    pub name: &'static str,
    /// Inputs that are right, or nearly: what mutation starts from.
    pub seeds: &'static [&'static str],
    pub read: fn(&[u8]),
}

pub const PARSERS: &[Parser] = &[
    Parser {
        name: "accept",
        seeds: &["application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5, */*"],
        read: |data| {
            let _ = accept::negotiate(Some(&text(data)), accept::OF_A_LIST);
        },
    },
    Parser {
        name: "backup",
        seeds: &["tombolo"],
        read: |data| {
            let _ = tombolo_store::verify_backup(data);
        },
    },
    Parser {
        name: "definition",
        seeds: &[
            r#"{"spec":{"group":"a.io","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object"}}}}}]},"metadata":{"name":"things.a.io"}}"#,
        ],
        read: |data| {
            if let Ok(decoded) = decode::json(data) {
                let _ = crd::kinds(&decoded.value);
            }
        },
    },
    Parser {
        name: "field-selector",
        seeds: &["metadata.name=a,metadata.namespace!=b", r"metadata.name=a\,b\=c"],
        read: |data| {
            if let Ok(selector) = FieldSelector::parse(&text(data), "Thing", &[]) {
                let again = FieldSelector::parse(&selector.to_string(), "Thing", &[]);
                assert_eq!(again.expect("what we write can be read"), selector);
            }
        },
    },
    Parser {
        name: "json-body",
        seeds: &[
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#,
        ],
        read: |data| {
            if let Ok(decoded) = decode::json(data) {
                let _ = tombolo_model::validate::object(&decoded.value);
            }
        },
    },
    Parser {
        name: "json-patch",
        seeds: &[r#"[{"op":"add","path":"/a/0","value":1},{"op":"copy","from":"/a","path":"/b"}]"#],
        read: |data| {
            let document = serde_json::json!({"a": [1, 2], "metadata": {"name": "x"}});
            let _ = patch::json_patch(&document, data);
            let _ = patch::merge_patch(&document, data);
            let _ = patch::strategic_merge_patch(&document, data);
        },
    },
    Parser {
        name: "jsonpath",
        seeds: &[r#".status.conditions[?(@.type=="Ready")].status"#, "['a.b'][0].c[*]"],
        read: |data| {
            if let Ok(path) = jsonpath::Path::parse(&text(data)) {
                let _ = path.find(&serde_json::json!({"a": [{"b": 1}], "status": {}}));
            }
        },
    },
    Parser {
        name: "label-selector",
        seeds: &["a=b,c!=d,e in (x,y),f notin (z),g,!h", "a==b"],
        read: |data| {
            if let Ok(selector) = LabelSelector::parse(&text(data)) {
                let again = LabelSelector::parse(&selector.to_string());
                assert_eq!(again.expect("what we write can be read"), selector);
            }
        },
    },
    Parser {
        name: "managed-fields",
        seeds: &[r#"{"f:spec":{".":{},"k:{\"name\":\"a\"}":{"f:image":{}},"v:1":{}}}"#],
        read: |data| {
            let Ok(decoded) = decode::json(data) else { return };
            if let Ok(fields) = apply::FieldSet::from_fields_v1(&decoded.value) {
                let again = apply::FieldSet::from_fields_v1(&fields.to_fields_v1());
                assert_eq!(again.expect("what we write can be read"), fields);
            }
        },
    },
    Parser {
        name: "protobuf-body",
        seeds: &["k8s\0\n\u{f}\n\u{2}v1\u{12}\tNamespace\u{12}\u{5}\n\u{3}\n\u{1}a"],
        read: |data| {
            let _ = protobuf::decode(data);
        },
    },
    Parser {
        name: "quantity",
        seeds: &["500m", "0.5", "200Mi", "512MB", "1h30m", "10Mbps", "1e3", "aarch64"],
        read: |data| {
            let text = text(data);
            if let Ok(cpu) = text.parse::<Cpu>() {
                assert_eq!(cpu.to_string().parse::<Cpu>().expect("ours"), cpu);
            }
            if let Ok(bytes) = text.parse::<Bytes>() {
                assert_eq!(bytes.to_string().parse::<Bytes>().expect("ours"), bytes);
            }
            if let Ok(rate) = text.parse::<BitRate>() {
                assert_eq!(rate.to_string().parse::<BitRate>().expect("ours"), rate);
            }
            if let Ok(duration) = text.parse::<Duration>() {
                assert_eq!(duration.to_string().parse::<Duration>().expect("ours"), duration);
            }
            if let Ok(arch) = text.parse::<Arch>() {
                assert_eq!(arch.to_string().parse::<Arch>().expect("ours"), arch);
            }
        },
    },
    Parser {
        name: "request",
        seeds: &[
            "/apis/a.io/v1/namespaces/n/things/x/status?watch=true&limit=5&labelSelector=a%3Db",
        ],
        read: |data| {
            let text = text(data);
            let (path, query) = text.split_once('?').unwrap_or((&text, ""));
            let _ = (parse_path(path), Query::parse(query));
        },
    },
    Parser {
        name: "schema",
        seeds: &[
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","pattern":"^a+$"},"x-kubernetes-list-type":"set"}}}"#,
        ],
        read: |data| {
            let Ok(decoded) = decode::json(data) else { return };
            if let Ok(schema) = Schema::compile(&decoded.value) {
                let mut value: Value = decoded.value;
                schema.prune(&mut value);
                schema.fill_defaults(&mut value);
                let _ = schema.validate(&value, &tombolo_apiserver::schema::Path::ROOT);
            }
        },
    },
    Parser {
        name: "token",
        seeds: &[
            "tombolo_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567",
        ],
        read: |data| {
            if let Ok(token) = Token::parse(&text(data)) {
                assert_eq!(Token::parse(&token.reveal()).expect("ours").hash(), token.hash());
            }
        },
    },
    Parser {
        name: "yaml-body",
        seeds: &["a: &x [1, 2]\nb: *x\nc: {d: !!str 5}\n", "- 1\n- |\n  text\n"],
        read: |data| {
            let _ = decode::yaml(data);
        },
    },
];

/// Feeds one parser; what the fuzz targets call.
pub fn read(name: &str, data: &[u8]) {
    let parser = PARSERS.iter().find(|parser| parser.name == name);
    (parser.expect("a parser of the table").read)(data);
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}
