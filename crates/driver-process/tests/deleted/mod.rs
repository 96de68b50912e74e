//! The folder of the instances is deleted, or moved away, under what runs there.

use std::fs;

use rustix::process::Signal;
use tombolo_driver::{Driver, Error, InstanceId};

use crate::rig::{Rig, eventually, kill, lives, running, send};

/// Its supervisor is woken by what it writes, and so looks at once whether its folder is there.
const TALKS: &str = "while :; do echo here; sleep 0.05; done";

async fn until_ended(pids: &[u32]) {
    eventually("all of it has ended", async || (!pids.iter().any(|pid| lives(*pid))).then_some(()))
        .await;
}

/// A program that is just becoming another one shows no environment for a moment, and so no mark.
async fn until_only(rig: &Rig, pid: u32) {
    eventually("it alone runs", async || (rig.marked("a.1") == [pid]).then_some(())).await;
}

fn is_gone<T: std::fmt::Debug>(result: tombolo_driver::Result<T>) {
    assert!(matches!(result, Err(Error::Unreachable { .. })), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_without_its_folder_says_so_and_starts_nothing_a_second_time() {
    for moved in [false, true] {
        let rig = Rig::new();
        let id = rig.start("a.1", TALKS).await;
        let (pid, supervisor) = (running(&rig, &id).await, rig.supervisor("a.1"));
        let elsewhere = tempfile::tempdir().unwrap();
        match moved {
            true => fs::rename(rig.path(""), elsewhere.path().join("moved")).unwrap(),
            false => fs::remove_dir_all(rig.path("")).unwrap(),
        }
        is_gone(rig.driver().list().await);
        is_gone(rig.driver().start(&rig.spec("a.1", &["sleep", "1000"]).0).await);
        assert!(!rig.path("").exists(), "nothing is made anew");
        until_ended(&[pid, supervisor]).await;
    }
}

/// The supervisor hangs, and so cannot see that its folder is gone.
#[tokio::test(flavor = "multi_thread")]
async fn what_still_runs_from_a_deleted_folder_is_ended_before_it_is_started_anew() {
    let mut rig = Rig::new();
    let script = "trap '' TERM; sleep 1000 & while :; do sleep 0.05; done";
    let id: InstanceId = rig.start("a.1", script).await;
    let (pid, supervisor) = (running(&rig, &id).await, rig.supervisor("a.1"));
    send(supervisor, Signal::STOP);
    rig.close();
    fs::remove_dir_all(rig.path("")).unwrap();
    rig.reopen();
    assert_eq!(rig.driver().list().await.unwrap(), [], "nobody knows of it");
    rig.start("a.1", "exec sleep 1000").await;
    let anew = running(&rig, &id).await;
    assert!(anew != pid && !lives(pid) && !lives(supervisor), "the first is gone before");
    until_only(&rig, anew).await;
    kill(anew);
}

/// One folder of many is deleted under an agent that runs.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_whose_folder_is_deleted_runs_once_after_the_next_start() {
    let rig = Rig::new();
    let id = rig.start("a.1", "exec sleep 1000").await;
    let other = rig.start("b.1", "exec sleep 1000").await;
    let (pid, untouched) = (running(&rig, &id).await, running(&rig, &other).await);
    fs::remove_dir_all(rig.path("a.1")).unwrap();
    rig.start("a.1", "exec sleep 1000").await;
    let anew = running(&rig, &id).await;
    assert!(anew != pid && !lives(pid));
    until_only(&rig, anew).await;
    assert_eq!(running(&rig, &other).await, untouched);
}
