//! The generated Go clients against the real server, in protobuf both ways. What they do is in `go_client/main.go`,
//! which `scripts/go-client.sh` builds.

use tombolo_testkit::{Tombolo, tools};

#[tokio::test]
async fn generated_clients_speak_protobuf() {
    let test = "go_client::generated_clients_speak_protobuf";
    let Some(client) = tools::program(test, "go-client") else { return };
    let tombolo = Tombolo::start().await;
    let said = tombolo.run(&client, &[]).await.ok();
    assert!(said.ends_with("all good\n"), "{said}");
}
