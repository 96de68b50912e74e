//! The dashboard: a page that shows what the store counts and where every part runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::peer::Peer;
use super::web::{self, Answer};
use super::{Place, say};

const ASK_EVERY: Duration = Duration::from_millis(500);
const PAGE: &str = include_str!("dashboard.html");

pub(super) fn run(listen: &str) -> Result<(), String> {
    // Nothing until the store has answered for the first time.
    let shown = Arc::new(Mutex::new(Value::Null));
    let mut store = Peer::of("store");
    let (shared, place) = (Arc::clone(&shown), Place::own());
    web::serve(listen, move |request| {
        let shown = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match request.path.as_str() {
            "/" => Answer {
                code: 200,
                kind: "text/html; charset=utf-8",
                body: PAGE.as_bytes().to_vec(),
            },
            "/counts" if !shown.is_null() => Answer::json(&shown),
            "/healthz" if !shown.is_null() => Answer::text(200, "well"),
            "/counts" | "/healthz" => Answer::text(503, "no store has answered yet"),
            _ => Answer::text(404, "there is /, /counts and /healthz"),
        }
    })?;
    say(&format!("showing the counts on {listen}"));
    loop {
        let answer = store.ask("GET", "/counts", b"")?;
        let counts = answer.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
        if let Some(mut counts) = counts.filter(Value::is_object) {
            counts["parts"]["dashboard"] = json!(place);
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        }
        std::thread::sleep(ASK_EVERY);
    }
}
