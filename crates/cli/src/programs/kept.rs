//! What a server keeps going beside its loops: the garbage collector, the gate's ear, its registrations.
//! Each is started again when it panics, and `tombolo loops` shows it. Called by `up`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use tokio::task::JoinHandle;
use tombolo_apiserver::{Api, garbage};
use tombolo_controller::{BeforeLook, Board, keep};
use tombolo_facade::Index;
use tombolo_gate::Gate;
use tombolo_identity::Subject;
use tombolo_identity::home::Home;

use super::lighthouse;

/// Follows the store for as long as the process lives. `before` is called with the start of each of its
/// lives; tests panic in it.
pub(super) fn collect_garbage(api: &Api, board: &Board, before: BeforeLook) -> JoinHandle<()> {
    const NAME: &str = "garbage";
    let (api, board) = (api.clone(), board.clone());
    tokio::spawn(async move {
        let client = api.client(Subject::system(NAME));
        let live = || {
            let (api, before) = (api.clone(), Arc::clone(&before));
            async move {
                before(NAME);
                garbage::run(api).await;
            }
        };
        keep(&board, &client, NAME, live).await;
    })
}

/// Hears the Leases of agents and controllers.
pub(super) fn listen(gate: Gate, board: &Board, client: Client) {
    let board = board.clone();
    tokio::spawn(async move { keep(&board, &client, "gate", || gate.clone().listen()).await });
}

/// Where the facades find jobs and groups by their ids.
pub(super) fn index(index: Index, board: &Board, client: Client) {
    let board = board.clone();
    tokio::spawn(async move { keep(&board, &client, "job-index", || index.keep(&client)).await });
}

/// With itself, and with the lighthouse that was named.
pub(super) fn register(
    gate: Gate,
    board: &Board,
    client: &Client,
    addresses: Vec<String>,
    lighthouse: Option<PathBuf>,
) {
    let name = tombolo_agent::machine::host_name();
    let (kept, to, who, at) = (board.clone(), client.clone(), name.clone(), addresses.clone());
    tokio::spawn(async move {
        let register = || gate.clone().keep_registered(who.clone(), at.clone());
        keep(&kept, &to, "registration", register).await;
    });
    let Some(kubeconfig) = lighthouse else { return };
    let (board, client) = (board.clone(), client.clone());
    tokio::spawn(async move {
        let register =
            || lighthouse::register_at(kubeconfig.clone(), name.clone(), addresses.clone());
        keep(&board, &client, "lighthouse", register).await;
    });
}

/// Where others reach this server: at the names that were given, or where it listens.
pub(super) fn addresses(home: &Home, names: &[String], address: SocketAddr) -> Vec<String> {
    let named = names.iter().map(|name| format!("https://{name}:{}", address.port()));
    let named: Vec<String> = named.collect();
    if named.is_empty() { vec![home.url.clone()] } else { named }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use serde_json::{Value, json};
    use tombolo_controller::clock::Clock;
    use tombolo_identity::Token;
    use tombolo_plan::supervision::State;
    use tombolo_store::{Options, Store};

    use super::*;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn make(client: &Client, map: Value) -> Value {
        let request = http::Request::post(MAPS)
            .header("content-type", "application/json")
            .body(map.to_string().into_bytes());
        client.request(request.unwrap()).await.unwrap()
    }

    async fn left(client: &Client) -> usize {
        let list = http::Request::get(MAPS).body(Vec::new()).unwrap();
        let list: Value = client.request(list).await.unwrap();
        list["items"].as_array().map_or(0, Vec::len)
    }

    #[tokio::test]
    async fn the_garbage_collector_survives_a_panic() {
        const DEATHS: usize = 2;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Options::default()).unwrap();
        let api = Api::open(store, Token::from_bytes([7; 32]).hash()).await.unwrap();
        let board = Board::new(Clock::start());
        let lives = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lives);
        let before: BeforeLook = Arc::new(move |name| {
            let life = count.fetch_add(1, Ordering::SeqCst);
            assert!(life >= DEATHS, "planted in {name}");
        });
        let client = api.client(Subject::first_admin());
        let named = |name: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}})
        };
        let owner = make(&client, named("owner")).await;
        let mut owned = named("owned");
        owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
            "name": "owner", "uid": owner["metadata"]["uid"]}]);
        make(&client, owned).await;
        let delete = http::Request::delete(format!("{MAPS}/owner")).body(Vec::new()).unwrap();
        client.request::<Value>(delete).await.unwrap();

        let collecting = collect_garbage(&api, &board, before);
        let cleared = async {
            while left(&client).await > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), cleared).await.expect("it lives again");
        collecting.abort();
        assert_eq!(lives.load(Ordering::SeqCst), DEATHS + 1);
        let record = board.record("garbage").unwrap();
        assert_eq!((record.restarts, board.states()), (2, vec![("garbage", State::Serving)]));
        assert_eq!(record.error.unwrap().text, "it panicked: planted in garbage");
    }
}
