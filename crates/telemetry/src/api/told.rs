//! What there is beside samples: descriptions of metrics, how much is stored, and what Prometheus has that
//! is empty here, in its shapes.

use std::collections::BTreeSet;
use std::future::{Ready, ready};
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde_json::{Map, Value, json};
use tombolo_series::{NAME, Span};

use super::form::Form;
use super::query::querier;
use super::refusal::{Refusal, json as written};
use super::{Asker, Sees, Service};

/// The language and the API are those of this Prometheus, which the tests compare with. Grafana asks.
const LIKE_PROMETHEUS: &str = "3.15.0";

/// For handlers that wait for nothing.
fn told(answer: &Value) -> Ready<Response> {
    ready(data(answer))
}

fn data(data: &Value) -> Response {
    written(json!({"status": "success", "data": data}).to_string())
}

pub(super) async fn metadata(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let form = Form::of_query(query.as_deref());
    let (limit, metric) = (form.limit("limit")?, form.get("metric"));
    let known = service.store().await?.metadata();
    let seen: Option<BTreeSet<String>> = match asker.sees {
        Sees::Everything => None,
        Sees::Only { .. } | Sees::Nothing => {
            let querier = querier(&service, &asker).await?;
            let looking = tokio::task::spawn_blocking(move || {
                let all = querier.map(|querier| querier.select_labels(&[], Span::ALL));
                let names = all.into_iter().flatten().map(|labels| labels.get(NAME).to_owned());
                names.collect()
            });
            let names = looking.await;
            Some(names.map_err(|_| Refusal::internal("the search for metrics stumbled"))?)
        }
    };
    let told = known.values().filter(|told| {
        (metric.is_empty() || told.metric == metric)
            && seen.as_ref().is_none_or(|seen| has(seen, &told.metric))
    });
    let rows = told.take(limit).map(|told| {
        let row = json!([{"type": told.kind.word(), "help": told.help, "unit": told.unit}]);
        (told.metric.clone(), row)
    });
    Ok(data(&Value::Object(rows.collect::<Map<_, _>>())))
}

/// Whether series of the metric are seen: of a histogram or a summary they have other names than itself.
fn has(seen: &BTreeSet<String>, metric: &str) -> bool {
    let endings = ["", "_bucket", "_count", "_sum", "_total", "_info", "_created"];
    endings.iter().any(|ending| seen.contains(&format!("{metric}{ending}")))
}

/// Nothing is scraped by the server itself: agents do that.
pub(super) fn targets() -> Ready<Response> {
    told(&json!({"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}}))
}

pub(super) fn rules() -> Ready<Response> {
    told(&json!({"groups": []}))
}

pub(super) fn alerts() -> Ready<Response> {
    told(&json!({"alerts": []}))
}

pub(super) fn no_list() -> Ready<Response> {
    told(&json!([]))
}

pub(super) fn build() -> Ready<Response> {
    told(&json!({
        "version": LIKE_PROMETHEUS, "revision": "", "branch": "", "buildUser": "", "buildDate": "",
        "goVersion": "", "application": concat!("Tombolo ", env!("CARGO_PKG_VERSION")),
    }))
}

pub(super) async fn runtime(State(service): State<Service>) -> Result<Response, Refusal> {
    let config = service.shared.config;
    let statistics = service.store().await?.statistics();
    let hours = config.retention_ms / 3_600_000;
    Ok(data(&json!({
        "timeSeriesCount": statistics.series,
        "storageRetention": format!("{hours}h or {} bytes", config.bytes_max),
        "reloadConfigSuccess": true,
    })))
}

/// How many of each are told.
const TOP: usize = 10;

pub(super) async fn statistics(
    State(service): State<Service>,
    Extension(asker): Extension<Asker>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    if asker.sees != Sees::Everything {
        return Err(Refusal::forbidden(
            "how much everybody stores is told to those who see it all",
        ));
    }
    let top = match Form::of_query(query.as_deref()).limit("limit")? {
        usize::MAX => TOP,
        limit => limit,
    };
    let store = service.store().await?.clone();
    let looking = tokio::task::spawn_blocking(move || {
        (store.cardinality(), store.statistics(), store.notices())
    });
    let told = looking.await.map_err(|_| Refusal::internal("the statistics stumbled"))?;
    let (cardinality, statistics, notices) = told;
    let most = |rows: Vec<(String, usize)>| -> Vec<Value> {
        let mut rows = rows;
        rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rows.truncate(top);
        rows.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let names = cardinality.iter().find(|(name, _)| name == NAME);
    let pairs = cardinality.iter().flat_map(|(name, values)| {
        values.iter().map(move |(value, count)| (format!("{name}={value}"), *count))
    });
    let values = cardinality.iter().map(|(name, values)| (name.clone(), values.len()));
    let pair_count: usize = cardinality.iter().map(|(_, values)| values.len()).sum();
    let (from, to) = statistics.span.map_or((0, 0), |span| (span.from_ms, span.to_ms));
    Ok(data(&json!({
        "headStats": {
            "numSeries": statistics.series, "numLabelPairs": pair_count, "chunkCount": 0,
            "minTime": from, "maxTime": to,
        },
        "seriesCountByMetricName": most(names.map(|(_, v)| v.clone()).unwrap_or_default()),
        "labelValueCountByLabelName": most(values.collect()),
        "memoryInBytesByLabelName": [],
        "seriesCountByLabelValuePair": most(pairs.collect()),
        "tombolo": {
            "blocks": statistics.blocks, "blockBytes": statistics.block_bytes,
            "logBytes": statistics.log_bytes, "samplesTaken": statistics.samples_taken,
            "queriesCancelled": service.shared.cancelled.load(Ordering::Relaxed),
            "notices": notices,
        },
    })))
}
