//! What restarts an instance, whose it is, and what it is told.

use std::path::Path;

use serde_json::{Value, json};
use tombolo_identity::Remit;
use tombolo_model::Privilege;

use tombolo_model::ports::Transport;

use super::*;

fn assignment(change: &[(&str, Value)]) -> Assignment {
    let mut value = json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "Assignment",
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u-1"},
        "spec": {"app": "shop", "component": "web", "replica": 2, "site": "north", "node": "crane",
            "engine": "host", "run": {"process": {"command": ["web"]}},
            "peers": [{"component": "the-store", "addresses": ["b:2", "a:1"]},
                {"component": "cache"}, {"component": "far"}]},
        "status": {"agent": "lift", "restarts": 0},
    });
    for (pointer, to) in change {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap()[key] = to.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn remit() -> Remit {
    Remit::Node { site: "north".to_owned(), node: "crane".to_owned() }
}

fn entries(value: &str) -> Entries {
    let source = Source {
        namespace: "default".to_owned(),
        kind: SourceKind::Secret,
        name: "keys".to_owned(),
    };
    Entries::from([(source, BTreeMap::from([("a".to_owned(), value.into())]))])
}

#[test]
fn only_what_must_restart_an_instance_changes_its_revision() {
    let revision = |change: &[(&str, Value)]| revision(&assignment(change), &Entries::new());
    let before = revision(&[]);
    for (pointer, to) in [
        ("/spec/decision", json!({"reason": "another"})),
        ("/spec/peers", json!([])),
        ("/spec/health", json!({"tcp": {"port": 1}})),
        ("/spec/stopped", json!(true)),
        ("/spec/appGeneration", json!(7)),
        ("/metadata/labels", json!({"a": "b"})),
        ("/status/restarts", json!(9)),
    ] {
        assert_eq!(revision(&[(pointer, to)]), before, "{pointer}");
    }
    for (pointer, to) in [
        ("/spec/run", json!({"process": {"command": ["web", "-v"]}})),
        ("/spec/resources", json!({"cpu": "1"})),
        ("/spec/expose", json!([{"port": 80}])),
        ("/spec/restartedAt", json!("2030-01-31T12:00:00Z")),
    ] {
        assert_ne!(revision(&[(pointer, to)]), before, "{pointer}");
    }
}

#[test]
fn a_secret_that_changes_restarts_whoever_names_it() {
    let keys = json!({"process": {"command": ["web"],
        "secretEnv": {"KEY": {"name": "keys", "key": "a"}}}});
    let naming = assignment(&[("/spec/run", keys)]);
    assert_ne!(revision(&naming, &entries("one")), revision(&naming, &entries("two")));
    let other = assignment(&[]);
    assert_eq!(revision(&other, &entries("one")), revision(&other, &entries("two")));
    assert_eq!(
        sources(&naming).into_iter().collect::<Vec<_>>(),
        [entries("").into_keys().next().unwrap()]
    );
}

#[test]
fn ours_is_what_names_the_node_or_what_it_has_taken() {
    let ours = |change: &[(&str, Value)]| is_ours(&assignment(change), &remit());
    assert!(ours(&[]));
    assert!(!ours(&[("/spec/site", json!("south"))]));
    assert!(!ours(&[("/spec/node", json!("lift"))]));
    assert!(!ours(&[("/spec/node", Value::Null)]), "another has taken it");
    assert!(ours(&[("/spec/node", Value::Null), ("/status/agent", json!("crane"))]));
}

#[test]
fn an_instance_is_told_who_it_is_and_where_its_peers_are() {
    let key = |component: &str| ("default".into(), "shop".into(), component.into());
    let mut nearby = Nearby::default();
    nearby.reached.insert(key("cache"), vec![(6379, "10.0.0.1:6379".to_owned())]);
    nearby.files = Some("/var/lib/peers".into());
    let env = BTreeMap::from([(
        "/spec/run",
        json!({"process": {"command": ["web"],
        "env": {"TOMBOLO_SITE": "mine"}}}),
    )]);
    let change: Vec<(&str, Value)> = env.into_iter().collect();
    let spec = resolve(&assignment(&change), 1, &remit(), &Entries::new(), &nearby).unwrap();
    let of = |name: &str| {
        spec.env.get(name).map(|value| String::from_utf8(value.expose().to_vec()).unwrap())
    };
    assert_eq!(of("TOMBOLO_COMPONENT").as_deref(), Some("web"));
    assert_eq!(of("TOMBOLO_REPLICA").as_deref(), Some("2"));
    assert_eq!(of("TOMBOLO_NODE").as_deref(), Some("crane"));
    assert_eq!(of("TOMBOLO_SITE").as_deref(), Some("mine"), "its own word counts");
    assert_eq!(of("TOMBOLO_PEER_THE_STORE").as_deref(), Some("b:2"));
    assert_eq!(of("TOMBOLO_PEERS_THE_STORE").as_deref(), Some("b:2,a:1"));
    assert_eq!(of("TOMBOLO_PEER_CACHE").as_deref(), Some("10.0.0.1:6379"), "it runs here");
    assert_eq!(of("TOMBOLO_PEER_FAR"), None);
    assert_eq!(of("TOMBOLO_PEERS_FILE").as_deref(), Some("/var/lib/peers/u-1/peers.json"));
    assert_eq!(spec.shown, [Path::new("/var/lib/peers/u-1")]);
}

#[test]
fn what_the_site_allows_is_what_the_driver_is_told() {
    let allowed = |change: &[(&str, Value)]| {
        let (entries, nearby) = (Entries::new(), Nearby::default());
        let spec = resolve(&assignment(change), 1, &remit(), &entries, &nearby).unwrap();
        (spec.check_allowed().is_ok(), spec.allow.into_iter().collect::<Vec<_>>())
    };
    let root = ("/spec/run", json!({"process": {"command": ["web"], "user": "root"}}));
    assert_eq!(allowed(std::slice::from_ref(&root)), (false, vec![Privilege::Process]));
    let allow = ("/spec/allow", json!(["process", "host-user"]));
    let given = vec![Privilege::Process, Privilege::HostUser];
    assert_eq!(allowed(&[root, allow]), (true, given));
}

#[test]
fn a_container_finds_the_file_of_its_peers_in_a_folder_that_it_cannot_write() {
    let nearby = Nearby { files: Some("/var/lib/peers".into()), ..Nearby::default() };
    let resolve = |run: Value| {
        let change = [("/spec/run", run), ("/spec/engine", json!("docker"))];
        resolve(&assignment(&change), 1, &remit(), &Entries::new(), &nearby).unwrap()
    };
    let spec = resolve(json!({"container": {"image": "web"}}));
    let Workload::Container(container) = &spec.workload else { panic!("{spec:?}") };
    let volume = &container.volumes[0];
    assert_eq!(volume.host_path.as_deref(), Some("/var/lib/peers/u-1"));
    assert!(volume.read_only && volume.path == "/run/tombolo");
    assert_eq!(spec.env["TOMBOLO_PEERS_FILE"].expose(), b"/run/tombolo/peers.json");
    let own =
        json!({"container": {"image": "web", "volumes": [{"path": "/run/tombolo", "name": "a"}]}});
    assert!(!resolve(own).env.contains_key("TOMBOLO_PEERS_FILE"), "the place is taken");

    let spec = resolve(json!({"compose": {"services": {
        "web": {"image": "web", "volumes": ["data:/data"]},
        "db": {"image": "db", "volumes": ["own:/run/tombolo:ro"]},
    }}}));
    let Workload::Compose(project) = &spec.workload else { panic!("{spec:?}") };
    let bound = json!({"type": "bind", "source": "/var/lib/peers/u-1", "target": "/run/tombolo",
        "read_only": true});
    assert_eq!(project["services"]["web"]["volumes"], json!(["data:/data", bound]));
    assert_eq!(project["services"]["db"]["volumes"], json!(["own:/run/tombolo:ro"]));
    assert_eq!(spec.env["TOMBOLO_PEERS_FILE"].expose(), b"/run/tombolo/peers.json");
}

#[test]
fn whoever_is_bound_to_a_peer_restarts_when_it_moves() {
    let revision = |peers: Value| revision(&assignment(&[("/spec/peers", peers)]), &Entries::new());
    let bound =
        |to: &str| json!([{"component": "store", "addresses": ["a:1", "b:1"], "bound": to}]);
    assert_ne!(revision(bound("a:1")), revision(bound("b:1")));
    let more = json!([{"component": "store", "addresses": ["a:1"], "bound": "a:1"}]);
    assert_eq!(revision(bound("a:1")), revision(more));
}

#[test]
fn a_port_that_is_opened_further_restarts_it_and_is_open_on_the_address_of_the_machine() {
    let open = |from: &str| ("/spec/reach", json!([{"port": 80, "from": from}]));
    let expose = ("/spec/expose", json!([{"port": 80}]));
    let assigned = |from: &str| assignment(&[expose.clone(), open(from)]);
    let revision = |from: &str| revision(&assigned(from), &Entries::new());
    assert_ne!(revision("node"), revision("public"));
    let here = Nearby { address: "10.0.0.7".parse().ok(), ..Nearby::default() };
    let spec = resolve(&assigned("node"), 1, &remit(), &Entries::new(), &here).unwrap();
    let on = spec.opens_on(spec.ports.iter().find(|port| port.port == 80).unwrap().reach);
    assert_eq!(on, here.address);
}

#[test]
fn two_revisions_stand_side_by_side_unless_they_need_the_same_port() {
    let exclusive = |change: &[(&str, Value)], orders: &[u16]| {
        let around = Surroundings {
            remit: &remit(),
            entries: &Entries::new(),
            engines: &BTreeSet::from([Engine::Host]),
            ports_taken: &orders
                .iter()
                .map(|number| NodePort { transport: Transport::Tcp, number: *number })
                .collect(),
            nearby: &Nearby::default(),
            fallback: None,
        };
        job(&assignment(change), &around).wanted.exclusive
    };
    let fixed = json!({"process": {"command": ["web"], "ports": [80]}});
    let any = json!({"process": {"command": ["web", "$(PORT)"], "ports": [80]}});
    assert!(exclusive(&[("/spec/run", fixed.clone())], &[80]));
    assert!(!exclusive(&[("/spec/run", fixed)], &[81]));
    assert!(!exclusive(&[("/spec/run", any)], &[80]));
    assert!(exclusive(&[("/spec/fence", json!(1))], &[]), "it holds state");
    let udp = json!([{"port": 80, "protocol": "udp"}]);
    let quiet = json!({"process": {"command": ["web"]}});
    let both = [("/spec/run", quiet), ("/spec/expose", udp)];
    assert!(!exclusive(&both, &[80]), "of another transport");
}
