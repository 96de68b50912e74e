//! The detector: looks at each picture, and tells the store what passed the gate.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::peer::Peer;
use super::web::{self, Answer, Request};
use super::{Place, belt, say};

/// What was found is passed on this often, together.
const PASS_ON_EVERY: Duration = Duration::from_millis(250);
const TELL_EVERY: u64 = 40;

/// What goes from here to the store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) frames: u64,
    pub(super) good: u64,
    pub(super) faulty: u64,
    /// Where the last frame was taken, and where it was looked at.
    pub(super) camera: Place,
    pub(super) detector: Place,
}

#[derive(Deserialize)]
struct Head {
    camera: Place,
}

pub(super) fn run(listen: &str) -> Result<(), String> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut store = Peer::of("store");
    let (shared, place) = (Arc::clone(&seen), Place::own());
    web::serve(listen, move |request| match request.path.as_str() {
        "/frame" => look(request, &shared),
        "/healthz" => Answer::text(200, "well"),
        _ => Answer::text(404, "there is /frame and /healthz"),
    })?;
    say(&format!("looking at frames on {listen}"));
    for round in 0u64.. {
        std::thread::sleep(PASS_ON_EVERY);
        let taken = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        let told = Seen { detector: place.clone(), ..taken };
        let body = serde_json::to_vec(&told).unwrap_or_default();
        if store.ask("POST", "/seen", &body)?.is_none() {
            put_back(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), told);
        } else if round % TELL_EVERY == 0 {
            say(&format!("frames passed on to the store: {}", told.frames));
        }
    }
    Ok(())
}

fn look(request: &Request, seen: &Mutex<Seen>) -> Answer {
    let mut parts = request.body.splitn(2, |byte| *byte == b'\n');
    let head = parts.next().and_then(|head| serde_json::from_slice::<Head>(head).ok());
    let (Some(head), Some(pixels)) = (head, parts.next()) else {
        return Answer::text(400, "expected a line of JSON and the pixels");
    };
    let found = belt::find(pixels);
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.frames += 1;
    seen.good += found.good;
    seen.faulty += found.faulty;
    seen.camera = head.camera;
    Answer::text(200, "")
}

/// What the store did not take is told the next time.
fn put_back(seen: &mut Seen, untold: Seen) {
    seen.frames += untold.frames;
    seen.good += untold.good;
    seen.faulty += untold.faulty;
    if seen.camera == Place::default() {
        seen.camera = untold.camera;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_looked_at_and_what_is_none_is_refused() {
        let seen = Mutex::new(Seen::default());
        let post = |body: Vec<u8>| {
            let (method, path) = ("POST".into(), "/frame".into());
            look(&Request { method, path, body, last: false }, &seen).code
        };
        let mut passed = 0;
        for number in 0..20 {
            let head = br#"{"number":1,"camera":{"site":"far-edge","node":"line-1"}}"#;
            let frame = belt::frame(number);
            let found = belt::find(&frame);
            passed += found.good + found.faulty;
            assert_eq!(post([head, &b"\n"[..], &frame].concat()), 200);
        }
        assert_eq!(post(b"no json\n".to_vec()), 400);
        assert_eq!(post(Vec::new()), 400);
        let seen = seen.lock().unwrap();
        assert_eq!((seen.frames, seen.good + seen.faulty), (20, passed));
        assert_eq!(seen.camera.site, "far-edge");
    }
}
