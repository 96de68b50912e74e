//! Placement over files, as a script sees it: `match` and `sim instance`.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use expect_test::{Expect, expect};
use serde_json::Value;
use tempfile::TempDir;

const TOPOLOGY: &str = "\
apiVersion: tombolo.dev/v1alpha1
kind: Site
metadata: {name: barn}
spec: {engine: docker}
---
apiVersion: tombolo.dev/v1alpha1
kind: Site
metadata: {name: tower}
spec: {engine: kubernetes}
---
apiVersion: tombolo.dev/v1alpha1
kind: Node
metadata: {name: owl}
spec: {site: barn}
status: {allocatable: {cpu: 2, memory: 4Gi}, securityScore: 40}
---
apiVersion: tombolo.dev/v1alpha1
kind: Node
metadata: {name: raven}
spec: {site: tower}
status: {allocatable: {cpu: 8, memory: 16Gi}, securityScore: 80}
---
apiVersion: tombolo.dev/v1alpha1
kind: Link
metadata: {name: lane}
spec:
  ends: [{kind: Site, name: barn}, {kind: Site, name: tower}]
  latency: 5ms
  bandwidth: 100Mbps
";

const APP: &str = "\
apiVersion: tombolo.dev/v1alpha1
kind: App
metadata: {name: farm}
spec:
  components:
  - name: web
    run: [{container: {image: web}}]
    needs: {cpu: 500m, memory: 256Mi}
    connects: [{to: data, latency: 10ms, bandwidth: 10Mbps}]
  - name: data
    run: [{container: {image: data}}]
    needs: {cpu: 4, memory: 8Gi, security: high}
";

fn tombolo(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

fn folder(topology: &str, app: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("topology.yaml"), topology).expect("written");
    fs::write(folder.path().join("app.yaml"), app).expect("written");
    folder
}

/// The exit code, stdout and stderr.
#[track_caller]
fn check(folder: &TempDir, arguments: &str, expected: Expect) {
    let output = tombolo(folder.path(), arguments);
    let code = output.status.code().expect("it ended by itself");
    let stdout = String::from_utf8(output.stdout).expect("text");
    let stderr = String::from_utf8(output.stderr).expect("text");
    expected.assert_eq(&format!("{code}\n{stdout}--\n{stderr}"));
}

