//! What the agent writes to the server about Assignments: statuses, Events, and that it lets go of
//! one that is being deleted. Called by [`crate::work`], one task for each write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tombolo_model::keys::FINALIZER_ASSIGNMENT;
use tombolo_model::{Assignment, AssignmentStatus, Node, Reason};

use crate::clock;
use crate::report::{Told, Tone};

const FIELD_MANAGER: &str = "tombolo-agent";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// What has no namespace of its own is told of there, as in Kubernetes.
const NODE_EVENTS_NAMESPACE: &str = "default";
const MESSAGE_CHARS_MAX: usize = 1024;

/// Events that are remembered, so that the same again is counted. Beyond, all are forgotten, and the
/// same again is an Event of its own.
const SPOKEN_MAX: usize = 1024;

/// The Events that this agent has written, by the uid of what they are about and by their reason. A
/// component that is restarted all night has one Event with a count, and not a thousand.
#[derive(Clone, Debug, Default)]
pub struct Spoken(Arc<Mutex<BTreeMap<(String, Reason), Once>>>);

/// An Event as it was written last.
#[derive(Clone, Debug)]
struct Once {
    name: String,
    count: i32,
}

impl Spoken {
    fn held(&self) -> MutexGuard<'_, BTreeMap<(String, Reason), Once>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, key: (String, Reason), once: Once) {
        let mut held = self.held();
        if held.len() >= SPOKEN_MAX {
            held.clear();
        }
        held.insert(key, once);
    }
}

/// Something to be written about one Assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// As it was when this was decided: its version goes along, and if it has changed since, the
    /// write fails and is decided anew.
    pub assignment: Assignment,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Status {
        status: Box<AssignmentStatus>,
        news: Vec<Told>,
    },
    /// Nothing of it is left here: it may go.
    LetGo,
}

#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The Assignment has changed; the watch will say so.
    #[error("it has changed meanwhile")]
    Raced,
    /// The server does not know it: it was deleted, or the server has forgotten it.
    #[error("the server does not know it")]
    Unknown,
    #[error("cannot tell the server")]
    Unheard(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The Assignment as the server has it then.
pub async fn write(
    client: Client,
    spoken: &Spoken,
    write: Write,
) -> Result<Option<Assignment>, Failed> {
    let namespace = write.assignment.namespace().unwrap_or_default();
    let api: Api<Assignment> = Api::namespaced(client.clone(), &namespace);
    let asked = async {
        match &write.what {
            What::Status { status, .. } => {
                let mut object = write.assignment.clone();
                object.status = Some((**status).clone());
                let params = PostParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PostParams::default()
                };
                api.replace_status(&object.name_any(), &params, &object).await.map(Some)
            }
            What::LetGo => let_go(&api, &write.assignment).await.map(|()| None),
        }
    };
    let answer = match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(answer) => answer.map_err(failed)?,
        Err(late) => return Err(Failed::Unheard(Box::new(late))),
    };
    if let What::Status { news, .. } = &write.what {
        for told in news {
            tell(&client, spoken, &write.assignment, told).await;
        }
    }
    Ok(answer)
}

fn failed(error: kube::Error) -> Failed {
    match error {
        kube::Error::Api(status) if status.code == 409 => Failed::Raced,
        kube::Error::Api(status) if status.code == 404 => Failed::Unknown,
        other => Failed::Unheard(Box::new(other)),
    }
}

async fn let_go(api: &Api<Assignment>, assignment: &Assignment) -> Result<(), kube::Error> {
    let others = assignment.finalizers().iter().filter(|holder| *holder != FINALIZER_ASSIGNMENT);
    let others: Vec<&String> = others.collect();
    let patch = json!({"metadata": {
        "resourceVersion": assignment.resource_version(), "finalizers": others,
    }});
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
    api.patch(&assignment.name_any(), &params, &Patch::Merge(patch)).await.map(drop)
}

/// An Event about an Assignment, in its namespace.
async fn tell(client: &Client, spoken: &Spoken, about: &Assignment, told: &Told) {
    let reference = ObjectReference {
        namespace: about.namespace(),
        resource_version: about.resource_version(),
        ..about.object_ref(&())
    };
    let namespace = about.namespace().unwrap_or_default();
    let key = (about.uid().unwrap_or_default(), told.reason);
    let before = spoken.held().get(&key).cloned();
    if let Some(Once { name, count }) = before {
        let count = count.saturating_add(1);
        if count_up(client, &namespace, &name, count, told).await {
            spoken.remember(key, Once { name, count });
            return;
        }
    }
    if let Some(name) = send(client, &namespace, reference, told).await {
        spoken.remember(key, Once { name, count: 1 });
    }
}

/// Says the same once more, with what there is to say now. Not so if the Event is gone.
async fn count_up(client: &Client, namespace: &str, name: &str, count: i32, told: &Told) -> bool {
    let patch = json!({
        "count": count, "lastTimestamp": Time(clock::time_of_day()), "message": message(told),
    });
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let params = PatchParams::default();
    let patch = Patch::Merge(patch);
    let written = tokio::time::timeout(ANSWER_TIMEOUT, api.patch(name, &params, &patch)).await;
    matches!(written, Ok(Ok(_)))
}

fn message(told: &Told) -> String {
    told.message.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// An Event about the agent's own Node.
pub(crate) async fn of_node(client: &Client, about: &Node, told: &Told) {
    let reference =
        ObjectReference { resource_version: about.resource_version(), ..about.object_ref(&()) };
    send(client, NODE_EVENTS_NAMESPACE, reference, told).await;
}

/// An Event that does not get through is lost: the status says the same. Returns its name.
async fn send(
    client: &Client,
    namespace: &str,
    about: ObjectReference,
    told: &Told,
) -> Option<String> {
    let now = Time(clock::time_of_day());
    let event = Event {
        metadata: ObjectMeta {
            generate_name: about.name.as_ref().map(|name| format!("{name}.")),
            ..ObjectMeta::default()
        },
        involved_object: about,
        type_: Some(match told.tone {
            Tone::Normal => "Normal".to_owned(),
            Tone::Warning => "Warning".to_owned(),
        }),
        reason: Some(told.reason.word().to_owned()),
        message: Some(message(told)),
        source: Some(EventSource { component: Some(FIELD_MANAGER.to_owned()), host: None }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let params = PostParams::default();
    let written = tokio::time::timeout(ANSWER_TIMEOUT, api.create(&params, &event)).await;
    match written {
        Ok(Ok(event)) => return event.metadata.name,
        Ok(Err(error)) => tracing::info!(%error, reason = %told.reason, "an event is lost"),
        Err(late) => tracing::info!(%late, reason = %told.reason, "an event is lost"),
    }
    None
}
