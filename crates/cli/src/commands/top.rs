//! `tombolo top`: how busy sites, nodes, Apps and instances are, by queries to the metrics of the server.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::args::{TopArgs, TopWhat};
use crate::connection::{Connection, Query};
use crate::failure::{Exit, Failure};
use crate::output::harmless;
use crate::output::table::Grid;
use crate::shell::Shell;

use super::query::get;

/// A rate over three minutes has samples also when a message is late.
const QUERIES: &[(Figure, &str)] = &[
    (Figure::Busy, "1 - avg by (site, node) (rate(node_cpu_seconds_total{mode=\"idle\"}[3m]))"),
    (Figure::Cores, "count by (site, node) (node_cpu_seconds_total{mode=\"idle\"})"),
    (Figure::Total, "max by (site, node) (node_memory_MemTotal_bytes)"),
    (Figure::Free, "max by (site, node) (node_memory_MemAvailable_bytes)"),
    (Figure::Watts, "sum by (site, node) (tombolo_node_power_watts)"),
    (
        Figure::Used,
        "sum by (namespace, app, component, instance, site, node) \
         (rate(container_cpu_usage_seconds_total[3m]))",
    ),
    (
        Figure::Memory,
        "sum by (namespace, app, component, instance, site, node) \
         (container_memory_working_set_bytes)",
    ),
    (
        Figure::Restarts,
        "max by (namespace, app, component, instance, site, node) \
         (kube_pod_container_status_restarts_total)",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Figure {
    Busy,
    Cores,
    Total,
    Free,
    Watts,
    Used,
    Memory,
    Restarts,
}

/// By site and node.
type NodeKey = [String; 2];
/// By namespace, App, component, instance, site and node.
type InstanceKey = [String; 6];

type Figures = BTreeMap<Figure, f64>;

/// What was answered.
#[derive(Debug, Default)]
struct Seen {
    nodes: BTreeMap<NodeKey, Figures>,
    instances: BTreeMap<InstanceKey, Figures>,
}

pub(super) async fn run(shell: &mut Shell, args: &TopArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    let mut seen = Seen::default();
    for (figure, query) in QUERIES {
        let answer = ask(&connection, query).await?;
        seen.note(*figure, &answer);
    }
    if seen.nodes.is_empty() && seen.instances.is_empty() {
        crate::output::note(
            "nothing is measured yet: agents send every minute, unless they were told \
             `--metrics off`",
        );
    }
    let grids = seen.grids(args.what);
    let count = grids.len();
    for (number, grid) in grids.iter().enumerate() {
        shell.out.text(&grid.to_text())?;
        if number + 1 < count {
            shell.out.text("\n")?;
        }
    }
    Ok(Exit::Ok)
}

async fn ask(connection: &Connection, query: &str) -> Result<Value, Failure> {
    let path = Query::default().with("query", query).after("/prometheus/api/v1/query");
    let text = get(connection, &path).await?;
    let answer: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::failed(format!("the answer is no JSON: {error}")))?;
    Ok(answer["data"]["result"].clone())
}

impl Seen {
    fn note(&mut self, figure: Figure, found: &Value) {
        for one in found.as_array().into_iter().flatten() {
            let label = |name: &str| one["metric"][name].as_str().unwrap_or_default().to_owned();
            let value = one["value"][1].as_str().and_then(|text| text.parse::<f64>().ok());
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let figures = match figure {
                Figure::Busy | Figure::Cores | Figure::Total | Figure::Free | Figure::Watts => {
                    self.nodes.entry(["site", "node"].map(label)).or_default()
                }
                Figure::Used | Figure::Memory | Figure::Restarts => {
                    let names = ["namespace", "app", "component", "instance", "site", "node"];
                    self.instances.entry(names.map(label)).or_default()
                }
            };
            figures.insert(figure, value);
        }
        // What has ended has restarts for a while and uses nothing.
        if figure == Figure::Restarts {
            self.instances.retain(|_, figures| figures.contains_key(&Figure::Memory));
        }
    }

    fn grids(&self, what: Option<TopWhat>) -> Vec<Grid> {
        let all = [
            (TopWhat::Sites, Seen::sites as fn(&Seen) -> Grid),
            (TopWhat::Nodes, Seen::nodes),
            (TopWhat::Apps, Seen::apps),
            (TopWhat::Instances, Seen::instances),
        ];
        let wanted = all.into_iter().filter(|(kind, _)| what.is_none_or(|what| what == *kind));
        wanted.map(|(_, grid)| grid(self)).collect()
    }

    fn sites(&self) -> Grid {
        let mut sites: BTreeMap<&str, Vec<&Figures>> = BTreeMap::new();
        for ([site, _], figures) in &self.nodes {
            sites.entry(site).or_default().push(figures);
        }
        let mut grid = Grid::new(&["SITE", "NODES", "CPU", "CORES", "MEMORY", "OF", "WATTS"]);
        for (site, nodes) in sites {
            let mut row = vec![harmless(site), nodes.len().to_string()];
            row.extend(of_machines(&nodes));
            grid.rows.push(row);
        }
        grid
    }

    fn nodes(&self) -> Grid {
        let mut grid = Grid::new(&["NODE", "SITE", "CPU", "CORES", "MEMORY", "OF", "WATTS"]);
        for ([site, node], figures) in &self.nodes {
            let mut row = vec![harmless(node), harmless(site)];
            row.extend(of_machines(&[figures]));
            grid.rows.push(row);
        }
        grid
    }

    fn apps(&self) -> Grid {
        let mut apps: BTreeMap<[&str; 2], Vec<&Figures>> = BTreeMap::new();
        for ([namespace, app, ..], figures) in &self.instances {
            apps.entry([namespace, app]).or_default().push(figures);
        }
        let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
        for ([namespace, app], instances) in apps {
            let sum = |figure| sum(&instances, figure);
            let mut row = vec![harmless(app), harmless(namespace), instances.len().to_string()];
            row.extend([cores(sum(Figure::Used)), bytes(sum(Figure::Memory))]);
            rows.push((sum(Figure::Used).unwrap_or(0.0), row));
        }
        busiest_first(&["APP", "NAMESPACE", "INSTANCES", "CPU", "MEMORY"], rows)
    }

    fn instances(&self) -> Grid {
        let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
        for ([namespace, app, component, instance, _, node], figures) in &self.instances {
            let figure = |figure: Figure| figures.get(&figure).copied();
            let mut row: Vec<String> =
                [instance, namespace, app, component, node].map(|text| harmless(text)).into();
            let restarts =
                figure(Figure::Restarts).map_or("-".to_owned(), |count| count.to_string());
            row.extend([cores(figure(Figure::Used)), bytes(figure(Figure::Memory)), restarts]);
            rows.push((figure(Figure::Used).unwrap_or(0.0), row));
        }
        let header =
            ["INSTANCE", "NAMESPACE", "APP", "COMPONENT", "NODE", "CPU", "MEMORY", "RESTARTS"];
        busiest_first(&header, rows)
    }
}

fn busiest_first(header: &[&str], mut rows: Vec<(f64, Vec<String>)>) -> Grid {
    // Stable: equals stay in the order of their names.
    rows.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut grid = Grid::new(header);
    grid.rows = rows.into_iter().map(|(_, row)| row).collect();
    grid
}

fn sum(all: &[&Figures], figure: Figure) -> Option<f64> {
    let values: Vec<f64> = all.iter().filter_map(|one| one.get(&figure).copied()).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// How busy they are together: a machine counts by its cores.
fn of_machines(machines: &[&Figures]) -> [String; 5] {
    let busy = machines.iter().filter_map(|one| {
        Some((
            one.get(&Figure::Busy)?.clamp(0.0, 1.0) * one.get(&Figure::Cores)?,
            one.get(&Figure::Cores)?,
        ))
    });
    let (busy, of) = busy.fold((0.0, 0.0), |(busy, of), (more, cores)| (busy + more, of + cores));
    let total = sum(machines, Figure::Total);
    let used = total.zip(sum(machines, Figure::Free)).map(|(total, free)| total - free);
    let watts = sum(machines, Figure::Watts);
    [
        if of > 0.0 { format!("{:.0}%", busy / of * 100.0) } else { "-".to_owned() },
        sum(machines, Figure::Cores).map_or("-".to_owned(), |cores| format!("{cores:.0}")),
        bytes(used),
        bytes(total),
        watts.map_or("-".to_owned(), |watts| format!("{watts:.1}")),
    ]
}

/// In thousandths, as `kubectl top` has them.
fn cores(cores: Option<f64>) -> String {
    cores.map_or("-".to_owned(), |cores| format!("{:.0}m", (cores * 1000.0).max(0.0)))
}

fn bytes(bytes: Option<f64>) -> String {
    const MEBIBYTE: f64 = 1_048_576.0;
    bytes.map_or("-".to_owned(), |bytes| format!("{:.0}Mi", (bytes / MEBIBYTE).max(0.0)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn found(labels: &[(&str, &str)], value: f64) -> Value {
        let metric: BTreeMap<_, _> = labels.iter().copied().collect();
        json!([{"metric": metric, "value": [0, value.to_string()]}])
    }

    #[test]
    fn sites_are_the_sum_of_their_nodes_and_the_busiest_comes_first() {
        let mut seen = Seen::default();
        for (node, busy, cores) in [("a", 1.0, 1.0), ("b", 0.0, 3.0)] {
            let labels = [("site", "north"), ("node", node)];
            seen.note(Figure::Busy, &found(&labels, busy));
            seen.note(Figure::Cores, &found(&labels, cores));
            seen.note(Figure::Total, &found(&labels, 2048.0 * 1048576.0));
            seen.note(Figure::Free, &found(&labels, 1024.0 * 1048576.0));
        }
        for (instance, used) in [("web-0", 0.25), ("web-1", 1.5), ("gone-0", 0.1)] {
            let app = instance.split('-').next().unwrap();
            let labels = [
                ("namespace", "shop"),
                ("app", app),
                ("component", "web"),
                ("instance", instance),
                ("site", "north"),
                ("node", "a"),
            ];
            seen.note(Figure::Used, &found(&labels, used));
            if instance != "gone-0" {
                seen.note(Figure::Memory, &found(&labels, 64.0 * 1048576.0));
            }
            seen.note(Figure::Restarts, &found(&labels, 2.0));
        }
        let text: Vec<String> = seen.grids(None).iter().map(Grid::to_text).collect();
        expect![[r#"
            SITE    NODES   CPU   CORES   MEMORY   OF       WATTS
            north   2       25%   4       2048Mi   4096Mi   -

            NODE   SITE    CPU    CORES   MEMORY   OF       WATTS
            a      north   100%   1       1024Mi   2048Mi   -
            b      north   0%     3       1024Mi   2048Mi   -

            APP   NAMESPACE   INSTANCES   CPU     MEMORY
            web   shop        2           1750m   128Mi

            INSTANCE   NAMESPACE   APP   COMPONENT   NODE   CPU     MEMORY   RESTARTS
            web-1      shop        web   web         a      1500m   64Mi     2
            web-0      shop        web   web         a      250m    64Mi     2
        "#]]
        .assert_eq(&text.join("\n"));
        assert_eq!(seen.grids(Some(TopWhat::Apps)).len(), 1);
    }
}
