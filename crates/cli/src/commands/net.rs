//! `tombolo net`: how far sites are from each other, how that is known, and the best way between two.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tombolo_model::condition::{self, READY};
use tombolo_model::{ConditionStatus, FigureKind, Link, keys};

use crate::{
    args::{NetArgs, NetCommand},
    catalogue::encode,
    failure::{Exit, Failure},
    moment,
    output::{self, Format, harmless, object, table::Grid},
    shell::Shell,
};

/// A wider matrix fits no terminal.
const MATRIX_MAX: usize = 16;

pub(super) async fn run(shell: &mut Shell, args: &NetArgs) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    if let Some(NetCommand::Path { from, to }) = &args.command {
        let path = format!("/alto/best/{}/{}", encode(from), encode(to));
        let found = connection.get(&path).await?;
        shell.out.text(&way(&found[from][to]))?;
        return Ok(Exit::Ok);
    }
    let found = connection.get(&format!("/apis/{}/links", keys::API_VERSION)).await?;
    let links: Vec<Link> = serde_json::from_value(found["items"].clone()).map_err(|error| {
        Failure::new(Exit::Failed, format!("the links cannot be read: {error}"))
    })?;
    let text = match args.output {
        Format::Json => object::json(&found["items"])?,
        Format::Table if sites(&links).len() <= MATRIX_MAX => matrix(&links).to_text(),
        Format::Table | Format::Wide => lines(&links, moment::now()).to_text(),
        Format::Yaml | Format::Name => {
            return Err(Failure::usage("the network is printed as table, wide or json"));
        }
    };
    shell.out.text(&text)?;
    if links.is_empty() {
        shell.out.flush()?;
        output::note(
            "no link is declared, and no site measures: name a probePort in the spec of a site",
        );
    }
    Ok(Exit::Ok)
}

fn sites(links: &[Link]) -> BTreeSet<&str> {
    links.iter().flat_map(|link| &link.spec.ends).map(|end| end.name.as_str()).collect()
}

/// The delay one way, with a mark for how it is known.
fn delay(link: &Link) -> String {
    let conditions = link.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if condition::find(conditions, READY).is_some_and(|it| it.status == ConditionStatus::False) {
        return "down".to_owned();
    }
    let status = link.status.as_ref().filter(|_| link.is_found());
    match status.and_then(|status| Some((status.kind, status.measured.latency?))) {
        Some((Some(FigureKind::Estimated), latency)) => format!("~{latency}"),
        Some((_, latency)) => latency.to_string(),
        None => link.quality().latency.map_or_else(|| "?".to_owned(), |it| format!("={it}")),
    }
}

fn matrix(links: &[Link]) -> Grid {
    let places: Vec<&str> = sites(links).into_iter().collect();
    let mut cells: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for link in links {
        let [one, other] = link.spec.ends.as_slice() else { continue };
        let (a, b) = (one.name.as_str(), other.name.as_str());
        cells.insert((a, b), delay(link));
        if !link.spec.one_way {
            cells.insert((b, a), delay(link));
        }
    }
    let mut header = vec!["FROM"];
    header.extend(&places);
    let mut grid = Grid::new(&header);
    for from in &places {
        let cell = |to: &&str| match from == to {
            true => "-".to_owned(),
            false => cells.get(&(*from, *to)).cloned().unwrap_or_else(|| "?".to_owned()),
        };
        let row = std::iter::once(harmless(from)).chain(places.iter().map(cell));
        grid.rows.push(row.collect());
    }
    grid
}

fn lines(links: &[Link], now: jiff::Timestamp) -> Grid {
    let header =
        ["LINK", "FROM", "TO", "LATENCY", "SPREAD", "P95", "LOSS", "BANDWIDTH", "AGE", "SAMPLES"];
    let mut grid = Grid::new(&header);
    for link in links {
        let [one, other] = link.spec.ends.as_slice() else { continue };
        let status = link.status.clone().unwrap_or_default();
        let said = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let quality = link.quality();
        grid.rows.push(vec![
            harmless(link.metadata.name.as_deref().unwrap_or_default()),
            harmless(&one.name),
            harmless(&other.name),
            delay(link),
            said(status.spread.map(|it| it.to_string())),
            said(status.latency_p95.map(|it| it.to_string())),
            said(quality.loss.map(|loss| format!("{loss}%"))),
            said(quality.bandwidth.map(|it| it.to_string())),
            said(status.measured_at.map(|at| moment::age(&at.0.to_string(), now))),
            said(status.samples.map(|it| it.to_string())),
        ]);
    }
    grid
}

fn way(found: &Value) -> String {
    let places: Vec<String> = found["path"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|place| place.as_str().map(harmless))
        .collect();
    let mut text = places.join(" -> ");
    let figures =
        [("latency_ms", " ms one way"), ("bandwidth_bps", " bit/s"), ("loss_percent", " % lost")];
    let told: Vec<String> = figures
        .iter()
        .filter_map(|(field, unit)| found[*field].as_f64().map(|it| format!("{it}{unit}")))
        .collect();
    if !told.is_empty() {
        text.push_str(&format!(": {}", told.join(", ")));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn link(ends: [&str; 2], spec: Value, status: Value) -> Link {
        let mut spec = spec;
        spec["ends"] = json!(ends.map(|name| json!({"kind": "Site", "name": name})));
        let name = ends.join("-");
        serde_json::from_value(json!({"apiVersion": keys::API_VERSION, "kind": "Link",
            "metadata": {"name": name}, "spec": spec, "status": status}))
        .unwrap()
    }

    fn some() -> Vec<Link> {
        let down = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "ProbesLost",
            "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]});
        vec![
            link(["a", "b"], json!({"latency": "2ms"}), json!({})),
            link(
                ["a", "c"],
                json!({}),
                json!({"latency": "10ms", "kind": "measured",
                "spread": "1ms", "latencyP95": "12ms", "loss": 0.5, "samples": 40,
                "measuredAt": "2030-01-31T11:59:00Z"}),
            ),
            link(["b", "c"], json!({}), json!({"latency": "11ms", "kind": "estimated"})),
            link(["c", "d"], json!({"oneWay": true}), down),
        ]
    }

    #[test]
    fn a_delay_shows_how_it_is_known() {
        expect![[r"
            FROM   a      b       c       d
            a      -      =2ms    10ms    ?
            b      =2ms   -       ~11ms   ?
            c      10ms   ~11ms   -       down
            d      ?      ?       ?       -
        "]]
        .assert_eq(&matrix(&some()).to_text());
    }

    #[test]
    fn a_line_says_all_that_is_known_of_a_link() {
        let now = "2030-01-31T12:00:00Z".parse().unwrap();
        expect![[r"
            LINK   FROM   TO   LATENCY   SPREAD   P95    LOSS   BANDWIDTH   AGE   SAMPLES
            a-c    a      c    10ms      1ms      12ms   0.5%   -           60s   40
        "]]
        .assert_eq(&lines(&some()[1..2], now).to_text());
    }

    #[test]
    fn a_way_is_told_in_one_line() {
        let found = json!({"path": ["a", "c"], "latency_ms": 10.5, "loss_percent": 0.5});
        assert_eq!(way(&found), "a -> c: 10.5 ms one way, 0.5 % lost\n");
    }
}
