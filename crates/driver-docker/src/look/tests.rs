//! What the engine shows becomes an instance.

use expect_test::{Expect, expect};

use super::*;

/// `web/0 running`, `db/1 exited:3`, `web/0 running stopping`, `init/0 exited:0 once`: a part, its
/// run and its state. A part `-` is the whole instance.
fn seen(text: &str, parts: &[String]) -> Arc<Seen> {
    let mut words = text.split(' ');
    let (part, run) = words.next().unwrap().split_once('/').unwrap();
    let (status, code) = match words.next().unwrap() {
        "running" => (ContainerStateStatusEnum::RUNNING, 0),
        "created" => (ContainerStateStatusEnum::CREATED, 0),
        exited => (ContainerStateStatusEnum::EXITED, exited[7..].parse().unwrap()),
    };
    let more: Vec<&str> = words.collect();
    let state = ContainerState {
        status: Some(status),
        exit_code: Some(code),
        finished_at: Some("2026-01-01T00:00:00Z".to_owned()),
        ..ContainerState::default()
    };
    let part = (part != "-").then(|| part.to_owned());
    let tag = Tag {
        id: Some("u-1.1".parse().unwrap()),
        parts: part.as_ref().map(|_| parts.to_vec()).unwrap_or_default(),
        part,
        run: run.parse().unwrap(),
        once: more.contains(&"once"),
        ..Tag::default()
    };
    let name = match more.contains(&"stopping") {
        true => tag::stopping_name(&tag.name(), 1),
        false => tag.name(),
    };
    let inspected =
        ContainerInspectResponse { state: Some(state), ..ContainerInspectResponse::default() };
    Arc::new(Seen { container: text.to_owned(), name, tag, inspected, log: Vec::new() })
}

fn said(state: &State) -> String {
    match state {
        State::Starting { doing } => format!("starting: {doing}"),
        State::Running(_) => "running".to_owned(),
        State::Stopping(_) => "stopping".to_owned(),
        State::Exited(exit) => {
            format!("{} {:?} {}", exit.reason, exit.code, exit.message.clone().unwrap_or_default())
        }
        State::Failed(error) => format!("failed: {error}"),
    }
}

#[track_caller]
fn check_doing(seen_texts: &[&str], doing: Option<State>, expected: Expect) {
    let mut parts: Vec<String> =
        seen_texts.iter().map(|text| text.split('/').next().unwrap().to_owned()).collect();
    parts.dedup();
    let seen: Vec<Arc<Seen>> = seen_texts.iter().map(|text| seen(text, &parts)).collect();
    let doing =
        doing.map(|state| ("u-1.1".parse().unwrap(), Doing { origin: Origin::default(), state }));
    let instances = instances(&seen, &doing.into_iter().collect());
    let told: Vec<String> = instances
        .iter()
        .map(|instance| {
            let last = instance.last_exit.as_ref().and_then(|exit| exit.code);
            format!("{} restarts={} last={last:?}", said(&instance.state), instance.restarts)
        })
        .collect();
    expected.assert_eq(&told.join("\n"));
}

#[track_caller]
fn check(seen_texts: &[&str], expected: Expect) {
    check_doing(seen_texts, None, expected);
}

#[test]
fn the_last_run_counts_and_the_one_before_is_how_it_ended() {
    check(&["-/0 exited:7", "-/1 running"], expect!["running restarts=1 last=Some(7)"]);
    check(
        &["-/1 exited:137"],
        expect!["Killed None it was ended by signal 9 restarts=1 last=None"],
    );
    check(&["-/0 exited:143 stopping"], expect!["Stopped None  restarts=0 last=None"]);
    check(&["-/0 running stopping"], expect!["stopping restarts=0 last=None"]);
}

