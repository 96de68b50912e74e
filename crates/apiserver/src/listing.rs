//! A list as it goes out: pieces that are put together from the stored bytes only when the client
//! takes them. However large the list is, and however slow the client, it holds one piece and its
//! place. Made by [`crate::read`].

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_document::protobuf;
use tombolo_store::Object;

use crate::encode::{self, ListMeta};
use crate::registry::Served;
use crate::status::Failure;
use crate::table::{self, IncludeObject};

/// Also when one is shared: small ones are copied together.
const PIECE_BYTES_MAX: usize = 32 * 1024;

/// How the objects of a list are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Objects,
    Table {
        include: IncludeObject,
        now: Timestamp,
    },
    Partial,
    Yaml,
    /// Protobuf.
    Binary,
}

/// The pieces of one list, in order.
pub(crate) struct Listing {
    served: Arc<Served>,
    form: Form,
    objects: std::vec::IntoIter<Arc<Object>>,
    /// What is to be sent next, before anything else.
    head: Option<BytesMut>,
    /// A large object, which is sent as it is stored.
    shared: Option<Bytes>,
    is_first: bool,
    tail: Option<&'static [u8]>,
}

impl Listing {
    pub(crate) fn new(
        served: Arc<Served>,
        form: Form,
        meta: &ListMeta,
        objects: Vec<Arc<Object>>,
    ) -> Result<Listing, Failure> {
        let kind = &served.kind;
        let head = match form {
            Form::Objects => encode::list_head(kind, meta),
            Form::Table { include, now } => {
                let none = served.columns.list(&meta.to_json(), &[], include, now);
                open(none, "rows")
            }
            Form::Partial => open(table::partial_object_list(&meta.to_json(), &[]), "items"),
            Form::Yaml => {
                let envelope = json!({
                    "apiVersion": kind.api_version(), "kind": kind.list_kind, "metadata": meta.to_json(),
                });
                let items = if objects.is_empty() { "items: []\n" } else { "items:\n" };
                let mut head = BytesMut::from(yaml(&envelope)?.as_bytes());
                head.put_slice(items.as_bytes());
                head
            }
            Form::Binary => {
                let length = |object: &Arc<Object>| item(&served, form, object).len();
                let length = objects.iter().map(length).sum();
                let (version, meta) = (kind.api_version(), meta.to_json());
                let head = protobuf::encode::list_head(&version, &kind.list_kind, &meta, length);
                BytesMut::from(&head[..])
            }
        };
        let tail: Option<&'static [u8]> = match form {
            Form::Objects | Form::Table { .. } | Form::Partial => Some(b"]}\n"),
            Form::Yaml | Form::Binary => None,
        };
        let objects = objects.into_iter();
        Ok(Listing { served, form, objects, head: Some(head), shared: None, is_first: true, tail })
    }

    pub(crate) fn into_response(mut self) -> Response {
        let content_type = match self.form {
            Form::Objects | Form::Table { .. } | Form::Partial => "application/json",
            Form::Yaml => "application/yaml",
            Form::Binary => protobuf::MEDIA_TYPE,
        };
        let first = self.next().unwrap_or_default();
        let body = match self.next() {
            None => Body::from(first),
            Some(second) => {
                let pieces = [first, second].into_iter().chain(self);
                let pieces = pieces.map(Ok::<Bytes, std::convert::Infallible>);
                Body::from_stream(futures::stream::iter(pieces))
            }
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }

    /// Whether something stands between two items.
    fn has_commas(&self) -> bool {
        match self.form {
            Form::Objects | Form::Table { .. } | Form::Partial => true,
            Form::Yaml | Form::Binary => false,
        }
    }
}

fn item(served: &Served, form: Form, object: &Object) -> Bytes {
    let kind = &served.kind;
    match form {
        Form::Objects => encode::in_version(kind, object),
        Form::Table { include, now } => {
            let value = encode::parse_in_version(kind, object);
            encode::to_bytes(&served.columns.row(&value, include, now))
        }
        Form::Partial => encode::to_bytes(&table::partial_object(&encode::parse(object))),
        Form::Yaml => {
            let value = encode::parse_in_version(kind, object);
            // What is stored can be written; a comment in its place keeps the rest readable.
            let text = yaml(&json!([value]));
            text.unwrap_or_else(|failure| format!("# {}\n", failure.message)).into()
        }
        Form::Binary => protobuf::encode::item(&encode::parse_in_version(kind, object)).into(),
    }
}

impl Iterator for Listing {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(shared) = self.shared.take() {
            return Some(shared);
        }
        let mut piece = self.head.take().unwrap_or_default();
        while piece.len() < PIECE_BYTES_MAX {
            let Some(object) = self.objects.next() else {
                piece.put_slice(self.tail.take().unwrap_or_default());
                break;
            };
            if !std::mem::take(&mut self.is_first) && self.has_commas() {
                piece.put_u8(b',');
            }
            let item = item(&self.served, self.form, &object);
            if item.len() < PIECE_BYTES_MAX / 4 {
                piece.put_slice(&item);
                continue;
            }
            if piece.is_empty() {
                return Some(item);
            }
            self.shared = Some(item);
            break;
        }
        (!piece.is_empty()).then(|| piece.freeze())
    }
}

/// The JSON of an envelope whose list is still empty, up to the first item of the list.
fn open(mut envelope: Value, list: &str) -> BytesMut {
    if let Some(fields) = envelope.as_object_mut() {
        fields.remove(list);
    }
    let mut bytes = BytesMut::from(&encode::to_bytes(&envelope)[..]);
    bytes.truncate(bytes.len() - 1);
    bytes.put_slice(format!(",\"{list}\":[").as_bytes());
    bytes
}

fn yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value)
        .map_err(|problem| Failure::internal(format!("cannot write YAML: {problem}")))
}
