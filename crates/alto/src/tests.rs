//! The examples of RFC 7285, and of RFC 8189 and 8895 in our own words; refusals with the code that each asks for;
//! and that no request does harm.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn pid(name: &str) -> Pid {
    Pid::new(name).unwrap()
}

fn client() -> Address {
    Address::parse("ipv4:192.0.2.2").unwrap()
}

/// The maps of RFC 7285 (11.2.1.7 and 11.2.3.7), with hops and delays of our own.
fn maps() -> Maps {
    let groups: [(&str, &[&str]); 3] = [
        ("PID1", &["192.0.2.0/24", "198.51.100.0/25"]),
        ("PID2", &["198.51.100.128/25"]),
        ("PID3", &["0.0.0.0/0", "::/0"]),
    ];
    let pids = groups.map(|(name, prefixes)| {
        let prefixes: BTreeSet<Prefix> =
            prefixes.iter().map(|prefix| Prefix::parse(prefix).unwrap()).collect();
        (pid(name), prefixes)
    });
    let routing = [
        ("PID1", "PID1", 1.0),
        ("PID1", "PID2", 5.0),
        ("PID1", "PID3", 10.0),
        ("PID2", "PID1", 5.0),
        ("PID2", "PID2", 1.0),
        ("PID2", "PID3", 15.0),
        ("PID3", "PID1", 20.0),
        ("PID3", "PID2", 15.0),
    ];
    let hops = [("PID1", "PID2", 2.0), ("PID1", "PID3", 3.0)];
    let bandwidth = [("PID1", "PID2", 1e6), ("PID1", "PID3", 1e9)];
    let of = |metric: Metric, rows: &[(&str, &str, f64)]| -> Vec<(Metric, Pid, Pid, f64)> {
        rows.iter().map(|(from, to, cost)| (metric, pid(from), pid(to), *cost)).collect()
    };
    let costs = [
        of(Metric::RoutingCost, &routing),
        of(Metric::Hops, &hops),
        of(Metric::BandwidthAvailable, &bandwidth),
    ];
    Maps { pids: pids.into(), costs: Costs::new(costs.concat()) }
}

fn service() -> Service {
    let map = ResourceId::new("my-default-network-map").unwrap();
    Service::new("http://alto.example.com", map, maps())
}

fn routing(mode: Mode) -> CostType {
    CostType { metric: Metric::RoutingCost, mode }
}

#[test]
fn the_network_map_is_that_of_the_rfc() {
    let service = service();
    let expected = json!({
        "meta": { "vtag": { "resource-id": "my-default-network-map", "tag": service.tag() } },
        "network-map": {
            "PID1": { "ipv4": ["192.0.2.0/24", "198.51.100.0/25"] },
            "PID2": { "ipv4": ["198.51.100.128/25"] },
            "PID3": { "ipv4": ["0.0.0.0/0"], "ipv6": ["::/0"] },
        },
    });
    assert_eq!(service.network_map(), expected);
    assert_eq!(service.tag().len(), 40);
}

#[test]
fn the_cost_map_is_that_of_the_rfc() {
    let service = service();
    let expected = json!({
        "meta": {
            "dependent-vtags": [
                { "resource-id": "my-default-network-map", "tag": service.tag() },
            ],
            "cost-type": { "cost-mode": "numerical", "cost-metric": "routingcost" },
        },
        "cost-map": {
            "PID1": { "PID1": 1, "PID2": 5, "PID3": 10 },
            "PID2": { "PID1": 5, "PID2": 1, "PID3": 15 },
            "PID3": { "PID1": 20, "PID2": 15 },
        },
    });
    assert_eq!(service.cost_map(routing(Mode::Numerical)), expected);
}

#[test]
fn ranks_order_as_the_numbers_do_and_the_most_bandwidth_is_first() {
    let costs = &maps().costs;
    let rank = |metric, from, to| {
        let cost_type = CostType { metric, mode: Mode::Ordinal };
        costs.get(cost_type, &pid(from), &pid(to))
    };
    assert_eq!(rank(Metric::RoutingCost, "PID1", "PID1"), Some(1.0));
    assert_eq!(rank(Metric::RoutingCost, "PID2", "PID1"), Some(2.0));
    assert_eq!(rank(Metric::RoutingCost, "PID3", "PID1"), Some(5.0));
    assert_eq!(rank(Metric::BandwidthAvailable, "PID1", "PID3"), Some(1.0));
    assert_eq!(rank(Metric::BandwidthAvailable, "PID1", "PID2"), Some(2.0));
    assert_eq!(rank(Metric::RoutingCost, "PID3", "PID3"), None);
}

