//! The engine goes away and comes back: this is told, and what runs goes on. A test program of its
//! own, because nobody else can use the engine meanwhile.

mod rig;

use futures::{FutureExt as _, StreamExt as _};
use tombolo_driver::{Driver, State};

use rig::{Rig, eventually, running};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_goes_is_told_and_found_again_with_all_that_runs() {
    let Some(rig) = Rig::new("goes_and_comes").await else { return };
    let id = rig.start("stay.1", "exec sleep 1000").await;
    let before = running(&rig, &id).await;
    let mut events = rig.driver().events();
    while events.next().now_or_never().is_some() {}

    rig.engine_goes().await;
    events.next().await.unwrap();
    let error = eventually("it is missed", async || rig.driver().list().await.err()).await;
    assert_eq!(error.reason(), "EngineUnreachable", "{error:?}");
    assert!(error.to_string().contains("docker.sock"), "{error}");
    let spec = rig::spec("more.1", &["/bin/sleep", "1000"]);
    assert_eq!(rig.driver().start(&spec).await.unwrap_err().reason(), "EngineUnreachable");

    rig.engine_comes_back().await;
    events.next().await.unwrap();
    let after = eventually("it is there", async || rig.driver().list().await.ok()).await;
    let State::Running(found) = &after[0].state else { panic!("{after:?}") };
    assert_eq!((found.pid, &found.name), (Some(before.0), &before.1), "nothing was restarted");
    assert_eq!(after[0].restarts, 0);
    rig.driver().start(&spec).await.unwrap();
    running(&rig, &spec.id).await;
    for id in [&id, &spec.id] {
        rig.driver().remove(id).await.unwrap();
    }
}
