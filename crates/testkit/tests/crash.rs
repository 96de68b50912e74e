//! The server is killed, really, while clients write and watch: nothing that was acknowledged is
//! lost, and a watch goes on where it was, without a gap and without a duplicate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use tombolo_testkit::Tombolo;

const KILLS: usize = 4;
const WRITERS: usize = 8;
const ROUND: Duration = Duration::from_millis(400);

/// One line of a watch: what happened, to which object, at which revision.
type Seen = (&'static str, String, u64);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_no_watch_has_a_gap() {
    let mut server = Tombolo::start().await;
    let start = latest(&server.client().await).await;
    let acknowledged: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let mut seen: Vec<Seen> = Vec::new();

    for round in 0..KILLS {
        let client = server.client().await;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (client, acknowledged) = (client.clone(), acknowledged.clone());
                tokio::spawn(write(client, format!("w-{round}-{writer}"), acknowledged))
            })
            .collect();
        let from = seen.last().map_or(start, |(_, _, revision)| *revision);
        let watcher = tokio::spawn(follow(client, from));
        tokio::time::sleep(ROUND).await;
        server.kill9();
        for writer in writers {
            writer.await.expect("a writer ends when the server is gone");
        }
        seen.extend(watcher.await.expect("a watcher ends when the server is gone"));
        server.restart().await;
    }

    let client = server.client().await;
    let end = latest(&client).await;
    let from = seen.last().map_or(start, |(_, _, revision)| *revision);
    seen.extend(follow_until(&client, from, end).await);
    let whole = follow_until(&client, start, end).await;
    assert_eq!(seen, whole, "a watch that was cut off saw what an unbroken one sees");
    assert!(seen.is_sorted_by(|a, b| a.2 < b.2), "each revision once, in order");

    let stored = api(&client).list(&ListParams::default()).await.expect("listed");
    let stored: BTreeMap<String, u64> =
        stored.iter().map(|map| (map.name_any(), revision(map))).collect();
    let acknowledged = acknowledged.lock().expect("not poisoned").clone();
    assert!(acknowledged.len() > WRITERS, "the writers came to something");
    for (name, revision) in &acknowledged {
        assert_eq!(stored.get(name), Some(revision), "{name} was acknowledged");
    }
}

fn api(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn revision(map: &ConfigMap) -> u64 {
    map.resource_version().and_then(|text| text.parse().ok()).expect("a revision")
}

async fn latest(client: &Client) -> u64 {
    let list = api(client).list(&ListParams::default()).await.expect("listed");
    list.metadata.resource_version.and_then(|text| text.parse().ok()).expect("a revision")
}

/// Creates objects until the server is gone, and notes what it acknowledged.
async fn write(client: Client, prefix: String, acknowledged: Arc<Mutex<BTreeMap<String, u64>>>) {
    for index in 0.. {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("{prefix}-{index}"));
        map.data = Some([("index".to_owned(), index.to_string())].into());
        let Ok(made) = api(&client).create(&PostParams::default(), &map).await else { return };
        acknowledged.lock().expect("not poisoned").insert(made.name_any(), revision(&made));
    }
}

/// Watches until the connection breaks.
async fn follow(client: Client, from: u64) -> Vec<Seen> {
    let mut seen = Vec::new();
    let (api, parameters) = (api(&client), WatchParams::default());
    let Ok(stream) = api.watch(&parameters, &from.to_string()).await else { return seen };
    pin_mut!(stream);
    while let Some(Ok(event)) = stream.next().await {
        seen.extend(line(event));
    }
    seen
}

/// Watches until a revision has come.
async fn follow_until(client: &Client, from: u64, end: u64) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    if from >= end {
        return seen;
    }
    let (api, parameters) = (api(client), WatchParams::default().timeout(20));
    let stream = api.watch(&parameters, &from.to_string()).await;
    let stream = stream.expect("the history goes back so far");
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        seen.extend(line(event.expect("an event")));
        if seen.last().is_some_and(|(_, _, revision)| *revision >= end) {
            break;
        }
    }
    seen
}

fn line(event: WatchEvent<ConfigMap>) -> Option<Seen> {
    match event {
        WatchEvent::Added(map) => Some(("added", map.name_any(), revision(&map))),
        WatchEvent::Modified(map) => Some(("modified", map.name_any(), revision(&map))),
        WatchEvent::Deleted(map) => Some(("deleted", map.name_any(), revision(&map))),
        WatchEvent::Bookmark(_) => None,
        WatchEvent::Error(status) => panic!("the watch ended: {status:?}"),
    }
}