#[test]
fn the_directory_lists_what_is_served_and_nothing_else() {
    let service = service();
    let directory = service.directory();
    let meta = &directory["meta"];
    assert_eq!(meta["default-alto-network-map"], "my-default-network-map");
    let hops = json!({ "cost-mode": "ordinal", "cost-metric": "hopcount" });
    assert_eq!(meta["cost-types"]["ord-hop"], hops);
    assert_eq!(meta["cost-types"].get("num-delay-rt"), None);
    let resources = directory["resources"].as_object().unwrap();
    let map = json!({
        "uri": "http://alto.example.com/networkmap",
        "media-type": "application/alto-networkmap+json",
    });
    assert_eq!(resources["my-default-network-map"], map);
    for (id, resource) in resources {
        assert!(ResourceId::new(id.as_str()).is_ok(), "{id}");
        for uses in resource["uses"].as_array().into_iter().flatten() {
            assert!(resources.contains_key(uses.as_str().unwrap()), "{id} uses {uses}");
        }
        let names = resource["capabilities"]["cost-type-names"].as_array();
        for name in names.into_iter().flatten() {
            assert!(meta["cost-types"].get(name.as_str().unwrap()).is_some(), "{id}: {name}");
        }
        let is_plain = resource.get("accepts").is_none();
        assert_eq!(service.resource(id).is_some(), is_plain, "{id}");
    }
    // Endpoint costs stand on no map (11.5.1.5).
    assert_eq!(resources["endpoint-cost"].get("uses"), None);
}

#[test]
fn a_filtered_network_map_has_the_tag_of_the_whole() {
    let service = service();
    let map = service.filtered_network_map(br#"{ "pids": ["PID1", "PID2", "gone"] }"#).unwrap();
    assert_eq!(map["meta"], service.network_map()["meta"]);
    let names: Vec<&String> = map["network-map"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["PID1", "PID2"]);
    let six = br#"{ "pids": ["PID3", "PID3"], "address-types": ["ipv6", "mac"] }"#;
    let map = service.filtered_network_map(six).unwrap();
    assert_eq!(map["network-map"], json!({ "PID3": { "ipv6": ["::/0"] } }));
    let all = service.filtered_network_map(br#"{ "pids": [], "address-types": [] }"#);
    assert_eq!(all.unwrap(), service.network_map());
}

#[test]
fn the_filtered_cost_map_of_the_rfc() {
    let body = br#"{
        "cost-type": { "cost-mode": "numerical", "cost-metric": "routingcost" },
        "pids": { "srcs": ["PID1"], "dsts": ["PID1", "PID2", "PID3"] }
    }"#;
    let map = service().filtered_cost_map(body).unwrap();
    assert_eq!(map["cost-map"], json!({ "PID1": { "PID1": 1, "PID2": 5, "PID3": 10 } }));
    let constrained = br#"{
        "cost-type": { "cost-mode": "numerical", "cost-metric": "routingcost" },
        "constraints": ["ge 5", "lt 15"]
    }"#;
    let map = service().filtered_cost_map(constrained).unwrap();
    let expected = json!({ "PID1": { "PID2": 5, "PID3": 10 }, "PID2": { "PID1": 5 } });
    assert_eq!(map["cost-map"], expected);
}

#[test]
fn several_costs_at_once_are_arrays_with_null_for_the_unknown() {
    let body = br#"{
        "multi-cost-types": [
            { "cost-mode": "numerical", "cost-metric": "routingcost" },
            { "cost-mode": "numerical", "cost-metric": "hopcount" }
        ],
        "pids": { "srcs": ["PID1"], "dsts": [] }
    }"#;
    let map = service().filtered_cost_map(body).unwrap();
    let types = json!([
        { "cost-mode": "numerical", "cost-metric": "routingcost" },
        { "cost-mode": "numerical", "cost-metric": "hopcount" },
    ]);
    assert_eq!(map["meta"]["multi-cost-types"], types);
    assert_eq!(map["meta"]["cost-type"], json!({}));
    let expected = json!({ "PID1": { "PID1": [1, null], "PID2": [5, 2], "PID3": [10, 3] } });
    assert_eq!(map["cost-map"], expected);
}

