//! Objects that are wrong, and what people are told about them: all of it at once, with the exact
//! field, what was found, what is allowed and what was probably meant.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_model::{kind_names, validate};

#[track_caller]
fn check(object: &Value, expected: Expect) {
    let lines: Vec<String> = validate::object(object)
        .iter()
        .map(|invalid| format!("{} [{}]\n", invalid, invalid.problem.reason()))
        .collect();
    expected.assert_eq(&lines.concat());
}

fn object(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": kind, "metadata": {"name": "sample"}, "spec": spec})
}

/// An App with one component `web` in which `changes` are merged.
fn app_with(changes: Value) -> Value {
    let mut component = json!({"name": "web", "run": [{"process": {"command": ["web"]}}]});
    merge(&mut component, changes);
    object("App", json!({"components": [component]}))
}

fn merge(into: &mut Value, changes: Value) {
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    for (key, value) in changes {
        into[key] = value;
    }
}

#[test]
fn an_app_has_so_many_instances_and_no_more() {
    let component = |name: &str, replicas: u32| json!({"name": name, "replicas": replicas, "run": [{"process": {"command": ["web"]}}]});
    let app = |rest: u32| {
        object("App", json!({"components": [component("web", 9_000), component("data", rest)]}))
    };
    check(&app(1_000), expect![""]);
    check(
        &app(1_001),
        expect![[r#"
            spec.components: have 10001 instances together, and 10000 are the most [FieldValueInvalid]
        "#]],
    );
}

#[test]
fn an_unknown_field_is_an_error_and_has_a_suggestion() {
    check(
        &app_with(json!({"replica": 2, "needs": {"memmory": "1Gi", "zebra": 1}})),
        expect![[r#"
            spec.components[0].needs.memmory: unknown field "memmory" (did you mean "memory"?) [FieldValueUnknown]
            spec.components[0].needs.zebra: unknown field "zebra"; there is "arch", "compliance", "cpu", "devices", "engines", "gpu", "gpuMemory", "labelRules", "labels", "layers", "memory", "near", "nodes", "regions", "security", "sites", "storage" or "tolerations" [FieldValueUnknown]
            spec.components[0].replica: unknown field "replica" (did you mean "replicas"?) [FieldValueUnknown]
        "#]],
    );
    let mut site = object("Site", json!({"engine": "docker", "locations": {}}));
    site["specs"] = json!({});
    site["metadata"]["label"] = json!({});
    check(
        &site,
        expect![[r#"
        specs: unknown field "specs" (did you mean "spec"?) [FieldValueUnknown]
        metadata.label: unknown field "label" (did you mean "labels"?) [FieldValueUnknown]
        spec.locations: unknown field "locations" (did you mean "location"?) [FieldValueUnknown]
    "#]],
    );
}

#[test]
fn a_missing_field_says_what_it_is_for() {
    check(
        &object("App", json!({})),
        expect![[r#"
        spec.components: is required (The parts of the application; at least one) [FieldValueRequired]
    "#]],
    );
    check(
        &object("App", json!({"components": []})),
        expect![[r#"
        spec.components: must not be empty [FieldValueInvalid]
    "#]],
    );
    check(
        &app_with(json!({"run": [], "expose": [{}]})),
        expect![[r#"
        spec.components[0].expose[0].port: is required (The port that the component listens on) [FieldValueRequired]
        spec.components[0].run: must not be empty [FieldValueInvalid]
    "#]],
    );
    check(
        &json!({"kind": "Site"}),
        expect![[r#"
        apiVersion: is required (it is "tombolo.dev/v1alpha1") [FieldValueRequired]
        metadata.name: is required (Name of the object) [FieldValueRequired]
        spec: is required (A place with one engine: where it is, whose it is and how far it is trusted) [FieldValueRequired]
    "#]],
    );
}

#[test]
fn a_wrong_type_says_what_was_found_and_how_to_mend_it() {
    check(
        &app_with(json!({
            "replicas": "2", "needs": ["cpu"], "stateful": "true", "connects": {"to": "web"},
            "run": [{"container": {"image": "web", "env": {"PORT": 8080, "DEBUG": true}, "ports": ["8080"]}}],
            "data": null,
        })),
        expect![[r#"
            spec.components[0].connects: expected a list, found an object; begin each entry with "- " [FieldValueTypeInvalid]
            spec.components[0].data: expected an object, found nothing (null); give one or leave the field out [FieldValueTypeInvalid]
            spec.components[0].needs: expected an object, found a list [FieldValueTypeInvalid]
            spec.components[0].replicas: expected a whole number, found the string "2"; write 2 without quotes [FieldValueTypeInvalid]
            spec.components[0].run[0].container.env.DEBUG: expected a string, found true; write "true" in quotes [FieldValueTypeInvalid]
            spec.components[0].run[0].container.env.PORT: expected a string, found the number 8080; write "8080" in quotes [FieldValueTypeInvalid]
            spec.components[0].run[0].container.ports[0]: expected a whole number, found the string "8080"; write 8080 without quotes [FieldValueTypeInvalid]
            spec.components[0].stateful: expected true or false, found the string "true"; write true without quotes [FieldValueTypeInvalid]
        "#]],
    );
}

#[test]
fn a_wrong_quantity_is_named_with_its_field() {
    check(
        &app_with(json!({
            "needs": {"cpu": "half", "memory": "200m", "storage": -1, "arch": ["amd46"], "security": "hihg", "gpu": -1},
            "connects": [{"to": "web", "latency": 20, "bandwidth": "10mbps"}],
            "stopGrace": "soon",
        })),
        expect![[r#"
            spec.components[0].connects[0].bandwidth: "10mbps" is not a bit rate: "m" means thousandths; write bits a second with a unit such as 10Mbps or 1Gbit/s (did you mean "10Mbps"?) [FieldValueInvalid]
            spec.components[0].connects[0].latency: "20" is not a duration: it has no unit; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m (did you mean "20ms"?) [FieldValueInvalid]
            spec.components[0].needs.arch[0]: "amd46" is not an architecture; write amd64, arm64, arm, 386, riscv64, ppc64le or s390x (did you mean "amd64"?) [FieldValueInvalid]
            spec.components[0].needs.cpu: "half" is not an amount of cpu: it does not begin with a number; write cores such as 0.5 or 2, or thousandths of a core such as 500m [FieldValueInvalid]
            spec.components[0].needs.gpu: is -1, must be from 0 to 1024 [FieldValueInvalid]
            spec.components[0].needs.memory: "200m" is not an amount of bytes: it is less than one byte; write bytes with a suffix such as 512Mi (binary) or 200M (decimal) (did you mean "200M"?) [FieldValueInvalid]
            spec.components[0].needs.security: "hihg" is not a level; write low, medium, high, or a score from 0 to 100 (did you mean "high"?) [FieldValueInvalid]
            spec.components[0].needs.storage: "-1" is not an amount of bytes: it is negative; write bytes with a suffix such as 512Mi (binary) or 200M (decimal) [FieldValueInvalid]
            spec.components[0].stopGrace: "soon" is not a duration: it does not begin with a number; write a number with a unit (us, ms, s, m, h, d), such as 20ms, 5s or 1h30m [FieldValueInvalid]
        "#]],
    );
}

#[test]
fn a_wrong_word_gets_the_list_and_the_nearest_one() {
    check(
        &object("Site", json!({"engine": "dokcer", "layer": "fog"})),
        expect![[r#"
        spec.engine: found "dokcer", must be "host", "docker" or "kubernetes" (did you mean "docker"?) [FieldValueNotSupported]
        spec.layer: found "fog", must be "cloud", "near-edge" or "far-edge" [FieldValueNotSupported]
    "#]],
    );
    check(
        &object("Node", json!({"site": "a", "taints": [{"key": "a", "effect": "noschedule"}]})),
        expect![[r#"
            spec.taints[0].effect: found "noschedule", must be "NoSchedule", "NoExecute" or "PreferNoSchedule" (did you mean "NoSchedule"?) [FieldValueNotSupported]
        "#]],
    );
}

#[test]
fn references_must_name_a_component() {
    check(
        &app_with(json!({
            "connects": [{"to": "wbe"}, {"to": "store"}, {"to": "elsewhere", "app": "other"}],
            "affinity": {"with": ["web", "cache"], "apart": ["web"]},
        })),
        expect![[r#"
            spec.components[0].connects[0].to: no component is named "wbe" (did you mean "web"?) [FieldValueInvalid]
            spec.components[0].connects[1].to: no component is named "store"; there is "web" [FieldValueInvalid]
            spec.components[0].affinity.with[1]: no component is named "cache"; there is "web" [FieldValueInvalid]
            spec.components[0].affinity.with[0]: "web" is also in apart; it cannot be both near and away [FieldValueInvalid]
        "#]],
    );
}

#[test]
fn names_are_checked_and_mended() {
    let mut app = app_with(json!({
        "name": "Web_Server",
        "needs": {"labels": {"a b": "c d"}, "devices": ["/video"], "sites": ["A"]},
        "run": [{"process": {"command": ["x"], "env": {"1A": "x"}, "workdir": "data"}}],
    }));
    app["metadata"]["name"] = json!("My App");
    app["metadata"]["namespace"] = json!("A/b");
    app["metadata"]["labels"] = json!({"ok": 5, "x y": "z"});
    check(
        &app,
        expect![[r#"
            metadata.name: "My App" is not a name: lower-case letters, digits and '-', a letter or digit at both ends; "my-app" would do [FieldValueInvalid]
            metadata.namespace: "A/b" is not a name: lower-case letters, digits and '-', a letter or digit at both ends; "a-b" would do [FieldValueInvalid]
            metadata.labels.ok: expected a string, found the number 5 [FieldValueTypeInvalid]
            metadata.labels[x y]: "x y" is not a key: letters, digits, '-', '_' and '.' (63 at most, a letter or digit at both ends), with a prefix such as "example.org/" if wanted [FieldValueInvalid]
            spec.components[0].name: "Web_Server" is not a name: lower-case letters, digits and '-', a letter or digit at both ends; "web-server" would do [FieldValueInvalid]
            spec.components[0].needs.devices[0]: "/video" is not a key: letters, digits, '-', '_' and '.' (63 at most, a letter or digit at both ends), with a prefix such as "example.org/" if wanted [FieldValueInvalid]
            spec.components[0].needs.labels[a b]: "a b" is not a key: letters, digits, '-', '_' and '.' (63 at most, a letter or digit at both ends), with a prefix such as "example.org/" if wanted [FieldValueInvalid]
            spec.components[0].needs.labels[a b]: "c d" is not a label value: letters, digits, '-', '_' and '.', 63 at most, a letter or digit at both ends [FieldValueInvalid]
            spec.components[0].needs.sites[0]: "A" is not a name: lower-case letters, digits, '-' and '.', a letter or digit at both ends; "a" would do [FieldValueInvalid]
            spec.components[0].run[0].process.env.1A: "1A" is not a variable name: letters, digits, '_', '-' and '.', not starting with a digit [FieldValueInvalid]
            spec.components[0].run[0].process.workdir: "data" is not an absolute path: it starts with '/' and has no '..' [FieldValueInvalid]
        "#]],
    );
}

#[test]
fn nothing_is_there_twice() {
    let mut app = app_with(json!({
        "expose": [{"port": 80}, {"port": 80, "protocol": "tcp"}, {"port": 80, "protocol": "udp"}],
        "needs": {"sites": ["a", "b", "a"]},
    }));
    let again = app["spec"]["components"][0].clone();
    app["spec"]["components"].as_array_mut().unwrap().push(again);
    check(
        &app,
        expect![[r#"
        spec.components[0].expose[1]: 80 "tcp" is there twice [FieldValueDuplicate]
        spec.components[0].needs.sites[2]: "a" is there twice [FieldValueDuplicate]
        spec.components[1].expose[1]: 80 "tcp" is there twice [FieldValueDuplicate]
        spec.components[1].needs.sites[2]: "a" is there twice [FieldValueDuplicate]
        spec.components[1].name: "web" is there twice [FieldValueDuplicate]
    "#]],
    );
}

#[test]
fn exactly_one_alternative_is_meant() {
    check(
        &app_with(json!({
            "replicas": 2,
            "onEach": {"label": "robot", "values": ["r1"]},
            "run": [
                {},
                {"container": {"image": "a b"}, "process": {"command": []}},
                {"manifests": [{"kind": "Pod"}]},
                {"compose": {}},
                {"container": {"image": "web", "volumes": [{"path": "/d", "name": "d", "hostPath": "/d"}],
                    "files": [{"path": "/f"}]}},
            ],
            "health": {"http": {"port": 80}, "tcp": {"port": 80}},
        })),
        expect![[r#"
            spec.components[0].run[1].process.command: must not be empty [FieldValueInvalid]
            spec.components[0].onEach: not together with replicas: there is one instance for each value [FieldValueForbidden]
            spec.components[0].run[0]: exactly one of "container", "process", "manifests" or "compose" is required [FieldValueRequired]
            spec.components[0].run[1].process: not together with container: exactly one of "container", "process", "manifests" or "compose" [FieldValueForbidden]
            spec.components[0].run[1].container.image: "a b" has a blank in it, no image is named so [FieldValueInvalid]
            spec.components[0].run[2].manifests[0].apiVersion: is required in a Kubernetes object [FieldValueRequired]
            spec.components[0].run[2].manifests[0].metadata.name: is required in a Kubernetes object [FieldValueRequired]
            spec.components[0].run[3].compose.services: is required (the services of a compose project, at least one) [FieldValueRequired]
            spec.components[0].run[4].container.volumes[0].hostPath: not together with name: a volume is kept by Tombolo or by the host [FieldValueForbidden]
            spec.components[0].run[4].container.files[0]: exactly one of "content", "secret" or "config" is required [FieldValueRequired]
            spec.components[0].health.tcp: not together with http: exactly one of "http", "tcp" or "exec" [FieldValueForbidden]
        "#]],
    );
}

#[test]
fn numbers_stay_in_their_range() {
    check(
        &app_with(json!({
            "expose": [{"port": 0}, {"port": 70000}],
            "run": [{"process": {"command": ["x"], "ports": [0, 99999, 80.5]}}],
            "needs": {"near": {"latitude": 91, "longitude": -181, "distanceKmMax": -1}},
        })),
        expect![[r#"
            spec.components[0].expose[0].port: is 0, must be from 1 to 65535 [FieldValueInvalid]
            spec.components[0].expose[1].port: is 70000, must be from 1 to 65535 [FieldValueInvalid]
            spec.components[0].needs.near.distanceKmMax: is -1, must be from 0 to 20040 [FieldValueInvalid]
            spec.components[0].needs.near.latitude: is 91, must be from -90 to 90 [FieldValueInvalid]
            spec.components[0].needs.near.longitude: is -181, must be from -180 to 180 [FieldValueInvalid]
            spec.components[0].run[0].process.ports[0]: is 0, must be from 1 to 65535 [FieldValueInvalid]
            spec.components[0].run[0].process.ports[1]: is 99999, must be from 1 to 65535 [FieldValueInvalid]
            spec.components[0].run[0].process.ports[2]: expected a whole number, found the number 80.5 [FieldValueTypeInvalid]
        "#]],
    );
    let mut app = app_with(json!({}));
    app["spec"]["weights"] = json!({"energy": 0, "cost": 0});
    check(
        &app,
        expect![[r#"
        spec.weights: all weights are 0; at least one must be more [FieldValueInvalid]
    "#]],
    );
    app["spec"]["weights"] = json!({"energy": -1, "cost": 101, "speed": 1});
    check(
        &app,
        expect![[r#"
        spec.weights.cost: is 101, must be from 0 to 100 [FieldValueInvalid]
        spec.weights.energy: is -1, must be from 0 to 100 [FieldValueInvalid]
        spec.weights.speed: unknown field "speed"; there is "cost", "energy", "latency", "performance", "resilience" or "security" [FieldValueUnknown]
    "#]],
    );
    let location = json!({"latitude": 95.5, "city": "x".repeat(200)});
    check(
        &object("Site", json!({"engine": "host", "location": location})),
        expect![[r#"
        spec.location.city: is 200 characters long, 128 at most [FieldValueTooLong]
        spec.location.latitude: is 95.5, must be from -90 to 90 [FieldValueInvalid]
        spec.location.longitude: is required when latitude is given [FieldValueRequired]
    "#]],
    );
}

#[test]
fn a_disconnect_rule_is_complete() {
    for rule in [
        json!({"action": "replace"}),
        json!({"action": "keep", "after": "5m"}),
        json!({"action": "stop", "after": "5m", "onReturn": "newest"}),
    ] {
        let mut app = app_with(json!({}));
        app["spec"]["disconnect"] = rule.clone();
        let found = validate::app(&app);
        assert_eq!(found.len(), 1, "{rule}: {found:?}");
    }
    let mut app = app_with(json!({"disconnect": {"action": "stop"}}));
    app["spec"]["disconnect"] = json!({"action": "keep", "after": "5m"});
    check(
        &app,
        expect![[r#"
        spec.disconnect.after: not together with "keep", which waits without end [FieldValueForbidden]
        spec.components[0].disconnect.after: is required with "stop" (how long to wait, such as 5m) [FieldValueRequired]
    "#]],
    );
}

#[test]
fn a_link_has_two_different_ends() {
    let end = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    check(
        &object("Link", json!({"ends": [end("Site", "a")]})),
        expect![[r#"
        spec.ends: must have 2 entries, found 1 [FieldValueInvalid]
    "#]],
    );
    check(
        &object("Link", json!({"ends": [end("Site", "a"), end("Site", "a")]})),
        expect![[r#"
        spec.ends[1]: both ends are "a"; a link has two different ends [FieldValueInvalid]
    "#]],
    );
    check(
        &object("Link", json!({"ends": [end("Site", "a"), end("Node", "a")], "loss": 101})),
        expect![[r#"
            spec.loss: is 101, must be from 0 to 100 [FieldValueInvalid]
        "#]],
    );
}

#[test]
fn an_assignment_fits_its_engine() {
    let spec = json!({
        "app": "a", "component": "b", "replica": 0, "site": "s", "engine": "host",
        "run": {"container": {"image": "web"}},
    });
    check(
        &object("Assignment", spec),
        expect![[r#"
        spec.engine: "host" cannot run a container; "docker" or "kubernetes" can [FieldValueInvalid]
    "#]],
    );
}

#[test]
fn a_policy_watches_one_thing_and_knows_when_it_is_violated() {
    check(
        &object(
            "Policy",
            json!({
                "subject": {"component": "web", "node": "/edge-.*"},
                "condition": {"expr": "up", "template": "t", "violatedIf": "0.8", "variables": {"a": []}},
                "remediation": {"action": "patch", "replicasMin": 3, "replicasMax": 2,
                    "webhook": {"url": "example.org"}},
            }),
        ),
        expect![[r#"
            spec.condition.variables.a: expected a number or a string, found a list [FieldValueInvalid]
            spec.remediation.webhook.url: "example.org" is not a web address: write it with http:// or https:// and a host [FieldValueInvalid]
            spec.condition.template: not together with expr: exactly one of "expr", "template", "security", "link", "placement", "device", "telemetryLost" or "nodeUsage" [FieldValueForbidden]
            spec.condition.violatedIf: "0.8" is not a comparison: write an operator (>, >=, <, <=, ==, !=) and a number or a {{variable}}, such as "> 0.8" [FieldValueInvalid]
            spec.remediation.patch: is required with the action "patch" [FieldValueRequired]
            spec.remediation.replicasMin: is 3, more than replicasMax, which is 2 [FieldValueInvalid]
            spec.subject.app: is required when component is given [FieldValueRequired]
            spec.subject.node: "/edge-.*" begins a regular expression and does not end it; end it with '/' [FieldValueInvalid]
        "#]],
    );
    check(
        &object(
            "Policy",
            json!({"subject": {}, "condition": {"security": "high", "violatedIf": "> {{x}}"}}),
        ),
        expect![[r#"
            spec.condition.violatedIf: not together with security, which says itself when it is violated [FieldValueForbidden]
            spec.subject: must name an app, a site, a node or labels; "*" stands for any [FieldValueRequired]
        "#]],
    );
}

#[test]
fn what_is_built_in_says_a_limit_and_thresholds_lie_in_one_direction() {
    let policy = |condition: Value| {
        object("Policy", json!({"subject": {"app": "shop"}, "condition": condition}))
    };
    check(
        &policy(json!({"link": {"to": "db"}, "prediction": {"within": "5m"}})),
        expect![[r#"
        spec.condition.link: must say "latencyMax" or "bandwidthMin" [FieldValueRequired]
    "#]],
    );
    check(
        &policy(json!({"nodeUsage": {}, "thresholds": {"warning": 1}})),
        expect![[r#"
        spec.condition.thresholds: not together with nodeUsage, which says itself when it is violated [FieldValueForbidden]
        spec.condition.nodeUsage: must say "cpuPercentMax", "memoryPercentMax" or "memoryFreeMin" [FieldValueRequired]
    "#]],
    );
    check(
        &policy(json!({"telemetryLost": "5m", "prediction": {"within": "5m"}})),
        expect![[r#"
        spec.condition.prediction: not together with telemetryLost, which has no trend [FieldValueForbidden]
    "#]],
    );
    let contrary = json!({"warning": 5, "critical": 2});
    check(
        &policy(json!({"expr": "up", "violatedIf": "> 1", "thresholds": contrary})),
        expect![[r#"
            spec.condition.thresholds.critical: is 2, but warning is 5 and violatedIf has ">": the critical value must be more than that of the warning [FieldValueInvalid]
        "#]],
    );
    check(
        &policy(json!({"expr": "up", "violatedIf": "< {{x}}", "thresholds": contrary})),
        expect![[""]],
    );
}

#[test]
fn scaling_has_something_to_go_by_and_steps_that_do_not_undo_each_other() {
    let policy = |scaling: Value| {
        let condition = json!({"expr": "up"});
        object(
            "Policy",
            json!({"subject": {"app": "shop"}, "condition": condition, "scaling": scaling}),
        )
    };
    check(
        &policy(json!({"replicasMax": 2, "replicasMin": 3})),
        expect![[r#"
        spec.condition: not together with scaling, which says what is watched and what is done [FieldValueForbidden]
        spec.scaling.replicasMin: is 3, more than replicasMax, which is 2 [FieldValueInvalid]
        spec.scaling: must have metrics or steps [FieldValueRequired]
    "#]],
    );
    let scaling = json!({
        "replicasMax": 9,
        "metrics": [{"expr": "up", "target": 0}],
        "up": {"rates": [{"per": "1m"}, {"replicas": 1, "percent": 5, "per": "1m"}]},
        "steps": [
            {"expr": "load", "above": 5, "change": 2},
            {"expr": "load", "below": 6, "change": -1},
            {"expr": "load", "below": 1, "above": 3, "change": 0},
        ],
    });
    check(
        &policy(scaling),
        expect![[r#"
        spec.condition: not together with scaling, which says what is watched and what is done [FieldValueForbidden]
        spec.scaling.metrics[0].target: must be above 0: the number of instances is divided by it [FieldValueInvalid]
        spec.scaling.up.rates[0]: exactly one of "replicas" or "percent" is required [FieldValueRequired]
        spec.scaling.up.rates[1].percent: not together with replicas: exactly one of "replicas" or "percent" [FieldValueForbidden]
        spec.scaling.steps[1].below: is 6, and another step adds instances above 5: between them the two would undo each other [FieldValueInvalid]
        spec.scaling.steps[2].below: not together with above: exactly one of "above" or "below" [FieldValueForbidden]
        spec.scaling.steps[2].change: is 0: a step changes something [FieldValueInvalid]
    "#]],
    );
}

#[test]
fn a_join_token_never_shows_what_might_be_the_secret() {
    let spec = json!({"site": "a", "hash": "open-sesame", "expires": "tomorrow"});
    check(
        &object("JoinToken", spec),
        expect![[r#"
        spec.expires: "tomorrow" is not a time: write it like 2030-01-31T12:00:00Z [FieldValueInvalid]
        spec.hash: is no SHA-256: 64 hexadecimal digits, found 11 bytes [FieldValueInvalid]
    "#]],
    );
}

#[test]
fn what_is_no_object_of_ours_is_said_so() {
    check(
        &json!({"kind": "Ap"}),
        expect![[r#"
            kind: unknown kind "Ap"; there is "App", "Assignment", "Site", "Node", "Link", "Probing", "Policy" or "JoinToken" (did you mean "App"?) [FieldValueNotSupported]
        "#]],
    );
    check(
        &json!({"kind": "Pod"}),
        expect![[r#"
        kind: unknown kind "Pod"; there is "App", "Assignment", "Site", "Node", "Link", "Probing", "Policy" or "JoinToken" [FieldValueNotSupported]
    "#]],
    );
    check(
        &json!([]),
        expect![[r#"
        kind: is required [FieldValueRequired]
    "#]],
    );
    check(
        &json!({"apiVersion": "v1", "kind": "Site", "metadata": [], "spec": {"engine": "host"}}),
        expect![[r#"
            apiVersion: expected "tombolo.dev/v1alpha1", found the string "v1" [FieldValueNotSupported]
            metadata: expected an object, found a list [FieldValueTypeInvalid]
        "#]],
    );
}

#[test]
fn the_list_of_findings_has_an_end() {
    let fields: serde_json::Map<String, Value> =
        (0..1000).map(|n| (format!("wrong{n}"), json!(1))).collect();
    let found = validate::app(&object("App", Value::Object(fields)));
    assert_eq!(found.len(), validate::INVALID_MAX + 1);
    assert_eq!(found.last().unwrap().message, "901 more problems are not listed");
}

#[test]
fn an_answer_does_not_outgrow_its_request() {
    let long = "ü".repeat(100_000);
    let app = app_with(json!({
        "needs": {"labels": {long.clone(): long.clone()}, "cpu": long.clone(), "sites": [long.clone(), long.clone()]},
        "connects": [{"to": long.clone()}],
        "run": [{"process": {"command": ["x"], "workdir": long.clone(), "env": {long.clone(): 1}}}],
        long.clone(): {},
    }));
    let found = validate::object(&app);
    assert!(found.len() > 7);
    for invalid in found {
        assert!(invalid.to_string().chars().count() < 500, "{} is too long", invalid.message.len());
    }
}

/// Any JSON, with keys that our kinds know more often than not.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9./ -]{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("components".to_owned()),
        Just("name".to_owned()),
        Just("run".to_owned()),
        Just("needs".to_owned()),
        Just("connects".to_owned()),
        Just("policies".to_owned()),
        Just("condition".to_owned()),
        Just("ends".to_owned()),
        Just("container".to_owned()),
        Just("weights".to_owned()),
        Just("subject".to_owned()),
        "[a-z]{1,6}",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_validation_panic(spec in any_json(), metadata in any_json(), kind in 0usize..7) {
        let kind = kind_names().nth(kind).unwrap();
        let _ = validate::object(&json!({"kind": kind, "metadata": metadata, "spec": spec}));
        let _ = validate::of_kind(kind, &spec);
    }
}
