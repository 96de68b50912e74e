//! `/alto`, over the real API in process: what RFC 7285 asks of each service, from Sites, Nodes and Links.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use axum::body::Body;
use http::{Method, Request};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tombolo_model::{Link, Node, Site};

use support::{Server, guest, server};

async fn look(server: &Server, path: &str) -> (u16, Value) {
    server.ask_as(&guest(), Method::GET, path, "").await
}

async fn ask(server: &Server, path: &str, media: &str, body: Value) -> (u16, Value) {
    let request = Request::post(path).extension(guest()).header("content-type", media);
    server.send(request.body(Body::from(body.to_string())).unwrap()).await
}

/// Three sites with a node each: harbour to city is declared, city to cloud and harbour to cloud are measured.
async fn furnished() -> Server {
    let server = server().await;
    let client = server.admin();
    let params = PostParams::default();
    let object = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": kind, "metadata": {"name": name},
            "spec": spec})
    };
    for (number, site) in (1..).zip(["harbour", "city", "cloud"]) {
        let made = serde_json::from_value(object("Site", site, json!({"engine": "host"}))).unwrap();
        Api::<Site>::all(client.clone()).create(&params, &made).await.unwrap();
        let name = format!("{site}1");
        let made = serde_json::from_value(object("Node", &name, json!({"site": site}))).unwrap();
        let nodes = Api::<Node>::all(client.clone());
        nodes.create(&params, &made).await.unwrap();
        let status = json!({"status": {"addresses": [format!("192.0.2.{number}")]}});
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
    let links = Api::<Link>::all(client);
    for (name, ends, latency, status) in [
        ("hc", ["harbour", "city"], Some("2ms"), None),
        ("cc", ["city", "cloud"], None, Some("10ms")),
        ("hx", ["harbour", "cloud"], None, Some("30ms")),
    ] {
        let mut spec = json!({"ends": ends.map(|name| json!({"kind": "Site", "name": name}))});
        if let Some(latency) = latency {
            spec["latency"] = json!(latency);
        }
        let made = serde_json::from_value(object("Link", name, spec)).unwrap();
        links.create(&params, &made).await.unwrap();
        if let Some(latency) = status {
            let status = json!({"status": {"latency": latency, "kind": "measured", "loss": 0.5,
                "bandwidth": "100Mbps"}});
            links.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
    }
    server
}

#[tokio::test]
async fn whatever_the_directory_lists_is_there() {
    let server = furnished().await;
    let (code, directory) = look(&server, "/alto/directory").await;
    assert_eq!(code, 200, "{directory}");
    assert_eq!(look(&server, "/alto").await.1, directory);
    assert_eq!(directory["meta"]["default-alto-network-map"], "networkmap");
    let resources = directory["resources"].as_object().unwrap();
    assert!(resources.len() > 10, "{directory}");
    for (id, resource) in resources.iter().filter(|(_, it)| it.get("accepts").is_none()) {
        let (code, document) = look(&server, resource["uri"].as_str().unwrap()).await;
        assert_eq!(code, 200, "{id}: {document}");
        let tag = &document["meta"]["vtag"]["tag"];
        let depends = &document["meta"]["dependent-vtags"][0]["tag"];
        assert!(tag.is_string() || depends.is_string(), "{id}: {document}");
    }
    for (id, resource) in resources.iter().filter(|(_, it)| it.get("accepts").is_some()) {
        let (uri, accepts) =
            (resource["uri"].as_str().unwrap(), resource["accepts"].as_str().unwrap());
        let (code, document) = ask(&server, uri, "text/plain", json!({})).await;
        assert_eq!(code, 415, "{id}: {document}");
        let (code, document) = ask(&server, uri, accepts, json!([])).await;
        assert_eq!(code, 400, "{id}: {document}");
        assert_eq!(document["meta"]["code"], "E_INVALID_FIELD_TYPE", "{id}");
    }
}

#[tokio::test]
async fn sites_are_groups_and_their_costs_are_those_of_the_links() {
    let server = furnished().await;
    let (_, map) = look(&server, "/alto/networkmap").await;
    assert_eq!(map["network-map"]["harbour"], json!({"ipv4": ["192.0.2.1/32"]}), "{map}");
    let (_, costs) = look(&server, "/alto/costmap").await;
    let row = &costs["cost-map"]["harbour"];
    assert_eq!((&row["city"], &row["harbour"]), (&json!(2), &json!(0)), "{costs}");
    // Two links would add up to less, but probes from end to end know better.
    assert_eq!(row["cloud"], json!(30), "{costs}");
    let (_, costs) = look(&server, "/alto/costmap/num-delay-rt").await;
    assert_eq!(costs["cost-map"]["harbour"]["cloud"], json!(60_000), "{costs}");
    let (_, costs) = look(&server, "/alto/costmap/num-bw-available").await;
    assert_eq!(costs["cost-map"]["cloud"]["city"], json!(100_000_000), "{costs}");
    assert_eq!(costs["cost-map"]["harbour"].get("city"), None, "nobody knows");
    assert_eq!(look(&server, "/alto/costmap/num-beauty").await.0, 404);
}

#[tokio::test]
async fn what_is_asked_for_is_answered_and_what_is_wrong_is_named() {
    let server = furnished().await;
    let media = "application/alto-costmapfilter+json";
    let asked = json!({"cost-type": {"cost-mode": "ordinal", "cost-metric": "routingcost"},
        "pids": {"srcs": ["harbour"], "dsts": ["city", "cloud"]}});
    let (code, costs) = ask(&server, "/alto/costmap/filtered", media, asked).await;
    assert_eq!(
        (code, &costs["cost-map"]["harbour"]),
        (200, &json!({"city": 2, "cloud": 4})),
        "{costs}"
    );
    let asked = json!({"cost-type": {"cost-mode": "numerical", "cost-metric": "beauty"}});
    let (code, refused) = ask(&server, "/alto/costmap/filtered", media, asked).await;
    assert_eq!(
        (code, &refused["meta"]["code"]),
        (400, &json!("E_INVALID_FIELD_VALUE")),
        "{refused}"
    );
    let media = "application/alto-endpointpropparams+json";
    let asked = json!({"properties": ["networkmap.pid"], "endpoints": ["ipv4:192.0.2.3"]});
    let (code, told) = ask(&server, "/alto/endpointprop", media, asked).await;
    let found = &told["endpoint-properties"]["ipv4:192.0.2.3"]["networkmap.pid"];
    assert_eq!((code, found), (200, &json!("cloud")), "{told}");
    let media = "application/alto-endpointcostparams+json";
    let asked = json!({"cost-type": {"cost-mode": "numerical", "cost-metric": "hopcount"},
        "endpoints": {"srcs": ["ipv4:192.0.2.1"], "dsts": ["ipv4:192.0.2.2", "ipv4:198.51.100.1"]}});
    let (code, told) = ask(&server, "/alto/endpointcost", media, asked).await;
    let found = &told["endpoint-cost-map"]["ipv4:192.0.2.1"];
    assert_eq!((code, found), (200, &json!({"ipv4:192.0.2.2": 1})), "{told}");
}

#[tokio::test]
async fn the_paths_of_codeco_are_answered() {
    let server = furnished().await;
    let (_, way) = look(&server, "/alto/best/city/cloud").await;
    assert_eq!(way["city"]["cloud"]["path"], json!(["city", "cloud"]), "{way}");
    let (_, ways) = look(&server, "/alto/all/city/cloud").await;
    let ways = ways["city"]["cloud"].as_array().unwrap().clone();
    assert_eq!(ways.len(), 2, "{ways:?}");
    assert_eq!(ways[1]["path"], json!(["city", "harbour", "cloud"]), "{ways:?}");
    assert_eq!(look(&server, "/alto/best/city/nowhere").await.0, 404);
    let (_, both) = look(&server, "/alto/maps").await;
    assert!(both["networkmap"]["network-map"]["city"].is_object(), "{both}");
    assert!(both["costmap"]["cost-map"]["city"].is_object(), "{both}");
    let (_, costs) = look(&server, "/alto/costmap/filter/city").await;
    let sources: Vec<&String> = costs["cost-map"].as_object().unwrap().keys().collect();
    assert_eq!(sources, ["city"], "{costs}");
}

#[tokio::test]
async fn a_stream_begins_with_whole_maps_and_strangers_get_none() {
    use http_body_util::BodyExt as _;

    let server = furnished().await;
    let asked = json!({"add": {"map": {"resource-id": "networkmap"}}});
    let request = Request::post("/alto/updates")
        .extension(guest())
        .header("content-type", "application/alto-updatestreamparams+json");
    let answer = server.raw(request.body(Body::from(asked.to_string())).unwrap()).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let first = answer.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    assert!(first.contains("\"started\":[\"map\"]"), "{first}");
    assert!(first.contains("event: application/alto-networkmap+json,map"), "{first}");
    let stranger = tombolo_identity::Subject::anonymous();
    let (code, _) = server.ask_as(&stranger, Method::GET, "/alto/networkmap", "").await;
    assert_eq!(code, 401);
}
