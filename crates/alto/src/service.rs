//! The documents of a server: its directory, its maps, and answers to what clients ask of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::address::{Address, Prefix};
use crate::costs::{CostType, Costs, number};
use crate::media;
use crate::names::{Pid, ResourceId};
use crate::refusal::Refusal;
use crate::request::{
    COST_TYPES_MOST, CostMapAsked, CostsAsked, EndpointCostsAsked, NetworkMapAsked, PropertiesAsked,
};

/// What is known of the network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Maps {
    /// Which addresses are where. Whatever is in no prefix of a PID has no PID.
    pub pids: BTreeMap<Pid, BTreeSet<Prefix>>,
    pub costs: Costs,
}

/// A server at some address.
#[derive(Clone, Debug)]
pub struct Service {
    base: String,
    network_map: ResourceId,
    maps: Maps,
    tag: String,
}

impl Service {
    /// `base` is the address under which the paths of [`Service::directory`] are served, without a slash at its end.
    pub fn new(base: impl Into<String>, network_map: ResourceId, maps: Maps) -> Service {
        let tag = tag(&maps.pids);
        Service { base: base.into(), network_map, maps, tag }
    }

    /// Differs as soon as the network map does, and is the same for the same map on every machine.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The resource of the cost map of one type.
    pub fn cost_map_id(cost_type: CostType) -> String {
        format!("costmap-{}", cost_type.short_name())
    }

    fn offered(&self) -> Vec<CostType> {
        let known: BTreeSet<_> = self.maps.costs.metrics().collect();
        CostType::all().filter(|cost_type| known.contains(&cost_type.metric)).collect()
    }

    /// What there is (RFC 7285, 9.2; RFC 8189, 4.1; RFC 8895, 6).
    pub fn directory(&self) -> Value {
        let mut resources = Map::new();
        for (id, path, mut entry) in self.plain().into_iter().chain(self.asked()) {
            entry["uri"] = json!(format!("{}{path}", self.base));
            resources.insert(id, entry);
        }
        let offered = self.offered();
        let types = offered.iter().map(|offered| (offered.short_name(), offered.document()));
        let types: Map<String, Value> = types.collect();
        let map = self.network_map.as_str();
        json!({
            "meta": { "cost-types": types, "default-alto-network-map": map },
            "resources": resources,
        })
    }

    /// What is read without asking for anything: id, path, and what the directory says of it.
    fn plain(&self) -> Vec<(String, String, Value)> {
        let map = self.network_map.to_string();
        let mut plain = vec![(
            map.clone(),
            "/networkmap".to_owned(),
            json!({ "media-type": media::NETWORK_MAP }),
        )];
        for cost_type in self.offered() {
            let name = cost_type.short_name();
            let entry = json!({
                "media-type": media::COST_MAP,
                "capabilities": { "cost-type-names": [name] },
                "uses": [map],
            });
            plain.push((Service::cost_map_id(cost_type), format!("/costmap/{name}"), entry));
        }
        plain
    }

    /// What takes a request.
    fn asked(&self) -> [(String, String, Value); 5] {
        let names: Vec<String> = self.offered().into_iter().map(CostType::short_name).collect();
        let uses = json!([self.network_map.as_str()]);
        let costs = json!({
            "cost-type-names": names,
            "cost-constraints": true,
            "max-cost-types": COST_TYPES_MOST,
            "testable-cost-type-names": names,
        });
        let filtered_map = json!({
            "media-type": media::NETWORK_MAP,
            "accepts": media::NETWORK_MAP_FILTER,
            "uses": uses,
        });
        let filtered_costs = json!({
            "media-type": media::COST_MAP,
            "accepts": media::COST_MAP_FILTER,
            "capabilities": costs,
            "uses": uses,
        });
        let properties = json!({
            "media-type": media::ENDPOINT_PROPERTIES,
            "accepts": media::ENDPOINT_PROPERTIES_ASKED,
            "capabilities": { "prop-types": self.properties() },
        });
        let endpoint_costs = json!({
            "media-type": media::ENDPOINT_COSTS,
            "accepts": media::ENDPOINT_COSTS_ASKED,
            "capabilities": costs,
        });
        let streamed = self.streamed();
        let patched = streamed.iter().map(|id| (id.clone(), json!(media::MERGE_PATCH)));
        let patched: Map<String, Value> = patched.collect();
        let updates = json!({
            "media-type": media::UPDATES,
            "accepts": media::UPDATES_ASKED,
            "capabilities": { "incremental-change-media-types": patched },
            "uses": streamed,
        });
        [
            ("filtered-network-map", "/networkmap/filtered", filtered_map),
            ("filtered-cost-map", "/costmap/filtered", filtered_costs),
            ("endpoint-property", "/endpointprop", properties),
            ("endpoint-cost", "/endpointcost", endpoint_costs),
            ("updates", "/updates", updates),
        ]
        .map(|(id, path, entry)| (id.to_owned(), path.to_owned(), entry))
    }

