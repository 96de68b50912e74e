//! Problems that have an answer, because they are made around one: instances are dealt to nodes first, then nodes,
//! rules and links are made such that this keeps all of them. Everything is documents; nothing here is the matchmaker's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x6a09_e667_f3bc_c909)
    }

    /// From 0 up to `sides`, which is left out.
    pub(super) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let sides = u64::try_from(sides.max(1)).unwrap_or(1);
        usize::try_from((mixed ^ (mixed >> 31)) % sides).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }
}

/// What makes a problem hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Processors alone, or memory too, with hardly anything to spare.
    Cpu,
    CpuAndMemory,
    /// Labels, architectures, taints, ports, devices; with, apart, spread and skew.
    Rules,
    /// Delay and bandwidth between components.
    Network,
    /// All of it.
    Everything,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] =
        [Kind::Cpu, Kind::CpuAndMemory, Kind::Rules, Kind::Network, Kind::Everything];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::CpuAndMemory => "cpu and memory",
            Kind::Rules => "rules",
            Kind::Network => "network",
            Kind::Everything => "everything",
        }
    }

    fn has_rules(self) -> bool {
        matches!(self, Kind::Rules | Kind::Everything)
    }

    fn has_network(self) -> bool {
        matches!(self, Kind::Network | Kind::Everything)
    }
}

/// How large a problem is at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub nodes: usize,
    pub instances: usize,
}

/// The documents, and the answer that they were made around.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub sites: Vec<Value>,
    pub nodes: Vec<Value>,
    pub links: Vec<Value>,
    pub app: Value,
    /// By component and replica: the number of the node.
    pub answer: Vec<Vec<usize>>,
}

/// While it is made: numbers instead of names.
struct Draft {
    dice: Dice,
    kind: Kind,
    sites: usize,
    /// By node.
    site_of: Vec<usize>,
    answer: Vec<Vec<usize>>,
    components: Vec<Value>,
    /// By component, what one instance takes.
    cpu: Vec<u64>,
    memory: Vec<u64>,
}

pub(super) fn made(kind: Kind, size: Size, seed: u64) -> Made {
    let mut dice = Dice::new(seed);
    let nodes = 3 + dice.below(size.nodes - 2);
    let sites = if kind.has_rules() || kind.has_network() { 1 + dice.below(4) } else { 1 };
    let site_of = (0..nodes).map(|node| if node < sites { node } else { dice.below(sites) });
    let site_of: Vec<usize> = site_of.collect();
    let (answer, components, cpu, memory) = Default::default();
    let mut draft =
        Draft { dice, kind, sites: sites.min(nodes), site_of, answer, components, cpu, memory };
    draft.deal(size.instances);
    let mut docs: Vec<Value> = (0..nodes).map(|node| draft.node(node)).collect();
    if kind.has_rules() {
        draft.add_rules(&mut docs);
    }
    let links = if kind.has_network() { draft.add_network() } else { Vec::new() };
    let site = |site: usize| {
        object("Site", &format!("s{site}"), json!({"spec": {"engine": "docker", "location": {}}}))
    };
    let weights = [json!({"cost": 1}), json!({"security": 1, "cost": 1}), json!({"energy": 1})];
    let weights = weights[draft.dice.below(weights.len())].clone();
    let spec = json!({"components": draft.components, "weights": weights});
    Made {
        sites: (0..draft.sites).map(site).collect(),
        nodes: docs,
        links,
        app: object("App", "x", json!({"spec": spec})),
        answer: draft.answer,
    }
}

pub(super) fn object(kind: &str, name: &str, mut rest: Value) -> Value {
    rest["apiVersion"] = json!("tombolo.dev/v1alpha1");
    rest["kind"] = json!(kind);
    if rest.get("metadata").is_none() {
        rest["metadata"] = json!({});
    }
    rest["metadata"]["name"] = json!(name);
    if kind == "App" {
        rest["metadata"]["namespace"] = json!("shop");
    }
    rest
}

