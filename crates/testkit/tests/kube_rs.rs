//! kube-rs against the real server, over TLS: `Api`, `watcher`, `reflector`, `Controller`,
//! `finalizer`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::{core, events};
use kube::api::{
    Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Resource as _,
    ResourceExt,
};
use kube::runtime::controller::Action;
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{Controller, WatchStreamExt, reflector};
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::mpsc;

use tombolo_testkit::{Tombolo, eventually};

const FINALIZER: &str = "example.com/kept";

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

#[track_caller]
fn assert_code<T: std::fmt::Debug>(result: Result<T, Error>, code: u16, reason: &str) {
    match result {
        Err(Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (code, reason), "{}", status.message);
        }
        other => panic!("{other:?} instead of {code} {reason}"),
    }
}

#[tokio::test]
async fn api_creates_reads_changes_and_deletes() {
    let tombolo = Tombolo::start().await;
    let maps = maps(&tombolo.client().await);
    let created = maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    assert_code(maps.create(&PostParams::default(), &map("a", "1")).await, 409, "AlreadyExists");

    let mut changed = created.clone();
    changed.data = map("a", "2").data;
    let replaced = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    assert_eq!(replaced.uid(), created.uid());
    assert_code(maps.replace("a", &PostParams::default(), &changed).await, 409, "Conflict");

    let params = PatchParams::apply("test");
    let apply = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"own": "3"},
    });
    let applied = maps.patch("a", &params, &Patch::Apply(apply)).await.unwrap();
    assert_eq!(applied.data.unwrap().len(), 2);
    let merge = json!({"data": {"key": null}});
    let merged = maps.patch("a", &PatchParams::default(), &Patch::Merge(merge)).await.unwrap();
    assert_eq!(merged.data.unwrap().into_keys().collect::<Vec<_>>(), ["own"]);

    assert!(maps.get_opt("b").await.unwrap().is_none());
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_code(maps.get("a").await, 404, "NotFound");
    assert_code(maps.delete("a", &DeleteParams::default()).await, 404, "NotFound");
}