    /// The resources that a stream of updates can tell of.
    pub(crate) fn streamed(&self) -> Vec<String> {
        let maps = self.offered().into_iter().map(Service::cost_map_id);
        std::iter::once(self.network_map.as_str().to_owned()).chain(maps).collect()
    }

    /// A resource by its id, if it is one that is read without asking for anything.
    pub fn resource(&self, id: &str) -> Option<Value> {
        if id == self.network_map.as_str() {
            return Some(self.network_map());
        }
        let of_id = |offered: &CostType| Service::cost_map_id(*offered) == id;
        self.offered().into_iter().find(of_id).map(|cost_type| self.cost_map(cost_type))
    }

    pub fn network_map(&self) -> Value {
        self.groups(|_| true, |_| true)
    }

    pub fn filtered_network_map(&self, body: &[u8]) -> Result<Value, Refusal> {
        let asked = NetworkMapAsked::read(body)?;
        let pid = |pid: &Pid| asked.pids.is_empty() || asked.pids.contains(pid);
        Ok(self.groups(pid, |prefix| asked.families.contains(prefix.family())))
    }

    fn groups(&self, pid: impl Fn(&Pid) -> bool, prefix: impl Fn(&Prefix) -> bool) -> Value {
        let mut map = Map::new();
        for (name, prefixes) in self.maps.pids.iter().filter(|(name, _)| pid(name)) {
            let mut families: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for prefix in prefixes.iter().filter(|one| prefix(one)) {
                families.entry(prefix.family()).or_default().push(prefix.to_string());
            }
            map.insert(name.to_string(), json!(families));
        }
        json!({ "meta": { "vtag": self.version() }, "network-map": map })
    }

    fn version(&self) -> Value {
        json!({ "resource-id": self.network_map.as_str(), "tag": self.tag })
    }

    pub fn cost_map(&self, cost_type: CostType) -> Value {
        let tests = Default::default();
        let costs = CostsAsked { types: vec![cost_type], is_multi: false, tests };
        self.costs_of(&CostMapAsked { costs, sources: BTreeSet::new(), targets: BTreeSet::new() })
    }

    pub fn filtered_cost_map(&self, body: &[u8]) -> Result<Value, Refusal> {
        let asked = CostMapAsked::read(body)?;
        self.check_offered(&asked.costs)?;
        Ok(self.costs_of(&asked))
    }

    /// A type that is valid but that nobody knows costs of is not among the capabilities.
    fn check_offered(&self, asked: &CostsAsked) -> Result<(), Refusal> {
        let offered = self.offered();
        let field = if asked.is_multi { "multi-cost-types" } else { "cost-type/cost-metric" };
        match asked.types.iter().find(|asked| !offered.contains(asked)) {
            Some(missing) => Err(Refusal::value(field, &json!(missing.metric.name()))),
            None => Ok(()),
        }
    }

    fn costs_of(&self, asked: &CostMapAsked) -> Value {
        let among = |asked: &BTreeSet<Pid>, pid: &Pid| asked.is_empty() || asked.contains(pid);
        let sources = self.maps.pids.keys().filter(|pid| among(&asked.sources, pid));
        let mut map = Map::new();
        for from in sources {
            let targets = self.maps.pids.keys().filter(|pid| among(&asked.targets, pid));
            let row: Map<String, Value> = targets
                .filter_map(|to| Some((to.to_string(), self.cost(&asked.costs, from, to)?)))
                .collect();
            if !row.is_empty() {
                map.insert(from.to_string(), Value::Object(row));
            }
        }
        let mut meta = cost_meta(&asked.costs);
        meta.insert("dependent-vtags".to_owned(), json!([self.version()]));
        json!({ "meta": meta, "cost-map": map })
    }

