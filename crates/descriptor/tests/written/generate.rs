//! Any App that is valid: every field of the spec, with texts that are hard to write down.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tombolo_model::app::{
    AppPolicy, AppSpec, Disconnect, DisconnectAction, Grade, OnReturn, Profile, Qos, Weights,
};
use tombolo_model::component::{
    Affinity, Component, Connection, Data, ExecCheck, Expose, Health, HttpCheck, OnEach,
    Preference, Protocol, Recommendation, ServiceClass, Spread, TcpCheck, Users,
};
use tombolo_model::needs::{
    LabelOperator, LabelRule, Near, Needs, Place, PlaceKey, PlaceOperator, TaintEffect, Toleration,
};
use tombolo_model::policy::{Action, Check, Method, Properties, Remediation, Thresholds, Webhook};
use tombolo_model::run::{Container, File, KeyRef, Process, Run, Volume};
use tombolo_model::site::Layer;
use tombolo_model::{App, Arch, BitRate, Bytes, Cpu, Duration, Engine, Level};

/// Texts that a careless writer or reader takes for something else.
const HARD: &[&str] = &[
    "",
    "yes",
    "No",
    "on",
    "null",
    "~",
    "true",
    "1e3",
    "0x1F",
    "0o17",
    "012",
    "1_000",
    ".5",
    "-1",
    "+2",
    "12:30",
    "2030-01-31",
    ".inf",
    ".nan",
    "=",
    "<<",
    "- a",
    "a: b",
    "a #b",
    "#",
    "[x]",
    "{y}",
    "x, y",
    "'q'",
    "\"q\"",
    "back\\slash",
    "tab\there",
    "a\nb",
    "a\nb\n",
    "a\nb\n\n",
    "  lead\nmore",
    "\nfirst",
    " both ",
    "\r\n",
    "\u{1}\u{7f}\u{85}\u{2028}\u{feff}",
    "ünï 🚢",
    "$HOME",
    "$$(A)",
    "${B:-c}",
    "$(C)",
    "5$",
    "%d",
    "@at",
    "`tick`",
    "*star",
    "&and",
    "!bang",
    "|",
    ">",
    "---",
    "...",
    "? q",
    "a\u{a0}b",
    "trailing:",
    ":lead",
    "key: |",
    "a\n \nb",
];

pub(crate) fn text() -> BoxedStrategy<String> {
    prop_oneof![select(HARD).prop_map(str::to_owned), "[ -~]{0,12}", "\\PC{0,8}", "[a-z \n]{0,20}",]
        .boxed()
}

fn word() -> BoxedStrategy<String> {
    "[a-z]{2,5}(-[0-9]{1,3})?".boxed()
}

/// Names like `qabc`, which no text above has by chance.
fn component_names() -> BoxedStrategy<Vec<String>> {
    btree_set("q[a-z]{2,4}q", 1..4)
        .prop_map(|names| names.into_iter().collect())
        .prop_shuffle()
        .boxed()
}

fn words(most: usize) -> BoxedStrategy<Vec<String>> {
    btree_set(word(), 0..=most).prop_map(|all| all.into_iter().collect()).boxed()
}

/// Whole seconds of this century, which is how a Time is written.
fn time() -> BoxedStrategy<Time> {
    (946_684_800i64..4_102_444_800)
        .prop_map(|second| Time(Timestamp::from_second(second).expect("a second of this century")))
        .boxed()
}

fn duration() -> BoxedStrategy<Duration> {
    prop_oneof![
        (1u64..100_000).prop_map(Duration::from_secs),
        (1u64..10_000_000).prop_map(Duration::from_micros),
    ]
    .boxed()
}

fn bytes() -> BoxedStrategy<Bytes> {
    prop_oneof![
        any::<u32>().prop_map(|bytes| Bytes::new(u64::from(bytes) + 1)),
        (1u64..4096).prop_map(|mib| Bytes::new(mib << 20)),
        (1u64..4096).prop_map(|mega| Bytes::new(mega * 1_000_000)),
    ]
    .boxed()
}

fn share() -> BoxedStrategy<f64> {
    (1u32..=10_000).prop_map(|hundredths| f64::from(hundredths) / 100.0).boxed()
}

fn level() -> BoxedStrategy<Level> {
    prop_oneof![
        select(&[Level::LOW, Level::MEDIUM, Level::HIGH][..]),
        (0u8..=100).prop_map(|score| Level::from_score(score).unwrap()),
    ]
    .boxed()
}

