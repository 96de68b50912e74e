//! Every parser that reads from outside, in one table: `tests/parsers.rs` feeds each with what is
//! almost right, and the targets in `fuzz/` with whatever a fuzzer comes up with.
//!
//! A parser may refuse; it may not panic, hang, or read its own output as something else.

use serde_json::Value;
use tombolo_apiserver::request::{Query, parse_path};
use tombolo_apiserver::{accept, crd, decode};
use tombolo_descriptor::{Colour, Format, NoFiles, Source};
use tombolo_document::schema::Schema;
use tombolo_document::selector::{FieldSelector, LabelSelector};
use tombolo_document::{apply, jsonpath, patch, protobuf};
use tombolo_identity::Token;
use tombolo_model::quantity::{Arch, BitRate, Bytes, Cpu, Duration};
use tombolo_yaml::Limits;

/// A parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Also the name of its fuzz target.
    pub name: &'static str,
    /// Inputs that are right, or nearly: what mutation starts from.
    pub seeds: &'static [&'static str],
    pub read: fn(&[u8]),
}

pub const PARSERS: &[Parser] = &[
    Parser {
        name: "accept",
        seeds: &["application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5, */*"],
        read: |data| {
            let _ = accept::negotiate(Some(&text(data)), accept::OF_A_LIST);
        },
    },
    Parser {
        name: "alto",
        seeds: &[
            r#"{"pids":["a","b"],"address-types":["ipv4"]}"#,
            r#"{"multi-cost-types":[{"cost-mode":"numerical","cost-metric":"delay-rt"}],"or-constraints":[["[0] le 5"]],"pids":{"srcs":["a"],"dsts":[]},"endpoints":{"srcs":["ipv4:10.0.0.1"],"dsts":["ipv6:::1"]}}"#,
            r#"{"properties":["map.pid"],"endpoints":["ipv4:10.0.0.1"],"add":{"map":{"tag":"x","incremental-changes":true}},"remove":["y"]}"#,
        ],
        read: alto,
    },
    Parser {
        name: "backup",
        seeds: &["tombolo"],
        read: |data| {
            let _ = tombolo_store::verify_backup(data);
        },
    },
    Parser {
        name: "definition",
        seeds: &[
            r#"{"spec":{"group":"a.io","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object"}}}}}]},"metadata":{"name":"things.a.io"}}"#,
        ],
        read: |data| {
            if let Ok(decoded) = decode::json(data) {
                let _ = crd::kinds(&decoded.value);
            }
        },
    },
    Parser {
        name: "descriptor-ceaml",
        seeds: &[
            "tosca_definitions_version: tosca_simple_yaml_1_2\ntopology_template:\n  node_templates:\n    f: {type: Platform, properties: {application: a, deployment_phase: [{name: deploy, order: 1, components: [{component: c, type: container}]}]}}\n    c:\n      type: Component\n      properties: {name: c, application: a, deployment_unit: Container, external_ip: true, ports: [80], registry: [{r: {properties: {image: i}}}]}\n      requirements: [{host: e}]\n    e: {type: tosca.nodes.Compute.EdgeNode, capabilities: {host: {properties: {num_cpus: 1, mem_size: 1 GB}}}}\n",
        ],
        read: |data| descriptor(Format::Ceaml, data),
    },
    Parser {
        name: "descriptor-charity-orchestration",
        seeds: &[
            "apiVersion: charity-project.eu/v1\nkind: LowLevelOrchestration\nmetadata: {name: a}\nspec:\n  clusters: [{name: c, uid: u}]\n  links: [[c, c]]\n  apps:\n  - name: b\n    owner: o\n    cluster: c\n    components: [{name: d, image: e, expose: [{is-public: true, containerPort: 80, clusterPort: 81}], env: {is-secret: false, variables: [{name: A, value: b}]}}]\n",
        ],
        read: |data| descriptor(Format::CharityOrchestration, data),
    },
    Parser {
        name: "descriptor-charity-tosca",
        seeds: &[
            "tosca_definitions_version: tosca_simple_yaml_1_3\nmetadata: {template_name: t}\ntopology_template:\n  inputs: {i: {type: string, default: x}}\n  node_templates:\n    a:\n      type: Charity.Component\n      properties: {name: a, deployment_unit: K8S_POD, placement_hint: EDGE, image: b, environment: {K: {get_input: i}}}\n      requirements: [{host: n}]\n    n: {type: Charity.Node, node_filter: {capabilities: [{host: {properties: [{num_cpus: {greater_or_equal: 2}}, {mem_size: {equal: 4 GB}}]}}]}}\n    p: {type: Charity.ConnectionPoint, properties: {name: p, port: 80, protocol: TCP}, requirements: [{binding: a}, {link: l}]}\n    l: {type: Charity.VirtualLink, properties: {network: {bandwidth: 5 Mbps, latency: 10 ms}}}\n",
        ],
        read: |data| descriptor(Format::CharityTosca, data),
    },
    Parser {
        name: "descriptor-codeco",
        seeds: &[
            "apiVersion: codeco.he-codeco.eu/v1alpha1\nkind: CodecoApp\nmetadata: {name: a}\nspec:\n  appName: a\n  qosClass: Gold\n  securityClass: Good\n  appEnergyLimit: \"20\"\n  codecoapp-msspec:\n  - serviceName: s\n    podspec: {containers: [{name: c, image: d}]}\n    serviceChannels: [{channelName: x, otherService: {serviceName: s, port: 80}, serviceClass: ASSURED, advancedChannelSettings: {minBandwidth: \"5M\", maxDelay: \"10m\"}}]\n",
        ],
        read: |data| descriptor(Format::Codeco, data),
    },
    Parser {
        name: "descriptor-compose",
        seeds: &[
            "name: a\nservices:\n  b:\n    image: c\n    ports: [\"80:8080\", {target: 1, published: \"2\"}]\n    environment: [A=b]\n    depends_on: {d: {condition: service_started}}\n    volumes: [\"v:/x:ro\"]\n    healthcheck: {test: [CMD, x], interval: 5s}\n    deploy: {replicas: 2, resources: {limits: {cpus: '0.5', memory: 50M}}}\n  d: {image: e}\nvolumes: {v: {}}\n",
        ],
        read: |data| descriptor(Format::Compose, data),
    },
    Parser {
        name: "descriptor-edgenet",
        seeds: &[
            "apiVersion: apps.edgenet.io/v1alpha1\nkind: SelectiveDeployment\nmetadata: {name: a}\nspec:\n  workloads: {deployment: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: b}, spec: {selector: {matchLabels: {x: y}}, template: {metadata: {labels: {x: y}}, spec: {containers: [{name: c, image: d}]}}}}]}\n  selector: [{name: Country, operator: In, value: [FR], quantity: 2}]\n",
        ],
        read: |data| descriptor(Format::EdgeNet, data),
    },
    Parser {
        name: "descriptor-icos",
        seeds: &[
            "name: a\ncomponents:\n- name: b\n  type: multiple\n  manifests: [{name: m}, {name: n}]\n  requirements: {cpu: 0.5, memory: 200Mb, nodelabel: {key: k, values: [x, y]}, devices: d/e}\n  policies: [{security: high}]\n  communication: [{incoming: s}, {outgoing: m}]\npolicies:\n- {type: scheduler, energy: 0.3, apply-to: b}\n- {type: custom, spec: {expr: up, violatedIf: '< 1'}, properties: {interval: 5}}\nmanifests:\n- {name: m, manifest: {apiVersion: v1, kind: Service, metadata: {name: m}, spec: {ports: [{port: 80}]}}}\n- {name: n, manifest: {services: {x: {image: y, mem_limit: 1g}}}}\n",
            "name: a\ncomponents: [{name: b, manifests: [{name: p}]}]\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: d, resources: {requests: {cpu: 1}}}]}\n",
        ],
        read: |data| descriptor(Format::Icos, data),
    },
    Parser {
        name: "descriptor-kubernetes",
        seeds: &[
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: 2\n  selector: {matchLabels: {x: y}}\n  template:\n    metadata: {labels: {x: y}}\n    spec: {containers: [{name: c, image: d, env: [{name: B, value: b}], ports: [{containerPort: 80}], resources: {requests: {cpu: 100m}}}]}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {selector: {x: y}, ports: [{port: 80, targetPort: 80}]}\n",
        ],
        read: |data| descriptor(Format::Kubernetes, data),
    },
    Parser {
        name: "descriptor-native",
        seeds: &[
            "apiVersion: tombolo.dev/v1alpha1\nkind: App\nmetadata: {name: a}\nspec:\n  components:\n  - name: b\n    run: [{container: {image: c, ports: [80]}}]\n    needs: {cpu: 500m, memory: 1Gi, arch: [arm64]}\n    connects: [{to: b, latency: 5ms}]\n",
        ],
        read: |data| descriptor(Format::Native, data),
    },
    Parser {
        name: "exposition",
        seeds: &[
            "# TYPE up gauge\nup{job=\"a\",x=\"q\\\"\\n\"} 1 1700000000.5\n{\"a.b\",c=\"d\"} +Inf 5\n# EOF\n",
        ],
        read: |data| {
            let limits =
                tombolo_series::exposition::Limits { default_ms: Some(0), ..Default::default() };
            let _ = tombolo_series::exposition::read(&text(data), &limits);
        },
    },
    Parser {
        name: "field-selector",
        seeds: &["metadata.name=a,metadata.namespace!=b", r"metadata.name=a\,b\=c"],
        read: |data| {
            if let Ok(selector) = FieldSelector::parse(&text(data), "Thing", &[]) {
                let again = FieldSelector::parse(&selector.to_string(), "Thing", &[]);
                assert_eq!(again.expect("what we write can be read"), selector);
            }
        },
    },
    Parser {
        name: "json-body",
        seeds: &[
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#,
        ],
        read: |data| {
            if let Ok(decoded) = decode::json(data) {
                let _ = tombolo_model::validate::object(&decoded.value);
            }
        },
    },
    Parser {
        name: "json-patch",
        seeds: &[r#"[{"op":"add","path":"/a/0","value":1},{"op":"copy","from":"/a","path":"/b"}]"#],
        read: |data| {
            let document = serde_json::json!({"a": [1, 2], "metadata": {"name": "x"}});
            let _ = patch::json_patch(&document, data);
            let _ = patch::merge_patch(&document, data);
            let _ = patch::strategic_merge_patch(&document, data);
        },
    },
    Parser {
        name: "jsonpath",
        seeds: &[r#".status.conditions[?(@.type=="Ready")].status"#, "['a.b'][0].c[*]"],
        read: |data| {
            if let Ok(path) = jsonpath::Path::parse(&text(data)) {
                let _ = path.find(&serde_json::json!({"a": [{"b": 1}], "status": {}}));
            }
        },
    },
    Parser {
        name: "label-selector",
        seeds: &["a=b,c!=d,e in (x,y),f notin (z),g,!h", "a==b"],
        read: |data| {
            if let Ok(selector) = LabelSelector::parse(&text(data)) {
                let again = LabelSelector::parse(&selector.to_string());
                assert_eq!(again.expect("what we write can be read"), selector);
            }
        },
    },
    Parser {
        name: "managed-fields",
        seeds: &[r#"{"f:spec":{".":{},"k:{\"name\":\"a\"}":{"f:image":{}},"v:1":{}}}"#],
        read: |data| {
            let Ok(decoded) = decode::json(data) else { return };
            if let Ok(fields) = apply::FieldSet::from_fields_v1(&decoded.value) {
                let again = apply::FieldSet::from_fields_v1(&fields.to_fields_v1());
                assert_eq!(again.expect("what we write can be read"), fields);
            }
        },
    },
    Parser {
        name: "promql",
        seeds: &[
            "sum by (job) (rate(up{a=~\"b|c\"}[5m] offset 1m @ end())) > bool on(job) group_left(x) -2 ^ 3",
            "topk(2, up[5m:30s] anchored) or vector(1) + fill(0) {\"a.b\"} # end",
            "label_replace(up[step() * (2 - 1)], \"a\", '\\u00e9', `b`, \"(.*)\") atan2 0x1f",
        ],
        read: |data| {
            use tombolo_series::promql;
            let query = text(data);
            let Ok(expr) = promql::parse(&query) else { return };
            let tree: Result<Value, _> = serde_json::from_str(&promql::tree_json(&expr));
            assert!(tree.is_ok(), "the tree of a query is JSON");
            let _ = promql::format(&expr);
            let mut head = tombolo_series::Head::default();
            let samples: Vec<_> =
                (0..40).map(|n| tombolo_series::Sample::new(n * 15_000, n as f64)).collect();
            let labels = tombolo_series::Labels::new([("__name__", "up"), ("job", "a")]);
            head.insert("fuzz", &labels, &samples).expect("one series is not too many");
            let budget = tombolo_series::Budget::new(100_000, 100_000);
            let asked = promql::Query::range(0, 600_000, 60_000);
            let _ =
                promql::evaluate(&query, &expr, asked, promql::Options::default(), &head, &budget);
        },
    },
    Parser {
        name: "protobuf-body",
        seeds: &["k8s\0\n\u{f}\n\u{2}v1\u{12}\tNamespace\u{12}\u{5}\n\u{3}\n\u{1}a"],
        read: |data| {
            let _ = protobuf::decode(data);
        },
    },
    Parser {
        name: "quantity",
        seeds: &["500m", "0.5", "200Mi", "512MB", "1h30m", "10Mbps", "1e3", "aarch64"],
        read: |data| {
            let text = text(data);
            if let Ok(cpu) = text.parse::<Cpu>() {
                assert_eq!(cpu.to_string().parse::<Cpu>().expect("ours"), cpu);
            }
            if let Ok(bytes) = text.parse::<Bytes>() {
                assert_eq!(bytes.to_string().parse::<Bytes>().expect("ours"), bytes);
            }
            if let Ok(rate) = text.parse::<BitRate>() {
                assert_eq!(rate.to_string().parse::<BitRate>().expect("ours"), rate);
            }
            if let Ok(duration) = text.parse::<Duration>() {
                assert_eq!(duration.to_string().parse::<Duration>().expect("ours"), duration);
            }
            if let Ok(arch) = text.parse::<Arch>() {
                assert_eq!(arch.to_string().parse::<Arch>().expect("ours"), arch);
            }
        },
    },
    Parser {
        name: "remote-read",
        // A request for `up` from 0 to 9, and one that claims more than it has.
        seeds: &[
            "\u{14}\u{4c}\u{0a}\u{12}\u{10}\u{09}\u{1a}\u{0e}\u{12}\u{08}__name__\u{1a}\u{02}up",
            "\u{02}\u{04}\u{0a}\u{7f}",
        ],
        read: |data| {
            let _ = tombolo_telemetry::wire::remote_read::decode(data, &wire_limits());
        },
    },
    Parser {
        name: "remote-write-1",
        seeds: &[
            "\u{16}\u{54}\u{0a}\u{14}\u{0a}\u{0e}\u{0a}\u{08}__name__\u{12}\u{02}up\u{12}\u{02}\u{10}\u{01}",
            "\u{02}\u{04}\u{0a}\u{7f}",
        ],
        read: |data| remote_write(tombolo_telemetry::wire::remote_write::Version::V1, data),
    },
    Parser {
        name: "remote-write-2",
        seeds: &[
            "\u{1a}\u{64}\u{22}\u{00}\u{22}\u{08}__name__\u{22}\u{02}up\u{2a}\u{08}\u{0a}\u{02}\u{01}\u{02}\u{12}\u{02}\u{10}\u{01}",
            "\u{02}\u{04}\u{2a}\u{7f}",
        ],
        read: |data| remote_write(tombolo_telemetry::wire::remote_write::Version::V2, data),
    },
    Parser {
        name: "request",
        seeds: &[
            "/apis/a.io/v1/namespaces/n/things/x/status?watch=true&limit=5&labelSelector=a%3Db",
        ],
        read: |data| {
            let text = text(data);
            let (path, query) = text.split_once('?').unwrap_or((&text, ""));
            let _ = (parse_path(path), Query::parse(&http::Method::GET, query));
        },
    },
    Parser {
        name: "schema",
        seeds: &[
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","pattern":"^a+$"},"x-kubernetes-list-type":"set"}}}"#,
        ],
        read: |data| {
            let Ok(decoded) = decode::json(data) else { return };
            if let Ok(schema) = Schema::compile(&decoded.value) {
                let mut value: Value = decoded.value;
                schema.prune(&mut value);
                schema.fill_defaults(&mut value);
                let _ = schema.validate(&value, &tombolo_document::schema::Path::ROOT);
            }
        },
    },
    Parser {
        name: "series-block",
        seeds: &["TOMSER01"],
        read: |data| {
            let Ok(block) = tombolo_series::Block::open(data) else { return };
            let (budget, mut samples) = (tombolo_series::Budget::default(), Vec::new());
            let span = tombolo_series::Span::ALL;
            for series in tombolo_series::Querier::select(&block, &[], span) {
                let _ = series.read(span, &budget, &mut samples);
            }
        },
    },
    Parser {
        name: "series-chunk",
        seeds: &["\x02\x03\x00\x1e\x00\x00\x00\x00\x00"],
        read: |data| {
            let mut samples = Vec::new();
            if tombolo_series::chunk::decode(data, &mut samples).is_ok() {
                let again = tombolo_series::chunk::encode(&samples);
                let mut same = Vec::new();
                assert!(tombolo_series::chunk::decode(&again, &mut same).is_ok());
                assert_eq!(same, samples, "a chunk comes back as it was");
            }
        },
    },
    Parser {
        name: "stamp",
        // Number, time, error and session; then padding and an option that nobody knows.
        seeds: &[
            "\0\0\0\x07aaaabbbb\x20\x01\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x02xx\0\x7f\0\x01y",
        ],
        read: stamp,
    },
    Parser {
        name: "token",
        seeds: &[
            "tombolo_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567",
        ],
        read: |data| {
            if let Ok(token) = Token::parse(&text(data)) {
                assert_eq!(Token::parse(&token.reveal()).expect("ours").hash(), token.hash());
            }
        },
    },
    Parser {
        name: "yaml",
        seeds: &[
            "a: &x [1, 2.5]\nb: {<<: {c: *x}, d: !!str 5}\n---\n- |\n  text\n- -x: 'y'\n",
            "a:\n\tb: 1\nc: d: e\n...\n%YAML 1.2\n---\n? [k]\n: \"v\"\n",
            "---\na: 1 # c\nb:\n- c: \"x\\n\"\n  d: |-\n    e\n\n    f\n-\n  - 'g'\n  - {h: [i, -1], \"j\":{}}\nk:\n---\n[l,\n m]\n",
        ],
        read: |data| {
            let text = text(data);
            let limits = Limits::default();
            let (nodes, problems) = tombolo_yaml::documents(&text, &limits);
            assert!(tombolo_yaml::both_ways_agree(&text, &limits), "the quick way is another");
            for node in nodes {
                let _ = node.to_json();
            }
            for problem in problems {
                assert!(text.get(problem.span.range()).is_some(), "a place within the text");
            }
        },
    },
    Parser {
        name: "yaml-body",
        seeds: &["a: &x [1, 2]\nb: *x\nc: {d: !!str 5}\n", "- 1\n- |\n  text\n"],
        read: |data| {
            let _ = decode::yaml(data);
        },
    },
];

/// Feeds one parser; what the fuzz targets call.
pub fn read(name: &str, data: &[u8]) {
    let parser = PARSERS.iter().find(|parser| parser.name == name);
    (parser.expect("a parser of the table").read)(data);
}

/// Asks a small ALTO server everything with one body. Whatever is answered is JSON, and a refusal has a code.
fn alto(data: &[u8]) {
    let prefixes = |text: &str| tombolo_alto::Prefix::parse(text).into_iter().collect();
    let pid = |name: &str| tombolo_alto::Pid::new(name).expect("a name");
    let delay = tombolo_alto::Metric::DelayRt;
    let maps = tombolo_alto::Maps {
        pids: [(pid("a"), prefixes("10.0.0.0/8")), (pid("b"), prefixes("::/0"))].into(),
        costs: tombolo_alto::Costs::new([(delay, pid("a"), pid("b"), 1.5)]),
    };
    let id = tombolo_alto::ResourceId::new("map").expect("a name");
    let service = tombolo_alto::Service::new("http://localhost/alto", id, maps);
    let client = tombolo_alto::Address::parse("ipv4:10.0.0.1").expect("an address");
    let answers = [
        service.filtered_network_map(data),
        service.filtered_cost_map(data),
        service.endpoint_properties(data),
        service.endpoint_costs(data, client),
        tombolo_alto::Wanted::read(data, &service).map(|wanted| {
            let mut stream = tombolo_alto::Stream::default();
            stream.change(wanted, &service).into_iter().map(|event| event.data).collect()
        }),
    ];
    for refusal in answers.into_iter().filter_map(Result::err) {
        assert!(refusal.document()["meta"]["code"].is_string(), "{refusal:?}");
    }
}

/// Reflects a packet in both modes: an answer is as long as the packet was, and can be read.
fn stamp(data: &[u8]) {
    use tombolo_network::stamp::{
        Answer, Extensions, Key, Mode, Request, Sight, Timestamp, reflect,
    };
    let at = Timestamp::of_day(std::time::Duration::from_secs(1_700_000_000));
    let sight = Sight { received: at, sent: at, hops_left: 64, sequence: Some(1) };
    for mode in [Mode::Open, Mode::Authenticated(Key::new(b"secret"))] {
        // A packet that nobody signed is refused; one that is signed has more inside to be read.
        let sealed = Request::decode(&Mode::Open, data).map(|request| {
            let mut packet = request.encode(&mode, 0);
            packet.extend(data.get(mode.length()..).unwrap_or_default());
            packet
        });
        for packet in [Ok(data.to_vec()), sealed].into_iter().flatten() {
            let mut answer = packet.clone();
            let _ = Answer::decode(&mode, &packet);
            let _ = Extensions::of(&mode, &packet).count();
            if reflect(&mode, &mut answer, &sight).is_ok() {
                assert_eq!(answer.len(), packet.len());
                assert!(Answer::decode(&mode, &answer).is_ok());
            }
        }
    }
}

/// Reads a descriptor as a format and as whatever it is recognised as. What is told must be
/// showable, and an App without errors must be valid.
fn descriptor(format: Format, data: &[u8]) {
    let text = text(data);
    let source = Source { name: "input", text: &text };
    assert!(tombolo_yaml::both_ways_agree(&text, &Limits::default()), "the quick way is another");
    for format in [Some(format), None] {
        let reading = tombolo_descriptor::read(source, format, &NoFiles);
        let _ = tombolo_descriptor::render(source, &reading.diagnostics, Colour::Always);
        let _ = tombolo_descriptor::render_notes(source, &reading.notes, Colour::Never);
        for diagnostic in &reading.diagnostics {
            let mend = diagnostic.mend.as_ref().map(|mend| mend.span);
            for span in [Some(diagnostic.span), mend].into_iter().flatten() {
                assert!(text.get(span.range()).is_some(), "{diagnostic:?} is not in the text");
            }
        }
        if reading.has_errors() {
            continue;
        }
        for app in &reading.apps {
            let app = serde_json::to_value(app).expect("an App is plain data");
            let invalid = tombolo_model::validate::app(&app);
            assert!(invalid.is_empty(), "read without errors, and yet {invalid:?}");
        }
    }
}

/// Small, so that a fuzzer is not busy with large ones.
fn wire_limits() -> tombolo_telemetry::wire::Limits {
    tombolo_telemetry::wire::Limits { bytes_max: 1 << 20, ..Default::default() }
}

/// What was read is read the same from what is written of it.
fn remote_write(version: tombolo_telemetry::wire::remote_write::Version, data: &[u8]) {
    use tombolo_telemetry::wire::remote_write::{decode, encode};

    let Ok(batch) = decode(version, data, &wire_limits()) else { return };
    let again = decode(version, &encode(version, &batch.series, &[]), &wire_limits());
    assert_eq!(again.map(|again| again.samples()), Ok(batch.samples()));
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}
