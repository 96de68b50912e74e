//! A real engine: what is started runs, is found again, and its end is told.

mod rig;

use std::time::Duration;

use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use tombolo_driver::{CheckOutcome, Driver, Error, LogRequest, Port, State};
use tombolo_model::Bytes;
use tombolo_model::component::Protocol;

use rig::{Rig, eventually, exited, running, spec};

#[tokio::test(flavor = "multi_thread")]
async fn its_exit_code_and_last_lines_are_kept_and_restarts_counted() {
    let Some(rig) = Rig::new("its_exit_code").await else { return };
    let id = rig.start("exit.1", "echo hello; exit 7").await;
    let exit = exited(&rig, &id).await;
    assert_eq!((exit.code, exit.reason.as_str()), (Some(7), "Error"));
    assert_eq!(exit.log, ["hello"]);
    rig.start("exit.1", "exec sleep 1000").await;
    running(&rig, &id).await;
    let instance = rig.instance(&id).await.unwrap();
    assert_eq!((instance.restarts, instance.last_exit.unwrap().code), (1, Some(7)));
    rig.driver().remove(&id).await.unwrap();
    assert!(rig.instance(&id).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_agent_finds_it_and_sees_it_killed() {
    let Some(mut rig) = Rig::new("the_next_agent").await else { return };
    let id = rig.start("adopt.1", "exec sleep 1000").await;
    let pid = running(&rig, &id).await;
    rig.reopen();
    assert_eq!(running(&rig, &id).await, pid);
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let exit = exited(&rig, &id).await;
    assert_eq!((exit.signal, exit.reason.as_str()), (Some(9), "Killed"));
    rig.driver().remove(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_answers_a_command_runs_and_a_stop_is_told_as_one() {
    let Some(mut rig) = Rig::new("a_port_answers").await else { return };
    let mut web = spec(
        "web.1",
        &[
            "/bin/sh",
            "-c",
            "cd /; trap 'exit 0' TERM; httpd -p 80; echo up; while true; do sleep 0.1; done",
        ],
    );
    web.env.insert("PASSWORD".to_owned(), "hunter2".into());
    web.files
        .push(tombolo_driver::FilePlaced { path: "/www/x".to_owned(), content: "page".into() });
    web.ports.push(Port { port: 80, protocol: Protocol::Tcp, published: None, exposed: true });
    rig.driver().start(&web).await.unwrap();
    running(&rig, &web.id).await;
    let address = rig.driver().connect(&web.id, 80).await.unwrap();
    eventually("it answers", async || tokio::net::TcpStream::connect(address).await.ok()).await;
    let words = ["cat", "/www/x"].map(str::to_owned);
    let outcome = rig.driver().check_exec(&web.id, &words, Duration::from_secs(60)).await.unwrap();
    assert_eq!(outcome, CheckOutcome::Ended { code: 0, output: "page".to_owned() });
    let lines: Vec<_> =
        rig.driver().logs(&web.id, LogRequest::default()).await.unwrap().collect().await;
    assert_eq!(&lines[0].as_ref().unwrap().text[..], b"up");
    assert!(!format!("{:?}", rig.instance(&web.id).await).contains("hunter2"));
    rig.driver().stop(&web.id, Duration::from_secs(60)).await.unwrap();
    rig.reopen();
    assert_eq!(exited(&rig, &web.id).await.reason, "Stopped");
    rig.driver().remove(&web.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why() {
    let Some(rig) = Rig::new("what_cannot_start").await else { return };
    let missing = spec("nope.1", &["/nope"]);
    let error = rig.driver().start(&missing).await.unwrap_err();
    assert_eq!(error.reason(), "CommandNotFound", "{error:?}");
    let held = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let mut taken = spec("taken.1", &["/bin/sleep", "1000"]);
    taken.ports.push(Port {
        port: 80,
        protocol: Protocol::Tcp,
        published: Some(port),
        exposed: true,
    });
    match rig.driver().start(&taken).await.unwrap_err() {
        Error::PortTaken { port: told, .. } => assert_eq!(told, port),
        error => panic!("{error:?}"),
    }
    let state = rig.instance(&taken.id).await.unwrap().state;
    assert!(matches!(state, State::Failed(Error::PortTaken { .. })), "{state:?}");
    rig.driver().remove(&missing.id).await.unwrap();
    rig.driver().remove(&taken.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_needs_too_much_memory_is_told_so() {
    let Some(rig) = Rig::new("too_much_memory").await else { return };
    let mut greedy = spec("greedy.1", &["/bin/sh", "-c", "tail /dev/zero"]);
    greedy.resources.memory = Some(Bytes::new(16 << 20));
    rig.driver().start(&greedy).await.unwrap();
    let exit = exited(&rig, &greedy.id).await;
    assert_eq!(exit.reason, "OutOfMemory", "{exit:?}");
    assert_eq!(exit.message.as_deref(), Some("it needed more memory than its 16 MiB"));
    rig.driver().remove(&greedy.id).await.unwrap();
}
