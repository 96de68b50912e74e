//! A compose project becomes what the engine is asked for.

use bollard::models::PortBinding;
use expect_test::{Expect, expect};
use serde_json::json;
use tombolo_driver::Origin;
use tombolo_model::component::Protocol;

use super::*;

fn spec() -> Spec {
    Spec {
        id: "u-1.1".parse().unwrap(),
        origin: Origin {
            namespace: "default".to_owned(),
            app: "shop".to_owned(),
            component: "stack".to_owned(),
            ..Origin::default()
        },
        node: None,
        workload: Workload::Compose(Value::Null),
        env: BTreeMap::from([("TOMBOLO_APP".to_owned(), "shop".into())]),
        files: Vec::new(),
        ports: Vec::new(),
        fixed_ports: Default::default(),
        address: None,
        resources: Resources::default(),
        stop_grace: std::time::Duration::from_secs(10),
        asks: Default::default(),
        allow: Default::default(),
        shown: Vec::new(),
        deadline: None,
    }
}

/// A line for each container to be, or why there is none.
fn told(written: &Value) -> String {
    let project = match project(&spec(), written, "north/crane") {
        Ok(project) => project,
        Err(error) => return format!("{}: {error}", error.reason()),
    };
    let lines = project.parts.iter().map(|draft| {
        let host = draft.body.host_config.clone().unwrap_or_default();
        let mut line = format!("{} {}", draft.name.as_deref().unwrap_or("-"), draft.image());
        let networks = draft.networks.iter();
        for attachment in networks {
            line.push_str(&format!(" {}={}", attachment.network, attachment.aliases.join("+")));
        }
        let after = draft.after.iter().map(|after| format!("{}:{:?}", after.part, after.until));
        let after: Vec<String> = after.collect();
        line.push_str(&format!(" after={after:?} once={}", draft.once));
        let mut ports: Vec<String> =
            host.port_bindings.clone().unwrap_or_default().keys().cloned().collect();
        ports.sort_unstable();
        line.push_str(&format!(" ports={ports:?} memory={:?}", host.memory));
        line
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[test]
fn a_port_is_open_as_far_as_the_project_or_the_assignment_says() {
    let bound = |port: &str, reach: Option<Reach>| {
        let written = json!({"services": {"web": {"image": "web:1", "ports": [port]}}});
        let mut spec = spec();
        spec.address = Some("10.0.0.7".parse().unwrap());
        let (port, protocol) = (80, Protocol::Tcp);
        let wanted = |reach| Port { port, protocol, published: None, exposed: true, reach };
        spec.ports.extend(reach.map(wanted));
        let project = project(&spec, &written, "north/crane").unwrap();
        let host = project.parts[0].body.host_config.clone().unwrap();
        let bindings = host.port_bindings.unwrap()["80/tcp"].clone().unwrap();
        let at = |one: PortBinding| {
            format!("{}:{}", one.host_ip.unwrap_or_default(), one.host_port.unwrap_or_default())
        };
        bindings.into_iter().map(at).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(bound("127.0.0.1:18555:80", None), "127.0.0.1:18555");
    assert_eq!(bound("18555:80", None), ":18555");
    assert_eq!(bound("80", Some(Reach::Loopback)), ":", "the project opens it");
    let both = bound("127.0.0.1:18555:80", Some(Reach::Node));
    assert_eq!(both, "10.0.0.7:18555 127.0.0.1:18555");
    assert_eq!(bound("127.0.0.1::80", Some(Reach::Node)), "10.0.0.7:");
}

#[track_caller]
fn check(written: &Value, expected: Expect) {
    expected.assert_eq(&told(written));
}

#[test]
fn services_share_a_network_and_start_in_order() {
    check(
        &json!({"services": {
            "api": {"image": "api:1", "depends_on": {"db": {"condition": "service_healthy"},
                "init": {"condition": "service_completed_successfully"}}, "restart": "always",
                "ports": ["8080:80"]},
            "db": {"image": "db:1", "restart": "always", "volumes": ["data:/data"],
                "healthcheck": {"test": ["CMD", "ready"], "interval": "1s"}, "mem_limit": "64m"},
            "init": {"image": "db:1", "command": "migrate", "depends_on": ["db"]},
            "debug": {"image": "debug:1", "profiles": ["debug"]},
        }, "volumes": {"data": {}}}),
        expect![[r#"
            db db:1 tombolo.u-1.1=db tombolo.north-crane.default.shop= after=[] once=false ports=[] memory=Some(67108864)
            init db:1 tombolo.u-1.1=init tombolo.north-crane.default.shop= after=["db:Started"] once=true ports=[] memory=None
            api api:1 tombolo.u-1.1=api tombolo.north-crane.default.shop=stack after=["db:Healthy", "init:Completed"] once=false ports=["80/tcp"] memory=None"#]],
    );
}

#[test]
fn networks_of_a_project_keep_services_apart_and_inside() {
    check(
        &json!({"services": {
            "web": {"image": "web:1", "networks": ["front", "back"], "ports": ["80"]},
            "db": {"image": "db:1", "networks": {"back": {"aliases": ["sql"]}}},
            "cron": {"image": "cron:1"},
        }, "networks": {"front": {}, "back": {"internal": true}}}),
        expect![[r#"
            cron cron:1 tombolo.u-1.1=cron tombolo.north-crane.default.shop= after=[] once=true ports=[] memory=None
            db db:1 tombolo.u-1.1.back=db+sql after=[] once=true ports=[] memory=None
            web web:1 tombolo.u-1.1.front=web tombolo.u-1.1.back=web tombolo.north-crane.default.shop=stack after=[] once=true ports=["80/tcp"] memory=None"#]],
    );
    check(
        &json!({"services": {"web": {"image": "web:1", "networks": ["lan"]}, "db": {"image": "d"}},
            "networks": {"lan": {"external": true}}}),
        expect![[
            r#"Unsupported: the docker engine cannot put a service on network "lan" of another project"#
        ]],
    );
}

#[test]
fn one_service_is_reached_like_a_component() {
    check(
        &json!({"services": {"web": {"image": "web:1", "cap_add": ["NET_ADMIN"],
            "hostname": "www", "expose": ["80"]}}}),
        expect![
            "web web:1 tombolo.north-crane.default.shop=web+www+stack after=[] once=true ports=[] memory=None"
        ],
    );
}

#[test]
fn one_service_on_internal_networks_alone_stays_inside() {
    let with = |networks: Value| {
        json!({"services": {"web": {"image": "web:1", "networks": networks}},
            "networks": {"front": {}, "back": {"internal": true}}})
    };
    check(
        &with(json!({"back": {"aliases": ["inner"]}})),
        expect!["web web:1 tombolo.u-1.1.back=web+inner after=[] once=true ports=[] memory=None"],
    );
    check(
        &with(json!(["back", "front"])),
        expect![
            "web web:1 tombolo.north-crane.default.shop=web+stack after=[] once=true ports=[] memory=None"
        ],
    );
}

#[test]
fn what_stays_inside_has_no_way_out_when_its_networks_cannot_be_had() {
    let written = json!({"services": {
        "web": {"image": "web:1", "networks": ["front", "zone"]},
        "db": {"image": "db:1", "networks": ["back", "zone"]},
    }, "networks": {"front": {}, "back": {"internal": true}, "zone": {"internal": true}}});
    let mut project = project(&spec(), &written, "north/crane").unwrap();
    let modes = |project: &Project| {
        let modes = project.parts.iter().map(|draft| {
            let tag = project.tag(&spec(), draft, "north/crane", 0);
            draft.request(&tag).host_config.unwrap().network_mode
        });
        modes.collect::<Vec<_>>()
    };
    let on = |name: &str| Some(name.to_owned());
    assert_eq!(modes(&project), [on("tombolo.u-1.1.back"), on("tombolo.u-1.1.front")]);
    project.do_without("tombolo.u-1.1.back", "No back.");
    assert_eq!(modes(&project), [on("tombolo.u-1.1.zone"), on("tombolo.u-1.1.front")]);
    for network in project.networks().into_keys() {
        project.do_without(&network, "No more.");
    }
    assert_eq!(modes(&project), [on("none"), None], "the other one may go out");
    let inside: Vec<_> = project.notes.iter().filter(|note| note.contains("db")).collect();
    assert_eq!(inside, ["Service db is on no network: all that it names are internal."]);
}

#[test]
fn replicas_are_containers_of_their_own() {
    check(
        &json!({"services": {"web": {"image": "web:1", "deploy": {"replicas": 2}},
            "proxy": {"image": "proxy:1", "depends_on": ["web"]}}}),
        expect![[r#"
            web-1 web:1 tombolo.u-1.1=web tombolo.north-crane.default.shop= after=[] once=true ports=[] memory=None
            web-2 web:1 tombolo.u-1.1=web tombolo.north-crane.default.shop= after=[] once=true ports=[] memory=None
            proxy proxy:1 tombolo.u-1.1=proxy tombolo.north-crane.default.shop= after=["web-1:Started"] once=true ports=[] memory=None"#]],
    );
    check(
        &json!({"services": {"web": {"image": "web:1", "scale": 2, "ports": ["80:80"]}}}),
        expect![[
            r#"Invalid: service "web" runs more than once and cannot have port 80 of the node"#
        ]],
    );
}

#[test]
fn what_is_beyond_a_container_is_handed_to_the_engine() {
    let written = json!({"services": {"web": {"image": "web:1",
        "cap_add": ["NET_ADMIN"], "devices": ["/dev/video0:/dev/camera:r"], "tty": true,
        "sysctls": ["net.core.somaxconn=10"], "ulimits": {"nofile": {"soft": 1, "hard": 2}},
        "shm_size": "64m", "extra_hosts": ["a=10.0.0.1"], "network_mode": "host",
        "labels": {"tombolo.dev/agent": "me", "x": "$$y"}, "tmpfs": "/run:size=1m"}}});
    let project = project(&spec(), &written, "north/crane").unwrap();
    let draft = &project.parts[0];
    assert!(draft.networks.is_empty(), "it has the host's");
    let host = draft.body.host_config.clone().unwrap();
    assert_eq!(host.network_mode.as_deref(), Some("host"));
    assert_eq!(host.cap_add, Some(vec!["NET_ADMIN".to_owned()]));
    assert_eq!(host.shm_size, Some(64 << 20));
    assert_eq!(host.extra_hosts, Some(vec!["a:10.0.0.1".to_owned()]));
    assert_eq!(host.sysctls.unwrap()["net.core.somaxconn"], "10");
    assert_eq!(host.tmpfs.unwrap()["/run"], "size=1m");
    assert_eq!(host.devices.unwrap()[0].cgroup_permissions.as_deref(), Some("r"));
    assert_eq!(host.ulimits.unwrap()[0].hard, Some(2));
    assert_eq!(draft.body.tty, Some(true));
    let labels = draft.body.labels.clone().unwrap();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), [("x".to_owned(), "$y".to_owned())]);
    assert_eq!(draft.body.env, Some(vec!["TOMBOLO_APP=shop".to_owned()]));
}

#[test]
fn what_is_no_project_is_told() {
    check(&json!({}), expect![[r#"Invalid: a compose project needs "services""#]]);
    check(&json!({"services": {}}), expect!["Invalid: no service of the compose project runs"]);
    check(
        &json!({"services": {"a": {"image": "a", "depends_on": ["b"]},
            "b": {"image": "b", "depends_on": ["a"]}}}),
        expect!["Invalid: the services a, b wait for each other"],
    );
    check(
        &json!({"services": {"a": {}}}),
        expect![[r#"Invalid: service "a": "image" is missing; expected the image, with its tag"#]],
    );
    check(
        &json!({"services": {"a": {"image": "a", "network_mode": "service:b"}}}),
        expect![[
            r#"Unsupported: the docker engine cannot set "network_mode" of a service to that of another"#
        ]],
    );
    check(
        &json!({"services": {"a": {"image": "a", "cap_add": {"b": 1}}}}),
        expect![[r#"Invalid: {"b":1} is no "cap_add" of a service"#]],
    );
}

/// A container of an App says it in its own words, a service of a project in compose's.
#[test]
fn groups_and_capabilities_reach_the_engine() {
    let container = tombolo_driver::Container {
        image: "web:1".to_owned(),
        groups: vec!["44".to_owned()],
        capabilities: vec!["SYS_NICE".to_owned()],
        ..tombolo_driver::Container::default()
    };
    let alone = draft::native(&spec(), &container, "north/crane", &mut Vec::new()).unwrap();
    let written = json!({"services": {"web": {"image": "web:1", "group_add": ["44"],
        "cap_add": ["SYS_NICE"]}}});
    let parts = project(&spec(), &written, "north/crane").unwrap().parts;
    for draft in [&alone, &parts[0]] {
        let host = draft.body.host_config.clone().unwrap();
        assert_eq!(host.group_add, Some(vec!["44".to_owned()]));
        assert_eq!(host.cap_add, Some(vec!["SYS_NICE".to_owned()]));
    }
}

/// One that runs to its end beside the one that the others call.
#[test]
fn the_service_that_a_component_is_named_after_is_called_like_it() {
    let written = json!({"services": {
        "init": {"image": "web:1"},
        "stack": {"image": "web:1", "expose": ["80"], "restart": "always",
            "depends_on": {"init": {"condition": "service_completed_successfully"}}}}});
    let parts = project(&spec(), &written, "north/crane").unwrap().parts;
    let in_app = |draft: &Draft| {
        let attachments = draft.networks.iter();
        attachments
            .filter(|one| one.network.contains("default.shop"))
            .flat_map(|one| &one.aliases)
            .cloned()
            .collect::<Vec<String>>()
    };
    assert_eq!((in_app(&parts[0]), in_app(&parts[1])), (vec![], vec!["stack".to_owned()]));
    assert_eq!((parts[0].once, parts[1].after[0].until), (true, Until::Completed));
}
