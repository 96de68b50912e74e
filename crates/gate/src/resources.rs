//! The resources that the gate reads and writes, through a client with the rights of the system.

use http::{HeaderValue, Method, Request};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tombolo_identity::{Remit, Subject};
use tombolo_model::event::{News, Tone};
use tombolo_model::{Reason, keys};

use crate::failure::Failure;
use crate::record::{self, Record};

/// What a name may hold is written as it is; anything else must not become a part of the path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

#[derive(Clone)]
pub(crate) struct Resources {
    client: Client,
}

/// Why a write did not happen.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Somebody was quicker: look again.
    Raced,
    Refused(Failure),
}

impl Resources {
    pub(crate) fn new(client: Client) -> Resources {
        Resources { client }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, Failure> {
        let request = request(Method::GET, path, Vec::new())?;
        match self.client.request(request).await {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes an object in the list that `path` names.
    pub(crate) async fn create(
        &self,
        path: &str,
        body: &Value,
        record: &Record,
    ) -> Result<Value, Unwritten> {
        self.write(Method::POST, path, "application/json", body, record).await
    }

    /// A merge patch. A patch that names a resourceVersion holds for that version alone: of two writers
    /// at once one wins, and the other is told that it [`Unwritten::Raced`].
    pub(crate) async fn patch(
        &self,
        path: &str,
        body: &Value,
        record: &Record,
    ) -> Result<Value, Unwritten> {
        self.write(Method::PATCH, path, "application/merge-patch+json", body, record).await
    }

    /// Tells people about something; nothing depends on it.
    pub(crate) async fn event_of(
        &self,
        remit: &Remit,
        (tone, reason): (Tone, Reason),
        message: &str,
        record: &Record,
    ) {
        let (kind, name) = match remit {
            Remit::Node { node, .. } => ("Node", node),
            Remit::Site { site } => ("Site", site),
        };
        let about = ObjectReference {
            api_version: Some(keys::API_VERSION.to_owned()),
            kind: Some(kind.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        let news = News { component: "tombolo", about, tone, reason, message };
        let event = json!(news.event(Time(timestamp())));
        if let Err(error) = self.create(&events(news.namespace()), &event, record).await {
            tracing::warn!(about = %remit, ?error, "an event was not written");
        }
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        type_: &'static str,
        body: &Value,
        record: &Record,
    ) -> Result<Value, Unwritten> {
        let path = format!("{path}?fieldManager=tombolo-gate");
        let mut request =
            request(method, &path, body.to_string().into_bytes()).map_err(Unwritten::Refused)?;
        let headers = request.headers_mut();
        headers.insert("content-type", HeaderValue::from_static(type_));
        if let Some(record) = record.to_header() {
            headers.insert(record::HEADER, record);
        }
        self.client.request(request).await.map_err(|error| match &error {
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => Unwritten::Raced,
            _ => Unwritten::Refused(error.into()),
        })
    }
}

impl From<Failure> for Unwritten {
    fn from(failure: Failure) -> Unwritten {
        Unwritten::Refused(failure)
    }
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Resources").finish_non_exhaustive()
    }
}

fn request(method: Method, path: &str, body: Vec<u8>) -> Result<Request<Vec<u8>>, Failure> {
    let request = Request::builder().method(method).uri(path).body(body);
    request.map_err(|error| Failure::internal(&error))
}

/// The path of one of our own objects that is in no namespace; of all of a kind, without a name.
pub(crate) fn ours(plural: &str, name: &str) -> String {
    let path = format!("/apis/{}/{plural}", keys::API_VERSION);
    if name.is_empty() { path } else { format!("{path}/{}", segment(name)) }
}

pub(crate) fn assignment(namespace: &str, name: &str) -> String {
    let (namespace, name) = (segment(namespace), segment(name));
    format!("/apis/{}/namespaces/{namespace}/assignments/{name}", keys::API_VERSION)
}

pub(crate) fn lease(name: &str) -> String {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", keys::SYSTEM_NAMESPACE);
    if name.is_empty() { path } else { format!("{path}/{}", segment(name)) }
}

pub(crate) fn events(namespace: &str) -> String {
    format!("/api/v1/namespaces/{}/events", segment(namespace))
}

fn segment(name: &str) -> String {
    utf8_percent_encode(name, PLAIN).to_string()
}

/// The name under which an agent is recorded.
pub(crate) fn agent_of(remit: Remit, verb: &str) -> Record {
    let subject = Subject::of_agent(remit).unwrap_or_else(|_| Subject::system("gate"));
    Record::new(&subject, verb)
}

/// The wall clock, for what people read and for the ends of certificates and tokens.
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// As `metadata` writes it: whole seconds in UTC.
pub(crate) fn now() -> String {
    timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment_of_the_path() {
        let path = assignment("shop", "web-0.a");
        assert_eq!(path, "/apis/tombolo.dev/v1alpha1/namespaces/shop/assignments/web-0.a");
        let path = assignment("shop", "x/../../secrets?y#z");
        assert!(path.ends_with("/assignments/x%2F..%2F..%2Fsecrets%3Fy%23z"), "{path}");
    }
}