fn label_key() -> BoxedStrategy<String> {
    "([a-z]{2,4}\\.io/)?[a-z]{2,5}".boxed()
}

fn path() -> BoxedStrategy<String> {
    "(/[a-z]{1,6}){1,3}".boxed()
}

fn key_ref() -> BoxedStrategy<KeyRef> {
    (word(), "[a-z]{1,5}(\\.[a-z]{2,3})?").prop_map(|(name, key)| KeyRef { name, key }).boxed()
}

fn variables() -> BoxedStrategy<BTreeMap<String, String>> {
    btree_map("[A-Z][A-Z0-9_]{0,5}", text(), 0..4).boxed()
}

fn secret_variables() -> BoxedStrategy<BTreeMap<String, KeyRef>> {
    btree_map("SECRET_[A-Z]{1,4}", key_ref(), 0..3).boxed()
}

fn volumes() -> BoxedStrategy<Vec<Volume>> {
    let one = (of(word()), of(path()), of(bytes()), any::<bool>());
    btree_map(path(), one, 0..4)
        .prop_map(|all| {
            let mut list = Vec::new();
            for (path, (name, host_path, size, read_only)) in all {
                let host_path = if name.is_none() { host_path } else { None };
                list.push(Volume { path, name, host_path, size, read_only });
            }
            list
        })
        .boxed()
}

fn files() -> BoxedStrategy<Vec<File>> {
    let one = prop_oneof![
        text().prop_map(|content| (Some(content), None, None)),
        key_ref().prop_map(|key| (None, Some(key), None)),
        key_ref().prop_map(|key| (None, None, Some(key))),
    ];
    btree_map(path(), one, 0..4)
        .prop_map(|all| {
            let file = |(path, (content, secret, config))| File { path, content, secret, config };
            all.into_iter().map(file).collect()
        })
        .boxed()
}

fn ports() -> BoxedStrategy<Vec<u16>> {
    btree_set(1u16.., 0..4).prop_map(|ports| ports.into_iter().collect()).boxed()
}

fn container() -> BoxedStrategy<Container> {
    let program = ("[a-z]{3,6}(/[a-z]{3,6})?:[0-9]\\.[0-9]", vec(text(), 0..3), vec(text(), 0..3));
    let surroundings = (variables(), secret_variables(), ports(), volumes(), files());
    let user = prop_oneof!["[0-9]{1,4}", "[1-9][0-9]{0,3}:[1-9][0-9]{0,3}", "[a-z]{2,5}"];
    let groups = btree_set("[1-9][0-9]{0,3}", 0..3);
    let capabilities = btree_set("(NET_ADMIN|SYS_NICE|SYS_TIME)", 0..3);
    let who = (of(path()), of(user), groups, capabilities, any::<bool>());
    (program, surroundings, who)
        .prop_map(|(program, surroundings, who)| {
            let (image, command, args) = program;
            let (env, secret_env, ports, volumes, files) = surroundings;
            let (workdir, user, groups, capabilities, privileged) = who;
            Container {
                image,
                command,
                args,
                env,
                secret_env,
                ports,
                volumes,
                files,
                workdir,
                user,
                groups: groups.into_iter().collect(),
                capabilities: capabilities.into_iter().collect(),
                privileged,
            }
        })
        .boxed()
}

fn process() -> BoxedStrategy<Process> {
    let who = (of(path()), of(word()), any::<bool>());
    (vec(text(), 1..3), variables(), secret_variables(), ports(), files(), who)
        .prop_map(|(command, env, secret_env, ports, files, (workdir, user, privileged))| Process {
            command,
            env,
            secret_env,
            ports,
            files,
            workdir,
            user,
            privileged,
        })
        .boxed()
}

/// Any JSON that is no secret language of ours.
pub(crate) fn json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

/// A merge key means something, whether or not it is quoted.
pub(crate) fn key() -> BoxedStrategy<String> {
    text()
        .prop_filter("no merge key, no entry without its blank", |key| {
            key != "<<" && !key.starts_with('-')
        })
        .boxed()
}

fn manifest() -> BoxedStrategy<Value> {
    (word(), select(&["ConfigMap", "Thing"][..]), json()).prop_map(|(name, kind, data)| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "extra": data})
    })
    .boxed()
}

fn compose() -> BoxedStrategy<Value> {
    (word(), text()).prop_map(
        |(name, text)| json!({"services": {name: {"image": "a:1", "environment": {"A": text}}}}),
    )
    .boxed()
}

