//! A server whose clock is set while its agents are connected. The clock of the agent is right all the
//! while.

use std::time::Duration;

use serde_json::{Value, json};
use tombolo_testkit::rig::{self, Machine, NODE, condition};
use tombolo_testkit::{Clock, Rig, Tombolo, eventually};

/// Longer than any certificate of an agent lives.
const AHEAD: Duration = Duration::from_secs(400 * 24 * 60 * 60);

fn certificate(rig: &Rig) -> Option<String> {
    let text = std::fs::read_to_string(rig.folder().join("agent.json")).ok()?;
    let identity: Value = serde_json::from_str(&text).ok()?;
    Some(identity["certificate"].as_str()?.to_owned())
}

/// The agent has another certificate, and the server has taken a heartbeat with it.
async fn until_renewed(rig: &Rig, before: &str) -> String {
    let renewed = eventually("the agent has another certificate", async || {
        certificate(rig).filter(|now| now != before)
    })
    .await;
    rig.until_heartbeats(1).await;
    renewed
}

#[tokio::test]
async fn a_server_whose_clock_jumps_by_a_year_and_back_loses_no_node() {
    let test = "a_server_whose_clock_jumps_by_a_year_and_back_loses_no_node";
    let Some(clock) = Clock::make(test) else { return };
    let tombolo = Tombolo::start_by(&clock).await;
    let mut machine = Machine::beside(&tombolo);
    machine.arguments.extend(["--docker", "none", "--heartbeat", "5s"].map(str::to_owned));
    let rig = Rig::of(tombolo, machine).await;
    rig.assign("web", json!({})).await;
    let pid = rig::pid(&rig.until_up("web").await);
    let first = certificate(&rig).unwrap();

    clock.set_ahead(AHEAD);
    let second = until_renewed(&rig, &first).await;
    // And it can be worked with: an order goes down, and its answer comes back.
    rig.assign("more", json!({})).await;
    rig.until_up("more").await;

    clock.set_ahead(Duration::ZERO);
    until_renewed(&rig, &second).await;
    rig.assign("again", json!({})).await;
    rig.until_up("again").await;

    let events = rig.tombolo.shell(&["get", "events", "-o", "json"]).await.json();
    let lost = events["items"].as_array().unwrap().iter().filter(|event| {
        event["involvedObject"]["name"] == NODE && event["reason"] == "NodeNotReady"
    });
    assert_eq!(lost.count(), 0, "nobody called the node lost: {events:#}");
    let node = rig.until_node("Ready", "True").await;
    assert_eq!(condition(&node, "Ready")["reason"], "Heartbeat", "{node:#}");
    assert_eq!(rig::pid(&rig.get("web").await), pid);
}
