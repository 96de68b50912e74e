//! What goes wrong in the world, and what becomes of it: the link is cut, the machine is rebooted while
//! it is cut off, the disk is full, a program ends, a check fails. Real servers, agents and processes, in
//! a network namespace and on a small disk of their own. Those need root, and say so where it is missing.
//!
//! Every fact is printed with the time until its condition was there; the goal is 2 s. No time is
//! asserted: a busy machine is not a failure. What survives the end of the agent and of the controller is
//! in `agent.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "faults/rig.rs"]
mod rig;
#[path = "faults/world.rs"]
mod world;

use std::net::TcpListener;
use std::time::Instant;

use serde_json::{Value, json};

use rig::{behind, on, record, run_agent, running};
use tombolo_testkit::rig::{
    NODE, condition, kill9, pid, print_time, runs, sees, shared_folder, shell,
};
use tombolo_testkit::{Rig, eventually};
use world::{Disk, Link};

/// The status without the times at which a condition flipped.
fn untimed(found: &Value) -> Value {
    let mut status = found["status"].clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = Value::Null;
    }
    status
}

#[tokio::test]
async fn a_cut_link_stops_nothing_and_a_mended_one_restarts_nothing() {
    let Some(link) = Link::make("a_cut_link") else { return };
    let rig = behind(&link).await;
    for name in ["one", "two", "three"] {
        rig.assign(name, json!({})).await;
    }
    let mut before = Vec::new();
    for name in ["one", "two", "three"] {
        before.push(rig.until_up(name).await);
    }
    let numbers: Vec<i32> = before.iter().map(pid).collect();

    link.cut();
    let cut_at = Instant::now();
    rig.until_node("Ready", "False").await;
    print_time("the link is cut (a Lease lasts 40 s)", cut_at);
    assert!(numbers.iter().all(|number| runs(*number)), "nothing stops");
    for name in ["one", "two", "three"] {
        rig.until("nobody knows whether it is up", name, |found| {
            let available = condition(found, "Available");
            available["status"] == "Unknown" && available["reason"] == "NodeSilent"
        })
        .await;
    }
    // What ends meanwhile is started again without anybody's help.
    kill9(numbers[2]);
    let again = eventually("it is started again while cut off", async || {
        running(&rig, "three").into_iter().find(|number| *number != numbers[2])
    })
    .await;

    link.mend();
    let mended_at = Instant::now();
    rig.until_node("Ready", "True").await;
    print_time("the link is mended: the node is ready", mended_at);
    let three = rig
        .until("the server hears of the restart", "three", |found| {
            found["status"]["restarts"] == 1 && condition(found, "Available")["status"] == "True"
        })
        .await;
    print_time("the link is mended: the restart is told", mended_at);
    assert_eq!(pid(&three), again);
    for (name, known) in ["one", "two"].into_iter().zip(&before) {
        let now = rig.until_up(name).await;
        assert_eq!(untimed(&now), untimed(known), "{name} was left alone");
    }
    assert!(runs(numbers[0]) && runs(numbers[1]));
}

