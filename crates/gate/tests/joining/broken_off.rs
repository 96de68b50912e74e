//! A joining that breaks off at each of its writes, before it or after it: nobody can use what is half
//! done, and the machine that asks again comes to the same end as if nothing had happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};
use tombolo_identity::{Token, request};
use tombolo_model::keys;
use tower::service_fn;

use crate::support::{OURS, Server, join};

/// A write of the gate, counted from 0, and on which side of it the API is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Before(usize),
    After(usize),
}

/// The way between the gate and the API, which can break.
#[derive(Debug)]
struct Way {
    breaks: Option<Break>,
    writes: AtomicUsize,
    is_broken: AtomicBool,
}

impl Way {
    fn new(breaks: Option<Break>) -> Arc<Way> {
        let (writes, is_broken) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Way { breaks, writes, is_broken })
    }

    /// From now on nothing comes through any more, until it is mended.
    fn meets(&self, here: Break) -> bool {
        if self.breaks == Some(here) {
            self.is_broken.store(true, Ordering::SeqCst);
        }
        self.is_broken.load(Ordering::SeqCst)
    }

    fn mend(&self) {
        self.writes.store(usize::MAX / 2, Ordering::SeqCst);
        self.is_broken.store(false, Ordering::SeqCst);
    }
}

fn over(way: &Arc<Way>, client: &kube::Client) -> kube::Client {
    let (way, client) = (way.clone(), client.clone());
    let service = service_fn(move |request: Request<Body>| {
        let (way, client) = (way.clone(), client.clone());
        async move {
            let lost = || std::io::Error::other("the API is lost");
            let number = match *request.method() == Method::GET {
                true => None,
                false => Some(way.writes.fetch_add(1, Ordering::SeqCst)),
            };
            if way.meets(Break::Before(number.unwrap_or(usize::MAX))) {
                return Err(lost());
            }
            let answer = client.send(request).await.map_err(std::io::Error::other)?;
            match way.meets(Break::After(number.unwrap_or(usize::MAX))) {
                true => Err(lost()),
                false => Ok(answer),
            }
        }
    });
    kube::Client::new(service, "default")
}

/// What is there when a machine joins as n1.
#[derive(Clone, Copy, Debug)]
enum There {
    Nothing,
    /// A node n1 of another machine, which is silent, was revoked and had a copy.
    SilentNode,
}

async fn prepare(server: &Server, there: There) -> Token {
    if let There::SilentNode = there {
        let ours = |kind: &str, metadata: Value, spec: Value| json!({"apiVersion": keys::API_VERSION, "kind": kind, "metadata": metadata, "spec": spec});
        let site = ours("Site", json!({"name": "north"}), json!({"engine": "host"}));
        let made = server.admin(Method::POST, &format!("{OURS}/sites"), site).await;
        assert_eq!(made.0, 201, "{}", made.1);
        let marks = json!({
            keys::ANNOTATION_MACHINE: "m0", keys::ANNOTATION_KEY: "k0",
            keys::ANNOTATION_REVOKED: "now", keys::ANNOTATION_QUARANTINED: "i0",
        });
        let metadata = json!({"name": "n1", "annotations": marks});
        let node = ours("Node", metadata, json!({"site": "north"}));
        let made = server.admin(Method::POST, &format!("{OURS}/nodes"), node).await;
        assert_eq!(made.0, 201, "{}", made.1);
        let cloned = json!({"status": {"conditions": [{
            "type": "Cloned", "status": "True", "reason": "TwoInstances", "message": "",
            "lastTransitionTime": "2026-06-01T12:00:00Z",
        }]}});
        let told = server.admin(Method::PATCH, &format!("{OURS}/nodes/n1/status"), cloned).await;
        assert_eq!(told.0, 200, "{}", told.1);
    }
    server.token(1).await
}

/// What a joining leaves behind, without what differs from time to time.
async fn left(server: &Server, token: &Token) -> Value {
    let get = async |path: &str| server.admin(Method::GET, path, Value::Null).await.1;
    let token = get(&format!("{OURS}/jointokens/{}", token.hash().join_token_name())).await;
    let names = |list: Value| -> Vec<Value> {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].clone()).collect()
    };
    let node = get(&format!("{OURS}/nodes/n1")).await;
    let marks = &node["metadata"]["annotations"];
    json!({
        "used by": token["status"]["usedBy"], "open for": token["status"]["usedKey"],
        "sites": names(get(&format!("{OURS}/sites")).await),
        "nodes": names(get(&format!("{OURS}/nodes")).await),
        "site": node["spec"]["site"], "machine": marks[keys::ANNOTATION_MACHINE],
        "key": marks[keys::ANNOTATION_KEY], "revoked": marks[keys::ANNOTATION_REVOKED],
        "quarantined": marks[keys::ANNOTATION_QUARANTINED],
        "version": node["status"]["agentVersion"],
        "cloned": node["status"]["conditions"][0]["status"],
    })
}

async fn check(there: There) {
    let key = request::new_key().expect("a key");
    let way = Way::new(None);
    let server = Server::start_with(|client| over(&way, client)).await;
    let token = prepare(&server, there).await;
    let body = join(&token, "n1", "m1", &key);
    let (code, answer) = server.post("/tombolo/join", &body).await;
    assert_eq!(code, 201, "{answer}");
    let whole = left(&server, &token).await;
    assert_eq!((&whole["used by"], &whole["open for"]), (&json!("n1"), &Value::Null));
    let writes = way.writes.load(Ordering::SeqCst);
    assert!(writes >= 4, "{writes} writes: token, node, version, event and token again");

    for breaks in (0..writes).flat_map(|number| [Break::Before(number), Break::After(number)]) {
        let way = Way::new(Some(breaks));
        let server = Server::start_with(|client| over(&way, client)).await;
        let token = prepare(&server, there).await;
        let (_, broken) = server.post("/tombolo/join", &body).await;
        assert!(way.is_broken.load(Ordering::SeqCst), "{breaks:?}: {broken}");
        way.mend();

        let thief = request::new_key().expect("a key");
        let stolen = [join(&token, "n1", "m1", &thief), join(&token, "n2", "m2", &thief)];
        // Before the first write, the token is as good as new.
        for stolen in stolen.iter().filter(|_| breaks != Break::Before(0)) {
            let (code, answer) = server.post("/tombolo/join", stolen).await;
            assert_eq!(code, 401, "{there:?}, {breaks:?}: {answer}");
        }
        let (code, joined) = server.post("/tombolo/join", &body).await;
        assert_eq!(code, 201, "{there:?}, {breaks:?}: {joined}");
        assert_eq!(left(&server, &token).await, whole, "{there:?}, {breaks:?}");
        let nonce = server.nonce().await;
        let (code, renewed) = server.renew(&joined["certificate"], &key, &nonce).await;
        assert_eq!(code, 201, "{there:?}, {breaks:?}: {renewed}");
        let (code, answer) = server.post("/tombolo/join", &stolen[0]).await;
        assert_eq!(code, 401, "{there:?}, {breaks:?}: {answer}");
    }
}

#[tokio::test]
async fn a_new_node_comes_to_the_same_end_wherever_its_joining_broke_off() {
    check(There::Nothing).await;
}

#[tokio::test]
async fn a_node_that_gets_another_machine_comes_to_the_same_end_wherever_its_joining_broke_off() {
    check(There::SilentNode).await;
}