fn run() -> BoxedStrategy<Run> {
    prop_oneof![
        3 => container().prop_map(|one| Run { container: Some(one), ..Run::default() }),
        1 => process().prop_map(|one| Run { process: Some(one), ..Run::default() }),
        1 => vec(manifest(), 1..3).prop_map(|manifests| Run { manifests, ..Run::default() }),
        1 => compose().prop_map(|one| Run { compose: Some(one), ..Run::default() }),
    ]
    .boxed()
}

fn toleration() -> BoxedStrategy<Toleration> {
    let effect = select(TaintEffect::ALL);
    (of(label_key()), of("[a-z]{0,4}"), of(effect))
        .prop_map(|(key, value, effect)| Toleration { key, value, effect })
        .boxed()
}

fn label_rule() -> BoxedStrategy<LabelRule> {
    (label_key(), btree_set("[a-z]{1,4}", 1..3))
        .prop_map(|(key, values)| LabelRule {
            key,
            operator: LabelOperator::NotIn,
            values: values.into_iter().collect(),
        })
        .boxed()
}

fn preference() -> BoxedStrategy<Preference> {
    (1u32..=100, vec(label_rule(), 1..3))
        .prop_map(|(weight, labels)| Preference { weight, labels, ..Preference::default() })
        .boxed()
}

fn needs() -> BoxedStrategy<Needs> {
    let cpu = (0u64..100_000).prop_map(Cpu::from_millis);
    let amounts = (of(cpu), of(bytes()), of(bytes()), of(0u32..=8), of(bytes()));
    let arch = btree_set(select(&Arch::ALL[..]), 0..3).prop_map(|all| all.into_iter().collect());
    let devices = btree_set(label_key(), 0..3).prop_map(|all| all.into_iter().collect());
    let labels = btree_map(label_key(), "[a-z]{0,4}", 0..3);
    let kind = (arch, devices, (labels, vec(label_rule(), 0..2)), of(level()), of(level()));
    let layers = btree_set(select(Layer::ALL), 0..2).prop_map(|all| all.into_iter().collect());
    let engines = btree_set(select(Engine::ALL), 0..2).prop_map(|all| all.into_iter().collect());
    let where_ = (words(2), words(2), words(2), layers, engines);
    let near = (-90i32..=90, -180i32..=180, 0u32..20_000).prop_map(|(north, east, far)| Near {
        latitude: f64::from(north),
        longitude: f64::from(east),
        distance_km_max: f64::from(far),
    });
    (amounts, kind, where_, of(near), vec(toleration(), 0..3))
        .prop_map(|(amounts, kind, where_, near, tolerations)| {
            let (cpu, memory, storage, gpu, gpu_memory) = amounts;
            let (arch, devices, (labels, label_rules), security, compliance) = kind;
            let (regions, sites, nodes, layers, engines) = where_;
            Needs {
                cpu,
                memory,
                storage,
                gpu,
                gpu_memory,
                arch,
                devices,
                labels,
                label_rules,
                security,
                compliance,
                regions,
                sites,
                nodes,
                layers,
                engines,
                near,
                tolerations,
            }
        })
        .boxed()
}

fn health() -> BoxedStrategy<Health> {
    let check = prop_oneof![
        (of(path()), 1u16..).prop_map(|(path, port)| Health {
            http: Some(HttpCheck { path, port }),
            ..Health::default()
        }),
        (1u16..).prop_map(|port| Health { tcp: Some(TcpCheck { port }), ..Health::default() }),
        vec(text(), 1..3)
            .prop_map(|command| Health { exec: Some(ExecCheck { command }), ..Health::default() }),
    ];
    (check, of(duration()), of(duration()), of(1u32..=1000), of(duration()))
        .prop_map(|(check, interval, timeout, failures, startup)| Health {
            interval,
            timeout,
            failures,
            startup,
            ..check
        })
        .boxed()
}

fn connection(names: &[String]) -> BoxedStrategy<Connection> {
    let who = (select(names.to_vec()), of(word()), of(1u16..), select(Protocol::ALL));
    let rate = any::<u32>().prop_map(|rate| BitRate::from_bps(u64::from(rate)));
    let like = (of(duration()), of(duration()), of(rate), of(select(ServiceClass::ALL)));
    (who, like, of(bytes()), of(duration()))
        .prop_map(|(who, like, frame_size, send_interval)| {
            let (to, app, port, protocol) = who;
            let (latency, jitter, bandwidth, class) = like;
            Connection {
                to,
                app,
                port,
                protocol,
                latency,
                jitter,
                bandwidth,
                class,
                frame_size,
                send_interval,
                // No other format has a word for it; the notes say so.
                on_move: None,
            }
        })
        .boxed()
}

