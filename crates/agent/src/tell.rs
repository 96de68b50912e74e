//! What the agent writes to the server about Assignments: statuses, Events, and that it lets go of
//! one that is being deleted. Called by [`crate::work`], one task for each write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tombolo_model::event::{Memory, News, Once};
use tombolo_model::keys::{API_VERSION, FINALIZER_ASSIGNMENT};
use tombolo_model::{Assignment, AssignmentStatus, Node};

use crate::clock;
use crate::report::Told;

const FIELD_MANAGER: &str = "tombolo-agent";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The Events that this agent has written, by what they are about and by their reason. A component that
/// is restarted all night has one Event with a count, and not a thousand.
#[derive(Clone, Debug, Default)]
pub struct Spoken(Arc<Mutex<Memory>>);

impl Spoken {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something to be written about one Assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The Assignment as it was when this was decided. Its version goes along: if the Assignment has
    /// changed since, the write fails and is decided anew.
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
    let news = news(reference, told);
    let key = news.key_of_reason();
    let before = spoken.memory().next(&key);
    if let Some(once) = before
        && count_up(client, &news, &once).await
    {
        spoken.memory().remember(key, once);
        return;
    }
    if let Some(name) = send(client, &news).await {
        spoken.memory().remember(key, Once { name, count: 1 });
    }
}

/// Says the same once more, with what there is to say now. Not so if the Event is gone.
async fn count_up(client: &Client, news: &News<'_>, once: &Once) -> bool {
    let patch = Patch::Merge(news.again(once.count, &Time(clock::time_of_day())));
    let api: Api<Event> = Api::namespaced(client.clone(), news.namespace());
    let params = PatchParams::default();
    let written = api.patch(&once.name, &params, &patch);
    matches!(tokio::time::timeout(ANSWER_TIMEOUT, written).await, Ok(Ok(_)))
}

/// An Event about the agent's own Node.
pub(crate) async fn of_node(client: &Client, about: &Node, told: &Told) {
    let reference =
        ObjectReference { resource_version: about.resource_version(), ..about.object_ref(&()) };
    send(client, &news(reference, told)).await;
}

/// The same, for a caller that knows no more of the Node than its name.
pub(crate) async fn of_node_named(client: &Client, name: &str, told: &Told) {
    let reference = ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    };
    send(client, &news(reference, told)).await;
}

fn news(about: ObjectReference, told: &Told) -> News<'_> {
    let (tone, reason, message) = (told.tone, told.reason, told.message.as_str());
    News { component: FIELD_MANAGER, about, tone, reason, message }
}

/// An Event that does not get through is lost: the status says the same. Returns its name.
async fn send(client: &Client, news: &News<'_>) -> Option<String> {
    let event = news.event(Time(clock::time_of_day()));
    let api: Api<Event> = Api::namespaced(client.clone(), news.namespace());
    let params = PostParams::default();
    let written = tokio::time::timeout(ANSWER_TIMEOUT, api.create(&params, &event)).await;
    match written {
        Ok(Ok(event)) => return event.metadata.name,
        Ok(Err(error)) => tracing::info!(%error, reason = %news.reason, "an event is lost"),
        Err(late) => tracing::info!(%late, reason = %news.reason, "an event is lost"),
    }
    None
}
