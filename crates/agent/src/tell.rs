//! What the agent writes to the server about Assignments: statuses, Events, and that it lets go of
//! one that is being deleted. Called by [`crate::work`], one task for each write.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tombolo_model::keys::FINALIZER_ASSIGNMENT;
use tombolo_model::{Assignment, AssignmentStatus, Node};

use crate::clock;
use crate::report::{Told, Tone};

const FIELD_MANAGER: &str = "tombolo-agent";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// What has no namespace of its own is told of there, as in Kubernetes.
const NODE_EVENTS_NAMESPACE: &str = "default";
const MESSAGE_CHARS_MAX: usize = 1024;

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
pub async fn write(client: Client, write: Write) -> Result<Option<Assignment>, Failed> {
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
            tell(&client, &write.assignment, told).await;
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
async fn tell(client: &Client, about: &Assignment, told: &Told) {
    let reference = ObjectReference {
        namespace: about.namespace(),
        resource_version: about.resource_version(),
        ..about.object_ref(&())
    };
    send(client, &about.namespace().unwrap_or_default(), reference, told).await;
}

/// An Event about the agent's own Node.
pub(crate) async fn of_node(client: &Client, about: &Node, told: &Told) {
    let reference =
        ObjectReference { resource_version: about.resource_version(), ..about.object_ref(&()) };
    send(client, NODE_EVENTS_NAMESPACE, reference, told).await;
}

/// An Event that does not get through is lost: the status says the same.
async fn send(client: &Client, namespace: &str, about: ObjectReference, told: &Told) {
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
        reason: Some(told.reason.clone()),
        message: Some(told.message.chars().take(MESSAGE_CHARS_MAX).collect()),
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
        Ok(Ok(_)) => (),
        Ok(Err(error)) => tracing::info!(%error, reason = told.reason, "an event is lost"),
        Err(late) => tracing::info!(%late, reason = told.reason, "an event is lost"),
    }
}