fn expose() -> BoxedStrategy<Vec<Expose>> {
    let one = (of(word()), any::<bool>(), of(1u16..));
    btree_map((1u16.., select(Protocol::ALL)), one, 0..4)
        .prop_map(|all| {
            let expose = |((port, protocol), (name, public, published))| Expose {
                port,
                protocol,
                name,
                public,
                published,
            };
            all.into_iter().map(expose).collect()
        })
        .boxed()
}

fn affinity(names: &[String]) -> BoxedStrategy<Affinity> {
    let chosen = vec(0u8..3, names.len());
    let names = names.to_vec();
    (chosen, of(select(Spread::ALL)), of(1u32..4))
        .prop_map(move |(chosen, spread, skew)| {
            let of_kind = |kind: u8| {
                let picked = names.iter().zip(&chosen).filter(|(_, chosen)| **chosen == kind);
                picked.map(|(name, _)| name.clone()).collect()
            };
            Affinity {
                with: of_kind(1),
                apart: of_kind(2),
                spread,
                skew: skew.filter(|_| spread.is_some()),
            }
        })
        .boxed()
}

fn disconnect() -> BoxedStrategy<Disconnect> {
    (select(DisconnectAction::ALL), duration(), of(select(OnReturn::ALL)))
        .prop_map(|(action, after, on_return)| Disconnect {
            action,
            after: (action != DisconnectAction::Keep).then_some(after),
            on_return: on_return.filter(|_| action == DisconnectAction::Replace),
        })
        .boxed()
}

fn place() -> BoxedStrategy<Place> {
    let values = btree_set("[A-Z][a-z]{2,5}", 1..3).prop_map(|all| all.into_iter().collect());
    (select(PlaceKey::ALL), select(PlaceOperator::ALL), values, of(1u32..100))
        .prop_map(|(by, operator, values, quantity)| Place { by, operator, values, quantity })
        .boxed()
}

fn recommendations() -> BoxedStrategy<Vec<Recommendation>> {
    let share = (0u32..=100).prop_map(|value| f64::from(value) / 100.0);
    btree_map(word(), (of(share), of((0u32..1000).prop_map(f64::from))), 0..2)
        .prop_map(|all| {
            let one = |(node, (value, cost))| Recommendation { node, value, cost };
            all.into_iter().map(one).collect()
        })
        .boxed()
}

fn component(name: String, names: &[String]) -> BoxedStrategy<Component> {
    let values = btree_set("[a-z]{1,4}", 1..4).prop_map(|all| all.into_iter().collect());
    let each = (label_key(), values).prop_map(|(label, values)| OnEach { label, values });
    let count = (of(0u32..100), of(each), of(0u32..5), any::<bool>());
    let what = (vec(run(), 1..4), of(needs()), vec(place(), 0..2));
    let near = (of(affinity(names)), vec(preference(), 0..2));
    let others = (vec(connection(names), 0..3), expose(), near);
    let data = (of(bytes()), of(word())).prop_map(|(input, from)| Data { input, from });
    let sites = btree_set(word(), 1..3).prop_map(|all| all.into_iter().collect());
    let users = (sites, of(duration())).prop_map(|(sites, latency)| Users { sites, latency });
    let life = (of(health()), of(time()), of(duration()), of(disconnect()), recommendations());
    (count, what, others, (of(data), of(users)), life)
        .prop_map(move |(count, what, others, (data, users), life)| {
            let (replicas, on_each, unavailable_max, stateful) = count;
            let (run, needs, places) = what;
            let (connects, expose, (affinity, prefers)) = others;
            let (health, restarted_at, stop_grace, disconnect, recommendations) = life;
            Component {
                name: name.clone(),
                replicas: replicas.filter(|_| on_each.is_none()),
                on_each,
                run,
                needs,
                places,
                connects,
                expose,
                affinity,
                prefers,
                data,
                users,
                health,
                stateful,
                unavailable_max,
                rebalanced_at: restarted_at.clone(),
                restarted_at,
                stop_grace,
                disconnect,
                recommendations,
            }
        })
        .boxed()
}