#[test]
fn a_project_runs_while_all_do_that_should() {
    check(&["db/0 running", "web/0 running"], expect!["running restarts=0 last=None"]);
    check(
        &["db/0 running", "web/2 exited:3"],
        expect!["Error Some(3) web: it ended with code 3 restarts=2 last=None"],
    );
    check(&["init/0 exited:0 once", "web/0 running"], expect!["running restarts=0 last=None"]);
    check(
        &["init/0 exited:1 once", "web/0 running"],
        expect!["Error Some(1) init: it ended with code 1 restarts=0 last=None"],
    );
    check(
        &["a/0 exited:0 once", "b/0 exited:0 once"],
        expect!["Completed Some(0) a: it ended with code 0 restarts=0 last=None"],
    );
    check(&["db/0 running", "web/0 running stopping"], expect!["stopping restarts=0 last=None"]);
}

#[test]
fn a_part_that_is_gone_is_missed() {
    let parts = ["db".to_owned(), "web".to_owned()];
    let instances = instances(&[seen("web/0 running", &parts)], &BTreeMap::new());
    assert_eq!(said(&instances[0].state), "failed: cannot find db, a part of it");
}

#[test]
fn what_is_being_done_comes_first_unless_it_runs_after_all() {
    let starting = || State::Starting { doing: "pulling".to_owned() };
    let failed = || State::Failed(Error::NoSuchImage { image: "web:1".to_owned() });
    check_doing(
        &["-/0 exited:7"],
        Some(starting()),
        expect!["starting: pulling restarts=0 last=None"],
    );
    check_doing(&[], Some(starting()), expect!["starting: pulling restarts=0 last=None"]);
    check_doing(
        &["-/0 exited:7"],
        Some(failed()),
        expect![
            "failed: image web:1 does not exist, neither here nor in its registry restarts=0 last=None"
        ],
    );
    check_doing(&["-/0 running"], Some(failed()), expect!["running restarts=0 last=None"]);
    check(
        &["-/0 created"],
        expect![
            "failed: cannot say whether it was started: the agent ended while it did so restarts=0 last=None"
        ],
    );
}

#[test]
fn of_two_ports_for_one_the_one_that_ipv4_leads_to_is_told() {
    let settings = serde_json::json!({"NetworkSettings": {"Ports": {"80/tcp": [
        {"HostIp": "::", "HostPort": "49153"}, {"HostIp": "0.0.0.0", "HostPort": "49154"},
    ]}}});
    let inspected = serde_json::from_value(settings).unwrap();
    assert_eq!(ports(&inspected)[0].published, Some(49154));
}

#[test]
fn a_port_is_reached_where_it_was_bound() {
    let told = |ip: &str| {
        let settings = serde_json::json!({"NetworkSettings": {
            "Ports": {"80/tcp": [{"HostIp": ip, "HostPort": "8080"}]},
            "Networks": {"a": {"IPAddress": "172.18.0.2"}},
        }});
        let inspected = serde_json::from_value(settings).unwrap();
        let ports = ports(&inspected);
        let addresses = vec!["172.18.0.2".to_owned()];
        let (name, since) = (String::new(), SystemTime::UNIX_EPOCH);
        let running = Running { name, pid: None, since, addresses, ports };
        (running.ports[0].reach().to_string(), doors(&running, 80))
    };
    let at = |addresses: [&str; 2]| addresses.map(|address| address.parse().unwrap()).to_vec();
    let own = "172.18.0.2:80";
    assert_eq!(told("127.0.0.1"), ("loopback".into(), at(["127.0.0.1:8080", own])));
    assert_eq!(told("10.0.0.7"), ("node".into(), at(["10.0.0.7:8080", own])));
    assert_eq!(told("0.0.0.0"), ("public".into(), at(["127.0.0.1:8080", own])));
    let both = serde_json::json!({"NetworkSettings": {"Ports": {"80/tcp": [
        {"HostIp": "127.0.0.1", "HostPort": "80"}, {"HostIp": "10.0.0.7", "HostPort": "80"},
    ]}}});
    let both = ports(&serde_json::from_value(both).unwrap());
    assert_eq!(both[0].on, "10.0.0.7".parse().ok(), "where others come");
}
