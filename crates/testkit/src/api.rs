//! The whole API in the process of a test, without a socket. Called by tests of the crates that serve it.

use tempfile::TempDir;
use tombolo_apiserver::Api;
use tombolo_identity::Token;
use tombolo_store::{Options, Store};

/// An API on a store of its own with nothing in it but what every start writes. It is gone with the folder.
pub async fn empty_api() -> (Api, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Options::default()).expect("a new store");
    let admin = Token::from_bytes([7; 32]).hash();
    let api = Api::open(store, admin).await.expect("the first objects are written");
    (api, folder)
}