fn check() -> BoxedStrategy<Check> {
    let values = btree_map(
        "[a-z]{1,4}",
        prop_oneof![
            text().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            share().prop_map(Value::from),
        ],
        0..3,
    );
    let thresholds =
        (of(share()), of(share())).prop_map(|(warning, critical)| match warning > critical {
            // Of the two, critical is further away.
            true if critical.is_some() => Thresholds { warning: critical, critical: warning },
            _ => Thresholds { warning, critical },
        });
    let properties = (any::<bool>(), of(duration()), of(duration())).prop_map(
        |(one_off, interval, pending_interval)| Properties {
            one_off,
            interval,
            pending_interval,
            keep_firing_for: None,
        },
    );
    let plain = (values, of(thresholds), of(properties)).boxed();
    prop_oneof![
        level().prop_map(|level| Check { security: Some(level), ..Check::default() }),
        (word(), plain.clone()).prop_map(|(template, (variables, _, properties))| Check {
            template: Some(template),
            variables,
            properties,
            ..Check::default()
        }),
        ("[a-z]{1,5} [{}\"=a-z]{0,9}", plain).prop_map(
            |(expr, (variables, thresholds, properties))| {
                let violated_if = Some("> 0.8".to_owned());
                Check {
                    expr: Some(expr),
                    violated_if,
                    thresholds,
                    variables,
                    properties,
                    ..Check::default()
                }
            }
        ),
    ]
    .boxed()
}

fn remediation() -> BoxedStrategy<Remediation> {
    let webhook = (select(Method::ALL), btree_map(word(), text(), 0..2), any::<bool>()).prop_map(
        |(method, extra_params, include_access_token)| Webhook {
            url: "https://example.org/hook".to_owned(),
            method: Some(method),
            extra_params,
            include_access_token,
        },
    );
    (select(Action::ALL), of(duration()), of(1u32..5), webhook, any::<bool>())
        .prop_map(|(action, cooldown, most, webhook, calls)| Remediation {
            action,
            cooldown,
            replicas_max: most,
            replicas_min: most.map(|_| 1),
            patch: (action == Action::Patch).then(|| json!({"replicas": 2})),
            webhook: (action == Action::Webhook || calls).then_some(webhook),
            budget: None,
        })
        .boxed()
}

fn policies(names: &[String]) -> BoxedStrategy<Vec<AppPolicy>> {
    let some = proptest::sample::subsequence(names.to_vec(), 0..=names.len());
    let one = (some, check(), of(remediation()), any::<bool>());
    btree_map(word(), one, 0..3)
        .prop_map(|all| {
            let policy = |(name, (components, condition, remediation, suspended))| AppPolicy {
                name,
                components,
                condition,
                remediation,
                suspended,
                ..AppPolicy::default()
            };
            all.into_iter().map(policy).collect()
        })
        .boxed()
}

fn weights() -> BoxedStrategy<Weights> {
    (share(), of(share()), of(share()), of(share()), of(share()), of(share()))
        .prop_map(|(performance, energy, security, cost, resilience, latency)| Weights {
            performance: Some(performance),
            energy,
            security,
            cost,
            resilience,
            latency,
        })
        .boxed()
}

fn spec() -> BoxedStrategy<AppSpec> {
    component_names()
        .prop_flat_map(|names| {
            let components: Vec<_> =
                names.iter().map(|name| component(name.clone(), &names)).collect();
            let words = (
                of(text()),
                any::<bool>(),
                any::<bool>(),
                of(select(Profile::ALL)),
                of(weights()),
                of(select(Qos::ALL)),
                of(select(Grade::ALL)),
            );
            (words, of(share()), of(disconnect()), components, policies(&names)).prop_map(
                |(words, energy_limit, disconnect, components, policies)| {
                    let (description, homogeneous, stopped, profile, weights, qos, grade) = words;
                    AppSpec {
                        description,
                        homogeneous,
                        stopped,
                        profile,
                        weights,
                        qos,
                        failure_tolerance: grade,
                        energy_limit,
                        disconnect,
                        components,
                        policies,
                    }
                },
            )
        })
        .boxed()
}

pub(crate) fn app() -> BoxedStrategy<App> {
    let labels = of(btree_map(label_key(), "[a-z]{1,4}", 1..3));
    let annotations = of(btree_map(label_key(), text(), 1..3));
    (word(), of(word()), labels, annotations, spec())
        .prop_map(|(name, namespace, labels, annotations, spec)| {
            let mut app = App::new(&name, spec);
            app.metadata.namespace = namespace;
            app.metadata.labels = labels;
            app.metadata.annotations = annotations;
            app
        })
        .boxed()
}
