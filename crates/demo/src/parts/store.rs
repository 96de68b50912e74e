//! The store: adds up what detectors have seen, keeps it in its folder, and tells whoever asks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::detector::Seen;
use super::web::{self, Answer, Request};
use super::{Place, say};

const KEEP_EVERY: Duration = Duration::from_secs(1);
const FILE: &str = "counts.json";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Counts {
    frames: u64,
    good: u64,
    faulty: u64,
    camera: Place,
    detector: Place,
}

pub(super) fn run(listen: &str) -> Result<(), String> {
    let folder = PathBuf::from(std::env::var_os("TOMBOLO_DIR").unwrap_or_else(|| ".".into()));
    let mut kept = read(&folder);
    say(&format!("beginning with {} frames; listening on {listen}", kept.frames));
    let counts = Arc::new(Mutex::new(kept.clone()));
    let (shared, place) = (Arc::clone(&counts), Place::own());
    web::serve(listen, move |request| answer(request, &shared, &place))?;
    loop {
        std::thread::sleep(KEEP_EVERY);
        let now = counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if now != kept {
            keep(&folder, &now)?;
            kept = now;
        }
    }
}

fn answer(request: &Request, counts: &Mutex<Counts>, place: &Place) -> Answer {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/seen") => match serde_json::from_slice::<Seen>(&request.body) {
            Ok(seen) => {
                counts.add(seen);
                Answer::text(200, "")
            }
            Err(error) => Answer::text(400, &error.to_string()),
        },
        ("GET", "/counts") => Answer::json(&json!({
            "frames": counts.frames, "good": counts.good, "faulty": counts.faulty,
            "parts": {"camera": counts.camera, "detector": counts.detector, "store": place},
        })),
        ("GET", "/healthz") => Answer::text(200, "well"),
        _ => Answer::text(404, "there is /seen, /counts and /healthz"),
    }
}

impl Counts {
    fn add(&mut self, seen: Seen) {
        self.frames = self.frames.saturating_add(seen.frames);
        self.good = self.good.saturating_add(seen.good);
        self.faulty = self.faulty.saturating_add(seen.faulty);
        self.detector = seen.detector;
        // A detector that is new has no camera yet.
        if seen.camera != Place::default() {
            self.camera = seen.camera;
        }
    }
}

/// What an earlier start kept; nothing, if this is the first one here.
fn read(folder: &Path) -> Counts {
    let text = std::fs::read(folder.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn keep(folder: &Path, counts: &Counts) -> Result<(), String> {
    let text = serde_json::to_vec(counts).unwrap_or_default();
    let draft = folder.join("counts.json.new");
    std::fs::write(&draft, text)
        .and_then(|()| std::fs::rename(&draft, folder.join(FILE)))
        .map_err(|error| format!("cannot keep the counts: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_and_goes_on_after_a_restart() {
        let counts = Mutex::new(Counts::default());
        let ask = |method: &str, path: &str, body: &[u8]| {
            let (method, path, body) = (method.into(), path.into(), body.to_vec());
            let request = Request { method, path, body, last: false };
            answer(&request, &counts, &Place { site: "cloud".into(), node: "c1".into() })
        };
        let seen = br#"{"frames":5,"good":2,"faulty":1,"camera":{"site":"a","node":"b"}}"#;
        assert_eq!(ask("POST", "/seen", seen).code, 200);
        assert_eq!(ask("POST", "/seen", br#"{"frames":5}"#).code, 200);
        assert_eq!(ask("POST", "/seen", b"nothing").code, 400);
        assert_eq!(ask("GET", "/elsewhere", b"").code, 404);
        let told: serde_json::Value =
            serde_json::from_slice(&ask("GET", "/counts", b"").body).unwrap();
        assert_eq!(
            (&told["frames"], &told["good"], &told["faulty"]),
            (&json!(10), &json!(2), &json!(1))
        );
        assert_eq!(told["parts"]["camera"]["node"], "b");
        assert_eq!(told["parts"]["store"]["site"], "cloud");

        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), Counts::default());
        let counts = counts.into_inner().unwrap();
        keep(folder.path(), &counts).unwrap();
        assert_eq!(read(folder.path()), counts);
    }
}