#[tokio::test]
async fn api_lists_in_pages_and_by_selectors() {
    let tombolo = Tombolo::start().await;
    let maps = maps(&tombolo.client().await);
    for number in 0..7 {
        let mut map = map(&format!("m{number}"), "1");
        map.labels_mut().insert("odd".to_owned(), (number % 2 == 1).to_string());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let odd = maps.list(&ListParams::default().labels("odd=true")).await.unwrap();
    assert_eq!(odd.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["m1", "m3", "m5"]);

    let mut params = ListParams::default().limit(3);
    let mut names = Vec::new();
    loop {
        let page = maps.list(&params).await.unwrap();
        assert!(page.items.len() <= 3);
        names.extend(page.iter().map(ResourceExt::name_any).filter(|name| name.starts_with('m')));
        // What comes after the first page was taken must not show in the next.
        drop(maps.create(&PostParams::default(), &map("m3b", "1")).await);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("odd=false"))
        .await
        .unwrap();
    let left = maps.list(&ListParams::default().labels("odd")).await.unwrap();
    assert_eq!(left.items.len(), 3);
}

#[tokio::test]
async fn watcher_sees_every_change_in_order() {
    let tombolo = Tombolo::start().await;
    let maps = maps(&tombolo.client().await);
    maps.create(&PostParams::default(), &map("a", "0")).await.unwrap();
    let config = watcher::Config::default().fields("metadata.name=a");
    let mut events = std::pin::pin!(watcher(maps.clone(), config));
    loop {
        match events.try_next().await.unwrap().unwrap() {
            Event::InitDone => break,
            Event::Init | Event::InitApply(_) => (),
            Event::Apply(_) | Event::Delete(_) => panic!("a change before the list is complete"),
        }
    }
    for value in ["1", "2", "3"] {
        let merge = json!({"data": {"key": value}});
        maps.patch("a", &PatchParams::default(), &Patch::Merge(merge)).await.unwrap();
    }
    maps.create(&PostParams::default(), &map("other", "0")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    loop {
        match events.try_next().await.unwrap().unwrap() {
            Event::Apply(map) => seen.push(map.data.unwrap_or_default()["key"].clone()),
            Event::Delete(map) => {
                assert_eq!(map.name_any(), "a");
                break;
            }
            Event::Init | Event::InitApply(_) | Event::InitDone => panic!("the watch was torn"),
        }
    }
    assert_eq!(seen, ["1", "2", "3"]);
}

#[tokio::test]
async fn reflector_follows_across_a_restart_of_the_server() {
    let mut tombolo = Tombolo::start().await;
    let maps = maps(&tombolo.client().await);
    let (reader, writer) = reflector::store();
    let events = watcher(maps.clone(), watcher::Config::default()).default_backoff();
    let follow = tokio::spawn(reflector(writer, events).for_each(|_| std::future::ready(())));
    let is_seen = async |name: &str| {
        eventually(&format!("the reflector has {name}"), async || {
            reader.find(|map: &ConfigMap| map.name_any() == name)
        })
        .await
    };
    maps.create(&PostParams::default(), &map("before", "1")).await.unwrap();
    is_seen("before").await;
    tombolo.kill9();
    tombolo.restart().await;
    eventually("the server takes writes again", async || {
        maps.create(&PostParams::default(), &map("after", "1")).await.ok()
    })
    .await;
    is_seen("after").await;
    is_seen("before").await;
    follow.abort();
}

/// What the controller of the test did.
#[derive(Debug, PartialEq)]
enum Did {
    Applied(String),
    CleanedUp(String),
}

struct Context {
    client: Client,
    did: mpsc::UnboundedSender<Did>,
}

async fn reconcile(
    map: Arc<ConfigMap>,
    context: Arc<Context>,
) -> Result<Action, kube::runtime::finalizer::Error<Error>> {
    finalizer(&maps(&context.client), FINALIZER, map, async |event| {
        let did = match event {
            Finalizer::Apply(map) => Did::Applied(map.name_any()),
            Finalizer::Cleanup(map) => Did::CleanedUp(map.name_any()),
        };
        context.did.send(did).expect("the test listens");
        Ok(Action::await_change())
    })
    .await
}

#[tokio::test]
async fn controller_with_a_finalizer_cleans_up_before_the_end() {
    let tombolo = Tombolo::start().await;
    let client = tombolo.client().await;
    let maps = maps(&client);
    let (did, mut done) = mpsc::unbounded_channel();
    let context = Arc::new(Context { client: client.clone(), did });
    let config = watcher::Config::default().labels("kept=yes");
    let controller = Controller::new(maps.clone(), config)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), context)
        .for_each(|_| std::future::ready(()));
    let controller = tokio::spawn(controller);

    let mut kept = map("a", "1");
    kept.labels_mut().insert("kept".to_owned(), "yes".to_owned());
    maps.create(&PostParams::default(), &kept).await.unwrap();
    assert_eq!(done.recv().await, Some(Did::Applied("a".to_owned())));
    assert_eq!(maps.get("a").await.unwrap().finalizers(), [FINALIZER]);

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    while done.recv().await != Some(Did::CleanedUp("a".to_owned())) {}
    eventually("it is gone", async || maps.get_opt("a").await.unwrap().is_none().then_some(()))
        .await;
    controller.abort();
}

/// The recorder of controllers tells in the newer group; equal events become a series.
#[tokio::test]
async fn recorder_tells_what_both_groups_show() {
    let tombolo = Tombolo::start().await;
    let client = tombolo.client().await;
    let about = maps(&client).create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let recorder = Recorder::new(client.clone(), Reporter::from("example.com/recorder"));
    let said = kube::runtime::events::Event {
        type_: EventType::Normal,
        reason: "Told".to_owned(),
        note: Some("the recorder works".to_owned()),
        action: "Tell".to_owned(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder.publish(&said, &about.object_ref(&())).await.unwrap();
    }
    let newer: Api<events::v1::Event> = Api::namespaced(client.clone(), "default");
    let params = ListParams::default().fields("regarding.name=a,reason=Told");
    let found = newer.list(&params).await.unwrap().items;
    let notes: Vec<_> = found.iter().map(|event| event.note.as_deref()).collect();
    assert_eq!(notes, [Some("the recorder works")]);
    assert_eq!(found[0].series.as_ref().map(|series| series.count), Some(2));
    let core: Api<core::v1::Event> = Api::namespaced(client, "default");
    let params = ListParams::default().fields("involvedObject.name=a,reason=Told");
    let found = core.list(&params).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message.as_deref(), Some("the recorder works"));
    assert_eq!(found[0].reporting_component.as_deref(), Some("example.com/recorder"));
}
