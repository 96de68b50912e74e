//! What goes when something else goes: dependents of a deleted owner, the contents of a deleted
//! namespace, the objects of a deleted definition, and events that nobody asks for any more.
//!
//! [`Graph`] is told of every object and decides; [`run`] follows the store, and acts. Kubernetes
//! has controllers of its own for this, so that it is of use in the embedded home alone.

mod graph;

use std::time::Duration;

use serde_json::{Value, json};
use tombolo_identity::{Subject, Verb};
use tombolo_store::{At, Store};

pub use graph::{Action, Graph};

use crate::request::{Query, Target};
use crate::server::{Api, Call, authorize, resource_of};
use crate::status::Failure;
use crate::{encode, object, registry, remove, time, write};

/// Events tell what happened lately; after this they are history.
const EVENT_LIFE_SECONDS: i64 = 60 * 60;
const EVENT_SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How much the collector does before it looks again.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// More would keep the loop from looking at what has happened meanwhile.
    actions_per_round: usize,
}

const LIMITS: Limits = Limits { actions_per_round: 500 };
/// The pause before a failed action is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Follows the store until the task is dropped.
pub async fn run(api: Api) {
    loop {
        let (mut graph, revision) = load(&api.store);
        let Ok(mut watch) = api.store.watch("", revision) else { continue };
        let mut sweep_at = tokio::time::Instant::now();
        loop {
            let pending = act(&api, &graph, LIMITS).await;
            let pause = if pending { RETRY_AFTER } else { EVENT_SWEEP_EVERY };
            tokio::select! {
                batch = watch.next() => match batch {
                    Ok(batch) => batch.events.iter().for_each(|event| graph.observe(event)),
                    // The loop was held up for longer than the history lasts: look at everything.
                    Err(_) => break,
                },
                () = tokio::time::sleep(pause) => (),
            }
            if tokio::time::Instant::now() >= sweep_at {
                sweep_at = tokio::time::Instant::now() + EVENT_SWEEP_EVERY;
                sweep_events(&api).await;
            }
        }
    }
}

fn load(store: &Store) -> (Graph, u64) {
    let page = store.list("", At::Latest, None, usize::MAX).expect("the latest can be listed");
    let mut graph = Graph::default();
    for object in &page.objects {
        graph.insert(&object.key, &object.bytes);
    }
    (graph, page.revision)
}

/// Does what the graph asks for; says whether something is left to do.
async fn act(api: &Api, graph: &Graph, limits: Limits) -> bool {
    let actions = graph.plan(limits.actions_per_round);
    let mut left = actions.len() == limits.actions_per_round;
    for action in actions {
        if let Err(failure) = apply(api, &action).await {
            // Gone or changed in between: the next look will tell.
            if failure.code != 404 && failure.code != 409 {
                tracing::warn!(?action, message = failure.message, "cannot clear up");
                left = true;
            }
        }
    }
    left
}

async fn apply(api: &Api, action: &Action) -> Result<(), Failure> {
    tracing::debug!(?action, "clearing up");
    match action {
        Action::Delete { key, uid, .. } => {
            let call = call_for(api, key);
            let body = json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"});
            let permit = authorize(&call.subject, Verb::Delete, resource_of(&call.target))?;
            remove::one(&call, &permit, body.to_string().as_bytes()).await.map(drop)
        }
        Action::Release { key, finalizer } => {
            change(api, key, |object| drop_finalizer(object, finalizer)).await
        }
        Action::Disown { key, owner } => change(api, key, |object| drop_owner(object, owner)).await,
    }
}

async fn change(api: &Api, key: &str, edit: impl Fn(&mut Value)) -> Result<(), Failure> {
    let call = call_for(api, key);
    let stored = api.store.get(key).ok_or_else(|| Failure::not_found(&call.served.kind, key))?;
    let live = encode::parse(&stored);
    let mut wanted = live.clone();
    edit(&mut wanted);
    write::replace_as_is(&call, &stored, &live, wanted).await
}

fn drop_finalizer(object: &mut Value, finalizer: &str) {
    for place in ["/metadata/finalizers", "/spec/finalizers"] {
        if let Some(list) = object.pointer_mut(place).and_then(Value::as_array_mut) {
            list.retain(|name| name != finalizer);
        }
    }
}

