//! Events: what a loop tells people about an object.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};

use tombolo_model::Reason;

/// Objects without a namespace have their Events where Kubernetes puts such: here.
const NAMESPACE_OF_THE_REST: &str = "default";

/// A person reads this much; more may be a hostile text.
const MESSAGE_CHARS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Normal,
    Warning,
}

/// What is told.
pub(crate) struct News<'a> {
    /// The loop that tells it.
    pub(crate) component: &'a str,
    pub(crate) about: ObjectReference,
    pub(crate) tone: Tone,
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

pub(crate) async fn write(
    client: &Client,
    news: News<'_>,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let namespace = news.about.namespace.clone();
    let name = news.about.name.clone().unwrap_or_default();
    let tone = match news.tone {
        Tone::Normal => "Normal",
        Tone::Warning => "Warning",
    };
    let event = Event {
        metadata: ObjectMeta { generate_name: Some(format!("{name}.")), ..ObjectMeta::default() },
        involved_object: news.about,
        type_: Some(tone.to_owned()),
        reason: Some(news.reason.word().to_owned()),
        message: Some(news.message.chars().take(MESSAGE_CHARS_MAX).collect()),
        source: Some(EventSource { component: Some(news.component.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    };
    let namespace = namespace.as_deref().unwrap_or(NAMESPACE_OF_THE_REST);
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &event).await.map(drop)
}