impl Draft {
    /// Puts up to three instances on every node, and makes components of them.
    fn deal(&mut self, most: usize) {
        let mut open: Vec<usize> = Vec::new();
        for node in 0..self.site_of.len() {
            let count = 1 + self.dice.below(3);
            open.extend(vec![node; count]);
        }
        open.truncate(most);
        for last in (1..open.len()).rev() {
            open.swap(last, self.dice.below(last + 1));
        }
        while !open.is_empty() {
            let alone = !self.kind.has_rules() && !self.kind.has_network();
            let replicas = if alone { 1 } else { 1 + self.dice.below(4) };
            let there: Vec<usize> = open.split_off(open.len().saturating_sub(replicas));
            let (cores, gib) = (1 + self.dice.below(5), 1 + self.dice.below(5));
            let name = format!("c{:03}-{}", self.dice.below(1_000), self.components.len());
            self.cpu.push(1_000 * cores as u64);
            self.memory.push((gib as u64) << 30);
            self.components.push(json!({
                "name": name, "replicas": there.len(),
                "needs": {"cpu": cores.to_string(), "memory": format!("{gib}Gi")},
                "run": [{"container": {"image": "x:1"}}],
            }));
            self.answer.push(there);
        }
    }

    /// Room for what the answer puts there, and a little more.
    fn node(&mut self, node: usize) -> Value {
        let (mut cpu, mut memory) = (0, 0);
        for (component, places) in self.answer.iter().enumerate() {
            let there = places.iter().filter(|at| **at == node).count() as u64;
            cpu += self.cpu[component] * there;
            memory += self.memory[component] * there;
        }
        let slack = [0, 0, 5, 10, 20][self.dice.below(5)];
        let with_slack = |sum: u64| sum * (100 + slack) / 100;
        let memory = match self.kind {
            Kind::Cpu => 1 << 40,
            _ => with_slack(memory),
        };
        let status = json!({
            "conditions": [], "securityScore": self.dice.below(100),
            "allocatable": {"cpu": format!("{}m", with_slack(cpu)), "memory": memory.to_string()},
            "characteristics": {"cpu": {}, "devices": [], "gpus": []}, "energy": {},
        });
        let site = format!("s{}", self.site_of[node]);
        let cost = 0.1 + self.dice.below(90) as f64 / 100.0;
        let spec = json!({"site": site, "taints": [], "costHourly": cost});
        object(
            "Node",
            &format!("n{node:02}"),
            json!({"spec": spec, "status": status, "metadata": {"labels": {}}}),
        )
    }

    /// What happens to hold of the answer becomes a rule, now and then.
    fn add_rules(&mut self, nodes: &mut [Value]) {
        for node in nodes.iter_mut() {
            let arch = ["amd64", "arm64"][self.dice.below(2)];
            node["status"]["characteristics"]["cpu"]["architecture"] = json!(arch);
            node["metadata"]["labels"]["tier"] = json!(["gold", "iron"][self.dice.below(2)]);
            if self.dice.one_in(5) {
                node["spec"]["taints"] = json!([{"key": "own", "effect": "NoSchedule"}]);
            }
        }
        let mut ports: BTreeSet<(usize, usize)> = BTreeSet::new();
        for component in 0..self.answer.len() {
            let places: BTreeSet<usize> = self.answer[component].iter().copied().collect();
            let all = |path: &[&str]| -> BTreeSet<String> {
                let of =
                    |node: &usize| path.iter().fold(&nodes[*node], |at, key| &at[*key]).to_string();
                places.iter().map(of).collect()
            };
            let arches = all(&["status", "characteristics", "cpu", "architecture"]);
            let tiers = all(&["metadata", "labels", "tier"]);
            let bare = |text: &String| json!(text.trim_matches('"'));
            if self.dice.one_in(3) {
                self.components[component]["needs"]["arch"] = arches.iter().map(bare).collect();
            }
            if self.dice.one_in(3) && tiers.len() == 1 {
                self.components[component]["needs"]["labels"] =
                    json!({"tier": bare(tiers.first().unwrap_or(&String::new()))});
            }
            let tainted = |node: &usize| nodes[*node]["spec"]["taints"][0].is_object();
            if places.iter().any(tainted) || self.dice.one_in(3) {
                self.components[component]["needs"]["tolerations"] =
                    json!([{"key": "own", "operator": "Exists"}]);
            }
            let alone = places.len() == self.answer[component].len();
            let port = self.dice.below(3);
            if alone
                && self.dice.one_in(3)
                && places.iter().all(|node| !ports.contains(&(*node, port)))
            {
                ports.extend(places.iter().map(|node| (*node, port)));
                let port = 8_000 + port;
                self.components[component]["expose"] = json!([{"port": 80, "published": port}]);
            }
            if self.dice.one_in(4) {
                for node in &self.answer[component] {
                    let devices = &mut nodes[*node]["status"]["characteristics"]["devices"];
                    if let Some(devices) = devices.as_array_mut() {
                        let name = format!("cam{}", devices.len());
                        devices
                            .push(json!({"name": name, "type": "camera", "status": "available"}));
                    }
                }
                self.components[component]["needs"]["devices"] = json!(["camera"]);
            }
            let affinity = self.affinity(component, &places);
            self.components[component]["affinity"] = affinity;
        }
    }