fn drop_owner(object: &mut Value, owner: &str) {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    if let Some(list) = owners {
        list.retain(|reference| reference["uid"] != owner);
    }
}

async fn sweep_events(api: &Api) {
    let Ok(page) = api.store.list("/events/", At::Latest, None, usize::MAX) else { return };
    let now = time::now_seconds();
    for stored in &page.objects {
        let event = encode::parse(stored);
        if !graph::is_stale(&event, now, EVENT_LIFE_SECONDS) {
            continue;
        }
        let uid = object::text(&event, "uid").to_owned();
        let why = "events are kept for an hour";
        let action = Action::Delete { key: stored.key.to_string(), uid, why };
        if let Err(failure) = apply(api, &action).await {
            tracing::debug!(message = failure.message, "an event could not be removed");
        }
    }
}

/// A call of the server to itself about the object under a key.
fn call_for(api: &Api, key: &str) -> Call {
    let mut parts = key.splitn(4, '/');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (group, plural, namespace, name) = (next(), next(), next(), next());
    let kinds = api.registry.now();
    let mut of_kind = kinds.iter();
    let served = of_kind.find(|served| served.kind.group == group && served.kind.plural == plural);
    // A kind that is no longer served leaves objects behind; they can be cleared up all the same.
    let served = served.cloned().unwrap_or_else(|| registry::stand_in(&group, &plural));
    let target = Target {
        version: served.kind.version.clone(),
        group,
        resource: plural,
        namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
        name: Some(name),
        subresource: None,
    };
    let query = Query { field_manager: Some("tombolo-garbage".to_owned()), ..Query::default() };
    let subject = Subject::system("garbage");
    let headers = http::HeaderMap::new();
    let api = api.clone();
    Call { api, served, target, query, headers, subject, key: None, payer: None, place: None }
}

#[cfg(test)]
mod tests {
    use tombolo_identity::Token;
    use tombolo_store::Options;

    use super::*;

    /// Makes a ConfigMap and gives its uid.
    async fn make(api: &Api, name: &str) -> String {
        let client = api.client(Subject::first_admin());
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(map.to_string().into_bytes());
        let made: Value = client.request(request.unwrap()).await.unwrap();
        object::text(&made, "uid").to_owned()
    }

    /// Many dependents go in rounds, each of which knows that there is more to do.
    #[tokio::test]
    async fn a_round_does_so_much_and_says_whether_something_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Options::default()).unwrap();
        let api = Api::open(store, Token::from_bytes([7; 32]).hash()).await.unwrap();
        let client = api.client(Subject::first_admin());
        for number in 0..5 {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": format!("orphan-{number}"), "ownerReferences": [{
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}]}});
            let request = http::Request::post("/api/v1/namespaces/default/configmaps")
                .header("content-type", "application/json")
                .body(map.to_string().into_bytes());
            client.request::<Value>(request.unwrap()).await.unwrap();
        }
        let left = || api.store.list("/configmaps/default/", At::Latest, None, 9).unwrap();
        let mut told = Vec::new();
        for _ in 0..3 {
            let (graph, _) = load(&api.store);
            let pending = act(&api, &graph, Limits { actions_per_round: 2 }).await;
            told.push((left().objects.len(), pending));
        }
        assert_eq!(told, [(3, true), (1, true), (0, false)]);
    }

    /// What is to go was looked at a moment ago; somebody may have deleted it since and made another.
    #[tokio::test]
    async fn what_was_made_again_under_the_same_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Options::default()).unwrap();
        let api = Api::open(store, Token::from_bytes([7; 32]).hash()).await.unwrap();
        let key = "/configmaps/default/a".to_owned();
        let old = make(&api, "a").await;
        let clear_up = Action::Delete { key: key.clone(), uid: old.clone(), why: "a test" };
        apply(&api, &clear_up).await.unwrap();
        assert!(api.store.get(&key).is_none(), "the one that was meant is gone");

        let new = make(&api, "a").await;
        assert_ne!(new, old);
        let refused = apply(&api, &clear_up).await.unwrap_err();
        assert_eq!(refused.code, 409, "{}", refused.message);
        let left = encode::parse(&api.store.get(&key).expect("the other one is there"));
        assert_eq!(object::text(&left, "uid"), new);
    }
}
