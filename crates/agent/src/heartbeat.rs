//! The Lease by which a node, or a whole site, says that it is alive. `plan::leases` listens for its
//! changes, and the apiserver looks at the holder to tell a clone. What it asks about siblings is in the answer.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tombolo_identity::Remit;
use tombolo_model::keys::{self, SYSTEM_NAMESPACE};
use tombolo_plan::agent::link::News;
use tombolo_plan::agent::pace::Pace;
pub use tombolo_plan::agent::pace::{EVERY_MAX, EVERY_MIN};

use crate::siblings::Siblings;
use crate::{Error, clock, connection};

const FIELD_MANAGER: &str = "tombolo-agent";

/// What is written on the Lease, by us and by others.
type Annotations = BTreeMap<String, String>;

/// One heartbeat of the agent that stands for `remit`, as `instance`. Whether there is something new to
/// tell about siblings.
pub(crate) async fn beat(
    client: &Client,
    remit: &Remit,
    instance: &str,
    pace: Pace,
    siblings: &mut Siblings,
) -> Result<News, Error> {
    let mut annotations = match siblings.answer() {
        Some(reached) => write(client, remit, instance, pace, Some(reached)).await?,
        None => renew(client, remit, instance, pace).await?,
    };
    let question = annotations.remove(keys::ANNOTATION_PROBE);
    match siblings.look(question.as_deref().unwrap_or_default()).await {
        true => Ok(News::Some),
        false => Ok(News::None),
    }
}

/// A good-bye: the node or site is NotReady at once, and the next agent that comes is no clone.
pub async fn say_good_bye(client: &Client, remit: &Remit, pace: Pace) -> Result<(), Error> {
    write(client, remit, "", pace, None).await.map(drop)
}

/// Renews the Lease. Almost all that an idle agent says are these, so it says no more than has changed
/// or may have, and asks for no more of an answer than what others have written there.
async fn renew(
    client: &Client,
    remit: &Remit,
    holder: &str,
    pace: Pace,
) -> Result<Annotations, Error> {
    let name = remit.lease();
    // A path is sent in full each time, other than the headers, which say who we are.
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{name}");
    let spec = lease(&name, holder, pace, None)["spec"].take();
    let change = json!({"spec": spec});
    let renewed = connection::patch_quietly(client, &path, &change);
    let answer = tokio::time::timeout(pace.answer_timeout(), renewed).await;
    let annotations = match answer {
        Ok(Ok(text)) => annotations_in(&text),
        // There is none yet.
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => None,
        Ok(Err(error)) => return Err(Error::of_heartbeat(error)),
        Err(late) => return Err(Error::Unreachable { source: Box::new(late) }),
    };
    match annotations {
        Some(annotations) => Ok(annotations),
        None => write(client, remit, holder, pace, None).await,
    }
}

/// `None` if our own old word on siblings is still among them: applying without it takes it away.
fn annotations_in(answer: &str) -> Option<Annotations> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let annotations = answer["metadata"]["annotations"].as_object().into_iter().flatten();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let annotations: Annotations = annotations.filter_map(text).collect();
    (!annotations.contains_key(keys::ANNOTATION_REACHED)).then_some(annotations)
}

/// Applied, so that it makes the Lease if it is not there, and is the same when it comes twice.
async fn write(
    client: &Client,
    remit: &Remit,
    holder: &str,
    pace: Pace,
    reached: Option<String>,
) -> Result<Annotations, Error> {
    let name = remit.lease();
    let lease = lease(&name, holder, pace, reached);
    let api: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(lease);
    let written = tokio::time::timeout(pace.answer_timeout(), api.patch(&name, &params, &patch));
    match written.await {
        Ok(answer) => answer
            .map(|lease| lease.metadata.annotations.unwrap_or_default())
            .map_err(Error::of_heartbeat),
        Err(late) => Err(Error::Unreachable { source: Box::new(late) }),
    }
}

fn lease(name: &str, holder: &str, pace: Pace, reached: Option<String>) -> Value {
    // Written for people: nobody decides by the clock of another machine.
    let now = clock::time_of_day().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": pace.lease_seconds(),
            "renewTime": now,
        },
    });
    if let Some(reached) = reached {
        // What is no longer applied goes by itself.
        lease["metadata"]["annotations"] = json!({keys::ANNOTATION_REACHED: reached});
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_be_empty_minimal_or_whole_as_the_server_likes() {
        assert_eq!(annotations_in(""), Some(BTreeMap::new()));
        let question = r#"{"metadata": {"annotations": {"tombolo.dev/probe": "lift=10.0.0.2"}}}"#;
        let found = annotations_in(question).unwrap();
        assert_eq!(found.get(keys::ANNOTATION_PROBE).map(String::as_str), Some("lift=10.0.0.2"));
        let whole = r#"{"kind": "Lease", "metadata": {"name": "node-a"}, "spec": {}}"#;
        assert_eq!(annotations_in(whole), Some(BTreeMap::new()));
        let old = format!(
            r#"{{"metadata": {{"annotations": {{"{}": "a"}}}}}}"#,
            keys::ANNOTATION_REACHED
        );
        assert_eq!(annotations_in(&old), None);
    }
}