    fn affinity(&mut self, component: usize, places: &BTreeSet<usize>) -> Value {
        let mut affinity = json!({});
        let at = &self.answer[component];
        let site = |node: &usize| self.site_of[*node];
        let sites: BTreeSet<usize> = at.iter().map(site).collect();
        let count = |of: &dyn Fn(&usize) -> usize, all: usize| -> usize {
            let mut counts: BTreeMap<usize, usize> = (0..all).map(|place| (place, 0)).collect();
            at.iter().for_each(|node| *counts.entry(of(node)).or_default() += 1);
            counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0)
        };
        let by_site = count(&site, self.sites);
        let by_node = count(&|node| *node, self.site_of.len());
        let (apart_nodes, apart_sites) = (places.len() == at.len(), sites.len() == at.len());
        let others: Vec<usize> =
            (0..self.answer.len()).filter(|other| *other != component).collect();
        let name = |other: &usize| self.components[*other]["name"].clone();
        let shares = |other: &&usize| self.answer[**other].iter().any(|node| places.contains(node));
        let same_site = |other: &&usize| {
            sites.len() == 1 && self.answer[**other].iter().all(|node| sites.contains(&site(node)))
        };
        let apart: Vec<Value> = others.iter().filter(|other| !shares(other)).map(name).collect();
        let with: Vec<Value> = others.iter().filter(same_site).map(name).collect();
        let said = self.dice.below(7);
        match said {
            0 if apart_nodes => affinity["spread"] = json!("node"),
            1 if apart_sites => affinity["spread"] = json!("site"),
            2 if by_site >= 1 => affinity = json!({"spread": "site", "skew": by_site}),
            3 if by_node >= 1 => affinity = json!({"spread": "node", "skew": by_node}),
            4 if !apart.is_empty() => {
                affinity["apart"] = json!([apart[self.dice.below(apart.len())]])
            }
            5 if !with.is_empty() => affinity["with"] = json!([with[self.dice.below(with.len())]]),
            _ => (),
        }
        affinity
    }

    /// Links between all sites in a row and some others, connections that the answer keeps, and on the links what
    /// these take, with a little to spare.
    fn add_network(&mut self) -> Vec<Value> {
        let mut ends: Vec<(usize, usize, u64)> = Vec::new();
        for site in 1..self.sites {
            let to = self.dice.below(site);
            ends.push((to, site, 1_000 + self.dice.below(20_000) as u64));
        }
        let net = super::judge::Net::of(self.sites, &ends);
        let mut carried = vec![0u64; ends.len()];
        for from in 0..self.answer.len() {
            if !self.dice.one_in(2) || self.answer.len() < 2 {
                continue;
            }
            let to = (from + 1 + self.dice.below(self.answer.len() - 1)) % self.answer.len();
            let bps = 1_000_000 * (1 + self.dice.below(20) as u64);
            let share = bps.div_ceil(self.answer[to].len() as u64);
            let mut longest = 0;
            for a in &self.answer[from] {
                for b in &self.answer[to] {
                    let (a, b) = (self.site_of[*a], self.site_of[*b]);
                    longest = longest.max(net.delay[a][b]);
                    net.way(a, b).for_each(|link| carried[link] += share);
                }
            }
            let to = self.components[to]["name"].clone();
            let mut connection = json!({"to": to, "bandwidth": format!("{bps}bps")});
            if self.dice.one_in(2) {
                connection["latency"] = json!(format!("{}us", longest.max(1)));
            }
            self.components[from]["connects"] = json!([connection]);
        }
        let link = |(number, (a, b, delay)): (usize, &(usize, usize, u64))| {
            let bandwidth = format!("{}bps", (carried[number] * 11 / 10).max(1_000));
            let end = |site: &usize| json!({"kind": "Site", "name": format!("s{site}")});
            let spec = json!({"ends": [end(a), end(b)], "latency": format!("{delay}us"), "bandwidth": bandwidth});
            object("Link", &format!("l{number}"), json!({"spec": spec}))
        };
        ends.iter().enumerate().map(link).collect()
    }
}