#[test]
fn tests_may_be_of_costs_that_are_not_asked_for_and_one_of_several_is_enough() {
    let body = br#"{
        "cost-type": { "cost-mode": "numerical", "cost-metric": "routingcost" },
        "testable-cost-types": [
            { "cost-mode": "numerical", "cost-metric": "hopcount" },
            { "cost-mode": "numerical", "cost-metric": "bw-available" }
        ],
        "or-constraints": [["[0] le 2", "[1] ge 1000000"], ["[1] gt 1000000000"]]
    }"#;
    let map = service().filtered_cost_map(body).unwrap();
    assert_eq!(map["cost-map"], json!({ "PID1": { "PID2": 5 } }));
}

#[test]
fn the_endpoint_properties_of_the_rfc() {
    let body = br#"{
        "properties": ["my-default-network-map.pid"],
        "endpoints": ["ipv4:192.0.2.34", "ipv4:203.0.113.129", "ipv4:198.51.100.200"]
    }"#;
    let found = service().endpoint_properties(body).unwrap();
    let expected = json!({
        "ipv4:192.0.2.34": { "my-default-network-map.pid": "PID1" },
        "ipv4:203.0.113.129": { "my-default-network-map.pid": "PID3" },
        "ipv4:198.51.100.200": { "my-default-network-map.pid": "PID2" },
    });
    assert_eq!(found["endpoint-properties"], expected);
    assert_eq!(found["meta"]["dependent-vtags"][0]["tag"], service().tag());
}

#[test]
fn the_endpoint_costs_of_the_rfc() {
    let body = br#"{
        "cost-type": { "cost-mode": "ordinal", "cost-metric": "routingcost" },
        "endpoints": {
            "srcs": ["ipv4:192.0.2.2"],
            "dsts": ["ipv4:192.0.2.89", "ipv4:198.51.100.134", "ipv4:203.0.113.45"]
        }
    }"#;
    let found = service().endpoint_costs(body, client()).unwrap();
    let expected = json!({
        "meta": { "cost-type": { "cost-mode": "ordinal", "cost-metric": "routingcost" } },
        "endpoint-cost-map": {
            "ipv4:192.0.2.2": {
                "ipv4:192.0.2.89": 1, "ipv4:198.51.100.134": 2, "ipv4:203.0.113.45": 3,
            },
        },
    });
    assert_eq!(found, expected);
    // Who leaves out a side means itself.
    let own = br#"{
        "cost-type": { "cost-mode": "numerical", "cost-metric": "routingcost" },
        "endpoints": { "dsts": ["ipv6:2001:db8::1"] }
    }"#;
    let found = service().endpoint_costs(own, client()).unwrap();
    let expected = json!({ "ipv4:192.0.2.2": { "ipv6:2001:db8::1": 10 } });
    assert_eq!(found["endpoint-cost-map"], expected);
}

#[track_caller]
fn check(refused: Result<Value, Refusal>, code: &str, field: Option<&str>, value: Option<&str>) {
    let document = refused.unwrap_err().document();
    let meta = &document["meta"];
    assert_eq!(meta["code"], code);
    assert_eq!(meta.get("field").and_then(Value::as_str), field);
    assert_eq!(meta.get("value").and_then(Value::as_str), value);
    assert_eq!(meta.get("syntax-error").is_some(), code == "E_SYNTAX");
}