    /// The cost of a pair as it stands in an answer; `None` if it is not known, or not wanted.
    fn cost(&self, asked: &CostsAsked, from: &Pid, to: &Pid) -> Option<Value> {
        let get = |cost_type| self.maps.costs.get(cost_type, from, to);
        if !asked.tests.hold(get) {
            return None;
        }
        let costs: Vec<Option<f64>> = asked.types.iter().map(|cost_type| get(*cost_type)).collect();
        if costs.iter().all(Option::is_none) {
            return None;
        }
        let value = |cost: &Option<f64>| cost.map_or(Value::Null, number);
        match asked.is_multi {
            true => Some(costs.iter().map(value).collect()),
            false => costs.first().map(value),
        }
    }

    /// The PID whose prefix has most of the address; of two that have as much, the first by name.
    pub fn pid_of(&self, address: &Address) -> Option<&Pid> {
        let mut best: Option<(u8, &Pid)> = None;
        for (pid, prefixes) in &self.maps.pids {
            let longest = prefixes.iter().filter(|prefix| prefix.holds(address));
            let longest = longest.map(Prefix::bits).max();
            if let Some(bits) = longest.filter(|bits| best.is_none_or(|(most, _)| *bits > most)) {
                best = Some((bits, pid));
            }
        }
        best.map(|(_, pid)| pid)
    }

    fn properties(&self) -> Vec<String> {
        vec![format!("{}.pid", self.network_map)]
    }

    pub fn endpoint_properties(&self, body: &[u8]) -> Result<Value, Refusal> {
        let asked = PropertiesAsked::read(body, &self.properties())?;
        let properties = |endpoint: &Address| -> Map<String, Value> {
            let pid = self.pid_of(endpoint);
            let pid = |name: &String| Some((name.clone(), json!(pid?.as_str())));
            asked.properties.iter().filter_map(pid).collect()
        };
        let endpoints = asked.endpoints.iter();
        let map: Map<String, Value> = endpoints
            .map(|endpoint| (endpoint.to_string(), Value::Object(properties(endpoint))))
            .collect();
        let meta = json!({ "dependent-vtags": [self.version()] });
        Ok(json!({ "meta": meta, "endpoint-properties": map }))
    }

    /// Costs between endpoints are those between their PIDs. `client` is where the request came from.
    pub fn endpoint_costs(&self, body: &[u8], client: Address) -> Result<Value, Refusal> {
        let asked = EndpointCostsAsked::read(body, client)?;
        self.check_offered(&asked.costs)?;
        let placed = |endpoints: &[Address]| -> Vec<(String, Option<&Pid>)> {
            endpoints.iter().map(|one| (one.to_string(), self.pid_of(one))).collect()
        };
        let targets = placed(&asked.targets);
        let mut map = Map::new();
        for (from, from_pid) in placed(&asked.sources) {
            let cost = |(to, to_pid): &(String, Option<&Pid>)| {
                Some((to.clone(), self.cost(&asked.costs, from_pid?, (*to_pid)?)?))
            };
            let row: Map<String, Value> = targets.iter().filter_map(cost).collect();
            map.insert(from, Value::Object(row));
        }
        Ok(json!({ "meta": cost_meta(&asked.costs), "endpoint-cost-map": map }))
    }
}

/// Where several costs were asked for, the one type that every answer has is there, and empty (RFC 8189, 4.1.3).
fn cost_meta(asked: &CostsAsked) -> Map<String, Value> {
    let types: Vec<Value> = asked.types.iter().map(|cost_type| cost_type.document()).collect();
    let mut meta = Map::new();
    if asked.is_multi {
        meta.insert("cost-type".to_owned(), json!({}));
        meta.insert("multi-cost-types".to_owned(), json!(types));
    } else {
        meta.insert("cost-type".to_owned(), json!(types.first()));
    }
    meta
}

fn tag(pids: &BTreeMap<Pid, BTreeSet<Prefix>>) -> String {
    let mut hash = Sha256::new();
    for (pid, prefixes) in pids {
        hash.update(pid.as_str());
        for prefix in prefixes {
            hash.update(format!(" {prefix}"));
        }
        hash.update("\n");
    }
    hash.finalize()[..20].iter().map(|octet| format!("{octet:02x}")).collect()
}
