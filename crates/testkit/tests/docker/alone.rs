//! Containers that are not to outlive the link to the server for long, and an agent that can no longer
//! end them.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Docker, container, shell, sleeper};
use tombolo_testkit::docker::IMAGE;
use tombolo_testkit::eventually;
use tombolo_testkit::rig::{kill9, merge, print_time};

/// What becomes of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Killed,
    Frozen,
}

/// It ends on its own only when it is killed.
fn stubborn() -> Value {
    shell("trap '' TERM; while true; do sleep 0.1; done")
}

/// Two containers; the one ends when it is told to, and the other does not.
fn pair() -> Value {
    let service = |script: &str| {
        json!({"image": IMAGE, "entrypoint": ["/bin/sh", "-c"], "command": [script],
            "restart": "always"})
    };
    json!({"services": {
        "mild": service("trap 'exit 0' TERM; while true; do sleep 0.1; done"),
        "hard": service("trap '' TERM; while true; do sleep 0.1; done"),
    }})
}

impl Docker {
    /// The containers of an Assignment that run.
    fn running(&self, name: &str) -> Vec<String> {
        let label = format!("label=tombolo.dev/assignment={name}");
        let said = self.engine.docker(&["ps", "-q", "--no-trunc", "--filter", &label]);
        said.lines().map(str::to_owned).collect()
    }

    /// The names of all its containers, of those that have ended too.
    fn names(&self, name: &str) -> Vec<String> {
        let label = format!("label=tombolo.dev/assignment={name}");
        let format = "{{.Names}}";
        let said = self.engine.docker(&["ps", "-a", "--format", format, "--filter", &label]);
        said.lines().map(str::to_owned).collect()
    }
}

async fn ends_without_its_agent(lost: Lost, test: &str) {
    let Some(mut docker) = Docker::start_with(test, &["--heartbeat", "1s"]).await else { return };
    // Long enough that a busy machine, which holds up heartbeats, ends nothing before its agent is lost.
    let rule = json!({"disconnect": {"action": "stop", "after": "15s"}, "stopGrace": "1s"});
    docker.assign("only", stubborn(), rule.clone()).await;
    let stack = json!({"engine": "docker", "run": {"compose": pair()}});
    let mut spec = rule;
    merge(&mut spec, stack);
    docker.rig.assign_bare("pair", spec).await;
    docker.assign("free", sleeper(), json!({})).await;
    for name in ["only", "pair", "free"] {
        docker.rig.until_up(name).await;
        docker.rig.until_kept(name).await;
    }
    let first = docker.running("only");
    assert_eq!((first.len(), docker.running("pair").len()), (1, 2));
    let free = container(&docker.rig.get("free").await);

    match lost {
        Lost::Killed => docker.rig.kill9_agent(),
        Lost::Frozen => docker.rig.signal_agent(Signal::STOP),
    }
    let lost_at = Instant::now();
    eventually("what may not go on without the server has ended", async || {
        (docker.running("only").is_empty() && docker.running("pair").is_empty()).then_some(())
    })
    .await;
    print_time(&format!("the agent is {lost:?}: its containers have ended"), lost_at);
    assert_eq!(docker.running("free").join(" "), free, "what has no such rule goes on");
    for name in [docker.names("only"), docker.names("pair")].concat() {
        assert!(name.contains(".stopping-"), "the next agent sees that it was ordered: {name}");
    }

    // The next agent has no server to ask, and looks after what may run without one.
    docker.rig.tombolo.kill9();
    match lost {
        Lost::Killed => docker.rig.start_agent(&[]),
        Lost::Frozen => docker.rig.signal_agent(Signal::CONT),
    }
    kill9(docker.pid(&free));
    eventually("what may run without the server is started again", async || {
        docker.running("free").into_iter().find(|found| *found != free)
    })
    .await;
    assert!(docker.running("only").is_empty() && docker.running("pair").is_empty());

    docker.rig.tombolo.restart().await;
    eventually("the server has said that they are still wanted", async || {
        let running = (docker.running("only").len(), docker.running("pair").len());
        (running == (1, 2)).then_some(())
    })
    .await;
    // Several heartbeats later it still runs: what was over is put off.
    docker.rig.until_heartbeats(5).await;
    assert_eq!((docker.running("only").len(), docker.running("pair").len()), (1, 2));
    assert_ne!(docker.running("only"), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_end_in_time_when_their_agent_is_killed() {
    ends_without_its_agent(Lost::Killed, "alone_killed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_end_in_time_when_their_agent_is_frozen() {
    ends_without_its_agent(Lost::Frozen, "alone_frozen").await;
}

/// The guard goes with the last deadline.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_guards_what_has_no_deadline() {
    let Some(docker) = Docker::start_with("unguarded", &["--heartbeat", "1s"]).await else {
        return;
    };
    let guards = || {
        let folder = docker.rig.folder().join("docker");
        let words = format!("supervise guard {}", folder.display());
        let ps = std::process::Command::new("ps").args(["-eo", "pid,args"]).output().unwrap();
        let said = String::from_utf8_lossy(&ps.stdout).into_owned();
        said.lines().filter(|line| line.contains(&words)).count()
    };
    docker.assign("free", sleeper(), json!({})).await;
    docker.rig.until_up("free").await;
    assert_eq!(guards(), 0);
    let rule = json!({"disconnect": {"action": "stop", "after": "1h"}, "stopGrace": "1s"});
    docker.assign("only", sleeper(), rule).await;
    docker.rig.until_up("only").await;
    assert_eq!(guards(), 1);
    docker.rig.tombolo.shell(&["delete", "assignment", "only", "--yes"]).await.ok();
    eventually("the guard has gone", async || (guards() == 0).then_some(())).await;
}
