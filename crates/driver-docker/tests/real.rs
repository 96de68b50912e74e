//! A real engine: what is started runs, is found again, and its end is told.

#[path = "escape/mod.rs"]
mod escape;
mod rig;

use std::time::Duration;

use futures::{StreamExt, stream};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tombolo_driver::{
    CheckOutcome, Driver, Error, ExecRequest, FilePlaced, Instance, InstanceId, LogRequest, Port,
    State, Workload,
};
use tombolo_driver_docker::DockerDriver;
use tombolo_model::component::{Protocol, Reach};
use tombolo_model::run::Volume;
use tombolo_model::{Bytes, Reason};

use rig::{IMAGE, Rig, eventually, exited, running, spec};

const FOR_EVER: &str = "exec sleep 1000";

fn kill9(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::KILL).expect("it runs");
}

fn exposed(port: u16, published: Option<u16>) -> Port {
    Port { port, protocol: Protocol::Tcp, published, exposed: true, reach: Reach::Loopback }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_exit_code_and_last_lines_are_kept_and_restarts_counted() {
    let Some(rig) = Rig::new("its_exit_code").await else { return };
    let id = rig.start("exit.1", "echo hello; exit 7").await;
    let exit = exited(&rig, &id).await;
    assert_eq!((exit.code, exit.reason.word()), (Some(7), "Error"));
    assert_eq!(exit.log, ["hello"]);
    rig.start("exit.1", FOR_EVER).await;
    running(&rig, &id).await;
    let instance = rig.instance(&id).await.unwrap();
    assert_eq!((instance.restarts, instance.last_exit.unwrap().code), (1, Some(7)));
    let used = rig.driver().usage().await.unwrap();
    assert!(used.iter().any(|(used, usage)| *used == id && usage.processes == 1), "{used:?}");
    rig.driver().remove(&id).await.unwrap();
    assert!(rig.instance(&id).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_agent_finds_it_and_sees_it_killed() {
    let Some(mut rig) = Rig::new("the_next_agent").await else { return };
    let id = rig.start("adopt.1", FOR_EVER).await;
    let (pid, container) = running(&rig, &id).await;
    rig.reopen();
    assert_eq!(running(&rig, &id).await, (pid, container));
    kill9(pid);
    let exit = exited(&rig, &id).await;
    assert_eq!((exit.signal, exit.reason.word()), (Some(9), "Killed"));
    rig.driver().remove(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_answers_a_command_runs_and_a_stop_is_told_as_one() {
    let Some(mut rig) = Rig::new("a_port_answers").await else { return };
    let script = "trap 'exit 0' TERM; httpd -p 80 -h /; echo up; while true; do sleep 0.1; done";
    let mut web = spec("web.1", &["/bin/sh", "-c", script]);
    web.env.insert("PASSWORD".to_owned(), "hunter2".into());
    web.files.push(FilePlaced { path: "/www/x".to_owned(), content: "page".into() });
    web.ports.push(exposed(80, None));
    rig.driver().start(&web).await.unwrap();
    running(&rig, &web.id).await;
    eventually("it answers", async || rig.driver().connect(&web.id, 80).await.ok()).await;
    let Err(error) = rig.driver().connect(&web.id, 81).await else { panic!("nothing listens") };
    assert_eq!(error.reason(), "ConnectionRefused");
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

/// Whether the page is there over the published port alone. Another engine of this machine may have given
/// the same port to somebody else on another address.
fn is_open(on: &str, port: u16, page: &str) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = std::net::TcpStream::connect((on, port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time above nothing");
    let mut answer = String::new();
    let asked = stream.write_all(format!("GET /{page} HTTP/1.0\r\n\r\n").as_bytes());
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.ends_with(page)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_open_as_far_as_it_is_to_be_reached() {
    let Some(rig) = Rig::new("a_port_is_open").await else { return };
    // Two addresses that every machine has: the first stands for that of the node.
    let (node, other) = ("127.0.0.2", "127.0.0.3");
    for (number, reach) in [Reach::Loopback, Reach::Node, Reach::Public].into_iter().enumerate() {
        let page = format!("page-{}-{number}", std::process::id());
        let command = ["httpd", "-f", "-p", "80", "-h", "/www"];
        let mut web = spec(&format!("web{number}.1"), &command);
        web.files.push(FilePlaced { path: format!("/www/{page}"), content: page.as_str().into() });
        web.ports.push(Port { reach, ..exposed(80, None) });
        web.address = Some(node.parse().unwrap());
        rig.driver().start(&web).await.unwrap();
        running(&rig, &web.id).await;
        let State::Running(runs) = rig.instance(&web.id).await.unwrap().state else { panic!() };
        let port = runs.ports[0].published.unwrap();
        let tried = || ["127.0.0.1", node, other].map(|on| is_open(on, port, &page));
        // The engine takes connections before the program does: only the page says that it is there.
        let open = eventually("its page is there", async || {
            Some(tried()).filter(|open| open.contains(&true))
        });
        let open = open.await;
        let expected = match reach {
            Reach::Loopback => [true, false, false],
            Reach::Node => [false, true, false],
            Reach::Public => [true, true, true],
        };
        assert_eq!(open, expected, "{reach}");
        rig.driver().remove(&web.id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why() {
    let Some(rig) = Rig::new("what_cannot_start").await else { return };
    let missing = spec("nope.1", &["/nope"]);
    let error = rig.driver().start(&missing).await.unwrap_err();
    assert_eq!(error.reason(), "CommandNotInImage", "{error:?}");
    let held = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let mut taken = spec("taken.1", &["/bin/sleep", "1000"]);
    taken.ports.push(exposed(80, Some(port)));
    match rig.driver().start(&taken).await.unwrap_err() {
        Error::PortTaken { port: told, .. } => assert_eq!(told, port),
        error => panic!("{error:?}"),
    }
    let state = rig.instance(&taken.id).await.unwrap().state;
    assert!(matches!(state, State::Failed(Error::PortTaken { .. })), "{state:?}");
    drop(held);
    rig.driver().start(&taken).await.unwrap();
    running(&rig, &taken.id).await;
    let mut absent = spec("absent.1", &["/bin/true"]);
    if let Workload::Container(container) = &mut absent.workload {
        container.image = "127.0.0.1:1/none:1".to_owned();
    }
    let error = rig.driver().start(&absent).await.unwrap_err();
    assert_eq!(error.reason(), "ImageOutOfReach", "{error:?}");
    let state = rig.instance(&absent.id).await.unwrap().state;
    assert!(matches!(state, State::Failed(Error::ImageOutOfReach { .. })), "{state:?}");
    for id in [&missing.id, &taken.id, &absent.id] {
        rig.driver().remove(id).await.unwrap();
    }
    assert_eq!(rig.driver().list().await.unwrap(), []);
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

#[tokio::test(flavor = "multi_thread")]
async fn agents_on_one_engine_leave_each_other_alone() {
    let Some(rig) = Rig::new("one_engine").await else { return };
    let id = rig.start("mine.1", FOR_EVER).await;
    let (_, container) = running(&rig, &id).await;
    let other = rig.open("another");
    assert_eq!(other.list().await.unwrap(), [], "it is not theirs to see");
    other.stop(&id, Duration::ZERO).await.unwrap();
    other.remove(&id).await.unwrap();
    assert_eq!(running(&rig, &id).await.1, container);
    rig.driver().remove(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn components_of_an_app_find_each_other_and_volumes_stay() {
    let Some(rig) = Rig::new("find_each_other").await else { return };
    let keeps = |id: &str, script: &str| {
        let mut spec = spec(id, &["/bin/sh", "-c", script]);
        spec.origin.app = "shop".to_owned();
        if let Workload::Container(container) = &mut spec.workload {
            let name = Some("data".to_owned());
            container.volumes =
                vec![Volume { path: "/data".to_owned(), name, ..Volume::default() }];
        }
        spec
    };
    let mut store = keeps("store.1", "echo kept >/data/x; exec httpd -f -p 80 -h /data");
    store.origin.component = "store".to_owned();
    rig.driver().start(&store).await.unwrap();
    let asks = "until wget -q -O - http://store/x; do sleep 0.1; done";
    let client = keeps("client.1", asks);
    rig.driver().start(&client).await.unwrap();
    let exit = exited(&rig, &client.id).await;
    assert_eq!((exit.code, exit.log.last().map(String::as_str)), (Some(0), Some("kept")));
    for id in [&client.id, &store.id] {
        rig.driver().remove(id).await.unwrap();
    }
    let networks = rig.docker(&["network", "ls", "--format", "{{.Name}}"]);
    assert!(!networks.contains(".shop"), "the network goes with the last of them: {networks}");
    let again = keeps("again.1", "cat /data/x");
    rig.driver().start(&again).await.unwrap();
    assert_eq!(exited(&rig, &again.id).await.log, ["kept"]);
    rig.driver().remove(&again.id).await.unwrap();

    let neighbour = rig.open("neighbour_of_find_each_other");
    assert_eq!(neighbour.clear().await.unwrap(), 0, "what others have is theirs");
    assert_eq!(rig.driver().clear().await.unwrap(), 1);
    assert_eq!(rig.driver().clear().await.unwrap(), 0);
    let volumes = rig.docker(&["volume", "ls", "--format", "{{.Name}}"]);
    assert!(!volumes.contains("find_each_other"), "{volumes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compose_project_is_one_instance_of_several_parts() {
    let Some(rig) = Rig::new("a_compose_project").await else { return };
    let mut stack = spec("stack.1", &[]);
    stack.workload = Workload::Compose(json!({
        "services": {
            "db": {"image": IMAGE, "entrypoint": ["/bin/sh", "-c"], "restart": "always",
                "command": ["mkdir /w; echo rows >/w/x; exec httpd -f -p 80 -h /w"],
                "healthcheck": {"test": ["CMD", "wget", "-q", "-O", "-", "http://127.0.0.1/x"],
                    "interval": "200ms", "retries": 100}},
            "init": {"image": IMAGE, "entrypoint": ["/bin/sh", "-c"],
                "command": ["wget -q -O - http://db/x"],
                "depends_on": {"db": {"condition": "service_healthy"}}},
            "web": {"image": IMAGE, "entrypoint": ["/bin/sh", "-c"], "restart": "always",
                "command": ["exec httpd -f -p 80 -h /"], "ports": ["80"],
                "depends_on": {"init": {"condition": "service_completed_successfully"}}},
        },
    }));
    rig.driver().start(&stack).await.unwrap();
    let up = eventually("it runs", async || {
        let instance = rig.instance(&stack.id).await?;
        matches!(instance.state, State::Running(_)).then_some(instance)
    })
    .await;
    let names: Vec<&str> = up.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["db", "init", "web"]);
    let of_init = LogRequest { part: Some("init".to_owned()), ..LogRequest::default() };
    let lines: Vec<_> = rig.driver().logs(&stack.id, of_init).await.unwrap().collect().await;
    let line = lines[0].as_ref().unwrap();
    assert_eq!((&line.text[..], line.part.as_deref()), (&b"rows"[..], Some("init")));
    assert!(rig.driver().connect(&stack.id, 80).await.is_ok());
    let (db, web) = (container(&up, "db"), pid(&up, "web"));

    kill9(web);
    let exit = exited(&rig, &stack.id).await;
    assert_eq!(exit.message.as_deref(), Some("web: it was ended by signal 9"));
    rig.driver().start(&stack).await.unwrap();
    let again = eventually("it runs again", async || {
        let instance = rig.instance(&stack.id).await?;
        matches!(instance.state, State::Running(_)).then_some(instance)
    })
    .await;
    assert_eq!((again.restarts, container(&again, "db")), (1, db), "the others went on");
    rig.driver().stop(&stack.id, Duration::ZERO).await.unwrap();
    assert_eq!(exited(&rig, &stack.id).await.reason, "Stopped");
    rig.driver().remove(&stack.id).await.unwrap();
    assert!(rig.instance(&stack.id).await.is_none());
}

fn part<'a>(instance: &'a Instance, name: &str) -> &'a tombolo_driver::Running {
    let part = instance.parts.iter().find(|part| part.name == name).expect("a part");
    let State::Running(running) = &part.state else { panic!("{part:?}") };
    running
}

fn container(instance: &Instance, name: &str) -> String {
    part(instance, name).name.clone()
}

fn pid(instance: &Instance, name: &str) -> u32 {
    part(instance, name).pid.expect("it runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_talks_to_a_command_inside_and_follows_the_log_over_a_restart() {
    let Some(rig) = Rig::new("a_person_talks").await else { return };
    let id = rig.start("talk.1", "echo one; exec sleep 1000").await;
    let (pid, _) = running(&rig, &id).await;
    let request = ExecRequest { command: vec!["cat".to_owned()], ..ExecRequest::default() };
    let mut session = rig.driver().exec(&id, request).await.unwrap();
    session.input.write_all(b"hello\n").await.unwrap();
    let piece = session.output.next().await.unwrap().unwrap();
    assert_eq!(&piece.bytes[..], b"hello\n");
    session.input.shutdown().await.unwrap();
    assert_eq!(session.exit.await.unwrap().code, Some(0));
    let nothing = ExecRequest { command: vec!["nope".to_owned()], ..ExecRequest::default() };
    let refused = rig.driver().exec(&id, nothing).await.unwrap_err();
    assert_eq!(refused.reason(), "CommandNotFound", "{refused:?}");
    let words = ["/bin/sh", "-c", "echo mine; exit 127"].map(str::to_owned).to_vec();
    let own = ExecRequest { command: words, ..ExecRequest::default() };
    let mut session = rig.driver().exec(&id, own).await.unwrap();
    assert_eq!(&session.output.next().await.unwrap().unwrap().bytes[..], b"mine\n");
    assert_eq!(session.exit.await.unwrap().code, Some(127), "its own word is no error of ours");

    let follow = LogRequest { follow: true, ..LogRequest::default() };
    let mut lines = rig.driver().logs(&id, follow).await.unwrap();
    assert_eq!(&lines.next().await.unwrap().unwrap().text[..], b"one");
    kill9(pid);
    exited(&rig, &id).await;
    rig.start("talk.1", "echo two; exec sleep 1000").await;
    assert_eq!(&lines.next().await.unwrap().unwrap().text[..], b"two");
    rig.driver().remove(&id).await.unwrap();
    assert!(lines.next().await.is_none(), "the log ends with the instance");
}

/// Waits for an end by events alone, without ever asking again by itself: one that is missed is
/// never seen.
async fn ends_by_events(driver: &DockerDriver, id: &InstanceId) -> Reason {
    let mut events = driver.events();
    let mut last = None;
    let seen = async {
        loop {
            // A question that is lost is asked again when the driver has found its engine.
            let instances = driver.list().await.unwrap_or_default();
            let state = instances.into_iter().find(|one| one.id == *id).map(|one| one.state);
            if let Some(State::Exited(exit)) = state {
                return exit.reason;
            }
            last = state;
            events.next().await.expect("events without end");
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(60), seen).await;
    seen.unwrap_or_else(|_| panic!("{id} ended, and nobody saw it: {last:?}"))
}

/// What ends: by itself, killed from outside, stopped by an agent that goes on, or by one that is
/// gone the moment after.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_always_seen() {
    let Some(rig) = Rig::new("an_end").await else { return };
    let rig = &rig;
    let rounds = stream::iter(0..48_u32).map(|round| async move {
        // Each has an agent of its own, so that no event of another round helps.
        let agent = format!("an_end_{round}");
        let mut driver = rig.open(&agent);
        let script = match round % 4 {
            0 => "exit 3",
            1 => FOR_EVER,
            _ => "trap 'exit 0' TERM; while true; do sleep 0.01; done",
        };
        let spec = spec(&format!("end{round}.1"), &["/bin/sh", "-c", script]);
        driver.start(&spec).await.unwrap();
        let expected = match round % 4 {
            0 => "Error",
            1 => {
                let instances = driver.list().await.unwrap();
                let State::Running(running) = &instances[0].state else { panic!() };
                kill9(running.pid.unwrap());
                "Killed"
            }
            2 => {
                driver.stop(&spec.id, Duration::from_secs(30)).await.unwrap();
                "Stopped"
            }
            _ => {
                driver.stop(&spec.id, Duration::from_secs(30)).await.unwrap();
                driver = rig.open(&agent);
                "Stopped"
            }
        };
        assert_eq!(ends_by_events(&driver, &spec.id).await, expected, "round {round}");
        driver.remove(&spec.id).await.unwrap();
    });
    rounds.buffer_unordered(6).collect::<Vec<()>>().await;
}

/// The stream of events breaks off just before, during or after an end, and more than once.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_seen_also_when_the_events_break_off() {
    let Some(rig) = Rig::new("events_break_off").await else { return };
    let rig = &rig;
    let rounds = stream::iter(0..40_u32).map(|round| async move {
        let (driver, cable) = rig.open_over(&format!("cut_{round}"));
        let spec = spec(&format!("cut{round}.1"), &["/bin/sh", "-c", "sleep 0.1; exit 3"]);
        driver.start(&spec).await.unwrap();
        let cuts = async {
            for _ in 0..=round % 4 {
                // Another moment in each round, around the end of the container.
                tokio::time::sleep(Duration::from_millis(u64::from(round) * 7)).await;
                cable.cut();
            }
        };
        let (seen, ()) = tokio::join!(ends_by_events(&driver, &spec.id), cuts);
        assert_eq!(seen, "Error", "round {round}");
        eventually("the cable holds again", async || driver.remove(&spec.id).await.ok()).await;
    });
    rounds.buffer_unordered(6).collect::<Vec<()>>().await;
}

/// An agent that is killed in the middle of a stop has perhaps told nobody yet: the name alone says
/// that it was to end.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_was_only_written_down_is_carried_out() {
    let Some(mut rig) = Rig::new("only_written_down").await else { return };
    let id = rig.start("left.1", "trap '' TERM; while true; do sleep 0.05; done").await;
    let (_, container) = running(&rig, &id).await;
    rig.docker(&["rename", &container, "tombolo.left.1.0.stopping-1000"]);
    rig.reopen();
    assert_eq!(exited(&rig, &id).await.reason, "Stopped");
    rig.driver().remove(&id).await.unwrap();
}
