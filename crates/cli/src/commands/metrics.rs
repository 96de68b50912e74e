//! `tombolo metrics`: which metrics a server has, and what one of them says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::args::MetricsCommand;
use crate::connection::{Connection, Query};
use crate::failure::{Exit, Failure};
use crate::output::harmless;
use crate::output::table::Grid;
use crate::shell::Shell;

use super::query::get;

const API: &str = "/prometheus/api/v1";

/// Values of a label that are shown; of more, their number says enough.
const VALUES_SHOWN: usize = 8;

pub(super) async fn run(shell: &mut Shell, command: &MetricsCommand) -> Result<Exit, Failure> {
    let connection = shell.connect().await?;
    match command {
        MetricsCommand::Ls { text } => list(shell, &connection, text.as_deref()).await,
        MetricsCommand::Describe { metric } => describe(shell, &connection, metric).await,
    }
}

async fn data(connection: &Connection, path: &str) -> Result<Value, Failure> {
    let text = get(connection, path).await?;
    let answer: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::failed(format!("the answer is not JSON: {error}")))?;
    Ok(answer["data"].clone())
}

/// Kind, unit and help. Of the parts of a histogram or a summary, those of the whole.
fn told<'a>(metadata: &'a Value, metric: &str) -> [&'a str; 3] {
    let endings = ["", "_bucket", "_count", "_sum", "_total", "_info", "_created"];
    let families = endings.iter().filter_map(|ending| metric.strip_suffix(ending));
    let found = families.map(|family| &metadata[family][0]).find(|told| told.is_object());
    let text = |name| found.and_then(|told| told[name].as_str()).unwrap_or_default();
    [text("type"), text("unit"), text("help")]
}

async fn list(
    shell: &mut Shell,
    connection: &Connection,
    text: Option<&str>,
) -> Result<Exit, Failure> {
    let names = data(connection, &format!("{API}/label/__name__/values")).await?;
    let metadata = data(connection, &format!("{API}/metadata")).await?;
    let mut grid = Grid::new(&["METRIC", "TYPE", "UNIT", "HELP"]);
    for name in names.as_array().into_iter().flatten().filter_map(Value::as_str) {
        if text.is_none_or(|text| name.contains(text)) {
            let cell = |text: &str| if text.is_empty() { "-".to_owned() } else { harmless(text) };
            let [kind, unit, help] = told(&metadata, name);
            grid.rows.push(vec![harmless(name), cell(kind), cell(unit), cell(help)]);
        }
    }
    shell.out.text(&grid.to_text())?;
    Ok(Exit::Ok)
}

async fn describe(
    shell: &mut Shell,
    connection: &Connection,
    metric: &str,
) -> Result<Exit, Failure> {
    let selector = format!("{{__name__={metric:?}}}");
    let path = Query::default().with("match[]", selector).after(&format!("{API}/series"));
    let series = data(connection, &path).await?;
    let series = series.as_array().map(Vec::as_slice).unwrap_or_default();
    if series.is_empty() {
        let failure = Failure::new(Exit::NotFound, format!("there is no metric {metric:?}"));
        return Err(failure.hint("`tombolo metrics ls` lists what there is"));
    }
    let metadata = data(connection, &format!("{API}/metadata")).await?;
    let [kind, unit, help] = told(&metadata, metric);
    for (name, text) in [("Name", metric), ("Type", kind), ("Unit", unit), ("Help", help)] {
        if !text.is_empty() {
            shell.out.line(&format!("{:<8}{}", format!("{name}:"), harmless(text)))?;
        }
    }
    shell.out.line(&format!("{:<8}{}", "Series:", series.len()))?;
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in series.iter().filter_map(Value::as_object).flatten() {
        if name != "__name__" {
            labels.entry(name).or_default().insert(value.as_str().unwrap_or_default());
        }
    }
    let mut grid = Grid::new(&["LABEL", "VALUES", "SOME OF THEM"]);
    for (name, values) in labels {
        let some: Vec<String> = values.iter().take(VALUES_SHOWN).map(|v| harmless(v)).collect();
        grid.rows.push(vec![harmless(name), values.len().to_string(), some.join(", ")]);
    }
    shell.out.text("\n")?;
    shell.out.text(&grid.to_text())?;
    Ok(Exit::Ok)
}
