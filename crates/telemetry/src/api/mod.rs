//! Prometheus' HTTP API over a [`Store`]: [`router`], which is served below `/prometheus`.
//!
//! Whoever puts the server together has asked who may do what, and leaves an [`Asker`] among the extensions
//! of each request: which samples may be seen, and under which labels samples are written. Without one
//! nothing is answered. Words, shapes and status codes are those of Prometheus 3.

mod asker;
mod form;
mod query;
mod refusal;
mod remote;
mod series;
mod told;

use std::future::{Ready, ready};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, get, post};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use crate::store::{Config, Store};
use crate::wire::Limits;
pub use asker::{Asker, Sees, Stamp};
use refusal::Refusal;

/// What one request may cost.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Samples that one query reads. As many as Prometheus allows.
    pub samples_max: u64,
    /// Values that one query calculates, of all series at all steps: eight bytes each.
    pub steps_max: u64,
    /// Bytes of the answer to one query.
    pub answer_bytes_max: usize,
    /// How long a query may take when it does not say less.
    pub query_time_max: Duration,
    /// Queries at once. More would take the processor from the rest of the server.
    pub queries: usize,
    /// Bytes of all messages that are written at once, as they are unpacked.
    pub write_bytes: u32,
    pub wire: Limits,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            samples_max: 50_000_000,
            steps_max: 20_000_000,
            answer_bytes_max: 128 << 20,
            query_time_max: Duration::from_secs(120),
            queries: 4,
            write_bytes: 128 << 20,
            wire: Limits::default(),
        }
    }
}

/// The samples of a server. The store is opened when it is first asked for.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    config: Config,
    bounds: Bounds,
    store: OnceCell<Store>,
    queries: Arc<Semaphore>,
    /// Queries that ended early because nobody waited any more.
    cancelled: AtomicU64,
    writes: Semaphore,
    /// What time it is, in milliseconds since 1970.
    now_ms: fn() -> i64,
}

impl Service {
    pub fn new(folder: PathBuf, config: Config, bounds: Bounds, now_ms: fn() -> i64) -> Self {
        let shared = Shared {
            folder,
            config,
            bounds,
            store: OnceCell::new(),
            queries: Arc::new(Semaphore::new(bounds.queries)),
            cancelled: AtomicU64::new(0),
            writes: Semaphore::new(bounds.write_bytes as usize),
            now_ms,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The store, opened if it is not. A start after a crash reads the log, which may take a second.
    pub async fn store(&self) -> Result<&Store, Refusal> {
        let shared = &self.shared;
        let opened = shared.store.get_or_try_init(|| async {
            let (folder, config) = (shared.folder.clone(), shared.config);
            let opened = tokio::task::spawn_blocking(move || Store::open(&folder, config)).await;
            let opened = opened.map_err(|_| Refusal::internal("the store of samples stumbled"))?;
            opened.map_err(|error| {
                tracing::error!(?error, "the samples cannot be opened");
                Refusal::internal(format!("the samples cannot be opened: {error}"))
            })
        });
        opened.await
    }

    /// The store, if somebody has asked for it before.
    pub fn opened(&self) -> Option<&Store> {
        self.shared.store.get()
    }

    /// Whether there are samples from an earlier run, so that it is worth to open them ahead.
    pub fn has_samples(&self) -> bool {
        self.shared.folder.join("log").exists()
    }

    fn now_ms(&self) -> i64 {
        (self.shared.now_ms)()
    }

    /// A turn for something that takes a processor; it goes into the thread that works, and ends with it.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let turn = Arc::clone(&self.shared.queries).acquire_owned().await;
        turn.map_err(|_| Refusal::timeout("query timed out in query queue"))
    }

    fn bounds(&self) -> &Bounds {
        &self.shared.bounds
    }
}

/// Where the API is.
pub const ROOT: &str = "/prometheus";

pub fn router(service: Service) -> Router {
    let api = Router::new()
        .route("/query", get(query::instant).post(query::instant))
        .route("/query_range", get(query::range).post(query::range))
        .route("/query_exemplars", get(query::exemplars).post(query::exemplars))
        .route("/format_query", get(query::format).post(query::format))
        .route("/parse_query", get(query::parse).post(query::parse))
        .route("/series", get(series::series).post(series::series))
        .route("/labels", get(series::labels).post(series::labels))
        .route("/label/{name}/values", get(series::values))
        .route("/metadata", get(told::metadata))
        .route("/targets", get(told::targets))
        .route("/targets/metadata", get(told::no_list))
        .route("/rules", get(told::rules))
        .route("/alerts", get(told::alerts))
        .route("/status/buildinfo", get(told::build))
        .route("/status/runtimeinfo", get(told::runtime))
        .route("/status/tsdb", get(told::statistics))
        .route("/write", post(remote::write))
        .route("/read", post(remote::read))
        .route("/{*rest}", any(nothing))
        .layer(DefaultBodyLimit::disable())
        .with_state(service);
    Router::new().nest(&format!("{ROOT}/api/v1"), api)
}

fn nothing() -> Ready<Refusal> {
    ready(Refusal::not_found("there is no such path in the API of Prometheus"))
}

#[cfg(test)]
mod tests;
