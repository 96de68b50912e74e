//! Of several controllers over one API one leads, and another takes over when it is gone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Child, Command, Stdio};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use rustix::process::{Pid, Signal, kill_process};

use tombolo_testkit::{Tombolo, binary, eventually};

/// Ends with the test.
struct Controller(Child);

impl Controller {
    fn start(tombolo: &Tombolo) -> Controller {
        let child = Command::new(binary::path())
            .arg("controller")
            .arg("--kubeconfig")
            .arg(tombolo.kubeconfig())
            .env("HOME", tombolo.data().parent().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Controller(child)
    }

    /// What it calls itself ends with the number of its process.
    fn is(&self, holder: &str) -> bool {
        holder.ends_with(&format!("-{}", self.0.id()))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

async fn until_led(client: &Client, what: &str, is: impl Fn(Option<&str>) -> bool) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "tombolo-system");
    eventually(what, async || {
        let lease = leases.get_opt("tombolo-leader").await.unwrap()?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        is(holder.as_deref()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_controller_leads_and_another_follows_it() {
    let tombolo = Tombolo::start().await;
    let client = tombolo.client().await;
    let first = Controller::start(&tombolo);
    until_led(&client, "the first leads", |holder| holder.is_some_and(|it| first.is(it))).await;
    let mut second = Controller::start(&tombolo);
    // As with its machine: nobody gives anything up.
    drop(first);
    until_led(&client, "the second leads", |holder| holder.is_some_and(|it| second.is(it))).await;
    kill_process(Pid::from_child(&second.0), Signal::TERM).unwrap();
    until_led(&client, "it was given up", |holder| holder.is_none()).await;
    assert!(second.0.wait().unwrap().success());
}
