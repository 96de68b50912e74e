//! The one place where the facades get their time from.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tombolo_plan::Monotonic;

/// For people to read.
pub(crate) fn time_of_day() -> Timestamp {
    Timestamp::now()
}

/// Tells how long it has run; of a test, whatever that says.
pub type Clock = Arc<dyn Fn() -> Monotonic + Send + Sync>;

pub(crate) fn start() -> Clock {
    let started = Instant::now();
    Arc::new(move || Monotonic::from_start(started.elapsed()))
}