#[test]
fn what_is_wrong_is_refused_with_the_code_and_the_place_that_the_rfc_asks_for() {
    let service = service();
    let map = |body: &str| service.filtered_network_map(body.as_bytes());
    let costs = |body: &str| service.filtered_cost_map(body.as_bytes());
    let ends = |body: &str| service.endpoint_costs(body.as_bytes(), client());
    let properties = |body: &str| service.endpoint_properties(body.as_bytes());
    let (syntax, missing) = ("E_SYNTAX", "E_MISSING_FIELD");
    let (kind, value) = ("E_INVALID_FIELD_TYPE", "E_INVALID_FIELD_VALUE");
    check(map(r#"{ "pids": ["#), syntax, None, None);
    check(map("{}"), missing, Some("pids"), None);
    check(map(r#"{ "pids": "PID1" }"#), kind, Some("pids"), None);
    check(map(r#"{ "pids": [7] }"#), value, Some("pids"), Some("7"));
    check(map(r#"{ "pids": ["a.b"] }"#), value, Some("pids"), Some("a.b"));
    check(costs("{}"), missing, Some("cost-type"), None);
    let half = r#"{ "cost-type": { "cost-mode": "numerical" } }"#;
    check(costs(half), missing, Some("cost-type/cost-metric"), None);
    let foo = r#"{ "cost-type": { "cost-mode": "foo", "cost-metric": "routingcost" } }"#;
    check(costs(foo), value, Some("cost-type/cost-mode"), Some("foo"));
    let unknown = r#"{ "cost-type": { "cost-mode": "numerical", "cost-metric": "lossrate" } }"#;
    check(costs(unknown), value, Some("cost-type/cost-metric"), Some("lossrate"));
    let with = |more: &str| {
        format!(
            r#"{{ "cost-type": {{ "cost-mode": "numerical", "cost-metric": "routingcost" }}, {more} }}"#
        )
    };
    let bad = with(r#""constraints": ["ge many"]"#);
    check(costs(&bad), value, Some("constraints"), Some("ge many"));
    let beyond = with(r#""constraints": ["[1] ge 1"]"#);
    check(costs(&beyond), value, Some("constraints"), Some("[1] ge 1"));
    check(costs(&with(r#""pids": { "srcs": [] }"#)), missing, Some("pids/dsts"), None);
    let both = with(r#""multi-cost-types": []"#);
    let one = r#"{"cost-metric":"routingcost","cost-mode":"numerical"}"#;
    check(costs(&both), value, Some("cost-type"), Some(one));
    check(ends(&with(r#""endpoints": {}"#)), value, Some("endpoints"), Some("{}"));
    let address = with(r#""endpoints": { "srcs": ["ipv4:1.2.3"] }"#);
    check(ends(&address), value, Some("endpoints/srcs"), Some("ipv4:1.2.3"));
    check(
        properties(r#"{ "properties": [] , "endpoints": [] }"#),
        value,
        Some("properties"),
        Some("[]"),
    );
    let other = r#"{ "properties": ["priv:x"], "endpoints": ["ipv4:1.2.3.4"] }"#;
    check(properties(other), value, Some("properties"), Some("priv:x"));
}

#[test]
fn an_address_belongs_to_the_longest_prefix() {
    let service = service();
    let pid_of = |text: &str| service.pid_of(&Address::parse(text).unwrap()).map(Pid::as_str);
    assert_eq!(pid_of("ipv4:198.51.100.127"), Some("PID1"));
    assert_eq!(pid_of("ipv4:198.51.100.128"), Some("PID2"));
    assert_eq!(pid_of("ipv4:8.8.8.8"), Some("PID3"));
    assert_eq!(pid_of("ipv6:::1"), Some("PID3"));
    for wrong in ["192.0.2.0/33", "192.0.2.0", "::/129", "::/+1", "a/8", "192.0.2.0/"] {
        assert_eq!(Prefix::parse(wrong), None, "{wrong}");
    }
    // The RFC's own example has bits behind the length (11.3.1.7).
    assert_eq!(Prefix::parse("198.51.100.128/24").unwrap().to_string(), "198.51.100.0/24");
}

#[test]
fn the_tag_changes_with_the_network_map_and_not_with_the_costs() {
    let id = || ResourceId::new("my-default-network-map").unwrap();
    let cheaper = Maps { costs: Costs::default(), ..maps() };
    assert_eq!(Service::new("x", id(), cheaper).tag(), service().tag());
    let mut moved = maps();
    moved.pids.remove(&pid("PID2"));
    assert_ne!(Service::new("x", id(), moved).tag(), service().tag());
}

fn started(wanted: &str) -> (Stream, Vec<Event>) {
    let mut stream = Stream::default();
    let wanted = Wanted::read(wanted.as_bytes(), &service()).unwrap();
    let events = stream.change(wanted, &service());
    (stream, events)
}

const BOTH: &str = r#"{ "add": {
    "costs": { "resource-id": "costmap-num-routing" },
    "map": { "resource-id": "my-default-network-map" }
} }"#;

#[test]
fn a_stream_tells_all_first_and_then_what_changed() {
    let (mut stream, events) = started(BOTH);
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let expected = [
        "application/alto-updatestreamcontrol+json",
        "application/alto-networkmap+json,map",
        "application/alto-costmap+json,costs",
    ];
    assert_eq!(names, expected);
    assert_eq!(events[0].data, json!({ "started": ["costs", "map"] }));
    assert!(stream.update(&service()).is_empty());
    let mut maps = maps();
    let numbers =
        [(Metric::RoutingCost, "PID1", "PID1", 1.0), (Metric::RoutingCost, "PID1", "PID2", 9.0)];
    let of = numbers.map(|(metric, from, to, cost)| (metric, pid(from), pid(to), cost));
    maps.costs = Costs::new(of);
    let id = ResourceId::new("my-default-network-map").unwrap();
    let changed = Service::new("http://alto.example.com", id, maps);
    let events = stream.update(&changed);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].name, "application/merge-patch+json,costs");
    let patch = json!({
        "cost-map": { "PID1": { "PID2": 9, "PID3": null }, "PID2": null, "PID3": null },
    });
    assert_eq!(events[0].data, patch);
    let lines = events[0].lines();
    assert!(lines.starts_with("event: application/merge-patch+json,costs\ndata: {"), "{lines}");
    assert!(lines.ends_with("}\n\n") && lines.matches('\n').count() == 3);
}

#[test]
fn who_has_the_present_version_is_not_told_it_again() {
    let add = format!(
        r#"{{ "add": {{ "my-default-network-map": {{ "tag": "{}" }} }} }}"#,
        service().tag(),
    );
    let (mut stream, events) = started(&add);
    assert_eq!(events.len(), 1);
    let remove = r#"{ "remove": ["my-default-network-map", "never heard of"] }"#;
    let wanted = Wanted::read(remove.as_bytes(), &service()).unwrap();
    let stopped = stream.change(wanted, &service());
    assert_eq!(stopped[0].data, json!({ "stopped": ["my-default-network-map"] }));
}

#[test]
fn a_resource_that_is_gone_is_told_as_stopped() {
    let (mut stream, _) = started(BOTH);
    let id = ResourceId::new("my-default-network-map").unwrap();
    let bare = Service::new("x", id, Maps { costs: Costs::default(), ..maps() });
    let events = stream.update(&bare);
    assert_eq!(events.last().unwrap().data, json!({ "stopped": ["costs"] }));
}

#[test]
fn a_stream_of_what_is_not_there_is_refused() {
    let read = |body: &str| Wanted::read(body.as_bytes(), &service()).map(|_| Value::Null);
    let (kind, value) = ("E_INVALID_FIELD_TYPE", "E_INVALID_FIELD_VALUE");
    check(read("{}"), "E_MISSING_FIELD", Some("add"), None);
    check(read(r#"{ "add": [] }"#), kind, Some("add"), None);
    check(read(r#"{ "add": { "a": {} } }"#), value, Some("add/a/resource-id"), Some("a"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_patch_makes_of_one_document_the_other(from in any_json(), to in any_json()) {
        let patch = difference(&from, &to).expect("without a null there is a patch");
        let mut patched = from;
        apply(&mut patched, &patch);
        prop_assert_eq!(patched, to);
    }

    #[test]
    fn no_request_does_harm(body in any_json(), name in "(pids|cost-type|endpoints|add|properties)") {
        let service = service();
        let wrapped = json!({
            name: body.clone(),
            "cost-type": { "cost-mode": "numerical", "cost-metric": "routingcost" },
        });
        for body in [body.to_string(), wrapped.to_string()] {
            let body = body.as_bytes();
            let _ = service.filtered_network_map(body);
            let _ = service.filtered_cost_map(body);
            let _ = service.endpoint_costs(body, client());
            let _ = service.endpoint_properties(body);
            let _ = Wanted::read(body, &service);
        }
    }

    #[test]
    fn a_prefix_is_written_as_it_is_read(octets: [u8; 4], bits in 0..=32u8) {
        let text = format!("{}.{}.{}.{}/{bits}", octets[0], octets[1], octets[2], octets[3]);
        let prefix = Prefix::parse(&text).unwrap();
        prop_assert_eq!(Prefix::parse(&prefix.to_string()), Some(prefix));
        let address = Address(core::net::IpAddr::from(octets));
        prop_assert!(prefix.holds(&address));
    }
}
