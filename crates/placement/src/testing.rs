//! A small world from a few lines, for the tests of this crate.
//!
//! ```text
//! site athens docker layer=near-edge country=GR lat=37.9 lon=23.7 carbon=300
//! node n1 athens cpu=4 memory=8Gi arch=arm64 security=50 tier=gold watts=40 cost=1 mhz=3000
//!      load=0.5 failures=2 device=camera taint=key[=value]:NoExecute cordoned silent unconfined
//! link athens berlin 10ms 100Mbps jitter=1ms failures=3 oneway
//! run shop/web web 0 n1
//! ```

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tombolo_model::{App, AppId, Link, Node, Shared, Site};
use tombolo_solver::select::Limits;

use crate::compile::{Options, Scope};
use crate::continuum::Continuum;
use crate::plan::{self, Plan};
use crate::running::{Hold, Running};
use crate::what_if::World;

pub(crate) fn world(text: &str) -> World {
    let mut world = World::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "site" => world.sites.push(site(&words).into()),
            "node" => world.nodes.push(node(&words).into()),
            "link" => world.links.push(link(&words).into()),
            "run" => world.running.push(running(&words)),
            other => panic!("no such line: {other}"),
        }
    }
    world
}

fn split(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}

fn number(text: &str) -> Value {
    json!(text.parse::<f64>().unwrap())
}

fn site(words: &[&str]) -> Site {
    let mut spec = json!({"engine": words[2], "location": {}});
    for (key, value) in words[3..].iter().map(|word| split(word)) {
        match key {
            "layer" => spec["layer"] = json!(value),
            "lat" => spec["location"]["latitude"] = number(value),
            "lon" => spec["location"]["longitude"] = number(value),
            "carbon" => spec["carbonIntensity"] = number(value),
            "trust" => spec["trust"] = json!(value),
            "cordoned" => spec["unschedulable"] = json!(true),
            "taint" => {
                let (key, effect) = value.split_once(':').unwrap();
                spec["taints"] = json!([{"key": key, "effect": effect}]);
            }
            "allow" => spec["allow"] = value.split(',').filter(|word| !word.is_empty()).collect(),
            place => spec["location"][place] = json!(value),
        }
    }
    object(json!({"metadata": {"name": words[1]}, "spec": spec}), "Site")
}

fn node(words: &[&str]) -> Node {
    let mut spec = json!({"site": words[2], "taints": []});
    let mut labels = json!({});
    let mut status = json!({
        "conditions": [],
        "allocatable": {},
        "characteristics": {"cpu": {}, "devices": [], "gpus": []},
        "energy": {},
    });
    for (key, value) in words[3..].iter().map(|word| split(word)) {
        match key {
            "cpu" | "memory" | "storage" => status["allocatable"][key] = json!(value),
            "engines" => {
                let names = value.split(',').map(|name| json!({"name": name}));
                status["characteristics"]["engines"] = names.collect();
            }
            "arch" => status["characteristics"]["cpu"]["architecture"] = json!(value),
            "mhz" => {
                status["characteristics"]["cpu"]["frequencyMhzMax"] =
                    json!(value.parse::<u32>().unwrap())
            }
            "gpu" => status["characteristics"]["gpus"] = json!([{"memory": value}]),
            "device" => {
                let device = json!({"name": value, "status": "available"});
                status["characteristics"]["devices"].as_array_mut().unwrap().push(device);
            }
            "security" => status["securityScore"] = json!(value.parse::<u8>().unwrap()),
            "compliance" => status["complianceScore"] = json!(value.parse::<u8>().unwrap()),
            "load" => status["load"] = json!({"cpu": number(value)}),
            "forecast" => status["load"] = json!({"cpu": 0, "cpuForecast": number(value)}),
            "watts" => status["energy"]["busyWatts"] = number(value),
            "failures" => {
                status["failures"] = json!({"node": value.parse::<u32>().unwrap(), "network": 0})
            }
            "cost" => spec["costHourly"] = number(value),
            "cordoned" => spec["unschedulable"] = json!(true),
            "taint" => {
                let (key, effect) = value.split_once(':').unwrap();
                let mut taint = json!({"key": key, "effect": effect});
                if let Some((key, value)) = key.split_once('=') {
                    (taint["key"], taint["value"]) = (json!(key), json!(value));
                }
                spec["taints"].as_array_mut().unwrap().push(taint);
            }
            "silent" => {
                status["conditions"] = json!([{
                    "type": "Ready", "status": "False", "reason": "HeartbeatLost",
                    "message": "no heartbeat for 60 s", "lastTransitionTime": "2024-01-01T00:00:00Z",
                }]);
            }
            "unconfined" => {
                status["conditions"] = json!([{
                    "type": "Confining", "status": "False", "reason": "CannotConfine",
                    "message": "cannot confine programs: no user namespaces",
                    "lastTransitionTime": "2024-01-01T00:00:00Z",
                }]);
            }
            label => labels[label] = json!(value),
        }
    }
    let metadata = json!({"name": words[1], "labels": labels});
    object(json!({"metadata": metadata, "spec": spec, "status": status}), "Node")
}

