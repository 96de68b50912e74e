//! `/metrics`: what the server has answered and what it holds, in the text form of Prometheus, under the names that
//! Kubernetes has for the same. For administrators: it tells what others ask for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use tombolo_store::At;

use crate::answer::Answer;
use crate::request::{Path, Query, parse_path, verb};
use crate::server::Api;

/// Of duration, in seconds: from what memory answers to what a client gives up on.
const BUCKETS: [f64; 7] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0];
/// Each costs some hundred bytes. What comes when there are so many is counted as `other`.
const SERIES_MAX: usize = 2000;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, Requests>>,
    watches: Arc<AtomicUsize>,
}

/// What a request was, as far as it is told apart from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    verb: &'static str,
    group: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    count: u64,
    seconds: f64,
    /// How many took no longer.
    within: [u64; BUCKETS.len()],
}

/// A watch, for as long as it lasts.
#[derive(Debug)]
pub(crate) struct Watching(Arc<AtomicUsize>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Asked {
    labels: Labels,
    since: Instant,
}

impl Asked {
    /// Only what is served gets a name of its own: anybody can ask for anything.
    pub(crate) fn of(api: &Api, method: &Method, uri: &http::Uri) -> Asked {
        let query = uri.query().unwrap_or_default();
        let labels = match parse_path(uri.path()) {
            Path::Resource(target) => {
                let kinds = api.registry.now();
                let served = kinds.find(&target.group, &target.version, &target.resource).is_some();
                let query = Query { watch: is_watch(query), ..Query::default() };
                let verb = verb(method, &target, &query).map_or("other", |verb| verb.as_str());
                match served {
                    true => Labels {
                        verb,
                        group: target.group,
                        resource: target.resource,
                        subresource: target.subresource.unwrap_or_default(),
                        code: 0,
                    },
                    false => Labels { verb, ..Labels::default() },
                }
            }
            _ => Labels { verb: "get", ..Labels::default() },
        };
        Asked { labels, since: Instant::now() }
    }

    pub(crate) fn answered(self, metrics: &Metrics, code: u16) {
        metrics.count(Labels { code, ..self.labels }, self.since.elapsed());
    }
}

fn is_watch(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

impl Metrics {
    fn count(&self, labels: Labels, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = requests.len() >= SERIES_MAX && !requests.contains_key(&labels);
        let labels = match is_full {
            true => Labels { verb: "other", code: labels.code, ..Labels::default() },
            false => labels,
        };
        let counted = requests.entry(labels).or_default();
        let seconds = took.as_secs_f64();
        counted.count += 1;
        counted.seconds += seconds;
        for (within, bound) in counted.within.iter_mut().zip(BUCKETS) {
            *within += u64::from(seconds <= bound);
        }
    }

    pub(crate) fn watching(&self) -> Watching {
        self.watches.fetch_add(1, Ordering::Relaxed);
        Watching(self.watches.clone())
    }
}

pub(crate) fn answer(api: &Api) -> Answer {
    let mut text = String::new();
    requests(&api.metrics, &mut text);
    head(&mut text, "apiserver_longrunning_requests", "gauge", "Watches that are open.");
    let watches = api.metrics.watches.load(Ordering::Relaxed);
    let _ = writeln!(text, "apiserver_longrunning_requests{{verb=\"WATCH\"}} {watches}");
    objects(api, &mut text);
    head(&mut text, "tombolo_store_revision", "counter", "Changes that the store has committed.");
    let _ = writeln!(text, "tombolo_store_revision {}", api.store.revision());
    let answer = Answer::text(text);
    Answer { content_type: "text/plain; version=0.0.4; charset=utf-8", ..answer }
}

fn head(text: &mut String, name: &str, type_: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {type_}");
}

fn requests(metrics: &Metrics, text: &mut String) {
    let requests = metrics.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
    head(text, "apiserver_request_total", "counter", "Requests that were answered.");
    for (labels, counted) in &requests {
        let _ = writeln!(text, "apiserver_request_total{{{}}} {}", labels.text(), counted.count);
    }
    let name = "apiserver_request_duration_seconds";
    head(text, name, "histogram", "From the request to the head of its answer.");
    for (labels, counted) in requests.iter().filter(|(labels, _)| labels.verb != "watch") {
        let all = labels.text();
        for (within, bound) in counted.within.iter().zip(BUCKETS) {
            let _ = writeln!(text, "{name}_bucket{{{all},le=\"{bound}\"}} {within}");
        }
        let _ = writeln!(text, "{name}_bucket{{{all},le=\"+Inf\"}} {}", counted.count);
        let _ = writeln!(text, "{name}_sum{{{all}}} {}", counted.seconds);
        let _ = writeln!(text, "{name}_count{{{all}}} {}", counted.count);
    }
}

impl Labels {
    /// Names of groups and resources are plain letters, digits, dots and dashes.
    fn text(&self) -> String {
        let Labels { verb, group, resource, subresource, code } = self;
        let verb = verb.to_uppercase();
        format!(
            "verb=\"{verb}\",group=\"{group}\",resource=\"{resource}\",subresource=\"{subresource}\",code=\"{code}\""
        )
    }
}

fn objects(api: &Api, text: &mut String) {
    let name = "apiserver_storage_objects";
    head(text, name, "gauge", "Objects that are stored.");
    let kinds = api.registry.now();
    let mut counts = BTreeMap::new();
    for served in kinds.iter().filter(|served| served.kind.view.is_none()) {
        let page = api.store.list(&served.kind.prefix(), At::Latest, None, 0);
        counts.extend(page.map(|page| (served.kind.qualified(), page.remaining)));
    }
    for (resource, count) in counts {
        let _ = writeln!(text, "{name}{{resource=\"{resource}\"}} {count}");
    }
}
