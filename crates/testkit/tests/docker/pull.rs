//! Images: pulled with progress when they are missing, used from the engine's own when the registry is
//! away.

use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::rig::{Docker, container};
use tombolo_testkit::docker::IMAGE;
use tombolo_testkit::rig::condition;
use tombolo_testkit::{Registry, eventually};

/// Before the gate opens so many bytes of the registry come through: not all of the image.
const BEFORE_THE_GATE: usize = 6 << 20;
/// Between two pieces until then. The engine tells how far it is ten times a second at most, and only
/// while something comes.
const PACE: Duration = Duration::from_millis(20);

/// A slow way to the registry with a gate in it: however quick the machine is, a pull is half done
/// until the gate opens.
struct Gate {
    address: String,
    open: watch::Sender<bool>,
}

impl Gate {
    async fn before(registry: String) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (open, opened) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (registry, opened) = (registry.clone(), opened.clone());
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(&registry).await else { return };
                    let (mut near_in, near_out) = near.into_split();
                    let (far_in, mut far_out) = far.into_split();
                    // Either side may end it; that is what connections are like.
                    tokio::select! {
                        _ = tokio::io::copy(&mut near_in, &mut far_out) => (),
                        _ = pass(far_in, near_out, opened) => (),
                    }
                });
            }
        });
        Gate { address, open }
    }
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut opened: watch::Receiver<bool>,
) -> Option<()> {
    let mut passed = 0;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        passed += count;
        if passed > BEFORE_THE_GATE {
            opened.wait_for(|open| *open).await.ok()?;
        } else {
            tokio::time::sleep(PACE).await;
        }
        to.write_all(&buffer[..count]).await.ok()?;
    }
}

/// An image of eight megabytes that do not get smaller, in the registry and nowhere else.
fn push(docker: &Docker, registry: &Registry, name: &str) {
    let there = format!("{}/{name}", registry.address());
    let fill = "dd if=/dev/urandom of=/ballast bs=1048576 count=8";
    docker
        .engine
        .docker(&["run", "--net", "none", "--name", "draft", IMAGE, "/bin/sh", "-c", fill]);
    docker.engine.docker(&["commit", "draft", &there]);
    docker.engine.docker(&["rm", "draft"]);
    docker.engine.docker(&["push", &there]);
    docker.engine.docker(&["rmi", &there]);
}

fn has_image(docker: &Docker, name: &str) -> bool {
    !docker.engine.docker(&["images", "-q", name]).is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pulled_with_progress_and_used_from_the_cache_without_its_registry() {
    let Some(mut registry) = Registry::start("an_image_is_pulled").await else { return };
    let Some(docker) = Docker::start("pull").await else { return };
    let rig = &docker.rig;
    push(&docker, &registry, "web:1");
    let gate = Gate::before(registry.address()).await;
    let image = format!("{}/web:1", gate.address);
    assert!(!has_image(&docker, &image));
    let run = json!({"image": image, "command": ["/bin/sh", "-c", "exec sleep 1000"]});

    let fact = Instant::now();
    docker.assign("web", run.clone(), json!({"stopGrace": "1s"})).await;
    let percent = |found: &Value| {
        let progressing = condition(found, "Progressing");
        let message = progressing["message"].as_str()?.to_owned();
        let (what, rest) = message.split_once(", ")?;
        let is = what == format!("pulling {image}") && progressing["status"] == "True";
        rest.strip_suffix(" %")?.parse::<u32>().ok().filter(|_| is)
    };
    let half = |found: &Value| percent(found).is_some_and(|percent| (1..100).contains(&percent));
    let pulling = rig.until("it is half here", "web", half).await;
    tombolo_testkit::rig::print_time("half of an image is here", fact);
    assert_eq!(condition(&pulling, "Available")["status"], "False");
    assert_eq!(condition(&pulling, "Degraded")["status"], "False", "slow is not wrong");

    gate.open.send(true).unwrap();
    let up = rig.until_up("web").await;
    assert!(has_image(&docker, &image));
    assert_eq!(up["status"]["restarts"], 0);

    // Nobody has this one.
    let fact = Instant::now();
    let other = format!("{}/web:2", gate.address);
    docker.assign("absent", json!({"image": other}), json!({})).await;
    let message = rig.until_degraded("absent", "NoSuchImage", fact).await;
    assert!(message.contains(&format!("image {other} does not exist")), "{message}");
    assert!(message.contains("Check the name and the tag"), "{message}");

    registry.stop();
    rig.assignments().delete("web", &DeleteParams::default()).await.unwrap();
    eventually("it is gone", async || {
        let all = docker.engine.docker(&["ps", "-aq", "--no-trunc"]);
        (!all.contains(&container(&up))).then_some(())
    })
    .await;
    docker.assign("again", run, json!({"stopGrace": "1s"})).await;
    let again = rig.until_up("again").await;
    assert_ne!(container(&again), container(&up));
    let fact = Instant::now();
    let third = format!("{}/web:3", gate.address);
    docker.assign("offline", json!({"image": third}), json!({})).await;
    rig.until_degraded("offline", "ImageOutOfReach", fact).await;
}