fn link(words: &[&str]) -> Link {
    // `site/node` is an end at a node.
    let end = |word: &str| match word.split_once('/') {
        Some((_, node)) => json!({"kind": "Node", "name": node}),
        None => json!({"kind": "Site", "name": word}),
    };
    let mut spec = json!({"ends": [end(words[1]), end(words[2])]});
    let (mut status, mut labels) = (json!({}), json!({}));
    for (key, value) in words[3..].iter().map(|word| split(word)) {
        match key {
            "measured" | "estimated" => {
                status = json!({"latency": value, "spread": "1ms", "kind": key, "samples": 45,
                    "measuredAt": "2030-01-31T12:00:00Z"});
            }
            "made" => labels = json!({"tombolo.dev/managed": "probes"}),
            "oneway" => spec["oneWay"] = json!(true),
            "jitter" => spec["jitter"] = json!(value),
            "failures" => spec["failures"] = json!(value.parse::<u32>().unwrap()),
            rate if rate.ends_with("bps") => spec["bandwidth"] = json!(rate),
            delay => spec["latency"] = json!(delay),
        }
    }
    let name = format!("{}--{}", words[1], words[2]).replace('/', ".");
    let metadata = json!({"name": name, "labels": labels});
    object(json!({"metadata": metadata, "spec": spec, "status": status}), "Link")
}

fn running(words: &[&str]) -> Running {
    Running {
        app: words[1].split_once('/').map(|(namespace, name)| AppId::new(namespace, name)),
        component: words[2].to_owned(),
        replica: words[3].parse().unwrap(),
        node: words[4].to_owned(),
        engine: tombolo_model::Engine::Docker,
        resources: None,
        ports: None,
        hold: if words.contains(&"lost") { Hold::Lost } else { Hold::Held },
    }
}

fn object<T: serde::de::DeserializeOwned>(mut value: Value, kind: &str) -> T {
    value["apiVersion"] = json!("tombolo.dev/v1alpha1");
    value["kind"] = json!(kind);
    serde_json::from_value(value).unwrap()
}

/// Objects as a world holds them.
pub(crate) fn shared<T: Clone>(objects: &[T]) -> Vec<Shared<T>> {
    objects.iter().cloned().map(Shared::from).collect()
}

/// An App in namespace `shop`. A component without a way to run gets a container.
pub(crate) fn app(name: &str, mut spec: Value) -> App {
    for component in spec["components"].as_array_mut().unwrap() {
        if component.get("run").is_none() {
            component["run"] = json!([{"container": {"image": "x:1"}}]);
        }
    }
    object(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec}), "App")
}

/// An App `shop/web` of components that need this.
pub(crate) fn web(components: Value) -> App {
    app("web", json!({"components": components}))
}

impl World {
    pub(crate) fn with(mut self, apps: impl IntoIterator<Item = App>) -> World {
        self.apps.extend(apps.into_iter().map(Shared::from));
        self
    }

    pub(crate) fn plan(&self, options: &Options) -> Plan {
        self.plan_within(400_000, options)
    }

    /// The same with a search of so many steps.
    pub(crate) fn plan_within(&self, work: u64, options: &Options) -> Plan {
        let (continuum, troubles) = Continuum::of(&self.sites, &self.nodes, &self.links);
        let limits = Limits { work, ..Limits::default() };
        let mut plan = plan::plan(&continuum, &self.apps, &self.running, options, &limits).unwrap();
        plan.troubles.extend(troubles);
        plan
    }

    pub(crate) fn plan_all(&self) -> Plan {
        self.plan(&Options { scope: Scope::All, ..Options::default() })
    }

    /// What a plan would have run, as running.
    pub(crate) fn settle(&mut self, plan: &Plan) {
        for app in &plan.apps {
            self.running.retain(|running| running.app.as_ref() != Some(&app.app));
            for instance in &app.instances {
                self.running.push(Running {
                    app: Some(app.app.clone()),
                    component: instance.placement.component.clone(),
                    replica: instance.placement.replica,
                    node: instance.placement.node.clone().unwrap(),
                    engine: instance.placement.engine.unwrap(),
                    resources: Some(instance.resources.clone()),
                    ports: None,
                    hold: Hold::Held,
                });
            }
        }
        self.running
            .retain(|running| !plan.surplus.iter().any(|surplus| surplus.running == *running));
    }
}

/// A line for each instance and each that has no place.
pub(crate) fn shown(plan: &Plan) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for trouble in &plan.troubles {
        writeln!(out, "trouble: {trouble}").unwrap();
    }
    for app in &plan.apps {
        for instance in &app.instances {
            let at = &instance.placement;
            let step = match &instance.step {
                plan::Step::Start => "start".to_owned(),
                plan::Step::Stay => "stay".to_owned(),
                plan::Step::Wait => "wait".to_owned(),
                plan::Step::Move { from, .. } => format!("move from {from}"),
            };
            let node = at.node.as_deref().unwrap();
            writeln!(out, "{}/{}: {step} on {node}", at.component, at.replica).unwrap();
        }
        for unplaced in &app.unplaced {
            writeln!(out, "{}/{}: no place", unplaced.component, unplaced.replica).unwrap();
            for reason in &unplaced.reasons {
                writeln!(out, "  {reason}").unwrap();
            }
            if let Some(suggestion) = &unplaced.suggestion {
                writeln!(out, "  -> {suggestion}").unwrap();
            }
        }
    }
    for surplus in &plan.surplus {
        let running = &surplus.running;
        writeln!(
            out,
            "{}/{}: stop on {}: {}",
            running.component, running.replica, running.node, surplus.why
        )
        .unwrap();
    }
    out
}

/// The nodes of the plan, by component and replica.
pub(crate) fn nodes(plan: &Plan) -> BTreeMap<String, String> {
    let instances = plan.apps.iter().flat_map(|app| &app.instances);
    let at = |instance: &plan::InstancePlan| {
        let at = &instance.placement;
        (format!("{}/{}", at.component, at.replica), at.node.clone().unwrap())
    };
    instances.map(at).collect()
}
