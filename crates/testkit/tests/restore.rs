//! A server that restores a backup, and an agent that runs what the backup does not know.

use std::fs;

use serde_json::{Value, json};
use tombolo_testkit::rig::{NODE, condition, pid, runs};
use tombolo_testkit::{Rig, Tombolo, eventually};

/// A rig with a backup that knows `old` and not `young`, which both run.
struct Monday {
    rig: Rig,
    file: String,
    old: i32,
    young: i32,
}

impl Monday {
    async fn start() -> Monday {
        let rig = Rig::start().await;
        rig.assign("old", json!({})).await;
        let old = pid(&rig.until_up("old").await);
        let file = rig.root().join("monday.backup").display().to_string();
        rig.tombolo.shell(&["backup", "--plain", &file]).await.ok();
        rig.assign("young", json!({})).await;
        let young = pid(&rig.until_up("young").await);
        Monday { rig, file, old, young }
    }

    /// What the node says once it has seen that the server was set back.
    async fn until_told(&self) -> Value {
        let node = self.rig.until_node("UnknownWorkloads", "True").await;
        let message = condition(&node, "UnknownWorkloads")["message"].to_string();
        assert!(message.contains("default/young") && !message.contains("default/old"), "{message}");
        assert!(runs(self.old) && runs(self.young), "nobody has said that they are to end");
        node
    }
}

#[tokio::test]
async fn a_restore_stops_nothing_that_the_backup_does_not_know() {
    let mut monday = Monday::start().await;
    monday.rig.tombolo.shell(&["restore", &monday.file, "--yes"]).await.ok();
    monday.until_told().await;
    monday.rig.until_event_about(NODE, "Forgotten").await;
    let audit = monday.rig.tombolo.shell(&["audit"]).await.ok();
    assert!(audit.contains(r#""verb":"backup""#) && audit.contains(r#""verb":"restore""#));

    // The next agent knows it, too, and the next list does not change it.
    monday.rig.kill9_agent();
    monday.rig.start_agent(&[]);
    monday.rig.assign("more", json!({})).await;
    monday.rig.until_up("more").await;
    assert!(runs(monday.old) && runs(monday.young), "the list has come, and both go on");

    // Whoever empties the node means all of it.
    monday.rig.tombolo.shell(&["node", "drain", NODE]).await.ok();
    eventually("it has ended", async || (!runs(monday.young)).then_some(())).await;
    monday.rig.until_node("UnknownWorkloads", "False").await;
}

#[tokio::test]
async fn a_server_whose_store_is_gone_says_so_instead_of_starting_empty() {
    let mut tombolo = Tombolo::start().await;
    tombolo.kill9();
    let data = tombolo.data();
    fs::remove_file(data.join("store.redb")).unwrap();
    let data = data.display().to_string();
    let up = ["up", "--no-agent", "--listen", "127.0.0.1:0", "--data", &data];
    let refused = tombolo.shell(&up).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("store.redb is gone"), "{refused:?}");
    assert!(!tombolo.data().join("store.redb").exists(), "a refusal makes nothing");

    tombolo.restart_with(&["--accept-empty-store"]).await;
    tombolo.shell(&["get", "nodes"]).await.ok();
}

/// Nobody knows then how far the lost store had counted.
#[tokio::test]
async fn a_restore_after_the_loss_of_the_store_stops_nothing_either() {
    let mut monday = Monday::start().await;
    monday.rig.tombolo.kill9();
    let data = monday.rig.tombolo.data();
    fs::remove_file(data.join("store.redb")).unwrap();
    let data = data.display().to_string();
    let refused =
        monday.rig.tombolo.shell(&["restore", "--data", &data, &monday.file, "--yes"]).await;
    assert_ne!(refused.code, Some(0), "it cannot know what was revoked: {refused:?}");
    assert!(refused.stderr.contains("--access backup"), "{refused:?}");
    assert!(!monday.rig.tombolo.data().join("store.redb").exists(), "a refusal makes nothing");
    let restore = ["restore", "--data", &data, &monday.file, "--yes", "--access", "backup"];
    monday.rig.tombolo.shell(&restore).await.ok();
    monday.rig.tombolo.restart().await;
    monday.until_told().await;
}