#[track_caller]
fn json(folder: &Path, arguments: &str, code: i32) -> Value {
    let output = tombolo(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const MATCH: &str = "match --topology topology.yaml --app app.yaml";

#[test]
fn a_match_says_where_and_why() {
    let folder = folder(TOPOLOGY, APP);
    check(
        &folder,
        MATCH,
        expect![[r#"
        0
        COMPONENT   REPLICA   SITE    NODE    ENGINE       SCORE   WHY
        data        0         tower   raven   kubernetes   55.5    the only node that meets all its needs; nothing is known of its energy and cost, which counts as 50
        web         0         tower   raven   kubernetes   63.6    best of 2 nodes that meet its needs, 11.3 points before the next; nothing is known of its energy and cost, which counts as 50
        --
        objective 11126, proven to be the best
    "#]],
    );
    let found = json(folder.path(), &format!("{MATCH} -o json"), 0);
    let keys: Vec<&String> = found.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["bound", "feasible", "objective", "placements", "unplaced"]);
    let keys: Vec<&String> = found["placements"][0].as_object().expect("one").keys().collect();
    assert_eq!(keys, ["component", "engine", "node", "replica", "score", "site", "terms"]);
}

#[test]
fn what_has_no_place_ends_with_8_and_says_what_would_help() {
    let folder = folder(TOPOLOGY, &APP.replace("cpu: 4", "cpu: 9"));
    check(
        &folder,
        MATCH,
        expect![[r#"
            8
            data/0 has no place:
              needs 9 cpu; the nearest of 2 nodes, raven, has 8
              node raven would fit with 8 cpu instead of 9
            web/0 has no place:
              it has a place once data/0 has one
            --
        "#]],
    );
    let found = json(folder.path(), &format!("{MATCH} -o json"), 8);
    assert_eq!(found["feasible"], false);
    assert_eq!(found["placements"], Value::Array(Vec::new()));
    assert_eq!(found["unplaced"][0]["component"], "data");
}

#[test]
fn bad_input_is_told_in_a_sentence() {
    let bad = TOPOLOGY.replace("cpu: 2,", "cpu: much,");
    check(
        &folder(&bad, APP),
        MATCH,
        expect![[r#"
        1
        --
        error: topology.yaml:15:29: error[invalid-value]: "much" is not an amount of cpu: it does not begin with a number
               15 | status: {allocatable: {cpu: much, memory: 4Gi}, securityScore: 40}
                  |                             ^^^^
                  = at status.allocatable.cpu
                  = expected cores such as 0.5 or 2, or thousandths of a core such as 500m
        hint: mend the topology
    "#]],
    );
    check(
        &folder("", APP),
        MATCH,
        expect![[r#"
        8
        data/0, web/0 have no place:
          there is no node to run anything on
          add a node
        --
        note: continuum: there is no node to run anything on
    "#]],
    );
    check(
        &folder(TOPOLOGY, &APP.replace("to: data", "to: dota")),
        MATCH,
        expect![[r#"
        1
        --
        app.yaml:9:21: error[invalid-value]: no component is named "dota"
        9 |     connects: [{to: dota, latency: 10ms, bandwidth: 10Mbps}]
          |                     ^^^^
          = at spec.components[0].connects[0].to
          = mend: connects: [{to: data, latency: 10ms, bandwidth: 10Mbps}]
        error: nothing was placed
        hint: mend the errors above
    "#]],
    );
    let other = folder("", APP);
    fs::write(other.path().join("topology.yaml"), "{\"nodes\": []}").expect("written");
    check(
        &other,
        MATCH,
        expect![[r#"
        1
        --
        error: topology.yaml: topology: it has no "cluster", so it is not the taxonomy of an ICOS aggregator
    "#]],
    );
}

/// The dumped model takes our answer, and its objective is the one that we report.
#[test]
fn the_dumped_model_agrees_with_the_answer() {
    let mut compared = 0;
    for seed in 0..12 {
        let folder = folder("", "");
        let sizes = "--sites 4 --nodes 20 --components 5";
        let made = tombolo(folder.path(), &format!("sim instance {sizes} --seed {seed} --dir ."));
        assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
        let output = tombolo(folder.path(), &format!("{MATCH} -o json --dump-model model.json"));
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let model = fs::read_to_string(folder.path().join("model.json")).expect("a model");
        let model: Value = serde_json::from_str(&model).expect("JSON");
        if found["feasible"] == false {
            assert_eq!(output.status.code(), Some(8));
            continue;
        }
        assert_eq!(objective(&model, &found), found["objective"].as_i64(), "seed {seed}");
        assert!(found["objective"].as_i64() <= found["bound"].as_i64());
        compared += 1;
    }
    assert!(compared >= 6, "only {compared} of 12 could be placed");
}

/// Looks up every choice in the model by its names, and adds up.
fn objective(model: &Value, found: &Value) -> Option<i64> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (mut zones, mut nodes) = (Vec::new(), Vec::new());
    let mut sum = 0;
    for item in list(&model["items"]) {
        let placements = list(&found["placements"]);
        let at = placements.iter().find(|at| {
            let name = format!("{}/{}", at["component"].as_str().unwrap_or(""), at["replica"]);
            item["id"] == name.as_str()
        })?;
        let node = format!("{}/{}", at["site"].as_str()?, at["node"].as_str()?);
        let number = list(&model["nodes"]).iter().position(|one| one["id"] == node.as_str())?;
        let candidates = list(&item["candidates"]);
        let candidate =
            candidates.iter().find(|one| one["node"] == number && one["engine"] == at["engine"])?;
        sum += candidate["value"].as_i64()?;
        zones.push(usize::try_from(model["nodes"][number]["zone"].as_u64()?).ok()?);
        nodes.push(number);
    }
    for edge in list(&model["edges"]) {
        let end = |key: &str| Some(zones[usize::try_from(edge[key].as_u64()?).ok()?]);
        let cost = model["zone_cost"][end("a")?][end("b")?].as_i64()?;
        sum -= edge["traffic"].as_i64()? * cost;
    }
    for group in list(&model["scatter"]) {
        let items: Vec<usize> = serde_json::from_value(group["items"].clone()).ok()?;
        let places = if group["scope"] == "node" { &nodes } else { &zones };
        let pairs = (0..items.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let met = pairs.filter(|(a, b)| places[items[*a]] == places[items[*b]]).count();
        sum -= group["cost"].as_i64()? * i64::try_from(met).ok()?;
    }
    Some(sum - load(model, &nodes)?)
}

/// What the load of the nodes costs that were chosen for the items.
fn load(model: &Value, nodes: &[usize]) -> Option<i64> {
    let (steps, of_nodes) = (model["load"]["steps"].as_array()?, &model["load"]["nodes"]);
    let cost = |load: i64| -> Option<i64> {
        let above = |step: &Value| Some((load - step["above"].as_i64()?).max(0));
        steps.iter().map(|step| Some(step["cost"].as_i64()? * above(step)?)).sum()
    };
    let mut loads = std::collections::BTreeMap::new();
    for (item, node) in model["items"].as_array()?.iter().zip(nodes) {
        let share = |(name, whole): (&String, &Value)| {
            Some(item["demand"][name].as_i64().unwrap_or(0) * 1000 / whole.as_i64()?)
        };
        let shares = of_nodes[*node]["whole"].as_object()?.iter().map(share);
        let most = shares.collect::<Option<Vec<i64>>>()?.into_iter().max().unwrap_or(0);
        let counted = item["loads"] == true;
        *loads.entry(*node).or_insert(0) += if counted { most.min(1000) } else { 0 };
    }
    let of_node = |(node, load): (usize, i64)| {
        let before = of_nodes[node]["before"].as_i64()?;
        Some(cost(before + load)? - cost(before)?)
    };
    loads.into_iter().map(of_node).sum()
}

#[test]
fn the_same_seed_makes_the_same_files() {
    let (one, two) = (folder("", ""), folder("", ""));
    for folder in [&one, &two] {
        let made = "sim instance --sites 3 --nodes 9 --components 4 --seed 7 --dir made";
        assert_eq!(tombolo(folder.path(), made).status.code(), Some(0));
    }
    for file in ["made/topology.yaml", "made/app.yaml"] {
        let read = |folder: &TempDir| fs::read(folder.path().join(file)).expect("a file");
        assert_eq!(read(&one), read(&two), "{file}");
    }
    assert_eq!(tombolo(one.path(), "validate made").status.code(), Some(0));
    check(
        &one,
        "sim instance --sites 3 --nodes 2 --components 1 --dir x",
        expect![[r#"
        2
        --
        error: 2 nodes are too few for 3 sites
    "#]],
    );
    check(
        &one,
        "sim instance --sites 0 --nodes 2 --components 1 --dir x",
        expect![[r#"
        2
        --
        error: --sites 0: from 1 to 10000
    "#]],
    );
}
