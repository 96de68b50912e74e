//! The official Python client against the real server. What it does is in `python_client.py`.

use tombolo_testkit::{Tombolo, tools};

#[tokio::test]
async fn the_python_client_works() {
    let Some(python) = tools::python("python::the_python_client_works") else { return };
    let tombolo = Tombolo::start().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python_client.py");
    let said = tombolo.run(&python, &[script]).await.ok();
    assert!(said.ends_with("all good\n"), "{said}");
}