#[tokio::test]
async fn a_reboot_while_cut_off_starts_everything_again_in_order() {
    let Some(link) = Link::make("a_reboot_while_cut_off") else { return };
    let mut rig = behind(&link).await;
    let after = |name: &str| json!({"peers": [{"component": name, "first": true}]});
    rig.assign("shy", json!({"disconnect": {"action": "stop", "after": "1h"}})).await;
    rig.until_up("shy").await;
    rig.assign("store", json!({})).await;
    rig.assign("api", after("store")).await;
    rig.assign("web", after("api")).await;
    for name in ["store", "api", "web"] {
        rig.until_up(name).await;
    }
    rig.until_kept("web").await;

    link.cut();
    rig.lose_power();
    for name in ["store", "api", "web"] {
        assert!(running(&rig, name).is_empty(), "{name} is gone");
    }
    let booted_at = Instant::now();
    rig.start_agent(&[]);
    let numbers = eventually("everything is back without the controller", async || {
        let first = |name: &str| running(&rig, name).first().copied();
        Some([first("store")?, first("api")?, first("web")?])
    })
    .await;
    let took = booted_at.elapsed().as_millis();
    println!("fault: a reboot while cut off: three are back after {took} ms (goal 15000)");
    let started = numbers.map(rig::started);
    assert!(started[0] <= started[1] && started[1] <= started[2], "in order: {started:?}");
    assert!(running(&rig, "shy").is_empty(), "by its rule it may run elsewhere by now");

    link.mend();
    for (name, number) in ["store", "api", "web"].into_iter().zip(numbers) {
        let found = rig.until("the server hears of it", name, |found| {
            condition(found, "Available")["status"] == "True"
                && found["status"]["instance"].is_string()
                && pid(found) == number
        });
        found.await;
        assert!(runs(number), "{name} was not started a third time");
    }
    eventually("the controller says where it runs: here", async || {
        (running(&rig, "shy").len() == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_full_disk_stops_nothing_is_told_and_is_got_over() {
    let Some(disk) = Disk::make("a_full_disk", 8) else { return };
    let mut rig = on(&disk).await;
    rig.assign("web", shell("while :; do echo the tide is in; sleep 0.05; done")).await;
    let web = pid(&rig.until_up("web").await);

    disk.fill();
    let filled_at = Instant::now();
    rig.assign("late", json!({})).await;
    let late = rig
        .until("it is told", "late", |found| condition(found, "Degraded")["reason"] == "DiskFull");
    let late = late.await;
    print_time("the disk is full, of what cannot start", filled_at);
    let message = condition(&late, "Degraded")["message"].to_string();
    assert!(message.contains("disk is full") && message.contains("Free some room"), "{message}");
    let node = rig.until_node("DiskPressure", "True").await;
    print_time("the disk is full, of the node", filled_at);
    let message = condition(&node, "DiskPressure")["message"].to_string();
    assert!(message.contains("No space left") && message.contains("Free some room"), "{message}");
    rig.until_event("late", "DiskFull").await;
    rig.until_event_about(NODE, "CannotWrite").await;
    assert!(runs(web), "what runs goes on");
    assert_eq!(rig.get("web").await["status"]["restarts"], 0);

    // The agent itself comes up on a full disk and finds what runs.
    rig.kill9_agent();
    assert!(runs(web));
    rig.start_agent(&[]);
    rig.until_node("Ready", "True").await;
    assert_eq!(pid(&rig.get("web").await), web);

    // One that has never been there cannot keep its key, and says so with its exit code.
    let ran = run_agent(&rig, &disk.path().join("other"), &["--join-file", "nowhere"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let file = rig.join_file("other.join").await;
    let ran = run_agent(&rig, &disk.path().join("other"), &["--join-file", &file]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("No space left"), "{ran:?}");

    disk.empty();
    let freed_at = Instant::now();
    rig.until_up("late").await;
    print_time("there is room again, and what could not start is up", freed_at);
    rig.until_node("DiskPressure", "False").await;
    print_time("there is room again, of the node", freed_at);
    assert!(runs(web), "and the first never stopped");
    assert_eq!(pid(&rig.get("web").await), web);
}

/// What the condition, the Event and the last exit say about a fact, and how long it took.
#[tokio::test]
async fn every_fact_is_told_with_a_condition_an_event_and_a_sentence() {
    let rig = Rig::start().await;
    rig.assign("warm", json!({})).await;
    let warm = pid(&rig.until_up("warm").await);

    let fact = Instant::now();
    kill9(warm);
    rig.until("it is restarted", "warm", |found| {
        found["status"]["restarts"] == 1 && found["status"]["lastExit"]["signal"] == 9
    })
    .await;
    print_time("a workload is killed", fact);
    rig.until_event("warm", "Restarted").await;

    let fact = Instant::now();
    rig.assign("nothing", json!({"run": {"process": {"command": ["no-such-program"]}}})).await;
    let told = rig.until_degraded("nothing", "CommandNotFound", fact).await;
    assert!(told.contains("Install") && told.contains("no-such-program"), "{told}");

    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let fact = Instant::now();
    rig.assign("taken", json!({"run": {"process": {"ports": [port]}}})).await;
    let told = rig.until_degraded("taken", "PortTaken", fact).await;
    assert!(told.contains(&port.to_string()) && told.contains("another port"), "{told}");

    let fact = Instant::now();
    rig.assign("crasher", shell("echo the pump is dry; exit 3")).await;
    let exited = rig
        .until("its first end is told", "crasher", |found| found["status"]["lastExit"]["code"] == 3)
        .await;
    print_time("a program ends with code 3", fact);
    assert_eq!(exited["status"]["lastExit"]["log"][0], "the pump is dry");
    let told = rig.until_degraded("crasher", "CrashLoop", fact).await;
    assert!(told.contains("code 3") && told.contains("the pump is dry"), "{told}");
}

#[tokio::test]
async fn a_check_that_fails_is_told_and_the_instance_restarted() {
    let rig = Rig::start().await;
    let folder = shared_folder();
    let flag = folder.path().join("well");
    std::fs::write(&flag, "").unwrap();
    let check = json!({"exec": {"command": ["test", "-e", flag]}, "interval": "200ms",
        "failures": 3});
    let mut spec = sees(folder.path());
    spec["health"] = check;
    rig.assign("web", spec).await;
    let old = pid(&rig.until_up("web").await);
    std::fs::remove_file(&flag).unwrap();
    let fact = Instant::now();
    let found = rig.until("it is told", "web", |found| {
        let reason = &condition(found, "Available")["reason"];
        reason == "CheckFails" || reason == "Unhealthy"
    });
    let found = found.await;
    print_time("a check fails (every 200 ms)", fact);
    let message = condition(&found, "Available")["message"].to_string();
    assert!(message.contains("check"), "{message}");
    rig.until("it is restarted", "web", |found| found["status"]["restarts"].as_u64() >= Some(1))
        .await;
    print_time("a check has failed three times: restarted", fact);
    std::fs::write(&flag, "").unwrap();
    let new = pid(&rig.until_up("web").await);
    assert!(new != old && !runs(old), "the old one is gone");
    rig.until_event("web", "Unhealthy").await;
}

#[tokio::test]
async fn the_agent_is_killed_and_nothing_is_told_of_what_goes_on() {
    let mut rig = Rig::start().await;
    // So slow that the server is heard before the check has answered.
    let check = json!({"exec": {"command": ["sleep", "2"]}, "timeout": "30s"});
    rig.assign("web", json!({"health": check})).await;
    let before = rig.until_up("web").await;
    rig.until_kept("web").await;
    let record = record(&rig, "web").await;
    rig.kill9_agent();
    let fact = Instant::now();
    rig.start_agent(&[]);
    rig.assign("more", json!({})).await;
    rig.until_up("more").await;
    print_time("the agent is back: something new is up", fact);
    // Whatever there was to say of it has been said by the time this is.
    rig.change("web", json!({"stopGrace": "7s"})).await;
    let after = rig.until_up("web").await;
    assert_eq!(pid(&after), pid(&before));
    for found in record.up_to(&after).await {
        assert_eq!(condition(&found, "Available")["status"], "True", "{:#}", found["status"]);
    }
}

#[tokio::test]
async fn an_update_that_fails_leaves_the_old_one_serving_and_says_so() {
    let rig = Rig::start().await;
    rig.assign("web", json!({})).await;
    let before = rig.until_up("web").await;
    let old = pid(&before);
    let record = record(&rig, "web").await;

    let key = json!({"run": {"process": {"secretEnv": {"KEY": {"name": "keys", "key": "a"}}}}});
    let fact = Instant::now();
    rig.change("web", key).await;
    let told = rig.until_degraded("web", "NoSuchEntry", fact).await;
    assert!(
        told.contains("the old one serves")
            && told.contains("Write it in the namespace of the App"),
        "{told}"
    );
    let available = condition(&rig.get("web").await, "Available");
    assert_eq!(available["status"], "True");
    assert!(available["message"].to_string().contains("the update fails"), "{available}");

    let command = json!({"command": ["no-such-program"], "secretEnv": null});
    let fact = Instant::now();
    rig.change("web", json!({"run": {"process": command}})).await;
    let told = rig.until_degraded("web", "RolledBack", fact).await;
    assert!(told.contains("no-such-program"), "{told}");
    let back = rig.get("web").await;
    assert_eq!((pid(&back), runs(old)), (old, true), "it never stopped");
    assert_eq!(back["status"]["startedAt"], before["status"]["startedAt"]);

    rig.change("web", json!({"run": {"process": {"command": ["sleep", "3601"]}}})).await;
    let new = rig.until_up("web").await;
    assert_ne!(pid(&new), old);
    for found in record.up_to(&new).await {
        assert_eq!(condition(&found, "Available")["status"], "True", "{:#}", found["status"]);
    }
    eventually("the old one is gone", async || (!runs(old)).then_some(())).await;
}

#[tokio::test]
async fn the_controller_is_killed_and_nothing_stops() {
    let mut rig = Rig::start().await;
    rig.assign("web", json!({})).await;
    let before = rig.until_up("web").await;
    rig.tombolo.kill9();
    assert!(runs(pid(&before)));
    let fact = Instant::now();
    rig.tombolo.restart().await;
    rig.until_node("Ready", "True").await;
    rig.assign("more", json!({})).await;
    rig.until_up("more").await;
    print_time("the controller is back: something new is up", fact);
    let now = rig.get("web").await;
    assert_eq!(now["status"], before["status"]);
    assert!(runs(pid(&before)), "{NODE} has kept it");
}
